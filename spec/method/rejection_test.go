package method

import (
	"context"
	"testing"

	"foretoken/spec"
	drafting "foretoken/spec/draft"
	"foretoken/spec/spectest"
)

// TestJointDistributionOfThreeTokens runs the whole engine over many seeds: the three tokens that follow the prompt
// have the joint distribution that the target's own steps multiply to, by rejection as by matching.
func TestJointDistributionOfThreeTokens(t *testing.T) {
	const vocab, seeds = 3, 5000
	prompt := []int32{1, 2}
	for i, sampling := range []spec.Sampling{{Temperature: 1}, {Temperature: 0.8, TopK: 2},
		{Temperature: 1.5, TopP: 0.85}} {
		target := spectest.NewTarget(&spectest.Script{Vocab: vocab, Steps: 1e6}, 32, 16)
		draft := spectest.NewDraft(target, 32, 0.7)
		want := make([]float64, 0, 27)
		at := spectest.PrefixOf(prompt)
		p0 := spectest.Distribution(sampling, target.Script.Logits(at, 0))
		for a := range int32(vocab) {
			p1 := spectest.Distribution(sampling, target.Script.Logits(at.Then(a), 0))
			for b := range int32(vocab) {
				for _, p2 := range spectest.Distribution(sampling, target.Script.Logits(at.Then(a).Then(b), 0)) {
					want = append(want, p0[a]*p1[b]*p2)
				}
			}
		}
		for _, c := range []Config{
			{Drafter: DrafterNone},
			{Drafter: DrafterChain, Verifier: VerifierRejection, Depth: 1},
			{Drafter: DrafterChain, Verifier: VerifierRejection, Depth: 2},
			{Drafter: DrafterChain, Verifier: VerifierRejection, Depth: 4},
			{Drafter: DrafterEAGLE2, Depth: 1, TopK: 2, Nodes: 5},
		} {
			g, err := New(target, c, draft)
			if err != nil {
				t.Fatal(err)
			}
			counts := make([]int, 27)
			var sum spec.Stats
			for seed := range uint64(seeds) {
				sampling.Seed = seed
				cell := int32(0)
				stats, err := g.Generate(context.Background(), prompt, spec.Options{Sampling: sampling, MaxTokens: 4},
					func(e *spec.Event) error {
						for _, token := range e.Tokens {
							if cell < 27 { // three digits under a leading one
								cell = max(cell, 1)*3 + token
							}
						}
						return nil
					})
				if err != nil {
					t.Fatal(err)
				}
				for cell >= 81 {
					cell /= 3
				}
				counts[cell-27]++
				sum.Add(&stats)
			}
			spectest.ChiSquare(t, c.Drafter+" "+c.Verifier, counts, want)
			if c.Verifier == VerifierRejection &&
				(sum.Accepted == 0 || sum.Corrected == 0 || sum.Bonus == 0 && c.Depth < 4) {
				t.Errorf("sampling %d: the test did not reach every case: %+v", i, sum)
			}
		}
	}
}

func TestRejectionAtTemperatureZeroIsGreedy(t *testing.T) {
	target := spectest.NewTarget(&spectest.Script{Vocab: 6, Steps: 2}, 64, 16)
	for _, differ := range []float64{0, 0.3, 1} {
		draft := spectest.NewDraft(target, 64, differ)
		o := spec.Options{MaxTokens: 30, Sampling: spec.Sampling{Seed: 3}}
		want, finish := spectest.Plain(target.Script, []int32{4}, 64, o)
		set := named(Config{Drafter: DrafterChain, Verifier: VerifierRejection, Depth: 3})
		got, stats := spectest.Generate(t, set, target, draft, []int32{4}, o)
		spectest.Expect(t, "rejection", got, stats, want, finish)
		if target.Chain != 0 {
			t.Error("one-hot distributions were sent through the rejection test")
		}
	}
}

func TestRejectionRefusesOtherDrafts(t *testing.T) {
	target := spectest.NewTarget(&spectest.Script{Vocab: 6, Steps: 2}, 64, 16)
	draft := spectest.NewDraft(target, 64, 0)
	g, err := spec.New(target, spec.Parts{Drafter: &drafting.TreeDrafter{Model: draft}, Verifier: spec.Rejection{},
		Policy: spec.Fixed{Levels: 2, Width: 1, Nodes: 3}})
	if err != nil {
		t.Fatal(err)
	}
	_, err = g.Generate(context.Background(), []int32{1}, spec.Options{Sampling: spec.Sampling{Temperature: 1}}, nil)
	if err == nil {
		t.Error("a top-1 chain was verified by rejection")
	}
}
