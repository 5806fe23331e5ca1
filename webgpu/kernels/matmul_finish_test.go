package kernels

import (
	"fmt"
	"math"
	"testing"

	"foretoken/webgpu"
)

// scaledRows are 64 rows of x times gain, each followed by sums of squares of so many elements, and what
// they stand for: the norm of x.
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

// endings are the families that products of each end are tested with on a device.
func endings(dev webgpu.Device) []Family {
	if dev.Info().Backend == "cpu" { // references have no families
		return Families(dev.Info())[:1]
	}
	var all []Family
	for _, f := range Families(dev.Info()) {
		if testing.Short() && f.Kind == ByQuad { // what browsers decode with here
			return []Family{f}
		}
		if f.first() { // the others of a kind differ in the number of rows only
			all = append(all, f)
		}
	}
	return all
}

// ordered is 0…63, the rows of a test in order.
func ordered() []int {
	order := make([]int, 64)
	for i := range order {
		order[i] = i
	}
	return order
}

// endCase is a product whose end is under test: on runs it on rows of the input in the given order and
// returns width words a row, want holds what they should be and size how far rounding may move them.
type endCase struct {
	name       string
	width      int
	on         func(order []int) []uint32
	want, size []float64
}

// sizes are the numbers of rows that a case is tested with: where every tile is not, one in the middle.
func (endCase) sizes(every bool) []int {
	if every || full() {
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
				g, w, size := float64(got[at*c.width+k]), c.want[i*c.width+k], c.size[i*c.width+k]
				if math.IsNaN(g) || math.Abs(g-w) > 4e-6*size+1e-30 {
					t.Fatalf("%s M=%d: [%d, %d] = %g, reference says %g", c.name, m, i, k, g, w)
				}
			}
		}
	}
}

// TestMatMulNext adds a product, then multiplies by the norm of the sum: both products beside float64.
func TestMatMulNext(t *testing.T) {
	onDevices(t, func(t *testing.T, dev webgpu.Device) {
		b := bench{t, dev}
		for _, f := range []Format{Q8_0, Q4_0, F32, Q4_K} {
			if testing.Short() && f != Q8_0 {
				continue
			}
			const dim, stride, rows, eps = 96, 2 * 96, 37, 1e-5
			first, second := newTestWeight(f, dim, max(64, f.Block())), newTestWeight(Q8_0, rows, dim)
			x, residual, gain := normals(4, 64*first.cols), normals(5, 64*dim), normals(6, dim)
			p := first.times(x)
			sums := make([]float32, 64*dim)
			for i := range sums {
				sums[i] = residual[i] + float32(p.want[i])
			}
			_, norm := scaledRows(sums, gain, stride, 1, eps)
			want, size := make([]float64, 64*rows), make([]float64, 64*rows)
			for i := range 64 {
				for n := range rows {
					for k, v := range norm[i*dim : (i+1)*dim] {
						w := second.floats[n*dim+k]
						want[i*rows+n] += w * v
						// What rounding moved the first sum by, it moves the second by.
						size[i*rows+n] += math.Abs(w*v) * (1 + p.size[i*dim+k]/(math.Abs(float64(sums[i*dim+k]))+1e-6))
					}
				}
			}
			up, then, g := first.upload(b, dim), second.upload(b, rows), b.f32(gain)
			for i, family := range endings(dev) {
				c := endCase{fmt.Sprint(f, " ", family), rows, func(order []int) []uint32 {
					in, sum := b.f32(gather(x, first.cols, order)), b.f32(gather(residual, dim, order))
					next, out := b.poisoned(len(order)*stride), b.poisoned(len(order)*rows)
					defer b.free(in, sum, next, out)
					return b.run(func(r *Recorder) {
						y := r.MatMulNext(family, up, Rows{View: in, Stride: first.cols}, Rows{View: sum, Stride: dim}, len(order), g, Rows{View: next, Stride: stride}, eps)
						r.MatMul(family, then, y, Rows{View: out, Stride: rows}, len(order), false)
					}, out)[0]
				}, want, size}
				c.test(t, c.sizes(f == Q8_0)...)
				if f == Q8_0 && i == 0 {
					invariant(t, rows, c.on)
				}
			}
			b.free(g)
			first.free(b, up)
			second.free(b, then)
		}
	})
}

