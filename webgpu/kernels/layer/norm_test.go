package layer

import (
	"fmt"
	"testing"

	"foretoken/webgpu"
	"foretoken/webgpu/kernels"
	"foretoken/webgpu/kernels/kerneltest"
)

func TestRMSNorm(t *testing.T) {
	kerneltest.OnDevices(t, func(t *testing.T, dev webgpu.Device) {
		b := kerneltest.New(t, dev)
		for _, lanes := range []kernels.Lanes{kernels.Serial, kernels.Grouped} {
			for _, dim := range []int{64, 96, 172, 256, 1027} {
				x, w := kerneltest.Normals(1, 64*dim), kerneltest.Normals(2, dim)
				weight := b.F32(w)
				on := func(order []int) []uint32 {
					in, out := b.F32(kerneltest.Gather(x, dim, order)), b.Poisoned(len(order)*dim)
					defer b.Free(in, out)
					return b.Run(func(r *kernels.Recorder) {
						RecordNorm(r, lanes, in, weight, out, len(order), dim, 1e-5)
					}, out)[0]
				}
				all := make([]int, 64)
				for i := range all {
					all[i] = i
				}
				want := webgpu.NewMemory(4 * len(x))
				normRef([3]int{}, []webgpu.Memory{{64, uint32(dim), kernels.Word(1e-5)},
					webgpu.Memory(kerneltest.Bits(x)), webgpu.Memory(kerneltest.Bits(w)), want})
				name := fmt.Sprintf("lanes %d dim %d", lanes, dim)
				for range 3 {
					kerneltest.CloseTo(t, name, webgpu.Memory(on(all)).F32(), want.F32(), 1e-5, 1e-6)
				}
				if dim == 172 {
					kerneltest.Invariant(t, dim, on)
				}
				b.Free(weight)
			}
		}
	})
}
