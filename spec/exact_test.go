package spec

import (
	"context"
	"fmt"
	"slices"
	"testing"
)

// setting is a way to draft, built anew for each pair of models.
type setting struct {
	name  string
	parts func(*scriptedTarget, *scriptedDraft) Parts
}

func named(c Config) setting {
	name := fmt.Sprintf("%s/%s/%s/d%d/k%d/N%d/%v", c.Drafter, c.Adapt, c.Verifier, c.Depth, c.TopK, c.Nodes, c.Uncoupled)
	return setting{name, func(t *scriptedTarget, d *scriptedDraft) Parts {
		d.accept = c.Aids.Head
		p, err := c.Parts(t, d)
		if err != nil {
			panic(err)
		}
		return p
	}}
}

// everyNth drafts in every nth round only, so that the draft lags far behind.
type everyNth struct {
	n, round int
	budget   Budget
}

func (e *everyNth) Plan(Budget) Budget {
	if e.round++; e.round%e.n == 0 {
		return e.budget
	}
	return Budget{}
}

func (e *everyNth) Observe(*Event) {}

// changing asks for another shape every round, up to absurd ones.
type changing struct{ round int }

func (c *changing) Plan(Budget) Budget {
	c.round++
	return [...]Budget{{3, 2, 7}, {-1, -1, -1}, {1, 1, 2}, {2, 9, 1 << 20}, {1 << 20, 1, 1 << 20}, {5, 0, 9}}[c.round%6]
}

func (c *changing) Observe(*Event) {}

func settings() []setting {
	all := []setting{
		named(Config{Drafter: DrafterNone}),
		named(Config{Drafter: DrafterChain, Depth: 1}),
		named(Config{Drafter: DrafterChain, Depth: 3}),
		named(Config{Drafter: DrafterChain, Depth: 3, Uncoupled: true}),
		named(Config{Drafter: DrafterChain, Depth: 9}),
		named(Config{Drafter: DrafterEAGLE2, Depth: 0, TopK: 1, Nodes: 2}),
		named(Config{Drafter: DrafterEAGLE2, Depth: 0, TopK: 4, Nodes: 4}),
		named(Config{Drafter: DrafterEAGLE2, Depth: 1, TopK: 2, Nodes: 5}),
		named(Config{Drafter: DrafterEAGLE2, Depth: 3, TopK: 2, Nodes: 6}),
		named(Config{Drafter: DrafterEAGLE2, Depth: 3, TopK: 3, Nodes: 16}),
		named(Config{Drafter: DrafterEAGLE2, Depth: 2, TopK: 3, Nodes: 9, Uncoupled: true}),
		named(Config{Drafter: DrafterNgram, Depth: 4, NgramMax: 3, NgramMin: 1}),
		named(Config{Drafter: DrafterNgramSimple, Depth: 3, NgramMax: 1}),
		{"sampled chain", func(t *scriptedTarget, d *scriptedDraft) Parts {
			return Parts{Drafter: &SampledChain{Model: d}, Verifier: Match{}, Policy: Fixed{Levels: 3, Width: 1, Nodes: 4}}
		}},
	}
	all = append(all, setting{"none with a budget", func(*scriptedTarget, *scriptedDraft) Parts {
		return Parts{Drafter: None{}, Verifier: Match{}, Policy: Fixed{Levels: 3, Width: 2, Nodes: 8}}
	}})
	lagging := func(n int, b Budget, drafter func(*scriptedDraft) Drafter) func(*scriptedTarget, *scriptedDraft) Parts {
		return func(t *scriptedTarget, d *scriptedDraft) Parts {
			return Parts{Drafter: drafter(d), Verifier: Match{}, Policy: &everyNth{n: n, budget: b}}
		}
	}
	tree := func(d *scriptedDraft) Drafter { return &TreeDrafter{Model: d} }
	sampled := func(d *scriptedDraft) Drafter { return &SampledChain{Model: d} }
	return append(all,
		setting{"tree every 3rd round", lagging(3, Budget{Levels: 3, Width: 2, Nodes: 8}, tree)},
		setting{"tree every 11th round", lagging(11, Budget{Levels: 3, Width: 2, Nodes: 8}, tree)},
		setting{"sampled chain every 10th round", lagging(10, Budget{Levels: 2, Width: 1, Nodes: 3}, sampled)},
		setting{"changing budgets", func(t *scriptedTarget, d *scriptedDraft) Parts {
			return Parts{Drafter: &TreeDrafter{Model: d}, Verifier: Match{}, Policy: &changing{}}
		}})
}

func samplings() []Sampling {
	return []Sampling{
		{},
		{Temperature: 0.7},
		{Temperature: 1, TopK: 3},
		{Temperature: 1.3, TopP: 0.8},
		{Temperature: 1, MinP: 0.3},
		{Temperature: 0.9, TopK: 4, TopP: 0.9, MinP: 0.05},
	}
}

