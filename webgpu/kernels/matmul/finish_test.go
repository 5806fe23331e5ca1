package matmul

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"foretoken/webgpu"
	"foretoken/webgpu/kernels"
	"foretoken/webgpu/kernels/attention"
	"foretoken/webgpu/kernels/kerneltest"
	"foretoken/webgpu/kernels/layer"
)

// scaledRows returns 64 rows of x times gain, each followed by sums of squares over some elements, and the norm of
// x that they represent.
func scaledRows(x, gain []float32, stride, each int, eps float64) (rows []float32, norm []float64) {
	dim := len(gain)
	for i := range 64 {
		row, squares, sum := make([]float32, stride), make([]float64, dim/each), 0.0
		for k, v := range x[i*dim : (i+1)*dim] {
			row[k] = v * gain[k]
			squares[k/each] += float64(v) * float64(v)
		}
		for k, s := range squares {
			row[dim+k] = float32(s)
			sum += s
		}
		for k, v := range x[i*dim : (i+1)*dim] {
			norm = append(norm, float64(v)*float64(gain[k])/math.Sqrt(sum/float64(dim)+eps))
		}
		rows = append(rows, row...)
	}
	return rows, norm
}

// endings returns the families that each end is tested with on a device.
func endings(dev webgpu.Device, format kernels.Format) []Family {
	all := tested(dev, format)
	if dev.Info().Host() {
		return all[:1] // references have no families
	}
	return slices.DeleteFunc(all, func(f Family) bool {
		// The others of a kind differ in the number of rows only. Short runs keep to the family that software adapters
		// use and to one that is packed.
		brief := testing.Short() && !kerneltest.Full()
		return !f.first() || brief && f.Kind != all[0].Kind && f.Kind != BySubgroupPacked
	})
}

// ordered returns 0…63, the rows of a test in order.
func ordered() []int {
	order := make([]int, 64)
	for i := range order {
		order[i] = i
	}
	return order
}

// endCase is a product whose end is under test: `on` runs it on rows of the input in the given order and returns
// width words a row, want holds the expected values, size bounds their rounding error, and off what rounding
// activations adds to it.
type endCase struct {
	name       string
	width      int
	on         func(order []int) []uint32
	want, size []float64
	off        []float64 // nil: nothing
}

// sizes returns the numbers of rows that a case is tested with: if not every tile is tested, one in the middle.
func (endCase) sizes(every bool) []int {
	if every || kerneltest.Full() {
		return []int{64, 5, 1}
	}
	return []int{5}
}

func (c endCase) test(t *testing.T, sizes ...int) {
	t.Helper()
	for _, m := range sizes {
		order := ordered()[64-m:]
		got := webgpu.Memory(c.on(order)).F32()
		for at, i := range order {
			for k := range c.width {
				g, w := float64(got[at*c.width+k]), c.want[i*c.width+k]
				most := 4e-6*c.size[i*c.width+k] + 1e-30
				if c.off != nil {
					most += c.off[i*c.width+k]
				}
				if math.IsNaN(g) || math.Abs(g-w) > most {
					t.Fatalf("%s M=%d: [%d, %d] = %g, reference says %g", c.name, m, i, k, g, w)
				}
			}
		}
	}
}

