//go:build !js

package foretoken

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"foretoken/models/demo"
	"foretoken/spec"
	"foretoken/webgpu/open"
)

// TestAutoEqualsPlain holds the goodput tree to the tokens of plain decoding.
func TestAutoEqualsPlain(t *testing.T) {
	s := demoSession(t, open.Accelerator)
	prompts := goPrompts(t)
	drafted := 0
	for how, sampling := range map[string]Request{"greedy": {}, "T=0.8": {Temperature: 0.8, Seed: 7}, "filtered": {Temperature: 0.9, Seed: 3, SampleTopK: 40, TopP: 0.95}} {
		for i, p := range prompts {
			if i%16 != 0 || testing.Short() && i%40 != 0 {
				continue
			}
			plain := sampling
			plain.Policy, plain.MaxTokens = spec.DrafterNone, 64
			want, err := s.Generate(context.Background(), p.Prompt, plain, nil)
			if err != nil {
				t.Fatal(err)
			}
			auto := plain
			auto.Policy = spec.DrafterAuto
			got, err := s.Generate(context.Background(), p.Prompt, auto, nil)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(got.TokenIDs, want.TokenIDs) {
				t.Errorf("%s, %s: %v, plain decoding gives %v", how, p.ID, got.TokenIDs, want.TokenIDs)
			}
			drafted += got.Stats.Drafted
		}
	}
	if drafted == 0 {
		t.Error("nothing was ever drafted")
	}
}

// TestCostsAreMeasuredOnceAndKept measures on the cpu device, whose times are as good as any.
func TestCostsAreMeasuredOnceAndKept(t *testing.T) {
	s := demoSession(t, "cpu")
	if s.Tuning()[tuningCosts] != nil {
		t.Error("costs before any request asked for them")
	}
	c := spec.DefaultConfig(spec.DrafterAuto)
	c.Nodes = 6
	first, err := s.costs(context.Background(), c)
	if err != nil {
		t.Fatal(err)
	}
	if !first.Measured(6, true) || first.Verify.At(6) <= 0 || first.DraftTime(2, 1) <= first.DraftTime(1, 1) {
		t.Errorf("measured %+v", first)
	}
	if s.target.Len() != 0 || s.draft.Len() != 0 {
		t.Error("measuring left tokens in the caches")
	}
	again, err := s.costs(context.Background(), c)
	if err != nil || again != first {
		t.Errorf("measured twice, %v", err)
	}
	kept, err := json.Marshal(s.Tuning()) // as the caches store it
	if err != nil {
		t.Fatal(err)
	}
	var tuning map[string]map[string]string
	if err := json.Unmarshal(kept, &tuning); err != nil {
		t.Fatal(err)
	}
	other, err := Open(context.Background(), s.dev, demo.Target(), demo.Draft(), Options{Tuning: tuning})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	back := other.keptCosts()
	if back == nil || back.Verify.At(1) != first.Verify.At(1) || back.DraftTime(3, 2) != first.DraftTime(3, 2) {
		t.Errorf("kept costs came back as %+v", back)
	}
	// Costs that no longer describe the device are measured anew.
	back.Verify.Cells[0].Seconds *= 100
	wrong, err := json.Marshal(back)
	if err != nil {
		t.Fatal(err)
	}
	other.kept = map[string]string{s.costsKey(): string(wrong)}
	mended, err := other.costs(context.Background(), c)
	if err != nil || !mended.Measured(6, true) || mended.Verify.At(1) > 10*first.Verify.At(1) {
		t.Errorf("costs a hundred times too high became %+v, %v", mended, err)
	}
	tuning[tuningCosts] = map[string]string{s.costsKey(): `{"root":{"s":-1}}`}
	if third, err := Open(context.Background(), s.dev, demo.Target(), demo.Draft(), Options{Tuning: tuning}); err != nil {
		t.Fatal(err)
	} else {
		defer third.Close()
		if third.keptCosts() != nil {
			t.Error("impossible costs were taken")
		}
	}
}

// BenchmarkAuto decodes prompts plainly and by the goodput tree in turn, and reports the
// median and the worst ratio of their speeds. FORETOKEN_AUTO_PROMPTS is how many.
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
		{"plain", Request{Policy: spec.DrafterNone}},
		{"auto", Request{Policy: spec.DrafterAuto}},
		{"chain2", Request{Policy: spec.DrafterChain, Depth: 2}},
		{"chain4", Request{Policy: spec.DrafterChain, Depth: 4}},
		{"eagle2 d2 k3 N8", Request{Policy: spec.DrafterEAGLE2, Depth: 2, TopK: 3, Nodes: 8}},
		{"eagle2 d4 k4 N16", Request{Policy: spec.DrafterEAGLE2, Depth: 4, TopK: 4, Nodes: 16}},
		{"ngram3", Request{Policy: spec.DrafterNgram, Depth: 3}},
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
					if method.name != "plain" && method.name != "auto" && os.Getenv("FORETOKEN_AUTO_FIXED") == "" {
						continue
					}
					method.r.MaxTokens = 64
					got, err := s.Generate(context.Background(), p.Prompt, method.r, nil)
					if err != nil {
						b.Fatal(err)
					}
					// Both prefills and all: what a person waits for.
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
					mean[m] = append(mean[m], median(ratios[m]))
				}
			}
			fmt.Fprintf(&report, "\n%-12s auto %.2f of plain (%.2f tokens a pass, drafted %d, draft %.1f ms and verify %.1f ms a round)", line, median(ratios[1]),
				last.Stats.AcceptedLength(), last.Stats.Drafted, last.Stats.PerRound(last.Stats.Draft), last.Stats.PerRound(last.Stats.Verify))
		}
		for m, method := range methods {
			if len(mean[m]) > 0 {
				sum := 0.0
				for _, x := range mean[m] {
					sum += x
				}
				fmt.Fprintf(&report, "\n%-18s mean %.2f, worst %.2f of plain", method.name, sum/float64(len(mean[m])), slices.Min(mean[m]))
			}
		}
		costs, _ := json.Marshal(s.measured.Verify)
		fmt.Fprintf(&report, "\nverify %s", costs)
		fmt.Fprintf(&report, "\nroot %.2f ms, level by 1 %.2f, by 4 %.2f, sync %.2f, feeding 64 %.2f", 1e3*s.measured.Root.Seconds, 1e3*s.measured.Level.At(1), 1e3*s.measured.Level.At(4), 1e3*s.measured.Sync.Seconds, 1e3*s.measured.Feed.At(64))
		fmt.Println(report.String()) // a benchmark's log is cut after ten lines
	}
}
