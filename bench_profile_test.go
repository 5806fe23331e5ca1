//go:build !js

package foretoken

import (
	"context"
	"fmt"
	"math"
	"testing"

	"foretoken/models/demo"
	"foretoken/spec"
	"foretoken/webgpu"
	"foretoken/webgpu/cpu"
)

// TestProfile holds what is counted to itself and to what a round is known to do.
func TestProfile(t *testing.T) {
	dev := cpu.Open()
	defer dev.Destroy()
	ctx := context.Background()
	s, err := Open(ctx, dev, demo.Target(), demo.Draft(), Options{Context: 128})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	methods, err := ParseBenchMethods("none:name=plain,eagle2:depth=1,top-k=2,nodes=4", Request{MaxTokens: 12})
	if err != nil {
		t.Fatal(err)
	}
	want, err := s.Generate(ctx, "func main() {\n", methods[1].Request, nil)
	if err != nil {
		t.Fatal(err)
	}
	parts := 0
	r, err := s.Profile(ctx, ProfileOptions{Rows: 4, Length: 8, Repeat: 1, Methods: methods, Progress: func(done, total int) {
		if parts++; done != parts || total != 6 {
			t.Errorf("part %d is told as %d of %d", parts, done, total)
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Passes) != 4 || len(r.Rounds) != 2 || r.Clock != webgpu.ClockHost {
		t.Fatalf("%+v", r)
	}
	for _, p := range r.Passes {
		sum, share, calls := 0.0, 0.0, 0
		for _, k := range p.Kernels {
			sum, share, calls = sum+k.MS, share+k.Share, calls+k.Calls
		}
		if math.Abs(sum-p.KernelMS) > 1e-9*sum || math.Abs(share-1) > 1e-9 || calls != p.Dispatches || calls == 0 {
			t.Errorf("%s: kernels of %g ms and %d calls in %+v", p.Name, sum, calls, p)
		}
		if p.Submits != 1 || p.Readbacks != 1 || p.Creations != 0 || p.BytesWritten == 0 || p.BytesRead == 0 || p.MS < p.WaitMS {
			t.Errorf("%s: %+v", p.Name, p)
		}
	}
	if step, tree := r.Passes[0], r.Passes[1]; step.Dispatches > tree.Dispatches {
		t.Errorf("a step: %d dispatches; 4 rows: %d", step.Dispatches, tree.Dispatches)
	}
	// Times are told apart by what else the machine does: of several profiles one must have them in order.
	for attempt := 1; ; attempt++ {
		wrong := strangeTimes(r)
		if wrong == "" {
			break
		}
		if attempt == 10 {
			t.Fatalf("in each of %d profiles: %s", attempt, wrong)
		}
		t.Log(wrong)
		if r, err = s.Profile(ctx, ProfileOptions{Rows: 4, Length: 8, Repeat: 2, Methods: methods}); err != nil {
			t.Fatal(err)
		}
	}
	plain, tree := r.Rounds[0], r.Rounds[1]
	if plain.Rounds != 11 || plain.Tokens != 1 || plain.DraftMS != 0 || plain.Submits != 1 || plain.Readbacks != 1 || plain.Creations != 0 {
		t.Errorf("plain decoding: %+v", plain)
	}
	if tree.Rounds != want.Stats.Rounds-1 || tree.DraftMS < 0 || tree.Creations != 0 || tree.MS < tree.CPUMS || tree.CPUMS < 0 {
		t.Errorf("trees: %+v after %d rounds", tree, want.Stats.Rounds)
	}
	// The session goes on as before.
	again, err := s.Generate(ctx, "func main() {\n", methods[1].Request, nil)
	if err != nil || again.Text != want.Text {
		t.Errorf("after the profile %q, %v; before it %q", again.Text, err, want.Text)
	}
	for _, bad := range []ProfileOptions{{Rows: 999}, {Rows: -1}, {Beams: 99}, {Length: 127}, {Repeat: -1},
		{Methods: []BenchMethod{{Name: "x", Request: Request{Policy: spec.DrafterChain, Source: spec.SourceEAGLE3}}}}} {
		if _, err := s.Profile(ctx, bad); err == nil {
			t.Errorf("%+v was profiled", bad)
		}
	}
}

// strangeTimes says what is wrong with the times of passes on the host: there the kernels take one by one what they take
// together, and more rows take longer.
func strangeTimes(r *ProfileReport) string {
	for _, p := range r.Passes {
		if p.KernelMS > 3*p.MS || p.MS > 5*p.KernelMS+5 {
			return fmt.Sprintf("%s takes %g ms, its kernels %g", p.Name, p.MS, p.KernelMS)
		}
	}
	if step, tree := r.Passes[0], r.Passes[1]; step.KernelMS > tree.KernelMS {
		return fmt.Sprintf("a step takes %g ms, 4 rows %g", step.KernelMS, tree.KernelMS)
	}
	return ""
}
