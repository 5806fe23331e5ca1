//go:build !js

package foretoken

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"foretoken/spec"
	"foretoken/webgpu"
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

// TestTimedInTurnAfterLoss has one of the runs of passes fail and times them again: each is timed as often as was asked, the
// failed run is in no time, and what was told is a run untimed and those that were timed.
func TestTimedInTurnAfterLoss(t *testing.T) {
	const kinds, repeat = 3, 4
	for fails := range kinds * (repeat + 1) {
		ran, told := 0, 0
		var passes []*timedPass
		for range kinds {
			passes = append(passes, &timedPass{run: func() error {
				if ran++; ran == fails+1 {
					return webgpu.ErrDeviceLost
				}
				return nil
			}})
		}
		s := &Session{}
		if err := s.timeInTurn(context.Background(), passes, repeat, func() { told++ }); !errors.Is(err, webgpu.ErrDeviceLost) {
			t.Fatalf("run %d: %v", fails, err)
		}
		before := ran
		if err := s.timeInTurn(context.Background(), passes, repeat, func() { told++ }); err != nil {
			t.Fatal(err)
		}
		if fails >= kinds { // whole rounds of untimed runs come first, and the one that failed again
			if want := kinds + kinds*(repeat+1) - fails; ran-before != want {
				t.Errorf("run %d: %d runs after it, want %d", fails, ran-before, want)
			}
		}
		for i, p := range passes {
			if len(p.took) != repeat {
				t.Errorf("run %d: pass %d has %d times", fails, i, len(p.took))
			}
		}
		if told != kinds*(repeat+1) {
			t.Errorf("run %d: %d runs were told", fails, told)
		}
	}
}

// TestMeasuringOnLostDevice loses the device, or has it hang, at reads of passes that are timed and profiled and of texts that
// are continued beside them: what comes of it is whole, and says of texts and traffic what it says without.
func TestMeasuringOnLostDevice(t *testing.T) {
	methods, err := ParseBenchMethods("none:name=plain,eagle2:depth=1,top-k=2,nodes=4", Request{MaxTokens: 8})
	if err != nil {
		t.Fatal(err)
	}
	const prompt = "Once upon a time, there was a"
	for name, c := range map[string]struct {
		use  use
		part string // of the labels of reads that are tried besides others
	}{
		"costs": {func(s *Session) (string, error) {
			passes, texts := 0, 0
			r, err := s.MeasureCosts(context.Background(), CostOptions{Rows: []int{1, 2, 4}, Tokens: 3, Repeat: 2, Length: 8, Shorter: []int{3}, MaxTokens: 8,
				Prompts: []BenchPrompt{{ID: "a", Prompt: prompt}}, Progress: func(done, total int) {
					if total == 1 {
						texts++
					} else if passes++; done != passes || total != 9*3 {
						t.Errorf("pass %d is told as %d of %d", passes, done, total)
					}
				}})
			if err != nil {
				return "", err
			}
			var what []string
			for _, all := range [][]PassCost{r.Verify, r.After[0].Verify, r.Chain} {
				for _, p := range all {
					what = append(what, fmt.Sprint(p.N, p.MS > 0 && p.Ratio > 0))
				}
			}
			for _, c := range r.Chains {
				what = append(what, fmt.Sprint(c.K, c.Tokens))
			}
			return fmt.Sprint(what, passes, texts), nil
		}, "verify"},
		"profile": {func(s *Session) (string, error) {
			parts := 0
			r, err := s.Profile(context.Background(), ProfileOptions{Rows: 4, Length: 8, Repeat: 1, Methods: methods, Prompt: prompt, Progress: func(done, total int) {
				if parts++; done != parts || total != 6 {
					t.Errorf("part %d is told as %d of %d", parts, done, total)
				}
			}})
			if err != nil {
				return "", err
			}
			var what []string
			for _, p := range r.Passes {
				what = append(what, fmt.Sprint(p.Name, p.Dispatches, len(p.Kernels), p.Traffic, p.MS > 0))
			}
			for _, p := range r.Rounds {
				what = append(what, fmt.Sprint(p.Method, p.Rounds, p.Tokens, p.Traffic, p.Allocs >= 0))
			}
			return strings.Join(what, "\n"), nil
		}, "profile"},
	} {
		t.Run(name, func(t *testing.T) {
			var reads, special []int
			loaded := false
			quiet := newShaky(t, func(n int, call faults.Call, label string) faults.Fault {
				if loaded && call == faults.Read {
					if reads = append(reads, n); strings.Contains(label, c.part) {
						special = append(special, n)
					}
				}
				return faults.None
			})
			s, err := quiet.open()
			if err != nil {
				t.Fatal(err)
			}
			loaded = true
			want, err := c.use(s)
			if err != nil || len(special) == 0 {
				t.Fatalf("%d reads of %q, %v", len(special), c.part, err)
			}
			quiet.close(t, s)
			points := []int{reads[0], reads[len(reads)-1]}
			for _, i := range chosen(0, len(reads), 5) {
				points = append(points, reads[i])
			}
			for _, i := range chosen(0, len(special), 3) {
				points = append(points, special[i])
			}
			for i, at := range points {
				k := newShaky(t, func(n int, _ faults.Call, _ string) faults.Fault {
					if n != at {
						return faults.None
					}
					return []faults.Fault{faults.Lost, faults.Hang}[i%2]
				})
				if s, err = k.open(); err != nil {
					t.Fatal(err)
				}
				got, err := c.use(s)
				if err != nil || got != want {
					t.Fatalf("at call %d:\n%s, %v\nwithout a loss\n%s", at, got, err, want)
				}
				if len(k.losses) != 2 || !k.losses[1].Mended {
					t.Fatalf("at call %d: told of %v", at, k.losses)
				}
				k.close(t, s)
			}

			// Lost whenever anything is read: it ends, says so, and measures when the device is well again.
			ill := false
			k := newShaky(t, func(_ int, call faults.Call, _ string) faults.Fault {
				if ill && call == faults.Read {
					return faults.Lost
				}
				return faults.None
			})
			if s, err = k.open(); err != nil {
				t.Fatal(err)
			}
			ill = true
			if _, err := c.use(s); !errors.Is(err, webgpu.ErrDeviceLost) || !strings.Contains(err.Error(), "3 times in a row") {
				t.Fatalf("lost at every read: %v", err)
			}
			ill = false
			if got, err := c.use(s); err != nil || got != want {
				t.Fatalf("after it:\n%s, %v\nwithout a loss\n%s", got, err, want)
			}
			if _, err := s.Generate(context.Background(), prompt, Request{Policy: spec.DrafterChain, Depth: 3, MaxTokens: 4}, nil); err != nil {
				t.Error(err)
			}
			k.close(t, s)
		})
	}
}
