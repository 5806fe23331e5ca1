package kernels

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"foretoken/webgpu"
)

// samplingRows are the kinds of row that testLogits makes, in turn.
const samplingRows = 8

// testLogits is (rows, vocab) of the rows that models and mistakes produce.
func testLogits(seed uint64, rows, vocab int) []float32 {
	rng := rand.New(rand.NewPCG(seed, 9))
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	x := make([]float32, rows*vocab)
	for row := range rows {
		in := x[row*vocab:][:vocab]
		for i := range in {
			in[i] = float32(3 * rng.NormFloat64())
			switch row % samplingRows {
			case 1: // ties, zeros of both signs among them
				in[i] = float32(math.Round(float64(in[i]) / 2))
			case 2: // masked tokens
				if rng.IntN(3) == 0 {
					in[i] = -inf
				}
			case 3:
				if rng.IntN(5) == 0 {
					in[i] = nan
				}
			case 4:
				in[i] = nan
			case 5: // outliers
				if rng.IntN(97) == 0 {
					in[i] *= 30
				}
			case 6:
				in[i] = 2.5
			case 7: // nearly flat, far from zero
				in[i] = 100 + in[i]/100
			}
		}
	}
	if rows >= samplingRows && vocab > 7 {
		x[3*vocab+7] = inf
	}
	return x
}

// exact is what a row's logits mean, in float64 and without the kernels' tricks.
type exact struct {
	z      []float64
	key    drawKey
	scale  float64 // 1/temperature, 0 for argmax
	argmax int
}

func exactly(in []float32, draw []uint32, position uint32) *exact {
	e := &exact{key: rowKey(draw, draw[3], position), scale: fromBits(draw[0])}
	for i, v := range in {
		e.z = append(e.z, finite(v))
		if e.z[i] > e.z[e.argmax] {
			e.argmax = i
		}
	}
	return e
}

// score is the perturbed score that draws maximise.
func (e *exact) score(id int) float64 { return e.z[id]*e.scale + e.key.gumbel(uint32(id)) }

// logSumExp is of x over the ids kept, and its entropy beside it.
func logSumExp(x []float64, kept func(int) bool) (lse, entropy float64) {
	most := math.Inf(-1)
	for i, v := range x {
		if kept(i) {
			most = max(most, v)
		}
	}
	sum, moment := 0.0, 0.0
	for i, v := range x {
		if kept(i) {
			e := math.Exp(v - most)
			sum += e
			moment += (v - most) * e
		}
	}
	return most + math.Log(sum), math.Log(sum) - moment/sum
}

func (e *exact) scaled() []float64 {
	x := make([]float64, len(e.z))
	for i, z := range e.z {
		x[i] = z * e.scale
	}
	return x
}

func (e *exact) scores() []float64 {
	x := make([]float64, len(e.z))
	for i := range e.z {
		x[i] = e.score(i)
	}
	return x
}

func everything(int) bool { return true }

// drawn checks that y is the best perturbed score among the kept, or as near to it as f32 can tell.
func (e *exact) drawn(t *testing.T, what string, y int, kept func(int) bool) {
	t.Helper()
	if y < 0 || y >= len(e.z) {
		t.Fatalf("%s: drew %d of %d ids", what, y, len(e.z))
	}
	if e.scale == 0 {
		if y != e.argmax {
			t.Fatalf("%s: drew %d at temperature 0, the argmax is %d", what, y, e.argmax)
		}
		return
	}
	if !kept(y) {
		t.Fatalf("%s: drew %d, which the filters drop", what, y)
	}
	best := math.Inf(-1)
	for i := range e.z {
		if kept(i) && e.z[i]*e.scale+23 > best {
			best = max(best, e.score(i))
		}
	}
	if s := e.score(y); s < best-nearby(best) {
		t.Fatalf("%s: drew %d with score %g, the best is %g", what, y, s, best)
	}
}

// nearby is how far apart f32 arithmetic may leave equal scores.
func nearby(s float64) float64 { return 1e-4 + 3e-7*math.Abs(s) }

func near(t *testing.T, what string, got float32, want, tol float64) {
	t.Helper()
	if math.IsNaN(float64(got)) || math.Abs(float64(got)-want) > tol+2e-6*math.Abs(want) {
		t.Fatalf("%s = %g, exactly it is %g", what, got, want)
	}
}

// words encodes p as a slice.
func words(p DrawParams) []uint32 { w := p.Words(); return w[:] }

func positionsFrom(start, n int) []uint32 {
	p := make([]uint32, n)
	for i := range p {
		p[i] = u32(start + i)
	}
	return p
}

