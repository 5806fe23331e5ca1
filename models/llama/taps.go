package llama

import (
	"fmt"
	"slices"

	"foretoken/webgpu"
	"foretoken/webgpu/kernels"
)

// taps is where the residual stream after some layers is kept, by KV slot: what a head that
// drafts from a target's features reads through the target's slot table. A model
// without such a head has none and records nothing.
type taps struct {
	layers []int          // counted from 0
	views  []kernels.View // (slots, dim) f32, of each layer
}

// tap records that a pass's rows after a layer are kept, where the layer is tapped.
func (m *Model) tap(r *kernels.Recorder, p *pass, layer, n int) {
	for i, l := range m.taps.layers {
		if l == layer {
			r.StoreFeatures(p.rows, m.work.x, m.taps.views[i], n, m.cfg.Dim)
		}
	}
}

// Tap has every later pass keep the residual stream after the given layers, ascending
// and counted from 0. The programs are made anew, and the sequence is emptied: what was
// fed before has nothing kept. Tapping the same layers again changes nothing.
func (t *Target) Tap(layers []int) error {
	if slices.Equal(layers, t.taps.layers) {
		return nil
	}
	for i, l := range layers {
		if l < 0 || l >= t.cfg.Layers || i > 0 && l <= layers[i-1] {
			return fmt.Errorf("llama: %s: layers %v cannot be tapped; it has 0 to %d", t.file, layers, t.cfg.Layers-1)
		}
	}
	if t.taps.layers != nil {
		return fmt.Errorf("llama: %s: layers %v are tapped already for another head; one head a target", t.file, t.taps.layers)
	}
	words := (int(t.work.trash) + 1) * t.cfg.Dim
	if most := t.dev.Info().Limits.MaxBindingSize; 4*words > most {
		return fmt.Errorf("llama: %s: the features of %d positions take %d bytes a layer, more than the device binds (%d); load with a shorter context", t.file, t.opts.Context, 4*words, most)
	}
	if err := t.layTaps(layers); err != nil {
		return err
	}
	t.Reset()
	return t.rerecord()
}

// layTaps makes the buffers that layers are kept in.
func (t *Target) layTaps(layers []int) error {
	var views []kernels.View
	for range layers {
		v, err := t.bound("features", 4*(int(t.work.trash)+1)*t.cfg.Dim)
		if err != nil {
			return err
		}
		views = append(views, v)
	}
	t.taps = taps{slices.Clone(layers), views}
	return nil
}

// rerecord makes the programs that hold the model's blocks anew.
func (t *Target) rerecord() error {
	t.preparing("recording feature taps")
	recorders, keep := t.recordFeeding(t.forward)
	feeding := len(recorders)
	var verify []*webgpu.Program
	for key, programs := range t.parts {
		r := t.recorder(fmt.Sprintf("verify %d from %d", key.rows, key.from))
		t.forward(r, t.feeding.batch.rowsFrom(key.from), key.rows)
		t.head(r, 0, key.rows, t.work.logits, 0)
		recorders, verify = append(recorders, r), append(verify, &programs.verify)
	}
	programs, err := t.build(recorders...)
	if err != nil {
		return err
	}
	keep(programs[:feeding])
	for i, p := range programs[feeding:] {
		*verify[i] = p
	}
	return nil
}
