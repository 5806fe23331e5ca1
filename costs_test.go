//go:build !js

package foretoken

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"foretoken/internal/files"
	"foretoken/models/demo"

	"foretoken/spec/goodput"
	methods "foretoken/spec/method"
	"foretoken/webgpu/kernels/kerneltest"
	"foretoken/webgpu/open"
)

// TestAutoEqualsPlain checks that the goodput tree gives the tokens of plain decoding by each draft, and by whichever
// pays where there are two. The samplings share out a prompt of each category; with FORETOKEN_FULL=1 each runs
// them all.
func TestAutoEqualsPlain(t *testing.T) {
	onCPU(t, func(t *testing.T, kind string) { autoEqualsPlain(t, pairSession(t, deviceOf(t, kind))) })
}

func autoEqualsPlain(t *testing.T, s *Session) {
	t.Helper()
	// costs are those at which only this draft pays; sync is the time of another submit.
	costs := func(cheap int, sync float64) *goodput.Costs {
		c := goodput.NewCosts()
		for i := range c.Drafts {
			c.Drafts[i].Root = goodput.Cell{Seconds: 100, Count: 1e6}
		}
		c.Drafts[cheap].Root.Seconds = 1e-6 + sync
		c.Drafts[cheap].Sync = goodput.Cell{Seconds: sync, Count: 1e6}
		return c
	}
	const short, long = 1e-9, 0.5
	ways := map[string]struct {
		source string
		cheap  int // -1: the costs are measured
		sync   float64
	}{
		"measured":            {"", -1, 0},
		"the draft":           {methods.SourceModel, goodput.SmallDraft, short},
		"the head":            {methods.SourceEAGLE3, goodput.EAGLE3, short},
		"one run":             {methods.SourceModel, goodput.SmallDraft, long},
		"one run of the head": {methods.SourceEAGLE3, goodput.EAGLE3, long},
	}
	drafted, joint := map[string]int{}, map[string]int{}
	first := map[string]int{"greedy": 0, "T=0.8": 16, "filtered": 32}
	for how, sampling := range map[string]Request{"greedy": {}, "T=0.8": {Temperature: 0.8, Seed: 7},
		"filtered": {Temperature: 0.9, Seed: 3, SampleTopK: 40, TopP: new(0.95)}} {
		for i, p := range goPrompts(t) {
			if i%16 != 0 || i != first[how] && !kerneltest.Full() {
				continue
			}
			plain := sampling
			plain.Policy, plain.MaxTokens = methods.DrafterNone, 40
			want, err := s.Generate(context.Background(), p.Prompt, plain, nil)
			if err != nil {
				t.Fatal(err)
			}
			for way, r := range ways {
				auto := plain
				if auto.Policy, auto.Source = methods.DrafterAuto, r.source; r.cheap >= 0 {
					auto.Fitted.Costs = costs(r.cheap, r.sync)
				}
				s.pair.Reset()
				got, err := s.Generate(context.Background(), p.Prompt, auto, func(e *Event) error {
					if e.Round.Joint {
						joint[way]++
					}
					return nil
				})
				if err != nil {
					t.Fatal(err)
				}
				if !slices.Equal(got.TokenIDs, want.TokenIDs) {
					t.Errorf("%s by %s, %s: %v, plain decoding gives %v", how, way, p.ID, got.TokenIDs, want.TokenIDs)
				}
				drafted[way] += got.Stats.Drafted
				draft, head := s.pair.Draft.Len() > 0, s.pair.Head.Len() > 0
				if r.cheap >= 0 && (draft != (r.cheap == goodput.SmallDraft) || head == draft) {
					t.Errorf("%s by %s, %s: the draft took part: %v, the head: %v", how, way, p.ID, draft, head)
				}
			}
		}
	}
	for way := range ways {
		if drafted[way] == 0 {
			t.Errorf("by %s nothing was ever drafted", way)
		}
		if r := ways[way]; r.cheap >= 0 && (joint[way] > 0) != (r.sync == long) {
			t.Errorf("by %s %d rounds drafted and verified in one run", way, joint[way])
		}
	}
	if !s.costs.Known().Measured(16, goodput.SmallDraft, goodput.EAGLE3) {
		t.Error("not all passes were measured")
	}
}

// TestCostsAreMeasuredWhileIdle leaves a session with a fast start on the CPU alone until the passes are timed, before
// or after a request. A conversation may go on from the request's text.
func TestCostsAreMeasuredWhileIdle(t *testing.T) {
	measured := func(s *Session) *goodput.Costs {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); ; time.Sleep(30 * time.Millisecond) {
			if !s.turn.TryLock() { // timing goes on
				continue
			}
			costs, timed := s.costs.Known(), s.costs.Timed()
			s.turn.Unlock()
			if timed {
				if !costs.Measured(s.defaultConfig().Nodes, goodput.SmallDraft) {
					t.Errorf("measured %+v", costs)
				}
				return costs
			}
			if time.Now().After(deadline) {
				t.Fatal("nothing was measured")
			}
		}
	}
	generate := func(s *Session, policy string) {
		t.Helper()
		if _, err := s.Generate(context.Background(), "func", Request{Policy: policy, MaxTokens: 4}, nil); err != nil {
			t.Fatal(err)
		}
	}
	s := demoSessionWith(t, "cpu", Options{FastStart: true})
	costs := measured(s)
	if s.pair.Target.Len() > 0 || len(costs.Learnt) > 0 {
		t.Error("timing left its text or what it learnt")
	}
	generate(s, methods.DrafterAuto)
	if measured(s) != costs {
		t.Error("the first request measured again")
	}
	for _, policy := range []string{methods.DrafterNone, methods.DrafterAuto} {
		early := demoSessionWith(t, "cpu", Options{FastStart: true})
		generate(early, policy)
		early.turn.Lock()
		held := early.pair.Target.Len()
		early.turn.Unlock()
		if measured(early); early.pair.Target.Len() != held || held == 0 {
			t.Errorf("measuring took away the text of a request of %s: of %d tokens it left %d", policy, held,
				early.pair.Target.Len())
		}
	}
}

