//go:build !js

package bench

import (
	"context"
	"math"
	"testing"
	"testing/synctest"

	"foretoken"
	"foretoken/models/demo"
	"foretoken/spec/method"
	"foretoken/webgpu"
	"foretoken/webgpu/kernels/kerneltest"
)

// TestProfile holds what is counted to itself and to what a round is known to do.
func TestProfile(t *testing.T) { synctest.Test(t, testProfile) }

func testProfile(t *testing.T) {
	dev := paced{kerneltest.Reference(t)}
	ctx := context.Background()
	s, err := foretoken.Open(ctx, dev, demo.Target(), demo.Draft(), foretoken.Options{Context: 128})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	methods, err := ParseMethods("none:name=plain,eagle2:depth=1,top-k=2,nodes=4", foretoken.Request{MaxTokens: 12})
	if err != nil {
		t.Fatal(err)
	}
	want, err := s.Generate(ctx, "func main() {\n", methods[1].Request, nil)
	if err != nil {
		t.Fatal(err)
	}
	parts := 0
	r, err := Profile(ctx, s,
		ProfileOptions{Rows: 4, Length: 8, Repeat: 1, Methods: methods, Progress: func(done, total int) {
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
		if math.Abs(p.MS-p.KernelMS) > 1e-9*sum { // one by one they take what they take together
			t.Errorf("%s takes %g ms, its kernels %g", p.Name, p.MS, p.KernelMS)
		}
		if p.Submits != 1 || p.Readbacks != 1 || p.Creations != 0 || p.BytesWritten == 0 || p.BytesRead == 0 ||
			p.MS < p.WaitMS {
			t.Errorf("%s: %+v", p.Name, p)
		}
	}
	if step, tree := r.Passes[0], r.Passes[1]; step.Dispatches > tree.Dispatches || step.KernelMS > tree.KernelMS {
		t.Errorf("a step: %d dispatches, %g ms; 4 rows: %d, %g ms", step.Dispatches, step.KernelMS, tree.Dispatches,
			tree.KernelMS)
	}
	plain, tree := r.Rounds[0], r.Rounds[1]
	if plain.Rounds != 11 || plain.Tokens != 1 || plain.DraftMS != 0 || plain.Submits != 1 || plain.Readbacks != 1 ||
		plain.Creations != 0 {
		t.Errorf("plain decoding: %+v", plain)
	}
	if tree.Rounds != want.Stats.Rounds-1 || tree.DraftMS < 0 || tree.Creations != 0 || tree.MS < tree.CPUMS ||
		tree.CPUMS < 0 {
		t.Errorf("trees: %+v after %d rounds", tree, want.Stats.Rounds)
	}
	// The session still works.
	again, err := s.Generate(ctx, "func main() {\n", methods[1].Request, nil)
	if err != nil || again.Text != want.Text {
		t.Errorf("after the profile %q, %v; before it %q", again.Text, err, want.Text)
	}
	for _, bad := range []ProfileOptions{{Rows: 999}, {Rows: -1}, {Beams: 99}, {Length: 127}, {Repeat: -1},
		{Methods: []Method{{Name: "x", Request: foretoken.Request{Policy: method.DrafterChain,
			Source: method.SourceEAGLE3}}}}} {
		if _, err := Profile(ctx, s, bad); err == nil {
			t.Errorf("%+v was profiled", bad)
		}
	}
}
