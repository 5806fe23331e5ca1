package runner

import (
	"context"
	"fmt"
	"math"
	"slices"
	"testing"

	"foretoken/models/graph"
	"foretoken/spec"
	"foretoken/spec/spectest"
	"foretoken/webgpu"
)

var background = context.Background()

// text is a prompt that the small test model, trained on children's stories, can continue.
var text = []int32{1, 403, 407, 261, 378, 432, 396, 268, 338, 459, 261, 325, 413}

// loadDraft loads a test model as a draft.
func loadDraft(t *testing.T, dev webgpu.Device, name string, o graph.Options) *Draft {
	t.Helper()
	if o.Context == 0 {
		o.Context = 128
	}
	d, err := LoadDraft(background, dev, testModel(t, name), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	return d
}

// growth lists the programs of trees that grow to a depth by k, from beams that the host chooses too if expand is set.
func growth(depth, k int, expand bool) spec.Programs {
	p := spec.Programs{Draft: spec.DraftTree, Depth: depth, Widths: []int{k}}
	if expand {
		p.Draft = spec.DraftExpanded
	}
	return p
}

// prefilled empties a draft's sequence and prefills a text.
func prefilled(t *testing.T, d *Draft, tokens []int32) {
	t.Helper()
	d.Reset()
	if err := d.Prefill(background, tokens); err != nil {
		t.Fatal(err)
	}
}

// mustLevels copies the result of a call on a draft and fails the test on an error.
func mustLevels(t *testing.T) func([]spec.Level, error) []spec.Level {
	return func(levels []spec.Level, err error) []spec.Level {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		out := make([]spec.Level, len(levels))
		for i, l := range levels {
			out[i] = spec.Level{Candidates: slices.Clone(l.Candidates), Beams: slices.Clone(l.Beams),
				Entropies: slices.Clone(l.Entropies), Accepts: slices.Clone(l.Accepts)}
		}
		return out
	}
}

// sameLevels fails the test if two trees differ in a bit.
func sameLevels(t *testing.T, what string, got, want []spec.Level) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d levels, want %d", what, len(got), len(want))
	}
	for i := range want {
		g, w := got[i], want[i]
		if !slices.Equal(g.Candidates, w.Candidates) || !slices.Equal(g.Beams, w.Beams) ||
			!slices.Equal(g.Entropies, w.Entropies) || !slices.Equal(g.Accepts, w.Accepts) {
			t.Fatalf("%s: level %d is\n%+v, want\n%+v", what, i, g, w)
		}
	}
}

// bestBeams returns the k best candidates of the last level by V; ties go to the lower index.
func bestBeams(levels []spec.Level, k int) []int32 {
	values := [][]float32{{0}}
	for i, l := range levels {
		if i > 0 {
			var v []float32
			for _, b := range levels[i-1].Beams {
				c := levels[i-1].Candidates[b]
				v = append(v, values[i-1][c.Beam]+c.LogQ)
			}
			values = append(values, v)
		}
		if i == len(levels)-1 {
			order := make([]int32, len(l.Candidates))
			for j := range order {
				order[j] = int32(j)
			}
			v := func(c int32) float32 { return values[i][l.Candidates[c].Beam] + l.Candidates[c].LogQ }
			slices.SortStableFunc(order, func(a, b int32) int {
				switch {
				case v(a) > v(b):
					return -1
				case v(a) < v(b):
					return 1
				}
				return 0
			})
			return order[:k]
		}
	}
	return nil
}

// pathTo returns the tokens on the path to a beam of a level, and their beams.
func pathTo(levels []spec.Level, level int, beam int32) (tokens, beams []int32) {
	for ; level >= 0; level-- {
		c := levels[level].Candidates[levels[level].Beams[beam]]
		tokens, beams = append(tokens, c.Token), append(beams, beam)
		beam = c.Beam
	}
	slices.Reverse(tokens)
	slices.Reverse(beams)
	return tokens, beams
}

var treeSamplings = map[string]spec.DraftRequest{
	"greedy":  {},
	"coupled": {Coupled: true, Sampling: spec.Sampling{Temperature: 0.8, Seed: 7}},
	"apart":   {Sampling: spec.Sampling{Temperature: 1.2, Seed: 7}},
}

