package layer

import (
	"fmt"
	"math"
	"testing"

	"foretoken/webgpu"
	"foretoken/webgpu/kernels"
	"foretoken/webgpu/kernels/kerneltest"
)

// headDims are the tested hidden sizes of heads: no multiple of a workgroup, one workgroup, many.
var headDims = []int{4, 64, 100, 288}

// TestAcceptLayer compares with the definition, weights by output, in float64.
func TestAcceptLayer(t *testing.T) {
	kerneltest.OnDevices(t, func(t *testing.T, dev webgpu.Device) {
		b := kerneltest.New(t, dev)
		for _, dim := range headDims {
			for _, rows := range []int{1, 5, 17} {
				x, bias := kerneltest.Normals(1, rows*dim), kerneltest.Normals(2, dim)
				w := kerneltest.Normals(3, dim*dim)
				byInput := make([]float32, dim*dim)
				for n := range dim {
					for k := range dim {
						byInput[k*dim+n] = w[n*dim+k]
					}
				}
				in, weight, biases, out := b.F32(x), b.F32(byInput), b.F32(bias), b.Poisoned(rows*dim)
				for range 3 {
					got := b.Run(func(r *kernels.Recorder) {
						RecordAcceptLayer(r, weight, biases, in, out, rows, dim)
					}, out)[0].F32()
					for row := range rows {
						for n := range dim {
							sum, size := float64(bias[n]), math.Abs(float64(bias[n]))
							for k, v := range x[row*dim:][:dim] {
								sum += float64(w[n*dim+k]) * float64(v)
								size += math.Abs(float64(w[n*dim+k]) * float64(v))
							}
							want := float64(x[row*dim+n])
							if sum > -700 {
								want += sum / (1 + math.Exp(-sum))
							}
							if g := float64(got[row*dim+n]); math.IsNaN(g) ||
								math.Abs(g-want) > 2e-6*(size+math.Abs(want)) {
								t.Fatalf("dim %d: row %d output %d is %g, want %g", dim, row, n, g, want)
							}
						}
					}
				}
				b.Free(in, weight, biases, out)
			}
		}
	})
}

// TestAcceptScore compares with the definition, also for large scores of both signs, and checks that the
// neighbouring words do not change.
func TestAcceptScore(t *testing.T) {
	kerneltest.OnDevices(t, func(t *testing.T, dev webgpu.Device) {
		b := kerneltest.New(t, dev)
		for _, lanes := range []kernels.Lanes{kernels.Serial, kernels.Grouped} {
			for _, dim := range headDims {
				const rows, at = 11, 3
				x, w := kerneltest.Normals(4, rows*dim), kerneltest.Normals(5, dim+1)
				for i := range dim {
					x[i], x[dim+i] = 40*w[i], -40*w[i] // surely accepted, surely not
				}
				in, weight, out := b.F32(x), b.F32(w), b.Poisoned(at+rows+2)
				got := b.Run(func(r *kernels.Recorder) {
					RecordAcceptScore(r, lanes, weight, in, out, at, rows, dim)
				}, out)[0]
				for i, word := range got {
					row := i - at
					if row < 0 || row >= rows {
						if word != 0x7fc0dead {
							t.Fatalf("word %d was written", i)
						}
						continue
					}
					sum, size := float64(w[dim]), 0.0
					for k, v := range x[row*dim:][:dim] {
						sum += float64(w[k]) * float64(v)
						size += math.Abs(float64(w[k]) * float64(v))
					}
					want := 1 / (1 + math.Exp(-sum))
					kerneltest.Near(t, fmt.Sprintf("lanes %d dim %d row %d", lanes, dim, row),
						math.Float32frombits(word), want, 1e-6+2e-6*size*want*(1-want))
				}
				b.Free(in, weight, out)
			}
		}
	})
}

func TestAcceptBatchInvariant(t *testing.T) {
	kerneltest.OnDevices(t, func(t *testing.T, dev webgpu.Device) {
		b := kerneltest.New(t, dev)
		const dim = 64
		x, weight := kerneltest.Normals(6, 64*dim), b.F32(kerneltest.Normals(7, dim*dim))
		bias, end := b.F32(kerneltest.Normals(8, dim)), b.F32(kerneltest.Normals(9, dim+1))
		for _, lanes := range []kernels.Lanes{kernels.Serial, kernels.Grouped} {
			kerneltest.Invariant(t, dim+1, func(order []int) []uint32 {
				n := len(order)
				in, mid, out := b.F32(kerneltest.Gather(x, dim, order)), b.Poisoned(n*dim), b.Poisoned(n)
				defer b.Free(in, mid, out)
				got := b.Run(func(r *kernels.Recorder) {
					RecordAcceptLayer(r, weight, bias, in, mid, n, dim)
					RecordAcceptScore(r, lanes, end, mid, out, 0, n, dim)
				}, mid, out)
				var rows []uint32
				for i := range n {
					rows = append(append(rows, got[0][i*dim:][:dim]...), got[1][i])
				}
				return rows
			})
		}
	})
}
