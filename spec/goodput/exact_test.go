package goodput

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"
	"testing"
	"time"

	"foretoken/spec"
	"foretoken/spec/adapt"
	"foretoken/spec/spectest"
)

// ticking returns a clock that each reading moves, so that costs change without real time.
func ticking() func() time.Time {
	now := time.Unix(0, 0)
	return func() time.Time {
		now = now.Add(137 * time.Microsecond)
		return now
	}
}

// cheap returns costs at which speculation always pays.
func cheap() *Costs {
	c := NewCosts()
	for i := range c.Verify.Cells {
		c.Verify.Cells[i] = Cell{Seconds: 1, Count: 1}
	}
	for _, cell := range c.cells() {
		if cell.Seconds != 1 {
			*cell = Cell{Seconds: 1e-4, Count: 1}
		}
	}
	return c
}

// goodputs returns controllers whose choices range from plain decoding to the largest tree, with no draft, one or two.
func goodputs() []spectest.Setting {
	build := func(
		g Goodput, costs func() *Costs, models func(*spectest.DraftModel) Models,
	) func(*spectest.Target, *spectest.DraftModel) spec.Parts {
		return func(_ *spectest.Target, d *spectest.DraftModel) spec.Parts {
			g := g
			g.Models, g.Clock = models(d), ticking()
			if costs != nil {
				g.Costs = costs()
			}
			return spec.Parts{Drafter: &g, Policy: &g, Verifier: spec.Match{}}
		}
	}
	whole := func(d *spectest.DraftModel) Models { return Models{d} }
	still := func(d *spectest.DraftModel) Models { // cannot grow
		return Models{struct{ spec.DraftModel }{d}}
	}
	none := func(*spectest.DraftModel) (_ Models) { return }
	head := func(d *spectest.DraftModel) Models { return Models{EAGLE3: d} }
	two := func(d *spectest.DraftModel) Models {
		return Models{d, spectest.NewDraft(d.Target, 100, 0.3)}
	}
	return []spectest.Setting{
		{Name: "as by default", Parts: func(_ *spectest.Target, d *spectest.DraftModel) spec.Parts {
			g := &Goodput{Models: whole(d), Levels: 6, Width: 4, Nodes: 16, Mode: "match"}
			return spec.Parts{Drafter: g, Policy: g, Verifier: spec.Match{}}
		}},
		{Name: "unmeasured", Parts: build(Goodput{Levels: 4, Width: 3, Nodes: 12}, nil, whole)},
		{Name: "cheap", Parts: build(Goodput{Levels: 5, Width: 4, Nodes: 16}, cheap, whole)},
		{Name: "cheap, uncoupled", Parts: build(Goodput{Levels: 5, Width: 4, Nodes: 16, Uncoupled: true}, cheap,
			whole)},
		{Name: "cheap chain", Parts: build(Goodput{Levels: 6, Width: 1, Nodes: 7}, cheap, whole)},
		{Name: "cheap, not growing", Parts: build(Goodput{Levels: 3, Width: 2, Nodes: 9}, cheap, still)},
		{Name: "no draft", Parts: build(Goodput{Levels: 5, Width: 4, Nodes: 12}, cheap, none)},
		{Name: "a head", Parts: build(Goodput{Levels: 4, Width: 3, Nodes: 12}, cheap, head)},
		{Name: "two drafts", Parts: build(Goodput{Levels: 4, Width: 3, Nodes: 12}, cheap, two)},
		{Name: "two drafts in turn", Parts: build(Goodput{Levels: 4, Width: 3, Nodes: 12}, explored, two)},
	}
}

// explored returns cheap costs with a large budget for exploration: the drafts take turns.
func explored() *Costs {
	c := cheap()
	c.spent = 1e9
	return c
}

