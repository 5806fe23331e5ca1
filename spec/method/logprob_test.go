package method

import (
	"context"
	"math"
	"testing"

	"foretoken/spec"
	drafting "foretoken/spec/draft"
	"foretoken/spec/spectest"
)

// TestLogProbs compares what events tell of each token with the logits of plain decoding.
func TestLogProbs(t *testing.T) {
	const vocab = 40
	for _, set := range append(settings(), matched()...) {
		for _, sampling := range []spec.Sampling{{}, {Temperature: 0.8, TopP: 0.9, Seed: 3}} {
			target := spectest.NewTarget(&spectest.Script{Vocab: vocab, Steps: 1e6}, 96, 64)
			g, err := spec.New(target, set.Parts(target, spectest.NewDraft(target, 128, 0.2)))
			if err != nil {
				t.Fatal(err)
			}
			at, told := spectest.PrefixOf([]int32{1, 0, 1}), 0
			_, err = g.Generate(context.Background(), []int32{1, 0, 1},
				spec.Options{Sampling: sampling, MaxTokens: 24, LogProbs: true}, func(e *spec.Event) error {
					if len(e.LogProbs) != len(e.Tokens) {
						t.Fatalf("%s: %d log-probabilities of %d tokens", set.Name, len(e.LogProbs), len(e.Tokens))
					}
					for i, token := range e.Tokens {
						z, total := target.Script.Logits(at, 0), 0.0
						for _, v := range z {
							total += math.Exp(float64(v))
						}
						if want := float64(z[token]) - math.Log(total); math.Abs(want-float64(e.LogProbs[i])) > 1e-5 {
							t.Fatalf("%s: ln p of token %d is %g, want %g", set.Name, token, e.LogProbs[i], want)
						}
						at, told = at.Then(token), told+1
					}
					return nil
				})
			if err != nil || told != 24 {
				t.Fatalf("%s: %d tokens, %v", set.Name, told, err)
			}
		}
	}
	target := spectest.NewTarget(&spectest.Script{Vocab: vocab, Steps: 1e6}, 96, 64)
	draft := spectest.NewDraft(target, 128, 0.2)
	g, err := spec.New(target, spec.Parts{Drafter: &drafting.SampledChain{Model: draft}, Verifier: spec.Rejection{},
		Policy: spec.Fixed{Levels: 3, Width: 1, Nodes: 4}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := g.Generate(context.Background(), []int32{1},
		spec.Options{Sampling: spec.Sampling{Temperature: 1}, MaxTokens: 24, LogProbs: true}, nil); err == nil {
		t.Error("log-probabilities were told by a verifier that does not know them")
	}
}
