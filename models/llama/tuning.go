package llama

import (
	"fmt"
	"slices"

	"foretoken/models/tune"
	"foretoken/webgpu/kernels"
	layerkernel "foretoken/webgpu/kernels/layer"
	"foretoken/webgpu/kernels/matmul"
	"foretoken/webgpu/kernels/sample"
)

// Tuning returns the choice for each class of kernels. Pass it to the next load on the same adapter: timing again
// may choose differently, which changes the last bits of the logits.
func (m *Model) Tuning() map[string]string { return m.tuning.Choices() }

// tune chooses the kernels of the model's passes.
func (m *Model) tune() error {
	w := &m.work
	c := tune.Config{Device: m.dev, Matrices: m.matrices(), Scratch: w.scratch, Rounded: w.rounded,
		Rows: m.prefillRows(), Known: m.opts.Tuning, Timed: m.opts.timed, Preparing: m.opts.Preparing}
	c.Reduce = func(r *kernels.Recorder, l kernels.Lanes) {
		layerkernel.RecordNorm(r, l, w.x, m.outNorm, w.norm, tune.TimedRows, m.cfg.Dim, m.cfg.Eps)
		sample.Record(r, l, m.logitRows(min(tune.TimedRows, m.opts.MaxRows)), m.opts.TopK, sample.RawLogits, w.draw,
			w.inputs, w.scratch, w.scores)
	}
	if m.planning() {
		c.Refuse = fmt.Errorf("llama: %s: kernels must be timed on this device first", m.file)
	}
	tuning, err := tune.New(c)
	if err == nil {
		m.tuning = tuning
	}
	return err
}

func (m *Model) preparing(step string) {
	if m.opts.Preparing != nil {
		m.opts.Preparing(step)
	}
}

// familyFor returns the kernel family with which a product of so many rows is recorded.
func (m *Model) familyFor(w *kernels.Weight, rows int) matmul.Family {
	if m.single {
		f := m.tuning.Family(w)
		f.Fixed = true
		return f
	}
	return m.tuning.Proved(w, rows)
}

// Work returns the dispatches of a pass over one row, about as TestDispatchesOfAStep counts them, and the bytes of the
// weights that it reads.
func (m *Model) Work() (dispatches int, bytes int64) {
	for _, of := range m.matrices() {
		for _, w := range of.Weights {
			if m.tuning.Family(w).Packed() {
				dispatches++
			}
			for _, p := range w.Parts {
				bytes += int64(p.Quants.Size + p.Scales.Size)
			}
		}
	}
	return dispatches + 5*len(m.layers) + 6, bytes
}

// matrices lists every matrix with the workspace buffers of its input and output rows.
func (m *Model) matrices() []tune.Matrix {
	w, all := &m.work, slices.Clone(m.extra)
	add := func(of *matrix, x, out kernels.View) {
		all = append(all, tune.Matrix{Weights: of.weights, X: x, Out: out})
	}
	add(m.output, w.norm, w.logits)
	for i := range m.layers {
		y := &m.layers[i]
		add(y.qkv, w.norm, w.qkv)
		add(y.out, w.att, w.x)
		add(y.down, w.act, w.x)
		add(y.gates, w.norm, w.gates)
	}
	return all
}