// TestGrowthEqualsDraft grows the same tree at once, in steps and beam by beam: all numbers have the same bits,
// nothing is compiled on the way, and each call is one submit.
func TestGrowthEqualsDraft(t *testing.T) {
	onDevices(t, func(t *testing.T, dev webgpu.Device) {
		d := loadDraft(t, dev, "tiny-f32", graph.Options{})
		const k, depth = 4, 4
		for _, expand := range []bool{false, true} {
			if err := d.Prepare(growth(depth, k, expand)); err != nil {
				t.Fatal(err)
			}
		}
		for how, r := range treeSamplings {
			for pending := 1; pending <= 4; pending++ {
				if testing.Short() && pending%2 == 0 {
					continue
				}
				r.K, r.Pending = k, text[len(text)-pending:]
				begin := func() { prefilled(t, d, text[:len(text)-pending]) }
				counted := func(submits int, call func() ([]spec.Level, error)) []spec.Level {
					t.Helper()
					before := dev.Counters()
					levels := mustLevels(t)(call())
					after := dev.Counters()
					if pending <= 2 && after.Submits-before.Submits != submits || after.Reads-before.Reads != 1 ||
						after.Kernels != before.Kernels || after.Buffers != before.Buffers ||
						after.Programs != before.Programs {
						t.Fatalf("%s: from %+v to %+v", how, before, after)
					}
					return levels
				}
				tree := func(depth int) func() ([]spec.Level, error) {
					r := r
					r.Depth = depth
					return func() ([]spec.Level, error) { return d.Draft(background, r) }
				}
				extended := func(e spec.Extension) func() ([]spec.Level, error) {
					return func() ([]spec.Level, error) { return d.Extend(background, e) }
				}
				begin()
				want := counted(1, tree(depth))
				if len(want) != depth+1 || len(want[depth].Candidates) != k*k || want[depth].Beams != nil {
					t.Fatalf("%s: %+v", how, want)
				}
				for first := range depth {
					begin()
					counted(1, tree(first))
					if depth-first > 1 {
						counted(1, extended(spec.Extension{Passes: 1}))
					}
					got := counted(1, func() ([]spec.Level, error) {
						return d.Extend(background, spec.Extension{Passes: depth - d.trees.last.last()})
					})
					sameLevels(t, fmt.Sprintf("%s, %d pending, grown from depth %d", how, pending, first), got, want)
				}
				begin()
				got := counted(1, tree(0))
				for len(got) <= depth {
					beams := bestBeams(got, k)
					got = counted(1, extended(spec.Extension{Beams: beams}))
				}
				sameLevels(t, fmt.Sprintf("%s, %d pending, expanded", how, pending), got, want)
			}
		}
	})
}

// TestGrowthMatchesReference grows trees in mixed ways and compares the candidates of every beam with a target of
// the same file that decodes the beam's path plainly. Then it commits a path and compares the next round.
func TestGrowthMatchesReference(t *testing.T) {
	onDevices(t, func(t *testing.T, dev webgpu.Device) {
		const k = 5
		d := loadDraft(t, dev, "tiny-f32", graph.Options{})
		target, err := LoadTarget(background, dev, testModel(t, "tiny-f32"),
			graph.Options{Context: 128, TopK: k, MaxRows: 1, Tuning: d.Graph.Kernels.Choices()})
		if err != nil {
			t.Fatal(err)
		}
		defer target.Close()
		// check compares the candidates of a level's beams.
		check := func(prefix []int32, levels []spec.Level, level int) {
			t.Helper()
			for beam := range levels[level].Entropies {
				tokens := slices.Clone(prefix)
				if level > 0 {
					path, _ := pathTo(levels, level-1, int32(beam))
					tokens = append(tokens, path...)
				}
				target.Reset()
				if err := target.Prefill(background, tokens[:len(tokens)-1]); err != nil {
					t.Fatal(err)
				}
				single := &spec.Tree{}
				single.Reset(tokens[len(tokens)-1])
				out, err := verify(target, single, spec.Sampling{})
				if err != nil {
					t.Fatal(err)
				}
				if g, w := levels[level].Entropies[beam], out[0].Entropy; g != w {
					t.Fatalf("level %d beam %d after %v: entropy %g, decoded plainly %g", level, beam, tokens, g, w)
				}
				for i := range k {
					c := levels[level].Candidates[beam*k+i]
					if w := out[0].TopLogits[i] - out[0].LogSumExp; c.Token != out[0].TopIDs[i] ||
						math.Abs(float64(c.LogQ-w)) > 4e-6 || c.Beam != int32(beam) {
						t.Fatalf("level %d beam %d after %v: candidate %d is %+v, decoded plainly %d with ln q %g",
							level, beam, tokens, i, c, out[0].TopIDs[i], w)
					}
				}
			}
		}
		prefix, fed := slices.Clone(text), len(text)-2
		prefilled(t, d, text[:fed])
		rounds := 3
		if testing.Short() {
			rounds = 2
		}
		for round := range rounds {
			levels := mustLevels(t)(d.Draft(background, spec.DraftRequest{Pending: prefix[fed:], Depth: round % 2,
				K: k}))
			fed = len(prefix)
			// Expand beams in any order, more than k of them, and grow the tree from there.
			many := len(levels[len(levels)-1].Candidates)
			mustLevels(t)(d.Extend(background, spec.Extension{Beams: []int32{int32(many - 1), 0, 2}}))
			mustLevels(t)(d.Extend(background, spec.Extension{Beams: []int32{14, 3, 0, 7, 8, 1, 12, 5, 2}}))
			mustLevels(t)(d.Extend(background, spec.Extension{Passes: 2}))
			levels = mustLevels(t)(d.Extend(background, spec.Extension{Beams: []int32{24}}))
			for level := range levels {
				check(prefix, levels, level)
			}
			depth := len(levels) - 2 - round // accept fewer beams than there are
			path, beams := pathTo(levels, depth, 0)
			if err := d.Commit(beams); err != nil {
				t.Fatal(err)
			}
			prefix = append(append(prefix, path...), int32(100+round))
			fed += len(path)
			if d.Len() != fed || d.seq.Free()+fed != int(d.seq.Padding()) {
				t.Fatalf("%d tokens and %d free slots after %d committed", d.Len(), d.seq.Free(), fed)
			}
		}
	})
}

