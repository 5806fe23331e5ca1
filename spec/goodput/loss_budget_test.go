package goodput

import (
	"context"
	"testing"

	"foretoken/spec"
	"foretoken/spec/spectest"
)

// spiteful is a target whose text repeats a phrase while nothing is proposed. After a proposal it continues with a new
// token.
type spiteful struct {
	*worldTarget
	phrase  []int32
	kind    bool  // repeat after proposals too
	at      int   // index in phrase of the next token
	unheard int32 // the latest new token
}

func (s *spiteful) Verify(ctx context.Context, r spec.PassRequest) (*spec.Pass, error) {
	pass, err := s.worldTarget.Verify(ctx, r)
	for i := range pass.Outputs {
		pass.Outputs[i].Token = s.phrase[(s.at+int(r.Tree.Depths[i]))%len(s.phrase)]
	}
	if r.Tree.Len() > 1 && !s.kind {
		s.unheard++
		pass.Outputs[0].Token = s.unheard
	}
	return pass, err
}

func (s *spiteful) Commit(path []int32) error {
	s.at += len(path)
	return s.worldTarget.Commit(path)
}

// TestLookupLossIsBoundedPerRequest runs texts that repeat, then texts that stop repeating at each proposal. The loss
// of lookups in the latter is bounded whatever the estimates have learnt from the former.
func TestLookupLossIsBoundedPerRequest(t *testing.T) {
	const tokens = 96
	w := &world{vocab: 1 << 20, times: times{row: 4, verify: line(0.3)}}
	costs := NewCosts()
	w.measure(costs)
	g := &Goodput{Costs: costs, Levels: 6, Width: 4, Nodes: 24, Clock: w.clock}
	target := &spiteful{worldTarget: &worldTarget{world: w}, unheard: 1000}
	generator, err := spec.New(target, spec.Parts{Drafter: g, Policy: g, Verifier: spec.Match{}, Clock: w.clock})
	if err != nil {
		t.Fatal(err)
	}
	run := func(seed int) (passes float64, rounds int) {
		target.phrase = target.phrase[:0]
		for i := range 24 {
			target.phrase = append(target.phrase, int32(1+spectest.Mix(uint64(seed*1000+i))%400))
		}
		var prompt []int32
		for len(prompt) < 5*len(target.phrase) {
			prompt = append(prompt, target.phrase...)
		}
		target.at = 0
		begin := w.now
		stats, err := generator.Generate(context.Background(), prompt, spec.Options{MaxTokens: tokens}, nil)
		if err != nil {
			t.Fatal(err)
		}
		return (w.now - begin).Seconds() / 0.004, stats.Rounds
	}
	target.kind = true
	for seed := range 12 {
		if passes, _ := run(seed); seed > 6 && passes > tokens/2 {
			t.Errorf("a text that repeats takes %.0f passes for %d tokens", passes, tokens)
		}
	}
	target.kind = false
	for seed := range 4 {
		passes, rounds := run(seed)
		if most := tokens + lookupLoss + lookupRefill*float64(rounds); passes > most {
			t.Errorf("text %d: %.1f passes for %d tokens, want at most %.1f", seed, passes, tokens, most)
		} else {
			t.Logf("text %d: %.1f passes for %d tokens, at most %.1f", seed, passes, tokens, most)
		}
	}
}
