package draft

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"foretoken/spec"
	"foretoken/spec/spectest"
)

// byShape makes a tree from the definition of a shape and what the draft ranks after each prefix:
// place r of a level has its parent at place above and takes the next of its candidates.
func byShape(root int32, shape [][]int, ranked func(at spectest.Prefix) []int32, at spectest.Prefix) *spec.Tree {
	type spot struct {
		node int32
		at   spectest.Prefix
	}
	var tree spec.Tree
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
						child = &spot{tree.Add(above.node, tokens[i], 0), above.at.Then(tokens[i])}
					}
				}
				next = append(next, child)
			}
		}
		level = next
	}
	return &tree
}

// ragged has fewer children the lower the rank.
var ragged = [][]int{{4}, {3, 2, 1, 1}, {2, 1, 1}, {1, 1}}

// shapes are some that end early, skip ranks or name more than there is.
var shapes = [][][]int{
	{{1}}, {{4}}, {{3}, {2, 0, 1}, {1, 2}}, {{2}, {0, 3}, {1, 1, 1}, {0, 0, 2}, {1, 1}}, {{1}, {1}, {1}, {1}}, ragged,
	{{5}, {1, 1, 1, 1, 1}, {1, 1, 1, 1, 1}},
}

func TestStaticTreesAreTheirShape(t *testing.T) {
	prompt := []int32{1, 1, 0}
	for _, vocab := range []int{2, 5, 30} {
		for _, shape := range shapes {
			for _, s := range []spec.Sampling{{}, {Temperature: 1, TopK: 3, Seed: 9}} {
				for _, drawn := range []bool{false, true} {
					target := spectest.NewTarget(&spectest.Script{Vocab: vocab, Steps: 1e6}, 96, 64)
					draft := spectest.NewDraft(target, 96, 0.3)
					tree := &StaticTree{Model: draft, Shape: shape, Drawn: drawn}
					name := fmt.Sprintf("vocabulary %d, shape %v, T=%v, drawn %v", vocab, shape, s.Temperature, drawn)
					draft.Target = nil
					session, err := tree.Begin(context.Background(), spec.SessionOptions{Prompt: prompt, Sampling: s})
					if err != nil {
						t.Fatal(err)
					}
					budget := StaticBudget(shape)
					d, err := session.Propose(context.Background(), prompt, budget)
					if err != nil {
						t.Fatal(err)
					}
					got := d.Tree.Clone()
					if err := got.Validate(vocab); err != nil {
						t.Fatal(err)
					}
					really := drawn && s.Temperature > 0
					if really != (d.Sampler != nil) || really && len(d.Rows) != got.Len() {
						t.Errorf("%s: %d rows by %v", name, len(d.Rows), d.Sampler)
					}
					for i, row := range d.Rows {
						if got.IsLeaf(int32(i)) != (row < 0) {
							t.Errorf("%s: rows %v of %v", name, d.Rows, got.Parents)
						}
					}
					want := byShape(0, shape, ranking(draft, s, s.Temperature > 0 && !drawn, really),
						spectest.PrefixOf(prompt))
					if !slices.Equal(got.Tokens, want.Tokens) || !slices.Equal(got.Parents, want.Parents) {
						t.Fatalf("%s: tokens %v below %v, want %v below %v", name, got.Tokens, got.Parents, want.Tokens,
							want.Parents)
					}
					if vocab == 30 && s.Temperature == 0 && got.Len() != budget.Nodes {
						t.Errorf("%s: %d nodes, the budget says %d", name, got.Len(), budget.Nodes)
					}
				}
			}
		}
	}
}

// TestStaticTreesKeepWithinBudgets compares trees of random budgets with the beginning of the whole one, and checks
// that no place of the budget is wasted.
func TestStaticTreesKeepWithinBudgets(t *testing.T) {
	prompt := []int32{1, 2, 0}
	shape := ragged
	r := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		context1 := len(prompt) - 1 + r.IntN(12)
		target := spectest.NewTarget(&spectest.Script{Vocab: 30, Steps: 1e6}, 96, 64)
		draft := spectest.NewDraft(target, context1, 0.3)
		draft.Target = nil
		o := spec.SessionOptions{Prompt: prompt}
		session, err := (&StaticTree{Model: draft, Shape: shape}).Begin(context.Background(), o)
		if err != nil {
			t.Fatal(err)
		}
		b := spec.Budget{Levels: r.IntN(6) - 1, Width: 64, Nodes: r.IntN(20)}
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
		want := byShape(0, left, ranking(draft, spec.Sampling{}, false, false), spectest.PrefixOf(prompt))
		if !slices.Equal(got.Tokens, want.Tokens) || !slices.Equal(got.Parents, want.Parents) {
			t.Fatalf("budget %+v, draft's context %d: %v below %v, want %v below %v", b, context1, got.Tokens,
				got.Parents, want.Tokens, want.Parents)
		}
	}
	// A narrow budget narrows beams and children.
	target := spectest.NewTarget(&spectest.Script{Vocab: 30, Steps: 1e6}, 96, 64)
	draft := spectest.NewDraft(target, 96, 0.3)
	draft.Target = nil
	o := spec.SessionOptions{Prompt: prompt}
	session, err := (&StaticTree{Model: draft, Shape: shape}).Begin(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	d, err := session.Propose(context.Background(), prompt, spec.Budget{Levels: 9, Width: 2, Nodes: 64})
	if err != nil {
		t.Fatal(err)
	}
	if want := []int32{-1, 0, 0, 1, 1, 2, 2, 3, 3, 4, 7, 8}; !slices.Equal(d.Tree.Parents, want) {
		t.Errorf("a width of 2 gives %v, want %v", d.Tree.Parents, want)
	}
}

