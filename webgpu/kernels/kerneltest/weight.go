package kerneltest

import (
	"math"
	"math/rand/v2"

	"github.com/x448/float16"

	"foretoken/webgpu/kernels"
)

// Cols returns the smallest number of columns, at least `least`, that a format's blocks divide.
func Cols(f kernels.Format, least int) int { return (least + f.Block() - 1) / f.Block() * f.Block() }

// Weight holds random weights as the device stores them, and as floats.
type Weight struct {
	Format     kernels.Format
	Rows, Cols int
	Quants     []uint32
	Scales     []uint32
	Floats     []float64 // (rows, cols)
}

func NewWeight(f kernels.Format, rows, cols int) *Weight {
	rng := rand.New(rand.NewPCG(uint64(rows), uint64(cols)))
	w := &Weight{Format: f, Rows: rows, Cols: cols, Floats: make([]float64, rows*cols)}
	switch f {
	case kernels.F32:
		w.Quants = Bits(Normals(3, rows*cols))
	case kernels.F16:
		for range rows * cols / 2 {
			w.Quants = append(w.Quants, twoHalves(rng, 1))
		}
	case kernels.BF16:
		x := Bits(Normals(3, rows*cols))
		for i := 0; i < len(x); i += 2 {
			w.Quants = append(w.Quants, x[i]>>16|x[i+1]&^0xffff)
		}
	default:
		for range rows * f.WordsPerRow(cols) {
			w.Quants = append(w.Quants, rng.Uint32())
		}
		for range rows * cols / f.Block() {
			w.Scales = append(w.Scales, testScales(rng, f)...)
		}
	}
	for r := range rows {
		kernels.UnpackRow(f, w.Quants, w.Scales, r, cols, w.Floats[r*cols:(r+1)*cols])
	}
	return w
}

// twoHalves returns a word of two random halves.
func twoHalves(rng *rand.Rand, size float64) uint32 {
	a, b := float16.Fromfloat32(float32(size*rng.NormFloat64())), float16.Fromfloat32(float32(size*rng.NormFloat64()))
	return uint32(a.Bits()) | uint32(b.Bits())<<16
}

// testScales returns the words of a block's scales: floats and halves in the range of real weights, some of them
// subnormal, and arbitrary integers.
func testScales(rng *rand.Rand, f kernels.Format) []uint32 {
	half := float16.Fromfloat32(float32(rng.NormFloat64() / 64))
	halves := twoHalves(rng, []float64{1.0 / 64, 1.0 / 1024, 1e-5, 1e-7}[rng.IntN(4)])
	s := make([]uint32, f.ScalesPerRow(f.Block()))
	for i := range s {
		s[i] = rng.Uint32()
	}
	switch f {
	case kernels.Q8_0, kernels.Q4_0, kernels.Q5_0, kernels.IQ4_NL,
		kernels.MXFP4, kernels.Q1_0, kernels.Q2_0, kernels.Q3_K:
		s[0] = math.Float32bits(half.Float32()) // a half in a file
	case kernels.Q6_K:
		s[4] = math.Float32bits(half.Float32())
	case kernels.Q4_1, kernels.Q5_1:
		s[0] = halves
	case kernels.Q4_K, kernels.Q5_K:
		// Both are halves in a file, and the bytes six bits.
		s[0] = math.Float32bits(float16.Frombits(uint16(halves)).Float32())
		s[1] = math.Float32bits(float16.Frombits(uint16(halves >> 16)).Float32())
		for i := range s[2:] {
			s[2+i] &= 0x3f3f3f3f
		}
	case kernels.Q2_K:
		s[4] = halves
	default:
		panic("no scales for " + f.String())
	}
	return s
}

// Upload splits the weight into parts of at most partRows rows.
func (w *Weight) Upload(b Bench, partRows int) *kernels.Weight {
	out := &kernels.Weight{Format: w.Format, Rows: w.Rows, Cols: w.Cols}
	words, scales := w.Format.WordsPerRow(w.Cols), w.Format.ScalesPerRow(w.Cols)
	for row := 0; row < w.Rows; row += partRows {
		n := min(partRows, w.Rows-row)
		p := kernels.WeightPart{Row0: row, Rows: n, Quants: b.U32(w.Quants[row*words : (row+n)*words])}
		if w.Format.Quantised() {
			p.Scales = b.U32(w.Scales[row*scales : (row+n)*scales])
		}
		out.Parts = append(out.Parts, p)
	}
	return out
}

func (w *Weight) Free(b Bench, up *kernels.Weight) {
	for _, p := range up.Parts {
		b.Free(p.Quants)
		if w.Format.Quantised() {
			b.Free(p.Scales)
		}
	}
}
