package adapt

import (
	"context"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"foretoken/spec"
	"foretoken/spec/spectest"
)

// twoLevels returns a draft computed by hand: the root proposes tokens 10 and 11 with q of 1/2 and 1/4. After 10
// the draft is uncertain between 20 and 21; after 11 it is certain of 22.
func twoLevels() []spec.Level {
	ln := func(q float64) float32 { return float32(math.Log(q)) }
	return []spec.Level{
		{
			Candidates: []spec.Candidate{{Token: 10, LogQ: ln(0.5), Beam: 0}, {Token: 11, LogQ: ln(0.25), Beam: 0}},
			Beams:      []int32{0, 1}, Entropies: []float32{1.5},
		},
		{
			Candidates: []spec.Candidate{{Token: 20, LogQ: ln(0.4), Beam: 0}, {Token: 21, LogQ: ln(0.4), Beam: 0},
				{Token: 22, LogQ: ln(0.75), Beam: 1}, {Token: 23, LogQ: ln(0.125), Beam: 1}},
			Entropies: []float32{2, 0.5},
		},
	}
}

func TestMetaPathByHand(t *testing.T) {
	// P* goes through token 11, whose distribution has the top-1 probability 0.75, although the path through 10 has
	// the larger joint probability (0.2 against 0.1875).
	h := func(p ...float64) float64 { return spectest.Entropy(p) }
	want := h(2.0/3, 1.0/3) + h(6.0/7, 1.0/7)
	if phi, nodes := MetaPath(twoLevels()); math.Abs(phi-want) > 1e-6 || math.Abs(phi-1.0466302) > 1e-6 || nodes != 3 {
		t.Errorf("Φ is %v over %d nodes, want %v over 3", phi, nodes, want)
	}
	if phi, nodes := MetaPath(twoLevels()[:1]); math.Abs(phi-h(2.0/3, 1.0/3)) > 1e-6 || nodes != 2 {
		t.Errorf("one level: Φ is %v over %d nodes", phi, nodes)
	}
	if phi, nodes := MetaPath(nil); phi != 0 || nodes != 1 {
		t.Errorf("no levels: Φ is %v over %d nodes", phi, nodes)
	}
	sure := []spec.Level{{Candidates: []spec.Candidate{{Token: 1, LogQ: 0, Beam: 0},
		{Token: 2, LogQ: float32(math.Inf(-1)), Beam: 0}}}}
	if phi, _ := MetaPath(sure); phi != 0 {
		t.Errorf("a sure draft has Φ %v", phi)
	}
	// Of beams that are equally certain MetaPath takes the first, token 10's.
	even := twoLevels()
	even[1].Candidates[0].LogQ, even[1].Candidates[2].LogQ = float32(math.Log(0.5)), float32(math.Log(0.5))
	want = h(2.0/3, 1.0/3) + h(0.5/0.9, 0.4/0.9)
	if phi, _ := MetaPath(even); math.Abs(phi-want) > 1e-6 {
		t.Errorf("a tie: Φ is %v, want %v", phi, want)
	}
	nothing := []spec.Level{{Candidates: []spec.Candidate{{Token: 1, LogQ: float32(math.Inf(-1)), Beam: 0}}}}
	if phi, _ := MetaPath(nothing); phi != 0 {
		t.Errorf("a draft without candidates has Φ %v", phi)
	}
}

// TestMetaPathIsTheDefinitions computes Φ from the draft's distributions, beam by beam.
func TestMetaPathIsTheDefinitions(t *testing.T) {
	target := spectest.NewTarget(&spectest.Script{Vocab: 12, Steps: 1e6}, 200, 64)
	deep := 0
	for start := range int32(12) {
		for _, r := range []spec.DraftRequest{{Depth: 3, K: 4},
			{Depth: 2, K: 3, Coupled: true, Sampling: spec.Sampling{Temperature: 1, Seed: 5}}} {
			draft := spectest.NewDraft(target, 200, 0.1)
			draft.Target = nil
			r.Pending = []int32{start}
			levels, err := draft.Draft(context.Background(), r)
			if err != nil {
				t.Fatal(err)
			}
			var b spec.Builder
			tree, err := b.Build(start, levels, spec.MaxNodes)
			if err != nil {
				t.Fatal(err)
			}
			best, want, at := math.Inf(-1), 0.0, int32(-1)
			for node := range int32(tree.Len()) {
				if int(tree.Depths[node]) != r.Depth || tree.IsLeaf(node) {
					continue // not a beam of the last level
				}
				phi, top, seq := 0.0, 0.0, spectest.Prefix{Hash: 1}
				for _, n := range tree.Path(nil, node) {
					seq = seq.Then(tree.Tokens[n])
					q := draft.LogQ(seq)
					var p []float64
					for _, id := range spectest.BestOf(q, r.K) {
						p = append(p, math.Exp(q[id]))
					}
					top = p[0]
					total := 0.0
					for _, x := range p {
						total += x
					}
					for i := range p {
						p[i] /= total
					}
					phi += spectest.Entropy(p)
				}
				if top > best+1e-9 {
					best, want, at = top, phi, node
				}
			}
			if phi, nodes := MetaPath(levels); math.Abs(phi-want) > 1e-4 || nodes != r.Depth+2 {
				t.Errorf("start %d, %+v: Φ is %v over %d nodes, want %v", start, r, phi, nodes, want)
			}
			for n := int32(1); int(n) < tree.Len(); n++ {
				if tree.Depths[n] == tree.Depths[at] && tree.Scores[n] > tree.Scores[at] {
					deep++
					break
				}
			}
		}
	}
	if deep == 0 {
		t.Error("P* was always the most likely path, so the choice was not put to the test")
	}
}

