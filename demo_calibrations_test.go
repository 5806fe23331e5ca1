//go:build !js

package foretoken

import (
	"testing"

	"foretoken/models/demo"
	"foretoken/spec/adapt"
	"foretoken/spec/method"
)

// TestShippedCalibrationsBelongToTheBuiltInPair reads the calibrations as a program does and compares them with the
// models' files.
func TestShippedCalibrationsBelongToTheBuiltInPair(t *testing.T) {
	var c Calibrations
	for _, f := range demo.Calibrations() {
		if err := c.Parse(f.Name, f.Data); err != nil {
			t.Fatal(err)
		}
	}
	s := demoSession(t, "cpu")
	pair := s.Fingerprint()
	for _, tree := range []method.Config{method.DefaultConfig(method.DrafterEAGLE2), {TopK: 4, Depth: 4, Nodes: 16}} {
		h, err := adapt.HeteroFor(c.Hetero, pair.WithTree(tree.TopK, tree.Depth, tree.Nodes))
		if err != nil {
			t.Errorf("k=%d d=%d N=%d: %v", tree.TopK, tree.Depth, tree.Nodes, err)
			continue
		}
		for _, temperature := range []float64{0, 0.5, 1} {
			fit, err := h.Fit(temperature, temperature > 0)
			if err != nil {
				t.Errorf("k=%d: %v", tree.TopK, err)
				continue
			}
			paths := 0
			for _, n := range fit.Counts {
				paths += n
			}
			if paths < adapt.MinHeteroPaths {
				t.Errorf("k=%d, temperature %v: fitted to %d paths", tree.TopK, temperature, paths)
			}
		}
	}
	if c.C2T == nil || c.Head == nil {
		t.Fatal("a classifier or a head is missing")
	}
	if err := c.C2T.Matches(pair); err != nil {
		t.Error(err)
	}
	if err := c.Head.Matches(pair); err != nil {
		t.Error(err)
	}
	if c.Head.Dim != s.pair.Draft.Graph.Arch.Dim {
		t.Errorf("the head reads hidden states of %d, the draft has %d", c.Head.Dim, s.pair.Draft.Graph.Arch.Dim)
	}
}
