package layer

import (
	"math"
	"slices"
	"testing"

	"foretoken/webgpu"
	"foretoken/webgpu/kernels"
	"foretoken/webgpu/kernels/kerneltest"
)

func TestSiLUMul(t *testing.T) {
	kerneltest.OnDevices(t, func(t *testing.T, dev webgpu.Device) {
		b := kerneltest.New(t, dev)
		const dim = 172
		x := kerneltest.Normals(6, 64*2*dim)
		on := func(order []int) []uint32 {
			in, out := b.F32(kerneltest.Gather(x, 2*dim, order)), b.Poisoned(len(order)*dim)
			defer b.Free(in, out)
			return b.Run(func(r *kernels.Recorder) { RecordSiLU(r, in, out, len(order), dim) }, out)[0]
		}
		all := make([]int, 64)
		want := make([]float32, 64*dim)
		for i := range all {
			all[i] = i
			for k := range dim {
				g := float64(x[2*i*dim+k])
				want[i*dim+k] = float32(g / (1 + math.Exp(-g)) * float64(x[(2*i+1)*dim+k]))
			}
		}
		kerneltest.CloseTo(t, "silu", webgpu.Memory(on(all)).F32(), want, 2e-5, 1e-30)
		kerneltest.Invariant(t, dim, on)
	})
}

// TestSiLUOfHosts holds hosts to a few units in the last place from the smallest to the largest gates, of which GPUs
// compute less exactly. Where the gate is far below zero this is the error of exp.
func TestSiLUOfHosts(t *testing.T) {
	kerneltest.OnDevices(t, func(t *testing.T, dev webgpu.Device) {
		if !dev.Info().Host() {
			t.Skip("not a host")
		}
		gates := []float32{0, 1e-30, 88.7, 1e30, math.MaxFloat32, float32(math.Inf(1)), float32(math.NaN())}
		for x := float32(-103); x < 103; x += 0.0137 {
			gates = append(gates, x)
		}
		dim := len(gates)
		x := append(gates, slices.Repeat([]float32{1}, dim)...)
		b := kerneltest.New(t, dev)
		in, out := b.F32(x), b.Poisoned(dim)
		defer b.Free(in, out)
		got := b.Run(func(r *kernels.Recorder) { RecordSiLU(r, in, out, 1, dim) }, out)[0].F32()
		for i, x := range gates {
			g, want := float64(got[i]), float64(x)/(1+math.Exp(-float64(x)))
			const least = 88 * 0x1p-126 // below, 1 + exp(-x) is no finite number
			if g != want && !(math.Abs(g-want) <= 4e-7*math.Abs(want)+least) && !(g != g && want != want) {
				t.Errorf("gate %g: %g, want %g", x, g, want)
			}
		}
	})
}
