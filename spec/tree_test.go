package spec

import (
	"math"
	"slices"
	"testing"
)

// bush is 0 → (1 → (3, 4 → 5), 2).
func bush() *Tree {
	var t Tree
	t.Reset(9)
	a := t.Add(0, 1, -1)
	t.Add(0, 2, -2)
	t.Add(a, 3, -3)
	t.Add(t.Add(a, 4, -4), 5, -5)
	return &t
}

func TestTree(t *testing.T) {
	b := bush()
	if err := b.Validate(10); err != nil {
		t.Fatal(err)
	}
	if b.Len() != 6 || b.Depth() != 3 || b.IsChain() {
		t.Errorf("%d nodes, depth %d, chain %v", b.Len(), b.Depth(), b.IsChain())
	}
	if got := b.Path(nil, 5); !slices.Equal(got, []int32{0, 1, 4, 5}) {
		t.Errorf("path to 5: %v", got)
	}
	if b.Child(0, 2) != 2 || b.Child(1, 2) != -1 || b.Child(1, 4) != 4 || b.Child(5, 1) != -1 {
		t.Error("wrong children")
	}
	for n, want := range []bool{false, false, true, true, false, true} {
		if b.IsLeaf(int32(n)) != want {
			t.Errorf("node %d is a leaf: %v", n, !want)
		}
	}
	c := b.Clone()
	b.Reset(3)
	if err := c.Validate(10); err != nil || c.Len() != 6 || b.Len() != 1 || !b.IsChain() || b.Depth() != 0 {
		t.Errorf("clone %v (%v), reset %v", c, err, b)
	}
}

