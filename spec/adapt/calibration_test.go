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
		Fits: []*HeteroFit{
			{HeteroFitting: HeteroFitting{CARTDepth: 3, Leaf: 12, LowBins: 3}, Prompts: 40,
				Edges: []float64{1.5, 2.25, 4}, Means: []float64{7, 8.5, 20, 31}, Counts: []int{300, 200, 60, 40},
				Rounds: []int{400, 300, 200, 400}},
			{Temperature: 1, HeteroFitting: HeteroFitting{CARTDepth: 2, Leaf: 12, LowBins: 2, Weighted: true},
				Prompts: 40, Edges: []float64{}, Means: []float64{9}, Counts: []int{700}, Rounds: []int{1500}},
		},
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
	fit := func(o object, i int) object { return o["fits"].([]any)[i].(object) }
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
		{"no bins", false, func(o object) { delete(o, "fits") }, "field fits is missing"},
		{"null for a fit", false, func(o object) { o["fits"] = []any{nil} }, "field fits[0] is null"},
		{"too few edges", false, func(o object) { fit(o, 0)["edges"] = []float64{1} },
			"fits[0]: field edges has 1 values"},
		{"edges down", false, func(o object) { fit(o, 0)["edges"] = []float64{1, 1, 2} },
			"fits[0]: field edges: edge 1 is 1"},
		{"mean above N", false, func(o object) { fit(o, 1)["means"] = []float64{61} },
			"fits[1]: field means: bin 0"},
		{"empty bin", false, func(o object) { fit(o, 1)["counts"] = []int{0} },
			"fits[1]: field counts: bin 0 has 0"},
		{"fewer rounds than paths", false, func(o object) { fit(o, 1)["rounds"] = []int{699} },
			"field rounds: bin 0 has 699 rounds for 700 paths"},
		{"nine bins", false, func(o object) { fit(o, 0)["means"] = make([]float64, 9) },
			"fits[0]: field means has 9 bins, want 1 to 8"},
		{"a deep tree", false, func(o object) { fit(o, 0)["cart_depth"] = 7 }, "field cart_depth is 7, want 1 to 6"},
		{"no low bins", false, func(o object) { fit(o, 1)["low_bins"] = 5 }, "field low_bins is 5, want 1 to 4"},
		{"below 0", false, func(o object) { fit(o, 0)["temperature"] = -1 }, "field temperature is -1"},
		{"two fits of a band", false, func(o object) { fit(o, 0)["temperature"] = 0.6 },
			"fits[1]: field temperature is 1, want bands"},
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

func TestHeteroFitsBelongToBands(t *testing.T) {
	h := heteroCalibration()
	for _, c := range []struct {
		temperature float64
		coupled     bool
		fit         int
		want        string
	}{
		{0, false, 0, ""}, {1, false, 0, ""}, {1, true, 1, ""}, {0.51, true, 1, ""},
		{0.5, true, -1, "temperatures 0, above 0.5 to 1 and not to temperature 0.5; fit them with foretoken " +
			"calibrate hetero --top-k 10 --depth 5 --nodes 60 --temperature 0.5 --add"},
		{1.01, true, -1, "--temperature 1.01 --add"},
	} {
		f, err := h.Fit(c.temperature, c.coupled)
		if c.want == "" && (err != nil || f != h.Fits[c.fit]) ||
			c.want != "" && (err == nil || !strings.HasSuffix(err.Error(), c.want)) {
			t.Errorf("%+v: %+v, %v", c, f, err)
		}
	}
	low, other := *h.Fits[1], *h.Fits[1]
	low.Temperature, other.Temperature = 0.3, 0.8
	h.AddFit(&low)
	h.AddFit(&other)
	if len(h.Fits) != 3 || h.Fits[1] != &low || h.Fits[2] != &other {
		t.Errorf("%+v", h.Fits)
	}
	if err := h.Validate(); err != nil {
		t.Error(err)
	}
	h.Fits = h.Fits[1:]
	if _, err := h.Fit(1, false); err == nil || !strings.Contains(err.Error(), "temperature 0 or uncoupled drafts") {
		t.Errorf("uncoupled drafts take the bins of coupled ones: %v", err)
	}
}
