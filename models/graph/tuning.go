package graph

import (
	"fmt"

	"foretoken/models/kv"
	"foretoken/models/tune"
	"foretoken/webgpu/kernels"
	layerkernel "foretoken/webgpu/kernels/layer"
	"foretoken/webgpu/kernels/matmul"
	"foretoken/webgpu/kernels/sample"
)

// tune chooses the kernels of the model's passes.
func (g *Graph) tune() error {
	w, o := &g.Space, &g.Options
	c := tune.Config{Device: g.Dev, Matrices: g.Matrices(), Scratch: w.Scratch, Rounded: w.rounded,
		Rows: g.PrefillRows(), Known: o.Tuning, Timed: o.Timed, Preparing: o.Preparing}
	c.Reduce = func(r *kernels.Recorder, l kernels.Lanes) {
		layerkernel.RecordNorm(r, l, w.X, g.outNorm, w.Norm, tune.TimedRows, g.Arch.Dim, g.eps())
		g.sample(r, l, min(tune.TimedRows, o.MaxRows))
	}
	if g.planning() {
		c.Refuse = fmt.Errorf("graph: %s: kernels must be timed on this device first", g.File)
	}
	tuning, err := tune.New(c)
	if err == nil {
		g.Kernels = tuning
	}
	return err
}

// familyFor returns the kernel family with which a product of so many rows is recorded.
func (g *Graph) familyFor(w *kernels.Weight, rows int) matmul.Family {
	if g.Single {
		f := g.Kernels.Family(w)
		f.Fixed = true
		return f
	}
	return g.Kernels.Proved(w, rows)
}

// sample records the choice of candidates from the first rows of logits, for positions of no meaning.
func (g *Graph) sample(r *kernels.Recorder, l kernels.Lanes, rows int) {
	w := &g.Space
	sample.Record(r, l, g.LogitRows(rows), g.Options.TopK, sample.RawLogits, w.Draw, w.X, w.Scratch, w.scores)
}

// Work returns the dispatches of a pass over one row, with its logits and candidates, and the bytes of the weights
// that it reads.
func (g *Graph) Work() (dispatches int, bytes int64) {
	for _, of := range g.Matrices() {
		for _, w := range of.Weights {
			for _, p := range w.Parts {
				bytes += int64(p.Quants.Size + p.Scales.Size)
			}
		}
	}
	seq, layers := kv.NewSequence(g.Dev, 0), len(g.layers)
	for i := range g.layers {
		layers = max(layers, g.layers[i].mix.Shares)
	}
	seq.Table, seq.Layers = kernels.View{Size: 4 * g.Options.Context}, make([]kv.Layer, layers)
	p, r := kv.NewPass(seq, 0, 0, 1, 1), g.Recorder("one row")
	p.Borrow(seq, kernels.View{})
	g.Forward(r, &p, 1)
	g.Head(r, 0, 1, 0)
	g.sample(r, g.Kernels.Lanes, 1)
	return r.Dispatches(), bytes
}

// Matrices lists every matrix with the workspace buffers of its input and output rows.
func (g *Graph) Matrices() []tune.Matrix {
	var all []tune.Matrix
	add := func(of *matrix, x, out kernels.View) {
		all = append(all, tune.Matrix{Weights: of.weights, X: x, Out: out})
	}
	w := &g.Space
	if h := g.head; h != nil {
		add(h.qkv, w.Norm, w.qkv)
		for _, f := range h.fuse {
			add(f, h.tapped, w.X)
		}
	}
	add(g.output, w.Norm, w.Logits)
	for i := range g.layers {
		y := &g.layers[i]
		add(y.qkv, w.Norm, w.qkv)
		add(y.out, w.att, w.X)
		add(y.down, w.act, w.X)
		add(y.gates, w.Norm, w.gates)
	}
	return all
}
