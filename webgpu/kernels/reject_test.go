package kernels

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"foretoken/webgpu"
)

// chain holds a rejection under test: the draft draws every token of it from its own rows.
type chain struct {
	bench
	rows, vocab          int // rows of the target
	c                    Rejection
	draftDraw, scratch   View
	target, draft        []float32
	lanes                Lanes
	draftParams, targetP DrawParams
}

// newChain takes K+1 target rows and K draft rows; p is the target's draw.
func newChain(b bench, lanes Lanes, target, draft []float32, vocab int, p DrawParams, positions []uint32) *chain {
	rows := len(target) / vocab
	q := p
	q.Stream = 1
	return &chain{bench: b, rows: rows, vocab: vocab, lanes: lanes, target: target, draft: draft, draftParams: q, targetP: p,
		draftDraw: b.u32(words(q)), scratch: b.poisoned(FilterScratch(rows) / 4),
		c: Rejection{
			Target: Logits{View: b.f32(target), Rows: rows, Vocab: vocab}, Draft: Logits{View: b.f32(draft), Rows: rows - 1, Vocab: vocab},
			TargetRecord: b.poisoned(rows * FilterWords), DraftRecord: b.poisoned((rows - 1) * FilterWords),
			Draw: b.u32(words(p)), Positions: b.u32(positions), Out: b.poisoned(rows * RejectWords),
		}}
}

func (c *chain) record(r *Recorder) {
	r.Filter(c.lanes, c.c.Draft, c.draftDraw, c.c.Positions, c.scratch, c.c.DraftRecord)
	r.Filter(c.lanes, c.c.Target, c.c.Draw, c.c.Positions, c.scratch, c.c.TargetRecord)
	r.Reject(c.lanes, c.c)
}

func (c *chain) close() {
	c.free(c.draftDraw, c.scratch, c.c.Target.View, c.c.Draft.View, c.c.TargetRecord, c.c.DraftRecord, c.c.Draw, c.c.Positions, c.c.Out)
}

// check compares the verdicts with the rule applied in float64 to the records.
func (c *chain) check(what string, positions []uint32) {
	t := c.t
	t.Helper()
	got := c.thrice(c.record, c.c.Out, c.c.TargetRecord, c.c.DraftRecord)
	out, targetRec, draftRec := got[0], got[1], got[2]
	for row := range c.rows {
		what := fmt.Sprintf("%s row %d", what, row)
		accepted, token, rec := out[row*2] == 1, int(out[row*2+1]), targetRec[row*FilterWords:]
		if row+1 == c.rows {
			if accepted || token != int(rec[0]) {
				t.Fatalf("%s: the last row is not the target's draw", what)
			}
			continue
		}
		p := exactly(c.target[row*c.vocab:][:c.vocab], words(c.targetP), positions[row])
		q := exactly(c.draft[row*c.vocab:][:c.vocab], words(c.draftParams), positions[row])
		drec := draftRec[row*FilterWords:]
		x := int(drec[0])
		if p.scale == 0 {
			if accepted != (x == p.argmax) || token != p.argmax {
				t.Fatalf("%s: %t %d at temperature 0: drafted %d, argmax %d", what, accepted, token, x, p.argmax)
			}
			continue
		}
		pFloor, qFloor := fromBits(rec[1]), fromBits(drec[1])
		kept := func(id int) bool { return p.z[id] >= pFloor }
		pLSE, _ := logSumExp(p.scaled(), kept)
		qLSE, _ := logSumExp(q.scaled(), func(id int) bool { return q.z[id] >= qFloor })
		slack := 1e-4 + 2e-6*(math.Abs(pLSE)+math.Abs(qLSE))
		ratio, u := (p.z[x]*p.scale-pLSE)-(q.z[x]*q.scale-qLSE), math.Log(rowKey(words(c.targetP), streamAccept, positions[row]).uniform(0))
		if !kept(x) {
			ratio = math.Inf(-1)
		}
		if ratio = min(ratio, 0); accepted && u > ratio+slack || !accepted && u < ratio-slack {
			t.Fatalf("%s: accepted %t of %d with ln p/q %g and ln u %g", what, accepted, x, ratio, u)
		}
		if accepted {
			if token != x {
				t.Fatalf("%s: accepted %d but says %d", what, x, token)
			}
			continue
		}
		// The residual's logarithm may be off by as much as an error of slack in ln q/p makes it.
		key := rowKey(words(c.targetP), streamResidual, positions[row])
		residual := func(id int, slack float64) float64 {
			lp, e := p.z[id]*p.scale-pLSE, math.Inf(-1)
			if !kept(id) {
				return math.Inf(-1)
			}
			if q.z[id] >= qFloor {
				e = q.z[id]*q.scale - qLSE - lp + slack
			}
			if e >= 0 {
				return math.Inf(-1)
			}
			return lp + math.Log(-math.Expm1(e)) + key.gumbel(uint32(id))
		}
		best := math.Inf(-1)
		for id := range p.z {
			best = max(best, residual(id, slack))
		}
		if token >= c.vocab || residual(token, -slack) < best-1e-3 {
			t.Fatalf("%s: drew %d from the residual with score %g, the best is %g", what, token, residual(token, 0), best)
		}
	}
}

