package matmul

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"foretoken/webgpu"
	"foretoken/webgpu/kernels"
	"foretoken/webgpu/kernels/kerneltest"
)

// shown reports whether a format is tested in every tile of both kinds. It represents the formats with the same loop
// and the same steps between scales, which differ only in unpacking.
func shown(f kernels.Format) bool {
	return kerneltest.Full() || f == kernels.F32 || f == kernels.Q8_0 || f == kernels.Q4_0 || f == kernels.Q2_0 ||
		f == kernels.Q2_K || f == kernels.Q4_K
}

// superblock reports whether the format has scales for parts of a block.
func superblock(f kernels.Format) bool { return f.Block() == 256 }

// products holds x·weightsᵀ and the sums of the magnitudes of its terms.
type products struct{ want, size []float64 } // (64, rows)

func times(w *kerneltest.Weight, x []float32) products {
	p := products{make([]float64, 64*w.Rows), make([]float64, 64*w.Rows)}
	for i := range 64 {
		for n := range w.Rows {
			for k, v := range x[i*w.Cols : (i+1)*w.Cols] {
				a := w.Floats[n*w.Cols+k] * float64(v)
				p.want[i*w.Rows+n] += a
				p.size[i*w.Rows+n] += math.Abs(a)
			}
		}
	}
	return p
}

// rounding returns what rounding activations to 16 bits adds to errors, where a device or a family does, and else nil.
func rounding(dev webgpu.Device, f Family, off []float64) []float64 {
	if dev.Info().Backend == "cpu" || f.Packed() {
		return off
	}
	return nil
}

// rounded returns how far 64 rows of products may be off where activations are rounded to 16 bits: in blocks of 32, by
// half of a step at most, the 32639th part of the largest.
func rounded(w *kerneltest.Weight, x []float64) []float64 {
	off := make([]float64, 64*w.Rows)
	if !w.Format.Quantised() {
		return off
	}
	for i := range 64 {
		for from := 0; from < w.Cols; from += 32 {
			most := 0.0
			for _, v := range x[i*w.Cols+from:][:32] {
				most = max(most, math.Abs(v))
			}
			for n := range w.Rows {
				for _, v := range w.Floats[n*w.Cols+from:][:32] {
					off[i*w.Rows+n] += math.Abs(v) * most / (2 * 32639)
				}
			}
		}
	}
	return off
}

// widened converts to float64.
func widened(x []float32) []float64 {
	out := make([]float64, len(x))
	for i, v := range x {
		out[i] = float64(v)
	}
	return out
}

func TestMatMul(t *testing.T) {
	kerneltest.OnDevices(t, func(t *testing.T, dev webgpu.Device) {
		b := kerneltest.New(t, dev)
		for f := range kernels.Formats {
			for _, shape := range [][2]int{{5, 32}, {96, 96}, {257, 192}, {64, 1056}, {3, 2304}} {
				brief := !kerneltest.Full() && (testing.Short() || !shown(f) || superblock(f))
				if !kerneltest.Full() && shape[0] == 96 || brief && shape[0] != 64 && (shape[0] != 3 || !f.Packed()) {
					continue
				}
				w := kerneltest.NewWeight(f, shape[0], kerneltest.Cols(f, shape[1]))
				x := kerneltest.Normals(4, 64*w.Cols)
				p := times(w, x)
				off := rounded(w, widened(x))
				for _, split := range []int{w.Rows, 50} {
					up := w.Upload(b, split)
					for i, family := range tested(dev, f) {
						if i > 0 && dev.Info().Host() { // references have no families
							break
						}
						for _, m := range []int{1, 2, 5, 8, 13, 32, 64} {
							if split != w.Rows && m != 5 || !kerneltest.Full() && (m == 2 || m == 8 || m == 32) {
								continue
							}
							if !dev.Info().Host() && !tried(f, family, m) {
								continue
							}
							testProduct(b, family, w, up, x, p, rounding(dev, family, off), m)
						}
					}
					w.Free(b, up)
				}
			}
		}
	})
}

// tried reports whether a product of m rows is compared with float64. Families of a kind differ only in the number
// of weight rows, and formats differ from the one that Shown selects only in unpacking.
func tried(f kernels.Format, family Family, m int) bool {
	switch {
	case !family.first() && m != 5 && m != 64:
		return false
	case family.Packed():
		return m == 1 || m == 5 || m == 64 && f == kernels.Q8_0
	case family.Kind == BySubgroup: // unpacks like ByGroup
		return f == kernels.Q8_0 && (kerneltest.Full() || family.first() && m == 5)
	case kerneltest.Full():
		return true
	case !family.first():
		return false
	case shown(f) && !superblock(f):
		return true
	}
	return m == []int{ByRow: 13, ByGroup: 1}[family.Kind]
}

// tested returns the families of a device, and those of one like it without subgroups.
func tested(dev webgpu.Device, format kernels.Format) []Family {
	info := dev.Info()
	all := Families(info, format)
	info.Features = slices.DeleteFunc(slices.Clone(info.Features), func(f string) bool { return f == "subgroups" })
	for _, f := range Families(info, format) {
		if !slices.Contains(all, f) {
			all = append(all, f)
		}
	}
	return all
}

