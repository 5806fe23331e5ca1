package kernels

import (
	"fmt"
	"math"
	"testing"

	"foretoken/webgpu"
)

// comparison holds a Divergence under test, with the records that Filter makes for it.
type comparison struct {
	bench
	lanes                         Lanes
	c                             Comparison
	draftDraw, positions, scratch View
}

func newComparison(b bench, lanes Lanes, target, draft []float32, vocab int, p DrawParams) *comparison {
	rows := len(target) / vocab
	q := p
	q.Stream = 1
	return &comparison{bench: b, lanes: lanes, draftDraw: b.u32(words(q)), positions: b.u32(positionsFrom(5, rows)), scratch: b.poisoned(FilterScratch(rows) / 4),
		c: Comparison{Target: Logits{View: b.f32(target), Rows: rows, Vocab: vocab}, Draft: Logits{View: b.f32(draft), Rows: rows, Vocab: vocab},
			TargetRecord: b.poisoned(rows * FilterWords), DraftRecord: b.poisoned(rows * FilterWords), Draw: b.u32(words(p)), Out: b.poisoned(rows * DivergenceWords)}}
}

func (c *comparison) record(r *Recorder) {
	r.Filter(c.lanes, c.c.Target, c.c.Draw, c.positions, c.scratch, c.c.TargetRecord)
	r.Filter(c.lanes, c.c.Draft, c.draftDraw, c.positions, c.scratch, c.c.DraftRecord)
	r.Divergence(c.lanes, c.c)
}

func (c *comparison) close() {
	c.free(c.c.Target.View, c.c.Draft.View, c.c.TargetRecord, c.c.DraftRecord, c.c.Draw, c.c.Out, c.draftDraw, c.positions, c.scratch)
}

// jensenShannon is the distance by its definition, base 2.
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
	onDevices(t, func(t *testing.T, dev webgpu.Device) {
		b := bench{t, dev}
		draws := []DrawParams{{Seed: 1}, {Temperature: 1, Seed: 2}, {Temperature: 0.7, Seed: 3, TopK: 20, TopP: 0.9}, {Temperature: 2, Seed: 4, MinP: 0.1}}
		worst := 0.0
		for _, lanes := range ways(dev) {
			for _, vocab := range vocabularies() {
				for _, rows := range []int{1, 11} {
					if vocab > 10000 && rows == 1 {
						continue
					}
					draft, target := testLogits(50, rows, vocab), testLogits(51, rows, vocab)
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
						got := c.thrice(c.record, c.c.Out, c.c.TargetRecord, c.c.DraftRecord)
						for row := range rows {
							what := fmt.Sprintf("lanes %d vocab %d draw %+v row %d of %d", lanes, vocab, p, row, rows)
							worst = max(worst, c.check(what, got, target[row*vocab:][:vocab], draft[row*vocab:][:vocab], p, row))
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
func (c *comparison) check(what string, got []webgpu.Memory, target, draft []float32, p DrawParams, row int) float64 {
	t := c.t
	t.Helper()
	record := func(m webgpu.Memory) webgpu.Memory { return m[row*FilterWords:][:FilterWords] }
	distribution := func(z []float32, rec webgpu.Memory) (*exact, []float64, func(int) bool) {
		e := exactly(z, words(p), 0)
		kept := func(id int) bool { return e.z[id] >= fromBits(rec[1]) }
		if e.scale == 0 {
			e.scale, kept = 1, everything
		}
		return e, e.distribution(kept), kept
	}
	te, tp, kept := distribution(target, record(got[1]))
	de, dp, _ := distribution(draft, record(got[2]))
	distance, possible := float64(math.Float32frombits(got[0][row*2])), got[0][row*2+1]
	if !(distance >= 0 && distance <= 1) || possible > 1 {
		t.Fatalf("%s: distance %g, possible %d", what, distance, possible)
	}
	x := int(record(got[2])[0])
	if want := kept(x) && te.z[x] > float64(float32(LowLogit)); want != (possible == 1) {
		t.Fatalf("%s: token %d is possible: %d, want %t", what, x, possible, want)
	}
	if te.z[te.argmax] == float64(float32(LowLogit)) || de.z[de.argmax] == float64(float32(LowLogit)) {
		return 0 // there is no distribution
	}
	// An error of e in every logarithm of a probability moves the distance by about e.
	scale := math.Max(math.Abs(te.z[te.argmax]*te.scale), math.Abs(de.z[de.argmax]*de.scale))
	if scale > 1e6 {
		scale = 1 // one token at +inf has everything
	}
	want := jensenShannon(tp, dp)
	if off := math.Abs(distance - want); off > 1e-4+2e-6*scale {
		t.Fatalf("%s: distance %g, want %g", what, distance, want)
	}
	return math.Abs(distance - want)
}

// TestDivergenceEnds: equal distributions are 0 apart, in every bit, and those that share
// no token 1.
func TestDivergenceEnds(t *testing.T) {
	onDevices(t, func(t *testing.T, dev webgpu.Device) {
		b := bench{t, dev}
		const rows, vocab = 9, 700
		x := testLogits(60, rows, vocab)
		low, high := make([]float32, rows*vocab), make([]float32, rows*vocab)
		for i := range low {
			low[i], high[i] = x[i], x[i]
			if i%vocab < vocab/2 {
				low[i] = float32(math.Inf(-1))
			} else {
				high[i] = float32(math.NaN())
			}
		}
		for _, lanes := range ways(dev) {
			for _, p := range []DrawParams{{}, {Temperature: 1.5}, {Temperature: 0.8, TopP: 0.9, TopK: 50, MinP: 0.01}} {
				c := newComparison(b, lanes, x, x, vocab, p)
				out := b.run(c.record, c.c.Out)[0]
				for row := range rows {
					if out[row*2] != 0 {
						t.Fatalf("lanes %d draw %+v: equal rows %d are %g apart", lanes, p, row, math.Float32frombits(out[row*2]))
					}
					if row%samplingRows != 4 && out[row*2+1] != 1 {
						t.Fatalf("lanes %d draw %+v row %d: the draft's token is impossible to an equal target", lanes, p, row)
					}
				}
				c.close()
				c = newComparison(b, lanes, low, high, vocab, p)
				out = b.run(c.record, c.c.Out)[0]
				for row := range rows {
					if row%samplingRows == 4 { // no finite logit
						continue
					}
					if d := math.Float32frombits(out[row*2]); math.Abs(float64(d)-1) > 1e-5 || out[row*2+1] != 0 {
						t.Fatalf("lanes %d draw %+v row %d: disjoint rows are %g apart, possible %d", lanes, p, row, d, out[row*2+1])
					}
				}
				c.close()
			}
		}
	})
}

func TestDivergenceBatchInvariant(t *testing.T) {
	onDevices(t, func(t *testing.T, dev webgpu.Device) {
		b := bench{t, dev}
		const vocab = 300
		target, draft := testLogits(70, 64, vocab), testLogits(71, 64, vocab)
		for _, lanes := range ways(dev) {
			for _, p := range []DrawParams{{}, {Temperature: 1, Seed: 4, TopK: 200}} {
				invariant(t, 1, func(order []int) []uint32 {
					c := newComparison(b, lanes, gather(target, vocab, order), gather(draft, vocab, order), vocab, p)
					defer c.close()
					out := b.run(c.record, c.c.Out)[0]
					var distances []uint32 // the token drafted depends on the position, and with it what is possible
					for i := range order {
						distances = append(distances, out[i*DivergenceWords])
					}
					return distances
				})
			}
		}
	})
}
