//go:build !js

package foretoken

import (
	"context"
	"strings"
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
	var o Options
	o.EAGLE3, o.EAGLE3Config = demo.Head()
	s := demoSessionWith(t, "cpu", o)
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
	if c.C2T == nil {
		t.Fatal("a classifier is missing")
	}
	if err := c.C2T.Matches(pair); err != nil {
		t.Error(err)
	}
	for _, source := range method.Sources() {
		ids, model := pair, s.pair.Draft
		if source == method.SourceEAGLE3 {
			ids, model = s.HeadFingerprint(), s.pair.Head
		}
		for _, temperature := range []float64{0, 0.5, 1} {
			use := method.Config{Source: source}.AcceptanceUse(temperature)
			if h, err := adapt.AcceptanceFor(c.Heads, ids, use); err != nil || h.Dim != model.Graph.Arch.Dim {
				t.Errorf("%+v: %v", use, err)
			}
		}
	}
}

// TestAcceptanceHeadsAreForTheirUse refuses requests that no head was trained for, and names the command that trains
// one.
func TestAcceptanceHeadsAreForTheirUse(t *testing.T) {
	s := demoSession(t, "cpu")
	for _, c := range []struct {
		r    Request
		want string // "": it runs
	}{
		{Request{Policy: "acceptance"}, ""},
		{Request{Policy: "acceptance-chain", Temperature: 0.7}, ""},
		{Request{Policy: "acceptance", Temperature: 0.7, TopP: new(0.0)}, ""}, // greedy
		{Request{Policy: "acceptance", Temperature: 1.5}, "train acceptance-head --temperature 1.5 --label draw"},
		{Request{Policy: "acceptance", Temperature: 1, Coupled: new(false)}, "--temperature 1 --label probability"},
		{Request{Policy: "acceptance-chain", Temperature: 1, Verifier: method.VerifierRejection},
			"--temperature 1 --label ratio"},
	} {
		c.r.MaxTokens = 2
		_, err := s.Generate(context.Background(), "package main\n", c.r, nil)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", c.r, err, c.want)
		}
	}
}
