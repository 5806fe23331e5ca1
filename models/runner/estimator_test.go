package runner

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"foretoken/models/graph"
	"foretoken/models/safetensors"
	"foretoken/spec"
	"foretoken/webgpu"
)

// testEstimator returns an acceptance head with random weights whose estimates spread over (0, 1).
func testEstimator(dim, layers int) *spec.Estimator {
	rng := rand.New(rand.NewPCG(uint64(dim), uint64(layers)))
	normals := func(n int, scale float64) []float32 {
		x := make([]float32, n)
		for i := range x {
			x[i] = float32(scale * rng.NormFloat64())
		}
		return x
	}
	e := &spec.Estimator{Dim: dim, Weight: normals(dim, 0.5/math.Sqrt(float64(dim))), Bias: 0.25}
	for range layers {
		e.Layers = append(e.Layers, spec.EstimatorLayer{Weight: normals(dim*dim, 1/math.Sqrt(float64(dim))),
			Bias: normals(dim, 0.3)})
	}
	return e
}

// hiddenStates returns the final hidden states of every position: (len(tokens), dim).
func hiddenStates(d *Draft, tokens []int32) (all []float32, err error) {
	err = d.Hidden(background, tokens, func(x []float32) { all = append(all, x...) })
	return all, err
}

// TestHidden compares the bits of the final hidden states with those that the passes of a tree leave, for texts
// around the size of a prefill chunk.
func TestHidden(t *testing.T) {
	onDevices(t, func(t *testing.T, dev webgpu.Device) {
		d := loadDraft(t, dev, "tiny-f32", graph.Options{})
		dim := d.Graph.Arch.Dim
		long := slices.Concat(text, text, text, text)
		all, err := hiddenStates(d, long)
		if err != nil || len(all) != len(long)*dim {
			t.Fatal(err, len(all))
		}
		for _, n := range []int{1, 2, 17, len(long) - 1} {
			got, err := hiddenStates(d, long[:n])
			if err != nil || !slices.Equal(got, all[:n*dim]) {
				t.Fatalf("the hidden states of %d tokens depend on what follows them (%v)", n, err)
			}
		}
		prefilled(t, d, long[:20])
		if _, err := d.Draft(background, spec.DraftRequest{Pending: long[20:22], K: 2}); err != nil {
			t.Fatal(err)
		}
		r := d.Graph.Recorder("the root's hidden state")
		d.Graph.Normalise(r, 2)
		last, b := []webgpu.Program{0}, &graph.Batch{}
		b.Add(r, &last[0])
		if err := d.Graph.Build(b); err != nil {
			t.Fatal(err)
		}
		m := webgpu.NewMemory(4 * 2 * dim)
		if err := dev.Run(last, webgpu.Region{Buffer: d.Graph.Space.Norm.Buffer, Dst: m.Bytes()}); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(m.F32(), all[20*dim:22*dim]) {
			t.Fatal("a tree's root has another hidden state than its text")
		}
		if got, err := hiddenStates(d, nil); err != nil || len(got) != 0 {
			t.Fatal(got, err)
		}
		if _, err := hiddenStates(d, make([]int32, d.Graph.Options.Context+1)); err == nil {
			t.Fatal("a text longer than the context was not refused")
		}
	})
}

