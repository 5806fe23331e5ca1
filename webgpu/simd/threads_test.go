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
	for _, o := range []simd.Options{{}, {Parts: 3}, {Threads: 2}, {Threads: 3}, {Threads: 8}} {
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

// TestThreadsBetweenPrograms runs short and long programs in turn, with nothing between them: a thread that is slow to
// leave one finds the next already there. Each step changes every number.
func TestThreadsBetweenPrograms(t *testing.T) {
	const rows, dim, long, turns = 8, 64, 5, 2000
	gains := make([]float32, dim)
	for i := range gains {
		gains[i] = float32(i%2*2-1) * (1 + float32(i)/dim/1000)
	}
	var want webgpu.Memory
	for _, threads := range []int{1, 2, 3} {
		t.Run(fmt.Sprint(threads, " threads"), func(t *testing.T) {
			dev, err := simd.Open(simd.Options{Threads: threads})
			if err != nil {
				t.Fatal(err)
			}
			defer dev.Destroy()
			b := kerneltest.New(t, dev)
			gain, x, y := b.F32(gains), b.F32(kerneltest.Normals(1, rows*dim)), b.Poisoned(rows*dim)
			record := func(steps int) *kernels.Recorder {
				r := kernels.NewRecorder("steps", dev.Info())
				for range steps {
					layer.RecordNorm(r, kernels.Serial, x, gain, y, rows, dim, 1e-5)
					x, y = y, x
				}
				return r
			}
			built, err := kernels.Build(dev, record(1), record(long))
			if err != nil {
				t.Fatal(err)
			}
			defer built.Free()
			got := webgpu.NewMemory(x.Size)
			end := webgpu.Region{Buffer: x.Buffer, Offset: x.Offset, Dst: got.Bytes()}
			if err := dev.Run(slices.Repeat(built.Programs, turns), end); err != nil {
				t.Fatal(err)
			}
			if want == nil {
				want = got
			}
			kerneltest.SameBits(t, "the last step", got, want)
		})
	}
}
