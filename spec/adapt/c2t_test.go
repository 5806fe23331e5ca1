package adapt

import (
	"context"
	"fmt"
	"math"
	"reflect"
	"slices"
	"sort"
	"testing"

	"foretoken/spec"
	"foretoken/spec/spectest"
)

func TestConfidenceByHand(t *testing.T) {
	c := classifier()
	for _, f := range []struct {
		features C2TFeatures
		z        float64
	}{
		// Inputs 0, 0, 0: hidden 0.25 and relu(-1).
		{C2TFeatures{Probability: 0.5, Entropy: 1, Depth: 3}, 0.5 + 2*0.25},
		// Inputs 1, 1, -1: hidden 0.25+1-1 and -1+0.5+2.
		{C2TFeatures{Probability: 0.75, Entropy: 3, Depth: 2}, 0.5 + 2*0.25 - 3*1.5},
		// Inputs -2, 1, 0: hidden relu(0.25-2-1) and relu(-1-1).
		{C2TFeatures{Probability: 0, Entropy: 3, Depth: 3}, 0.5},
	} {
		if got, want := c.Confidence(f.features), 1/(1+math.Exp(-f.z)); math.Abs(got-want) > 1e-12 {
			t.Errorf("%+v: confidence %v, want %v", f.features, got, want)
		}
	}
	// The same with fewer features in another order, as in the paper's ablation.
	c.Features, c.Mean, c.Scale = []string{FeatureDepth, FeatureProbability}, []float64{3, 0.5},
		[]float64{1, 0.25}
	c.Hidden = [][]float64{{0, 1}, {-2, 0.5}}
	f := C2TFeatures{Probability: 0.75, Entropy: 77, Depth: 2}
	if got, want := c.Confidence(f), 1/(1+math.Exp(-(0.5+2*1.25-3*1.5))); math.Abs(got-want) > 1e-12 {
		t.Errorf("two features: confidence %v, want %v", got, want)
	}
	if got := c.Inputs(nil, f); !slices.Equal(got, []float64{-1, 1}) {
		t.Errorf("inputs %v", got)
	}
}

func TestC2TSamplesByHand(t *testing.T) {
	node := func(p, h float64, d int, accepted bool) C2TSample {
		return C2TSample{C2TFeatures: C2TFeatures{Probability: p, Entropy: h, Depth: d}, Accepted: accepted}
	}
	for _, c := range []struct {
		continuation []int32
		want         []C2TSample
	}{
		{[]int32{11, 22, 5}, []C2TSample{
			node(0.5, 1.5, 1, false), node(0.25, 1.5, 1, true),
			node(0.2, 2, 2, false), node(0.2, 2, 2, false), node(0.1875, 0.5, 2, true), node(0.03125, 0.5, 2, false),
		}},
		// A token that matches under a rejected parent is not accepted.
		{[]int32{10, 22}, []C2TSample{
			node(0.5, 1.5, 1, true), node(0.25, 1.5, 1, false),
			node(0.2, 2, 2, false), node(0.2, 2, 2, false), node(0.1875, 0.5, 2, false), node(0.03125, 0.5, 2, false),
		}},
		{[]int32{11}, []C2TSample{node(0.5, 1.5, 1, false), node(0.25, 1.5, 1, true)}},
		{nil, nil},
	} {
		got := C2TSamples(nil, twoLevels(), c.continuation)
		if len(got) != len(c.want) {
			t.Errorf("%v: %d samples, want %d", c.continuation, len(got), len(c.want))
			continue
		}
		for i := range got {
			if math.Abs(got[i].Probability-c.want[i].Probability) > 1e-6 {
				t.Errorf("%v: sample %d has probability %v, want %v", c.continuation, i, got[i].Probability,
					c.want[i].Probability)
			}
			got[i].Probability = c.want[i].Probability
		}
		if !reflect.DeepEqual(got, c.want) {
			t.Errorf("%v: %+v, want %+v", c.continuation, got, c.want)
		}
	}
	impossible := twoLevels()
	impossible[0].Candidates[0].LogQ = float32(math.Inf(-1))
	impossible[0].Candidates[1].LogQ = float32(math.NaN())
	if got := C2TSamples(nil, impossible[:1], []int32{10}); len(got) != 0 {
		t.Errorf("candidates of probability zero became samples: %+v", got)
	}
}

