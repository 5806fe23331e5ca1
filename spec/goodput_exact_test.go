package spec

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"
	"testing"
	"time"
)

// ticking is a clock on which every reading takes a while, so that costs are learnt
// without real time.
func ticking() func() time.Time {
	now := time.Unix(0, 0)
	return func() time.Time {
		now = now.Add(137 * time.Microsecond)
		return now
	}
}

// cheap are costs at which speculation always looks worthwhile.
func cheap() *Costs {
	c := NewCosts()
	for i := range c.Verify.Cells {
		c.Verify.Cells[i] = Cell{Seconds: 1, Count: 1}
	}
	c.each(func(cell *Cell) {
		if cell.Seconds != 1 {
			*cell = Cell{Seconds: 1e-4, Count: 1}
		}
	})
	return c
}

// goodputs are controllers whose choices range from plain decoding to the largest tree.
func goodputs() []setting {
	build := func(g Goodput, costs func() *Costs, model func(*scriptedDraft) DraftModel) func(*scriptedTarget, *scriptedDraft) Parts {
		return func(_ *scriptedTarget, d *scriptedDraft) Parts {
			g := g
			g.Model, g.Clock = model(d), ticking()
			if costs != nil {
				g.Costs = costs()
			}
			return Parts{Drafter: &g, Policy: &g, Verifier: Match{}}
		}
	}
	whole := func(d *scriptedDraft) DraftModel { return d }
	still := func(d *scriptedDraft) DraftModel { return struct{ DraftModel }{d} } // cannot grow
	none := func(*scriptedDraft) DraftModel { return nil }
	return []setting{
		named(DefaultConfig(DrafterAuto)),
		{"unmeasured", build(Goodput{Levels: 4, Width: 3, Nodes: 12}, nil, whole)},
		{"cheap", build(Goodput{Levels: 5, Width: 4, Nodes: 16}, cheap, whole)},
		{"cheap, uncoupled", build(Goodput{Levels: 5, Width: 4, Nodes: 16, Uncoupled: true}, cheap, whole)},
		{"cheap chain", build(Goodput{Levels: 6, Width: 1, Nodes: 7}, cheap, whole)},
		{"cheap, not growing", build(Goodput{Levels: 3, Width: 2, Nodes: 9}, cheap, still)},
		{"no draft", build(Goodput{Levels: 5, Width: 4, Nodes: 12}, cheap, none)},
	}
}

func TestGoodputEqualsPlainDecoding(t *testing.T) {
	prompt := []int32{1, 0, 1, 1, 0}
	drafted := 0
	for _, vocab := range []int{2, 5, 40} {
		target := newTarget(&script{vocab: vocab, steps: 1e6}, 96, 64)
		for _, differ := range []float64{0, 0.1, 1} {
			draft := newDraft(target, 128, differ)
			for _, set := range goodputs() {
				for i, sampling := range samplings() {
					for seed := range fewer(2) {
						sampling.Seed = seed<<40 + 7
						o := Options{Sampling: sampling, MaxTokens: 60}
						want, finish := plain(target.script, prompt, 96, o)
						got, stats := generate(t, set, target, draft, prompt, o)
						expect(t, fmt.Sprintf("%s, vocabulary %d, sampling %d, differ %v", set.name, vocab, i, differ), got, stats, want, finish)
						drafted += stats.Drafted
					}
				}
			}
		}
	}
	if drafted < 2500*int(fewer(2)) {
		t.Errorf("only %d nodes were drafted in all", drafted)
	}
}

// TestGoodputEndsAtEveryPosition lets every kind of end fall on each place of a run, and has
// the draft's context end before the target's.
func TestGoodputEndsAtEveryPosition(t *testing.T) {
	prompt := []int32{1, 0, 2, 1, 0, 2, 1}
	for _, set := range goodputs() {
		for _, sampling := range []Sampling{{}, {Temperature: 1, TopP: 0.9, Seed: 11}} {
			for n := 1; n <= 14; n++ {
				s := &script{vocab: 6, steps: 1e6, eos: 5}
				run := func(kind string, context, draftContext int, o Options) {
					t.Helper()
					o.Sampling = sampling
					target := newTarget(s, context, 32)
					want, finish := plain(s, prompt, context, o)
					if o.Cut != nil {
						o.Cut = cutAfter(n)
					}
					got, stats := generate(t, set, target, newDraft(target, draftContext, 0.2), prompt, o)
					expect(t, fmt.Sprintf("%s, %s at %d, T=%v", set.name, kind, n, sampling.Temperature), got, stats, want, finish)
				}
				run("context", len(prompt)+n, 96, Options{})
				run("the draft's context", len(prompt)+14, max(len(prompt)+n-4, 1), Options{})
				run("length", 96, 96, Options{MaxTokens: n})
				run("cut", 96, 96, Options{Cut: cutAfter(n)})
				s.eosAt = len(prompt) + n - 1
				run("end of sequence", 96, 96, Options{EOS: []int32{77, 5}})
			}
		}
	}
}

