package tree

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"foretoken/spec"
	"foretoken/spec/spectest"
	"foretoken/webgpu"
	"foretoken/webgpu/kernels"
	"foretoken/webgpu/kernels/kerneltest"
	"foretoken/webgpu/kernels/sample"
)

// sampledTree is a Verification under test: rows whose children are drawn from their own draft rows.
type sampledTree struct {
	kerneltest.Bench
	lanes         kernels.Lanes
	params        kernels.DrawParams
	target, draft []float32
	vocab         int
	at            []uint32
	children      [][]int32
	lists         ChildLists
	positions     kernels.View
	scratch       kernels.View
	c             Verification
}

// newSampledTree draws counts[i] children for row i, at most as many as have a probability, without replacement
// (Gumbel top-k with the draft's noise).
func newSampledTree(b kerneltest.Bench, lanes kernels.Lanes, target, draft []float32, vocab int, p kernels.DrawParams,
	at []uint32, counts []int) *sampledTree {
	rows := len(target) / vocab
	s := &sampledTree{Bench: b, lanes: lanes, params: p, target: target, draft: draft, vocab: vocab, at: at,
		positions: b.U32(at), scratch: b.Poisoned(sample.FilterScratch(rows) / 4)}
	for row := range rows {
		s.children = append(s.children, withoutReplacement(draft[row*vocab:][:vocab], p, at[row], counts[row]))
		s.lists.Add(at[row], uint32(row), s.children[row])
	}
	s.c = Verification{Target: kernels.Logits{View: b.F32(target), Rows: rows, Vocab: vocab},
		Draft:        kernels.Logits{View: b.F32(draft), Rows: rows, Vocab: vocab},
		TargetRecord: b.Poisoned(rows * kernels.FilterWords), Draw: b.U32(kerneltest.Words(p)),
		Nodes:    b.U32(s.lists.Nodes),
		Children: b.U32(append(s.lists.Children, 0)), Out: b.Poisoned(rows * VerdictWords)}
	return s
}

func withoutReplacement(z []float32, p kernels.DrawParams, position uint32, count int) []int32 {
	scale := kernels.Float(kerneltest.Words(p)[0])
	if scale == 0 {
		scale = 1
	}
	q := make([]float64, len(z))
	softmax(q, z, scale)
	key := kernels.RowKey(kerneltest.Words(p), 1, position)
	var ids []int32
	scores := make([]float64, len(z))
	for i := range q {
		if scores[i] = math.Log(q[i]) + key.Gumbel(uint32(i)); q[i] > 0 {
			ids = append(ids, int32(i))
		}
	}
	slices.SortFunc(ids, func(a, b int32) int {
		if scores[a] > scores[b] {
			return -1
		}
		return 1
	})
	return ids[:min(count, len(ids))]
}

func (s *sampledTree) record(r *kernels.Recorder) {
	sample.RecordFilter(r, s.lanes, s.c.Target, s.c.Draw, s.positions, s.scratch, s.c.TargetRecord)
	RecordVerify(r, s.lanes, s.c)
}

func (s *sampledTree) close() {
	s.Free(s.c.Target.View, s.c.Draft.View, s.c.TargetRecord, s.c.Draw, s.c.Nodes, s.c.Children, s.c.Out, s.positions,
		s.scratch)
}

// tally counts rows by how their verdict compares with the reference of package spec.
type tally struct{ same, tied, accepted int }