func TestMatMulSiLU(t *testing.T) {
	onDevices(t, func(t *testing.T, dev webgpu.Device) {
		b := bench{t, dev}
		for _, f := range []Format{Q8_0, Q4_0, BF16, Q6_K} {
			if testing.Short() && f != Q4_0 {
				continue
			}
			const half, eps = 48, 1e-6
			w := newTestWeight(f, 2*half, max(96, f.Block()))
			stride := NextStride(w.cols)
			x, gain := normals(7, 64*w.cols), normals(8, w.cols)
			rows, norm := scaledRows(x, gain, stride, 8, eps)
			want, size := make([]float64, 64*half), make([]float64, 64*half)
			for i := range 64 {
				for n := range half {
					var gate, up, gates, ups float64
					for k, v := range norm[i*w.cols : (i+1)*w.cols] {
						a, c := w.floats[n*w.cols+k]*v, w.floats[(half+n)*w.cols+k]*v
						gate, up, gates, ups = gate+a, up+c, gates+math.Abs(a), ups+math.Abs(c)
					}
					s := gate / (1 + math.Exp(-gate))
					want[i*half+n] = s * up
					size[i*half+n] = 1.2*gates*math.Abs(up) + math.Abs(s)*ups // SiLU's slope is 1.1 at most
				}
			}
			up := w.upload(b, w.rows)
			for i, family := range endings(dev) {
				c := endCase{fmt.Sprint(f, " ", family), half, func(order []int) []uint32 {
					in, out := b.f32(gather(rows, stride, order)), b.poisoned(len(order)*half)
					defer b.free(in, out)
					return b.run(func(r *Recorder) {
						r.MatMulSiLU(family, up, Rows{View: in, Stride: stride, Squares: w.cols / 8, Eps: eps}, Rows{View: out, Stride: half}, len(order))
					}, out)[0]
				}, want, size}
				c.test(t, c.sizes(f == Q4_0)...)
				if f == Q4_0 && i == 0 {
					invariant(t, half, c.on)
				}
			}
			w.free(b, up)
		}
	})
}

