package kernels

import (
	"fmt"
	"testing"

	"foretoken/webgpu"
)

func TestRMSNorm(t *testing.T) {
	onDevices(t, func(t *testing.T, dev webgpu.Device) {
		b := bench{t, dev}
		for _, lanes := range []Lanes{Serial, Grouped} {
			for _, dim := range []int{64, 96, 172, 256, 1027} {
				x, w := normals(1, 64*dim), normals(2, dim)
				weight := b.f32(w)
				on := func(order []int) []uint32 {
					in, out := b.f32(gather(x, dim, order)), b.poisoned(len(order)*dim)
					defer b.free(in, out)
					return b.run(func(r *Recorder) { r.RMSNorm(lanes, in, weight, out, len(order), dim, 1e-5) }, out)[0]
				}
				all := make([]int, 64)
				for i := range all {
					all[i] = i
				}
				want := webgpu.NewMemory(4 * len(x))
				normRef([3]int{}, []webgpu.Memory{{64, uint32(dim), f32(1e-5)}, webgpu.Memory(bits(x)), webgpu.Memory(bits(w)), want})
				name := fmt.Sprintf("lanes %d dim %d", lanes, dim)
				for range 3 {
					closeTo(t, name, webgpu.Memory(on(all)).F32(), want.F32(), 1e-5, 1e-6)
				}
				if dim == 172 {
					invariant(t, dim, on)
				}
				b.free(weight)
			}
		}
	})
}