func TestHeteroSampleByHand(t *testing.T) {
	// By V: the root, 10 (.5), 11 (.25), 20 and 21 (.2), 22 (.1875), 23 (.03).
	for _, c := range []struct {
		levels, nodes int
		continuation  []int32
		tcr           int
		full          bool
	}{
		{2, 7, []int32{11, 22, 9}, 6, true},
		{2, 7, []int32{11, 23}, 7, true},
		{2, 6, []int32{11, 23}, 3, false}, // 23 is not among the 6 best
		{2, 5, []int32{11, 22}, 3, false},
		{2, 7, []int32{10, 20}, 4, true},
		{2, 7, []int32{10, 21}, 5, true}, // a tie: the lower index first
		{2, 7, []int32{10, 22}, 2, false},
		{2, 7, []int32{9, 22}, 1, false},
		{2, 7, []int32{11}, 3, false}, // the continuation ended first
		{2, 7, nil, 1, false},
		{1, 7, []int32{11, 22}, 3, true},
	} {
		got, err := HeteroSample(twoLevels()[:c.levels], c.nodes, c.continuation)
		if err != nil {
			t.Fatal(err)
		}
		phi, _ := MetaPath(twoLevels()[:c.levels])
		if want := (HeteroPoint{phi, c.tcr, c.full}); got != want {
			t.Errorf("%d levels, N=%d, %v: %+v, want %+v", c.levels, c.nodes, c.continuation, got, want)
		}
	}
	broken := twoLevels()
	broken[0].Beams = []int32{7}
	if _, err := HeteroSample(broken, 7, nil); err == nil {
		t.Error("levels that contradict themselves were taken")
	}
}

// points returns 2n trees. Every second one holds a full path, and its TCR is a step function of Φ.
func points(n int) []HeteroPoint {
	var out []HeteroPoint
	for i := range n {
		phi := 4 * float64(i%100) / 100
		out = append(out, HeteroPoint{phi, 2 + 10*int(phi), true}, HeteroPoint{phi, 59, false})
	}
	return out
}

func TestFitHetero(t *testing.T) {
	if _, err := FitHetero(points(420), DefaultHeteroFitting()); err == nil ||
		!strings.Contains(err.Error(), "420 of 840") || !strings.Contains(err.Error(), "80 are missing") {
		t.Errorf("too few paths: %v", err)
	}
	if _, err := FitHetero(append(points(600), HeteroPoint{math.NaN(), 1, true}),
		DefaultHeteroFitting()); err == nil {
		t.Error("an undefined Φ was taken")
	}
	f, err := FitHetero(points(600), DefaultHeteroFitting())
	if err != nil {
		t.Fatal(err)
	}
	want := &HeteroFit{HeteroFitting: HeteroFitting{CARTDepth: 3, Leaf: 12, LowBins: 3},
		Edges: []float64{0.98, 1.98, 2.98}, Means: []float64{2, 12, 22, 32}, Counts: []int{150, 150, 150, 150},
		Rounds: []int{300, 300, 300, 300}}
	for i := range want.Edges {
		if math.Abs(f.Edges[i]-want.Edges[i]) > 1e-9 {
			t.Fatalf("edges %v, want %v", f.Edges, want.Edges)
		}
	}
	if f.Edges = want.Edges; !reflect.DeepEqual(f, want) || f.Low() != 3 || f.LowEdge() != 2.98 ||
		f.LowShare() != 0.75 {
		t.Errorf("fitted %+v, low %d", f, f.Low())
	}
	for phi, bin := range map[float64]int{0: 0, 0.98: 0, 0.99: 1, 2.98: 2, 3: 3, 100: 3} {
		if got := f.Bin(phi); got != bin {
			t.Errorf("Φ of %v is in bin %d, want %d", phi, got, bin)
		}
	}
	flat, err := FitHetero(slices.Repeat([]HeteroPoint{{1, 5, true}}, 500), DefaultHeteroFitting())
	want = &HeteroFit{HeteroFitting: HeteroFitting{CARTDepth: 3, Leaf: 10, LowBins: 3}, Edges: []float64{},
		Means: []float64{5}, Counts: []int{500}, Rounds: []int{500}}
	if err != nil || flat.Low() != 0 || flat.LowEdge() >= 0 || !reflect.DeepEqual(flat, want) {
		t.Errorf("samples without structure give %+v (%v)", flat, err)
	}
}

func TestFitHeteroBySettings(t *testing.T) {
	shallow, err := FitHetero(points(600), HeteroFitting{CARTDepth: 1, LowBins: 2})
	if err != nil || len(shallow.Means) != 2 || shallow.Low() != 1 {
		t.Errorf("depth 1: %+v (%v)", shallow, err)
	}
	wide, err := FitHetero(points(600), HeteroFitting{CARTDepth: 3, Leaf: 301, LowBins: 1})
	if err != nil || len(wide.Means) != 1 || wide.Leaf != 301 {
		t.Errorf("leaves of more than half of the paths: %+v (%v)", wide, err)
	}
	for _, o := range []HeteroFitting{{LowBins: 1}, {CARTDepth: 7, LowBins: 1}, {CARTDepth: 2},
		{CARTDepth: 2, LowBins: 5}, {CARTDepth: 2, LowBins: 1, Leaf: -1}} {
		if _, err := FitHetero(points(600), o); err == nil {
			t.Errorf("%+v was taken", o)
		}
	}
	// A fourth low bin keeps the share of the third, and the extension never falls below 0.
	s := HeteroSettings{Depth: 5, TopK: 10, Nodes: 60}
	if b := s.Bin(3); b != (spec.Budget{Levels: 6, Width: 10, Nodes: 60}) {
		t.Errorf("the fourth low bin has %+v", b)
	}
}
