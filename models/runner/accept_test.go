package runner

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"foretoken/models/graph"
	"foretoken/spec"
	"foretoken/webgpu"
)

// testHead returns a head with random weights whose estimates spread over (0, 1).
func testHead(dim, layers int) *Head {
	rng := rand.New(rand.NewPCG(uint64(dim), uint64(layers)))
	normals := func(n int, scale float64) []float32 {
		x := make([]float32, n)
		for i := range x {
			x[i] = float32(scale * rng.NormFloat64())
		}
		return x
	}
	id := spec.ModelID{Name: "m.gguf", Bytes: 1234, Hash: "0123456789", Quantisation: "F32"}
	h := &Head{Dim: dim, Label: LabelDraw, CalibrationHeader: spec.CalibrationHeader{
		Fingerprint: spec.Fingerprint{Target: id, Draft: id}, Made: spec.Made{Prompts: "p [ 1 ]", Requests: 1}},
		Weight: normals(dim, 0.5/math.Sqrt(float64(dim))), Bias: 0.25}
	for range layers {
		h.Layers = append(h.Layers, HeadLayer{Weight: normals(dim*dim, 1/math.Sqrt(float64(dim))),
			Bias: normals(dim, 0.3)})
	}
	return h
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
		if err := d.Prepare(growth(1, k, false)); err != nil { // before SetHead
			t.Fatal(err)
		}
		lowest, highest := 1.0, 0.0
		check := func(what string, h *Head, tokens []int32, got float32) {
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
		for layers := 1; layers <= 2; layers++ {
			h := testHead(d.Graph.Arch.Dim, layers)
			if err := d.SetHead(h); err != nil {
				t.Fatal(err)
			}
			programs := growth(4, k, true)
			programs.Accepts = true
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
		if err := d.SetHead(nil); err != nil || d.head != nil {
			t.Fatal("the head was not taken away", err)
		}
	})
}

func TestHeadFile(t *testing.T) {
	for layers := 1; layers <= 2; layers++ {
		h := testHead(8, layers)
		data, err := h.Encode()
		if err != nil {
			t.Fatal(err)
		}
		got, err := ParseHead("head.json", data)
		if err != nil {
			t.Fatal(err)
		}
		if fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", h) {
			t.Fatalf("read %+v, wrote %+v", got, h)
		}
	}
}

// TestHeadFileRefused checks that errors name the wrong field of a file.
func TestHeadFileRefused(t *testing.T) {
	data, err := testHead(4, 1).Encode()
	if err != nil {
		t.Fatal(err)
	}
	layer := func(o map[string]any) map[string]any { return o["layers"].([]any)[0].(map[string]any) }
	for _, c := range []struct {
		what string
		edit func(o map[string]any)
		want string
	}{
		{"another kind", func(o map[string]any) { o["kind"] = "hetero" }, `kind is "hetero"`},
		{"another version", func(o map[string]any) { o["version"] = 2 }, "version is 2"},
		{"no width", func(o map[string]any) { delete(o, "dim") }, "field dim is 0"},
		{"another width", func(o map[string]any) { o["dim"] = 5 }, "layers[0].weight has 16 weights, want 25"},
		{"no label", func(o map[string]any) { o["label"] = "" }, "field label"},
		{"no layers", func(o map[string]any) { o["layers"] = []any{} }, "has 0 layers"},
		{"three layers", func(o map[string]any) { o["layers"] = []any{layer(o), layer(o), layer(o)} }, "has 3 layers"},
		{"not base64", func(o map[string]any) { layer(o)["bias"] = "!" }, "base64"},
		{"half a float", func(o map[string]any) { layer(o)["bias"] = "AAA=" }, "2 bytes"},
		{"not a number", func(o map[string]any) {
			o["weight"] = "AADAfwAAAAAAAAAAAAAAAA=="
		}, "field weight: weight 0 is NaN"},
		{"a field that is none", func(o map[string]any) { o["beta"] = 1 }, "beta"},
	} {
		var o map[string]any
		if err := json.Unmarshal(data, &o); err != nil {
			t.Fatal(err)
		}
		c.edit(o)
		edited, err := json.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		if _, err = ParseHead("head.json", edited); err == nil || !strings.Contains(err.Error(), c.want) ||
			!strings.Contains(err.Error(), "head.json") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want something with %q", c.what, err, c.want)
		}
	}
}

// TestHeadRefused sets a head of another draft.
func TestHeadRefused(t *testing.T) {
	h := testHead(8, 1)
	other := h.Fingerprint
	other.Draft.Hash = "another"
	if err := h.Matches(h.Fingerprint); err != nil {
		t.Fatal(err)
	}
	if err := h.Matches(other); err == nil || !strings.Contains(err.Error(), "foretoken train acceptance-head") {
		t.Fatal(err)
	}
	d := loadDraft(t, accelerator(t), "tiny-f32", graph.Options{})
	if err := d.SetHead(h); err == nil || !strings.Contains(err.Error(), "hidden states have 8 elements") {
		t.Fatal(err)
	}
}
