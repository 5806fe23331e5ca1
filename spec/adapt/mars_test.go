package adapt

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"foretoken/spec"
	"foretoken/spec/spectest"
)

var unmasked = float32(math.Inf(-1))

func TestMARSByHand(t *testing.T) {
	// The root's children hold 1, 2 and 3; below 1 there is 4, below 2 there is 5.
	var tree spec.Tree
	tree.Reset(9)
	tree.Add(0, 3, 0)
	second := tree.Add(0, 2, 0)
	first := tree.Add(0, 1, 0)
	tree.Add(first, 4, 0)
	tree.Add(second, 5, 0)
	for _, c := range []struct {
		name    string
		m       MARS
		root    spec.NodeOutput
		leaf    spec.NodeOutput // of every other node
		path    []int32
		relaxed []bool
		next    int32
	}{
		{"the best goes first", MARS{Theta: 0.9}, spec.NodeOutput{Token: 2, TopIDs: []int32{1, 2},
			TopLogits: []float32{10, 9.9}, Threshold: unmasked},
			spec.NodeOutput{Token: 8, TopIDs: []int32{7, 8}, TopLogits: []float32{10, 1}}, []int32{0, 3},
			[]bool{false, false}, 7},
		{"a close second is accepted", MARS{Theta: 0.9},
			spec.NodeOutput{Token: 6, TopIDs: []int32{6, 2}, TopLogits: []float32{10, 9.1}, Threshold: unmasked},
			spec.NodeOutput{Token: 8, TopIDs: []int32{5, 8}, TopLogits: []float32{10, 1}}, []int32{0, 2, 5},
			[]bool{false, true, false}, 5},
		{"the bound is strict", MARS{Theta: 0.75},
			spec.NodeOutput{Token: 6, TopIDs: []int32{6, 2}, TopLogits: []float32{8, 6}, Threshold: unmasked},
			spec.NodeOutput{}, []int32{0}, []bool{false}, 6},
		{"a third choice is never accepted", MARS{Theta: 0.5},
			spec.NodeOutput{Token: 6, TopIDs: []int32{6, 7, 3}, TopLogits: []float32{8, 7.9, 7.8}, Threshold: unmasked},
			spec.NodeOutput{}, []int32{0}, []bool{false}, 6},
		{"logits at 0 mean nothing", MARS{Theta: 0.1},
			spec.NodeOutput{Token: 6, TopIDs: []int32{6, 2}, TopLogits: []float32{1, 0}, Threshold: unmasked},
			spec.NodeOutput{}, []int32{0}, []bool{false}, 6},
		{"negative logits mean nothing", MARS{Theta: 0.1},
			spec.NodeOutput{Token: 6, TopIDs: []int32{6, 2}, TopLogits: []float32{-1, -1.01}, Threshold: unmasked},
			spec.NodeOutput{}, []int32{0}, []bool{false}, 6},
		{"a second that the filters removed", MARS{Theta: 0.9},
			spec.NodeOutput{Token: 6, TopIDs: []int32{6, 2}, TopLogits: []float32{10, 9.9}, Threshold: 9.95},
			spec.NodeOutput{}, []int32{0}, []bool{false}, 6},
		{"a second that just survived", MARS{Theta: 0.9},
			spec.NodeOutput{Token: 6, TopIDs: []int32{6, 2}, TopLogits: []float32{10, 9.5}, Threshold: 9.5},
			spec.NodeOutput{Token: 1, TopIDs: []int32{7, 1}, TopLogits: []float32{10, 1}}, []int32{0, 2},
			[]bool{false, true}, 7},
		{"beyond the gap", MARS{Theta: 0.5, Gap: 0.5},
			spec.NodeOutput{Token: 6, TopIDs: []int32{6, 2}, TopLogits: []float32{10, 9.25}, Threshold: unmasked},
			spec.NodeOutput{}, []int32{0}, []bool{false}, 6},
		{"at the gap", MARS{Theta: 0.5, Gap: 0.75},
			spec.NodeOutput{Token: 6, TopIDs: []int32{6, 2}, TopLogits: []float32{10, 9.25}, Threshold: unmasked},
			spec.NodeOutput{Token: 1, TopIDs: []int32{7, 1}, TopLogits: []float32{10, 1}}, []int32{0, 2},
			[]bool{false, true}, 7},
		{"theta 1 relaxes nothing", MARS{Theta: 1},
			spec.NodeOutput{Token: 6, TopIDs: []int32{6, 2}, TopLogits: []float32{10, 10}, Threshold: unmasked},
			spec.NodeOutput{}, []int32{0}, []bool{false}, 6},
		{"sampled: the token drawn goes first", MARS{Theta: 0.9, Sampled: true},
			spec.NodeOutput{Token: 3, TopIDs: []int32{1, 2}, TopLogits: []float32{10, 9.9}, Threshold: unmasked},
			spec.NodeOutput{Token: 8, TopIDs: []int32{7, 6}, TopLogits: []float32{10, 1}}, []int32{0, 1},
			[]bool{false, false}, 8},
		{"sampled: else a close second", MARS{Theta: 0.9, Sampled: true},
			spec.NodeOutput{Token: 6, TopIDs: []int32{1, 2}, TopLogits: []float32{10, 9.9}, Threshold: unmasked},
			spec.NodeOutput{Token: 8, TopIDs: []int32{7, 6}, TopLogits: []float32{10, 1}}, []int32{0, 2},
			[]bool{false, true}, 8},
		{"sampled: the best is no substitute", MARS{Theta: 0.9, Sampled: true},
			spec.NodeOutput{Token: 6, TopIDs: []int32{1, 7}, TopLogits: []float32{10, 9.9}, Threshold: unmasked},
			spec.NodeOutput{}, []int32{0}, []bool{false}, 6},
		{"sampled: the second itself was drawn", MARS{Theta: 0.9, Sampled: true},
			spec.NodeOutput{Token: 2, TopIDs: []int32{1, 2}, TopLogits: []float32{10, 1}, Threshold: unmasked},
			spec.NodeOutput{Token: 8, TopIDs: []int32{7, 6}, TopLogits: []float32{10, 1}}, []int32{0, 2},
			[]bool{false, false}, 8},
		{"one token", MARS{Theta: 0.9}, spec.NodeOutput{Token: 6, TopIDs: []int32{6}, TopLogits: []float32{10},
			Threshold: unmasked},
			spec.NodeOutput{}, []int32{0}, []bool{false}, 6},
	} {
		out := []spec.NodeOutput{c.root}
		for range tree.Len() - 1 {
			out = append(out, c.leaf)
		}
		var v spec.Verdict
		err := c.m.Accept(&tree, &spec.Pass{Outputs: out}, &v)
		if err != nil || !slices.Equal(v.Path, c.path) || !slices.Equal(v.Relaxed, c.relaxed) || v.Next != c.next {
			t.Errorf("%s: path %v, relaxed %v, next %d (%v); want %v, %v, %d", c.name, v.Path, v.Relaxed, v.Next, err,
				c.path, c.relaxed, c.next)
		}
	}
}

