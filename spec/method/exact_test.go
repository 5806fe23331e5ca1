package method

import (
	"fmt"
	"testing"

	"foretoken/spec"
	drafting "foretoken/spec/draft"
	"foretoken/spec/spectest"
)

func named(c Config) spectest.Setting {
	name := fmt.Sprintf("%s/%s/%s/d%d/k%d/N%d/%v", c.Drafter, c.Adapt, c.Verifier, c.Depth, c.TopK, c.Nodes,
		c.Uncoupled)
	return spectest.Setting{Name: name, Parts: func(t *spectest.Target, d *spectest.DraftModel) spec.Parts {
		d.Accept = c.Fitted.Head != nil
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
	budget   spec.Budget
}

func (e *everyNth) NextBudget(spec.Budget) spec.Budget {
	if e.round++; e.round%e.n == 0 {
		return e.budget
	}
	return spec.Budget{}
}

// changing asks for another budget every round, up to absurd ones.
type changing struct{ round int }

func (c *changing) NextBudget(spec.Budget) spec.Budget {
	c.round++
	return [...]spec.Budget{{Levels: 3, Width: 2, Nodes: 7}, {Levels: -1, Width: -1, Nodes: -1},
		{Levels: 1, Width: 1, Nodes: 2}, {Levels: 2, Width: 9, Nodes: 1 << 20},
		{Levels: 1 << 20, Width: 1, Nodes: 1 << 20}, {Levels: 5, Width: 0, Nodes: 9}}[c.round%6]
}

func settings() []spectest.Setting {
	all := []spectest.Setting{
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
		{Name: "sampled chain", Parts: func(t *spectest.Target, d *spectest.DraftModel) spec.Parts {
			return spec.Parts{Drafter: &drafting.SampledChain{Model: d}, Verifier: spec.Match{},
				Policy: spec.Fixed{Levels: 3, Width: 1, Nodes: 4}}
		}},
	}
	all = append(all, spectest.Setting{Name: "none with a budget",
		Parts: func(*spectest.Target, *spectest.DraftModel) spec.Parts {
			return spec.Parts{Drafter: spec.None{}, Verifier: spec.Match{},
				Policy: spec.Fixed{Levels: 3, Width: 2, Nodes: 8}}
		}})
	type builder = func(*spectest.Target, *spectest.DraftModel) spec.Parts
	lagging := func(n int, b spec.Budget, drafter func(*spectest.DraftModel) spec.Drafter) builder {
		return func(t *spectest.Target, d *spectest.DraftModel) spec.Parts {
			return spec.Parts{Drafter: drafter(d), Verifier: spec.Match{}, Policy: &everyNth{n: n, budget: b}}
		}
	}
	tree := func(d *spectest.DraftModel) spec.Drafter { return &drafting.TreeDrafter{Model: d} }
	sampled := func(d *spectest.DraftModel) spec.Drafter { return &drafting.SampledChain{Model: d} }
	return append(all,
		spectest.Setting{Name: "tree every 3rd round",
			Parts: lagging(3, spec.Budget{Levels: 3, Width: 2, Nodes: 8}, tree)},
		spectest.Setting{Name: "tree every 11th round",
			Parts: lagging(11, spec.Budget{Levels: 3, Width: 2, Nodes: 8}, tree)},
		spectest.Setting{Name: "sampled chain every 10th round",
			Parts: lagging(10, spec.Budget{Levels: 2, Width: 1, Nodes: 3}, sampled)},
		spectest.Setting{Name: "changing budgets", Parts: func(t *spectest.Target, d *spectest.DraftModel) spec.Parts {
			return spec.Parts{Drafter: &drafting.TreeDrafter{Model: d}, Verifier: spec.Match{}, Policy: &changing{}}
		}})
}

func TestSpeculationEqualsPlainDecoding(t *testing.T) {
	prompt := []int32{1, 0, 1}
	for _, vocab := range []int{2, 5, 40} {
		for _, steps := range []float64{1, 1e6} { // with and without ties
			target := spectest.NewTarget(&spectest.Script{Vocab: vocab, Steps: steps}, 96, 64)
			for _, differ := range []float64{0.1, 1} {
				draft := spectest.NewDraft(target, 128, differ)
				for _, set := range settings() {
					for i, sampling := range spectest.Samplings() {
						for seed := range spectest.Fewer(2) {
							sampling.Seed = seed<<40 + 7
							o := spec.Options{Sampling: sampling, MaxTokens: 24}
							want, finish := spectest.Plain(target.Script, prompt, 96, o)
							got, stats := spectest.Generate(t, set, target, draft, prompt, o)
							spectest.Expect(t, fmt.Sprintf("%s, sampling %d, differ %v", set.Name, i, differ), got,
								stats, want, finish)
						}
					}
				}
			}
		}
	}
}

// TestEndsAtEveryPosition puts each kind of end at each place of a run, so that it
// falls on accepted, corrected and bonus tokens and before the rest, which is not verified.
func TestEndsAtEveryPosition(t *testing.T) {
	spectest.Long(t)
	const longest = 14
	for _, prompt := range [][]int32{{3}, {1, 0, 2, 1, 0, 2, 1}} {
		for _, set := range append(settings(), matched()...) {
			for i, sampling := range []spec.Sampling{{}, {Temperature: 1, TopP: 0.9, Seed: 11}} {
				for _, differ := range []float64{0, 0.3} {
					for n := 0; n <= longest; n++ {
						name := fmt.Sprintf("%s, sampling %d, differ %v, end at %d", set.Name, i, differ, n)
						s := &spectest.Script{Vocab: 6, Steps: 1e6, EOS: 5}
						run := func(kind string, context, draftContext int, o spec.Options) {
							t.Helper()
							o.Sampling = sampling
							target := spectest.NewTarget(s, context, 32)
							draft := spectest.NewDraft(target, draftContext, differ)
							want, finish := spectest.Plain(s, prompt, context, o)
							if o.Cut != nil {
								o.Cut = spectest.CutAfter(n)
							}
							got, stats := spectest.Generate(t, set, target, draft, prompt, o)
							spectest.Expect(t, name+" by "+kind, got, stats, want, finish)
						}
						run("context", len(prompt)+n, 96, spec.Options{})
						run("the draft's context", len(prompt)+longest, max(len(prompt)+n-2, 1), spec.Options{})
						if n == 0 {
							continue
						}
						run("context before length", len(prompt)+n, 96, spec.Options{MaxTokens: n + 3})
						run("length", 96, 96, spec.Options{MaxTokens: n})
						run("cut", 96, 96, spec.Options{Cut: spectest.CutAfter(n)})
						s.EOSAt = len(prompt) + n - 1
						run("end of sequence", 96, 96, spec.Options{EOS: []int32{77, 5}})
						run("end of sequence at the last token", 96, 96, spec.Options{EOS: []int32{5}, MaxTokens: n})
					}
				}
			}
		}
	}
}

func TestFarBehindDraftIsPrefilled(t *testing.T) {
	target := spectest.NewTarget(&spectest.Script{Vocab: 5, Steps: 1e6}, 96, 32)
	draft := spectest.NewDraft(target, 96, 0.2)
	set := spectest.Setting{Name: "every 20th", Parts: func(*spectest.Target, *spectest.DraftModel) spec.Parts {
		return spec.Parts{Drafter: &drafting.TreeDrafter{Model: draft}, Verifier: spec.Match{},
			Policy: &everyNth{n: 20, budget: spec.Budget{Levels: 3, Width: 2, Nodes: 8}}}
	}}
	_, stats := spectest.Generate(t, set, target, draft, []int32{1, 2}, spec.Options{MaxTokens: 70})
	if draft.Pending != spec.MaxPending || stats.Drafted == 0 {
		t.Errorf("the longest lag fed was %d, want %d; drafted %d", draft.Pending, spec.MaxPending, stats.Drafted)
	}
}

func TestPerfectDraftIsAcceptedWhole(t *testing.T) {
	target := spectest.NewTarget(&spectest.Script{Vocab: 30, Steps: 1e6}, 200, 32)
	draft := spectest.NewDraft(target, 200, 0)
	for _, sampling := range []spec.Sampling{{}, {Temperature: 1, Seed: 5}} {
		set := named(Config{Drafter: DrafterChain, Depth: 4})
		_, stats := spectest.Generate(t, set, target, draft, []int32{1, 2},
			spec.Options{Sampling: sampling, MaxTokens: 50})
		if stats.AcceptedLength() != 5 || stats.Bonus != 10 || stats.Accepted != 40 {
			t.Errorf("T=%v: a draft equal to the target gives %+v", sampling.Temperature, stats)
		}
		// Of a full round the draft lacks its own last token and the bonus, no more.
		if draft.Pending != 2 {
			t.Errorf("T=%v: %d tokens were fed at once, want 2", sampling.Temperature, draft.Pending)
		}
	}
	draft.Pending = 0
	set := spectest.Setting{Name: "sampled", Parts: func(*spectest.Target, *spectest.DraftModel) spec.Parts {
		return spec.Parts{Drafter: &drafting.SampledChain{Model: draft}, Verifier: spec.Rejection{},
			Policy: spec.Fixed{Levels: 4, Width: 1, Nodes: 5}}
	}}
	_, stats := spectest.Generate(t, set, target, draft, []int32{1, 2},
		spec.Options{Sampling: spec.Sampling{Temperature: 1}, MaxTokens: 50})
	if stats.AcceptedLength() != 5 || draft.Pending != 2 {
		t.Errorf("sampled: a draft equal to the target gives %+v, fed %d at once", stats, draft.Pending)
	}
}

func TestCoupledDraftAgreesMoreOften(t *testing.T) {
	target := spectest.NewTarget(&spectest.Script{Vocab: 30, Steps: 1e6}, 2000, 32)
	draft := spectest.NewDraft(target, 2000, 0.1)
	length := func(uncoupled bool) float64 {
		set := named(Config{Drafter: DrafterEAGLE2, Depth: 3, TopK: 3, Nodes: 12, Uncoupled: uncoupled})
		_, stats := spectest.Generate(t, set, target, draft, []int32{1},
			spec.Options{Sampling: spec.Sampling{Temperature: 1, Seed: 1}, MaxTokens: 1000})
		return stats.AcceptedLength()
	}
	if coupled, not := length(false), length(true); coupled < 1.3*not {
		t.Errorf("accepted length %.2f coupled, %.2f not", coupled, not)
	}
}
