package layer

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"foretoken/webgpu"
	"foretoken/webgpu/kernels"
	"foretoken/webgpu/kernels/kerneltest"
)

// TestNormRow normalises the queries of a row and its keys, each in one.
func TestNormRow(t *testing.T) {
	kerneltest.OnDevices(t, func(t *testing.T, dev webgpu.Device) {
		b := kerneltest.New(t, dev)
		for _, h := range []kernels.Heads{{Query: 1, KV: 1, Dim: 8}, {Query: 7, KV: 1, Dim: 40},
			{Query: 4, KV: 2, Dim: 128}, {Query: 3, KV: 1, Dim: 32, Shares: true}} {
			const eps = 0.1
			spans := []int{h.Query * h.Dim, h.RowKV() * h.Dim} // of queries, of keys
			x, w := kerneltest.Normals(23, 64*h.Width()), kerneltest.Normals(24, spans[0]+spans[1])
			weight := b.F32(w)
			on := func(order []int) []uint32 {
				qkv := b.F32(kerneltest.Gather(x, h.Width(), order))
				defer b.Free(qkv)
				return b.Run(func(r *kernels.Recorder) { RecordNormRow(r, h, weight, qkv, len(order), eps) }, qkv)[0]
			}
			all, want := make([]int, 64), slices.Clone(x) // values do not change
			for row := range all {
				all[row] = row
				from := 0
				for _, n := range spans {
					at, sum := row*h.Width()+from, 0.0
					for _, v := range x[at : at+n] {
						sum += float64(v) * float64(v)
					}
					for i := range n {
						want[at+i] = float32(float64(x[at+i]) / math.Sqrt(sum/float64(n)+eps) * float64(w[from+i]))
					}
					from += n
				}
			}
			for range 3 {
				kerneltest.CloseTo(t, fmt.Sprintf("%+v", h), webgpu.Memory(on(all)).F32(), want, 1e-5, 1e-6)
			}
			if h.Dim == 40 {
				kerneltest.Invariant(t, h.Width(), on)
			}
			b.Free(weight)
		}
	})
}

func TestNormHeads(t *testing.T) {
	kerneltest.OnDevices(t, func(t *testing.T, dev webgpu.Device) {
		b := kerneltest.New(t, dev)
		for _, lanes := range []kernels.Lanes{kernels.Serial, kernels.Grouped} {
			for _, h := range []kernels.Heads{{Query: 1, KV: 1, Dim: 8}, {Query: 7, KV: 1, Dim: 40},
				{Query: 4, KV: 2, Dim: 128}, {Query: 2, KV: 1, Dim: 24, Shares: true}} {
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
					for head := range h.Width() / h.Dim {
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
