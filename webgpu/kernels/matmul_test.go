package kernels

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"foretoken/webgpu"
)

// products are what x·weightsᵀ is, and the sum of the sizes of what was added.
type products struct{ want, size []float64 } // (64, rows)

func (w *testWeight) times(x []float32) products {
	p := products{make([]float64, 64*w.rows), make([]float64, 64*w.rows)}
	for i := range 64 {
		for n := range w.rows {
			for k, v := range x[i*w.cols : (i+1)*w.cols] {
				a := w.floats[n*w.cols+k] * float64(v)
				p.want[i*w.rows+n] += a
				p.size[i*w.rows+n] += math.Abs(a)
			}
		}
	}
	return p
}

func TestMatMul(t *testing.T) {
	onDevices(t, func(t *testing.T, dev webgpu.Device) {
		b := bench{t, dev}
		for f := range formats {
			for _, shape := range [][2]int{{5, 32}, {96, 96}, {257, 192}, {64, 1056}} {
				brief := !f.shown() || f.superblock() && !full()
				if (testing.Short() || brief) && shape[0] == 96 || testing.Short() && brief && shape[0] != 64 {
					continue
				}
				w := newTestWeight(f, shape[0], (shape[1]+f.Block()-1)/f.Block()*f.Block())
				x := normals(4, 64*w.cols)
				p := w.times(x)
				for _, split := range []int{w.rows, 50} {
					up := w.upload(b, split)
					for i, family := range Families(dev.Info()) {
						if i > 0 && dev.Info().Backend == "cpu" { // references have no families
							break
						}
						for _, m := range []int{1, 2, 5, 8, 13, 32, 64} {
							if split != w.rows && m != 5 || testing.Short() && (m == 2 || m == 8 || m == 32) {
								continue
							}
							if dev.Info().Backend != "cpu" && !tried(f, family, m) {
								continue
							}
							testProduct(b, family, w, up, x, p, m)
						}
					}
					w.free(b, up)
				}
			}
		}
	})
}

// tried reports whether a product of m rows is compared with float64. Families differ from the first of their kind
// in the number of weight rows only, and formats from the one that stands for them in unpacking only.
func tried(f Format, family Family, m int) bool {
	switch {
	case !family.Takes(f) || !family.first() && m != 5 && m != 64:
		return false
	case family.Kind == BySubgroup: // unpacks as groups do
		return f == Q8_0 && (family.first() || !testing.Short()) && (!testing.Short() || m == 5)
	case full():
		return true
	case !family.first():
		return !testing.Short() && (f == Q8_0 || f == Q4_0 && m == 5)
	case f.shown() && !f.superblock():
		return true
	case testing.Short():
		return m == []int{ByRow: 13, ByQuad: 5, ByGroup: 1}[family.Kind]
	case f.shown(): // the smallest tile, the largest and two others
		return m == 1 || m == 5 || m == 13 || m == 64
	}
	return m == 5 || family.Kind == ByGroup && m == 1
}

// first reports whether the family is the first of its kind.
func (f Family) first() bool {
	i := slices.IndexFunc(every, func(other Family) bool { return other.Kind == f.Kind })
	return every[i] == f
}

// testProduct compares m rows with float64, written and added, with strides and offsets.
func testProduct(b bench, family Family, w *testWeight, up *Weight, x []float32, p products, m int) {
	b.t.Helper()
	values := append(make([]float32, 8), x[:m*w.cols]...)
	if m%2 == 1 { // their kernels know the length
		values = append(values, make([]float32, Window/4-len(values))...)
	}
	in := b.f32(values)
	stride := w.rows + 3
	out := b.poisoned(m*stride + 2)
	defer b.free(in, out)
	for pass := range 2 {
		got := b.run(func(r *Recorder) {
			r.MatMul(family, up, Rows{View: in, Offset: 8, Stride: w.cols}, Rows{View: out, Offset: 2, Stride: stride}, m, pass == 1)
		}, out)[0]
		for i := range m {
			for n := range w.rows {
				want, size := p.want[i*w.rows+n]*float64(pass+1), p.size[i*w.rows+n]
				v := got.F32()[2+i*stride+n]
				if math.IsNaN(float64(v)) || math.Abs(float64(v)-want) > 2e-6*size+1e-30 {
					b.t.Fatalf("%s %s (%d, %d) M=%d pass %d: out[%d, %d] = %g, reference says %g", family, w.format, w.rows, w.cols, m, pass, i, n, v, want)
				}
			}
			for _, gap := range got[2+i*stride+w.rows : min(2+(i+1)*stride, len(got))] {
				if gap != 0x7fc0dead {
					b.t.Fatalf("%s M=%d: wrote past row %d", family, m, i)
				}
			}
		}
	}
}