// generate runs a setting and checks, at every event, what must hold at each.
func generate(t *testing.T, s setting, target *scriptedTarget, draft *scriptedDraft, prompt []int32, o Options) ([]int32, Stats) {
	t.Helper()
	g, err := Assemble(target, s.parts(target, draft))
	if err != nil {
		t.Fatal(err)
	}
	target.calls, target.rows = 0, 0
	var out []int32
	ended := Finish("")
	stats, err := g.Generate(context.Background(), prompt, o, func(e *Event) error {
		if ended != "" {
			t.Fatalf("%s: an event after the end", s.name)
		}
		out = append(out, e.Tokens...)
		ended = e.Finish
		if e.Tree != nil {
			checkEvent(t, e)
		}
		if e.Stats.OutputTokens != len(out) || target.Len() != len(prompt)+len(out)-1 {
			t.Fatalf("%s: %d tokens came, counted %d, held %d", s.name, len(out), e.Stats.OutputTokens, target.Len())
		}
		return nil
	})
	if err != nil {
		t.Fatalf("%s: %v", s.name, err)
	}
	if ended == "" || stats.Finish != ended {
		t.Fatalf("%s: ended with %q, stats say %q", s.name, ended, stats.Finish)
	}
	if stats.Calls != target.calls || stats.Nodes != target.rows || stats.Plain+stats.Corrected+stats.Bonus+stats.Accepted != len(out) {
		t.Fatalf("%s: %d calls and %d rows of %+v", s.name, target.calls, target.rows, stats)
	}
	return out, stats
}

func checkEvent(t *testing.T, e *Event) {
	t.Helper()
	if len(e.Tokens) == 0 || len(e.Origins) != len(e.Tokens) || e.Path[0] != 0 {
		t.Fatalf("round %d: tokens %v, origins %v, path %v", e.Round, e.Tokens, e.Origins, e.Path)
	}
	for i, n := range e.Path[1:] {
		if e.Tree.Tokens[n] != e.Tokens[i] || e.Tree.Parents[n] != e.Path[i] || e.Origins[i] != Accepted && !(e.Origins[i] == Relaxed && e.Stats.Lossy) {
			t.Fatalf("round %d: node %d of path %v is not token %d of %v", e.Round, n, e.Path, i, e.Tokens)
		}
	}
	if len(e.Tokens) == len(e.Path) {
		last := e.Path[len(e.Path)-1]
		want := Corrected
		if e.Tree.Len() == 1 {
			want = Plain
		} else if e.Tree.IsLeaf(last) {
			want = Bonus
		}
		if got := e.Origins[len(e.Origins)-1]; got != want {
			t.Fatalf("round %d: the last token is %v, want %v", e.Round, got, want)
		}
	} else if len(e.Tokens) != len(e.Path)-1 || e.Finish == "" || e.Judged != len(e.Tokens) {
		t.Fatalf("round %d: %d tokens of path %v, finish %q, judged %d", e.Round, len(e.Tokens), e.Path, e.Finish, e.Judged)
	}
}

func expect(t *testing.T, name string, got []int32, stats Stats, want []int32, finish Finish) {
	t.Helper()
	if !slices.Equal(got, want) || stats.Finish != finish {
		t.Fatalf("%s: %v (%s), plain decoding gives %v (%s)", name, got, stats.Finish, want, finish)
	}
}

func TestSpeculationEqualsPlainDecoding(t *testing.T) {
	prompt := []int32{1, 0, 1}
	for _, vocab := range []int{2, 5, 40} {
		for _, steps := range []float64{1, 1e6} { // with and without ties
			target := newTarget(&script{vocab: vocab, steps: steps}, 96, 64)
			for _, differ := range []float64{0.1, 1} {
				draft := newDraft(target, 128, differ)
				for _, set := range settings() {
					for i, sampling := range samplings() {
						for seed := range fewer(2) {
							sampling.Seed = seed<<40 + 7
							o := Options{Sampling: sampling, MaxTokens: 24}
							want, finish := plain(target.script, prompt, 96, o)
							got, stats := generate(t, set, target, draft, prompt, o)
							expect(t, fmt.Sprintf("%s, sampling %d, differ %v", set.name, i, differ), got, stats, want, finish)
						}
					}
				}
			}
		}
	}
}

// long leaves a test out of short runs, those in a browser: the same Go takes five times as long there, and what
// WebAssembly may compute otherwise, the tests that remain compute too.
func long(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("short: full runs have it")
	}
}

// fewer is one of n seeds in short runs.
func fewer(n uint64) uint64 {
	if testing.Short() {
		return 1
	}
	return n
}