// TestGoodputUnderALossyVerifier has tokens accepted that the target did not choose.
func TestGoodputUnderALossyVerifier(t *testing.T) {
	target := newTarget(&script{vocab: 12, steps: 1e6}, 200, 64)
	draft := newDraft(target, 200, 0.3)
	for _, mode := range []string{MARSAlg1, MARSSampled} {
		relaxed := 0
		for _, sampling := range []Sampling{{}, {Temperature: 1, Seed: 4}} {
			c := DefaultConfig(DrafterAuto)
			c.Verifier, c.Mode, c.Theta = VerifierMARS, mode, 0.5
			c.Aids.Costs = cheap()
			p, err := c.Parts(target, draft)
			if err != nil {
				t.Fatal(err)
			}
			p.Clock = ticking()
			p.Drafter.(*Goodput).Clock = p.Clock
			g, err := Assemble(target, p)
			if err != nil {
				t.Fatal(err)
			}
			stats, err := g.Generate(context.Background(), []int32{1, 2, 3}, Options{Sampling: sampling, MaxTokens: 150}, nil)
			if err != nil || stats.OutputTokens != 150 {
				t.Fatalf("%s: %d tokens, %v", mode, stats.OutputTokens, err)
			}
			relaxed += stats.Relaxed
		}
		if relaxed == 0 {
			t.Errorf("%s: nothing was relaxed", mode)
		}
	}
}

func TestCostsSurviveStoring(t *testing.T) {
	w := regimes()[0].make(1)
	costs := NewCosts()
	w.measure(costs)
	w.run(func(d *worldDraft) Parts {
		g := &Goodput{Model: d, Costs: costs, Levels: 4, Width: 4, Nodes: 16, Clock: w.clock}
		return Parts{Drafter: g, Policy: g}
	}, 2, 50)
	b, err := json.Marshal(costs)
	if err != nil {
		t.Fatal(err)
	}
	var back Costs
	if err := json.Unmarshal(b, &back); err != nil {
		t.Fatal(err)
	}
	if back.Verify.At(5) != costs.Verify.At(5) || back.DraftTime(3, 4) != costs.DraftTime(3, 4) || back.LagTime(70) != costs.LagTime(70) {
		t.Error("times differ after storing")
	}
	a, c := back.acceptance("greedy "), costs.acceptance("greedy ")
	if a.Draft[0].Chance(0.9) != c.Draft[0].Chance(0.9) || !reflect.DeepEqual(a.Yield, c.Yield) || a.speed() != c.speed() {
		t.Error("what was learnt differs after storing")
	}
}

func TestStoredCostsThatCannotBeAreRefused(t *testing.T) {
	good, err := json.Marshal(NewCosts())
	if err != nil {
		t.Fatal(err)
	}
	var into Costs
	if err := json.Unmarshal(good, &into); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(m map[string]any){
		"no sizes":      func(m map[string]any) { m["verify"] = map[string]any{} },
		"negative time": func(m map[string]any) { m["root"] = map[string]any{"s": -1, "n": 1} },
		"no time":       func(m map[string]any) { m["sync"] = map[string]any{"s": 0, "n": 1} },
		"null way":      func(m map[string]any) { m["acceptance"] = map[string]any{"greedy": nil} },
		"too many hits": func(m map[string]any) {
			m["acceptance"] = map[string]any{"greedy": map[string]any{"time": 1, "c2t": map[string]any{"seen": make([]int, isotonicBins), "hits": slices.Repeat([]int{1}, isotonicBins)}}}
		},
		"short profile": func(m map[string]any) {
			m["acceptance"] = map[string]any{"greedy": map[string]any{"time": 1, "yield": map[string]any{"widths": []int{1}, "depth": 2}}}
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
	// Scores that boast: the truth is their square. One bin gets outcomes out of order.
	for i := range 20000 {
		score := unit(mix(uint64(i)))
		c.Learn(score, unit(mix(uint64(i)^0xF00)) < score*score)
	}
	worst := 0.0
	for s := 0.1; s < 1; s += 0.05 {
		worst = max(worst, math.Abs(c.Chance(s)-s*s))
	}
	if worst > 0.1 {
		t.Errorf("chances are off by %v", worst)
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

func TestCostsFollowWhatPassesTake(t *testing.T) {
	w := regimes()[0].make(1)
	c := NewCosts()
	w.measure(c)
	before := c.Verify.At(8) / c.Verify.At(1)
	for range 60 { // twice as slow, and half of the draft's time
		c.observeVerify(1, 0.020)
		c.observeVerify(8, 0.020*before)
		c.observeDraft(0, 3, 2, c.DraftTime(3, 2)*0.97)
	}
	if got := c.Verify.At(1); math.Abs(got-0.020) > 0.002 {
		t.Errorf("a pass takes %v s, 20 ms were seen", got)
	}
	if got := c.Verify.At(8) / c.Verify.At(1); math.Abs(got/before-1) > 0.1 {
		t.Errorf("eight rows take %v of one, want %v", got, before)
	}
	at := c.Verify.At(1)
	c.observeVerify(1, 5) // the machine slept
	if got := c.Verify.At(1); got > 1.1*at {
		t.Errorf("one pause moved a pass from %v to %v s", at, got)
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
	if len(got) != 2 || got[0].token != 9 || got[1].token != 7 || got[0].score <= got[1].score || got[0].score+got[1].score > 1 {
		t.Errorf("after 1 2 3 came %+v", got)
	}
	if got = h.after([]int32{9}); len(got) != 1 || got[0].token != 5 {
		t.Errorf("after 1 2 3 9 came %+v", got)
	}
	if got = h.after([]int32{4}); len(got) != 0 {
		t.Errorf("after a token that never was came %+v", got)
	}
}
