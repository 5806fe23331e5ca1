//go:build !js

package simd

import (
	"testing"

	"foretoken/webgpu"
	"foretoken/webgpu/devicetest"
)

// TestRunAllocatesNothing writes, runs and reads as a round does: only the start of the goroutine may allocate.
func TestRunAllocatesNothing(t *testing.T) {
	dev := open(t)
	k, err := devicetest.NewKernel(dev, &webgpu.KernelSource{Name: "norm", Key: "norm", Entry: "norm",
		Bindings: []webgpu.Access{webgpu.Constants, webgpu.ReadOnly, webgpu.ReadOnly, webgpu.ReadWrite}})
	if err != nil {
		t.Fatal(err)
	}
	buffer := func(usage webgpu.Usage) webgpu.Binding {
		b, err := dev.NewBuffer("b", 256, usage)
		if err != nil {
			t.Fatal(err)
		}
		return webgpu.Binding{Buffer: b}
	}
	params, x, out := buffer(webgpu.Uniform), buffer(webgpu.Storage), buffer(webgpu.Storage)
	words, got := webgpu.U32Bytes([]uint32{1, 64, 1}), make([]byte, 256)
	if err := dev.Write(params.Buffer, 0, words); err != nil {
		t.Fatal(err)
	}
	p, err := dev.NewProgram("p", []webgpu.Dispatch{
		{Kernel: k, Bindings: []webgpu.Binding{params, x, x, out}, Groups: [3]int{1, 1, 1}}})
	if err != nil {
		t.Fatal(err)
	}
	programs, reads := []webgpu.Program{p, p}, []webgpu.Region{{Buffer: out.Buffer, Dst: got}}
	if n := testing.AllocsPerRun(100, func() {
		if err := dev.Write(params.Buffer, 0, words); err != nil {
			t.Fatal(err)
		}
		if err := dev.Run(programs, reads...); err != nil {
			t.Fatal(err)
		}
	}); n > 1 {
		t.Errorf("%g allocations a run", n)
	}
}