// marsByForce implements the definition: it decides for every node whether it is accepted after its parent, then
// follows the accepted nodes from the root. It does not depend on the order of MARS's checks.
func marsByForce(m MARS, tree *spec.Tree, out []spec.NodeOutput) (path []int32, relaxed []bool, next int32) {
	type fate struct{ accepted, relaxed bool }
	fates := make([]fate, tree.Len())
	for n := 1; n < tree.Len(); n++ {
		o, token := out[tree.Parents[n]], tree.Tokens[n]
		strict := o.TopIDs[0]
		if m.Sampled {
			strict = o.Token
		}
		elder, hasStrict := false, false // of the token among earlier siblings; of the strict one
		for i := 1; i < tree.Len(); i++ {
			if tree.Parents[i] == tree.Parents[n] {
				elder = elder || i < n && tree.Tokens[i] == token
				hasStrict = hasStrict || tree.Tokens[i] == strict
			}
		}
		if elder {
			continue
		}
		if token == strict {
			fates[n] = fate{accepted: true}
			continue
		}
		if hasStrict || len(o.TopIDs) < 2 || token != o.TopIDs[1] {
			continue
		}
		z1, z2 := float64(o.TopLogits[0]), float64(o.TopLogits[1])
		close := z1 > 0 && z2 > 0 && z2/z1 > m.Theta && o.TopLogits[1] >= o.Threshold && (m.Gap == 0 || z1-z2 <= m.Gap)
		fates[n] = fate{close, close}
	}
	// Nodes come after their parents, so the last node with an accepted path is the deepest.
	reached := make([]bool, tree.Len())
	reached[0] = true
	end := int32(0)
	for n := 1; n < tree.Len(); n++ {
		if reached[n] = reached[tree.Parents[n]] && fates[n].accepted; reached[n] {
			end = int32(n)
		}
	}
	path = tree.Path(nil, end)
	for _, n := range path {
		relaxed = append(relaxed, fates[n].relaxed)
	}
	next = out[end].TopIDs[0]
	if m.Sampled {
		next = out[end].Token
	}
	return path, relaxed, next
}

