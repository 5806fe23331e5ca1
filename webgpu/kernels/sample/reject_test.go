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

// chain is a Rejection under test: the draft draws each token from its own row.
type chain struct {
	kerneltest.Bench
	rows, vocab          int // rows of the target
	c                    Rejection
	draftDraw, scratch   kernels.View
	target, draft        []float32
	lanes                kernels.Lanes
	draftParams, targetP kernels.DrawParams
}

// newChain takes K+1 target rows and K draft rows; p is the target's draw.
func newChain(b kerneltest.Bench, lanes kernels.Lanes, target, draft []float32, vocab int, p kernels.DrawParams,
	positions []uint32) *chain {
	rows := len(target) / vocab
	q := p
	q.Stream = 1
	return &chain{Bench: b, rows: rows, vocab: vocab, lanes: lanes, target: target, draft: draft, draftParams: q,
		targetP:   p,
		draftDraw: b.U32(kerneltest.Words(q)), scratch: b.Poisoned(FilterScratch(rows) / 4),
		c: Rejection{
			Target:       kernels.Logits{View: b.F32(target), Rows: rows, Vocab: vocab},
			Draft:        kernels.Logits{View: b.F32(draft), Rows: rows - 1, Vocab: vocab},
			TargetRecord: b.Poisoned(rows * kernels.FilterWords),
			DraftRecord:  b.Poisoned((rows - 1) * kernels.FilterWords),
			Draw:         b.U32(kerneltest.Words(p)), Positions: b.U32(positions), Out: b.Poisoned(rows * RejectWords),
		}}
}

func (c *chain) record(r *kernels.Recorder) {
	RecordFilter(r, c.lanes, c.c.Draft, c.draftDraw, c.c.Positions, c.scratch, c.c.DraftRecord)
	RecordFilter(r, c.lanes, c.c.Target, c.c.Draw, c.c.Positions, c.scratch, c.c.TargetRecord)
	RecordReject(r, c.lanes, c.c)
}

func (c *chain) close() {
	c.Free(c.draftDraw, c.scratch, c.c.Target.View, c.c.Draft.View, c.c.TargetRecord, c.c.DraftRecord, c.c.Draw,
		c.c.Positions, c.c.Out)
}

// check compares the verdicts with the rule in float64, applied to the records.
func (c *chain) check(what string, positions []uint32) {
	t := c.T
	t.Helper()
	got := c.Thrice(c.record, c.c.Out, c.c.TargetRecord, c.c.DraftRecord)
	out, targetRec, draftRec := got[0], got[1], got[2]
	for row := range c.rows {
		what := fmt.Sprintf("%s row %d", what, row)
		accepted, token, rec := out[row*2] == 1, int(out[row*2+1]), targetRec[row*kernels.FilterWords:]
		if row+1 == c.rows {
			if accepted || token != int(rec[0]) {
				t.Fatalf("%s: the last row is not the target's draw", what)
			}
			continue
		}
		p := kerneltest.Exactly(c.target[row*c.vocab:][:c.vocab], kerneltest.Words(c.targetP), positions[row])
		q := kerneltest.Exactly(c.draft[row*c.vocab:][:c.vocab], kerneltest.Words(c.draftParams), positions[row])
		drec := draftRec[row*kernels.FilterWords:]
		x := int(drec[0])
		if p.Scale == 0 {
			if accepted != (x == p.Argmax) || token != p.Argmax {
				t.Fatalf("%s: %t %d at temperature 0: drafted %d, argmax %d", what, accepted, token, x, p.Argmax)
			}
			continue
		}
		if kernels.Overflowed(p.Z[p.Argmax]) || kernels.Overflowed(q.Z[q.Argmax]) {
			continue // no distribution: the host refuses the row
		}
		pFloor, qFloor := kernels.Float(rec[1]), kernels.Float(drec[1])
		kept := func(id int) bool { return p.Z[id] >= pFloor }
		pLSE, _ := kerneltest.LogSumExp(p.Scaled(), kept)
		qLSE, _ := kerneltest.LogSumExp(q.Scaled(), func(id int) bool { return q.Z[id] >= qFloor })
		slack := 1e-4 + 2e-6*(math.Abs(pLSE)+math.Abs(qLSE))
		ratio := (p.Z[x]*p.Scale - pLSE) - (q.Z[x]*q.Scale - qLSE)
		u := math.Log(kernels.RowKey(kerneltest.Words(c.targetP), kernels.StreamAccept, positions[row]).Uniform(0))
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
		// An error of slack in ln q/p propagates to the logarithm of the residual.
		key := kernels.RowKey(kerneltest.Words(c.targetP), kernels.StreamResidual, positions[row])
		residual := func(id int, slack float64) float64 {
			lp, e := p.Z[id]*p.Scale-pLSE, math.Inf(-1)
			if !kept(id) {
				return math.Inf(-1)
			}
			if q.Z[id] >= qFloor {
				e = q.Z[id]*q.Scale - qLSE - lp + slack
			}
			if e >= 0 {
				return math.Inf(-1)
			}
			return lp + math.Log(-math.Expm1(e)) + key.Gumbel(uint32(id))
		}
		best := math.Inf(-1)
		for id := range p.Z {
			best = max(best, residual(id, slack))
		}
		if token >= c.vocab || residual(token, -slack) < best-1e-3 {
			t.Fatalf("%s: drew %d from the residual with score %g, the best is %g", what, token, residual(token, 0),
				best)
		}
	}
}