// TestMatMulNext adds a product, multiplies by the norm of the sum and compares both products with float64.
func TestMatMulNext(t *testing.T) {
	kerneltest.OnDevices(t, func(t *testing.T, dev webgpu.Device) {
		b := kerneltest.New(t, dev)
		for _, f := range []kernels.Format{kernels.Q8_0, kernels.Q4_0, kernels.F32, kernels.Q4_K} {
			if !kerneltest.Full() && f != kernels.Q8_0 {
				continue
			}
			const dim, stride, rows, eps = 96, 2 * 96, 37, 1e-5
			first := kerneltest.NewWeight(f, dim, max(64, f.Block()))
			second := kerneltest.NewWeight(kernels.Q8_0, rows, dim)
			x, residual := kerneltest.Normals(4, 64*first.Cols), kerneltest.Normals(5, 64*dim)
			gain := kerneltest.Normals(6, dim)
			p := times(first, x)
			sums := make([]float32, 64*dim)
			for i := range sums {
				sums[i] = residual[i] + float32(p.want[i])
			}
			_, norm := scaledRows(sums, gain, stride, 1, eps)
			first16, off := rounded(first, widened(x)), rounded(second, norm)
			want, size := make([]float64, 64*rows), make([]float64, 64*rows)
			for i := range 64 {
				moved, squares := 0.0, 0.0 // of the norm of the first sums, relative to it: moved/squares
				for k := range dim {
					sum := float64(sums[i*dim+k])
					moved, squares = moved+math.Abs(sum)*first16[i*dim+k], squares+sum*sum
				}
				for n := range rows {
					for k, v := range norm[i*dim : (i+1)*dim] {
						w := second.Floats[n*dim+k]
						want[i*rows+n] += w * v
						off[i*rows+n] += math.Abs(w*v) * (moved/squares +
							first16[i*dim+k]/(math.Abs(float64(sums[i*dim+k]))+1e-6))
						// The rounding error of the first sum propagates to the second.
						size[i*rows+n] += math.Abs(w*v) * (1 + p.size[i*dim+k]/(math.Abs(float64(sums[i*dim+k]))+1e-6))
					}
				}
			}
			up, then, g := first.Upload(b, dim), second.Upload(b, rows), b.F32(gain)
			for i, family := range endings(dev, f) {
				c := endCase{fmt.Sprint(f, " ", family), rows, func(order []int) []uint32 {
					in := b.F32(kerneltest.Gather(x, first.Cols, order))
					sum := b.F32(kerneltest.Gather(residual, dim, order))
					next, out := b.Poisoned(len(order)*stride), b.Poisoned(len(order)*rows)
					defer b.Free(in, sum, next, out)
					return b.Run(func(r *kernels.Recorder) {
						y := RecordNext(r, family, up, kernels.Rows{View: in, Stride: first.Cols},
							kernels.Rows{View: sum, Stride: dim}, len(order), g,
							kernels.Rows{View: next, Stride: stride}, eps)
						Record(r, family, then, y, kernels.Rows{View: out, Stride: rows}, len(order), false)
					}, out)[0]
				}, want, size, rounding(dev, family, off)}
				c.test(t, c.sizes(f == kernels.Q8_0)...)
				if f == kernels.Q8_0 && i == 0 {
					kerneltest.Invariant(t, rows, c.on)
				}
			}
			b.Free(g)
			first.Free(b, up)
			second.Free(b, then)
		}
	})
}

func TestMatMulSiLU(t *testing.T) {
	kerneltest.OnDevices(t, func(t *testing.T, dev webgpu.Device) {
		b := kerneltest.New(t, dev)
		for _, f := range []kernels.Format{kernels.Q8_0, kernels.Q4_0, kernels.BF16, kernels.Q6_K} {
			if !kerneltest.Full() && f != kernels.Q4_0 {
				continue
			}
			const half, eps = 48, 1e-6
			// So many sums of squares that a lane takes several turns, the last not whole.
			w := kerneltest.NewWeight(f, 2*half, (544+f.Block()-1)/f.Block()*f.Block())
			stride := NextStride(w.Cols)
			x, gain := kerneltest.Normals(7, 64*w.Cols), kerneltest.Normals(8, w.Cols)
			rows, norm := scaledRows(x, gain, stride, 1, eps)
			sums, off := rounded(w, norm), make([]float64, 64*half)
			want, size := make([]float64, 64*half), make([]float64, 64*half)
			for i := range 64 {
				for n := range half {
					var gate, up, gates, ups float64
					for k, v := range norm[i*w.Cols : (i+1)*w.Cols] {
						a, c := w.Floats[n*w.Cols+k]*v, w.Floats[(half+n)*w.Cols+k]*v
						gate, up, gates, ups = gate+a, up+c, gates+math.Abs(a), ups+math.Abs(c)
					}
					s := gate / (1 + math.Exp(-gate))
					want[i*half+n] = s * up
					size[i*half+n] = 1.2*gates*math.Abs(up) + math.Abs(s)*ups // SiLU's slope is 1.1 at most
					g, u := sums[i*2*half+n], sums[i*2*half+half+n]
					off[i*half+n] = 1.2*g*(math.Abs(up)+u) + math.Abs(s)*u
				}
			}
			up := w.Upload(b, w.Rows)
			for _, family := range endings(dev, f) {
				c := endCase{fmt.Sprint(f, " ", family), half, func(order []int) []uint32 {
					in, out := b.F32(kerneltest.Gather(rows, stride, order)), b.Poisoned(len(order)*half)
					defer b.Free(in, out)
					return b.Run(func(r *kernels.Recorder) {
						RecordSiLU(r, family, up, kernels.Rows{View: in, Stride: stride, Squares: w.Cols, Eps: eps},
							kernels.Rows{View: out, Stride: half}, len(order))
					}, out)[0]
				}, want, size, rounding(dev, family, off)}
				c.test(t, c.sizes(f == kernels.Q4_0)...)
				if f == kernels.Q4_0 && family.first() {
					kerneltest.Invariant(t, half, c.on)
				}
			}
			w.Free(b, up)
		}
	})
}