// randomMARS returns a rule, a tree and target outputs for its nodes.
func randomMARS(r *rand.Rand) (MARS, *spec.Tree, []spec.NodeOutput) {
	m := MARS{Theta: [...]float64{0.1, 0.5, 0.8, 0.9, 1}[r.IntN(5)], Gap: [...]float64{0, 0, 0.25, 1}[r.IntN(4)],
		Sampled: r.IntN(2) == 0}
	var tree spec.Tree
	tree.Reset(0)
	for range r.IntN(14) {
		tree.Add(int32(r.IntN(tree.Len())), int32(r.IntN(4)), 0)
	}
	out := make([]spec.NodeOutput, tree.Len())
	for i := range out {
		z := make([]float64, 4)
		for j := range z {
			z[j] = float64(r.IntN(9)-2) / 4 // ties, zeros and negative values
		}
		ids := spectest.BestOf(z, 1+r.IntN(3))
		o := spec.NodeOutput{Token: int32(r.IntN(4)), TopIDs: ids,
			Threshold: [...]float32{unmasked, unmasked, 0.75}[r.IntN(3)]}
		for _, id := range ids {
			o.TopLogits = append(o.TopLogits, float32(z[id]))
		}
		out[i] = o
	}
	return m, &tree, out
}

func checkMARS(t *testing.T, seed uint64) (relaxed int) {
	t.Helper()
	m, tree, out := randomMARS(rand.New(rand.NewPCG(seed, 1)))
	path, marks, next := marsByForce(m, tree, out)
	var v spec.Verdict
	err := m.Accept(tree, &spec.Pass{Outputs: out}, &v)
	if err != nil || !slices.Equal(v.Path, path) || !slices.Equal(v.Relaxed, marks) || v.Next != next {
		t.Fatalf("seed %d: %+v on %v below %v says %v, %v, %d (%v), want %v, %v, %d", seed, m, tree.Tokens,
			tree.Parents, v.Path, v.Relaxed, v.Next, err, path, marks, next)
	}
	for _, x := range marks {
		if x {
			relaxed++
		}
	}
	return relaxed
}

func TestMARSIsItsDefinition(t *testing.T) {
	relaxed := 0
	for seed := range uint64(20000) {
		relaxed += checkMARS(t, seed)
	}
	if relaxed < 1000 {
		t.Errorf("%d tokens were relaxed; the test shows little", relaxed)
	}
}

func FuzzMARS(f *testing.F) {
	f.Add(uint64(1))
	f.Fuzz(func(t *testing.T, seed uint64) { checkMARS(t, seed) })
}

func TestMARSNeedsTheBestTokens(t *testing.T) {
	var tree spec.Tree
	tree.Reset(1)
	for _, out := range [][]spec.NodeOutput{{{Token: 1}}, {{Token: 1, TopIDs: []int32{1}}}} {
		err := MARS{Theta: 0.9}.Accept(&tree, &spec.Pass{Outputs: out}, new(spec.Verdict))
		if err == nil || !strings.HasPrefix(err.Error(), "spec: the target ") {
			t.Errorf("of %v: %v", out, err)
		}
	}
}
