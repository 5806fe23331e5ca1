package method

import (
	"context"
	"slices"
	"strings"
	"testing"

	"foretoken/spec"
	"foretoken/spec/adapt"
	"foretoken/spec/spectest"
)

// randomClassifier returns a classifier of random weights, which keeps about half of the candidates.
func randomClassifier(seed uint64) *adapt.C2TClassifier {
	c := &adapt.C2TClassifier{
		Features: []string{adapt.FeatureProbability, adapt.FeatureEntropy, adapt.FeatureDepth},
		Mean:     []float64{0.1, 2, 2}, Scale: []float64{0.1, 0.3, 1},
	}
	c.Hidden, c.HiddenBias, c.Output = spectest.RandomLayer(seed, 8, 3)
	return c
}

// TestC2TChainIsTheTreeOfWidthOne drafts with the rule and with the tree drafter.
func TestC2TChainIsTheTreeOfWidthOne(t *testing.T) {
	target := spectest.NewTarget(&spectest.Script{Vocab: 12, Steps: 1e6}, 400, 64)
	chain := Config{Drafter: DrafterChain, Verifier: VerifierMatch, Adapt: AdaptC2T, Depth: 5,
		Settings: Settings{Threshold: adapt.DefaultBeta}, Fitted: Fitted{C2T: randomClassifier(4)}}
	tree := Config{Drafter: DrafterEAGLE2, Verifier: VerifierMatch, Adapt: AdaptC2T, Depth: 4, TopK: 1, Nodes: 6,
		Fitted: Fitted{C2T: randomClassifier(4)}}
	trees := func(c Config) (out []*spec.Tree) {
		g, err := New(target, c, spectest.NewDraft(target, 400, 0.1))
		if err != nil {
			t.Fatal(err)
		}
		_, err = g.Generate(context.Background(), []int32{1, 2}, spec.Options{MaxTokens: 200},
			func(e *spec.Event) error {
				if e.Tree != nil {
					out = append(out, e.Tree.Clone())
				}
				return nil
			})
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	a, b := trees(chain), trees(tree)
	sizes := map[int]int{}
	for i := range a {
		sizes[a[i].Len()]++
		if i >= len(b) || !slices.Equal(a[i].Tokens, b[i].Tokens) {
			t.Fatalf("round %d: the chain is %v", i+1, a[i].Tokens)
		}
	}
	if len(a) != len(b) || len(sizes) < 3 {
		t.Errorf("%d and %d rounds, chains by size %v", len(a), len(b), sizes)
	}
}

func TestC2TKeepsNothingAboveOne(t *testing.T) {
	target := spectest.NewTarget(&spectest.Script{Vocab: 12, Steps: 1e6}, 100, 64)
	for _, drafter := range []string{DrafterEAGLE2, DrafterChain} {
		c := Config{Drafter: drafter, Verifier: VerifierMatch, Adapt: AdaptC2T, Depth: 3, TopK: 3, Nodes: 16,
			Fitted: Fitted{C2T: randomClassifier(4)}}
		c.Threshold = 1
		if _, err := c.Parts(target, spectest.NewDraft(target, 100, 0)); err == nil ||
			!strings.Contains(err.Error(), "threshold is 1, want less than 1") {
			t.Errorf("%s: a threshold of 1: %v", drafter, err)
		}
	}
}
