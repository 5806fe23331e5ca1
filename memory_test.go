//go:build !js

package foretoken

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"foretoken/models/demo"
	"foretoken/models/graph"
	"foretoken/webgpu/kernels/kerneltest"
)

// TestPlanOfAPair compares the plan with the memory that opening the pair allocates. Progress reports the plan
// before anything is loaded.
func TestPlanOfAPair(t *testing.T) {
	dev := kerneltest.Reference(t)
	for _, o := range []Options{{Context: 256}, {Context: 128, KV: "q8", Nodes: 100, Candidates: 64}} {
		want, err := Plan(demo.Target(), demo.Draft(), o, dev.Info().Limits)
		if err != nil {
			t.Fatal(err)
		}
		if want.Draft == nil || want.Total != want.Target.Total()+want.Draft.Total() {
			t.Fatalf("%+v", want)
		}
		var first Progress
		o.Memory, o.Progress = want.Total, func(p Progress) {
			if first.Stage == "" {
				first = p
				if n := dev.Counters().Buffers; o.KV == "" && n != 0 {
					t.Errorf("%d buffers were made before the plan was reported", n)
				}
			}
		}
		s, err := Open(context.Background(), dev, demo.Target(), demo.Draft(), o)
		if err != nil {
			t.Fatal(err)
		}
		if got := s.Info().GPUByte; got != want.Total {
			t.Errorf("%+v: opening took %d bytes, planned %d", o, got, want.Total)
		}
		if k := s.pair.Target.Limits().TopK; o.Candidates > 0 && k != o.Candidates {
			t.Errorf("the target returns %d candidates, want %d", k, o.Candidates)
		}
		s.Close()
		if first.Stage != "memory" || first.Total != want.Total ||
			!strings.Contains(first.Note, graph.Size(want.Draft.Weights)) {
			t.Errorf("reported first: %+v", first)
		}
		alone, err := Plan(demo.Target(), nil, o, dev.Info().Limits)
		if err != nil || alone.Draft != nil || alone.Total != want.Target.Total() {
			t.Errorf("%+v, %v", alone, err)
		}
	}
}

// TestPairOfTooMuchMemory checks that a pair that exceeds the limit is refused before any allocation, that the error
// says what would fit, and that it does.
func TestPairOfTooMuchMemory(t *testing.T) {
	dev := kerneltest.Reference(t)
	all, err := Plan(demo.Target(), demo.Draft(), Options{}, dev.Info().Limits)
	if err != nil {
		t.Fatal(err)
	}
	_, err = Open(context.Background(), dev, demo.Target(), demo.Draft(), Options{Memory: all.Total - 1})
	if err == nil || dev.Counters().Buffers != 0 {
		t.Fatalf("%v, %d buffers", err, dev.Counters().Buffers)
	}
	for _, part := range []string{fmt.Sprint(all.Total), graph.Size(all.Target.Weights), graph.Size(all.Draft.KV),
		"a context of at most 1023 positions fits", fmt.Sprint(all.Total - 1)} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q does not say %q", err, part)
		}
	}
	total := func(o Options) int64 {
		t.Helper()
		m, err := Plan(demo.Target(), demo.Draft(), o, dev.Info().Limits)
		if err != nil {
			t.Fatal(err)
		}
		return m.Total
	}
	if most := total(Options{Context: 1023}); most >= all.Total || total(Options{Context: 1024}) != all.Total {
		t.Errorf("1023 positions take %d of %d", most, all.Total)
	}
	for most, advice := range map[int64]string{total(Options{Context: 256}) - 1: "with KV in q8 a context of ",
		all.Target.Weights: "use a smaller file, with fewer bits a weight or fewer layers"} {
		if _, err = Plan(demo.Target(), demo.Draft(), Options{Memory: most}, dev.Info().Limits); err == nil ||
			!strings.Contains(err.Error(), advice) {
			t.Errorf("%d bytes: %v", most, err)
		}
	}
	small := dev.Info().Limits
	small.MaxMemory = int(all.Total) - 1
	if _, err := Plan(demo.Target(), demo.Draft(), Options{Memory: all.Total}, small); err == nil ||
		!strings.Contains(err.Error(), fmt.Sprint(all.Total-1)+" bytes that the device can have") {
		t.Error(err)
	}
	if _, err := Open(context.Background(), dev, demo.Target(), nil, Options{KV: "q4"}); err == nil ||
		!strings.Contains(err.Error(), `KV format "q4"; want f32, f16 or q8`) {
		t.Error(err)
	}
}