// TestC2TSamplesOfAnUnprunedTree compares the samples of grown trees with the tree of all candidates.
func TestC2TSamplesOfAnUnprunedTree(t *testing.T) {
	target := spectest.NewTarget(&spectest.Script{Vocab: 12, Steps: 1e6}, 200, 64)
	accepted := 0
	for start := range int32(10) {
		draft := spectest.NewDraft(target, 2000, 0.1)
		draft.Target = nil
		root := []int32{start}
		continuation, _ := spectest.Plain(target.Script, root, 200, spec.Options{MaxTokens: 6})
		levels, err := draft.Draft(context.Background(), spec.DraftRequest{Pending: root, Depth: 3, K: 4})
		if err != nil {
			t.Fatal(err)
		}
		var b spec.Builder
		tree, err := b.Build(start, levels, spec.MaxNodes)
		if err != nil {
			t.Fatal(err)
		}
		got := C2TSamples(nil, levels, continuation)
		if len(got) != tree.Len()-1 || len(got) != 4+3*16 {
			t.Fatalf("%d samples of a tree of %d nodes", len(got), tree.Len())
		}
		for i, s := range got {
			node := int32(i + 1)
			var tokens []int32
			for _, n := range tree.Path(nil, node)[1:] {
				tokens = append(tokens, tree.Tokens[n])
			}
			want := slices.Equal(tokens, continuation[:len(tokens)])
			at := spectest.PrefixOf(root)
			for _, token := range tokens[:len(tokens)-1] {
				at = at.Then(token)
			}
			h := spectest.Entropy(spectest.Distribution(spec.Sampling{Temperature: 1}, target.Script.Logits(at, 0.1)))
			if s.Accepted != want || s.Depth != len(tokens) ||
				math.Abs(math.Log(s.Probability)-float64(tree.Scores[node])) > 1e-4 || math.Abs(s.Entropy-h) > 1e-4 {
				t.Errorf("node %d, path %v: %+v, want accepted %v, ln p %v, entropy %v", node, tokens, s, want,
					tree.Scores[node], h)
			}
			if want {
				accepted++
			}
		}
	}
	if accepted < 10 {
		t.Errorf("only %d nodes were accepted", accepted)
	}
}

// randomClassifier returns a classifier of random weights, which keeps about half of the candidates.
func randomClassifier(seed uint64) *C2TClassifier {
	c := &C2TClassifier{Features: []string{FeatureProbability, FeatureEntropy, FeatureDepth},
		Mean: []float64{0.1, 2, 2}, Scale: []float64{0.1, 0.3, 1}}
	c.Hidden, c.HiddenBias, c.Output = spectest.RandomLayer(seed, 8, 3)
	return c
}

// c2tByDefinition grows C2T's tree from the scripted draft and returns the token paths of its nodes.
func c2tByDefinition(
	d *spectest.DraftModel, root spectest.Prefix, r spec.DraftRequest, c *C2TDrafter, widest, depth, nodes int,
) []string {
	type branch struct {
		at   spectest.Prefix
		path []int32
		p    float64
	}
	type grown struct {
		branch
		confidence float64
		index      int // among the candidates of the level
	}
	var all []string
	level := []branch{{at: root, p: 1}}
	d.Request = r
	for lv := 1; lv <= depth && len(level) > 0 && nodes > 1; lv++ {
		var stay []grown
		index := 0
		for _, from := range level {
			q := d.LogQ(from.at)
			p := spectest.Distribution(spec.Sampling{Temperature: 1}, d.Script.Logits(from.at, d.Differ))
			h := spectest.Entropy(p)
			for _, id := range spectest.BestOf(q, r.K) {
				index++
				if math.IsInf(q[id], -1) {
					continue
				}
				p := from.p * math.Exp(float64(float32(q[id])))
				features := C2TFeatures{Probability: p, Entropy: float64(float32(h)), Depth: lv}
				if f := c.Classifier.Confidence(features); f > c.Beta {
					child := branch{from.at.Then(id), append(slices.Clone(from.path), id), p}
					stay = append(stay, grown{child, f, index})
				}
			}
		}
		sort.SliceStable(stay, func(i, j int) bool { return stay[i].confidence > stay[j].confidence })
		stay = stay[:min(len(stay), nodes-1)]
		if !c.OnePruning {
			stay = stay[:min(len(stay), c.TopK)]
		}
		nodes -= len(stay)
		for _, s := range stay {
			all = append(all, fmt.Sprint(s.path))
		}
		stay = stay[:min(len(stay), widest)]
		sort.Slice(stay, func(i, j int) bool { return stay[i].index < stay[j].index })
		level = level[:0]
		for _, s := range stay {
			level = append(level, s.branch)
		}
	}
	sort.Strings(all)
	return all
}