// TestGrowthRefuses makes invalid calls and checks that the draft works after them.
func TestGrowthRefuses(t *testing.T) {
	dev := accelerator(t)
	d := loadDraft(t, dev, "tiny-f32", graph.Options{Context: 16})
	wants := func(what string, err error) {
		t.Helper()
		if err == nil {
			t.Fatalf("%s was not refused", what)
		}
		t.Logf("%s: %v", what, err)
	}
	_, err := d.Extend(background, spec.Extension{Passes: 1})
	wants("growing nothing", err)
	_, err = d.Extend(background, spec.Extension{Beams: []int32{0}})
	wants("expanding nothing", err)
	_, err = d.Sample(background, spec.SampleRequest{Count: 1})
	wants("drawing on from nothing", err)
	prefilled(t, d, text[:10])
	want := mustLevels(t)(d.Draft(background, spec.DraftRequest{Pending: text[10:12], Depth: 2, K: 3}))
	for _, beams := range [][]int32{nil, {0, 1, 0}, {-1}, {9}, make([]int32, 17)} {
		_, err = d.Extend(background, spec.Extension{Beams: beams})
		wants(fmt.Sprint("expanding ", beams), err)
	}
	_, err = d.Extend(background, spec.Extension{Passes: 3})
	wants("growing beyond the context", err)
	_, err = d.Extend(background, spec.Extension{Passes: 1000})
	wants("growing beyond all bounds", err)
	wants("committing a beam of no level", d.Commit([]int32{0, 0, 0}))
	wants("committing no beam", d.Commit([]int32{3}))
	parent := want[1].Candidates[want[1].Beams[0]].Beam
	wants("committing a beam after one that did not propose it", d.Commit([]int32{(parent + 1) % 3, 0}))
	if d.Len() != 12 {
		t.Fatalf("%d tokens after refused commits", d.Len())
	}
	got := mustLevels(t)(d.Extend(background, spec.Extension{Passes: 2}))
	sameLevels(t, "the tree after refusals", got[:2], want[:2])
	if _, err := d.Draft(background, spec.DraftRequest{Pending: text[12:], Depth: 1, K: 17}); err == nil {
		t.Fatal("more candidates than the draft gives were not refused")
	}
}

// TestDeepGrowth grows trees as large as training collects: 11 levels of 10, and 10 passes of 15 beams.
func TestDeepGrowth(t *testing.T) {
	d := loadDraft(t, accelerator(t), "tiny-f32", graph.Options{TopK: 15})
	prefilled(t, d, text[:12])
	levels := mustLevels(t)(d.Draft(background, spec.DraftRequest{Pending: text[12:], Depth: 10, K: 10}))
	if len(levels) != 11 || len(levels[10].Candidates) != 100 {
		t.Fatalf("%d levels", len(levels))
	}
	prefilled(t, d, text[:12])
	levels = mustLevels(t)(d.Draft(background, spec.DraftRequest{Pending: text[12:], K: 15}))
	for range 10 {
		levels = mustLevels(t)(d.Extend(background, spec.Extension{Beams: bestBeams(levels, 15)}))
	}
	path, beams := pathTo(levels, 9, 3)
	if err := d.Commit(beams); err != nil || d.Len() != 13+len(path) {
		t.Fatal(err, d.Len())
	}
}

