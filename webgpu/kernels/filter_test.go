package kernels

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"foretoken/webgpu"
)

var filterDraws = []DrawParams{
	{Seed: 1, TopK: 5, TopP: 0.5, MinP: 0.5}, // idle at temperature 0
	{Temperature: 0.7, Seed: 2},
	{Temperature: 1, Seed: 3, TopK: 1},
	{Temperature: 0.8, Seed: 4, TopK: 40},
	{Temperature: 1.2, Seed: 5, TopP: 0.9},
	{Temperature: 1, Seed: 6, TopP: 1e-6},
	{Temperature: 1, Seed: 7, MinP: 0.05},
	{Temperature: 0.9, Seed: 8, TopK: 100, TopP: 0.8, MinP: 0.02},
	{Temperature: 3, Seed: 9, TopK: 7, TopP: 0.99},
	{Temperature: 0.5, Seed: 10, TopK: 1 << 30, TopP: 0.999},
}

// threshold checks τ against the definition of the filters.
func (e *exact) threshold(t *testing.T, what string, p DrawParams, got float64) {
	t.Helper()
	sorted := slices.Clone(e.z)
	slices.Sort(sorted)
	slices.Reverse(sorted)
	most, topK := sorted[0], math.Inf(-1)
	if p.TopK > 0 && p.TopK < len(sorted) {
		topK = sorted[p.TopK-1]
	}
	bound := topK
	if p.MinP > 0 {
		bound = max(bound, most+math.Log(p.MinP)*p.Temperature)
	}
	slack := 1e-6 * max(1, math.Abs(bound))
	if got < bound-slack {
		t.Fatalf("%s: threshold %g, top-k and min-p ask for %g", what, got, bound)
	}
	above, reach, all := 0.0, 0.0, 0.0
	for _, z := range sorted {
		w := math.Exp((z - most) * e.scale)
		if z > got {
			above += w
		}
		if z >= got {
			reach += w
		}
		if z >= topK {
			all += w
		}
	}
	if p.TopP <= 0 || p.TopP >= 1 {
		if got > bound+slack && bound > LowLogit {
			t.Fatalf("%s: threshold %g, top-k and min-p ask for %g", what, got, bound)
		}
		return
	}
	want := p.TopP * all
	if above >= want*(1+1e-5) || got > bound+slack && reach < want*(1-1e-5) {
		t.Fatalf("%s: threshold %g has mass %g above and %g with it, top-p asks for %g", what, got, above, reach, want)
	}
}

// record checks the probability of the token drawn and the entropy against the
// softmax of x over the ids kept.
func record(t *testing.T, what string, rec []uint32, x []float64, kept func(int) bool) {
	t.Helper()
	lse, entropy := logSumExp(x, kept)
	p := math.Exp(x[rec[0]] - lse)
	// Logits in the hundreds leave an absolute error of their last bit in the exponent.
	near(t, what+": probability", math.Float32frombits(rec[4]), p, 1e-7+p*(2e-5+4e-7*math.Abs(lse)))
	near(t, what+": entropy", math.Float32frombits(rec[5]), entropy, 3e-5*max(1, entropy))
}

func filterCase(b bench, lanes Lanes, x []float32, rows, vocab int, p DrawParams) {
	t := b.t
	t.Helper()
	at := positionsFrom(77, rows)
	in, draw, positions := b.f32(x), b.u32(words(p)), b.u32(at)
	scratch, out := b.poisoned(FilterScratch(rows)/4), b.poisoned(rows*FilterWords)
	defer b.free(in, draw, positions, scratch, out)
	got := b.run(func(r *Recorder) {
		r.Filter(lanes, Logits{View: in, Rows: rows, Vocab: vocab}, draw, positions, scratch, out)
	}, out)[0]
	for row := range rows {
		what := fmt.Sprintf("lanes %d vocab %d draw %+v row %d", lanes, vocab, p, row)
		e := exactly(x[row*vocab:][:vocab], words(p), at[row])
		rec := got[row*FilterWords:][:FilterWords]
		tau := fromBits(rec[1])
		if int(rec[3]) != e.argmax {
			t.Fatalf("%s: argmax %d, want %d", what, rec[3], e.argmax)
		}
		kept := func(id int) bool { return e.z[id] >= tau }
		e.drawn(t, what, int(rec[0]), kept)
		if e.scale == 0 {
			if tau != e.z[e.argmax] || rec[2] != 0 {
				t.Fatalf("%s: threshold %g and log-sum-exp %g at temperature 0", what, tau, fromBits(rec[2]))
			}
			record(t, what, rec, e.z, everything)
			continue
		}
		e.threshold(t, what, p, tau)
		lse, _ := logSumExp(e.scaled(), kept)
		near(t, what+": log-sum-exp", math.Float32frombits(rec[2]), lse, 3e-6*max(1, math.Abs(lse)))
		record(t, what, rec, e.scaled(), kept)
	}
}

