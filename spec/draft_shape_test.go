package spec

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// byShape makes a tree from the definition of a shape and what the draft ranks after each prefix:
// place r of a level has its parent at place above and takes the next of its candidates.
func byShape(root int32, shape [][]int, ranked func(at prefix) []int32, at prefix) *Tree {
	type spot struct {
		node int32
		at   prefix
	}
	var tree Tree
	tree.Reset(root)
	level := []*spot{{0, at}}
	for _, ranks := range shape {
		var next []*spot
		for r, n := range ranks {
			if r >= len(level) {
				break
			}
			for i := range n {
				var child *spot
				if above := level[r]; above != nil {
					if tokens := ranked(above.at); i < len(tokens) {
						child = &spot{tree.Add(above.node, tokens[i], 0), above.at.then(tokens[i])}
					}
				}
				next = append(next, child)
			}
		}
		level = next
	}
	return &tree
}

// shapes are some that end early, skip ranks or name more than there is.
var shapes = [][][]int{
	{{1}}, {{4}}, {{3}, {2, 0, 1}, {1, 2}}, {{2}, {0, 3}, {1, 1, 1}, {0, 0, 2}, {1, 1}}, {{1}, {1}, {1}, {1}}, DefaultShape(),
	{{5}, {1, 1, 1, 1, 1}, {1, 1, 1, 1, 1}},
}

func (d *scriptedDraft) ranking(s Sampling, coupled, drawn bool) func(prefix) []int32 {
	return func(at prefix) []int32 {
		d.request, d.trees = DraftRequest{Coupled: coupled, Sampling: s}, drawn
		q := d.logQ(at)
		x := slices.Clone(q)
		if drawn {
			for i := range x {
				x[i] += Gumbel(s.Seed, StreamDraft, uint32(at.len), uint32(i))
			}
		}
		var possible []int32
		for _, id := range bestOf(x, len(x)) {
			if !math.IsInf(q[id], -1) {
				possible = append(possible, id)
			}
		}
		return possible
	}
}

func TestShapedTreesAreTheirShape(t *testing.T) {
	prompt := []int32{1, 1, 0}
	for _, vocab := range []int{2, 5, 30} {
		for _, shape := range shapes {
			for _, s := range []Sampling{{}, {Temperature: 1, TopK: 3, Seed: 9}} {
				for _, drawn := range []bool{false, true} {
					target := newTarget(&script{vocab: vocab, steps: 1e6}, 96, 64)
					draft := newDraft(target, 96, 0.3)
					shaped := &ShapedTree{Model: draft, Shape: shape}
					if drawn {
						shaped.Sampler = draft
					}
					name := fmt.Sprintf("vocabulary %d, shape %v, T=%v, drawn %v", vocab, shape, s.Temperature, drawn)
					draft.target = nil
					session, err := shaped.Begin(context.Background(), prompt, s, nil)
					if err != nil {
						t.Fatal(err)
					}
					budget := Config{Drafter: DrafterStatic, Shape: shape}.Budget()
					d, err := session.Propose(context.Background(), prompt, budget)
					if err != nil {
						t.Fatal(err)
					}
					got := d.Tree.Clone()
					if err := got.Validate(vocab); err != nil {
						t.Fatal(err)
					}
					really := drawn && s.Temperature > 0
					if really != (d.TreeSampler != nil) || really && len(d.Rows) != got.Len() {
						t.Errorf("%s: %d rows by %v", name, len(d.Rows), d.TreeSampler)
					}
					for i, row := range d.Rows {
						if got.IsLeaf(int32(i)) != (row < 0) {
							t.Errorf("%s: rows %v of %v", name, d.Rows, got.Parents)
						}
					}
					want := byShape(0, shape, draft.ranking(s, s.Temperature > 0 && !drawn, really), of(prompt))
					if !slices.Equal(got.Tokens, want.Tokens) || !slices.Equal(got.Parents, want.Parents) {
						t.Fatalf("%s: tokens %v below %v, want %v below %v", name, got.Tokens, got.Parents, want.Tokens, want.Parents)
					}
					if vocab == 30 && s.Temperature == 0 && got.Len() != budget.Nodes {
						t.Errorf("%s: %d nodes, the budget says %d", name, got.Len(), budget.Nodes)
					}
				}
			}
		}
	}
}

