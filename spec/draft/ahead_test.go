package draft

import (
	"context"
	"errors"
	"reflect"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"

	"foretoken/spec"
	"foretoken/spec/spectest"
)

// strictModel is a scripted draft that takes one call at a time and overwrites levels when it drafts the next ones.
type strictModel struct {
	*spectest.Draft
	t      *testing.T
	inside atomic.Int32
	calls  int
	before func(ctx context.Context, call int) error // may refuse a call that drafts
	given  []spec.Level
}

func (m *strictModel) enter() func() {
	if m.inside.Add(1) != 1 {
		m.t.Error("two calls at a time")
	}
	return func() { m.inside.Add(-1) }
}

// give copies levels into memory that the next call of it overwrites.
func (m *strictModel) give(levels []spec.Level, err error) ([]spec.Level, error) {
	for i := range m.given {
		l := &m.given[i]
		for j := range l.Candidates {
			l.Candidates[j] = spec.Candidate{Token: -7, Beam: -7}
		}
		for j := range l.Beams {
			l.Beams[j] = -7
		}
	}
	m.given = nil
	for _, l := range levels {
		m.given = append(m.given, spec.Level{Candidates: slices.Clone(l.Candidates), Beams: slices.Clone(l.Beams),
			Entropies: slices.Clone(l.Entropies), Accepts: slices.Clone(l.Accepts)})
	}
	return m.given, err
}

func (m *strictModel) DraftTree(ctx context.Context, r spec.DraftRequest) ([]spec.Level, error) {
	defer m.enter()()
	if m.calls++; m.before != nil {
		if err := m.before(ctx, m.calls); err != nil {
			return nil, err
		}
	}
	return m.give(m.Draft.DraftTree(ctx, r))
}

func (m *strictModel) Grow(ctx context.Context, passes int) ([]spec.Level, error) {
	defer m.enter()()
	return m.give(m.Draft.Grow(ctx, passes))
}

func (m *strictModel) Commit(beams []int32) error { defer m.enter()(); return m.Draft.Commit(beams) }
func (m *strictModel) ReusePrefix(t []int32) int  { defer m.enter()(); return m.Draft.ReusePrefix(t) }
func (m *strictModel) Reset()                     { defer m.enter()(); m.Draft.Reset() }
func (m *strictModel) Prefill(ctx context.Context, tokens []int32) error {
	defer m.enter()()
	return m.Draft.Prefill(ctx, tokens)
}

// newStrict returns a draft that its Ahead may run ahead of the target.
func newStrict(t *testing.T, target *spectest.Target, differ float64) *strictModel {
	d := spectest.NewDraft(target, 128, differ)
	d.Target, d.Keeps = nil, true
	return &strictModel{Draft: d, t: t}
}

// round holds the tree and the tokens of a round.
type round struct {
	tree   *spec.Tree
	levels []spec.Level
	tokens []int32
}