// TestEstimates compares the acceptance head's estimates, for trees grown in every way and for chains, with the
// head applied in float64 to the hidden state of the text that ends with the token.
func TestEstimates(t *testing.T) {
	onDevices(t, func(t *testing.T, dev webgpu.Device) {
		d := loadDraft(t, dev, "tiny-f32", graph.Options{})
		const k = 3
		if err := d.Prepare(growth(1, k, false)); err != nil { // before there is a head
			t.Fatal(err)
		}
		lowest, highest := 1.0, 0.0
		check := func(what string, h *spec.Estimator, tokens []int32, got float32) {
			t.Helper()
			hidden, err := hiddenStates(d, tokens)
			if err != nil {
				t.Fatal(err)
			}
			want := h.Apply(hidden[(len(tokens)-1)*h.Dim:])
			if math.IsNaN(float64(got)) || math.Abs(float64(got)-want) > 2e-5 {
				t.Fatalf("%s: the estimate after %v is %g, want %g", what, tokens, got, want)
			}
			lowest, highest = min(lowest, want), max(highest, want)
		}
		for layers := range spec.MostEstimatorLayers + 1 {
			h := testEstimator(d.Graph.Arch.Dim, layers)
			programs := growth(4, k, true)
			programs.Estimator = h
			if err := d.Prepare(programs); err != nil {
				t.Fatal(err)
			}
			if err := d.chain.prepare(4); err != nil {
				t.Fatal(err)
			}
			prefilled(t, d, text[:len(text)-1])
			before := dev.Counters()
			r := spec.DraftRequest{Pending: text[len(text)-1:], Depth: 2, K: k}
			mustLevels(t)(d.Draft(background, r))
			mustLevels(t)(d.Extend(background, spec.Extension{Beams: []int32{8, 0, 3, 1, 5}}))
			levels := mustLevels(t)(d.Extend(background, spec.Extension{Passes: 1}))
			after := dev.Counters()
			if after.Submits-before.Submits != 3 || after.Reads-before.Reads != 3 ||
				after.Programs != before.Programs || after.Buffers != before.Buffers {
				t.Fatalf("from %+v to %+v", before, after)
			}
			if !slices.Equal(levels[0].Accepts, []float32{1}) {
				t.Fatalf("the root's estimate is %v", levels[0].Accepts)
			}
			for level := 1; level < len(levels); level++ {
				if len(levels[level].Accepts) != len(levels[level-1].Beams) {
					t.Fatalf("%d estimates for %d beams", len(levels[level].Accepts), len(levels[level-1].Beams))
				}
				for beam, got := range levels[level].Accepts {
					path, _ := pathTo(levels, level-1, int32(beam))
					check(fmt.Sprintf("%d layers, level %d, beam %d", layers, level, beam), h,
						slices.Concat(text, path), got)
				}
			}
			prefilled(t, d, text[:len(text)-1])
			drawn, err := d.Sample(background, spec.SampleRequest{Pending: r.Pending, Count: 3,
				Sampling: spec.Sampling{Temperature: 1, Seed: 2}})
			if err != nil || drawn[2].Accept == drawn[2].Accept {
				t.Fatal(err, drawn)
			}
			if drawn, err = d.Sample(background, spec.SampleRequest{Count: 1}); err != nil ||
				drawn[3].Accept == drawn[3].Accept {
				t.Fatal(err, drawn)
			}
			drawn = slices.Clone(drawn)
			tokens := slices.Clone(text)
			for i, w := range drawn[:3] {
				tokens = append(tokens, w.Token)
				check(fmt.Sprintf("%d layers, token %d of a chain", layers, i), h, tokens, w.Accept)
			}
			// Turned off, the head costs nothing and the proposals stay the same.
			if err := d.Prepare(growth(4, k, true)); err != nil {
				t.Fatal(err)
			}
			prefilled(t, d, text[:len(text)-1])
			plain := mustLevels(t)(d.Draft(background, r))
			for i, l := range plain {
				if l.Accepts != nil || !slices.Equal(l.Candidates, levels[i].Candidates) {
					t.Fatalf("without the head level %d is %+v, with it %+v", i, l, levels[i])
				}
			}
		}
		if highest-lowest < 0.2 {
			t.Fatalf("all estimates are between %g and %g: the test would not see a wrong hidden state", lowest,
				highest)
		}
	})
}