// readRow reads a row of logits back.
func (d *Draft) readRow(t *testing.T, l webgpu.Binding, stride, row int) []float32 {
	t.Helper()
	m := webgpu.NewMemory(4 * stride)
	if err := d.Graph.Dev.Run(nil, webgpu.Region{Buffer: l.Buffer, Offset: l.Offset + 4*row*stride,
		Dst: m.Bytes()}); err != nil {
		t.Fatal(err)
	}
	return m.F32()[:d.Graph.Options.Vocab]
}

var chainSamplings = []spec.SampleRequest{
	{},
	{Sampling: spec.Sampling{Temperature: 1, Seed: 3}},
	{Sampling: spec.Sampling{Temperature: 0.8, Seed: 4, TopK: 20, TopP: 0.9, MinP: 0.01}},
	{Coupled: true, Sampling: spec.Sampling{Temperature: 1, Seed: 5, TopP: 0.95}},
}

// TestChain draws chains at once and in pieces and compares every token, its probability and the entropy with the
// filtered distribution of the row of logits.
func TestChain(t *testing.T) {
	onDevices(t, func(t *testing.T, dev webgpu.Device) {
		d := loadDraft(t, dev, "tiny-f32", graph.Options{})
		const count = 6
		if err := d.chain.prepare(count); err != nil {
			t.Fatal(err)
		}
		for _, r := range chainSamplings {
			for pending := 1; pending <= 3; pending++ {
				if testing.Short() && pending != 2 {
					continue
				}
				what := fmt.Sprintf("%+v, %d pending", r, pending)
				r.Pending = text[len(text)-pending:]
				draw := func(counts ...int) []spec.Drawn {
					t.Helper()
					prefilled(t, d, text[:len(text)-pending])
					r.Count = counts[0]
					before := dev.Counters()
					drawn, err := d.Sample(background, r)
					for _, more := range counts[1:] {
						if err == nil {
							drawn, err = d.Sample(background, spec.SampleRequest{Count: more})
						}
					}
					if err != nil {
						t.Fatal(err)
					}
					after := dev.Counters()
					if after.Reads-before.Reads != len(counts) || after.Kernels != before.Kernels ||
						after.Buffers != before.Buffers || after.Programs != before.Programs {
						t.Fatalf("%s: from %+v to %+v", what, before, after)
					}
					return slices.Clone(drawn)
				}
				want := draw(count)
				base := len(text)
				for i, got := range want {
					z := d.readRow(t, d.Graph.Space.Logits, d.Graph.Space.Stride, i)
					s, shown, stream := r.Sampling, r.Sampling, spec.StreamDraft
					if r.Coupled {
						stream = spec.StreamTarget
					}
					if s.Temperature == 0 {
						shown = spec.Sampling{Temperature: 1}
					}
					q := spectest.Distribution(shown, z)
					entropy := 0.0
					for _, p := range q {
						if p > 0 {
							entropy -= p * math.Log(p)
						}
					}
					if token := spectest.Draw(s, z, stream, uint32(base+i)); got.Token != token {
						t.Fatalf("%s: token %d is %d, want %d", what, i, got.Token, token)
					}
					if math.Abs(float64(got.Prob)-q[got.Token]) > 1e-4 ||
						math.Abs(float64(got.Entropy)-entropy) > 1e-3 || got.Accept == got.Accept {
						t.Fatalf("%s: token %d is %+v, want probability %g and entropy %g", what, i, got,
							q[got.Token], entropy)
					}
				}
				same := func(a, b spec.Drawn) bool {
					return a.Token == b.Token && a.Prob == b.Prob && a.Entropy == b.Entropy
				}
				for _, pieces := range [][]int{{1, 1, 1, 1, 1, 1}, {2, 4}, {3, 1, 2}} {
					if got := draw(pieces...); !slices.EqualFunc(got, want, same) {
						t.Fatalf("%s: in pieces %v\n%+v, at once\n%+v", what, pieces, got, want)
					}
				}
				// The next round continues after the accepted tokens.
				if err := d.Commit(make([]int32, 3)); err != nil {
					t.Fatal(err)
				}
				if d.Len() != base+3 {
					t.Fatalf("%s: %d tokens after 3 of %d committed", what, d.Len(), base)
				}
				next := spec.DraftRequest{Pending: []int32{want[3].Token}, Depth: 1, K: 3}
				got := mustLevels(t)(d.Draft(background, next))
				seq := slices.Clone(text)
				for _, w := range want[:3] {
					seq = append(seq, w.Token)
				}
				prefilled(t, d, seq)
				sameLevels(t, what+", the next round", got, mustLevels(t)(d.Draft(background, next)))
			}
		}
	})
}