// TestEndsAtEveryPosition puts each kind of end at each place of a run, so that it
// falls on accepted, corrected and bonus tokens and before the unjudged rest.
func TestEndsAtEveryPosition(t *testing.T) {
	long(t)
	const longest = 14
	for _, prompt := range [][]int32{{3}, {1, 0, 2, 1, 0, 2, 1}} {
		for _, set := range append(settings(), matched()...) {
			for i, sampling := range []Sampling{{}, {Temperature: 1, TopP: 0.9, Seed: 11}} {
				for _, differ := range []float64{0, 0.3} {
					for n := 0; n <= longest; n++ {
						name := fmt.Sprintf("%s, sampling %d, differ %v, end at %d", set.name, i, differ, n)
						s := &script{vocab: 6, steps: 1e6, eos: 5}
						run := func(kind string, context, draftContext int, o Options) {
							t.Helper()
							o.Sampling = sampling
							target := newTarget(s, context, 32)
							draft := newDraft(target, draftContext, differ)
							want, finish := plain(s, prompt, context, o)
							if o.Cut != nil {
								o.Cut = cutAfter(n)
							}
							got, stats := generate(t, set, target, draft, prompt, o)
							expect(t, name+" by "+kind, got, stats, want, finish)
						}
						run("context", len(prompt)+n, 96, Options{})
						run("the draft's context", len(prompt)+longest, max(len(prompt)+n-2, 1), Options{})
						if n == 0 {
							continue
						}
						run("context before length", len(prompt)+n, 96, Options{MaxTokens: n + 3})
						run("length", 96, 96, Options{MaxTokens: n})
						run("cut", 96, 96, Options{Cut: cutAfter(n)})
						s.eosAt = len(prompt) + n - 1
						run("end of sequence", 96, 96, Options{EOS: []int32{77, 5}})
						run("end of sequence at the last token", 96, 96, Options{EOS: []int32{5}, MaxTokens: n})
					}
				}
			}
		}
	}
}

// cutAfter stops after n tokens, wherever in a run they end.
func cutAfter(n int) func([]int32) (int, bool) {
	seen := 0
	return func(tokens []int32) (int, bool) {
		if seen += len(tokens); seen >= n {
			return len(tokens) - (seen - n), true
		}
		return len(tokens), false
	}
}

func TestFarBehindDraftIsPrefilled(t *testing.T) {
	target := newTarget(&script{vocab: 5, steps: 1e6}, 96, 32)
	draft := newDraft(target, 96, 0.2)
	set := setting{"every 20th", func(*scriptedTarget, *scriptedDraft) Parts {
		return Parts{Drafter: &TreeDrafter{Model: draft}, Verifier: Match{}, Policy: &everyNth{n: 20, budget: Budget{3, 2, 8}}}
	}}
	_, stats := generate(t, set, target, draft, []int32{1, 2}, Options{MaxTokens: 70})
	if draft.pending != MaxPending || stats.Drafted == 0 {
		t.Errorf("the longest lag fed was %d, want %d; drafted %d", draft.pending, MaxPending, stats.Drafted)
	}
}

func TestPerfectDraftIsAcceptedWhole(t *testing.T) {
	target := newTarget(&script{vocab: 30, steps: 1e6}, 200, 32)
	draft := newDraft(target, 200, 0)
	for _, sampling := range []Sampling{{}, {Temperature: 1, Seed: 5}} {
		set := named(Config{Drafter: DrafterChain, Depth: 4})
		_, stats := generate(t, set, target, draft, []int32{1, 2}, Options{Sampling: sampling, MaxTokens: 50})
		if stats.AcceptedLength() != 5 || stats.Bonus != 10 || stats.Accepted != 40 {
			t.Errorf("T=%v: a draft equal to the target gives %+v", sampling.Temperature, stats)
		}
		// Of a full round the draft lacks its own last token and the bonus, no more.
		if draft.pending != 2 {
			t.Errorf("T=%v: %d tokens were fed at once, want 2", sampling.Temperature, draft.pending)
		}
	}
	draft.pending = 0
	set := setting{"sampled", func(*scriptedTarget, *scriptedDraft) Parts {
		return Parts{Drafter: &SampledChain{Model: draft}, Verifier: Rejection{}, Policy: Fixed{Levels: 4, Width: 1, Nodes: 5}}
	}}
	_, stats := generate(t, set, target, draft, []int32{1, 2}, Options{Sampling: Sampling{Temperature: 1}, MaxTokens: 50})
	if stats.AcceptedLength() != 5 || draft.pending != 2 {
		t.Errorf("sampled: a draft equal to the target gives %+v, fed %d at once", stats, draft.pending)
	}
}

func TestCoupledDraftAgreesMoreOften(t *testing.T) {
	target := newTarget(&script{vocab: 30, steps: 1e6}, 2000, 32)
	draft := newDraft(target, 2000, 0.1)
	length := func(uncoupled bool) float64 {
		set := named(Config{Drafter: DrafterEAGLE2, Depth: 3, TopK: 3, Nodes: 12, Uncoupled: uncoupled})
		_, stats := generate(t, set, target, draft, []int32{1}, Options{Sampling: Sampling{Temperature: 1, Seed: 1}, MaxTokens: 1000})
		return stats.AcceptedLength()
	}
	if coupled, not := length(false), length(true); coupled < 1.3*not {
		t.Errorf("accepted length %.2f coupled, %.2f not", coupled, not)
	}
}