// TestCostsAreKept stores the costs of a session in the form of caches and opens another session with them.
func TestCostsAreKept(t *testing.T) {
	s := demoSession(t, "cpu")
	if s.Tuning()[tuningCosts] != nil {
		t.Error("costs before any request asked for them")
	}
	if err := s.TimePasses(context.Background()); err != nil {
		t.Fatal(err)
	}
	if s.pair.Target.Len() != 0 || s.pair.Draft.Len() != 0 {
		t.Error("measuring left tokens in the caches")
	}
	stored, err := json.Marshal(s.Tuning())
	if err != nil {
		t.Fatal(err)
	}
	var tuning map[string]map[string]string
	if err := json.Unmarshal(stored, &tuning); err != nil {
		t.Fatal(err)
	}
	first := s.costs.Known()
	for models, draft := range map[string]files.Source{"the same pair": demo.Draft(), "the target alone": nil} {
		other := opened(t, "cpu", demo.Target(), draft, Options{Tuning: tuning})
		back := other.costs.Known()
		if kept := back.Verify.At(1) == first.Verify.At(1); kept != (draft != nil) {
			t.Errorf("%s: costs %+v, stored were %+v", models, back, first)
		}
	}
}

var fixedToo = flag.Bool("fixed", false, "BenchmarkAuto: time methods with fixed settings too")

// BenchmarkAuto decodes prompts plainly and by the goodput tree in turn, and reports the median and the worst ratio
// of their speeds.
func BenchmarkAuto(b *testing.B) {
	s := demoSession(b, open.Accelerator)
	every := goPrompts(b)
	var picked []testPrompt
	for i := 3; i < len(every); i += 7 {
		picked = append(picked, every[i])
	}
	methods := []struct {
		name string
		r    Request
	}{
		{"plain", Request{Policy: methods.DrafterNone}},
		{"auto", Request{Policy: methods.DrafterAuto}},
		{"chain2", Request{Policy: methods.DrafterChain, Depth: 2}},
		{"chain4", Request{Policy: methods.DrafterChain, Depth: 4}},
		{"eagle2 d2 k3 N8", Request{Policy: methods.DrafterEAGLE2, Depth: 2, TopK: 3, Nodes: 8}},
		{"eagle2 d4 k4 N16", Request{Policy: methods.DrafterEAGLE2, Depth: 4, TopK: 4, Nodes: 16}},
		{"ngram3", Request{Policy: methods.DrafterNgram, Depth: 3}},
	}
	const rounds = 5
	for b.Loop() {
		var report strings.Builder
		mean := make([][]float64, len(methods))
		for _, p := range picked {
			ratios := make([][]float64, len(methods))
			var last *Result
			for range rounds {
				var plain float64
				for m, method := range methods {
					if method.name != "plain" && method.name != "auto" && !*fixedToo {
						continue
					}
					method.r.MaxTokens = 64
					got, err := s.Generate(context.Background(), p.Prompt, method.r, nil)
					if err != nil {
						b.Fatal(err)
					}
					// A user waits for both prefills too.
					seconds := (got.Stats.Decode + got.Stats.Prefill).Seconds()
					if m == 0 {
						plain = seconds
					}
					if method.name == "auto" {
						last = got
					}
					ratios[m] = append(ratios[m], plain/seconds)
				}
			}
			line := p.ID
			for m := range methods {
				if len(ratios[m]) > 0 {
					mean[m] = append(mean[m], medianOf(ratios[m]))
				}
			}
			fmt.Fprintf(&report, "\n%-12s auto %.2f of plain (%.2f tokens a pass, drafted %d, draft %.1f ms and "+
				"verify %.1f ms a round)", line, medianOf(ratios[1]),
				last.Stats.AcceptedLength(), last.Stats.Drafted, last.Stats.PerRound(last.Stats.Draft),
				last.Stats.PerRound(last.Stats.Verify))
		}
		for m, method := range methods {
			if len(mean[m]) > 0 {
				sum := 0.0
				for _, x := range mean[m] {
					sum += x
				}
				fmt.Fprintf(&report, "\n%-18s mean %.2f, worst %.2f of plain", method.name, sum/float64(len(mean[m])),
					slices.Min(mean[m]))
			}
		}
		costs, _ := json.Marshal(s.costs.Known().Verify)
		fmt.Fprintf(&report, "\nverify %s", costs)
		d := &s.costs.Known().Drafts[goodput.SmallDraft]
		fmt.Fprintf(&report, "\nroot %.2f ms, level by 1 %.2f, by 4 %.2f, sync %.2f, prefilling 64 %.2f",
			1e3*d.Root.Seconds, 1e3*d.Level.At(1), 1e3*d.Level.At(4), 1e3*d.Sync.Seconds, 1e3*d.Prefill.At(64))
		fmt.Println(report.String()) // the testing package cuts a benchmark's log after ten lines
	}
}

func medianOf(xs []float64) float64 {
	s := slices.Sorted(slices.Values(xs))
	if n := len(s); n%2 == 0 {
		return (s[n/2-1] + s[n/2]) / 2
	}
	return s[len(s)/2]
}