// TestEstimatesOfAHead compares the estimates for an EAGLE-3 head's drafts with the acceptance head applied to the
// hidden states of the same tokens.
func TestEstimatesOfAHead(t *testing.T) {
	onDevices(t, func(t *testing.T, dev webgpu.Device) {
		target, d, _ := headed(t, dev, safetensors.F32, false, graph.Options{})
		h := testEstimator(d.Graph.Arch.Dim, 1)
		programs := growth(3, 2, true)
		programs.Estimator = h
		if err := cmp.Or(d.Prepare(programs), target.Prefill(background, text)); err != nil {
			t.Fatal(err)
		}
		pending := text[len(text)-2:]
		prefilled(t, d, text[:len(text)-2])
		levels := mustLevels(t)(d.Draft(background, spec.DraftRequest{Pending: pending, Depth: 3, K: 2}))
		lowest, highest := 1.0, 0.0
		for level := 1; level < len(levels); level++ {
			for beam, got := range levels[level].Accepts {
				path, _ := pathTo(levels, level-1, int32(beam))
				prefilled(t, d, text[:len(text)-2])
				var states [][]float32
				err := d.HiddenAhead(background, pending, path, func(x []float32) {
					states = append(states, slices.Clone(x))
				})
				if err != nil || len(states) != level || d.Len() != len(text) {
					t.Fatalf("%d states of %v, %d tokens in the sequence: %v", len(states), path, d.Len(), err)
				}
				want := h.Apply(states[level-1])
				if !(math.Abs(float64(got)-want) < 2e-5) {
					t.Errorf("level %d, beam %d: the estimate is %g, want %g", level, beam, got, want)
				}
				lowest, highest = min(lowest, want), max(highest, want)
			}
		}
		if highest-lowest < 0.05 {
			t.Errorf("all estimates are between %g and %g", lowest, highest)
		}
		for _, n := range []int{0, maxPasses + 1} {
			if err := d.HiddenAhead(background, pending, make([]int32, n), nil); err == nil {
				t.Errorf("hidden states of %d tokens were not refused", n)
			}
		}
	})
}

// TestHiddenAheadOfADraft compares the bits with those of the same text in one piece.
func TestHiddenAheadOfADraft(t *testing.T) {
	onDevices(t, func(t *testing.T, dev webgpu.Device) {
		d := loadDraft(t, dev, "tiny-f32", graph.Options{})
		dim := d.Graph.Arch.Dim
		want, err := hiddenStates(d, slices.Concat(text, text))
		if err != nil {
			t.Fatal(err)
		}
		long := slices.Concat(text, text)
		prefilled(t, d, long[:10])
		var got []float32
		for _, at := range []int{12, 17} {
			err := d.HiddenAhead(background, long[d.Len():at], long[at:at+5],
				func(x []float32) { got = append(got, x...) })
			if err != nil {
				t.Fatal(err)
			}
		}
		if !slices.Equal(got, want[12*dim:22*dim]) {
			t.Error("other bits than those of the text")
		}
	})
}

// TestHeadsTakeTurns has heads of equally many layers share their buffers and programs.
func TestHeadsTakeTurns(t *testing.T) {
	d := loadDraft(t, accelerator(t), "tiny-f32", graph.Options{})
	var first [2][]float32
	var before webgpu.Counters
	programs := growth(2, 2, false)
	heads := []*spec.Estimator{testEstimator(d.Graph.Arch.Dim, 1), testEstimator(d.Graph.Arch.Dim, 1)}
	heads[1].Weight[0] += 1
	for turn := range 4 {
		programs.Estimator = heads[turn%2]
		if err := d.Prepare(programs); err != nil {
			t.Fatal(err)
		}
		prefilled(t, d, text[:len(text)-1])
		levels := mustLevels(t)(d.Draft(background, spec.DraftRequest{Pending: text[len(text)-1:], Depth: 2, K: 2}))
		if got := slices.Concat(levels[1].Accepts, levels[2].Accepts); turn < 2 {
			first[turn] = got
		} else if !slices.Equal(got, first[turn%2]) {
			t.Errorf("turn %d: estimates %v, want %v", turn, got, first[turn%2])
		}
		now := d.Graph.Dev.Counters()
		if turn > 0 && (now.Programs != before.Programs || now.Buffers != before.Buffers) {
			t.Errorf("turn %d: from %+v to %+v", turn, before, now)
		}
		before = now
	}
	if slices.Equal(first[0], first[1]) {
		t.Error("two heads give the same estimates")
	}
}

// TestEstimatorRefused prepares for a head of another draft.
func TestEstimatorRefused(t *testing.T) {
	d := loadDraft(t, accelerator(t), "tiny-f32", graph.Options{})
	err := d.Prepare(spec.Programs{Estimator: testEstimator(8, 1)})
	if err == nil || !strings.Contains(err.Error(), "hidden states have 8 elements") {
		t.Fatal(err)
	}
}
