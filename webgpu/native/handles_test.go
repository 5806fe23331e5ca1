//go:build cgo && !js

package native

import (
	"maps"
	"testing"
	"time"

	"foretoken/webgpu"
	"foretoken/webgpu/devicetest"
)

// TestHandles makes and frees objects and checks the library's own count: a freed object is gone after the next
// awaited run, and a destroyed device leaves none.
func TestHandles(t *testing.T) {
	d := open(t, Options{})
	held := func() Handles {
		t.Helper()
		h, err := d.Handles()
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	make := func() (webgpu.Buffer, webgpu.Program) {
		t.Helper()
		b, err := d.NewBuffer("x", 64, webgpu.Storage)
		if err != nil {
			t.Fatal(err)
		}
		k, err := devicetest.NewKernel(d, &webgpu.KernelSource{Name: "add one", Key: "add one",
			Bindings: []webgpu.Access{webgpu.ReadWrite}, WGSL: devicetest.Text(`
@group(0) @binding(0) var<storage, read_write> x: array<u32>;

@compute @workgroup_size(16)
fn main(@builtin(global_invocation_id) id: vec3<u32>) { x[id.x] = x[id.x] + 1u; }
`)})
		if err != nil {
			t.Fatal(err)
		}
		p, err := d.NewProgram("add", []webgpu.Dispatch{{Kernel: k, Bindings: []webgpu.Binding{{Buffer: b}},
			Groups: [3]int{1, 1, 1}}})
		if err != nil {
			t.Fatal(err)
		}
		out := [4]byte{}
		if err := d.Run([]webgpu.Program{p}, webgpu.Region{Buffer: b, Dst: out[:]}); err != nil || out[0] != 1 {
			t.Fatalf("%v, %v", out, err)
		}
		return b, p
	}
	b, p := make()
	base := held()
	// one buffer is for reads
	if base["buffers"] != 2 || base["bind groups"] != 1 || base["compute pipelines"] != 1 || base["devices"] != 1 {
		t.Fatalf("after one program: %v", base)
	}
	for range 50 {
		more, again := make()
		d.FreeProgram(again)
		d.FreeBuffer(more)
	}
	if err := d.Run([]webgpu.Program{p}, webgpu.Region{Buffer: b, Dst: new([4]byte)[:]}); err != nil {
		t.Fatal(err)
	}
	if now := held(); !maps.Equal(now, base) {
		t.Errorf("after 50 more that were freed: %v, before %v", now, base)
	}
	d.FreeProgram(p)
	make()
	d.Destroy()
	select {
	case <-d.released:
	case <-time.After(time.Minute):
		t.Fatal("the driver does not let go")
	}
	// The library keeps the device itself, and the adapter for it, until the instance goes, which comes right after.
	if want := (Handles{"adapters": 1, "devices": 1}); !maps.Equal(d.left, want) {
		t.Errorf("a destroyed device leaves %v, want %v", d.left, want)
	}
	if _, err := d.Handles(); err == nil {
		t.Error("a destroyed device counts its handles")
	}
}