// check compares the verdicts with the rule of package spec in float64, on distributions computed from the logits
// and the thresholds: a decision may differ only if the two sides of a comparison are equal up to f32 rounding.
func (s *sampledTree) check(what string, count *tally) {
	t := s.T
	t.Helper()
	got := s.Thrice(s.record, s.c.Out, s.c.TargetRecord)
	for row := range s.c.Target.Rows {
		what := fmt.Sprintf("%s row %d", what, row)
		place, token := got[0][row*VerdictWords], int32(got[0][row*VerdictWords+1])
		record := got[1][row*kernels.FilterWords:][:kernels.FilterWords]
		children := s.children[row]
		if token < 0 || int(token) >= s.vocab ||
			place != NoChild && (int(place) >= len(children) || children[place] != token) {
			t.Fatalf("%s: place %d token %d of children %v", what, int32(place), token, children)
		}
		if s.params.Temperature == 0 || len(children) == 0 {
			want, y := slices.Index(children, int32(record[3])), int32(record[3])
			if len(children) == 0 {
				y = int32(record[0])
			}
			if int32(place) != int32(want) || token != y {
				t.Fatalf("%s: place %d token %d, want %d and %d", what, int32(place), token, want, y)
			}
			count.same++
			continue
		}
		te := kerneltest.Exactly(s.target[row*s.vocab:][:s.vocab], kerneltest.Words(s.params), s.at[row])
		de := kerneltest.Exactly(s.draft[row*s.vocab:][:s.vocab], kerneltest.Words(s.params), s.at[row])
		if kernels.Overflowed(te.Z[te.Argmax]) || kernels.Overflowed(de.Z[de.Argmax]) {
			continue // no distribution
		}
		p := te.Distribution(func(id int) bool { return te.Z[id] >= kernels.Float(record[1]) })
		q := de.Distribution(kerneltest.Everything)
		wantPlace, wantToken := spectest.VerifyChildren(p, q, children, s.params.Seed, s.at[row])
		if place != NoChild {
			count.accepted++
		}
		if int32(place) == int32(wantPlace) && token == wantToken {
			count.same++
			continue
		}
		count.tied++
		scale := math.Max(math.Abs(te.Z[te.Argmax]*te.Scale), math.Abs(de.Z[de.Argmax]*de.Scale))
		s.follow(what, p, q, children, place, token, row, 2e-4+4e-6*math.Min(scale, 1e6))
	}
}

// follow repeats the decisions of a verdict and fails the test if one differs from the rule by more than slack in a
// logarithm.
func (s *sampledTree) follow(what string, p, q []float64, children []int32, place uint32, token int32, row int,
	slack float64) {
	t := s.T
	t.Helper()
	p, q = slices.Clone(p), slices.Clone(q)
	scale := func(x []float64) bool {
		total := 0.0
		for _, v := range x {
			total += v
		}
		for i := range x {
			x[i] /= total
		}
		return total > 0
	}
	// loose bounds the error of p after subtractions: the rounding error of the subtrahends, scaled up.
	loose := make([]float64, len(p))
	for i := range p {
		loose[i] = slack * p[i]
	}
	for j, x := range children {
		if !scale(q) {
			break
		}
		u := spectest.Hash(s.params.Seed, spec.StreamAccept, s.at[row], uint32(j))
		limit := (float64(u) + 0.5) / (1 << 32) * q[x]
		accepted, near := uint32(j) == place, loose[x]+slack*limit
		if accepted && p[x] < limit-near || !accepted && p[x] > limit+near {
			t.Fatalf("%s: child %d of %v accepted %t with p %g (± %g) and u q %g", what, j, children, accepted, p[x],
				near, limit)
		}
		if accepted {
			return
		}
		total, off := 0.0, 0.0
		for i := range p {
			loose[i] += slack * q[i]
			p[i] = max(p[i]-q[i], 0)
			total += p[i]
			off += loose[i]
		}
		if total <= 2*off {
			return // p equals q up to rounding
		}
		for i := range p {
			loose[i] = loose[i]/total + p[i]/total*off/total
			p[i] /= total
		}
		q[x] = 0
	}
	key, best := kernels.RowKey(kerneltest.Words(s.params), kernels.StreamResidual, s.at[row]), math.Inf(-1)
	for i := range p {
		if p[i] > loose[i] {
			best = max(best, math.Log(p[i]-loose[i])+key.Gumbel(uint32(i)))
		}
	}
	if score := math.Log(p[token]+loose[token]) + key.Gumbel(uint32(token)); score < best-1e-3 {
		t.Fatalf("%s: drew %d of what is left with a score of %g at most, the best is %g at least", what, token, score,
			best)
	}
}

