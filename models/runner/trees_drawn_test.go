package runner

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"foretoken/models/graph"
	"foretoken/spec"
	"foretoken/spec/spectest"
	"foretoken/webgpu"
	"foretoken/webgpu/kernels/kerneltest"
)

// drawnFrom compares children with the reference draw from a row of logits: the best by logit/temperature + noise,
// with their probabilities.
func drawnFrom(t *testing.T, what string, children []spec.Candidate, z []float32, s spec.Sampling, position int) {
	t.Helper()
	q := spectest.Distribution(spec.Sampling{Temperature: s.Temperature}, z)
	score := func(id int32) float64 {
		return float64(z[id])/s.Temperature + spectest.Gumbel(s.Seed, spec.StreamDraft, uint32(position), uint32(id))
	}
	var order []float64
	for id := range z {
		order = append(order, score(int32(id)))
	}
	slices.Sort(order)
	slices.Reverse(order)
	for i, c := range children {
		if math.Abs(score(c.Token)-order[i]) > 1e-4 {
			t.Fatalf("%s: child %d is %d with score %g, want %g", what, i, c.Token, score(c.Token), order[i])
		}
		if math.Abs(float64(c.LogQ)-math.Log(q[c.Token])) > 1e-4 {
			t.Fatalf("%s: child %d is %d with ln q %g, want %g", what, i, c.Token, c.LogQ, math.Log(q[c.Token]))
		}
	}
}

// TestDrawnTree draws trees without replacement and compares the children, the stored distributions and their row
// numbers with a draft that decodes each path plainly.
func TestDrawnTree(t *testing.T) {
	onDevices(t, func(t *testing.T, dev webgpu.Device) {
		d := loadDraft(t, dev, "tiny-f32", graph.Options{})
		const k = 4
		if err := d.trees.prepareDrawn(2, k); err != nil {
			t.Fatal(err)
		}
		if rows := d.trees.distributions.logits; rows.Rows < 128 || rows.Vocab != d.Graph.Options.Vocab {
			t.Fatalf("%+v", rows)
		}
		for pending := 1; pending <= 2; pending++ {
			r := spec.DraftRequest{Pending: text[len(text)-pending:], Depth: 2, K: k,
				Sampling: spec.Sampling{Temperature: 1.3, Seed: uint64(5 + pending),
					TopK: 2, TopP: 0.1}, // filters are ignored
				Drawn: true, Layout: &spec.Layout{Beams: [][]int32{{2, 0, 3}, {11, 1}}}}
			prefilled(t, d, text[:len(text)-pending])
			before := dev.Counters()
			levels := mustLevels(t)(d.Draft(background, r))
			after := dev.Counters()
			if after.Submits-before.Submits != 1 || after.Reads-before.Reads != 1 ||
				after.Programs != before.Programs || after.Buffers != before.Buffers ||
				after.Kernels != before.Kernels {
				t.Fatalf("from %+v to %+v", before, after)
			}
			if d.trees.distributionsUsed() != 1+3+2 {
				t.Fatalf("%d rows stored", d.trees.distributionsUsed())
			}
			if _, err := d.Extend(background, spec.Extension{Passes: 1}); err == nil {
				t.Fatal("a drawn tree grew")
			}
			var kept [][]float32
			for row := range d.trees.distributionsUsed() {
				kept = append(kept, slices.Clone(d.readRow(t, d.trees.distributions.logits.View,
					d.trees.distributions.logits.Stride, row)))
			}
			path, beams := pathTo(levels, 1, 1)
			if err := d.Commit(beams); err != nil {
				t.Fatal(err)
			}
			next := spec.DraftRequest{Pending: []int32{9}, Depth: 1, K: k}
			got := mustLevels(t)(d.Draft(background, next))
			if d.trees.distributionsUsed() != 0 {
				t.Fatal("a ranked tree has stored rows")
			}
			prefilled(t, d, slices.Concat(text, path))
			sameLevels(t, "the next round", got, mustLevels(t)(d.Draft(background, next)))

			row := 0
			for level := range levels {
				for beam := range levels[level].Entropies {
					tokens := slices.Clone(text)
					if level > 0 {
						path, _ := pathTo(levels, level-1, int32(beam))
						tokens = append(tokens, path...)
					}
					what := fmt.Sprintf("level %d beam %d after %v", level, beam, tokens)
					prefilled(t, d, tokens[:len(tokens)-1])
					plain := mustLevels(t)(d.Draft(background,
						spec.DraftRequest{Pending: tokens[len(tokens)-1:], K: k}))
					if !slices.Equal(kept[row], d.readRow(t, d.Graph.Space.Logits, d.Graph.Space.Stride, 0)) {
						t.Fatalf("%s: row %d is not its distribution", what, row)
					}
					if plain[0].Entropies[0] != levels[level].Entropies[beam] {
						t.Fatalf("%s: entropy %g, consumed plainly %g", what, levels[level].Entropies[beam],
							plain[0].Entropies[0])
					}
					drawnFrom(t, what, levels[level].Candidates[beam*k:][:k], kept[row], r.Sampling, len(text)+level)
					row++
				}
			}
		}
	})
}

