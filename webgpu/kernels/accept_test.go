package kernels

import (
	"fmt"
	"math"
	"testing"

	"foretoken/webgpu"
)

// headDims are the hidden sizes that heads are tested at: none a multiple of a workgroup, one, many.
var headDims = []int{4, 64, 100, 288}

// TestAcceptLayer compares with the definition, weights by output, in float64.
func TestAcceptLayer(t *testing.T) {
	onDevices(t, func(t *testing.T, dev webgpu.Device) {
		b := bench{t, dev}
		for _, dim := range headDims {
			for _, rows := range []int{1, 5, 17} {
				x, bias, w := normals(1, rows*dim), normals(2, dim), normals(3, dim*dim)
				byInput := make([]float32, dim*dim)
				for n := range dim {
					for k := range dim {
						byInput[k*dim+n] = w[n*dim+k]
					}
				}
				in, weight, biases, out := b.f32(x), b.f32(byInput), b.f32(bias), b.poisoned(rows*dim)
				for range 3 {
					got := b.run(func(r *Recorder) { r.AcceptLayer(weight, biases, in, out, rows, dim) }, out)[0].F32()
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
							if g := float64(got[row*dim+n]); math.IsNaN(g) || math.Abs(g-want) > 2e-6*(size+math.Abs(want)) {
								t.Fatalf("dim %d: row %d output %d is %g, want %g", dim, row, n, g, want)
							}
						}
					}
				}
				b.free(in, weight, biases, out)
			}
		}
	})
}

// TestAcceptScore compares with the definition, also far out on both sides, and looks at
// the words around those written.
func TestAcceptScore(t *testing.T) {
	onDevices(t, func(t *testing.T, dev webgpu.Device) {
		b := bench{t, dev}
		for _, lanes := range []Lanes{Serial, Grouped} {
			for _, dim := range headDims {
				const rows, at = 11, 3
				x, w := normals(4, rows*dim), normals(5, dim+1)
				for i := range dim {
					x[i], x[dim+i] = 40*w[i], -40*w[i] // surely accepted, surely not
				}
				in, weight, out := b.f32(x), b.f32(w), b.poisoned(at+rows+2)
				got := b.run(func(r *Recorder) { r.AcceptScore(lanes, weight, in, out, at, rows, dim) }, out)[0]
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
					near(t, fmt.Sprintf("lanes %d dim %d row %d", lanes, dim, row), math.Float32frombits(word), want, 1e-6+2e-6*size*want*(1-want))
				}
				b.free(in, weight, out)
			}
		}
	})
}

func TestAcceptBatchInvariant(t *testing.T) {
	onDevices(t, func(t *testing.T, dev webgpu.Device) {
		b := bench{t, dev}
		const dim = 64
		x, weight, bias, end := normals(6, 64*dim), b.f32(normals(7, dim*dim)), b.f32(normals(8, dim)), b.f32(normals(9, dim+1))
		for _, lanes := range []Lanes{Serial, Grouped} {
			invariant(t, dim+1, func(order []int) []uint32 {
				n := len(order)
				in, mid, out := b.f32(gather(x, dim, order)), b.poisoned(n*dim), b.poisoned(n)
				defer b.free(in, mid, out)
				got := b.run(func(r *Recorder) {
					r.AcceptLayer(weight, bias, in, mid, n, dim)
					r.AcceptScore(lanes, end, mid, out, 0, n, dim)
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