// TestShapedTreesKeepWithinBudgets compares trees of random budgets with the beginning of the
// whole one, and checks that no place of the budget is wasted.
func TestShapedTreesKeepWithinBudgets(t *testing.T) {
	prompt := []int32{1, 2, 0}
	shape := DefaultShape()
	r := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		context1 := len(prompt) - 1 + r.IntN(12)
		target := newTarget(&script{vocab: 30, steps: 1e6}, 96, 64)
		draft := newDraft(target, context1, 0.3)
		draft.target = nil
		session, err := (&ShapedTree{Model: draft, Shape: shape}).Begin(context.Background(), prompt, Sampling{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		b := Budget{Levels: r.IntN(6) - 1, Width: 64, Nodes: r.IntN(20)}
		d, err := session.Propose(context.Background(), prompt, b)
		if err != nil {
			t.Fatal(err)
		}
		// What the budget leaves of the shape, in order of levels: nodes, and beams that fit.
		room, nodes := context1-len(prompt), b.Nodes-1
		var left [][]int
		for level := 0; level < min(len(shape), b.Levels) && room >= 0; level++ {
			var ranks []int
			for _, n := range shape[level] {
				n = max(min(n, nodes), 0)
				if level > 0 && n > 0 {
					if room == 0 {
						n = 0
					} else {
						room--
					}
				}
				nodes -= n
				ranks = append(ranks, n)
			}
			left = append(left, ranks)
		}
		got := d.Tree.Clone()
		want := byShape(0, left, draft.ranking(Sampling{}, false, false), of(prompt))
		if !slices.Equal(got.Tokens, want.Tokens) || !slices.Equal(got.Parents, want.Parents) {
			t.Fatalf("budget %+v, draft's context %d: %v below %v, want %v below %v", b, context1, got.Tokens, got.Parents, want.Tokens, want.Parents)
		}
	}
	// A narrow budget narrows beams and children.
	target := newTarget(&script{vocab: 30, steps: 1e6}, 96, 64)
	draft := newDraft(target, 96, 0.3)
	draft.target = nil
	session, err := (&ShapedTree{Model: draft, Shape: shape}).Begin(context.Background(), prompt, Sampling{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	d, err := session.Propose(context.Background(), prompt, Budget{Levels: 9, Width: 2, Nodes: 64})
	if err != nil {
		t.Fatal(err)
	}
	if want := []int32{-1, 0, 0, 1, 1, 2, 2, 3, 3, 4, 7, 8}; !slices.Equal(d.Tree.Parents, want) {
		t.Errorf("a width of 2 gives %v, want %v", d.Tree.Parents, want)
	}
}

func TestShapesAreChecked(t *testing.T) {
	for want, shape := range map[string][][]int{
		"levels of the shape is 0":                     nil,
		"the shape's level 1 gives children to 2":      {{1, 1}},
		"the shape's level 2 gives children to 3":      {{2}, {1, 1, 1}},
		"children of a node of the shape is -1":        {{-1}},
		"children of a node of the shape is 65":        {{65}},
		"the shape's level 2 has no nodes":             {{2}, {0, 0}, {1}},
		"nodes of the shape is 4161, want 2 to 4096":   {{64}, slices.Repeat([]int{64}, 64)},
		"the shape's level 3 gives children to 65 nod": {{64}, slices.Repeat([]int{2}, 64), slices.Repeat([]int{1}, 65)},
	} {
		for _, drafter := range []string{DrafterStatic, DrafterSampled} {
			if err := (Config{Drafter: drafter, Shape: shape}).Validate(); err == nil || !strings.HasPrefix(err.Error(), "spec: "+want) {
				t.Errorf("%v: %v, want %q", shape, err, want)
			}
		}
	}
	if b := DefaultConfig(DrafterStatic).Budget(); b != (Budget{4, 4, 18}) {
		t.Errorf("the default shape has %+v", b)
	}
}

// shallow is a draft model that gives a level too few.
type shallow struct{ *scriptedDraft }

func (s shallow) Expand(ctx context.Context, beams []int32) ([]Level, error) {
	levels, err := s.scriptedDraft.Expand(ctx, beams)
	return levels[:1], err
}

func TestWithoutReplacementRefusesOtherDrafts(t *testing.T) {
	target := newTarget(&script{vocab: 6, steps: 2}, 64, 16)
	draft := newDraft(target, 64, 0)
	shape := [][]int{{2}, {1, 1}}
	sampled := func() Parts {
		return Parts{Drafter: &ShapedTree{Model: draft, Sampler: draft, Shape: shape}, Verifier: WithoutReplacement{}, Policy: Fixed{2, 2, 5}}
	}
	ranked, chain, less := sampled(), sampled(), sampled()
	ranked.Drafter = &ShapedTree{Model: draft, Shape: shape}
	chain.Drafter = &SampledChain{Model: draft}
	less.Drafter = &ShapedTree{Model: shallow{draft}, Shape: shape}
	for _, c := range []struct {
		want   string
		target Target
		parts  Parts
	}{
		{"the without-replacement rule on a tree that was not drawn so", target, ranked},
		{"the without-replacement rule on a tree that was not drawn so", target, chain},
		{"this target cannot verify trees drawn without replacement", plainTarget{target}, sampled()},
		{"the target answered for 4 of 5", brief{target}, sampled()},
		{"the target accepted node 4 as a child of node 0", wrong{target, 4}, sampled()},
		{"the target accepted node 5 as a child of node 0", wrong{target, 5}, sampled()},
		{"the target accepted node 0 as a child of node 0", wrong{target, 0}, sampled()},
		{"the draft model gave 1 levels, want 2", target, less},
	} {
		g, err := Assemble(c.target, c.parts)
		if err != nil {
			t.Fatal(err)
		}
		_, err = g.Generate(context.Background(), []int32{1}, Options{Sampling: Sampling{Temperature: 1}}, nil)
		if err == nil || !strings.HasPrefix(err.Error(), "spec: "+c.want) {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
}

// brief is a target that judges too few nodes, wrong one that accepts a node wherever it is.
type brief struct{ *scriptedTarget }

func (b brief) VerifySampled(ctx context.Context, tree *Tree, rows []int32, d TreeSampler, s Sampling) ([]TreeVerdict, error) {
	out, err := b.scriptedTarget.VerifySampled(ctx, tree, rows, d, s)
	return out[1:], err
}

type wrong struct {
	*scriptedTarget
	child int32
}

func (w wrong) VerifySampled(ctx context.Context, tree *Tree, rows []int32, d TreeSampler, s Sampling) ([]TreeVerdict, error) {
	out, err := w.scriptedTarget.VerifySampled(ctx, tree, rows, d, s)
	for i := range out {
		out[i].Child = w.child
	}
	return out, err
}

func TestMapLookupKeysAndCounts(t *testing.T) {
	session, err := MapLookup{Size: 2}.Begin(context.Background(), nil, Sampling{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	seq := []int32{1, 2, 3, 4, 5, 1, 2}
	for i, step := range []struct {
		accepted int     // of this draft
		add      []int32 // committed after it
		want     []int32
	}{
		{2, []int32{3, 4, 9, 1, 2}, []int32{3, 4, 5, 1}}, // after 1 2, four at most
		{0, []int32{8, 1, 2}, []int32{3, 4}},             // the key's last draft was accepted for two; the newest occurrence
		{1, []int32{8, 7, 1, 2}, []int32{8, 1}},          // nothing was accepted: still two
		{1, []int32{8, 3, 4}, []int32{8}},                // one
		{0, []int32{6, 6}, []int32{9, 1, 2, 8}},          // another key, with nothing known of it
		{0, []int32{6}, nil},                             // new
		{0, []int32{5}, []int32{6}},                      // overlapping itself
	} {
		d, err := session.Propose(context.Background(), seq, Budget{Levels: 4, Width: 1, Nodes: 9})
		if err != nil {
			t.Fatal(err)
		}
		if got := d.Tree.Tokens[1:]; !slices.Equal(got, step.want) || !d.Tree.IsChain() {
			t.Errorf("step %d: after %v %v, want %v", i, seq, got, step.want)
		}
		path := []int32{0}
		for j := range step.accepted {
			path = append(path, int32(j+1))
		}
		if err := session.Commit(path); err != nil {
			t.Fatal(err)
		}
		seq = append(seq, step.add...)
	}
	// Text that came without proposals is in the map as well.
	seq = append(seq, 1, 9, 9, 4, 4, 1, 9)
	d, err := session.Propose(context.Background(), seq, Budget{Levels: 9, Width: 1, Nodes: 3})
	if err != nil || !slices.Equal(d.Tree.Tokens[1:], []int32{9, 4}) {
		t.Errorf("%v (%v)", d.Tree.Tokens, err)
	}
	for _, m := range []MapLookup{{0}, {3}} {
		session, err := m.Begin(context.Background(), nil, Sampling{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if d, err := session.Propose(context.Background(), []int32{1, 1, 1}, Budget{4, 1, 9}); err != nil || d.Tree.Len() != 1 {
			t.Errorf("size %d: %v (%v)", m.Size, d.Tree, err)
		}
	}
}
