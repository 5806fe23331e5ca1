package goodput

import (
	"context"
	"math"
	"testing"
	"time"

	"foretoken/spec"
	"foretoken/spec/adapt"
	"foretoken/spec/draft"
	"foretoken/spec/spectest"
)

// grownTree is a sequence and the tree that a draft grows after it: so many levels of k beams.
func grownTree(b *testing.B, depth, k int) ([]int32, *spectest.Target, []spec.Level) {
	b.Helper()
	s := &spectest.Script{Vocab: 512, Steps: 50}
	target := spectest.NewTarget(s, 1024, 64)
	draft := spectest.NewDraft(target, 1024, 0.4)
	draft.Target = nil
	seq := make([]int32, 400)
	for i := range seq {
		seq[i] = int32(spectest.Mix(uint64(i%90)) % 512)
	}
	ctx := context.Background()
	if err := target.Prefill(ctx, seq[:len(seq)-1]); err != nil {
		b.Fatal(err)
	}
	if err := draft.Prefill(ctx, seq[:len(seq)-1]); err != nil {
		b.Fatal(err)
	}
	levels, err := draft.Draft(ctx, spec.DraftRequest{Pending: seq[len(seq)-1:], Depth: depth - 1, K: k})
	if err != nil {
		b.Fatal(err)
	}
	return seq, target, levels
}

// BenchmarkRoundWithoutDraft times what auto adds to a round of plain decoding: each row of the target takes nearly as
// long as the first, and the draft as long as the target.
func BenchmarkRoundWithoutDraft(b *testing.B) {
	seq, target, _ := grownTree(b, 1, 1)
	for i := range seq {
		seq[i] = int32(spectest.Mix(uint64(i)) % 100)
	}
	costs := NewCosts()
	costs.Verify.guess(0.001, 0.9)
	costs.Drafts[SmallDraft].guess(0.001, 0.9)
	for _, cell := range []*Cell{costs.Verify.cell(1), costs.Verify.cell(mostRows), &costs.Drafts[SmallDraft].Root} {
		cell.Count = 5
	}
	model := spectest.NewDraft(target, 1024, 0.4)
	model.Target = nil
	g := &Goodput{Models: Models{model}, Costs: costs, Levels: 8, Width: 4, Nodes: 64}
	costs.opening.rounds, costs.explored = openingRounds, math.Inf(1) // no more of either
	ctx := context.Background()
	if _, err := g.Begin(ctx, spec.SessionOptions{Prompt: seq[:100]}); err != nil {
		b.Fatal(err)
	}
	g.lookupBudget = 0
	e := spec.Event{Verify: time.Millisecond}
	b.ReportAllocs()
	for n := 100; b.Loop(); n++ {
		if n == len(seq) {
			g.history.reset()
			n = 100
		}
		d, err := g.Propose(ctx, seq[:n], g.NextBudget(spec.Budget{}))
		if err != nil {
			b.Fatal(err)
		}
		if d.Tree.Len() > 1 {
			b.Fatalf("drafted %d tokens", d.Tree.Len()-1)
		}
		g.lookupBudget = 0
		e.Tree, e.Tokens = d.Tree, seq[n:n+1]
		g.Observe(&e)
	}
}

// BenchmarkPolicies times what is decided on the host each round, apart from the models.
func BenchmarkPolicies(b *testing.B) {
	each := func(name string, step func() error) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			if err := step(); err != nil { // memory that is used again from then on
				b.Fatal(err)
			}
			for b.Loop() {
				if err := step(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	seq, target, levels := grownTree(b, 5, 4)
	root := seq[len(seq)-1]

	var builder spec.Builder
	each("rerank", func() error {
		_, err := builder.Build(root, levels, 16)
		return err
	})

	var h history
	each("lookup", func() error {
		h.reset()
		h.extend(seq)
		if len(h.after(nil)) == 0 {
			b.Fatal("a text that repeats itself has nothing to look up")
		}
		return nil
	})

	costs := NewCosts()
	costs.observeVerify(1, 0.02)
	a := costs.acceptance("greedy match")
	yield := &a.Models[0].Yield
	yield.ready(SmallDraft, []int{1, 2, 4}, 5, RowBuckets())
	var c candidates
	var tree *spec.Tree
	ends := ladder(nil, 16)
	each("goodput tree", func() error {
		c.reset(root)
		if err := c.levels(0, levels); err != nil {
			return err
		}
		c.score(&h, a, 6, 0.01)
		rows, _ := c.best(ends, 1/costs.plainTime(), costs.Verify.At)
		tree = c.build(max(rows, 8))
		return nil
	})
	each("goodput bestOption", func() error {
		g := Goodput{Costs: costs, Levels: 5, learnt: a, drafts: [MostModels]drafting{{
			Sequence: draft.Sequence{Model: spectest.NewDraft(target, 1024, 0.4)}, widths: []int{1, 2, 4},
		}}}
		if s := g.bestOption(0, len(seq), spec.Budget{Levels: 5, Nodes: 16}); s.levels == 0 {
			b.Fatal("no draft was chosen")
		}
		return nil
	})
	pass, err := target.Verify(context.Background(), spec.PassRequest{Tree: tree})
	if err != nil {
		b.Fatal(err)
	}
	var verdict spec.Verdict
	for name, verifier := range map[string]spec.Verifier{"match": spec.Match{}, "MARS": adapt.MARS{Theta: 0.9}} {
		each(name, func() error { return verifier.Accept(tree, pass, &verdict) })
	}
	tokens := []int32{pass.Outputs[0].Token}
	each("learn", func() error {
		c.learn(a, tokens)
		c.survey(yield, 4, 5, 0.1)
		costs.observeVerify(8, 0.03)
		costs.observeDraft(0, 0, 5, 4, 0.01)
		costs.observeHost(time.Millisecond.Seconds())
		return nil
	})
}