// TestDrawnTreeRoom fills the 128 stored distributions and checks the error beyond them.
func TestDrawnTreeRoom(t *testing.T) {
	d := loadDraft(t, accelerator(t), "tiny-f32", graph.Options{})
	prefilled(t, d, text[:12])
	all := make([]int32, 16)
	for i := range all {
		all[i] = int32(15 - i)
	}
	beams := slices.Repeat([][]int32{all}, 8)
	r := spec.DraftRequest{Pending: text[12:], Depth: 8, K: 16, Drawn: true, Layout: &spec.Layout{Beams: beams}}
	free := d.seq.Free()
	refused := func(what string) {
		t.Helper()
		if _, err := d.Draft(background, r); err == nil || d.seq.Free() != free {
			t.Fatal(what, "was not refused", err)
		}
	}
	refused("temperature 0")
	r.Sampling = spec.Sampling{Temperature: 1, Seed: 1}
	refused("a distribution too many")
	r.Depth = 9
	refused("a level without beams")
	r.Depth, beams[7] = 8, all[:15]
	levels := mustLevels(t)(d.Draft(background, r))
	if d.trees.distributionsUsed() != 128 || len(levels) != 9 {
		t.Fatal(d.trees.distributionsUsed(), len(levels))
	}
	// Every path can be committed.
	path, accepted := pathTo(levels, 7, 14)
	if err := d.Commit(accepted); err != nil || d.Len() != 13+len(path) {
		t.Fatal(err)
	}
}

// TestDrawnTreeDistribution draws the same node's children with many seeds: the first follows the softmax, the
// second the softmax without the first.
func TestDrawnTreeDistribution(t *testing.T) {
	dev := kerneltest.Reference(t)
	d := loadDraft(t, dev, "tiny-f32", graph.Options{})
	runs := 1500
	if testing.Short() {
		runs = 400
	}
	const temperature = 1.5
	firsts, seconds := make([]int, d.Graph.Options.Vocab), make([]int, d.Graph.Options.Vocab)
	prefilled(t, d, text[:12])
	pending := text[12:]
	for seed := range runs {
		levels := mustLevels(t)(d.Draft(background, spec.DraftRequest{Pending: pending, K: 2, Drawn: true,
			Sampling: spec.Sampling{Temperature: temperature, Seed: uint64(seed)}}))
		firsts[levels[0].Candidates[0].Token]++
		seconds[levels[0].Candidates[1].Token]++
		d.ReusePrefix(text[:12]) // the next draft consumes the root again
	}
	q := spectest.Distribution(spec.Sampling{Temperature: temperature},
		d.readRow(t, d.trees.distributions.logits.View, d.trees.distributions.logits.Stride, 0))
	second := make([]float64, len(q))
	for a := range q {
		for b := range q {
			if a != b {
				second[b] += q[a] * q[b] / (1 - q[a])
			}
		}
	}
	chiSquare(t, "first children", firsts, q)
	chiSquare(t, "second children", seconds, second)
}

// chiSquare fails the test if counts are not drawn from p, by Wilson and Hilferty's normal approximation. Outcomes
// expected fewer than five times share a cell.
func chiSquare(t *testing.T, what string, counts []int, p []float64) {
	t.Helper()
	n := 0
	for _, c := range counts {
		n += c
	}
	cells, stat, restN, restP := 0, 0.0, 0.0, 0.0
	cell := func(count, want float64) {
		cells++
		stat += (count - want) * (count - want) / want
	}
	for i, c := range counts {
		if want := p[i] * float64(n); want >= 5 {
			cell(float64(c), want)
		} else {
			restN, restP = restN+float64(c), restP+p[i]
		}
	}
	if restP*float64(n) >= 1 {
		cell(restN, restP*float64(n))
	}
	df := float64(cells - 1)
	if df < 3 {
		t.Fatalf("%s: %d cells tell nothing", what, cells)
	}
	if z := (math.Cbrt(stat/df) - (1 - 2/(9*df))) / math.Sqrt(2/(9*df)); z > 4 {
		t.Fatalf("%s: %d draws in %d cells have chi-square %.1f, %.1f deviations out", what, n, cells, stat, z)
	}
}