// TestMatMulRope holds the product that rotates and caches to a product and Rope, which has tests of its own.
func TestMatMulRope(t *testing.T) {
	onDevices(t, func(t *testing.T, dev webgpu.Device) {
		b := bench{t, dev}
		const positions, slots = 300, 80
		for _, h := range []Heads{{Query: 3, KV: 1, Dim: 64, Rotary: 64}, {Query: 2, KV: 2, Dim: 96, Rotary: 64}, {Query: 4, KV: 2, Dim: 8, Rotary: 8}} {
			w := newTestWeight(Q8_0, h.Width(), 96)
			x, up := normals(9, 64*w.cols), w.upload(b, w.rows)
			p := w.times(x)
			var inverse []float64
			for i := range h.Rotary / 2 {
				inverse = append(inverse, math.Pow(10000, -2*float64(i)/float64(h.Rotary)))
			}
			table := b.f32(RopeTable(positions, inverse, 1.25))
			for _, h.HalfSplit = range []bool{false, true} {
				for _, h.Format = range []KVFormat{KVF32, KVF16} {
					if (testing.Short() || h.Dim != 96) && h.HalfSplit != (h.Format == KVF16) {
						continue
					}
					for i, family := range endings(dev) {
						if !family.CanRope(up, h) {
							continue
						}
						kv := h.KV * h.Dim
						run := func(order []int, fused bool) []uint32 {
							var rows []uint32
							for _, i := range order {
								rows = append(rows, uint32(i*37%positions), uint32((i*11+5)%slots), 0, 0)
							}
							at, in, qkv := b.u32(rows), b.f32(gather(x, w.cols, order)), b.poisoned(len(order)*h.Width())
							k, v := b.poisoned(h.CacheWords(slots)), b.poisoned(h.CacheWords(slots))
							defer b.free(at, in, qkv, k, v)
							got := b.run(func(r *Recorder) {
								x := Rows{View: in, Stride: w.cols}
								if fused {
									r.MatMulRope(family, up, h, x, at, table, qkv, k, v, len(order))
									return
								}
								r.MatMul(family, up, x, Rows{View: qkv, Stride: h.Width()}, len(order), false)
								r.Rope(h, at, table, View{}, qkv, k, v, len(order))
							}, qkv, k, v)
							var out []uint32 // queries, then the row's keys and values
							keys, values := unpacked(h, got[1]), unpacked(h, got[2])
							for place, i := range order {
								out = append(out, got[0][place*h.Width():][:h.Query*h.Dim]...)
								for _, cache := range [][]float64{keys, values} {
									for _, v := range cache[(i*11+5)%slots*kv:][:kv] {
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
							if h.Format == KVF16 && i%h.Width() >= h.Query*h.Dim {
								size[i] += math.Abs(want[i]) * 250 // a step of the last bit of eleven
							}
						}
						c := endCase{fmt.Sprintf("%+v %s", h, family), h.Width(), func(order []int) []uint32 { return run(order, true) }, want, size}
						c.test(t, c.sizes(h.Dim == 64)...)
						if h.Dim == 64 && i == 0 {
							invariant(t, h.Width(), c.on)
						}
					}
				}
			}
			b.free(table)
			w.free(b, up)
		}
	})
}

// TestEmbedNext looks rows up and multiplies by their norm.
func TestEmbedNext(t *testing.T) {
	onDevices(t, func(t *testing.T, dev webgpu.Device) {
		b := bench{t, dev}
		for _, f := range []Format{Q8_0, Q4_0, F16, Q4_K} {
			const rows, eps = 11, 1e-5
			e, w := newTestWeight(f, 64, max(64, f.Block())), newTestWeight(F32, rows, max(64, f.Block()))
			x, gain := make([]float32, 64*e.cols), normals(12, e.cols)
			for i, v := range e.floats {
				x[i] = float32(v)
			}
			_, norm := scaledRows(x, gain, e.cols*2, 1, eps)
			want, size := make([]float64, 64*rows), make([]float64, 64*rows)
			for i := range 64 {
				for n := range rows {
					for k, v := range norm[i*e.cols : (i+1)*e.cols] {
						want[i*rows+n] += w.floats[n*e.cols+k] * v
						size[i*rows+n] += math.Abs(w.floats[n*e.cols+k] * v)
					}
				}
			}
			up, then, g := e.upload(b, 50), w.upload(b, rows), b.f32(gain) // the lookup in two parts
			c := endCase{f.String(), rows, func(order []int) []uint32 {
				var ids []uint32
				for _, i := range order {
					ids = append(ids, uint32(i))
				}
				tokens, found := b.u32(ids), b.poisoned(len(order)*e.cols)
				next, out := b.poisoned(len(order)*NextStride(e.cols)), b.poisoned(len(order)*rows)
				defer b.free(tokens, found, next, out)
				got := b.run(func(r *Recorder) {
					y := r.EmbedNext(up, tokens, found, len(order), g, Rows{View: next, Stride: NextStride(e.cols)}, eps)
					r.MatMul(Families(b.dev.Info())[0], then, y, Rows{View: out, Stride: rows}, len(order), false)
				}, out, found)
				for at, i := range order {
					closeTo(t, "row", got[1].F32()[at*e.cols:(at+1)*e.cols], x[i*e.cols:(i+1)*e.cols], 1e-6, 1e-6)
				}
				return got[0]
			}, want, size}
			c.test(t, 64, 1)
			if f == Q4_0 {
				invariant(t, rows, c.on)
			}
			b.free(g)
			e.free(b, up)
			w.free(b, then)
		}
	})
}
