package matmul

import (
	"context"
	"encoding/binary"
	"math"
	"testing"

	"foretoken/webgpu"
	"foretoken/webgpu/kernels"
	"foretoken/webgpu/kernels/kerneltest"
	"foretoken/webgpu/open"
)

// openHost opens the cpu device, whose arithmetic the tests of this file are about: it rounds activations and sums
// whole numbers, and gives NaN and ∞ a meaning that GPUs need not.
func openHost(t testing.TB) webgpu.Device {
	t.Helper()
	dev, _, err := open.Device(context.Background(), "cpu")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(dev.Destroy)
	return dev
}

// multiply returns x·weightsᵀ for m rows of x.
func multiply(b kerneltest.Bench, up *kernels.Weight, x []float32, m int) []float32 {
	b.T.Helper()
	in, out := b.F32(x), b.Poisoned(m*up.Rows)
	defer b.Free(in, out)
	got := b.Run(func(r *kernels.Recorder) {
		Record(r, Families(b.Dev.Info(), up.Format)[0], up, kernels.Rows{View: in, Stride: up.Cols},
			kernels.Rows{View: out, Stride: up.Rows}, m, false)
	}, out)[0].F32()
	if n := b.Dev.Counters().Fallbacks; n > 0 {
		b.T.Fatalf("%d dispatches ran their reference", n)
	}
	return got
}

func finite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }

// TestMatMulExtremes multiplies rows of zeros, of tiny, huge and equal numbers, and of numbers that are not finite,
// which must show in every product of their row and in no other row.
func TestMatMulExtremes(t *testing.T) {
	b := kerneltest.New(t, openHost(t))
	for f := range kernels.Formats {
		w := kerneltest.NewWeight(f, 7, kerneltest.Cols(f, 160))
		up := w.Upload(b, w.Rows)
		x := kerneltest.Normals(3, 64*w.Cols)
		for i := range 64 {
			row := x[i*w.Cols:][:w.Cols]
			for k := range row {
				switch i % 8 {
				case 1:
					row[k] = 0
				case 2:
					row[k] *= 1e-33 // 32767 over the largest is ∞
				case 3:
					row[k] *= 1e30
				case 4:
					row[k] = 32767 // the largest number, no rounding
				}
			}
			switch i % 8 {
			case 5:
				row[w.Cols-3] = float32(math.Inf(1 - i%16/8*2))
			case 6:
				row[i] = float32(math.NaN())
			}
		}
		p, off := times(w, x), rounded(w, widened(x))
		for _, m := range []int{1, 2, 4, 64} {
			for from := 0; from < 64; from += m {
				got := multiply(b, up, x[from*w.Cols:(from+m)*w.Cols], m)
				for i := range got {
					at := from*w.Rows + i
					g, want, bad := float64(got[i]), p.want[at], at/w.Rows%8 == 5 || at/w.Rows%8 == 6
					if bad && finite(g) || !bad && !(math.Abs(g-want) <= 2e-6*p.size[at]+off[at]+1e-43) {
						t.Fatalf("%s M=%d: row %d, product %d is %g, reference says %g",
							f, m, at/w.Rows, at%w.Rows, g, want)
					}
				}
			}
		}
		w.Free(b, up)
	}
}

// FuzzWeights decodes blocks of arbitrary bytes by products with unit vectors and compares with kernels.UnpackRow.
func FuzzWeights(f *testing.F) {
	b := kerneltest.New(f, openHost(f))
	for format := range kernels.Formats {
		for _, fill := range []byte{0, 0x3c, 0x7c, 0x7f, 0x80, 0xff} {
			data := make([]byte, 400)
			for i := range data {
				data[i] = fill ^ byte(i*37)>>(fill%8)
			}
			f.Add(int(format), data)
		}
	}
	f.Fuzz(func(t *testing.T, number int, data []byte) {
		b.T = t
		format := kernels.Format(uint(number) % uint(kernels.Formats))
		cols := max(format.Block(), 64)
		q, s := make([]uint32, format.WordsPerRow(cols)), make([]uint32, format.ScalesPerRow(cols))
		data = append(data, make([]byte, 4*(len(q)+len(s)))...)
		for i := range s { // first, so that short inputs reach them
			s[i] = binary.LittleEndian.Uint32(data[4*i:])
		}
		for i := range q {
			q[i] = binary.LittleEndian.Uint32(data[4*(len(s)+i):])
		}
		weights := func(q []uint32) []float64 {
			w := make([]float64, cols)
			kernels.UnpackRow(format, q, s, 0, cols, w)
			return w
		}
		want := weights(q)
		// A bound of the terms of each weight: those of the largest and of the smallest numbers.
		size, all := 0.0, true
		for _, fill := range []uint32{0, math.MaxUint32, 0x80808080, 0x7f7f7f7f} {
			numbers := make([]uint32, len(q))
			for i := range numbers {
				numbers[i] = fill
			}
			if format.Quantised() {
				for _, v := range weights(numbers) {
					size = max(size, math.Abs(v))
				}
			}
		}
		for _, v := range want {
			size = max(size, math.Abs(v))
			all = all && finite(float64(float32(v)))
		}
		x := make([]float32, cols*cols) // unit vectors
		for i := range cols {
			x[i*cols+i] = 1
		}
		w := &kerneltest.Weight{Format: format, Rows: 1, Cols: cols, Quants: q, Scales: s}
		up := w.Upload(b, 1)
		defer w.Free(b, up)
		check := func(what string, k int, got float32) {
			g := float64(got)
			switch {
			case !all && finite(g) && size < 1e38:
				t.Fatalf("%s %s: weight %d is %g in a row with weights that are not finite", format, what, k, g)
			case all && size < 1e37 && !(math.Abs(g-want[k]) <= 1e-6*size+1e-44):
				t.Fatalf("%s %s: weight %d is %g, want %g", format, what, k, g, want[k])
			}
		}
		for k, v := range multiply(b, up, x, cols) {
			check("together", k, v)
		}
		for _, k := range []int{0, 17, cols - 1} {
			check("alone", k, multiply(b, up, x[k*cols:(k+1)*cols], 1)[0])
			if k > 0 {
				check("in a pair", k, multiply(b, up, x[(k-1)*cols:(k+1)*cols], 2)[1])
			}
		}
	})
}
