package adapt

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"foretoken/spec"
)

// testHead returns an acceptance head with random weights.
func testHead(dim, layers int) *AcceptanceHead {
	rng := rand.New(rand.NewPCG(uint64(dim), uint64(layers)))
	normals := func(n int) []float32 {
		x := make([]float32, n)
		for i := range x {
			x[i] = float32(rng.NormFloat64())
		}
		return x
	}
	id := spec.ModelID{Name: "m.gguf", Bytes: 1234, Hash: "0123456789", Quantisation: "F32"}
	h := &AcceptanceHead{Label: LabelDraw, CalibrationHeader: spec.CalibrationHeader{
		Fingerprint: spec.Fingerprint{Target: id, Draft: id},
		Made:        spec.Made{Prompts: "p [ 1 ]", Requests: 1, Temperature: 1}},
		Estimator: spec.Estimator{Dim: dim, Layers: []spec.EstimatorLayer{}, Weight: normals(dim), Bias: 0.25}}
	for range layers {
		h.Layers = append(h.Layers, spec.EstimatorLayer{Weight: normals(dim * dim), Bias: normals(dim)})
	}
	return h
}

func TestAcceptanceHeadFile(t *testing.T) {
	for layers := range spec.MostEstimatorLayers + 1 {
		h := testHead(8, layers)
		data, err := h.Encode()
		if err != nil {
			t.Fatal(err)
		}
		got, err := ParseAcceptance("head.json", data)
		if err != nil {
			t.Fatal(err)
		}
		if fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", h) {
			t.Fatalf("read %+v, wrote %+v", got, h)
		}
	}
}

// TestAcceptanceHeadFileRefused checks that errors name the wrong field of a file.
func TestAcceptanceHeadFileRefused(t *testing.T) {
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
		if _, err = ParseAcceptance("head.json", edited); err == nil || !strings.Contains(err.Error(), c.want) ||
			!strings.Contains(err.Error(), "head.json") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want something with %q", c.what, err, c.want)
		}
	}
}

// TestAcceptanceFor chooses among heads of other pairs, sources, labels and temperatures. A refusal names the command
// that trains the head.
func TestAcceptanceFor(t *testing.T) {
	head := func(source, label string, temperature float64) *AcceptanceHead {
		h := testHead(2, 0)
		h.Source, h.Label, h.Made.Temperature = source, label, temperature
		return h
	}
	foreign := head("", LabelRatio, 1)
	foreign.Fingerprint.Draft.Hash = "another"
	have := head("", LabelDraw, 1).Fingerprint
	all := []*AcceptanceHead{head("", LabelArgmax, 0), head("", LabelDraw, 0.4), head("", LabelDraw, 1),
		head("", LabelDraw, 0.9), head("eagle3", LabelArgmax, 0), foreign}
	for _, c := range []struct {
		use  AcceptanceUse
		want int // index in all; -1: refused
		with []string
	}{
		{AcceptanceUse{"", LabelArgmax, 0}, 0, nil},
		{AcceptanceUse{"model", LabelArgmax, 0.7}, 0, nil}, // the likeliest token is the same at any temperature
		{AcceptanceUse{"", LabelDraw, 0.5}, 1, nil},
		{AcceptanceUse{"", LabelDraw, 0.8}, 3, nil}, // the last of two
		{AcceptanceUse{"eagle3", LabelArgmax, 0}, 4, nil},
		{AcceptanceUse{"", LabelDraw, 1.5}, -1, []string{"above 1 to 2", "--temperature 1.5 --label draw"}},
		{AcceptanceUse{"eagle3", LabelDraw, 1}, -1, []string{"--source eagle3 --temperature 1 --label draw"}},
		{AcceptanceUse{"", LabelRatio, 1}, -1, []string{"--temperature 1 --label ratio"}},
	} {
		got, err := AcceptanceFor(all, have, c.use)
		if at := slices.Index(all, got); at != c.want {
			t.Errorf("%+v: head %d (%v), want %d", c.use, at, err, c.want)
		}
		for _, text := range c.with {
			if err == nil || !strings.Contains(err.Error(), text) ||
				!strings.Contains(err.Error(), "foretoken train acceptance-head") {
				t.Errorf("%+v: %v, want %q", c.use, err, text)
			}
		}
	}
	for _, some := range [][]*AcceptanceHead{nil, {foreign}} {
		if _, err := AcceptanceFor(some, have, AcceptanceUse{"", LabelRatio, 1}); err == nil ||
			!strings.Contains(err.Error(), "train one with foretoken train acceptance-head --temperature 1") {
			t.Errorf("%d heads: %v", len(some), err)
		}
	}
}