func TestVerify(t *testing.T) {
	kerneltest.OnDevices(t, func(t *testing.T, dev webgpu.Device) {
		b := kerneltest.New(t, dev)
		draws := []kernels.DrawParams{{Seed: 1}, {Temperature: 1, Seed: 2},
			{Temperature: 0.7, Seed: 3, TopK: 20, TopP: 0.9}, {Temperature: 2, Seed: 4, MinP: 0.1}}
		var count tally
		for _, lanes := range kerneltest.Ways(dev) {
			for _, vocab := range kerneltest.Vocabularies() {
				sizes := []int{1, 23}
				if vocab > 10000 { // a row of each count below
					sizes = []int{7}
				}
				for _, rows := range sizes {
					draft, target := kerneltest.Logits(80, rows, vocab), kerneltest.Logits(81, rows, vocab)
					counts := make([]int, rows)
					for i := range counts {
						counts[i] = []int{4, 1, 10, 0, 3, 2, 16}[i%7]
					}
					for i := range draft { // near each other in a third of the rows, nearly equal in another
						switch i / vocab % 3 {
						case 1:
							target[i] = draft[i] + target[i]/10
						case 2:
							target[i] = draft[i] + target[i]/1000
						}
					}
					for i, p := range draws {
						if vocab > 100000 && i != 2 {
							continue
						}
						s := newSampledTree(b, lanes, target, draft, vocab, p, kerneltest.PositionsFrom(3, rows),
							counts)
						s.check(fmt.Sprintf("lanes %d vocab %d draw %+v", lanes, vocab, p), &count)
						s.close()
					}
				}
			}
		}
		t.Logf("%d verdicts as in float64, %d others tied; %d rows accepted a child", count.same, count.tied,
			count.accepted)
		if count.same == 0 || count.accepted == 0 || count.tied*50 > count.same {
			t.Errorf("%d of %d verdicts differ from the reference", count.tied, count.same+count.tied)
		}
	})
}

// If a token has nearly all of the draft's mass, the other children are drawn from a rest of q far below the
// rounding error of 1.
func TestVerifySureDraft(t *testing.T) {
	kerneltest.OnDevices(t, func(t *testing.T, dev webgpu.Device) {
		b := kerneltest.New(t, dev)
		const rows, vocab = 40, 600
		draft, target := kerneltest.Logits(90, rows, vocab), kerneltest.Logits(91, rows, vocab)
		counts := make([]int, rows)
		for row := range rows {
			for i := range vocab { // plain rows: degenerate rows are tested above
				draft[row*vocab+i], target[row*vocab+i] = float32(math.Sin(float64(row*vocab+i*i))),
					float32(math.Cos(float64(row+3*i*i)))
			}
			draft[row*vocab+row] += []float32{20, 30, 60, 200}[row%4]
			target[row*vocab+row+1] += 6
			counts[row] = 5
		}
		for _, lanes := range kerneltest.Ways(dev) {
			var count tally
			s := newSampledTree(b, lanes, target, draft, vocab, kernels.DrawParams{Temperature: 1, Seed: 77},
				kerneltest.PositionsFrom(1, rows), counts)
			s.check(fmt.Sprintf("lanes %d", lanes), &count)
			s.close()
			if count.same < rows*9/10 {
				t.Errorf("lanes %d: only %d of %d verdicts are the reference's", lanes, count.same, rows)
			}
		}
	})
}

func TestVerifyBatchInvariant(t *testing.T) {
	kerneltest.OnDevices(t, func(t *testing.T, dev webgpu.Device) {
		b := kerneltest.New(t, dev)
		const vocab = 300
		target, draft := kerneltest.Logits(95, 64, vocab), kerneltest.Logits(96, 64, vocab)
		at := kerneltest.PositionsFrom(9, 64)
		counts := make([]int, 64)
		for i := range counts {
			counts[i] = i % 9
		}
		for _, lanes := range kerneltest.Ways(dev) {
			kerneltest.Invariant(t, VerdictWords, func(order []int) []uint32 {
				s := newSampledTree(b, lanes, kerneltest.Gather(target, vocab, order),
					kerneltest.Gather(draft, vocab, order), vocab,
					kernels.DrawParams{Temperature: 1, Seed: 4, TopK: 200}, kerneltest.Gather(at, 1, order),
					kerneltest.Gather(counts, 1, order))
				defer s.close()
				return b.Run(s.record, s.c.Out)[0]
			})
		}
	})
}

