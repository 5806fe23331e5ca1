package llama

import (
	"fmt"
	"slices"

	"foretoken/models/kv"
	"foretoken/webgpu/kernels"
	layerkernel "foretoken/webgpu/kernels/layer"
)

// taps stores the residual stream after some layers by KV slot. An EAGLE-3 head reads these features through the
// target's slot table. A model without a head has no taps.
type taps struct {
	layers []int          // numbered from 0
	views  []kernels.View // (slots, dim) f32, one per layer
}

// tap records the storing of a pass's rows after a layer, if the layer is tapped.
func (m *Model) tap(r *kernels.Recorder, p *kv.Pass, layer, n int) {
	for i, l := range m.taps.layers {
		if l == layer {
			layerkernel.RecordStoreFeatures(r, p.Rows, m.work.x, m.taps.views[i], n, m.cfg.Dim)
		}
	}
}

// Tap makes every later pass store the residual stream after the given layers, in ascending order and numbered from
// 0. It empties the sequence, whose features were not stored, and records the programs again. Tapping the same
// layers again has no effect.
func (t *Target) Tap(layers []int) error {
	if slices.Equal(layers, t.taps.layers) {
		return nil
	}
	if t.taps.layers != nil {
		return fmt.Errorf("llama: %s: layers %v are already tapped for another head; a target takes one head", t.file,
			t.taps.layers)
	}
	if err := t.allocateTaps(layers); err != nil {
		return err
	}
	t.Reset()
	return t.rerecord()
}

// allocateTaps makes the buffers of the features.
func (t *Target) allocateTaps(layers []int) error {
	var views []kernels.View
	for range layers {
		v, err := t.newBinding("features", 4*(int(t.seq.Padding())+1)*t.cfg.Dim)
		if err != nil {
			return err
		}
		views = append(views, v)
	}
	t.taps = taps{slices.Clone(layers), views}
	return nil
}

// rerecord records the programs that contain the model's blocks again, with the taps.
func (t *Target) rerecord() error {
	t.preparing("recording feature taps")
	b := &programBatch{}
	t.recordPrefill(b, t.forward)
	for key, programs := range t.parts {
		t.recordVerify(b, key, programs)
	}
	return t.buildBatch(b)
}