// first reports whether the family is the first of its kind.
func (f Family) first() bool {
	i := slices.IndexFunc(every, func(other Family) bool { return other.Kind == f.Kind })
	return every[i] == f
}

// testProduct compares m rows with float64, stored and added, with strides and offsets.
func testProduct(b kerneltest.Bench, family Family, w *kerneltest.Weight, up *kernels.Weight, x []float32, p products,
	off []float64, m int) {
	b.T.Helper()
	values := append(make([]float32, 8), x[:m*w.Cols]...)
	in := b.F32(values)
	stride := w.Rows + 3
	out := b.Poisoned(m*stride + 2)
	defer b.Free(in, out)
	for pass := range 2 {
		got := b.Run(func(r *kernels.Recorder) {
			Record(r, family, up, kernels.Rows{View: in, Offset: 8, Stride: w.Cols},
				kernels.Rows{View: out, Offset: 2, Stride: stride}, m, pass == 1)
		}, out)[0]
		for i := range m {
			for n := range w.Rows {
				want, size := p.want[i*w.Rows+n]*float64(pass+1), p.size[i*w.Rows+n]
				v := got.F32()[2+i*stride+n]
				leeway := 2e-6*size + 1e-30
				if off != nil {
					leeway += float64(pass+1) * off[i*w.Rows+n]
				}
				if math.IsNaN(float64(v)) || math.Abs(float64(v)-want) > leeway {
					b.T.Fatalf("%s %s (%d, %d) M=%d pass %d: out[%d, %d] = %g, reference says %g", family, w.Format,
						w.Rows, w.Cols, m, pass, i, n, v, want)
				}
			}
			for _, gap := range got[2+i*stride+w.Rows : min(2+(i+1)*stride, len(got))] {
				if gap != 0x7fc0dead {
					b.T.Fatalf("%s M=%d: wrote past row %d", family, m, i)
				}
			}
		}
	}
}

func TestMatMulBatchInvariance(t *testing.T) {
	kerneltest.OnDevices(t, func(t *testing.T, dev webgpu.Device) {
		b := kerneltest.New(t, dev)
		for f := range kernels.Formats {
			rows, cols := 33, kerneltest.Cols(f, 160)
			x := kerneltest.Normals(5, 64*cols)
			// On a GPU each model checks its own formats when it is loaded.
			if dev.Info().Backend != "cpu" && (!shown(f) || f == kernels.Q2_K && !kerneltest.Full()) {
				continue
			}
			up := kerneltest.NewWeight(f, rows, cols).Upload(b, rows)
			families := tested(dev, f)[:1] // references have no families
			if !dev.Info().Host() {
				families = proved(dev, f)
			}
			for _, family := range families {
				t.Run(fmt.Sprint(f, " ", family), func(t *testing.T) {
					b := kerneltest.New(t, dev)
					kerneltest.Invariant(t, rows, func(order []int) []uint32 {
						in, out := b.F32(kerneltest.Gather(x, cols, order)), b.Poisoned(len(order)*rows)
						defer b.Free(in, out)
						return b.Run(func(r *kernels.Recorder) {
							Record(r, family, up, kernels.Rows{View: in, Stride: cols},
								kernels.Rows{View: out, Stride: rows}, len(order), false)
						}, out)[0]
					})
				})
			}
		}
	})
}

// TestFamiliesOfGPUs expects GPUs to get no family with a thread a row, not by an earlier choice either, and software
// adapters to begin with it.
func TestFamiliesOfGPUs(t *testing.T) {
	gpu := webgpu.Info{Backend: "browser", Features: []string{DotProduct, "subgroups"}}
	software := gpu
	software.Software = true
	all := Families(software, kernels.Q8_0)
	if len(all) != len(every)-1 || all[0].Kind != ByRow {
		t.Errorf("a software adapter gets %v", all)
	}
	if got := Families(gpu, kernels.Q8_0); !slices.Equal(got, all[1:]) {
		t.Errorf("a GPU gets %v of %v", got, all)
	}
	if f, ok := ParseFamily(gpu, kernels.Q8_0, all[0].String()); ok {
		t.Errorf("a GPU gets %v of an earlier choice", f)
	}
}

// proved returns the families whose bits are compared at every number of rows. Each compiles every tile.
func proved(dev webgpu.Device, f kernels.Format) []Family {
	all := tested(dev, f)
	favourite := all[0] // the family that software adapters use
	if f == kernels.Q8_0 && kerneltest.Full() {
		return append(all, Family{Rows: 4, Width: 16, Most: 32, Fixed: true})
	}
	return slices.DeleteFunc(all, func(family Family) bool {
		switch {
		case family.Kind == BySubgroup && f != kernels.Q8_0:
			return true
		case f != kernels.Q8_0 && !kerneltest.Full():
			return family != favourite
		}
		return !family.first()
	})
}
