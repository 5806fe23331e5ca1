package llama

import (
	"math/rand/v2"
	"slices"
	"testing"

	"foretoken/spec"
	"foretoken/webgpu"
)

// testClassifier is one that likes what the draft likes, a little at random.
func testClassifier(seed uint64, features ...string) *spec.C2TClassifier {
	rng := rand.New(rand.NewPCG(seed, 48))
	c := &spec.C2TClassifier{Features: features, OutputBias: -0.5}
	for range features {
		c.Mean, c.Scale = append(c.Mean, rng.Float64()), append(c.Scale, 0.2+rng.Float64())
	}
	for range 48 {
		row := make([]float64, len(features))
		for i, name := range features {
			row[i] = 0.2 * rng.NormFloat64()
			if name == spec.FeatureProbability {
				row[i] += 0.3
			}
		}
		c.Hidden, c.HiddenBias, c.Output = append(c.Hidden, row), append(c.HiddenBias, 0.1*rng.NormFloat64()), append(c.Output, 0.15*rng.Float64())
	}
	return c
}

// TestDraftPruned holds trees that the device prunes to those of which the host prunes level after level, round after
// round, greedily and coupled; a round drafts in one submit and makes nothing.
func TestDraftPruned(t *testing.T) {
	onDevices(t, func(t *testing.T, dev webgpu.Device) {
		a, b := loadDraft(t, dev, "s260k-f32", Options{}), loadDraft(t, dev, "s260k-f32", Options{})
		const k, depth = 4, 5
		if err := b.PrepareGrowth(depth-1, k, true); err != nil {
			t.Fatal(err)
		}
		levels, ended, full := map[int]int{}, 0, 0
		for seed, features := range [][]string{{spec.FeatureProbability, spec.FeatureEntropy, spec.FeatureDepth}, {spec.FeatureDepth, spec.FeatureProbability}} {
			c := testClassifier(uint64(seed), features...)
			if err := a.PreparePruned(depth-1, k, c); err != nil {
				t.Fatal(err)
			}
			for i, beta := range []float64{0.3, 0.5, 0.6} {
				s := spec.Sampling{Temperature: float64(i % 2), Seed: 5}
				begin := func(model spec.Grower) spec.DraftSession {
					model.Reset()
					d := &spec.C2TDrafter{Model: model, Classifier: c, TopK: k, Depth: depth, Beta: beta}
					session, err := d.Begin(background, text[:3], s, nil)
					if err != nil {
						t.Fatal(err)
					}
					return session
				}
				// Behind an interface without DraftPruned the host prunes.
				one, other := begin(a), begin(struct{ spec.Grower }{b})
				for n := 3; n < len(text); n++ {
					budget := spec.Budget{Levels: depth - n%2, Width: k, Nodes: 14 - n%3*5}
					before := dev.Counters()
					got, err := one.Propose(background, text[:n], budget)
					if err != nil {
						t.Fatal(err)
					}
					after := dev.Counters()
					if after.Submits-before.Submits != 1 || after.Reads-before.Reads != 1 || after.Programs != before.Programs || after.Buffers != before.Buffers || after.Kernels != before.Kernels {
						t.Fatalf("drafting a tree: from %+v to %+v", before, after)
					}
					want, err := other.Propose(background, text[:n], budget)
					if err != nil {
						t.Fatal(err)
					}
					if !slices.Equal(got.Tree.Tokens, want.Tree.Tokens) || !slices.Equal(got.Tree.Parents, want.Tree.Parents) {
						t.Fatalf("beta %g after %d tokens: the device's tree is %v of %v, the host's %v of %v", beta, n, got.Tree.Tokens, got.Tree.Parents, want.Tree.Tokens, want.Tree.Parents)
					}
					levels[got.Tree.Depth()]++
					if got.Tree.Depth() < budget.Levels {
						ended++
					}
					if got.Tree.Len() == budget.Nodes {
						full++
					}
					// The first child at every level, so that what is committed is what both were fed.
					path := []int32{0}
					for node := int32(0); ; {
						i := slices.Index(got.Tree.Parents, node)
						if i < 0 {
							break
						}
						node = int32(i)
						path = append(path, node)
					}
					if n+len(path) > len(text) || !slices.Equal(text[n:n+len(path)-1], tokensOf(got.Tree, path[1:])) {
						path = path[:1] // the text goes on otherwise
					}
					for _, session := range []spec.DraftSession{one, other} {
						if err := session.Commit(path); err != nil {
							t.Fatal(err)
						}
					}
					n += len(path) - 1
				}
			}
		}
		if len(levels) < 3 || ended == 0 || full == 0 {
			t.Fatalf("trees of %v levels, %d ended early, %d full: not every way was tried", levels, ended, full)
		}
		if _, err := b.DraftPruned(background, spec.PruneRequest{DraftRequest: spec.DraftRequest{Pending: text[:1], Depth: 2, K: k}, Classifier: testClassifier(9), Beta: 0.5, Nodes: 8}); err == nil {
			t.Fatal("a draft that was not prepared for a classifier pruned by it")
		}
	})
}

func tokensOf(tree *spec.Tree, nodes []int32) []int32 {
	var tokens []int32
	for _, n := range nodes {
		tokens = append(tokens, tree.Tokens[n])
	}
	return tokens
}
