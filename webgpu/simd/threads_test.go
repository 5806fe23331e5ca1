package simd_test

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	"foretoken/webgpu"
	"foretoken/webgpu/kernels"
	"foretoken/webgpu/kernels/kerneltest"
	"foretoken/webgpu/kernels/layer"
	"foretoken/webgpu/simd"
)

// TestThreads runs a chain of dispatches, each of which reads what the one before wrote, with several threads and in
// several parts. All compute the same bits.
func TestThreads(t *testing.T) {
	const rows, dim, steps, runs = 13, 256, 40, 50
	var want []uint32
	for _, o := range []simd.Options{{}, {Parts: 3}, {Threads: 2}, {Threads: 3}} {
		t.Run(fmt.Sprintf("%+v", o), func(t *testing.T) {
			dev, err := simd.Open(o)
			if err != nil {
				t.Fatal(err)
			}
			defer dev.Destroy()
			b := kerneltest.New(t, dev)
			gain := b.F32(slices.Repeat([]float32{1.25}, dim))
			for range runs {
				x, y := b.F32(kerneltest.Normals(1, rows*dim)), b.Poisoned(rows*dim)
				got := b.Run(func(r *kernels.Recorder) {
					layer.RecordNorm(r, kernels.Serial, x, gain, y, rows, dim, 1e-5)
					for range steps {
						layer.RecordNorm(r, kernels.Serial, y, gain, x, rows, dim, 1e-5)
						layer.RecordNorm(r, kernels.Serial, x, gain, y, rows, dim, 1e-5)
					}
				}, y)[0]
				b.Free(x, y)
				if want == nil {
					want = got
					if v := float64(math.Float32frombits(got[0])); v == 0 || math.IsNaN(v) {
						t.Fatalf("the first number is %v", v)
					}
				}
				kerneltest.SameBits(t, "again", got, want)
			}
			if c := dev.Counters(); c.Fallbacks > 0 {
				t.Fatalf("%d dispatches ran their references", c.Fallbacks)
			}
			dev.Destroy()
			if err := dev.Run(nil); !errors.Is(err, webgpu.ErrDeviceLost) {
				t.Fatalf("Run after Destroy: %v", err)
			}
		})
	}
}
