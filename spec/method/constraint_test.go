package method

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"foretoken/spec"
	drafting "foretoken/spec/draft"
	"foretoken/spec/spectest"
)

// hashing is a constraint whose word on a node is a hash of all tokens before it: which tokens are left, and what is
// added to some. One that is asked about another sequence says something else.
type hashing struct {
	vocab int
	at    spectest.Prefix
	asked int
	paths []spectest.Prefix // scratch
}

func (g *hashing) Adjust(tree *spec.Tree, s *spec.Adjustment) error {
	g.asked++
	g.paths = append(g.paths[:0], g.at)
	for i := range tree.Tokens {
		if i > 0 {
			g.paths = append(g.paths, g.paths[tree.Parents[i]].Then(tree.Tokens[i]))
		}
		mask, common, own := g.says(g.paths[i])
		if mask == nil {
			s.Which = append(s.Which, -1)
		} else {
			s.Which = append(s.Which, int32(len(s.Masks)))
			s.Masks = append(s.Masks, mask)
		}
		if i == 0 {
			s.Common = append(s.Common, common...)
		} else { // what the root's has and this one's has not is taken back
			for _, b := range s.Common {
				if !slices.ContainsFunc(own, func(c spec.Bias) bool { return c.Token == b.Token }) {
					own = append(own, spec.Bias{Token: b.Token, Add: 0})
				}
			}
		}
		s.Own = append(s.Own, own)
	}
	return nil
}

// says gives a mask that leaves at least one token, biases, and the same ones as a node's own.
func (g *hashing) says(p spectest.Prefix) (mask []uint32, common, own []spec.Bias) {
	h := spectest.Mix(p.Hash + 99)
	for id := range int32(g.vocab) {
		if spectest.Mix(h+uint64(id))%5 == 0 {
			common = append(common, spec.Bias{Token: id, Add: float32(spectest.Mix(h*3+uint64(id))%9) - 4})
		}
	}
	own = slices.Clone(common)
	if h%4 > 0 {
		mask = make([]uint32, (g.vocab+31)/32)
		for id := range g.vocab {
			if spectest.Mix(h+uint64(id)*7)%3 == 0 || id == int(h%uint64(g.vocab)) {
				mask[id/32] |= 1 << (id % 32)
			}
		}
	}
	return mask, common, own
}

func (g *hashing) Take(tokens []int32) error {
	for _, t := range tokens {
		g.at = g.at.Then(t)
	}
	return nil
}

// constrainedPlain decodes plainly under a constraint.
func constrainedPlain(s *spectest.Script, prompt []int32, n int, sampling spec.Sampling, g *hashing) []int32 {
	at := spectest.PrefixOf(prompt)
	var out []int32
	for range n {
		z := s.Logits(at, 0)
		mask, common, _ := g.says(g.at)
		adjustment := &spec.Adjustment{Common: common}
		if mask != nil {
			adjustment.Masks, adjustment.Which = [][]uint32{mask}, []int32{0}
		}
		spectest.ApplyAdjustment(z, adjustment, 0)
		token := spectest.Draw(sampling, z, spec.StreamTarget, uint32(at.Len))
		out, at, g.at = append(out, token), at.Then(token), g.at.Then(token)
	}
	return out
}

// TestConstrainedSpeculationEqualsConstrainedPlainDecoding runs every drafter and method that matches tokens under a
// constraint.
func TestConstrainedSpeculationEqualsConstrainedPlainDecoding(t *testing.T) {
	prompt := []int32{1, 0, 1}
	for _, vocab := range []int{5, 40} {
		for _, differ := range []float64{0.1, 0.6} {
			for _, set := range append(settings(), matched()...) {
				for i, sampling := range spectest.Samplings() {
					if testing.Short() && i%3 != 0 {
						continue
					}
					sampling.Seed = 11
					target := spectest.NewTarget(&spectest.Script{Vocab: vocab, Steps: 1e6}, 96, 64)
					draft := spectest.NewDraft(target, 128, differ)
					want := constrainedPlain(target.Script, prompt, 24, sampling, &hashing{vocab: vocab})
					constraint := &hashing{vocab: vocab}
					got, stats := spectest.Generate(t, set, target, draft, prompt,
						spec.Options{Sampling: sampling, MaxTokens: 24, Constraint: constraint})
					spectest.Expect(t, fmt.Sprintf("%s, sampling %d, differ %v", set.Name, i, differ), got, stats, want,
						spec.FinishLength)
					if constraint.asked != stats.Calls {
						t.Fatalf("%s: asked %d times in %d passes", set.Name, constraint.asked, stats.Calls)
					}
				}
			}
		}
	}
}

// TestConstrainedDrawsStayAllowed holds verifiers whose tokens are not plain decoding's to the constraint.
func TestConstrainedDrawsStayAllowed(t *testing.T) {
	for _, parts := range []func(*spectest.DraftModel) spec.Parts{
		func(d *spectest.DraftModel) spec.Parts {
			return spec.Parts{Drafter: &drafting.SampledChain{Model: d}, Verifier: spec.Rejection{},
				Policy: spec.Fixed{Levels: 3, Width: 1, Nodes: 4}}
		},
		func(d *spectest.DraftModel) spec.Parts {
			p, err := Config{Drafter: DrafterSampled, Verifier: VerifierWithoutReplacement,
				Shape: [][]int{{2}, {2, 1}}}.Parts(spectest.NewTarget(&spectest.Script{Vocab: 40, Steps: 1e6}, 96, 64),
				d)
			if err != nil {
				t.Fatal(err)
			}
			return p
		},
	} {
		target := spectest.NewTarget(&spectest.Script{Vocab: 40, Steps: 1e6}, 96, 64)
		draft := spectest.NewDraft(target, 128, 0.3)
		set := spectest.Setting{Name: "drawn", Parts: func(*spectest.Target, *spectest.DraftModel) spec.Parts {
			return parts(draft)
		}}
		for seed := range uint64(20) {
			target.Reset()
			draft.Reset()
			constraint := &hashing{vocab: 40}
			got, _ := spectest.Generate(t, set, target, draft, []int32{1},
				spec.Options{Sampling: spec.Sampling{Temperature: 1, Seed: seed}, MaxTokens: 24,
					Constraint: constraint})
			check := &hashing{vocab: 40}
			for i, token := range got {
				if mask, _, _ := check.says(check.at); mask != nil && mask[token/32]>>(token%32)&1 == 0 {
					t.Fatalf("seed %d: token %d (%d) was not allowed", seed, i, token)
				}
				if err := check.Take(got[i : i+1]); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}

// failing ends a generation.
type failing struct{ adjust, take error }

func (f failing) Adjust(*spec.Tree, *spec.Adjustment) error { return f.adjust }
func (f failing) Take([]int32) error                        { return f.take }

func TestConstraintErrorsEndGeneration(t *testing.T) {
	wrong := errors.New("nothing is left")
	target := spectest.NewTarget(&spectest.Script{Vocab: 5, Steps: 1e6}, 96, 64)
	for _, constraint := range []spec.Constraint{failing{adjust: wrong}, failing{take: wrong}} {
		target.Reset()
		g, err := New(target, Config{Drafter: DrafterNone})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := g.Generate(context.Background(), []int32{1}, spec.Options{MaxTokens: 3, Constraint: constraint},
			nil); !errors.Is(err, wrong) {
			t.Errorf("%+v: %v", constraint, err)
		}
	}
}
