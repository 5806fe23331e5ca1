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

// TestAddNorm adds the norm of rows to others and, where a product follows, divides its input by the root that the
// product divides by: the norm of the sums.
func TestAddNorm(t *testing.T) {
	kerneltest.OnDevices(t, func(t *testing.T, dev webgpu.Device) {
		b := kerneltest.New(t, dev)
		for _, dim := range []int{32, 64, 172, 1028} {
			const eps = 0.1
			stride := 2 * dim
			x, residual := kerneltest.Normals(31, 64*dim), kerneltest.Normals(32, 64*dim)
			w, g := kerneltest.Normals(33, dim), kerneltest.Normals(34, dim)
			weight, gain := b.F32(w), b.F32(g)
			run := func(order []int, next kernels.View) (sums, scaled []uint32) {
				in, out := b.F32(kerneltest.Gather(x, dim, order)), b.F32(kerneltest.Gather(residual, dim, order))
				defer b.Free(in, out)
				got := b.Run(func(r *kernels.Recorder) {
					if next.Buffer == 0 {
						RecordAddNorm(r, in, weight, out, len(order), dim, eps)
						return
					}
					rows := RecordAddNormNext(r, in, weight, out, len(order), dim, eps, gain,
						kernels.Rows{View: next, Stride: stride})
					if rows.Squares%4 != 0 || rows.Squares < 4 || rows.Eps != eps {
						t.Fatalf("%d sums of squares, eps %g", rows.Squares, rows.Eps)
					}
				}, slices.DeleteFunc([]kernels.View{out, next}, func(v kernels.View) bool { return v.Buffer == 0 })...)
				return got[0], slices.Concat(got[1:]...)
			}
			with := func(order []int) (sums, scaled []uint32) {
				next := b.Poisoned(len(order) * stride)
				defer b.Free(next)
				return run(order, next)
			}
			all, want, norms := make([]int, 64), slices.Clone(residual), make([]float32, 64*dim)
			for i := range all {
				all[i] = i
				square := func(x []float32) (sum float64) {
					for _, v := range x {
						sum += float64(v) * float64(v)
					}
					return sum
				}
				root := math.Sqrt(square(x[i*dim:][:dim])/float64(dim) + eps)
				row := want[i*dim:][:dim]
				for k := range row {
					row[k] += float32(float64(x[i*dim+k]) / root * float64(w[k]))
				}
				root = math.Sqrt(square(row)/float64(dim) + eps)
				for k, v := range row {
					norms[i*dim+k] = float32(float64(v) / root * float64(g[k]))
				}
			}
			name := fmt.Sprint("dim ", dim)
			for range 3 {
				plain, _ := run(all, kernels.View{})
				kerneltest.CloseTo(t, name, webgpu.Memory(plain).F32(), want, 1e-5, 1)
				sums, scaled := with(all)
				kerneltest.SameBits(t, name+", with a norm", sums, plain)
				var got []float32
				for i := range all {
					row, total := webgpu.Memory(scaled).F32()[i*stride:][:dim+min(dim, 64)], 0.0
					for _, v := range row[dim:] {
						total += float64(v)
					}
					for _, v := range row[:dim] {
						got = append(got, float32(float64(v)/math.Sqrt(total/float64(dim)+eps)))
					}
				}
				kerneltest.CloseTo(t, name+", norm", got, norms, 1e-5, 1)
			}
			if dim == 172 {
				kerneltest.Invariant(t, dim+stride, func(order []int) (out []uint32) {
					sums, scaled := with(order)
					for i := range order {
						out = append(append(out, sums[i*dim:][:dim]...), scaled[i*stride:][:stride]...)
					}
					return out
				})
			}
			b.Free(weight, gain)
		}
	})
}
