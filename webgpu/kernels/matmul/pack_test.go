package matmul

import (
	"math"
	"slices"
	"testing"

	"foretoken/webgpu"
	"foretoken/webgpu/kernels"
	"foretoken/webgpu/kernels/kerneltest"
)

// TestPack rounds rows of usual numbers, of zeros, of tiny and of equal ones, of a block whose largest is negative, and
// of numbers that are not finite, with and without the sums of squares of a norm, and reads them back.
func TestPack(t *testing.T) {
	dev := kerneltest.Accelerator(t)
	if !dev.Info().Has(DotProduct) {
		t.Skip("the device has no packed products")
	}
	const cols, rows, squares, stride = 2304, 7, 288, 2 * 2304 // 72 blocks, more than a workgroup has lanes
	x := kerneltest.Normals(6, rows*stride)
	for k := range cols {
		x[stride+k] = 0
		x[2*stride+k] *= 1e-33
		x[3*stride+k] = 32639
	}
	x[4*stride+70] = -1000
	x[5*stride+40] = float32(math.NaN())
	x[6*stride+cols-1] = float32(math.Inf(-1))
	for i := range rows {
		for k := range squares {
			x[i*stride+cols+k] = float32(k % 7)
		}
	}
	b := kerneltest.New(t, dev)
	in, out := b.F32(x), b.Poisoned(rows*PackedWords(cols))
	defer b.Free(in, out)
	for _, of := range []kernels.Rows{{}, {Squares: squares, Eps: 0.5}} {
		of.View, of.Stride = in, stride
		got := b.Run(func(r *kernels.Recorder) {
			r.Rounded = out
			pack(r, of, cols, rows)
		}, out)[0]
		factor := 1.0
		if of.Squares > 0 {
			sum := 0
			for k := range squares {
				sum += k % 7
			}
			factor = 1 / math.Sqrt(float64(sum)/cols+of.Eps)
		}
		for i := range rows {
			checkPacked(t, got[i*PackedWords(cols):], x[i*stride:][:cols], factor)
		}
	}
}

// checkPacked compares a packed row with x times a factor.
func checkPacked(t *testing.T, row webgpu.Memory, x []float32, factor float64) {
	t.Helper()
	blocks := len(x) / packedBlock
	scales := row.F32()[blocks*16:]
	for block := range blocks {
		in, scale, most := x[block*packedBlock:][:packedBlock], float64(scales[4*block]), 0.0
		for _, v := range in {
			most = max(most, math.Abs(float64(v))) // NaN stays
		}
		if !finite(most) {
			if finite(scale) {
				t.Errorf("block %d: scale %g of numbers that are not finite", block, scale)
			}
			continue
		}
		step := most * factor / 32639
		sums := make([]float64, 2)
		for k, v := range in {
			word, shift := block*8+k/4, 8*(k%4)
			whole := 256*float64(int8(row[word]>>shift)) + float64(int8(row[blocks*8+word]>>shift))
			sums[k/16] += whole * scale
			if want := float64(v) * factor; math.Abs(whole*scale-want) > 0.52*step+1e-30 {
				t.Fatalf("block %d, number %d: %g, want %g in steps of %g", block, k, whole*scale, want, step)
			}
		}
		for half, want := range sums {
			if got := float64(scales[4*block+1+half]); math.Abs(got-want) > 1e-5*16*most*factor+1e-30 {
				t.Fatalf("block %d, half %d: the sum is %g, want %g", block, half, got, want)
			}
		}
	}
	if slices.ContainsFunc(row[blocks*16:][:blocks*4], func(w uint32) bool { return w == 0x7fc0dead }) {
		t.Error("some scales are not written")
	}
}

// TestPackAsHost compares the numbers that rows are packed to with those of the cpu device, which products with unit
// vectors show. A device's quotients may be a little off, so numbers may differ by one where an activation is midway
// between two steps.
func TestPackAsHost(t *testing.T) {
	dev := kerneltest.Accelerator(t)
	if !dev.Info().Has(DotProduct) {
		t.Skip("the device has no packed products")
	}
	const cols, rows = 256, 16
	x := kerneltest.Normals(9, rows*cols)
	for k := range cols {
		x[k] *= 1e-18
		x[cols+k] *= 1e18
	}
	b := kerneltest.New(t, dev)
	in, out := b.F32(x), b.Poisoned(rows*PackedWords(cols))
	defer b.Free(in, out)
	packed := b.Run(func(r *kernels.Recorder) {
		r.Rounded = out
		pack(r, kernels.Rows{View: in, Stride: cols}, cols, rows)
	}, out)[0]

	w := &kerneltest.Weight{Format: kernels.Q8_0, Rows: cols, Cols: cols, Quants: make([]uint32, cols*cols/4),
		Scales: make([]uint32, cols*cols/packedBlock)}
	for k := range cols {
		w.Quants[(k*cols+k)/4] = 1 << (8 * (k % 4))
	}
	for i := range w.Scales {
		w.Scales[i] = math.Float32bits(1)
	}
	host := kerneltest.New(t, openHost(t))
	up := w.Upload(host, cols)
	defer w.Free(host, up)
	products := multiply(host, up, x, rows)

	for i := range rows {
		row := packed[i*PackedWords(cols):]
		for block := range cols / packedBlock {
			most := 0.0
			for _, v := range x[i*cols+block*packedBlock:][:packedBlock] {
				most = max(most, math.Abs(float64(v)))
			}
			for k := block * packedBlock; k < (block+1)*packedBlock; k++ {
				shift := 8 * (k % 4)
				got := 256*int(int8(row[k/4]>>shift)) + int(int8(row[(cols+k)/4]>>shift))
				want := int(math.Round(float64(products[i*cols+k]) / most * 32639))
				exact := math.Abs(float64(x[i*cols+k])) / most * 32639
				midway := math.Abs(exact-math.Floor(exact)-0.5) < 0.01
				if got != want && !(midway && (got == want+1 || got == want-1)) {
					t.Fatalf("row %d, number %d is packed to %d, on the cpu device it is %d", i, k, got, want)
				}
			}
		}
	}
}
