package adapt

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"foretoken/spec"
)

func fingerprint() spec.Fingerprint {
	return spec.Fingerprint{
		Target: spec.ModelID{Name: "big.gguf", Bytes: 4000, Hash: "0123456789abcdef", Quantisation: "q8_0"},
		Draft:  spec.ModelID{Name: "small.gguf", Bytes: 100, Hash: "fedcba9876543210", Quantisation: "q4_0"},
		TopK:   10, Depth: 5, Nodes: 60,
	}
}

func heteroCalibration() *HeteroCalibration {
	return &HeteroCalibration{
		CalibrationHeader: spec.CalibrationHeader{
			Fingerprint: fingerprint(),
			Made: spec.Made{Prompts: "prompts [a, b]", Requests: 40, Tokens: 4000, Samples: 900,
				Settings: map[string]string{"leaf": "12"}},
		},
		Greedy: &HeteroFit{Edges: []float64{1.5, 2.25, 4}, Means: []float64{7, 8.5, 20, 31},
			Counts: []int{300, 200, 60, 40}},
		Coupled: &HeteroFit{Edges: []float64{}, Means: []float64{9}, Counts: []int{700}},
	}
}

func classifier() *C2TClassifier {
	return &C2TClassifier{
		CalibrationHeader: spec.CalibrationHeader{Fingerprint: fingerprint(),
			Made: spec.Made{Prompts: "p", Requests: 1, Tokens: 2, Samples: 3}},
		Features: []string{FeatureProbability, FeatureEntropy, FeatureDepth},
		Mean:     []float64{0.5, 1, 3}, Scale: []float64{0.25, 2, 1},
		Hidden: [][]float64{{1, -1, 0}, {0.5, 0, -2}}, HiddenBias: []float64{0.25, -1},
		Output: []float64{2, -3}, OutputBias: 0.5,
	}
}

func TestCalibrationFilesReadBack(t *testing.T) {
	h := heteroCalibration()
	text, err := h.Encode()
	if err != nil {
		t.Fatal(err)
	}
	back, err := ParseHetero("h.json", text)
	if err != nil || !reflect.DeepEqual(back, h) {
		t.Errorf("%s reads back as %+v (%v)", text, back, err)
	}
	if !bytes.Contains(text, []byte(`"edges": [1.5, 2.25, 4],`)) || !bytes.Contains(text, []byte(`"prompts [a, b]"`)) {
		t.Errorf("arrays are not on one line, or a string was touched: %s", text)
	}
	c := classifier()
	if text, err = c.Encode(); err != nil {
		t.Fatal(err)
	}
	read, err := ParseC2T("c.json", text)
	if err != nil || !reflect.DeepEqual(read, c) {
		t.Errorf("%s reads back as %+v (%v)", text, read, err)
	}
	if kind, err := spec.CalibrationKind("c.json", text); kind != KindC2T || err != nil {
		t.Errorf("kind %q (%v)", kind, err)
	}
	c.Scale[1] = 0
	if _, err := c.Encode(); err == nil || !strings.Contains(err.Error(), "field scale") {
		t.Errorf("a classifier that could not be read was written: %v", err)
	}
}

