package runner

import (
	"math/rand/v2"
	"slices"
	"testing"

	"foretoken/models/graph"
	"foretoken/spec"
	"foretoken/spec/adapt"
	"foretoken/webgpu"
)

// testClassifier mostly agrees with the draft, with some randomness.
func testClassifier(seed uint64, features ...string) *adapt.C2TClassifier {
	rng := rand.New(rand.NewPCG(seed, 48))
	c := &adapt.C2TClassifier{Features: features, OutputBias: -0.5}
	for range features {
		c.Mean, c.Scale = append(c.Mean, rng.Float64()), append(c.Scale, 0.2+rng.Float64())
	}
	for range 48 {
		row := make([]float64, len(features))
		for i, name := range features {
			row[i] = 0.2 * rng.NormFloat64()
			if name == adapt.FeatureProbability {
				row[i] += 0.3
			}
		}
		c.Hidden, c.HiddenBias = append(c.Hidden, row), append(c.HiddenBias, 0.1*rng.NormFloat64())
		c.Output = append(c.Output, 0.15*rng.Float64())
	}
	return c
}

// TestDraftPruned compares trees that the device prunes with trees that the host prunes level by level, round after
// round, greedy and coupled. A round drafts in one submit, or in two if a tree is deeper than most before it, and
// compiles nothing.
func TestDraftPruned(t *testing.T) {
	onDevices(t, func(t *testing.T, dev webgpu.Device) {
		a, b := loadDraft(t, dev, "tiny-f32", graph.Options{}), loadDraft(t, dev, "tiny-f32", graph.Options{})
		const k, depth = 4, 8
		if err := b.Prepare(growth(depth-1, k, true)); err != nil {
			t.Fatal(err)
		}
		levels, ended, full, trees, grown := map[int]int{}, 0, 0, 0, 0
		for seed, features := range [][]string{{adapt.FeatureProbability, adapt.FeatureEntropy, adapt.FeatureDepth},
			{adapt.FeatureDepth, adapt.FeatureProbability}} {
			c := testClassifier(uint64(seed), features...)
			if err := a.trees.preparePruned(depth-1, k, c.Network()); err != nil {
				t.Fatal(err)
			}
			for i := range 3 {
				var drafters []*adapt.C2TDrafter
				s := spec.Sampling{Temperature: float64(i % 2), Seed: 5}
				begin := func(model spec.DraftModel) spec.DraftSession {
					model.Reset()
					d := &adapt.C2TDrafter{Model: model, Classifier: c, TopK: k, Depth: depth}
					drafters = append(drafters, d)
					session, err := d.Begin(background, spec.SessionOptions{Prompt: text[:3], Sampling: s})
					if err != nil {
						t.Fatal(err)
					}
					return session
				}
				one, other := begin(a), begin(b) // the host prunes for b, which has no programs to
				for n := 3; n < len(text); n++ {
					// Most trees are shallow, some are the deepest yet.
					beta := []float64{0.6, 0.5, 0.6, 0.6, 0.3}[(n+i)%5]
					for _, d := range drafters {
						d.Beta = beta
					}
					budget := spec.Budget{Levels: depth - n%2, Width: k, Nodes: 14 - n%3*5}
					before := dev.Counters()
					got, err := one.Propose(background, text[:n], budget)
					if err != nil {
						t.Fatal(err)
					}
					after := dev.Counters()
					runs := after.Submits - before.Submits
					if runs < 1 || runs > 2 || after.Reads-before.Reads != runs ||
						after.Programs != before.Programs || after.Buffers != before.Buffers ||
						after.Kernels != before.Kernels {
						t.Fatalf("drafting a tree: from %+v to %+v", before, after)
					}
					if trees++; runs == 2 {
						grown++
					}
					want, err := other.Propose(background, text[:n], budget)
					if err != nil {
						t.Fatal(err)
					}
					if !slices.Equal(got.Tree.Tokens, want.Tree.Tokens) ||
						!slices.Equal(got.Tree.Parents, want.Tree.Parents) {
						t.Fatalf("beta %g after %d tokens: the device's tree is %v of %v, the host's %v of %v", beta,
							n, got.Tree.Tokens, got.Tree.Parents, want.Tree.Tokens, want.Tree.Parents)
					}
					levels[got.Tree.Depth()]++
					if got.Tree.Depth() < budget.Levels {
						ended++
					}
					if got.Tree.Len() == budget.Nodes {
						full++
					}
					// The first child at every level, so that both drafts have consumed the committed tokens.
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
						path = path[:1] // diverge from the draft
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
		if len(levels) < 3 || ended == 0 || full == 0 || grown == 0 || 2*grown > trees {
			t.Fatalf("trees of %v levels, %d ended early, %d full, %d of %d in two runs: not every way was tried",
				levels, ended, full, grown, trees)
		}
		if levels, err := b.Draft(background, spec.DraftRequest{Pending: text[:1], Depth: 2, K: k,
			Classifier: testClassifier(9).Network(), Beta: 0.5, Nodes: 8}); err != nil || levels != nil {
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

// TestPrunedTreeInTwoRuns compares the bits of trees drafted in two runs, cut at every level, with those of one.
func TestPrunedTreeInTwoRuns(t *testing.T) {
	onDevices(t, func(t *testing.T, dev webgpu.Device) {
		d := loadDraft(t, dev, "tiny-f32", graph.Options{})
		const k, depth = 4, 6
		c := testClassifier(0, adapt.FeatureProbability, adapt.FeatureEntropy, adapt.FeatureDepth)
		if err := d.trees.preparePruned(depth, k, c.Network()); err != nil {
			t.Fatal(err)
		}
		draft := func(ahead int, nodes int) (levels []spec.Level, runs int) {
			t.Helper()
			d.Reset()
			r := spec.DraftRequest{Pending: text[:3], Depth: depth, K: k, Nodes: nodes,
				Classifier: c.Network(), Beta: 0.3, Ahead: ahead}
			before := dev.Counters().Submits
			levels, err := d.Draft(background, r)
			if err == nil && len(levels[len(levels)-1].Beams) > 0 {
				if len(levels) != ahead+1 {
					t.Fatalf("%d levels of %d ahead", len(levels), ahead+1)
				}
				if err := d.Commit([]int32{0, 0, 0, 0, 0, 0}[:len(levels)]); err == nil {
					t.Fatal("a beam without an own pass was committed")
				}
				levels, err = d.Extend(background, spec.Extension{})
			}
			if err != nil {
				t.Fatal(err)
			}
			return levels, dev.Counters().Submits - before
		}
		depths := map[int]bool{}
		for _, nodes := range []int{4, 9, 40} {
			whole, _ := draft(depth, nodes)
			var want []spec.Level
			for _, l := range whole {
				want = append(want, spec.Level{Candidates: slices.Clone(l.Candidates), Beams: slices.Clone(l.Beams),
					Entropies: slices.Clone(l.Entropies)})
			}
			depths[len(want)] = true
			for ahead := range depth {
				got, runs := draft(ahead, nodes)
				if more := ahead+1 < len(want); (runs == 2) != more {
					t.Errorf("%d nodes, %d passes ahead: %d runs for %d levels", nodes, ahead, runs, len(want))
				}
				same := len(got) == len(want)
				for i := 0; same && i < len(got); i++ {
					same = slices.Equal(got[i].Candidates, want[i].Candidates) &&
						slices.Equal(got[i].Beams, want[i].Beams) && slices.Equal(got[i].Entropies, want[i].Entropies)
				}
				if !same {
					t.Errorf("%d nodes, %d passes ahead: %+v, want %+v", nodes, ahead, got, want)
				}
				if _, err := d.Extend(background, spec.Extension{}); err == nil {
					t.Error("a complete tree was grown")
				}
				var path []int32
				for i := range len(got) - 1 { // the first beam of each level whose parent is on the path
					at := slices.IndexFunc(got[i].Beams, func(b int32) bool {
						return i == 0 || got[i].Candidates[b].Beam == path[i-1]
					})
					if at < 0 {
						break
					}
					path = append(path, int32(at))
				}
				if err := d.Commit(path); err != nil {
					t.Errorf("%d nodes, %d passes ahead: %v", nodes, ahead, err)
				}
			}
		}
		if len(depths) < 3 {
			t.Errorf("trees of %v levels only", depths)
		}
	})
}
