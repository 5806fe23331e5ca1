//go:build !js

package bench

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"foretoken"
	"foretoken/spec/method"
	"foretoken/webgpu"
	"foretoken/webgpu/faults"
)

// TestBenchLeavesOutLostCells loses a scripted device in each run of a block in turn. Exactly the cells whose times
// that spoils are marked and count in no time of their row; methods that have to warm up again run once more first.
func TestBenchLeavesOutLostCells(t *testing.T) {
	matrix := scriptedMatrix(t, "chain,mars")
	matrix.Repeat = 3
	whole := Summarise(runMatrix(t, &scripted{}, matrix))
	// the first block, as in TestBenchMeasuresPlainBesideEveryMethod
	first := []string{"none", "none", "chain", "chain", "mars", "mars", "none"}
	for at, c := range map[int]struct {
		method string // of the run; counts: the run is not a warmup
		marked []string
	}{
		1: {"none", nil}, 2: {"none", nil}, 3: {"chain", nil}, 4: {"chain", []string{"chain"}}, 5: {"mars", nil},
		6: {"mars", []string{"mars"}}, 7: {"none", nil},
	} {
		if first[at-1] != c.method {
			t.Fatalf("run %d is one of %s", at, first[at-1])
		}
		s := &scripted{losses: map[int]bool{at: true}}
		cells := runMatrix(t, s, matrix)
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
			if got.Calls != want.Calls || math.Abs(got.Median-want.Median) > 1e-9 || math.Abs(
				got.VerifyMS.Mean-want.VerifyMS.Mean) > 1e-9 || math.Abs(got.Speedup.Mean-want.Speedup.Mean) > 1e-9 {
				t.Errorf("lost in run %d: %+v\nwithout a loss %+v", at, got, want)
			}
		}
	}
	// Both runs of plain decoding are lost: the block has no base.
	s := &scripted{losses: map[int]bool{2: true, 8: true}}
	lost := 0
	for _, c := range runMatrix(t, s, matrix) {
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
	*foretoken.Session
	run   int  // counted from 1, as ran is; 0: none
	score bool // when the first text is scored
	ran   int
	kinds []string // the policies that ran
	reads int      // until the loss; 0: none
}