func TestReject(t *testing.T) {
	kerneltest.OnDevices(t, func(t *testing.T, dev webgpu.Device) {
		b := kerneltest.New(t, dev)
		draws := []kernels.DrawParams{{Seed: 1}, {Temperature: 1, Seed: 2},
			{Temperature: 0.7, Seed: 3, TopK: 20, TopP: 0.9}, {Temperature: 2, Seed: 4, MinP: 0.1}}
		for _, lanes := range kerneltest.Ways(dev) {
			for _, vocab := range kerneltest.Vocabularies() {
				for _, rows := range []int{2, 9} {
					if vocab > 10000 && rows != 9 {
						continue
					}
					draft, at := kerneltest.Logits(20, rows-1, vocab), kerneltest.PositionsFrom(3, rows)
					// The target is near the draft in half of the rows and another distribution in the rest.
					target := kerneltest.Logits(21, rows, vocab)
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

// If target and draft are equal, the residual is empty and everything is accepted.
func TestRejectAcceptsEqual(t *testing.T) {
	kerneltest.OnDevices(t, func(t *testing.T, dev webgpu.Device) {
		b := kerneltest.New(t, dev)
		const rows, vocab = 9, 511
		x := kerneltest.Logits(30, rows, vocab)
		for _, lanes := range kerneltest.Ways(dev) {
			c := newChain(b, lanes, x, x[:(rows-1)*vocab], vocab,
				kernels.DrawParams{Temperature: 0.9, Seed: 8, TopP: 0.95}, kerneltest.PositionsFrom(1, rows))
			out := b.Run(c.record, c.c.Out)[0]
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
	kerneltest.OnDevices(t, func(t *testing.T, dev webgpu.Device) {
		b := kerneltest.New(t, dev)
		const vocab = 300
		target, draft := kerneltest.Logits(5, 64, vocab), kerneltest.Logits(6, 64, vocab)
		at := kerneltest.PositionsFrom(9, 64)
		last := kerneltest.Logits(7, 1, vocab)
		for _, lanes := range kerneltest.Ways(dev) {
			kerneltest.Invariant(t, RejectWords, func(order []int) []uint32 {
				c := newChain(b, lanes, append(kerneltest.Gather(target, vocab, order), last...),
					kerneltest.Gather(draft, vocab, order), vocab,
					kernels.DrawParams{Temperature: 1, Seed: 4, TopK: 200}, append(kerneltest.Gather(at, 1, order), 0))
				defer c.close()
				return b.Run(c.record, c.c.Out)[0][:len(order)*RejectWords]
			})
		}
	})
}

// TestRejectEmitsTarget checks that the emitted tokens have the target's distribution for every draft.
func TestRejectEmitsTarget(t *testing.T) {
	kerneltest.CountsDraws(t)
	kerneltest.OnDevices(t, func(t *testing.T, dev webgpu.Device) {
		b := kerneltest.New(t, dev)
		const rows, vocab = 64, 40
		p, q := kerneltest.Logits(41, 1, vocab), kerneltest.Logits(42, 1, vocab)
		for i := range q {
			q[i] = (p[i] + q[i]) / 2
		}
		for _, lanes := range kerneltest.Ways(dev) {
			draws := []kernels.DrawParams{{Temperature: 1.3, Seed: 1}, {Temperature: 2, Seed: 2, TopK: 15, TopP: 0.95}}
			if lanes == kernels.Grouped {
				draws = draws[:1]
			}
			for _, params := range draws {
				c := newChain(b, lanes, slices.Repeat(p, rows), slices.Repeat(q, rows-1), vocab, params,
					make([]uint32, rows))
				tau, accepted, verified := kernels.Float(b.Run(c.record, c.c.TargetRecord)[0][1]), 0, 0
				counts := spread(b, rows, vocab, kerneltest.SpreadRuns(lanes), c.c.Positions, c.c.Out, c.record,
					func(m webgpu.Memory, counts []int) {
						for row := range rows - 1 {
							accepted += int(m[row*RejectWords])
							verified++
							counts[m[row*RejectWords+1]]++
						}
					})
				e := kerneltest.Exactly(p, kerneltest.Words(params), 0)
				d := kerneltest.Exactly(q, kerneltest.Words(params), 0)
				want := e.Distribution(func(id int) bool { return e.Z[id] >= tau })
				what := fmt.Sprintf("lanes %d draw %+v", lanes, params)
				spectest.ChiSquare(t, what, counts, want)
				if params.TopK == 0 { // the chance of acceptance is the overlap of the two
					overlap, n := 0.0, float64(verified)
					for i, v := range d.Distribution(kerneltest.Everything) {
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
