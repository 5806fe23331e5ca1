package graph

import (
	"fmt"
	"slices"

	"foretoken/models/kv"
	"foretoken/webgpu/kernels"
)

// taps stores the residual stream after some layers by KV slot. A head reads these features through the slot table of
// the model's sequence. A model without a head has no taps.
type taps struct {
	layers []int          // numbered from 0
	views  []kernels.View // (slots, dim) f32, one per layer
	final  kernels.View   // scratch: the final hidden states, (rows, dim)
}

// Tap makes passes that are recorded from now on store the residual stream after the given layers, numbered from 0, by
// the slots of a sequence. Layer -1 is the embedding, and the number of layers itself stands for the final hidden
// states, after the output norm. It reports whether the layers are new: tapping the same ones again has no effect.
func (g *Graph) Tap(seq *kv.Sequence, layers []int) (bool, error) {
	if slices.Equal(layers, g.taps.layers) {
		return false, nil
	}
	if g.taps.layers != nil {
		return false, fmt.Errorf("graph: %s: layers %v are already tapped for another head; a target takes one head",
			g.File, g.taps.layers)
	}
	final := slices.Contains(layers, len(g.layers))
	if g.Arch.Residual != 1 && (len(layers) > 1 || !final) {
		return false, fmt.Errorf("graph: %s: the residual stream of a %s model is kept divided by a factor, so no "+
			"head can read it", g.File, g.Arch.Architecture)
	}
	t := taps{layers: slices.Clone(layers)}
	var err error
	view := func(label string, rows int) (v kernels.View) {
		if err == nil {
			v, err = g.Binding(label, 4*rows*g.Arch.Dim)
		}
		return v
	}
	for range layers {
		t.views = append(t.views, view("features", int(seq.Padding())+1))
	}
	if final {
		t.final = view("final hidden states", max(g.PassRows(), MaxPrefill))
	}
	if err != nil {
		return false, err
	}
	g.taps = t
	return true, nil
}

// Features returns the features that passes store, (slots, dim) f32 for each tapped layer.
func (g *Graph) Features() []kernels.View { return g.taps.views }