func (l *lostIn) Generate(ctx context.Context, prompt string, r foretoken.Request,
	emit func(*foretoken.Event) error) (*foretoken.Result, error) {
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

// TestBenchOnLostDevice loses a device during a cell, a warmup or scoring: only the first marks a cell, every cell
// has the same text and counts as without losses, and later methods warm up again.
func TestBenchOnLostDevice(t *testing.T) {
	methods, err := ParseMethods("chain:depth=3,eagle2:depth=2,top-k=2,nodes=5", foretoken.Request{MaxTokens: 12})
	if err != nil {
		t.Fatal(err)
	}
	matrix := Matrix{Methods: methods, Repeat: 2, Prompts: []Prompt{{"a-0", "a", "Once upon a time, there was a"}},
		Fingerprint: "here"}
	measure := func(run int, score bool) ([]Cell, *lostIn, *faulty) {
		l := &lostIn{run: run, score: score}
		k := newFaulty(t, func(_ int, c faults.Call, label string) faults.Fault {
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
		cells := runMatrix(t, l, matrix)
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
		if len(k.seen) != 2 || !k.seen[1].Recovered || l.Losses() != 1 {
			t.Errorf("%s: told of %v", name, k.seen)
		}
		if got := fmt.Sprint(l.kinds); got != c.kinds {
			t.Errorf("%s: ran %s, want %s", name, got, c.kinds)
		}
		for i := range cells {
			got, want := &cells[i], &want[i]
			if (got.Lost > 0) != (i == c.marked) {
				t.Errorf("%s: cell %d, %s: lost %d times", name, i, got.Method, got.Lost)
			}
			if got.Method != want.Method || got.Equal != want.Equal || got.Length != want.Length ||
				got.Loss != want.Loss || got.Stats.OutputTokens != want.Stats.OutputTokens ||
				got.Stats.Accepted != want.Stats.Accepted {
				t.Errorf("%s: cell %d: %+v\nwithout a loss %+v", name, i, got, want)
			}
		}
	}
}

// TestTimedInTurnAfterLoss fails one of the runs of passes and times them again: each is timed as often as
// requested, the failed run counts in no time, and progress counts one untimed run and the timed runs of each.
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
		m := &foretoken.Models{}
		if err := timeInTurn(context.Background(), m, passes, repeat, func() { told++ }); !errors.Is(err,
			webgpu.ErrDeviceLost) {
			t.Fatalf("run %d: %v", fails, err)
		}
		before := ran
		if err := timeInTurn(context.Background(), m, passes, repeat, func() { told++ }); err != nil {
			t.Fatal(err)
		}
		if fails >= kinds { // the untimed rounds and the failed run come first
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

// TestMeasuringOnLostDevice loses or hangs the device at reads of timed and profiled passes and of the texts
// continued for them: the report is complete, with the same texts and traffic as without losses.
func TestMeasuringOnLostDevice(t *testing.T) {
	methods, err := ParseMethods("none:name=plain,eagle2:depth=1,top-k=2,nodes=4", foretoken.Request{MaxTokens: 8})
	if err != nil {
		t.Fatal(err)
	}
	const prompt = "Once upon a time, there was a"
	for name, c := range map[string]struct {
		use  func(s *foretoken.Session) (string, error)
		part string // of the labels of reads that are tried in addition
	}{
		"costs": {func(s *foretoken.Session) (string, error) {
			passes, texts := 0, 0
			r, err := MeasureCosts(context.Background(), s,
				CostOptions{Rows: []int{1, 2, 4}, Tokens: 3, Repeat: 2, Length: 8, Shorter: []int{3}, MaxTokens: 8,
					Prompts: []Prompt{{ID: "a", Prompt: prompt}}, Progress: func(done, total int) {
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
		"profile": {func(s *foretoken.Session) (string, error) {
			parts := 0
			r, err := Profile(context.Background(), s, ProfileOptions{Rows: 4, Length: 8, Repeat: 1, Methods: methods,
				Prompt: prompt, Progress: func(done, total int) {
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
			quiet := newFaulty(t, func(n int, call faults.Call, label string) faults.Fault {
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
			for _, i := range someOf(len(reads), 5) {
				points = append(points, reads[i])
			}
			for _, i := range someOf(len(special), 3) {
				points = append(points, special[i])
			}
			for i, at := range points {
				k := newFaulty(t, func(n int, _ faults.Call, _ string) faults.Fault {
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
				if len(k.seen) != 2 || !k.seen[1].Recovered {
					t.Fatalf("at call %d: told of %v", at, k.seen)
				}
				k.close(t, s)
			}

			// With a loss at every read it fails with that error, and measures once the device works again.
			ill := false
			k := newFaulty(t, func(_ int, call faults.Call, _ string) faults.Fault {
				if ill && call == faults.Read {
					return faults.Lost
				}
				return faults.None
			})
			if s, err = k.open(); err != nil {
				t.Fatal(err)
			}
			ill = true
			if _, err := c.use(s); !errors.Is(err, webgpu.ErrDeviceLost) ||
				!strings.Contains(err.Error(), "3 times in a row") {
				t.Fatalf("lost at every read: %v", err)
			}
			ill = false
			if got, err := c.use(s); err != nil || got != want {
				t.Fatalf("after it:\n%s, %v\nwithout a loss\n%s", got, err, want)
			}
			if _, err := s.Generate(context.Background(), prompt,
				foretoken.Request{Policy: method.DrafterChain, Depth: 3, MaxTokens: 4}, nil); err != nil {
				t.Error(err)
			}
			k.close(t, s)
		})
	}
}
