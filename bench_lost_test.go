//go:build !js

package foretoken

import (
	"context"
	"fmt"
	"math"
	"testing"

	"foretoken/webgpu/faults"
)

// TestBenchLeavesOutLostCells has a scripted device lost in each run of a block in turn. Every cell whose times that spoils, and
// no other, is marked and in no time of its row; what the device has to be warmed up for again runs once more first.
func TestBenchLeavesOutLostCells(t *testing.T) {
	plan := scriptedPlan(t, "chain,mars")
	plan.Repeat = 3
	whole := Summarise(runBench(t, &scripted{}, plan))
	first := []string{"none", "none", "chain", "chain", "mars", "mars", "none"} // the first block, as TestBenchMeasuresPlainBesideEveryMethod has it
	for at, c := range map[int]struct {
		method string // of the run, and whether it is one that counts
		marked []string
	}{
		1: {"none", nil}, 2: {"none", nil}, 3: {"chain", nil}, 4: {"chain", []string{"chain"}}, 5: {"mars", nil}, 6: {"mars", []string{"mars"}}, 7: {"none", nil},
	} {
		if first[at-1] != c.method {
			t.Fatalf("run %d is one of %s", at, first[at-1])
		}
		s := &scripted{losses: map[int]bool{at: true}}
		cells := runBench(t, s, plan)
		marked := map[string]int{}
		for i := range cells {
			if c := &cells[i]; c.Lost > 0 {
				marked[c.Method]++
				if c.Speedup() != 0 {
					t.Errorf("lost in run %d: a speedup of %v of %s on %s", at, c.Speedup(), c.Method, c.Prompt)
				}
			}
		}
		want := map[string]int{}
		for _, m := range c.marked {
			want[m]++
		}
		if fmt.Sprint(marked) != fmt.Sprint(want) {
			t.Errorf("lost in run %d: marked %v, want %v", at, marked, want)
		}
		report := Summarise(cells)
		for i := range report.Rows {
			got, want := &report.Rows[i], &whole.Rows[i]
			if got.Method != want.Method || got.Lost != marked[got.Method] && got.Category != "b" {
				t.Errorf("lost in run %d: %+v", at, got)
			}
			if got.Calls != want.Calls || math.Abs(got.Median-want.Median) > 1e-9 || math.Abs(got.VerifyMS.Mean-want.VerifyMS.Mean) > 1e-9 || math.Abs(got.Speedup.Mean-want.Speedup.Mean) > 1e-9 {
				t.Errorf("lost in run %d: %+v\nwithout a loss %+v", at, got, want)
			}
		}
	}
	// Both runs of plain decoding: nothing to measure the block against.
	s := &scripted{losses: map[int]bool{2: true, 8: true}}
	lost := 0
	for _, c := range runBench(t, s, plan) {
		if c.Lost > 0 {
			lost++
		}
	}
	if lost != 3 {
		t.Errorf("%d cells are marked, want the block's three", lost)
	}
}

// lostIn is a session whose device is lost in one of the benchmark's runs, or in scoring a text.
type lostIn struct {
	*Session
	run   int  // counted from 1, as ran is; 0: none
	score bool // when the first text is scored
	ran   int
	kinds []string // the policies that ran
	reads int      // until the loss; 0: none is to come
}

func (l *lostIn) Generate(ctx context.Context, prompt string, r Request, emit func(*Event) error) (*Result, error) {
	l.kinds = append(l.kinds, r.Policy)
	if l.ran++; l.ran == l.run {
		l.reads = 2
	}
	return l.Session.Generate(ctx, prompt, r, emit)
}

func (l *lostIn) Score(ctx context.Context, tokens []int32) ([]float32, error) {
	if l.score {
		l.score, l.reads = false, 1
	}
	return l.Session.Score(ctx, tokens)
}

// TestBenchOnLostDevice loses a device in the middle of a cell, of warming up, of scoring: only the first is marked, every cell
// has the text and the counts that it has without, and what comes after is warmed up again.
func TestBenchOnLostDevice(t *testing.T) {
	methods, err := ParseBenchMethods("chain:depth=3,eagle2:depth=2,top-k=2,nodes=5", Request{MaxTokens: 12})
	if err != nil {
		t.Fatal(err)
	}
	plan := BenchPlan{Methods: methods, Repeat: 2, Prompts: []BenchPrompt{{"a-0", "a", "Once upon a time, there was a"}}, Fingerprint: "here"}
	measure := func(run int, score bool) ([]BenchCell, *lostIn, *shaky) {
		l := &lostIn{run: run, score: score}
		k := newShaky(t, func(_ int, c faults.Call, label string) faults.Fault {
			if c != faults.Read || l.reads == 0 {
				return faults.None
			}
			if l.reads--; l.reads == 0 {
				return faults.Lost
			}
			return faults.None
		})
		var err error
		if l.Session, err = k.open(); err != nil {
			t.Fatal(err)
		}
		cells := runBench(t, l, plan)
		k.close(t, l.Session)
		return cells, l, k
	}
	want, quiet, _ := measure(0, false)
	kinds := fmt.Sprint(quiet.kinds)
	if kinds != "[none none chain chain eagle2 eagle2 none none eagle2 chain none]" || len(want) != 6 {
		t.Fatalf("%d cells of %s", len(want), kinds)
	}
	for name, c := range map[string]struct {
		run, marked int
		kinds       string
	}{
		"warming up":  {3, -1, "[none none chain chain chain eagle2 eagle2 none none none eagle2 chain none]"},
		"a cell":      {4, 1, "[none none chain chain eagle2 eagle2 none none none eagle2 chain chain none]"},
		"plain, last": {7, -1, "[none none chain chain eagle2 eagle2 none none none eagle2 eagle2 chain chain none]"},
		"scoring":     {0, -1, "[none none chain chain eagle2 eagle2 none none none eagle2 chain none]"},
	} {
		cells, l, k := measure(c.run, c.run == 0)
		if len(k.losses) != 2 || !k.losses[1].Mended || l.Losses() != 1 {
			t.Errorf("%s: told of %v", name, k.losses)
		}
		if got := fmt.Sprint(l.kinds); got != c.kinds {
			t.Errorf("%s: ran %s, want %s", name, got, c.kinds)
		}
		for i := range cells {
			got, want := &cells[i], &want[i]
			if (got.Lost > 0) != (i == c.marked) {
				t.Errorf("%s: cell %d, %s: lost %d times", name, i, got.Method, got.Lost)
			}
			if got.Method != want.Method || got.Equal != want.Equal || got.Length != want.Length || got.Loss != want.Loss || got.Stats.OutputTokens != want.Stats.OutputTokens || got.Stats.Accepted != want.Stats.Accepted {
				t.Errorf("%s: cell %d: %+v\nwithout a loss %+v", name, i, got, want)
			}
		}
	}
}