// TestMatMulRope compares the product that rotates and caches with a product followed by Rope, which has its own
// tests.
func TestMatMulRope(t *testing.T) {
	kerneltest.OnDevices(t, func(t *testing.T, dev webgpu.Device) {
		b := kerneltest.New(t, dev)
		const positions, slots = 300, 80
		for _, h := range []kernels.Heads{{Query: 3, KV: 1, Dim: 64, Rotary: 64},
			{Query: 2, KV: 2, Dim: 96, Rotary: 64}, {Query: 4, KV: 2, Dim: 8, Rotary: 8}, {Query: 2, KV: 1, Dim: 32},
			{Query: 6, KV: 2, Dim: 16, Rotary: 8, Shares: true}} {
			w := kerneltest.NewWeight(kernels.Q8_0, h.Width(), 96)
			x, up := kerneltest.Normals(9, 64*w.Cols), w.Upload(b, w.Rows)
			p := times(w, x)
			var inverse []float64
			for i := range h.Rotary / 2 {
				inverse = append(inverse, math.Pow(10000, -2*float64(i)/float64(h.Rotary)))
			}
			angles := attention.RopeTable(positions, inverse, 1.25)
			if h.Rotary == 0 {
				angles = make([]float32, 2) // never read
			}
			table := b.F32(angles)
			for _, h.HalfSplit = range []bool{false, true} {
				for _, h.Format = range []kernels.KVFormat{kernels.KVF32, kernels.KVF16} {
					if (!kerneltest.Full() || h.Dim != 96) && h.HalfSplit != (h.Format == kernels.KVF16) {
						continue
					}
					for i, family := range endings(dev, kernels.Q8_0) {
						if !family.CanRope(up, h) {
							continue
						}
						kv := h.RowKV() * h.Dim
						run := func(order []int, fused bool) []uint32 {
							var rows []uint32
							for _, i := range order {
								rows = append(rows, uint32(i*37%positions), uint32((i*11+5)%slots), 0, 0)
							}
							at, in := b.U32(rows), b.F32(kerneltest.Gather(x, w.Cols, order))
							qkv := b.Poisoned(len(order) * h.Width())
							k, v := b.Poisoned(h.CacheWords(slots)), b.Poisoned(h.CacheWords(slots))
							defer b.Free(at, in, qkv, k, v)
							got := b.Run(func(r *kernels.Recorder) {
								x := kernels.Rows{View: in, Stride: w.Cols}
								if fused {
									RecordRope(r, family, up, h, x, at, table, qkv, k, v, len(order))
									return
								}
								Record(r, family, up, x, kernels.Rows{View: qkv, Stride: h.Width()}, len(order), false)
								attention.RecordRope(r, h, at, table, kernels.View{}, qkv, k, v, len(order))
							}, qkv, k, v)
							var out []uint32 // queries, then the row's keys and values
							keys, values := kerneltest.Unpacked(h, got[1]), kerneltest.Unpacked(h, got[2])
							for place, i := range order {
								out = append(out, got[0][place*h.Width():][:h.Query*h.Dim]...)
								for _, cache := range [][]float64{keys, values} {
									for _, v := range cache[(i*11+5)%slots*h.KV*h.Dim:][:kv] {
										out = append(out, math.Float32bits(float32(v)))
									}
								}
							}
							return out
						}
						unfused := webgpu.Memory(run(ordered(), false)).F32()
						want, size := make([]float64, len(unfused)), make([]float64, len(unfused))
						for i, v := range unfused {
							want[i], size[i] = float64(v), 0
							for _, s := range p.size[i/h.Width()*h.Width():][:h.Width()] {
								size[i] = max(size[i], s)
							}
							if h.Format == kernels.KVF16 && i%h.Width() >= h.Query*h.Dim {
								size[i] += math.Abs(want[i]) * 250 // the last of eleven bits
							}
						}
						c := endCase{fmt.Sprintf("%+v %s", h, family), h.Width(),
							func(order []int) []uint32 { return run(order, true) }, want, size, nil}
						c.test(t, c.sizes(h.Dim == 64)...)
						if h.Dim == 64 && i == 0 {
							kerneltest.Invariant(t, h.Width(), c.on)
						}
					}
				}
			}
			b.Free(table)
			w.Free(b, up)
		}
	})
}