func TestReject(t *testing.T) {
	onDevices(t, func(t *testing.T, dev webgpu.Device) {
		b := bench{t, dev}
		draws := []DrawParams{{Seed: 1}, {Temperature: 1, Seed: 2}, {Temperature: 0.7, Seed: 3, TopK: 20, TopP: 0.9}, {Temperature: 2, Seed: 4, MinP: 0.1}}
		for _, lanes := range ways(dev) {
			for _, vocab := range vocabularies() {
				for _, rows := range []int{2, 9} {
					if vocab > 10000 && rows != 9 {
						continue
					}
					draft, at := testLogits(20, rows-1, vocab), positionsFrom(3, rows)
					// The target is near the draft in half of the rows and another distribution in the rest.
					target := testLogits(21, rows, vocab)
					for i := range draft {
						if i/vocab%2 == 0 {
							target[i] = draft[i] + target[i]/10
						}
					}
					for i, p := range draws {
						if vocab > 100000 && i != 2 {
							continue
						}
						c := newChain(b, lanes, target, draft, vocab, p, at)
						c.check(fmt.Sprintf("lanes %d vocab %d draw %+v", lanes, vocab, p), at)
						c.close()
					}
				}
			}
		}
	})
}

// Where target and draft are the same the residual is empty and everything is accepted.
func TestRejectAcceptsEqual(t *testing.T) {
	onDevices(t, func(t *testing.T, dev webgpu.Device) {
		b := bench{t, dev}
		const rows, vocab = 9, 511
		x := testLogits(30, rows, vocab)
		for _, lanes := range ways(dev) {
			c := newChain(b, lanes, x, x[:(rows-1)*vocab], vocab, DrawParams{Temperature: 0.9, Seed: 8, TopP: 0.95}, positionsFrom(1, rows))
			out := b.run(c.record, c.c.Out)[0]
			for row := range rows - 1 {
				if out[row*2] != 1 {
					t.Fatalf("lanes %d: row %d of equal distributions was rejected", lanes, row)
				}
			}
			c.close()
		}
	})
}

func TestRejectBatchInvariant(t *testing.T) {
	onDevices(t, func(t *testing.T, dev webgpu.Device) {
		b := bench{t, dev}
		const vocab = 300
		target, draft, at := testLogits(5, 64, vocab), testLogits(6, 64, vocab), positionsFrom(9, 64)
		last := testLogits(7, 1, vocab)
		for _, lanes := range ways(dev) {
			invariant(t, RejectWords, func(order []int) []uint32 {
				c := newChain(b, lanes, append(gather(target, vocab, order), last...), gather(draft, vocab, order), vocab,
					DrawParams{Temperature: 1, Seed: 4, TopK: 200}, append(gather(at, 1, order), 0))
				defer c.close()
				return b.run(c.record, c.c.Out)[0][:len(order)*RejectWords]
			})
		}
	})
}

// TestRejectEmitsTarget: whatever the draft proposes, what comes out has the target's distribution.
func TestRejectEmitsTarget(t *testing.T) {
	onDevices(t, func(t *testing.T, dev webgpu.Device) {
		b := bench{t, dev}
		const rows, vocab = 64, 40
		p, q := testLogits(41, 1, vocab), testLogits(42, 1, vocab)
		for i := range q {
			q[i] = (p[i] + q[i]) / 2
		}
		for _, lanes := range ways(dev) {
			draws := []DrawParams{{Temperature: 1.3, Seed: 1}, {Temperature: 2, Seed: 2, TopK: 15, TopP: 0.95}}
			if lanes == Grouped {
				draws = draws[:1]
			}
			for _, params := range draws {
				c := newChain(b, lanes, slices.Repeat(p, rows), slices.Repeat(q, rows-1), vocab, params, make([]uint32, rows))
				tau, accepted, judged := fromBits(b.run(c.record, c.c.TargetRecord)[0][1]), 0, 0
				counts := b.spread(rows, vocab, spreadRuns(lanes), c.c.Positions, c.c.Out, c.record, func(m webgpu.Memory, counts []int) {
					for row := range rows - 1 {
						accepted += int(m[row*RejectWords])
						judged++
						counts[m[row*RejectWords+1]]++
					}
				})
				e, d := exactly(p, words(params), 0), exactly(q, words(params), 0)
				want := e.distribution(func(id int) bool { return e.z[id] >= tau })
				what := fmt.Sprintf("lanes %d draw %+v", lanes, params)
				chiSquare(t, what, counts, want)
				if params.TopK == 0 { // the chance of acceptance is the overlap of the two
					overlap, n := 0.0, float64(judged)
					for i, v := range d.distribution(everything) {
						overlap += min(v, want[i])
					}
					if got := float64(accepted) / n; math.Abs(got-overlap) > 5*math.Sqrt(overlap*(1-overlap)/n) {
						t.Fatalf("%s: accepted %g of the drafts, the overlap is %g", what, got, overlap)
					}
				}
				c.close()
			}
		}
	})
}
