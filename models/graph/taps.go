package graph

import (
	"fmt"
	"slices"

	"foretoken/models/kv"
	"foretoken/webgpu/kernels"
	layerkernel "foretoken/webgpu/kernels/layer"
)

// taps stores the residual stream after some layers by KV slot. A head reads these features through the slot table of
// the model's sequence. A model without a head has no taps.
type taps struct {
	layers []int          // numbered from 0
	views  []kernels.View // (slots, dim) f32, one per layer
}

// Tap makes passes that are recorded from now on store the residual stream after the given layers, in ascending order
// and numbered from 0, by the slots of a sequence. It reports whether these are new: tapping the same layers again has
// no effect.
func (g *Graph) Tap(seq *kv.Sequence, layers []int) (bool, error) {
	if slices.Equal(layers, g.taps.layers) {
		return false, nil
	}
	if g.taps.layers != nil {
		return false, fmt.Errorf("graph: %s: layers %v are already tapped for another head; a target takes one head",
			g.File, g.taps.layers)
	}
	t := taps{layers: slices.Clone(layers)}
	for range layers {
		v, err := g.Binding("features", 4*(int(seq.Padding())+1)*g.Arch.Dim)
		if err != nil {
			return false, err
		}
		t.views = append(t.views, v)
	}
	g.taps = t
	return true, nil
}

// Features returns the features that passes store, (slots, dim) f32 for each tapped layer.
func (g *Graph) Features() []kernels.View { return g.taps.views }

// tap records the storing of a pass's rows after a layer, if the layer is tapped.
func (g *Graph) tap(r *kernels.Recorder, p *kv.Pass, layer, n int) {
	for i, l := range g.taps.layers {
		if l == layer {
			layerkernel.RecordStoreFeatures(r, p.Rows, g.Space.X, g.taps.views[i], n, g.Arch.Dim)
		}
	}
	if g.head != nil {
		layerkernel.RecordStoreFeatures(r, p.Rows, g.Space.X, g.head.hidden, n, g.Arch.Dim)
	}
}
