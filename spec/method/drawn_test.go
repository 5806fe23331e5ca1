package method

import (
	"context"
	"testing"

	"foretoken/spec"
	drafting "foretoken/spec/draft"
	"foretoken/spec/spectest"
)

const drawnVocab, drawnTokens = 3, 4

func drawnPair() (*spectest.Target, *spectest.DraftModel) {
	target := spectest.NewTarget(&spectest.Script{Vocab: drawnVocab, Steps: 1e6}, 32, 32)
	draft := spectest.NewDraft(target, 32, 0.6)
	draft.Accept = true
	return target, draft
}

// joint returns the exact distribution of the first drawnTokens tokens after a prompt. The last token is the least
// significant digit of the index.
func joint(s *spectest.Script, sampling spec.Sampling) []float64 {
	all := []float64{1}
	at := []spectest.Prefix{spectest.PrefixOf([]int32{1, 2})}
	for range drawnTokens {
		var next []float64
		var prefixes []spectest.Prefix
		for i, p := range all {
			for token, x := range spectest.Distribution(sampling, s.Logits(at[i], 0)) {
				next, prefixes = append(next, p*x), append(prefixes, at[i].Then(int32(token)))
			}
		}
		all, at = next, prefixes
	}
	return all
}

// outcomes counts the first drawnTokens tokens after a prompt over seeds, with the index of joint.
func outcomes(t *testing.T, target *spectest.Target, p spec.Parts, sampling spec.Sampling) ([]int, spec.Stats) {
	t.Helper()
	g, err := spec.New(target, p)
	if err != nil {
		t.Fatal(err)
	}
	counts := make([]int, 81)
	var sum spec.Stats
	for seed := range uint64(5000) {
		sampling.Seed = seed
		var out []int32
		stats, err := g.Generate(context.Background(), []int32{1, 2},
			spec.Options{Sampling: sampling, MaxTokens: drawnTokens + 3}, func(e *spec.Event) error {
				out = append(out, e.Tokens...)
				return nil
			})
		if err != nil {
			t.Fatal(err)
		}
		cell := 0
		for _, token := range out[:drawnTokens] {
			cell = cell*drawnVocab + int(token)
		}
		counts[cell]++
		sum.Add(&stats)
	}
	return counts, sum
}

// TestDroppedTokensSpoilTheDistribution shows why sampled chains refuse rules that cut: one that drops sampled tokens
// by their values fails TestJointDistributionOfEveryDrawnDraft.
func TestDroppedTokensSpoilTheDistribution(t *testing.T) {
	target, draft := drawnPair()
	sampling := spec.Sampling{Temperature: 1}
	rule := dropper{spec.Fixed{Levels: 3, Width: 1, Nodes: 4}}
	chain := &drafting.SampledChain{Model: draft, Rule: rule}
	counts, _ := outcomes(t, target, spec.Parts{Drafter: dropping{chain}, Verifier: spec.Rejection{}, Policy: rule},
		sampling)
	if p := spectest.PValue(counts, joint(target.Script, sampling)); p > 1e-9 {
		t.Errorf("dropping tokens goes unnoticed: p = %v", p)
	}
	// A sampled chain keeps the token at which such a rule stops.
	counts, _ = outcomes(t, target, spec.Parts{Drafter: chain, Verifier: spec.Rejection{}, Policy: rule}, sampling)
	spectest.ChiSquare(t, "a sampled chain with a rule that cuts", counts, joint(target.Script, sampling))
}

// dropper refuses token 0.
type dropper struct{ spec.Fixed }

func (dropper) Stop(drawn []spec.Drawn) bool { return drawn[len(drawn)-1].Token == 0 }

// dropping drops the token at which the rule of its chain stops.
type dropping struct{ *drafting.SampledChain }

func (d dropping) Begin(ctx context.Context, o spec.SessionOptions) (spec.DraftSession, error) {
	session, err := d.SampledChain.Begin(ctx, o)
	return droppingSession{session, d.Rule}, err
}

type droppingSession struct {
	spec.DraftSession
	rule drafting.ChainRule
}

func (d droppingSession) Propose(ctx context.Context, seq []int32, b spec.Budget) (*spec.Draft, error) {
	p, err := d.DraftSession.Propose(ctx, seq, b)
	if err == nil && len(p.Drawn) > 0 && d.rule.Stop(p.Drawn) {
		t, last := p.Tree, p.Tree.Len()-1
		t.Tokens, t.Parents, t.Depths, t.Scores = t.Tokens[:last], t.Parents[:last], t.Depths[:last], t.Scores[:last]
		p.Drawn = p.Drawn[:last-1]
	}
	return p, err
}