func rounds(t *testing.T, target *spectest.Target, p spec.Parts, o spec.Options) ([]round, spec.Stats) {
	t.Helper()
	g, err := spec.New(target, p)
	if err != nil {
		t.Fatal(err)
	}
	var all []round
	stats, err := g.Generate(context.Background(), []int32{1, 2, 3}, o, func(e *spec.Event) error {
		if e.Tree != nil {
			r := round{tree: e.Tree.Clone(), tokens: slices.Clone(e.Tokens)}
			for _, l := range e.Levels {
				r.levels = append(r.levels, spec.Level{Candidates: slices.Clone(l.Candidates),
					Beams: append([]int32{}, l.Beams...), Entropies: slices.Clone(l.Entropies)})
			}
			all = append(all, r)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all, stats
}

// TestAheadChangesNothing compares every round of chains, trees and chains that a rule ends, drafted ahead and not: the
// same trees, levels and tokens, which are those of plain decoding. Drafts made ahead are used, and discarded.
func TestAheadChangesNothing(t *testing.T) {
	script := &spectest.Script{Vocab: 12, Steps: 1e6}
	target := spectest.NewTarget(script, 96, 64)
	hits, misses := map[string]int{}, map[string]int{}
	for name, parts := range map[string]func(m spec.DraftModel) spec.Parts{
		"chain": func(m spec.DraftModel) spec.Parts {
			return spec.Parts{Drafter: &TreeDrafter{Model: m}, Policy: spec.Fixed(spec.ChainBudget(4))}
		},
		"eagle2": func(m spec.DraftModel) spec.Parts {
			return spec.Parts{Drafter: &TreeDrafter{Model: m}, Policy: spec.Fixed{Levels: 4, Width: 3, Nodes: 12}}
		},
		"rule": func(m spec.DraftModel) spec.Parts {
			rule := refuser{spec.Fixed(spec.ChainBudget(6)), 2}
			return spec.Parts{Drafter: &RankedChain{Model: m, Rule: rule, Ahead: 2}, Policy: rule}
		},
		"changing": func(m spec.DraftModel) spec.Parts {
			return spec.Parts{Drafter: &TreeDrafter{Model: m}, Policy: &changing{}}
		},
	} {
		for _, s := range []spec.Sampling{{}, {Temperature: 0.8, Seed: 5}, {Temperature: 1, TopP: 0.8, Seed: 6}} {
			for _, differ := range []float64{0, 0.15, 0.7} {
				with := func(m spec.DraftModel) spec.Parts {
					p := parts(m)
					p.Verifier, p.Models = spec.Match{}, []spec.DraftModel{m}
					return p
				}
				o := spec.Options{Sampling: s, MaxTokens: 80}
				target.Reset()
				want, _ := rounds(t, target, with(newStrict(t, target, differ)), o)
				target.Reset()
				ahead := &Ahead{DraftModel: newStrict(t, target, differ), Turn: runtime.Gosched}
				got, stats := rounds(t, target, with(ahead), o)
				if !reflect.DeepEqual(got, want) {
					t.Fatalf("%s, differ %v, %+v: the rounds differ", name, differ, s)
				}
				var tokens []int32
				for _, r := range got {
					tokens = append(tokens, r.tokens...)
				}
				plain, _ := spectest.Plain(script, []int32{1, 2, 3}, 96, o)
				if !slices.Equal(tokens, plain) {
					t.Fatalf("%s, differ %v, %+v: %v, plain decoding gives %v", name, differ, s, tokens, plain)
				}
				if n := stats.AheadHits + stats.AheadMisses; n == 0 || n >= stats.Rounds {
					t.Errorf("%s, differ %v: %d drafts ahead in %d rounds", name, differ, n, stats.Rounds)
				}
				if differ == 0 && name == "chain" && stats.AheadMisses > 0 {
					t.Errorf("a perfect draft missed %d times", stats.AheadMisses)
				}
				hits[name] += stats.AheadHits
				misses[name] += stats.AheadMisses
			}
		}
		t.Logf("%s: %d hits, %d misses", name, hits[name], misses[name])
		if hits[name] == 0 || misses[name] == 0 {
			t.Errorf("%s: %d hits, %d misses", name, hits[name], misses[name])
		}
	}
}

// changing asks for another depth every round, and for none at times, so that the draft lags behind.
type changing struct{ round int }

func (c *changing) NextBudget(spec.Budget) spec.Budget {
	c.round++
	if c.round%4 == 0 {
		return spec.Budget{}
	}
	return spec.Budget{Levels: 1 + c.round*5%6, Width: 2, Nodes: 8}
}

// TestAheadFails refuses single calls of the draft: one that runs ahead costs a guess, any other ends the request with
// its error. Nothing runs afterwards, and the models serve another request.
func TestAheadFails(t *testing.T) {
	target := spectest.NewTarget(&spectest.Script{Vocab: 12, Steps: 1e6}, 96, 64)
	refused := errors.New("refused")
	ended, went := 0, 0
	for call := 1; call < 12; call++ {
		model := newStrict(t, target, 0.15)
		ahead := &Ahead{DraftModel: model, Turn: runtime.Gosched}
		g, err := spec.New(target, spec.Parts{Drafter: &TreeDrafter{Model: ahead}, Verifier: spec.Match{},
			Policy: spec.Fixed(spec.ChainBudget(3)), Models: []spec.DraftModel{ahead}})
		if err != nil {
			t.Fatal(err)
		}
		model.before = func(_ context.Context, n int) error {
			if n == call {
				return refused
			}
			return nil
		}
		o := spec.Options{MaxTokens: 40}
		target.Reset()
		_, err = g.Generate(context.Background(), []int32{1}, o, nil)
		switch {
		case err == nil:
			went++
		case errors.Is(err, refused):
			ended++
		default:
			t.Fatalf("call %d: %v", call, err)
		}
		if model.inside.Load() != 0 {
			t.Fatalf("call %d: the draft runs after the request", call)
		}
		target.Reset()
		var got []int32
		want, _ := spectest.Plain(target.Script, []int32{1}, 96, o)
		if _, err := g.Generate(context.Background(), []int32{1}, o, func(e *spec.Event) error {
			got = append(got, e.Tokens...)
			return nil
		}); err != nil || !slices.Equal(got, want) {
			t.Fatalf("call %d, then: %v %v, want %v", call, got, err, want)
		}
	}
	if ended == 0 || went == 0 {
		t.Errorf("%d requests ended, %d went on", ended, went)
	}
}

// TestAheadEndsWithTheRequest ends requests while the draft runs ahead and waits for its context: by cancelling it, by
// an error of the receiver, and by the last token. The draft's call has returned when Generate has.
func TestAheadEndsWithTheRequest(t *testing.T) {
	broken := errors.New("broken")
	for name, end := range map[string]struct {
		emit func(cancel func()) error
		want error
		most int
	}{
		"cancelled": {func(cancel func()) error { cancel(); return nil }, nil, 0},
		"receiver":  {func(func()) error { return broken }, broken, 0},
		"length":    {func(func()) error { return nil }, nil, 1},
	} {
		target := spectest.NewTarget(&spectest.Script{Vocab: 12, Steps: 1e6}, 96, 64)
		model := newStrict(t, target, 0.15)
		ahead := &Ahead{DraftModel: model, Turn: runtime.Gosched}
		began := make(chan struct{})
		model.before = func(ctx context.Context, n int) error {
			if n == 1 {
				return nil
			}
			close(began) // the first call ahead
			<-ctx.Done()
			return ctx.Err()
		}
		budget := spec.ChainBudget(3)
		g, err := spec.New(target, spec.Parts{Drafter: &TreeDrafter{Model: ahead}, Verifier: spec.Match{},
			Policy: spec.Fixed(budget), Models: []spec.DraftModel{ahead}})
		if err != nil {
			t.Fatal(err)
		}
		o := spec.Options{MaxTokens: 60}
		if end.most > 0 { // the text ends with the round that runs ahead
			o.Cut = func(tokens []int32) (int, bool) { return end.most, true }
		}
		ctx, cancel := context.WithCancel(context.Background())
		_, err = g.Generate(ctx, []int32{1}, o, func(e *spec.Event) error {
			if e.Tree == nil {
				return nil
			}
			<-began
			return end.emit(cancel)
		})
		cancel()
		if !errors.Is(err, end.want) || model.inside.Load() != 0 || model.calls != 2 {
			t.Errorf("%s: %v, %d calls, %d of them not returned", name, err, model.calls, model.inside.Load())
		}
	}
}

// TestAheadRefusesToGrowNothing asks for more levels where there is no tree.
func TestAheadRefusesToGrowNothing(t *testing.T) {
	target := spectest.NewTarget(&spectest.Script{Vocab: 12, Steps: 1e6}, 96, 64)
	a := &Ahead{DraftModel: newStrict(t, target, 0), Turn: runtime.Gosched}
	if _, err := a.Grow(context.Background(), 1); err == nil {
		t.Error("it was not refused")
	}
}