// ranking returns the possible tokens after a prefix, best first by the draft's ranking, or in the order of drawing.
func ranking(d *spectest.DraftModel, s spec.Sampling, coupled, drawn bool) func(spectest.Prefix) []int32 {
	return func(at spectest.Prefix) []int32 {
		d.Request = spec.DraftRequest{Coupled: coupled, Sampling: s}
		q := d.LogQ(at)
		if drawn {
			p := spectest.Distribution(spec.Sampling{Temperature: s.Temperature}, d.Script.Logits(at, d.Differ))
			for i := range q {
				q[i] = math.Log(p[i]) + spectest.Gumbel(s.Seed, spec.StreamDraft, uint32(at.Len), uint32(i))
			}
		}
		var possible []int32
		for _, id := range spectest.BestOf(q, len(q)) {
			if !math.IsInf(q[id], -1) {
				possible = append(possible, id)
			}
		}
		return possible
	}
}

// shallow is a draft model that gives a level too few.
type shallow struct{ *spectest.DraftModel }

func (s shallow) Draft(ctx context.Context, r spec.DraftRequest) ([]spec.Level, error) {
	levels, err := s.DraftModel.Draft(ctx, r)
	return levels[:1], err
}

func TestWithoutReplacementRefusesOtherDrafts(t *testing.T) {
	target := spectest.NewTarget(&spectest.Script{Vocab: 6, Steps: 2}, 64, 16)
	draft := spectest.NewDraft(target, 64, 0)
	shape := [][]int{{2}, {1, 1}}
	sampled := func() spec.Parts {
		return spec.Parts{Drafter: &StaticTree{Model: draft, Drawn: true, Shape: shape},
			Verifier: spec.WithoutReplacement{}, Policy: spec.Fixed{Levels: 2, Width: 2, Nodes: 5}}
	}
	ranked, chain, less := sampled(), sampled(), sampled()
	ranked.Drafter = &StaticTree{Model: draft, Shape: shape}
	chain.Drafter = &SampledChain{Model: draft}
	less.Drafter = &StaticTree{Model: shallow{draft}, Shape: shape}
	for _, c := range []struct {
		want   string
		target spec.Target
		parts  spec.Parts
	}{
		{"the without-replacement rule on a tree that was not drawn so", target, ranked},
		{"the without-replacement rule on a tree that was not drawn so", target, chain},
		{"the target answered for 4 of 5", brief{target}, sampled()},
		{"the target accepted node 4 as a child of node 0", wrong{target, 4}, sampled()},
		{"the target accepted node 5 as a child of node 0", wrong{target, 5}, sampled()},
		{"the target accepted node 0 as a child of node 0", wrong{target, 0}, sampled()},
		{"the draft model gave 1 levels, want 2", target, less},
	} {
		g, err := spec.New(c.target, c.parts)
		if err != nil {
			t.Fatal(err)
		}
		_, err = g.Generate(context.Background(), []int32{1}, spec.Options{Sampling: spec.Sampling{Temperature: 1}},
			nil)
		if err == nil || !strings.HasPrefix(err.Error(), "spec: "+c.want) {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
}

// brief is a target that verifies too few nodes, wrong one that accepts a node wherever it is.
type brief struct{ *spectest.Target }

func (b brief) Verify(ctx context.Context, r spec.PassRequest) (*spec.Pass, error) {
	pass, err := b.Target.Verify(ctx, r)
	if pass != nil {
		pass.Children = pass.Children[1:]
	}
	return pass, err
}

type wrong struct {
	*spectest.Target
	child int32
}

func (w wrong) Verify(ctx context.Context, r spec.PassRequest) (*spec.Pass, error) {
	pass, err := w.Target.Verify(ctx, r)
	if pass != nil {
		for i := range pass.Children {
			pass.Children[i].Child = w.child
		}
	}
	return pass, err
}