func TestValidateRefuses(t *testing.T) {
	for name, spoil := range map[string]func(*Tree){
		"empty":          func(t *Tree) { *t = Tree{} },
		"lengths":        func(t *Tree) { t.Scores = t.Scores[:5] },
		"root's parent":  func(t *Tree) { t.Parents[0] = 0 },
		"root's depth":   func(t *Tree) { t.Depths[0] = 1 },
		"own parent":     func(t *Tree) { t.Parents[2] = 2 },
		"later parent":   func(t *Tree) { t.Parents[2] = 4 },
		"no parent":      func(t *Tree) { t.Parents[2] = -1 },
		"depth":          func(t *Tree) { t.Depths[3] = 1 },
		"negative token": func(t *Tree) { t.Tokens[3] = -1 },
		"unknown token":  func(t *Tree) { t.Tokens[0] = 10 },
	} {
		b := bush()
		spoil(b)
		if b.Validate(10) == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func cand(token int32, q float32, beam int32) Candidate { return Candidate{token, q, beam} }

func TestRerankOfATreeWorkedByHand(t *testing.T) {
	// Level 0: a -1, b -1.5, c -3. Beams a, b. Level 1 under a: d -1 (V -2), e -4 (V -5); under b: f -0.5 (V -2), g
	// -2 (V -3.5). Beams d, f. Level 2: h -0.1 (V -2.1), i -3 (V -5); under f: j -1 (V -3), k -1 (V -3).
	levels := []Level{
		{Candidates: []Candidate{cand(1, -1, 0), cand(2, -1.5, 0), cand(3, -3, 0)}, Beams: []int32{0, 1}},
		{Candidates: []Candidate{cand(4, -1, 0), cand(5, -4, 0), cand(6, -0.5, 1), cand(7, -2, 1)},
			Beams: []int32{0, 2}},
		{Candidates: []Candidate{cand(8, -.125, 0), cand(9, -3, 0), cand(8, -1, 1), cand(9, -1, 1)}},
	}
	var b Builder
	for _, c := range []struct {
		nodes           int
		tokens, parents []int32
	}{
		{1, []int32{0}, []int32{-1}},
		{0, []int32{0}, []int32{-1}},
		{2, []int32{0, 1}, []int32{-1, 0}},
		{6, []int32{0, 1, 2, 4, 6, 8}, []int32{-1, 0, 0, 1, 2, 3}},
		{7, []int32{0, 1, 2, 3, 4, 6, 8}, []int32{-1, 0, 0, 0, 1, 2, 4}}, // -3 three times: the earlier level wins
		{8, []int32{0, 1, 2, 3, 4, 6, 8, 8}, []int32{-1, 0, 0, 0, 1, 2, 4, 5}},
		{99, []int32{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 8, 9}, []int32{-1, 0, 0, 0, 1, 1, 2, 2, 4, 4, 6, 6}},
	} {
		tree, err := b.Build(0, levels, c.nodes)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(tree.Tokens, c.tokens) || !slices.Equal(tree.Parents, c.parents) {
			t.Errorf("N=%d: tokens %v, parents %v; want %v, %v", c.nodes, tree.Tokens, tree.Parents, c.tokens,
				c.parents)
		}
	}
	// In the last tree: node 6 is f, beam 1 of level 1; node 11 is its child, consumed by no pass.
	for _, c := range []struct{ path, beams []int32 }{
		{[]int32{0}, nil}, {[]int32{0, 3}, nil}, {[]int32{0, 2}, []int32{1}},
		{[]int32{0, 2, 6}, []int32{1, 1}}, {[]int32{0, 2, 7}, []int32{1}}, {[]int32{0, 2, 6, 11}, []int32{1, 1}},
		{[]int32{0, 1, 4}, []int32{0, 0}},
	} {
		if got := b.Beams(c.path); !slices.Equal(got, c.beams) {
			t.Errorf("beams of %v: %v, want %v", c.path, got, c.beams)
		}
	}
}

// TestBuildForALayout fills the places of a layout of two children and their two first: with all candidates, with one
// of probability zero, a repeated token and a beam without candidates. What the draft has no token for stays empty.
func TestBuildForALayout(t *testing.T) {
	layout := &Layout{Beams: [][]int32{{0, 1}}, Chosen: []int32{0, 1, 2, 3, 4, 5}}
	never := float32(math.Inf(-1))
	first := []Candidate{{7, -1, 0}, {8, -2, 0}}
	all := []Candidate{{1, -1, 0}, {2, -2, 0}, {3, -1, 1}, {4, -2, 1}}
	for name, c := range map[string]struct {
		first, second   []Candidate
		tokens, parents []int32
	}{
		"complete": {first, all, []int32{9, 7, 8, 1, 2, 3, 4}, []int32{-1, 0, 0, 1, 1, 2, 2}},
		"impossible child": {first, []Candidate{{1, -1, 0}, {2, never, 0}, {3, -1, 1}, {4, -2, 1}},
			[]int32{9, 7, 8, 1, 3, 4}, []int32{-1, 0, 0, 1, 2, 2}},
		"impossible beam": {[]Candidate{{7, -1, 0}, {8, never, 0}}, all, []int32{9, 7, 1, 2}, []int32{-1, 0, 1, 1}},
		"repeated token": {first, []Candidate{{1, -1, 0}, {1, -2, 0}, {3, -1, 1}, {4, -2, 1}},
			[]int32{9, 7, 8, 1, 3, 4}, []int32{-1, 0, 0, 1, 2, 2}},
		"empty beam": {first, all[:2], []int32{9, 7, 8, 1, 2}, []int32{-1, 0, 0, 1, 1}},
	} {
		tree, err := new(Builder).BuildFor(&DraftRequest{Pending: []int32{9}, Depth: 1, K: 2, Layout: layout},
			[]Level{{Candidates: c.first, Beams: []int32{0, 1}}, {Candidates: c.second}})
		if err != nil || !slices.Equal(tree.Tokens, c.tokens) || !slices.Equal(tree.Parents, c.parents) {
			t.Errorf("%s: %+v, %v, want tokens %v under %v", name, tree, err, c.tokens, c.parents)
		}
	}
	for name, levels := range map[string][]Level{
		"one level":   {{Candidates: first}},
		"other beams": {{Candidates: first, Beams: []int32{1, 0}}, {Candidates: all}},
	} {
		r := &DraftRequest{Pending: []int32{9}, Depth: 1, K: 2, Layout: layout}
		if tree, err := new(Builder).BuildFor(r, levels); err == nil {
			t.Errorf("%s: made %+v", name, tree)
		}
	}
}

func TestBuildRefusesLevelsThatContradictThemselves(t *testing.T) {
	first := Level{Candidates: []Candidate{cand(1, -1, 0), cand(2, -2, 0)}, Beams: []int32{0, 1}}
	for name, levels := range map[string][]Level{
		"first level's beam":    {{Candidates: []Candidate{cand(1, -1, 1)}}},
		"unknown beam":          {first, {Candidates: []Candidate{cand(1, -1, 2)}}},
		"negative beam":         {first, {Candidates: []Candidate{cand(1, -1, -1)}}},
		"not grouped":           {first, {Candidates: []Candidate{cand(1, -1, 1), cand(2, -1, 0)}}},
		"unknown candidate":     {{Candidates: first.Candidates, Beams: []int32{2}}},
		"negative candidate":    {{Candidates: first.Candidates, Beams: []int32{-1}}},
		"beam twice":            {{Candidates: first.Candidates, Beams: []int32{1, 1}}},
		"no beams but children": {{Candidates: first.Candidates}, {Candidates: []Candidate{cand(1, -1, 0)}}},
	} {
		if _, err := new(Builder).Build(0, levels, 9); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// drafted decodes bytes to well-formed levels with few distinct values, so that ties,
// zero probabilities, nonsense and repeated tokens are common.
func drafted(data []byte) ([]Level, int) {
	next := func() int {
		if len(data) == 0 {
			return 0
		}
		b := data[0]
		data = data[1:]
		return int(b)
	}
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	odds := []float32{-0.5, -1, -1, -2, 0, -0.25, -inf, nan, inf, 0.5}
	nodes, depth, k := next()%40, next()%4, 1+next()%4
	levels := make([]Level, depth+1)
	beams := 1
	for d := range levels {
		l := &levels[d]
		for beam := range beams {
			for range k {
				v := next()
				l.Candidates = append(l.Candidates, cand(int32(v%5), odds[v/5%len(odds)], int32(beam)))
			}
		}
		if d < depth || next()%2 == 0 { // a draft may name beams that no pass consumed
			order := make([]int32, len(l.Candidates))
			for i := range order {
				order[i] = int32(i)
			}
			for range min(k, len(order)) {
				i := next() % len(order)
				l.Beams = append(l.Beams, order[i])
				order = slices.Delete(order, i, i+1)
			}
			beams = len(l.Beams)
		}
	}
	return levels, nodes
}

// brute is the rerank in the words of its definition, on paths of candidates.
type brute struct {
	path   []int32 // candidate of each level
	tokens []int32
	value  float32
}

func bruteForce(levels []Level, nodes int) []brute {
	var all []brute
	above := []brute{{}}
	for d, l := range levels {
		var level []brute
		for i, c := range l.Candidates {
			from := above[0]
			if d > 0 {
				from = above[levels[d-1].Beams[c.Beam]]
			}
			q := float64(c.LogQ)
			if math.IsNaN(q) {
				q = math.Inf(-1)
			}
			b := brute{append(slices.Clone(from.path), int32(i)), append(slices.Clone(from.tokens), c.Token),
				from.value + float32(math.Min(q, 0))}
			for j := range level {
				if slices.Equal(level[j].path[:d], from.path) && level[j].tokens[d] == c.Token {
					b.value = float32(math.Inf(-1))
				}
			}
			level = append(level, b)
		}
		all = append(all, level...)
		above = level
	}
	taken := make([]bool, len(all))
	for range nodes - 1 {
		best := -1
		for i := range all {
			if !taken[i] && !math.IsInf(float64(all[i].value), -1) && (best < 0 || all[i].value > all[best].value) {
				best = i
			}
		}
		if best < 0 {
			break
		}
		taken[best] = true
	}
	var kept []brute
	for i := range all {
		if taken[i] {
			kept = append(kept, all[i])
		}
	}
	return kept
}

func FuzzTree(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{16, 2, 1, 0, 6, 1, 0, 5, 11, 22, 1, 1, 7, 13, 3, 9})
	f.Add([]byte{39, 3, 3, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25,
		26})
	f.Add([]byte{12, 3, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1}) // all equal
	f.Add([]byte{30, 2, 2, 30, 35, 40, 45, 0, 1, 2, 30, 31, 35, 36, 40, 41, 45, 46, 9, 8})
	x := uint64(1)
	for range 300 {
		data := make([]byte, 120)
		for i := range data {
			x = mixed(x + 0x9E3779B97F4A7C15)
			data[i] = byte(x)
		}
		f.Add(data)
	}
	var b Builder // shared, so that what a tree leaves behind shows in the next
	f.Fuzz(func(t *testing.T, data []byte) {
		levels, nodes := drafted(data)
		tree, err := b.Build(4, levels, nodes)
		if err != nil {
			t.Fatal(err)
		}
		if err := tree.Validate(5); err != nil {
			t.Fatal(err)
		}
		want := bruteForce(levels, nodes)
		if tree.Len() != 1+len(want) {
			t.Fatalf("%d nodes, want %d", tree.Len(), 1+len(want))
		}
		for i, w := range want {
			node := int32(i + 1)
			path := tree.Path(nil, node)
			var tokens []int32
			for _, n := range path[1:] {
				tokens = append(tokens, tree.Tokens[n])
			}
			if !slices.Equal(tokens, w.tokens) || tree.Scores[node] != w.value {
				t.Fatalf("node %d: tokens %v score %v, want %v %v", node, tokens, tree.Scores[node], w.tokens, w.value)
			}
			if tree.Child(tree.Parents[node], tree.Tokens[node]) != node {
				t.Fatalf("node %d repeats a sibling", node)
			}
			// The beams name the very candidates, as deep as a pass consumed them.
			beams := b.Beams(path)
			for d, c := range w.path {
				beam := int32(-1)
				if d < len(levels)-1 {
					beam = int32(slices.Index(levels[d].Beams, c))
				}
				if beam < 0 {
					if len(beams) != d {
						t.Fatalf("node %d: beams %v, candidate %d of level %d is none", node, beams, c, d)
					}
					break
				}
				if len(beams) <= d || beams[d] != beam {
					t.Fatalf("node %d: beams %v, want %d at level %d", node, beams, beam, d)
				}
			}
		}
	})
}

// mixed is a hash of x.
func mixed(x uint64) uint64 {
	x = (x ^ x>>30) * 0xBF58476D1CE4E5B9
	x = (x ^ x>>27) * 0x94D049BB133111EB
	return x ^ x>>31
}
