//go:build !js

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"foretoken"
	"foretoken/spec/adapt"
)

func TestCategories(t *testing.T) {
	for prompt, want := range map[string]string{
		"x := 1\n// A comment.\n":              "comment",
		"\tif err != nil {\n":                  "error",
		"func (n *Name) prec() precedence {\n": "function",
		"type T struct {\n":                    "struct",
		"var (\n":                              "table",
		"\tmask = 0x7,\n":                      "table",
		"\tx := y\n":                           "statement",
		"":                                     "statement",
		"type ValueError struct {\n":           "struct",
		"func (p *Parser) errorExpected(pos token.Pos) {\n": "error",
	} {
		if got := categoryOf(prompt); got != want {
			t.Errorf("%q is a %s, want %s", prompt, got, want)
		}
	}
}

// prompts writes a prompt file of short Go beginnings.
func promptLines(t *testing.T, dir string, extra ...string) string {
	t.Helper()
	var b strings.Builder
	for i, p := range []string{"package main\n\nfunc main() {\n", "// Package a is\n", "type T struct {\n"} {
		line, _ := json.Marshal(map[string]string{"id": fmt.Sprint(i),
			"category": []string{"function", "comment", "struct"}[i], "prompt": p})
		fmt.Fprintf(&b, "%s\n", line)
	}
	for _, line := range extra {
		b.WriteString(line + "\n")
	}
	path := filepath.Join(dir, "prompts.jsonl")
	if err := os.WriteFile(path, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestSamplePromptsIsRepeatable(t *testing.T) {
	dir := t.TempDir()
	texts := map[string]string{}
	for _, name := range []string{"a", "b"} {
		out := filepath.Join(dir, name+".jsonl")
		o := call(t, "", "sample-prompts", "--device", "cpu", "--count", "3", "--seed", "5", "--min-tokens", "4",
			"--max-tokens", "20", "--out", out, "--json")
		var said struct {
			File       string
			Prompts    int
			Categories map[string]int
		}
		if err := json.Unmarshal([]byte(o.out), &said); err != nil || o.code != exitOK || said.File != out ||
			said.Prompts != 3 || len(said.Categories) == 0 {
			t.Fatalf("%v, %+v", err, o)
		}
		b, err := os.ReadFile(out)
		if err != nil {
			t.Fatal(err)
		}
		texts[name] = string(b)
		if _, err := os.Stat(out + ".partial"); err == nil {
			t.Error("the journal is still there")
		}
	}
	if texts["a"] != texts["b"] {
		t.Errorf("the same seed gives\n%s\nand\n%s", texts["a"], texts["b"])
	}
	all, err := readPrompts(filepath.Join(dir, "a.jsonl"))
	if err != nil || len(all) != 3 {
		t.Fatalf("%d prompts, %v", len(all), err)
	}
	for line := range strings.Lines(texts["a"]) {
		var p sampled
		if err := json.Unmarshal([]byte(line), &p); err != nil {
			t.Fatal(err)
		}
		if p.Category != categoryOf(p.Prompt) || p.From.Temperature != 1 || p.From.Tokens < 4 || p.From.Target == "" ||
			!strings.HasPrefix(p.Prompt, p.From.Start) || !strings.HasSuffix(p.Prompt, "\n") {
			t.Errorf("%+v", p)
		}
	}
}

// TestCalibrateSaysWhatIsMissing also resumes: the second run has one more prompt and must take the finished ones
// from the journal.
func TestCalibrateSaysWhatIsMissing(t *testing.T) {
	dir := t.TempDir()
	out := filepath.Join(dir, "calibration.json")
	args := []string{"calibrate", "hetero", "--device", "cpu", "--prompts", promptLines(t, dir), "--tokens", "16",
		"--depth", "1", "--top-k", "2", "--nodes", "4", "--out", out}
	o := call(t, "", args...)
	if o.code != exitError || !strings.Contains(o.err, "are missing") || !strings.Contains(o.err, "k=2 d=1 N=4") ||
		strings.Count(o.err, "\n") != 1 {
		t.Fatalf("code %d: %s", o.code, o.err)
	}
	if _, err := os.Stat(out); err == nil {
		t.Error("a file was written")
	}
	kept, err := filepath.Glob(filepath.Join(dir, "prompts.t0-s1-n16.*-k2-d1-n4.points.jsonl"))
	if err != nil || len(kept) != 1 {
		t.Fatalf("%v: %v", err, kept)
	}
	partial := kept[0]
	before, err := os.ReadFile(partial)
	if err != nil || strings.Count(string(before), "\n") != 4 {
		t.Fatalf("%v: %s", err, before)
	}
	// The journal is trusted: enough paths, all in two bins.
	head, _, _ := strings.Cut(string(before), "\n")
	var points []string
	for i := range adapt.MinHeteroPaths {
		phi, tcr := 0.5, 2
		if i%2 == 1 {
			phi, tcr = 1.5, 4
		}
		points = append(points, fmt.Sprintf(`{"phi":%v,"tcr":%d,"full":true}`, phi+float64(i)/1e6, tcr))
	}
	lines := strings.Split(strings.TrimSpace(string(before)), "\n")
	var first struct {
		ID   string          `json:"id"`
		Data json.RawMessage `json:"data"`
	}
	if err := json.Unmarshal([]byte(lines[1]), &first); err != nil {
		t.Fatal(err)
	}
	first.Data = json.RawMessage("[" + strings.Join(points, ",") + "]")
	b, _ := json.Marshal(first)
	if err := os.WriteFile(partial, []byte(head+"\n"+string(b)+"\n"+lines[2]+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if o = call(t, "", args...); o.code != exitOK {
		t.Fatal(o.err)
	}
	for _, want := range []string{"Φ in nats", "TCR"} {
		if !strings.Contains(o.out, want) {
			t.Errorf("no %q in\n%s", want, o.out)
		}
	}
	text, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	h, err := adapt.ParseHetero(out, text)
	if err != nil {
		t.Fatal(err)
	}
	if len(h.Fits) != 1 || h.Fits[0].Temperature != 0 || h.Fits[0].Prompts != 3 ||
		h.Fingerprint.TopK != 2 || h.Fingerprint.Nodes != 4 ||
		h.Fingerprint.Target.Hash == "" || h.Made.Requests != 3 || h.Made.Samples <= adapt.MinHeteroPaths {
		t.Errorf("%+v", h)
	}
	// Other settings fit to the same points. --compare writes nothing.
	o = call(t, "", append(args, "--cart-depth", "4", "--low-bins", "2", "--leaf", "9", "--weighted")...)
	again, err := os.ReadFile(out)
	if err == nil && o.code == exitOK {
		h, err = adapt.ParseHetero(out, again)
	}
	if want := (adapt.HeteroFitting{CARTDepth: 4, Leaf: 9, LowBins: 2, Weighted: true}); err != nil ||
		h.Fits[0].HeteroFitting != want {
		t.Errorf("%v: %+v, code %d: %s", err, h.Fits[0], o.code, o.err)
	}
	if o = call(t, "", append(args, "--compare")...); o.code != exitOK || !strings.Contains(o.out, "overlap") ||
		strings.Count(o.out, "weighted ") != 4 {
		t.Errorf("code %d: %s%s", o.code, o.out, o.err)
	}
	// A calibration of another tree is kept; a file of another pair is refused.
	var c foretoken.Calibrations
	if err := c.Parse(out, text); err != nil {
		t.Fatal(err)
	}
	other := bytes.ReplaceAll(text, []byte(h.Fingerprint.Target.Hash), []byte("ffff"))
	if err := os.WriteFile(out, other, 0o600); err != nil {
		t.Fatal(err)
	}
	if o = call(t, "", append(args, "--add")...); o.code == exitOK || !strings.Contains(o.err, "cannot be added to") {
		t.Errorf("code %d: %s", o.code, o.err)
	}
}

func TestTrainC2TOnTheBuiltInPair(t *testing.T) {
	dir := t.TempDir()
	prompts := promptLines(t, dir)
	train := func(out string, extra ...string) (string, []byte) {
		t.Helper()
		o := call(t, "", append([]string{"train", "c2t", "--device", "cpu", "--prompts", prompts, "--tokens", "18",
			"--others", "10", "--out", filepath.Join(dir, out)}, extra...)...)
		if o.code != exitOK {
			t.Fatal(o.err)
		}
		b, err := os.ReadFile(filepath.Join(dir, out))
		if err != nil {
			t.Fatal(err)
		}
		return o.out, b
	}
	out, first := train("c2t.json")
	c, err := adapt.ParseC2T("c2t.json", first)
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Features) != 3 || len(c.Hidden) != c2tHidden || c.Fingerprint.Depth != c2tDepth ||
		c.Made.Settings["recall"] == "" || !strings.Contains(out, "epoch  10:") || !strings.Contains(out, "threshold") {
		t.Errorf("%+v\n%s", c.Made, out)
	}
	if len(first) > 16<<10 {
		t.Errorf("the file has %d bytes", len(first))
	}
	// A likely child of the root has a higher confidence than an unlikely leaf of a deep branch.
	if likely, hopeless := c.Confidence(adapt.C2TFeatures{Probability: 0.95, Entropy: 0.2, Depth: 1}), c.Confidence(
		adapt.C2TFeatures{Probability: 1e-6, Entropy: 6, Depth: 9}); likely < hopeless+0.2 {
		t.Errorf("confidences %v and %v", likely, hopeless)
	}
	if testing.Short() {
		return
	}
	said, again := train("again.json", "--json")
	if !bytes.Equal(first, again) {
		t.Error("a second run gives another file")
	}
	var object writtenFile
	if err := json.Unmarshal([]byte(said), &object); err != nil || object.File != filepath.Join(dir, "again.json") ||
		object.Bytes != len(again) || len(object.Calibrations) != 1 ||
		object.Calibrations[0].Kind != "c2t" || object.Calibrations[0].Made.Settings["recall"] == "" ||
		object.Calibrations[0].Fingerprint.Target.Hash == "" {
		t.Errorf("%v in %q", err, said)
	}
	_, ablated := train("ablation.json", "--features", "probability,depth", "--hidden", "4")
	if c, err := adapt.ParseC2T("ablation.json", ablated); err != nil || len(c.Features) != 2 || len(c.Hidden) != 4 {
		t.Errorf("%v", err)
	}
	path := filepath.Join(dir, "cut.json")
	if o := call(t, "", "train", "c2t", "--device", "cpu", "--cut", "0.3", "--out", path); o.code != exitOK {
		t.Fatal(o.err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	cut, err := adapt.ParseC2T("cut.json", data)
	if err != nil || cut.Matches(c.Fingerprint) != nil {
		t.Fatalf("%+v, %v", cut, err)
	}
	for p, keep := range map[float64]bool{0.01: false, 0.29: false, 0.31: true, 0.9: true} {
		if got := cut.Confidence(adapt.C2TFeatures{Probability: p, Entropy: 3, Depth: 4}) > 0.5; got != keep {
			t.Errorf("a joint probability of %v: kept is %v", p, got)
		}
	}
	out = call(t, "", "train", "c2t", "--device", "cpu", "--prompts", prompts, "--tokens", "18", "--others", "10",
		"--entropy-top", "2,5", "--epochs", "1", "--out", filepath.Join(dir, "top.json")).out
	for _, top := range []int{2, 5} {
		file := filepath.Join(dir, fmt.Sprintf("top-%d.json", top))
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		most := math.Log(float64(top))
		if c, err := adapt.ParseC2T(file, b); err != nil || c.EntropyTop != top || !(c.Mean[1] > 0) ||
			!(c.Mean[1] < most) || !strings.Contains(out, file) {
			t.Errorf("%v: %+v\n%s", err, c, out)
		}
	}
	out, tuned := train("tuned.json", "--from", filepath.Join(dir, "c2t.json"), "--part", "0.8")
	if !strings.Contains(out, "as trained for the other pair:") {
		t.Errorf("no figures of the classifier before it was tuned:\n%s", out)
	}
	d, err := adapt.ParseC2T("tuned.json", tuned)
	if err != nil || d.Made.Settings["fine-tuned from"] == "" || d.Mean[0] != c.Mean[0] {
		t.Errorf("%v: %+v", err, d)
	}
	if bytes.Equal(tuned, first) {
		t.Error("fine-tuning changed nothing")
	}
	o := call(t, "", "train", "c2t", "--device", "cpu", "--prompts", prompts, "--tokens", "18", "--exclude-category",
		"function,comment,struct", "--out", filepath.Join(dir, "none.json"))
	if o.code != exitError || !strings.Contains(o.err, "no prompt is left") {
		t.Errorf("code %d: %s", o.code, o.err)
	}
}

// TestTrainAcceptanceHeadOnTheBuiltInPair trains heads for the draft and for the EAGLE-3 head into one file.
func TestTrainAcceptanceHeadOnTheBuiltInPair(t *testing.T) {
	dir := t.TempDir()
	prompts, path := promptLines(t, dir), filepath.Join(dir, "heads.json")
	for i, c := range []struct {
		how           []string
		source, label string
		layers, dim   int
		heads         int // in the file afterwards
	}{
		{nil, "", adapt.LabelArgmax, 1, 96, 1},
		{[]string{"--temperature", "1", "--label", "ratio", "--layers", "2", "--mixtures", "1", "--add"}, "",
			adapt.LabelRatio, 2, 96, 2},
		{[]string{"--source", "eagle3", "--layers", "0", "--add"}, "eagle3", adapt.LabelArgmax, 0, 256, 3},
		{[]string{"--source", "eagle3", "--layers", "0", "--add"}, "eagle3", adapt.LabelArgmax, 0, 256, 3}, // again
	} {
		o := call(t, "", append([]string{"train", "acceptance-head", "--device", "cpu", "--prompts", prompts,
			"--tokens", "16", "--out", path}, c.how...)...)
		if o.code != exitOK {
			t.Fatal(o.err)
		}
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var all foretoken.Calibrations
		if err := all.Parse(path, b); err != nil || len(all.Heads) != c.heads {
			t.Fatalf("%d: %d heads, want %d: %v", i, len(all.Heads), c.heads, err)
		}
		h := all.Heads[c.heads-1]
		if h.Source != c.source || h.Label != c.label || len(h.Layers) != c.layers || h.Dim != c.dim ||
			h.Made.Samples < 12 || h.Fingerprint.Draft.Hash == "" {
			t.Errorf("%v: source %q, label %s, %d layers, %+v", c.how, h.Source, h.Label, len(h.Layers), h.Made)
		}
		if !strings.Contains(o.out, "AUC") || !strings.Contains(o.out, "estimate") {
			t.Errorf("%s", o.out)
		}
		if i > 0 && all.Heads[0].Fingerprint.Target != h.Fingerprint.Target {
			t.Errorf("%v: fitted to %v", c.how, h.Fingerprint)
		}
	}
}

func TestCalibrationFlagsAreChecked(t *testing.T) {
	dir := t.TempDir()
	prompts := promptLines(t, dir)
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"calibrate", "hetero"}, "--prompts"},
		{[]string{"calibrate", "hetero", "--prompts", prompts, "--tree", "4,4"}, "--tree"},
		{[]string{"calibrate", "hetero", "--prompts", prompts, "--tree", "10,5,60"}, "twice"},
		{[]string{"calibrate", "hetero", "--prompts", prompts, "--top-k", "0"}, "top-k"},
		{[]string{"calibrate", "hetero", "--prompts", prompts, "--cart-depth", "7"}, "--cart-depth"},
		{[]string{"calibrate", "hetero", "--prompts", prompts, "--low-bins", "9"}, "--low-bins"},
		{[]string{"calibrate", "hetero", "--prompts", prompts, "--no-coupling", "--temperature", "1"}, "--no-coupling"},
		{[]string{"calibrate", "hetero", "--prompts", prompts, "--draft", "none"}, "--draft"},
		{[]string{"calibrate", "hetero", "--prompts", prompts, "--tokens", "1"}, "--tokens"},
		{[]string{"calibrate", "hetero", "--prompts", prompts, "--device", "abacus"}, "abacus"},
		{[]string{"train", "c2t", "--prompts", prompts, "--features", "mood"}, "mood"},
		{[]string{"train", "c2t", "--prompts", prompts, "--ratio", "0"}, "--ratio"},
		{[]string{"train", "c2t", "--prompts", prompts, "--cut", "0.3"}, "--cut and --prompts"},
		{[]string{"train", "c2t", "--cut", "1"}, "--cut is 1"},
		{[]string{"train", "c2t", "--prompts", prompts, "--from", "x.json", "--hidden", "3"}, "--from"},
		{[]string{"train", "acceptance-head", "--prompts", prompts, "--label", "ratio"}, "--temperature"},
		{[]string{"train", "acceptance-head", "--prompts", prompts, "--layers", "3"}, "--layers"},
		{[]string{"train", "acceptance-head", "--prompts", prompts, "--mix", "1"}, "--mix"},
		{[]string{"sample-prompts"}, "--out"},
		{[]string{"sample-prompts", "--out", "x", "--count", "0"}, "--count"},
	} {
		o := call(t, "", c.args...)
		if o.code != exitUsage || !strings.Contains(o.err, c.want) || strings.Count(o.err, "\n") != 1 {
			t.Errorf("%v: code %d, %q", c.args, o.code, o.err)
		}
	}
}
