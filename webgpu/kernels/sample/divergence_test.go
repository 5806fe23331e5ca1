package sample

import (
	"fmt"
	"math"
	"testing"

	"foretoken/webgpu"
	"foretoken/webgpu/kernels"
	"foretoken/webgpu/kernels/kerneltest"
)

// comparison is a Divergence under test, with the records that Filter writes for it.
type comparison struct {
	kerneltest.Bench
	lanes                         kernels.Lanes
	c                             Comparison
	draftDraw, positions, scratch kernels.View
}

func newComparison(b kerneltest.Bench, lanes kernels.Lanes, target, draft []float32, vocab int,
	p kernels.DrawParams) *comparison {
	rows := len(target) / vocab
	q := p
	q.Stream = 1
	return &comparison{Bench: b, lanes: lanes, draftDraw: b.U32(kerneltest.Words(q)),
		positions: b.U32(kerneltest.PositionsFrom(5, rows)), scratch: b.Poisoned(FilterScratch(rows) / 4),
		c: Comparison{Target: kernels.Logits{View: b.F32(target), Rows: rows, Vocab: vocab},
			Draft:        kernels.Logits{View: b.F32(draft), Rows: rows, Vocab: vocab},
			TargetRecord: b.Poisoned(rows * kernels.FilterWords), DraftRecord: b.Poisoned(rows * kernels.FilterWords),
			Draw: b.U32(kerneltest.Words(p)), Out: b.Poisoned(rows * DivergenceWords)}}
}

func (c *comparison) record(r *kernels.Recorder) {
	RecordFilter(r, c.lanes, c.c.Target, c.c.Draw, c.positions, c.scratch, c.c.TargetRecord)
	RecordFilter(r, c.lanes, c.c.Draft, c.draftDraw, c.positions, c.scratch, c.c.DraftRecord)
	RecordDivergence(r, c.lanes, c.c)
}

func (c *comparison) close() {
	c.Free(c.c.Target.View, c.c.Draft.View, c.c.TargetRecord, c.c.DraftRecord, c.c.Draw, c.c.Out, c.draftDraw,
		c.positions, c.scratch)
}

// jensenShannon returns the distance by its definition, base 2.
func jensenShannon(p, q []float64) float64 {
	sum := 0.0
	for i := range p {
		m := (p[i] + q[i]) / 2
		for _, x := range []float64{p[i], q[i]} {
			if x > 0 {
				sum += x * math.Log2(x/m) / 2
			}
		}
	}
	return math.Sqrt(max(sum, 0))
}

func TestDivergence(t *testing.T) {
	kerneltest.OnDevices(t, func(t *testing.T, dev webgpu.Device) {
		b := kerneltest.New(t, dev)
		draws := []kernels.DrawParams{{Seed: 1}, {Temperature: 1, Seed: 2},
			{Temperature: 0.7, Seed: 3, TopK: 20, TopP: 0.9}, {Temperature: 2, Seed: 4, MinP: 0.1}}
		worst := 0.0
		for _, lanes := range kerneltest.Ways(dev) {
			for _, vocab := range kerneltest.Vocabularies() {
				sizes := []int{1, 11}
				if vocab > 10000 && !kerneltest.Full() { // a row of each kind below
					sizes = []int{3}
				}
				for _, rows := range sizes {
					draft, target := kerneltest.Logits(50, rows, vocab), kerneltest.Logits(51, rows, vocab)
					for i := range draft { // near each other in a third of the rows, nearly equal in another
						switch i / vocab % 3 {
						case 1:
							target[i] = draft[i] + target[i]/10
						case 2:
							target[i] = draft[i] + target[i]/10000
						}
					}
					for i, p := range draws {
						if vocab > 100000 && i%2 == 1 {
							continue
						}
						c := newComparison(b, lanes, target, draft, vocab, p)
						got := c.Thrice(c.record, c.c.Out, c.c.TargetRecord, c.c.DraftRecord)
						for row := range rows {
							what := fmt.Sprintf("lanes %d vocab %d draw %+v row %d of %d", lanes, vocab, p, row, rows)
							worst = max(worst,
								c.check(what, got, target[row*vocab:][:vocab], draft[row*vocab:][:vocab], p, row))
						}
						c.close()
					}
				}
			}
		}
		t.Logf("worst difference %.2g", worst)
	})
}