// TestEmbedNext looks rows up and multiplies by their norm.
func TestEmbedNext(t *testing.T) {
	kerneltest.OnDevices(t, func(t *testing.T, dev webgpu.Device) {
		b := kerneltest.New(t, dev)
		for i, f := range []kernels.Format{kernels.Q8_0, kernels.Q4_0, kernels.F16, kernels.Q4_K} {
			const rows = 11
			times, eps := []float64{1, 54.5}[i%2], []float64{1e-5, 2}[i%2] // 2: the norm depends on the multiplier
			e := kerneltest.NewWeight(f, 64, max(64, f.Block()))
			w := kerneltest.NewWeight(kernels.F32, rows, max(64, f.Block()))
			x, gain := make([]float32, 64*e.Cols), kerneltest.Normals(12, e.Cols)
			for i, v := range e.Floats {
				x[i] = float32(v * times)
			}
			_, norm := scaledRows(x, gain, e.Cols*2, 1, eps)
			want, size := make([]float64, 64*rows), make([]float64, 64*rows)
			for i := range 64 {
				for n := range rows {
					for k, v := range norm[i*e.Cols : (i+1)*e.Cols] {
						want[i*rows+n] += w.Floats[n*e.Cols+k] * v
						size[i*rows+n] += math.Abs(w.Floats[n*e.Cols+k] * v)
					}
				}
			}
			up, then, g := e.Upload(b, 50), w.Upload(b, rows), b.F32(gain) // the lookup in two parts
			tolerance := 0.0
			if f == kernels.Q4_K || times != 1 { // a minimum makes sums round, as does a multiplier
				tolerance = 5e-7
			}
			c := endCase{f.String(), rows, func(order []int) []uint32 {
				var ids []uint32
				for _, i := range order {
					ids = append(ids, uint32(i))
				}
				tokens, found := b.U32(ids), b.Poisoned(len(order)*e.Cols)
				next, out := b.Poisoned(len(order)*NextStride(e.Cols)), b.Poisoned(len(order)*rows)
				defer b.Free(tokens, found, next, out)
				got := b.Run(func(r *kernels.Recorder) {
					y := layer.RecordEmbedNext(r, up, tokens, found, len(order), times, g,
						kernels.Rows{View: next, Stride: NextStride(e.Cols)}, eps)
					Record(r, Families(b.Dev.Info(), then.Format)[0], then, y, kernels.Rows{View: out, Stride: rows},
						len(order), false)
				}, out, found)
				for at, i := range order {
					kerneltest.CloseTo(t, "row", got[1].F32()[at*e.Cols:(at+1)*e.Cols], x[i*e.Cols:(i+1)*e.Cols],
						tolerance, times)
				}
				return got[0]
			}, want, size, nil}
			c.test(t, 64, 1)
			if f == kernels.Q4_0 {
				kerneltest.Invariant(t, rows, c.on)
			}
			b.Free(g)
			e.Free(b, up)
			w.Free(b, then)
		}
	})
}