// spreadRuns keeps the family with barriers from taking minutes on a software adapter.
func spreadRuns(lanes Lanes) int {
	if lanes == Serial {
		return 160
	}
	return 32
}

// spread runs record, which draws for the positions in one view of n rows, over
// many positions, and counts the ids that count finds in the output.
func (b bench) spread(n, vocab, runs int, positions, out View, record func(*Recorder), count func(webgpu.Memory, []int)) []int {
	b.t.Helper()
	r := NewRecorder("spread", b.dev.Info())
	record(r)
	built, err := Build(b.dev, r)
	if err != nil {
		b.t.Fatal(err)
	}
	defer built.Free()
	counts, m := make([]int, vocab), webgpu.NewMemory(out.Size)
	for run := range runs {
		if err := b.dev.Write(positions.Buffer, 0, webgpu.U32Bytes(positionsFrom(run*n, n))); err != nil {
			b.t.Fatal(err)
		}
		if err := b.dev.Run(built.Programs, webgpu.Region{Buffer: out.Buffer, Offset: out.Offset, Dst: m.Bytes()}); err != nil {
			b.t.Fatal(err)
		}
		count(m, counts)
	}
	return counts
}

// chiSquare fails the test where counts are not drawn from p. Ids expected less than
// five times share a cell.
func chiSquare(t *testing.T, what string, counts []int, p []float64) {
	t.Helper()
	n := 0
	for i, c := range counts {
		n += c
		if c > 0 && p[i] == 0 {
			t.Fatalf("%s: id %d drawn %d times, it has no probability", what, i, c)
		}
	}
	cells, stat, restN, restP := 0, 0.0, 0, 0.0
	cell := func(count int, want float64) {
		cells++
		stat += (float64(count) - want) * (float64(count) - want) / want
	}
	for i, c := range counts {
		if want := p[i] * float64(n); want >= 5 {
			cell(c, want)
		} else {
			restN, restP = restN+c, restP+p[i]
		}
	}
	if restP*float64(n) >= 1 {
		cell(restN, restP*float64(n))
	}
	// Wilson and Hilferty: the cube root of chi-square over its mean is nearly normal.
	df := float64(max(cells-1, 1))
	z := (math.Cbrt(stat/df) - (1 - 2/(9*df))) / math.Sqrt(2/(9*df))
	if z > 4 {
		t.Fatalf("%s: %d draws in %d cells have chi-square %.1f, %.1f deviations out", what, n, cells, stat, z)
	}
}

// distribution is softmax(z·scale) over the kept ids.
func (e *exact) distribution(kept func(int) bool) []float64 {
	x := e.scaled()
	lse, _ := logSumExp(x, kept)
	for i := range x {
		if kept(i) {
			x[i] = math.Exp(x[i] - lse)
		} else {
			x[i] = 0
		}
	}
	return x
}

// TestGumbelNoise reads the noise itself off the device: with equal logits and coupled
// ranking the best scores are the largest draws.
func TestGumbelNoise(t *testing.T) {
	onDevices(t, func(t *testing.T, dev webgpu.Device) {
		b := bench{t, dev}
		for _, lanes := range []Lanes{Serial, Grouped} {
			for _, vocab := range []int{32, 64, 32003} {
				const rows, k = 16, 64
				p := DrawParams{Temperature: 1, Seed: 0x123456789abcdef0, Stream: 1, Coupled: true}
				at := positionsFrom(100, rows)
				in, draw, positions := b.f32(make([]float32, rows*vocab)), b.u32(words(p)), b.u32(at)
				scratch, out := b.poisoned(SampleScratch(rows, vocab)/4), b.poisoned(rows*SampleWords(k))
				got := b.run(func(r *Recorder) {
					r.Sample(lanes, Logits{View: in, Rows: rows, Vocab: vocab}, k, RawLogits, draw, positions, scratch, out)
				}, out)[0]
				for row := range rows {
					s := DecodeSample(got, row, k)
					want := exactly(make([]float32, vocab), words(p), at[row]).scores()
					sorted := slices.Clone(want)
					slices.Sort(sorted)
					for i := range min(k, vocab) {
						what := fmt.Sprintf("lanes %d vocab %d row %d noise %d of id %d", lanes, vocab, row, i, s.IDs[i])
						near(t, what, s.Values[i], want[s.IDs[i]], 4e-6)
						near(t, what+" by rank", s.Values[i], sorted[vocab-1-i], 4e-6)
					}
				}
				b.free(in, draw, positions, scratch, out)
			}
		}
	})
}