// check compares a row with the definition, computed in float64 from the logits and the thresholds.
func (c *comparison) check(what string, got []webgpu.Memory, target, draft []float32, p kernels.DrawParams,
	row int) float64 {
	t := c.T
	t.Helper()
	record := func(m webgpu.Memory) webgpu.Memory { return m[row*kernels.FilterWords:][:kernels.FilterWords] }
	distribution := func(z []float32, rec webgpu.Memory) (*kerneltest.Exact, []float64, func(int) bool) {
		e := kerneltest.Exactly(z, kerneltest.Words(p), 0)
		kept := func(id int) bool { return e.Z[id] >= kernels.Float(rec[1]) }
		if e.Scale == 0 {
			e.Scale, kept = 1, kerneltest.Everything
		}
		return e, e.Distribution(kept), kept
	}
	te, tp, kept := distribution(target, record(got[1]))
	de, dp, _ := distribution(draft, record(got[2]))
	distance, possible := float64(math.Float32frombits(got[0][row*2])), got[0][row*2+1]
	if !(distance >= 0 && distance <= 1) || possible > 1 {
		t.Fatalf("%s: distance %g, possible %d", what, distance, possible)
	}
	x := int(record(got[2])[0])
	if want := kept(x) && te.Z[x] > float64(float32(kernels.LowLogit)); want != (possible == 1) {
		t.Fatalf("%s: token %d is possible: %d, want %t", what, x, possible, want)
	}
	if kernels.Overflowed(te.Z[te.Argmax]) || kernels.Overflowed(de.Z[de.Argmax]) {
		return 0 // no distribution
	}
	// An error of e in the logarithm of each probability changes the distance by about e.
	scale := math.Max(math.Abs(te.Z[te.Argmax]*te.Scale), math.Abs(de.Z[de.Argmax]*de.Scale))
	want := jensenShannon(tp, dp)
	if off := math.Abs(distance - want); off > 1e-4+2e-6*scale {
		t.Fatalf("%s: distance %g, want %g", what, distance, want)
	}
	return math.Abs(distance - want)
}

// TestDivergenceEnds checks that equal distributions have distance 0, in every bit, and disjoint distributions
// distance 1.
func TestDivergenceEnds(t *testing.T) {
	kerneltest.OnDevices(t, func(t *testing.T, dev webgpu.Device) {
		b := kerneltest.New(t, dev)
		const rows, vocab = 9, 700
		x := kerneltest.Logits(60, rows, vocab)
		low, high := make([]float32, rows*vocab), make([]float32, rows*vocab)
		for i := range low {
			low[i], high[i] = x[i], x[i]
			if i%vocab < vocab/2 {
				low[i] = float32(math.Inf(-1))
			} else {
				high[i] = float32(math.Inf(-1))
			}
		}
		for _, lanes := range kerneltest.Ways(dev) {
			for _, p := range []kernels.DrawParams{{}, {Temperature: 1.5},
				{Temperature: 0.8, TopP: 0.9, TopK: 50, MinP: 0.01}} {
				c := newComparison(b, lanes, x, x, vocab, p)
				out := b.Run(c.record, c.c.Out)[0]
				for row := range rows {
					if out[row*2] != 0 {
						t.Fatalf("lanes %d draw %+v: equal rows %d are %g apart", lanes, p, row,
							math.Float32frombits(out[row*2]))
					}
					if row%kerneltest.SamplingRows != 4 && out[row*2+1] != 1 {
						t.Fatalf("lanes %d draw %+v row %d: the draft's token is impossible to an equal target", lanes,
							p, row)
					}
				}
				c.close()
				c = newComparison(b, lanes, low, high, vocab, p)
				out = b.Run(c.record, c.c.Out)[0]
				for row := range rows {
					if r := row % kerneltest.SamplingRows; r == 3 || r == 4 { // NaN
						continue
					}
					if d := math.Float32frombits(out[row*2]); math.Abs(float64(d)-1) > 1e-5 || out[row*2+1] != 0 {
						t.Fatalf("lanes %d draw %+v row %d: disjoint rows are %g apart, possible %d", lanes, p, row, d,
							out[row*2+1])
					}
				}
				c.close()
			}
		}
	})
}

func TestDivergenceBatchInvariant(t *testing.T) {
	kerneltest.OnDevices(t, func(t *testing.T, dev webgpu.Device) {
		b := kerneltest.New(t, dev)
		const vocab = 300
		target, draft := kerneltest.Logits(70, 64, vocab), kerneltest.Logits(71, 64, vocab)
		for _, lanes := range kerneltest.Ways(dev) {
			for _, p := range []kernels.DrawParams{{}, {Temperature: 1, Seed: 4, TopK: 200}} {
				kerneltest.Invariant(t, 1, func(order []int) []uint32 {
					c := newComparison(b, lanes, kerneltest.Gather(target, vocab, order),
						kerneltest.Gather(draft, vocab, order), vocab, p)
					defer c.close()
					out := b.Run(c.record, c.c.Out)[0]
					var distances []uint32 // the drafted token depends on the position, and with it word 1
					for i := range order {
						distances = append(distances, out[i*DivergenceWords])
					}
					return distances
				})
			}
		}
	})
}
