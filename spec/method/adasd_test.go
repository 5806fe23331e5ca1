package method

import (
	"testing"

	"foretoken/spec"
	"foretoken/spec/adapt"
	drafting "foretoken/spec/draft"
	"foretoken/spec/spectest"
)

func TestAdaSDIsWiredAsNamed(t *testing.T) {
	target := spectest.NewTarget(&spectest.Script{Vocab: 6, Steps: 1e6}, 96, 64)
	draft := spectest.NewDraft(target, 96, 0.2)
	records := &adapt.AdaSDRecords{Rejections: 1, Entropy: 2}
	build := func(policy, verifier string, depth int) spec.Parts {
		c := combination(DrafterChain, policy, verifier)
		c.Depth, c.Fitted.AdaSD, c.Carry = depth, records, true
		p, err := c.Parts(target, draft)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	p := build(AdaptAdaSD, VerifierAdaSD, 30)
	a := p.Verifier.(*adapt.AdaSD)
	if p.Policy != spec.Policy(a) || p.Drafter.(*drafting.SampledChain).Rule != drafting.ChainRule(a) ||
		a.Records != records || a.Most != 20 || !p.Drafter.(*drafting.SampledChain).Coupled {
		t.Errorf("both: %+v", p)
	}
	a.Start()
	if records.Rejections != 1 {
		t.Error("carried records were dropped")
	}
	p = build(AdaptAdaSD, VerifierMatch, 4)
	if a := p.Policy.(*adapt.AdaSD); p.Verifier != (spec.Match{}) ||
		p.Drafter.(*drafting.RankedChain).Rule != drafting.ChainRule(a) || a.Most != 4 {
		t.Errorf("generation only: %+v", p)
	}
	p = build(AdaptFixed, VerifierAdaSD, 5)
	if p.Policy != spec.Fixed(spec.Budget{Levels: 5, Width: 1, Nodes: 6}) ||
		p.Drafter.(*drafting.SampledChain).Rule != nil {
		t.Errorf("verification only: %+v", p)
	}
	if p := build(AdaptAdaEDL, VerifierRejection, 5); p.Drafter.(*drafting.SampledChain).Coupled {
		t.Error("rejection sampling of coupled draws")
	}
}

// TestAdaSDWithoutDistanceIsStrict has a draft that is the target: nothing is ever less far
// than 0, so a draw that is not the target's own is rejected.
func TestAdaSDWithoutDistanceIsStrict(t *testing.T) {
	target := spectest.NewTarget(&spectest.Script{Vocab: 6, Steps: 1e6}, 96, 64)
	draft := spectest.NewDraft(target, 128, 0)
	for _, c := range combinations(func(c Config) bool {
		return c.Verifier == VerifierAdaSD &&
			c.Drafter == DrafterChain
	}) {
		for _, variant := range []string{"", adapt.AdaSDA, adapt.AdaSDB, adapt.AdaSDC} {
			c.Variant, c.Uncoupled = variant, true
			for i, sampling := range spectest.Samplings() {
				o := spec.Options{Sampling: sampling, MaxTokens: 24}
				want, finish := spectest.Plain(target.Script, []int32{1, 0}, 96, o)
				got, stats := spectest.Generate(t, named(c), target, draft, []int32{1, 0}, o)
				spectest.Expect(t, c.Adapt+" "+variant, got, stats, want, finish)
				if stats.Relaxed != 0 || sampling.Temperature > 0 && stats.Corrected == 0 {
					t.Errorf("%s %s, sampling %d: %+v", c.Adapt, variant, i, stats)
				}
			}
		}
	}
}

// TestAdaSDAcceptsMore: the rule accepts more tokens than matching.
func TestAdaSDAcceptsMore(t *testing.T) {
	target := spectest.NewTarget(&spectest.Script{Vocab: 12, Steps: 1e6}, 2000, 64)
	draft := spectest.NewDraft(target, 2000, 0.2)
	run := func(verifier string, temperature float64) spec.Stats {
		c := combination(DrafterChain, AdaptFixed, verifier)
		c.Depth = 5
		_, stats := spectest.Generate(t, named(c), target, draft, []int32{1},
			spec.Options{Sampling: spec.Sampling{Temperature: temperature, Seed: 1}, MaxTokens: 500})
		return stats
	}
	for _, temperature := range []float64{0, 1} {
		strict, relaxed := run(VerifierMatch, temperature), run(VerifierAdaSD, temperature)
		if relaxed.Relaxed == 0 || relaxed.AcceptedLength() <= strict.AcceptedLength() || !relaxed.Lossy ||
			strict.Lossy {
			t.Errorf("T=%v: accepted length %.2f with %d relaxed, %.2f strictly", temperature, relaxed.AcceptedLength(),
				relaxed.Relaxed, strict.AcceptedLength())
		}
	}
}
