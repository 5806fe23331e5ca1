//go:build !js

package foretoken

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"foretoken/internal/files"
	"foretoken/spec"
	"foretoken/spec/adapt"
)

func TestModelIDTellsFilesApart(t *testing.T) {
	big := bytes.Repeat([]byte("0123456789abcdef"), 1<<17) // 2 MiB
	id := func(b []byte, name string) spec.ModelID {
		t.Helper()
		m, err := modelID(files.FromBytes("file.gguf", b), name, "q8_0", nil)
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	changed := func(at int) []byte { b := slices.Clone(big); b[at]++; return b }
	base := id(big, "model")
	if other := id(big, ""); other.Hash != base.Hash || other.Name != "file.gguf" {
		t.Errorf("%+v and %+v", base, other)
	}
	for _, b := range [][]byte{changed(5), changed(len(big) - 1), big[:len(big)-1], {}, big[:100]} {
		if id(b, "model").Hash == base.Hash {
			t.Errorf("a file of %d bytes is taken for another", len(b))
		}
	}
}

func TestCalibrationSets(t *testing.T) {
	pair := spec.Fingerprint{Target: spec.ModelID{Name: "t", Bytes: 1, Hash: "aa", Quantisation: "q8_0"},
		Draft: spec.ModelID{Name: "d", Bytes: 1, Hash: "bb", Quantisation: "q8_0"}}
	bins := func(k, d, n int) *adapt.HeteroCalibration {
		h := &adapt.HeteroCalibration{Greedy: &adapt.HeteroFit{Edges: []float64{1}, Means: []float64{1.5, 2},
			Counts: []int{3, 4}}}
		h.Fingerprint = pair
		h.Fingerprint.TopK, h.Fingerprint.Depth, h.Fingerprint.Nodes = k, d, n
		return h
	}
	shaped := func(k, d, n int) spec.Fingerprint { return bins(k, d, n).Fingerprint }
	b, err := EncodeHetero(bins(10, 5, 60), bins(4, 4, 16))
	if err != nil {
		t.Fatal(err)
	}
	var c Calibrations
	if err := c.Parse("set.json", b); err != nil || len(c.Hetero) != 2 {
		t.Fatalf("%v, %d calibrations\n%s", err, len(c.Hetero), b)
	}
	if h, err := c.HeteroFor(shaped(4, 4, 16)); err != nil || h.Fingerprint.TopK != 4 {
		t.Errorf("%+v, %v", h, err)
	}
	if _, err := c.HeteroFor(shaped(5, 4, 16)); err == nil ||
		!strings.Contains(err.Error(), "foretoken calibrate hetero --top-k 5 --depth 4 --nodes 16") {
		t.Errorf("another tree: %v", err)
	}
	other := shaped(4, 4, 16)
	other.Draft.Hash = "cc"
	if _, err := c.HeteroFor(other); err == nil || !strings.Contains(err.Error(), "draft") {
		t.Errorf("another pair: %v", err)
	}
	if _, err := (&Calibrations{}).HeteroFor(other); err == nil ||
		!strings.Contains(err.Error(), "foretoken calibrate hetero") {
		t.Errorf("no bins: %v", err)
	}
	one, err := EncodeHetero(bins(10, 5, 60))
	if err != nil {
		t.Fatal(err)
	}
	var single Calibrations
	if err := single.Parse("one.json", one); err != nil || len(single.Hetero) != 1 {
		t.Errorf("%v", err)
	}
	for name, text := range map[string]string{
		"unknown kind":  `{"kind": "horoscope", "version": 1}`,
		"no list":       `{"kind": "set", "version": 1, "calibrations": 3}`,
		"set in a set":  `{"kind": "set", "version": 1, "calibrations": [{"kind": "set", "version": 1}]}`,
		"broken member": `{"kind": "set", "version": 1, "calibrations": [{"kind": "hetero", "version": 1}]}`,
		"other version": `{"kind": "set", "version": 2}`,
		"no object":     `[]`,
	} {
		if err := new(Calibrations).Parse("file.json", []byte(text)); err == nil ||
			!strings.Contains(err.Error(), "file.json") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
