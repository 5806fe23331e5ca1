package sample

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"foretoken/spec/spectest"
	"foretoken/webgpu"
	"foretoken/webgpu/kernels"
	"foretoken/webgpu/kernels/kerneltest"
)

var filterDraws = []kernels.DrawParams{
	{Seed: 1, TopK: 5, TopP: 0.5, MinP: 0.5}, // no effect at temperature 0
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
func threshold(t testing.TB, e *kerneltest.Exact, what string, p kernels.DrawParams, got float64) {
	t.Helper()
	sorted := slices.Clone(e.Z)
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
		w := math.Exp((z - most) * e.Scale)
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
		if got > bound+slack && bound > kernels.LowLogit {
			t.Fatalf("%s: threshold %g, top-k and min-p ask for %g", what, got, bound)
		}
		return
	}
	want := p.TopP * all
	if above >= want*(1+1e-5) || got > bound+slack && reach < want*(1-1e-5) {
		t.Fatalf("%s: threshold %g has mass %g above and %g with it, top-p asks for %g", what, got, above, reach, want)
	}
}

// record checks the probability of the drawn token and the entropy against the softmax of x over the kept ids.
func record(t testing.TB, what string, rec []uint32, x []float64, kept func(int) bool) {
	t.Helper()
	lse, entropy := kerneltest.LogSumExp(x, kept)
	p := math.Exp(x[rec[0]] - lse)
	// For logits in the hundreds the last bit is an absolute error in the exponent.
	kerneltest.Near(t, what+": probability", math.Float32frombits(rec[4]), p, 1e-7+p*(2e-5+4e-7*math.Abs(lse)))
	kerneltest.Near(t, what+": entropy", math.Float32frombits(rec[5]), entropy, 3e-5*max(1, entropy))
}

func filterCase(b kerneltest.Bench, lanes kernels.Lanes, x []float32, rows, vocab int, p kernels.DrawParams) {
	t := b.T
	t.Helper()
	at := kerneltest.PositionsFrom(77, rows)
	in, draw, positions := b.F32(x), b.U32(kerneltest.Words(p)), b.U32(at)
	scratch, out := b.Poisoned(FilterScratch(rows)/4), b.Poisoned(rows*kernels.FilterWords)
	defer b.Free(in, draw, positions, scratch, out)
	got := b.Run(func(r *kernels.Recorder) {
		RecordFilter(r, lanes, kernels.Logits{View: in, Rows: rows, Vocab: vocab}, draw, positions, scratch, out)
	}, out)[0]
	for row := range rows {
		what := fmt.Sprintf("lanes %d vocab %d draw %+v row %d", lanes, vocab, p, row)
		e := kerneltest.Exactly(x[row*vocab:][:vocab], kerneltest.Words(p), at[row])
		rec := got[row*kernels.FilterWords:][:kernels.FilterWords]
		tau := kernels.Float(rec[1])
		if int(rec[3]) != e.Argmax {
			t.Fatalf("%s: argmax %d, want %d", what, rec[3], e.Argmax)
		}
		kept := func(id int) bool { return e.Z[id] >= tau }
		e.Drawn(t, what, int(rec[0]), kept)
		if e.Scale == 0 {
			if tau != e.Z[e.Argmax] || rec[2] != 0 {
				t.Fatalf("%s: threshold %g and log-sum-exp %g at temperature 0", what, tau, kernels.Float(rec[2]))
			}
			record(t, what, rec, e.Z, kerneltest.Everything)
			continue
		}
		threshold(t, e, what, p, tau)
		lse, _ := kerneltest.LogSumExp(e.Scaled(), kept)
		kerneltest.Near(t, what+": log-sum-exp", math.Float32frombits(rec[2]), lse, 3e-6*max(1, math.Abs(lse)))
		record(t, what, rec, e.Scaled(), kept)
	}
}

func TestFilter(t *testing.T) {
	kerneltest.OnDevices(t, func(t *testing.T, dev webgpu.Device) {
		b := kerneltest.New(t, dev)
		for _, lanes := range kerneltest.Ways(dev) {
			for _, vocab := range kerneltest.Vocabularies() {
				x := kerneltest.Logits(uint64(vocab)+1, kerneltest.SamplingRows, vocab)
				for i, p := range filterDraws {
					if vocab < 100000 || i == 7 {
						filterCase(b, lanes, x, kerneltest.SamplingRows, vocab, p)
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
	kerneltest.OnDevices(t, func(t *testing.T, dev webgpu.Device) {
		b := kerneltest.New(t, dev)
		const vocab = 700
		x, at := kerneltest.Logits(4, 64, vocab), kerneltest.PositionsFrom(5, 64)
		draw := b.U32(kerneltest.Words(filterDraws[7]))
		for _, lanes := range kerneltest.Ways(dev) {
			kerneltest.Invariant(t, kernels.FilterWords, func(order []int) []uint32 {
				n := len(order)
				in, positions := b.F32(kerneltest.Gather(x, vocab, order)), b.U32(kerneltest.Gather(at, 1, order))
				scratch, out := b.Poisoned(FilterScratch(n)/4), b.Poisoned(n*kernels.FilterWords)
				defer b.Free(in, positions, scratch, out)
				return b.Run(func(r *kernels.Recorder) {
					RecordFilter(r, lanes, kernels.Logits{View: in, Rows: n, Vocab: vocab}, draw, positions, scratch,
						out)
				}, out)[0]
			})
		}
		b.Free(draw)
	})
}

func TestFilterDrawsFromKept(t *testing.T) {
	kerneltest.CountsDraws(t)
	kerneltest.OnDevices(t, func(t *testing.T, dev webgpu.Device) {
		b := kerneltest.New(t, dev)
		const rows, vocab = 64, 40
		row := kerneltest.Logits(12, 1, vocab)
		x := slices.Repeat(row, rows)
		for _, lanes := range kerneltest.Ways(dev) {
			draws := []kernels.DrawParams{{Temperature: 3, Seed: 4, TopK: 20, TopP: 0.9, MinP: 0.05},
				{Temperature: 1.5, Seed: 1, TopK: 12},
				{Temperature: 2, Seed: 2, TopP: 0.9}, {Temperature: 2, Seed: 3, MinP: 0.1}}
			if lanes == kernels.Grouped {
				draws = draws[:1] // seconds each on software adapters
			}
			for _, p := range draws {
				in, draw, positions := b.F32(x), b.U32(kerneltest.Words(p)), b.U32(make([]uint32, rows))
				scratch, out := b.Poisoned(FilterScratch(rows)/4), b.Poisoned(rows*kernels.FilterWords)
				tau := 0.0
				counts := spread(b, rows, vocab, kerneltest.SpreadRuns(lanes), positions, out,
					func(r *kernels.Recorder) {
						RecordFilter(r, lanes, kernels.Logits{View: in, Rows: rows, Vocab: vocab}, draw, positions,
							scratch, out)
					}, func(m webgpu.Memory, counts []int) {
						tau = kernels.Float(m[1])
						for i := range rows {
							counts[m[i*kernels.FilterWords]]++
						}
					})
				e := kerneltest.Exactly(row, kerneltest.Words(p), 0)
				threshold(t, e, "kept", p, tau)
				spectest.ChiSquare(t, fmt.Sprintf("lanes %d draw %+v", lanes, p), counts,
					e.Distribution(func(id int) bool { return e.Z[id] >= tau }))
				b.Free(in, draw, positions, scratch, out)
			}
		}
	})
}