func TestMatMulBatchInvariance(t *testing.T) {
	onDevices(t, func(t *testing.T, dev webgpu.Device) {
		b := bench{t, dev}
		for f := range formats {
			rows, cols := 33, max(160, f.Block())
			if f.inBlocks() { // large enough for tiles of more weight rows, and no whole number of them
				rows, cols = 521, 96
			}
			x := normals(5, 64*cols)
			if testing.Short() && (!f.shown() || f == Q2_K) { // every model proves its own when it is loaded
				continue
			}
			up := newTestWeight(f, rows, cols).upload(b, rows)
			families := Families(dev.Info())[:1] // references have no families
			if dev.Info().Backend != "cpu" {
				families = proved(dev, f)
			}
			for _, family := range families {
				t.Run(fmt.Sprint(f, " ", family), func(t *testing.T) {
					b := bench{t, dev}
					invariant(t, rows, func(order []int) []uint32 {
						in, out := b.f32(gather(x, cols, order)), b.poisoned(len(order)*rows)
						defer b.free(in, out)
						return b.run(func(r *Recorder) {
							r.MatMul(family, up, Rows{View: in, Stride: cols}, Rows{View: out, Stride: rows}, len(order), false)
						}, out)[0]
					})
				})
			}
		}
	})
}

// proved are the families whose products' bits are compared at every number of rows. Each compiles every tile.
func proved(dev webgpu.Device, f Format) []Family {
	all := Families(dev.Info())
	favourite := all[0] // what browsers decode with here
	if f == Q8_0 && !testing.Short() {
		return append(all, Family{Rows: 4, Width: 16, Most: 32, Fixed: true})
	}
	return slices.DeleteFunc(all, func(family Family) bool {
		switch {
		case family.Kind == BySubgroup && f != Q8_0:
			return true
		case f != Q8_0 && testing.Short() && !full():
			return family != favourite
		case !f.shown(): // one row a thread, which compiles in a fraction of the time
			return family.Kind != ByRow || family.Rows != 1
		}
		return !family.first()
	})
}

func TestSiLUMul(t *testing.T) {
	onDevices(t, func(t *testing.T, dev webgpu.Device) {
		b := bench{t, dev}
		const dim = 172
		x := normals(6, 64*2*dim)
		on := func(order []int) []uint32 {
			in, out := b.f32(gather(x, 2*dim, order)), b.poisoned(len(order)*dim)
			defer b.free(in, out)
			return b.run(func(r *Recorder) { r.SiLUMul(in, out, len(order), dim) }, out)[0]
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
		closeTo(t, "silu", webgpu.Memory(on(all)).F32(), want, 2e-5, 1e-30)
		invariant(t, dim, on)
	})
}

func TestUnroll(t *testing.T) {
	got := unroll("a\nfor (var i = 0u; i < N; i = i + 1u) { // unroll\n x[i] = y;\n for (var j = 0u; j < 2u; j = j + 1u) { // unroll\n  z[i * 2u + j] = 1;\n }\n}\nb", map[string]uint32{"N": 2})
	want := "a\n{\n x[0u] = y;\n{\n  z[0u * 2u + 0u] = 1;\n}\n{\n  z[0u * 2u + 1u] = 1;\n}\n}\n{\n x[1u] = y;\n{\n  z[1u * 2u + 0u] = 1;\n}\n{\n  z[1u * 2u + 1u] = 1;\n}\n}\nb"
	if got != want {
		t.Errorf("unrolled to\n%s\nwant\n%s", got, want)
	}
}