func TestGoodputEqualsPlainDecoding(t *testing.T) {
	prompt := []int32{1, 0, 1, 1, 0}
	drafted := 0
	for _, vocab := range []int{2, 5, 40} {
		target := spectest.NewTarget(&spectest.Script{Vocab: vocab, Steps: 1e6}, 96, 64)
		for _, differ := range []float64{0, 0.1, 1} {
			draft := spectest.NewDraft(target, 128, differ)
			for _, set := range goodputs() {
				for i, sampling := range spectest.Samplings() {
					for seed := range spectest.Fewer(2) {
						sampling.Seed = seed<<40 + 7
						o := spec.Options{Sampling: sampling, MaxTokens: 60}
						want, finish := spectest.Plain(target.Script, prompt, 96, o)
						got, stats := spectest.Generate(t, set, target, draft, prompt, o)
						what := fmt.Sprintf("%s, vocabulary %d, sampling %d, differ %v", set.Name, vocab, i, differ)
						spectest.Expect(t, what, got, stats, want, finish)
						drafted += stats.Drafted
					}
				}
			}
		}
	}
	if drafted < 2500*int(spectest.Fewer(2)) {
		t.Errorf("only %d nodes were drafted in all", drafted)
	}
}

// TestGoodputEndsAtEveryPosition puts each kind of end at each place of a run, also with a draft whose context ends
// before the target's.
func TestGoodputEndsAtEveryPosition(t *testing.T) {
	prompt := []int32{1, 0, 2, 1, 0, 2, 1}
	for _, set := range goodputs() {
		for _, sampling := range []spec.Sampling{{}, {Temperature: 1, TopP: 0.9, Seed: 11}} {
			for n := 1; n <= 14; n++ {
				s := &spectest.Script{Vocab: 6, Steps: 1e6, EOS: 5}
				run := func(kind string, context, draftContext int, o spec.Options) {
					t.Helper()
					o.Sampling = sampling
					target := spectest.NewTarget(s, context, 32)
					want, finish := spectest.Plain(s, prompt, context, o)
					if o.Cut != nil {
						o.Cut = spectest.CutAfter(n)
					}
					got, stats := spectest.Generate(t, set, target, spectest.NewDraft(target, draftContext, 0.2),
						prompt, o)
					what := fmt.Sprintf("%s, %s at %d, T=%v", set.Name, kind, n, sampling.Temperature)
					spectest.Expect(t, what, got, stats, want, finish)
				}
				run("context", len(prompt)+n, 96, spec.Options{})
				run("the draft's context", len(prompt)+14, max(len(prompt)+n-4, 1), spec.Options{})
				run("length", 96, 96, spec.Options{MaxTokens: n})
				run("cut", 96, 96, spec.Options{Cut: spectest.CutAfter(n)})
				s.EOSAt = len(prompt) + n - 1
				run("end of sequence", 96, 96, spec.Options{EOS: []int32{77, 5}})
			}
		}
	}
}

// TestGoodputUnderALossyVerifier accepts tokens that the target did not choose.
func TestGoodputUnderALossyVerifier(t *testing.T) {
	target := spectest.NewTarget(&spectest.Script{Vocab: 12, Steps: 1e6}, 200, 64)
	draft := spectest.NewDraft(target, 200, 0.3)
	for _, sampled := range []bool{false, true} {
		relaxed := 0
		for _, sampling := range []spec.Sampling{{}, {Temperature: 1, Seed: 4}} {
			clock := ticking()
			tree := &Goodput{Models: Models{draft}, Costs: cheap(), Levels: 6, Width: 4, Nodes: 16, Uncoupled: !sampled,
				Mode: "mars", Clock: clock}
			g, err := spec.New(target, spec.Parts{Drafter: tree, Policy: tree,
				Verifier: adapt.MARS{Theta: 0.5, Sampled: sampled}, Clock: clock})
			if err != nil {
				t.Fatal(err)
			}
			o := spec.Options{Sampling: sampling, MaxTokens: 150}
			stats, err := g.Generate(context.Background(), []int32{1, 2, 3}, o, nil)
			if err != nil || stats.OutputTokens != 150 {
				t.Fatalf("sampled %v: %d tokens, %v", sampled, stats.OutputTokens, err)
			}
			relaxed += stats.Relaxed
		}
		if relaxed == 0 {
			t.Errorf("sampled %v: nothing was relaxed", sampled)
		}
	}
}