func count(all []int32, x int32) (n int) {
	for _, y := range all {
		if y == x {
			n++
		}
	}
	return n
}

func TestC2TTreeIsTheDefinitions(t *testing.T) {
	target := spectest.NewTarget(&spectest.Script{Vocab: 12, Steps: 1e6}, 400, 64)
	prompt := []int32{1, 2}
	for i, c := range []C2TDrafter{
		{TopK: 3, Depth: 4, Beta: 0.5},
		{TopK: 3, Depth: 4, Beta: 0.4, OnePruning: true},
		{TopK: 5, Depth: 2, Beta: 0.3},
		{TopK: 1, Depth: 6, Beta: 0.5},
		{TopK: 2, Depth: 3, Beta: 0.000001},
		{TopK: 15, Depth: 3, Beta: 0.3, Uncoupled: true},
		{TopK: 12, Depth: 3, Beta: 0.3, OnePruning: true}, // levels of more nodes than a pass expands
	} {
		for _, sampling := range []spec.Sampling{{}, {Temperature: 1, Seed: 3}} {
			for _, nodes := range []int{60, 40, 6} {
				name := fmt.Sprintf("case %d, T=%v, N=%d", i, sampling.Temperature, nodes)
				draft := spectest.NewDraft(target, 1000, 0.1)
				c.Model, c.Classifier = draft, randomClassifier([]uint64{1, 1, 2, 4, 1, 7, 7}[i])
				g, err := spec.New(target, spec.Parts{Drafter: &c, Verifier: spec.Match{},
					Policy: spec.Fixed{Levels: 50, Width: 60, Nodes: nodes}})
				if err != nil {
					t.Fatal(err)
				}
				rounds, pruned, empty, least, greatest, broadest := 0, 0, 0, 1000, 0, 0
				seq := slices.Clone(prompt)
				_, err = g.Generate(context.Background(), prompt, spec.Options{Sampling: sampling, MaxTokens: 120},
					func(e *spec.Event) error {
						defer func() { seq = append(seq, e.Tokens...) }()
						if e.Tree == nil || len(seq) > 100 {
							return nil
						}
						widest := c.TopK
						if c.OnePruning {
							widest = 16
						}
						request := spec.DraftRequest{K: c.TopK, Sampling: sampling,
							Coupled: sampling.Temperature > 0 && !c.Uncoupled}
						want := c2tByDefinition(draft, spectest.PrefixOf(seq), request, &c, widest, c.Depth, nodes)
						var got []string
						for n := int32(1); int(n) < e.Tree.Len(); n++ {
							var tokens []int32
							for _, m := range e.Tree.Path(nil, n)[1:] {
								tokens = append(tokens, e.Tree.Tokens[m])
							}
							got = append(got, fmt.Sprint(tokens))
						}
						sort.Strings(got)
						if !slices.Equal(got, want) {
							t.Fatalf("%s, round %d: nodes %v, want %v", name, e.Round, got, want)
						}
						rounds++
						if len(got) == 0 {
							empty++
							if e.Origins[0] != spec.Plain {
								t.Errorf("%s: a round without nodes is %v", name, e.Origins)
							}
						}
						if len(got) < nodes-1 {
							pruned++
						}
						for lv := range int32(e.Tree.Depth()) {
							broadest = max(broadest, count(e.Tree.Depths, lv+1))
						}
						least, greatest = min(least, len(got)), max(greatest, len(got))
						return nil
					})
				if err != nil {
					t.Fatal(err)
				}
				if i == 6 && nodes == 60 && broadest <= 16 {
					t.Errorf("%s: no level has more than %d nodes", name, broadest)
				}
				if rounds < 20 || greatest == 0 {
					t.Errorf("%s: %d rounds of %d to %d nodes, %d empty, %d pruned", name, rounds, least, greatest,
						empty, pruned)
				}
			}
		}
	}
}