// TestVerifyEmitsTarget checks that the emitted tokens, accepted or drawn after the last rejection, have the
// target's distribution for every draft.
func TestVerifyEmitsTarget(t *testing.T) {
	kerneltest.CountsDraws(t)
	kerneltest.OnDevices(t, func(t *testing.T, dev webgpu.Device) {
		b := kerneltest.New(t, dev)
		const rows, vocab, children = 64, 24, 3
		p, q := kerneltest.Logits(41, 1, vocab), kerneltest.Logits(42, 1, vocab)
		for i := range q {
			q[i] = (p[i] + q[i]) / 2
		}
		for _, lanes := range kerneltest.Ways(dev) {
			draws := []kernels.DrawParams{{Temperature: 1.3, Seed: 1}, {Temperature: 2, Seed: 2, TopK: 12, TopP: 0.95}}
			runs := kerneltest.SpreadRuns(lanes)
			if testing.Short() && !dev.Info().Host() {
				draws, runs = draws[1:], runs/4
			}
			for _, params := range draws {
				s := newSampledTree(b, lanes, slices.Repeat(p, rows), slices.Repeat(q, rows), vocab, params,
					make([]uint32, rows), slices.Repeat([]int{children}, rows))
				r := kernels.NewRecorder("emits", dev.Info())
				s.record(r)
				built, err := kernels.Build(dev, r)
				if err != nil {
					t.Fatal(err)
				}
				tau := kernels.Float(b.Run(s.record, s.c.TargetRecord)[0][1])
				counts, accepted, out := make([]int, vocab), make([]int, children+1), webgpu.NewMemory(s.c.Out.Size)
				for run := range runs {
					var lists ChildLists
					at := kerneltest.PositionsFrom(run*rows, rows)
					for row, position := range at {
						lists.Add(position, uint32(row), withoutReplacement(q, params, position, children))
					}
					for _, w := range []struct {
						to   kernels.View
						data []uint32
					}{{s.positions, at}, {s.c.Nodes, lists.Nodes}, {s.c.Children, lists.Children}} {
						if err := dev.Write(w.to.Buffer, 0, webgpu.U32Bytes(w.data)); err != nil {
							t.Fatal(err)
						}
					}
					if err := dev.Run(built.Programs,
						webgpu.Region{Buffer: s.c.Out.Buffer, Dst: out.Bytes()}); err != nil {
						t.Fatal(err)
					}
					for row := range rows {
						counts[out[row*VerdictWords+1]]++
						accepted[min(out[row*VerdictWords], children)]++
					}
				}
				e := kerneltest.Exactly(p, kerneltest.Words(params), 0)
				spectest.ChiSquare(t, fmt.Sprintf("lanes %d draw %+v", lanes, params), counts,
					e.Distribution(func(id int) bool { return e.Z[id] >= tau }))
				if slices.Min(accepted) == 0 { // every outcome occurred
					t.Errorf("lanes %d draw %+v: accepted by place, none last: %v", lanes, params, accepted)
				}
				built.Free()
				s.close()
			}
		}
	})
}

