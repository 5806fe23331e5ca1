//go:build !js

package foretoken

import (
	"testing"

	"foretoken/models/demo"
	"foretoken/spec"
)

// TestShippedCalibrationsBelongToTheBuiltInPair reads them as a program does and holds them
// to the models' own files.
func TestShippedCalibrationsBelongToTheBuiltInPair(t *testing.T) {
	var c Calibrations
	for _, f := range demo.Calibrations() {
		if err := c.Parse(f.Name, f.Data); err != nil {
			t.Fatal(err)
		}
	}
	s := demoSession(t, "cpu")
	pair := s.Fingerprint()
	for _, tree := range []spec.Config{spec.DefaultConfig(spec.DrafterEAGLE2), {TopK: 4, Depth: 4, Nodes: 16}} {
		h, err := c.HeteroFor(pair.Shaped(tree))
		if err != nil {
			t.Errorf("k=%d d=%d N=%d: %v", tree.TopK, tree.Depth, tree.Nodes, err)
			continue
		}
		for how, fit := range map[string]*spec.HeteroFit{"greedy": h.Greedy, "coupled": h.Coupled} {
			if fit == nil {
				t.Errorf("k=%d: no bins for %s trees", tree.TopK, how)
				continue
			}
			paths := 0
			for _, n := range fit.Counts {
				paths += n
			}
			if paths < spec.MinHeteroPaths {
				t.Errorf("k=%d, %s: fitted to %d paths", tree.TopK, how, paths)
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
	if c.Head.Dim != s.HiddenSize() {
		t.Errorf("the head reads hidden states of %d, the draft has %d", c.Head.Dim, s.HiddenSize())
	}
}
