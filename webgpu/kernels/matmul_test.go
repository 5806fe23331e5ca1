package kernels

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"foretoken/webgpu"

	"github.com/x448/float16"
)

// testWeight is random weights as the device stores them, and as floats.
type testWeight struct {
	format     Format
	rows, cols int
	quants     []uint32
	scales     []float32
	floats     []float64 // (rows, cols)
}

func newTestWeight(f Format, rows, cols int) *testWeight {
	rng := rand.New(rand.NewPCG(uint64(rows), uint64(cols)))
	w := &testWeight{format: f, rows: rows, cols: cols, floats: make([]float64, rows*cols)}
	switch f {
	case F32:
		w.quants = bits(normals(3, rows*cols))
	case F16:
		for range rows * cols / 2 {
			a, b := float16.Fromfloat32(float32(rng.NormFloat64())), float16.Fromfloat32(float32(rng.NormFloat64()))
			w.quants = append(w.quants, uint32(a.Bits())|uint32(b.Bits())<<16)
		}
	default:
		for range rows * f.WordsPerRow(cols) {
			w.quants = append(w.quants, rng.Uint32())
		}
		for range rows * cols / 32 {
			w.scales = append(w.scales, float32(rng.NormFloat64()/64))
		}
	}
	for r := range rows {
		unpackRow(f, w.quants, w.scales, r, cols, w.floats[r*cols:(r+1)*cols])
	}
	return w
}

// upload splits the weight into parts of at most partRows rows.
func (w *testWeight) upload(b bench, partRows int) *Weight {
	out := &Weight{Format: w.format, Rows: w.rows, Cols: w.cols}
	words := w.format.WordsPerRow(w.cols)
	for row := 0; row < w.rows; row += partRows {
		n := min(partRows, w.rows-row)
		p := WeightPart{Row0: row, Rows: n, Quants: b.u32(w.quants[row*words : (row+n)*words])}
		if w.format.Quantised() {
			p.Scales = b.f32(w.scales[row*w.cols/32 : (row+n)*w.cols/32])
		}
		out.Parts = append(out.Parts, p)
	}
	return out
}

func TestUnpackAgainstDefinition(t *testing.T) {
	// One block by hand: Q4_0 keeps the first half in low nibbles, offset by 8.
	words := []uint32{0x00000021, 0, 0, 0x90000000}
	got := make([]float64, 32)
	unpackRow(Q4_0, words, []float32{0.5}, 0, 32, got)
	for at, want := range map[int]float64{0: (1 - 8) * 0.5, 16: (2 - 8) * 0.5, 15: (0 - 8) * 0.5, 31: (9 - 8) * 0.5} {
		if got[at] != want {
			t.Errorf("q4_0[%d] = %g, want %g", at, got[at], want)
		}
	}
	unpackRow(Q8_0, []uint32{0x80ff7f01, 0, 0, 0, 0, 0, 0, 0}, []float32{2}, 0, 32, got)
	for at, want := range []float64{2, 254, -2, -256} {
		if got[at] != want {
			t.Errorf("q8_0[%d] = %g, want %g", at, got[at], want)
		}
	}
}

func TestMatMul(t *testing.T) {
	onDevices(t, func(t *testing.T, dev webgpu.Device) {
		b := bench{t, dev}
		for _, f := range []Format{F32, F16, Q8_0, Q4_0} {
			for _, shape := range [][2]int{{5, 32}, {96, 96}, {257, 192}, {64, 1056}} {
				if testing.Short() && shape[0] == 96 {
					continue
				}
				w := newTestWeight(f, shape[0], shape[1])
				x := normals(4, 64*w.cols)
				for _, split := range []int{w.rows, 50} {
					up := w.upload(b, split)
					for _, family := range Families {
						for _, m := range []int{1, 2, 4, 8, 13, 32, 64} {
							if split != w.rows && m != 4 || testing.Short() && (m == 2 || m == 8 || m == 32) {
								continue
							}
							testProduct(b, family, w, up, x, m)
						}
					}
					for _, p := range up.Parts {
						b.free(p.Quants)
						if f.Quantised() {
							b.free(p.Scales)
						}
					}
				}
			}
		}
	})
}

// testProduct compares m rows with float64, written and added, with strides and offsets.
func testProduct(b bench, family Family, w *testWeight, up *Weight, x []float32, m int) {
	b.t.Helper()
	in := b.f32(append(make([]float32, 8), x[:m*w.cols]...))
	stride := w.rows + 3
	out := b.poisoned(m*stride + 2)
	defer b.free(in, out)
	for pass := range 2 {
		got := b.run(func(r *Recorder) {
			r.MatMul(family, up, Rows{in, 8, w.cols}, Rows{out, 2, stride}, m, pass == 1)
		}, out)[0]
		for i := range m {
			for n := range w.rows {
				want, size := 0.0, 0.0
				for k := range w.cols {
					p := w.floats[n*w.cols+k] * float64(x[i*w.cols+k])
					want += p
					size += math.Abs(p)
				}
				want *= float64(pass + 1)
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
		const rows, cols = 33, 160
		x := normals(5, 64*cols)
		for _, f := range []Format{F32, F16, Q8_0, Q4_0} {
			up := newTestWeight(f, rows, cols).upload(b, rows)
			families := append(Families[:len(Families):len(Families)], Family{Rows: 4, Width: 16, Fixed: true})
			if testing.Short() { // each compiles six tiles; the others differ in the number of rows only
				families = []Family{{Rows: 4, Width: 16}, {Group: true, Rows: 2, Width: 64}}
			}
			for _, family := range families {
				t.Run(fmt.Sprint(f, " ", family), func(t *testing.T) {
					b := bench{t, dev}
					invariant(t, rows, func(order []int) []uint32 {
						in, out := b.f32(gather(x, cols, order)), b.poisoned(len(order)*rows)
						defer b.free(in, out)
						return b.run(func(r *Recorder) { r.MatMul(family, up, Rows{in, 0, cols}, Rows{out, 0, rows}, len(order), false) }, out)[0]
					})
				})
			}
		}
	})
}

func TestEmbed(t *testing.T) {
	onDevices(t, func(t *testing.T, dev webgpu.Device) {
		b := bench{t, dev}
		for _, f := range []Format{F32, F16, Q8_0, Q4_0} {
			w := newTestWeight(f, 131, 96)
			up := w.upload(b, 50)
			for _, m := range []int{1, 3, 64} {
				tokens := make([]uint32, m)
				var want []float32
				for i := range tokens {
					tokens[i] = uint32(i*37+130) % 131
					for _, v := range w.floats[tokens[i]*96 : (tokens[i]+1)*96] {
						want = append(want, float32(v))
					}
				}
				ids, out := b.u32(tokens), b.poisoned(m*96)
				got := b.run(func(r *Recorder) { r.Embed(up, ids, out, m) }, out)[0]
				closeTo(t, fmt.Sprint(f), got.F32(), want, 0, 0)
				b.free(ids, out)
			}
		}
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