// TestBadCalibrationsAreRefused damages good files and expects a one-line error with the names of the file and of
// the field.
func TestBadCalibrationsAreRefused(t *testing.T) {
	hetero, err := heteroCalibration().Encode()
	if err != nil {
		t.Fatal(err)
	}
	c2t, err := classifier().Encode()
	if err != nil {
		t.Fatal(err)
	}
	type object = map[string]any
	in := func(o object, key string) object { return o[key].(object) }
	for _, c := range []struct {
		name string
		c2t  bool
		edit func(object)
		want string
	}{
		{"no kind", false, func(o object) { delete(o, "kind") }, "field kind is missing"},
		{"other kind", false, func(o object) { o["kind"] = "c2t" }, `field kind is "c2t", want "hetero"`},
		{"later version", false, func(o object) { o["version"] = 2 }, "field version is 2, want 1"},
		{"unknown field", false, func(o object) { o["blue"] = 1 }, "blue is unknown"},
		{"text for a number", false, func(o object) { in(o, "fingerprint")["depth"] = "5" },
			"fingerprint.depth is a string, want a whole number"},
		{"no target", false, func(o object) { delete(in(o, "fingerprint"), "target") },
			"field fingerprint.target.name is missing"},
		{"no hash", false, func(o object) { in(in(o, "fingerprint"), "draft")["hash"] = "" },
			"field fingerprint.draft.hash is missing"},
		{"no size", false, func(o object) { in(in(o, "fingerprint"), "draft")["bytes"] = 0 },
			"field fingerprint.draft.bytes is 0"},
		{"k out of range", false, func(o object) { in(o, "fingerprint")["top_k"] = 65 },
			"field fingerprint.top_k is 65, want 1 to 64"},
		{"no bins", false, func(o object) { delete(o, "greedy"); delete(o, "coupled") },
			"fields greedy and coupled are missing"},
		{"too few edges", false, func(o object) { in(o, "greedy")["edges"] = []float64{1} },
			"field greedy has 1 edges"},
		{"edges down", false, func(o object) { in(o, "greedy")["edges"] = []float64{1, 1, 2} },
			"field greedy.edges: edge 1 is 1"},
		{"mean above N", false, func(o object) { in(o, "coupled")["means"] = []float64{61} },
			"field coupled.means: bin 0"},
		{"empty bin", false, func(o object) { in(o, "coupled")["counts"] = []int{0} },
			"field coupled.counts: bin 0 has 0"},
		{"nine bins", false, func(o object) { in(o, "greedy")["means"] = make([]float64, 9) },
			"field greedy.means has 9 bins"},
		{"no features", true, func(o object) { o["features"] = []string{} }, "field features has 0 names"},
		{"feature twice", true, func(o object) { o["features"] = []string{"depth", "entropy", "depth"} },
			`field features: "depth"`},
		{"unknown feature", true, func(o object) { o["features"] = []string{"depth", "entropy", "rank"} },
			`field features: "rank"`},
		{"fewer means", true, func(o object) { o["mean"] = []float64{1} }, "field mean has 1 values, want 3"},
		{"scale 0", true, func(o object) { o["scale"] = []float64{1, 0, 1} }, "field scale: value 1 is 0"},
		{"short row", true, func(o object) { o["hidden"] = [][]float64{{1, 2, 3}, {1, 2}} },
			"field hidden row 1 has 2 values, want 3"},
		{"no hidden units", true, func(o object) { o["hidden"] = [][]float64{} }, "field hidden has 0 rows"},
		{"output", true, func(o object) { o["output"] = []float64{1} }, "field output has 1 values, want 2"},
	} {
		text := hetero
		if c.c2t {
			text = c2t
		}
		var o object
		if err := json.Unmarshal(text, &o); err != nil {
			t.Fatal(err)
		}
		c.edit(o)
		text, err := json.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		if c.c2t {
			_, err = ParseC2T("my.json", text)
		} else {
			_, err = ParseHetero("my.json", text)
		}
		if err == nil || !strings.HasPrefix(err.Error(), "spec: my.json: ") || !strings.Contains(err.Error(), c.want) ||
			strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
	for text, want := range map[string]string{
		"":                       "not JSON at byte 0",
		"{":                      "not JSON at byte 1",
		"[]":                     "the JSON value is a list, want an object",
		string(hetero) + "{}":    "not JSON at byte",
		`{"kind":"hetero"}`:      "field version is 0",
		`{"kind":7,"version":1}`: "kind is 7, want a string",
	} {
		if _, err := ParseHetero("my.json", []byte(text)); err == nil ||
			!strings.Contains(err.Error(), "my.json: "+want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

func TestFingerprintsMatch(t *testing.T) {
	h, c := heteroCalibration(), classifier()
	same := fingerprint()
	same.Target.Name = "renamed.gguf"
	if err := h.Matches(same); err != nil {
		t.Errorf("a renamed file: %v", err)
	}
	tree := fingerprint().WithTree(4, 3, 16)
	if tree.TopK != 4 || tree.Depth != 3 || tree.Nodes != 16 || tree.Draft != fingerprint().Draft {
		t.Errorf("fingerprint %+v", tree)
	}
	if err := c.Matches(tree); err != nil {
		t.Errorf("the classifier refuses another tree: %v", err)
	}
	for _, m := range []struct {
		edit func(*spec.Fingerprint)
		want string
	}{
		{func(f *spec.Fingerprint) { f.Target.Hash = "77" }, "target big.gguf (q8_0, 4000 bytes, hash 01234567)"},
		{func(f *spec.Fingerprint) { f.Target.Bytes++ }, "but the target here is big.gguf (q8_0, 4001 bytes"},
		{func(f *spec.Fingerprint) { f.Draft.Quantisation = "f16" }, "but the draft here is small.gguf (f16"},
	} {
		f := fingerprint()
		m.edit(&f)
		for _, err := range []error{h.Matches(f), c.Matches(f)} {
			if err == nil || !strings.Contains(err.Error(), m.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%v, want %q", err, m.want)
			}
		}
	}
	if err := h.Matches(tree); err == nil ||
		!strings.HasSuffix(err.Error(), "foretoken calibrate hetero --top-k 4 --depth 3 --nodes 16") {
		t.Errorf("another tree: %v", err)
	}
	f := fingerprint()
	f.Draft.Hash = "1"
	if err := c.Matches(f); err == nil || !strings.HasSuffix(err.Error(), "foretoken train c2t") {
		t.Errorf("another draft: %v", err)
	}
}

func TestHeteroForChoosesBins(t *testing.T) {
	bins := func(k, d, n int) *HeteroCalibration {
		h := heteroCalibration()
		h.Fingerprint = h.Fingerprint.WithTree(k, d, n)
		return h
	}
	all := []*HeteroCalibration{bins(10, 5, 60), bins(4, 4, 16)}
	pair := fingerprint()
	if h, err := HeteroFor(all, pair.WithTree(4, 4, 16)); err != nil || h != all[1] {
		t.Errorf("%+v, %v", h, err)
	}
	other := pair.WithTree(10, 5, 60)
	other.Draft.Hash = "cc"
	for want, c := range map[string]struct {
		all  []*HeteroCalibration
		have spec.Fingerprint
	}{
		"calibrate hetero --top-k 5 --depth 4 --nodes 16": {all, pair.WithTree(5, 4, 16)},
		"draft small.gguf": {all, other}, // the bins of this tree, though another tree's come first
		"there are no":     {nil, other},
	} {
		if _, err := HeteroFor(c.all, c.have); err == nil || !strings.Contains(err.Error(), want) ||
			!strings.Contains(err.Error(), "foretoken calibrate hetero") {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
