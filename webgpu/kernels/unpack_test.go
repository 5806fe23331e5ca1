package kernels

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"foretoken/webgpu"

	"github.com/x448/float16"
)

// shown reports whether a format stands for all that a product walks in the same way, in as many steps between scales:
// it is tested in every tile of both kinds. The others differ from it in how a weight is unpacked.
func (f Format) shown() bool {
	return full() || f == F32 || f == Q8_0 || f == Q4_0 || f == Q2_K || f == Q4_K
}

// superblock reports whether blocks have scales for parts of them.
func (f Format) superblock() bool { return f.Block() == 256 }

// rounded reports whether unpacking a weight rounds products or differences one by one.
func (f Format) rounded() bool { return strings.HasPrefix(layouts[f].files, "unpack_bits") }

// testWeight is random weights as the device stores them, and as floats.
type testWeight struct {
	format     Format
	rows, cols int
	quants     []uint32
	scales     []uint32
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
			w.quants = append(w.quants, twoHalves(rng, 1))
		}
	case BF16:
		x := bits(normals(3, rows*cols))
		for i := 0; i < len(x); i += 2 {
			w.quants = append(w.quants, x[i]>>16|x[i+1]&^0xffff)
		}
	default:
		for range rows * f.WordsPerRow(cols) {
			w.quants = append(w.quants, rng.Uint32())
		}
		for range rows * cols / f.Block() {
			w.scales = append(w.scales, testScales(rng, f)...)
		}
	}
	for r := range rows {
		unpackRow(f, w.quants, w.scales, r, cols, w.floats[r*cols:(r+1)*cols])
	}
	return w
}

// twoHalves is a word of two random halves.
func twoHalves(rng *rand.Rand, size float64) uint32 {
	a, b := float16.Fromfloat32(float32(size*rng.NormFloat64())), float16.Fromfloat32(float32(size*rng.NormFloat64()))
	return uint32(a.Bits()) | uint32(b.Bits())<<16
}

// testScales are a block's words of scales: floats and halves of a size that real weights
// have, some of them subnormal, and any integers.
func testScales(rng *rand.Rand, f Format) []uint32 {
	float := math.Float32bits(float32(rng.NormFloat64() / 64))
	halves := twoHalves(rng, []float64{1.0 / 64, 1.0 / 1024, 1e-5, 1e-7}[rng.IntN(4)])
	s := make([]uint32, layouts[f].scales)
	for i := range s {
		s[i] = rng.Uint32()
	}
	switch f {
	case Q8_0, Q4_0, Q5_0, IQ4_NL, Q3_K:
		s[0] = float
	case Q6_K:
		s[4] = float
	case Q4_1, Q5_1, Q4_K, Q5_K:
		s[0] = halves
	case Q2_K:
		s[4] = halves
	default:
		panic("no scales for " + f.String())
	}
	return s
}

// upload splits the weight into parts of at most partRows rows.
func (w *testWeight) upload(b bench, partRows int) *Weight {
	out := &Weight{Format: w.format, Rows: w.rows, Cols: w.cols}
	words, scales := w.format.WordsPerRow(w.cols), w.format.ScalesPerRow(w.cols)
	for row := 0; row < w.rows; row += partRows {
		n := min(partRows, w.rows-row)
		p := WeightPart{Row0: row, Rows: n, Quants: b.u32(w.quants[row*words : (row+n)*words])}
		if w.format.Quantised() {
			p.Scales = b.u32(w.scales[row*scales : (row+n)*scales])
		}
		out.Parts = append(out.Parts, p)
	}
	return out
}

func (w *testWeight) free(b bench, up *Weight) {
	for _, p := range up.Parts {
		b.free(p.Quants)
		if w.format.Quantised() {
			b.free(p.Scales)
		}
	}
}

func TestUnpackAgainstDefinition(t *testing.T) {
	// One block by hand: Q4_0 keeps the first half in low nibbles, offset by 8.
	words := []uint32{0x00000021, 0, 0, 0x90000000}
	got := make([]float64, 32)
	unpackRow(Q4_0, words, bits([]float32{0.5}), 0, 32, got)
	for at, want := range map[int]float64{0: (1 - 8) * 0.5, 16: (2 - 8) * 0.5, 15: (0 - 8) * 0.5, 31: (9 - 8) * 0.5} {
		if got[at] != want {
			t.Errorf("q4_0[%d] = %g, want %g", at, got[at], want)
		}
	}
	unpackRow(Q8_0, []uint32{0x80ff7f01, 0, 0, 0, 0, 0, 0, 0}, bits([]float32{2}), 0, 32, got)
	for at, want := range []float64{2, 254, -2, -256} {
		if got[at] != want {
			t.Errorf("q8_0[%d] = %g, want %g", at, got[at], want)
		}
	}
}

func TestEmbed(t *testing.T) {
	onDevices(t, func(t *testing.T, dev webgpu.Device) {
		b := bench{t, dev}
		for f := range formats {
			cols := (96 + f.Block() - 1) / f.Block() * f.Block() * 2
			w := newTestWeight(f, 131, cols)
			up := w.upload(b, 50)
			for _, m := range []int{1, 3, 64} {
				tokens := make([]uint32, m)
				var want []float32
				largest := 0.0
				for i := range tokens {
					tokens[i] = uint32(i*37+130) % 131
					for _, v := range w.floats[int(tokens[i])*cols:][:cols] {
						want = append(want, float32(v))
						largest = max(largest, math.Abs(v))
					}
				}
				ids, out := b.u32(tokens), b.poisoned(m*cols)
				got := b.run(func(r *Recorder) { r.Embed(up, ids, out, m) }, out)[0]
				if f.rounded() {
					closeTo(t, fmt.Sprint(f), got.F32(), want, 5e-7, largest)
				} else {
					closeTo(t, fmt.Sprint(f), got.F32(), want, 0, 0)
				}
				b.free(ids, out)
			}
			w.free(b, up)
		}
	})
}
