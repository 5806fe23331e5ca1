package layer

import (
	"math"
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
