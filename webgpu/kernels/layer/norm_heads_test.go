package layer

import (
	"fmt"
	"math"
	"testing"

	"foretoken/webgpu"
	"foretoken/webgpu/kernels"
	"foretoken/webgpu/kernels/kerneltest"
)

func TestNormHeads(t *testing.T) {
	kerneltest.OnDevices(t, func(t *testing.T, dev webgpu.Device) {
		b := kerneltest.New(t, dev)
		for _, lanes := range []kernels.Lanes{kernels.Serial, kernels.Grouped} {
			for _, h := range []kernels.Heads{{Query: 1, KV: 1, Dim: 8}, {Query: 7, KV: 1, Dim: 40},
				{Query: 4, KV: 2, Dim: 128}} {
				const eps = 1e-6
				x, w := kerneltest.Normals(21, 64*h.Width()), kerneltest.Normals(22, 2*h.Dim)
				weight := b.F32(w)
				on := func(order []int) []uint32 {
					qkv := b.F32(kerneltest.Gather(x, h.Width(), order))
					defer b.Free(qkv)
					return b.Run(func(r *kernels.Recorder) {
						RecordNormHeads(r, lanes, h, weight, qkv, len(order), eps)
					}, qkv)[0]
				}
				all, want := make([]int, 64), make([]float32, len(x))
				for row := range all {
					all[row] = row
					for head := range h.Query + 2*h.KV {
						at, sum := row*h.Width()+head*h.Dim, 0.0
						for _, v := range x[at : at+h.Dim] {
							sum += float64(v) * float64(v)
						}
						for i := range h.Dim {
							gain := float64(w[i])
							if head >= h.Query {
								gain = float64(w[h.Dim+i])
							}
							want[at+i] = float32(float64(x[at+i]) / math.Sqrt(sum/float64(h.Dim)+eps) * gain)
							if head >= h.Query+h.KV { // values do not change
								want[at+i] = x[at+i]
							}
						}
					}
				}
				kerneltest.CloseTo(t, fmt.Sprintf("lanes %d %+v", lanes, h), webgpu.Memory(on(all)).F32(), want, 1e-5,
					1e-6)
				if h.Dim == 40 {
					kerneltest.Invariant(t, h.Width(), on)
				}
				b.Free(weight)
			}
		}
	})
}