// TestVerifyJoint verifies trees of two levels over a tiny vocabulary: the two emitted tokens must have the
// target's joint distribution, whichever of them were drafted. If no node decides the second token, it is drawn
// plainly.
func TestVerifyJoint(t *testing.T) {
	kerneltest.CountsDraws(t)
	kerneltest.OnDevices(t, func(t *testing.T, dev webgpu.Device) {
		b := kerneltest.New(t, dev)
		const trees, children, vocab = 12, 3, 5
		const nodes = 1 + children // of a tree: the root and its children, which have children of their own
		// Logits depend on the previous token: row 0 is the root's, row 1+id follows token id.
		p, q := kerneltest.Logits(61, 8, vocab), kerneltest.Logits(62, 8, vocab)
		for i := range p {
			p[i], q[i] = float32(math.Sin(float64(i*i)))*1.5, float32(math.Sin(float64(i*i))+math.Cos(float64(3*i)))
		}
		params := kernels.DrawParams{Temperature: 1.1, Seed: 9, TopP: 0.97}
		rowOf := func(x []float32, after int32) []float32 { return x[(1+after)*vocab:][:vocab] }
		for _, lanes := range kerneltest.Ways(dev) {
			var s *sampledTree
			var built *kernels.Built
			counts := make([]int, vocab*vocab)
			runs := kerneltest.SpreadRuns(lanes) / 4
			if dev.Info().Host() { // buffers are cheap
				runs = 4 * kerneltest.SpreadRuns(lanes)
			}
			second := 0 // outcomes whose second token was decided by the tree
			for run := range runs {
				var target, draft []float32
				var at []uint32
				var tokens []int32 // of each tree's first level
				for tree := range trees {
					position := uint32(2 * (run*trees + tree))
					level := withoutReplacement(rowOf(q, -1), params, position, children)
					tokens = append(tokens, level...)
					target, draft, at = append(target, rowOf(p, -1)...), append(draft, rowOf(q, -1)...),
						append(at, position)
					for _, x := range level {
						target, draft, at = append(target, rowOf(p, x)...), append(draft, rowOf(q, x)...),
							append(at, position+1)
					}
				}
				next := newSampledTree(b, lanes, target, draft, vocab, params, at,
					slices.Repeat([]int{children, 2, 0, 2}, trees))
				if s == nil {
					s = next
					r := kernels.NewRecorder("joint", dev.Info())
					s.record(r)
					var err error
					if built, err = kernels.Build(dev, r); err != nil {
						t.Fatal(err)
					}
				} else {
					for _, w := range []struct {
						to   kernels.View
						data []byte
					}{{s.c.Target.View, webgpu.F32Bytes(target)}, {s.c.Draft.View, webgpu.F32Bytes(draft)},
						{s.positions, webgpu.U32Bytes(at)},
						{s.c.Nodes, webgpu.U32Bytes(next.lists.Nodes)},
						{s.c.Children, webgpu.U32Bytes(next.lists.Children)}} {
						if err := dev.Write(w.to.Buffer, 0, w.data); err != nil {
							t.Fatal(err)
						}
					}
					next.close()
				}
				out := webgpu.NewMemory(s.c.Out.Size)
				if err := dev.Run(built.Programs, webgpu.Region{Buffer: s.c.Out.Buffer, Dst: out.Bytes()}); err != nil {
					t.Fatal(err)
				}
				sampling := spec.Sampling{Temperature: params.Temperature, TopP: params.TopP, Seed: params.Seed}
				for tree := range trees {
					verdict := out[tree*nodes*VerdictWords:]
					first := int32(verdict[1])
					var then int32
					if place := verdict[0]; place != NoChild {
						if tokens[tree*children+int(place)] != first {
							t.Fatalf("lanes %d: place %d is not token %d", lanes, place, first)
						}
						then = int32(verdict[(1+place)*VerdictWords+1])
						second++
					} else {
						then = spectest.Draw(sampling, rowOf(p, first), spec.StreamTarget, uint32(2*(run*trees+tree)+1))
					}
					counts[first*vocab+then]++
				}
			}
			want := make([]float64, vocab*vocab)
			sampling := spec.Sampling{Temperature: params.Temperature, TopP: params.TopP}
			for first, chance := range spectest.Distribution(sampling, rowOf(p, -1)) {
				for then, after := range spectest.Distribution(sampling, rowOf(p, int32(first))) {
					want[first*vocab+then] = chance * after
				}
			}
			spectest.ChiSquare(t, fmt.Sprintf("lanes %d", lanes), counts, want)
			if second == 0 {
				t.Errorf("lanes %d: no child was accepted", lanes)
			}
			t.Logf("lanes %d: %d outcomes, %d second tokens decided by the tree", lanes, runs*trees, second)
			built.Free()
			s.close()
		}
	})
}