func TestCostsSurviveStoring(t *testing.T) {
	w := regimes()[0].make(1)
	costs := NewCosts()
	w.measure(costs)
	w.run(func(d *worldDraft) spec.Parts {
		g := &Goodput{Models: Models{d}, Costs: costs, Levels: 4, Width: 4, Nodes: 16, Clock: w.clock}
		return spec.Parts{Drafter: g, Policy: g}
	}, 2, 50)
	b, err := json.Marshal(costs)
	if err != nil {
		t.Fatal(err)
	}
	var back Costs
	if err := json.Unmarshal(b, &back); err != nil {
		t.Fatal(err)
	}
	if back.Verify.At(5) != costs.Verify.At(5) || back.Drafts[0].Time(3, 4) != costs.Drafts[0].Time(3, 4) ||
		back.Drafts[0].LagTime(70) != costs.Drafts[0].LagTime(70) {
		t.Error("times differ after storing")
	}
	a, c := back.acceptance("greedy "), costs.acceptance("greedy ")
	if a.Sources[fromDraft].Chance(0.9) != c.Sources[fromDraft].Chance(0.9) || !reflect.DeepEqual(a.Models, c.Models) ||
		a.speed() != c.speed() {
		t.Error("acceptance estimates differ after storing")
	}
}

func TestStoredCostsThatCannotBeAreRefused(t *testing.T) {
	good, err := json.Marshal(NewCosts())
	if err != nil {
		t.Fatal(err)
	}
	draftOf := func(m map[string]any) map[string]any { return m["drafts"].([]any)[0].(map[string]any) }
	var into Costs
	if err := json.Unmarshal(good, &into); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(m map[string]any){
		"no sizes":      func(m map[string]any) { m["verify"] = map[string]any{} },
		"negative time": func(m map[string]any) { draftOf(m)["root"] = map[string]any{"s": -1, "n": 1} },
		"no time":       func(m map[string]any) { draftOf(m)["sync"] = map[string]any{"s": 0, "n": 1} },
		"no levels":     func(m map[string]any) { draftOf(m)["level"] = map[string]any{} },
		"one draft":     func(m map[string]any) { m["drafts"] = m["drafts"].([]any)[:1] },
		"null way":      func(m map[string]any) { m["acceptance"] = map[string]any{"greedy": nil} },
		"too many hits": func(m map[string]any) {
			counts := map[string]any{"seen": make([]int, isotonicBins), "hits": slices.Repeat([]int{1}, isotonicBins)}
			m["acceptance"] = map[string]any{"greedy": map[string]any{"time": 1, "sources": []any{counts}}}
		},
		"negative rounds": func(m map[string]any) {
			model := map[string]any{"choosing": map[string]any{"seen": -1}}
			m["acceptance"] = map[string]any{"greedy": map[string]any{"time": 1, "models": []any{model}}}
		},
		"short profile": func(m map[string]any) {
			model := map[string]any{"yield": map[string]any{"widths": []int{1}, "depth": 2, "sizes": []int{2}}}
			m["acceptance"] = map[string]any{"greedy": map[string]any{"time": 1, "models": []any{model}}}
		},
	} {
		var m map[string]any
		if err := json.Unmarshal(good, &m); err != nil {
			t.Fatal(err)
		}
		change(m)
		b, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(b, &into); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestCalibrationLearnsAndNeverFalls(t *testing.T) {
	var c Calibrator
	if got := c.Chance(0.7); math.Abs(got-0.7) > 0.03 {
		t.Errorf("before any outcome, a score of 0.7 is a chance of %v", got)
	}
	// The scores overestimate: the true probability is their square. One bin then gets outcomes out of order.
	for i := range 20000 {
		score := spectest.Unit(spectest.Mix(uint64(i)))
		c.Learn(score, spectest.Unit(spectest.Mix(uint64(i)^0xF00)) < score*score)
	}
	worst := 0.0
	for s := 0.1; s < 1; s += 0.05 {
		worst = max(worst, math.Abs(c.Chance(s)-s*s))
	}
	if worst > 0.1 {
		t.Errorf("probabilities are off by %v", worst)
	}
	for i := range 200 {
		c.Learn(0.8, i%9 == 0)
	}
	last := 0.0
	for s := 1e-5; s <= 1; s *= 1.1 {
		if now := c.Chance(s); now < last-1e-12 {
			t.Fatalf("the chance falls from %v to %v at a score of %v", last, now, s)
		} else {
			last = now
		}
	}
}

// TestOldOutcomesAreForgotten changes what a score is worth: a draft that no longer fits its target is noticed however
// long it fitted.
func TestOldOutcomesAreForgotten(t *testing.T) {
	var c Calibrator
	score := centres[isotonicBins-3]
	for i := range 20000 {
		c.Learn(score, i%10 > 0)
	}
	for i := range 1000 {
		c.Learn(score, i%10 == 0)
	}
	if got := c.Chance(score); got > 0.4 {
		t.Errorf("a score that was right 9 times in 10 and is so once in 10 now has the chance %v", got)
	}
}

func TestCostsFollowWhatPassesTake(t *testing.T) {
	w := regimes()[0].make(1)
	c := NewCosts()
	w.measure(c)
	before := c.Verify.At(8) / c.Verify.At(1)
	for range 60 { // the target becomes twice as slow, the draft slightly faster
		c.observeVerify(1, 0.020)
		c.observeVerify(8, 0.020*before)
		c.observeDraft(0, 0, 3, 2, c.Drafts[0].Time(3, 2)*0.97)
	}
	if got := c.Verify.At(1); math.Abs(got-0.020) > 0.002 {
		t.Errorf("a pass takes %v s, 20 ms were seen", got)
	}
	if got := c.Verify.At(8) / c.Verify.At(1); math.Abs(got/before-1) > 0.1 {
		t.Errorf("eight rows take %v of one, want %v", got, before)
	}
	at, ratio := c.Verify.At(1), c.Verify.At(8)/c.Verify.At(1)
	c.observeVerify(1, 5) // a pause of the machine
	if got := c.Verify.At(1); got > 1.25*at {
		t.Errorf("one pause moved a pass from %v to %v s", at, got)
	}
	if got := c.Verify.At(8) / c.Verify.At(1); math.Abs(got/ratio-1) > 0.05 {
		t.Errorf("one pause moved eight rows from %v to %v of one", ratio, got)
	}
	for i := 1; i < 64; i++ {
		if c.Verify.At(i+1) < c.Verify.At(i) {
			t.Errorf("%d rows take less than %d", i+1, i)
		}
	}
}

func TestLookupLongestContextSpeaksFirst(t *testing.T) {
	var h history
	h.reset()
	h.extend([]int32{1, 2, 3, 9, 5, 3, 7, 5, 3, 7, 1, 2, 3})
	got := h.after(nil)
	if len(got) != 2 || got[0].token != 9 || got[1].token != 7 ||
		got[0].score <= got[1].score || got[0].score+got[1].score > 1 {
		t.Errorf("after 1 2 3 came %+v", got)
	}
	if got = h.after([]int32{9}); len(got) != 1 || got[0].token != 5 {
		t.Errorf("after 1 2 3 9 came %+v", got)
	}
	if got = h.after([]int32{4}); len(got) != 0 {
		t.Errorf("after an unknown token came %+v", got)
	}
}