func TestFilter(t *testing.T) {
	onDevices(t, func(t *testing.T, dev webgpu.Device) {
		b := bench{t, dev}
		for _, lanes := range ways(dev) {
			for _, vocab := range vocabularies() {
				x := testLogits(uint64(vocab)+1, samplingRows, vocab)
				for i, p := range filterDraws {
					if vocab < 100000 || i == 7 {
						filterCase(b, lanes, x, samplingRows, vocab, p)
					}
				}
				for range 3 {
					filterCase(b, lanes, x[:vocab], 1, vocab, filterDraws[7])
				}
			}
		}
	})
}

func TestFilterBatchInvariant(t *testing.T) {
	onDevices(t, func(t *testing.T, dev webgpu.Device) {
		b := bench{t, dev}
		const vocab = 700
		x, at := testLogits(4, 64, vocab), positionsFrom(5, 64)
		draw := b.u32(words(filterDraws[7]))
		for _, lanes := range ways(dev) {
			invariant(t, FilterWords, func(order []int) []uint32 {
				n := len(order)
				in, positions := b.f32(gather(x, vocab, order)), b.u32(gather(at, 1, order))
				scratch, out := b.poisoned(FilterScratch(n)/4), b.poisoned(n*FilterWords)
				defer b.free(in, positions, scratch, out)
				return b.run(func(r *Recorder) {
					r.Filter(lanes, Logits{View: in, Rows: n, Vocab: vocab}, draw, positions, scratch, out)
				}, out)[0]
			})
		}
		b.free(draw)
	})
}

func TestFilterDrawsFromKept(t *testing.T) {
	onDevices(t, func(t *testing.T, dev webgpu.Device) {
		b := bench{t, dev}
		const rows, vocab = 64, 40
		row := testLogits(12, 1, vocab)
		x := slices.Repeat(row, rows)
		for _, lanes := range ways(dev) {
			draws := []DrawParams{{Temperature: 3, Seed: 4, TopK: 20, TopP: 0.9, MinP: 0.05}, {Temperature: 1.5, Seed: 1, TopK: 12},
				{Temperature: 2, Seed: 2, TopP: 0.9}, {Temperature: 2, Seed: 3, MinP: 0.1}}
			if lanes == Grouped {
				draws = draws[:1] // seconds each on Chromium's software adapter
			}
			for _, p := range draws {
				in, draw, positions := b.f32(x), b.u32(words(p)), b.u32(make([]uint32, rows))
				scratch, out := b.poisoned(FilterScratch(rows)/4), b.poisoned(rows*FilterWords)
				tau := 0.0
				counts := b.spread(rows, vocab, spreadRuns(lanes), positions, out, func(r *Recorder) {
					r.Filter(lanes, Logits{View: in, Rows: rows, Vocab: vocab}, draw, positions, scratch, out)
				}, func(m webgpu.Memory, counts []int) {
					tau = fromBits(m[1])
					for i := range rows {
						counts[m[i*FilterWords]]++
					}
				})
				e := exactly(row, words(p), 0)
				e.threshold(t, "kept", p, tau)
				chiSquare(t, fmt.Sprintf("lanes %d draw %+v", lanes, p), counts, e.distribution(func(id int) bool { return e.z[id] >= tau }))
				b.free(in, draw, positions, scratch, out)
			}
		}
	})
}
