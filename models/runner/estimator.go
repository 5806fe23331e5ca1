package runner

import (
	"cmp"
	"fmt"
	"slices"

	"foretoken/models/graph"
	"foretoken/spec"
	"foretoken/webgpu"
	"foretoken/webgpu/kernels"
	"foretoken/webgpu/kernels/layer"
)

// estimator is an acceptance head on the device. Its program follows a pass in the same submit: it records the
// output norm and reads the hidden states.
type estimator struct {
	of      *spec.Estimator // the head whose weights it holds
	dim     int
	layers  []estimatorLayer
	output  kernels.View                           // w (dim), then c
	scratch [spec.MostEstimatorLayers]kernels.View // (rows, dim): of each layer
}

type estimatorLayer struct {
	weight kernels.View // (dim, dim), input-major
	bias   kernels.View
}

// estimate has the next drafts read the estimates of an acceptance head, and fill Level.Accepts and Drawn.Accept, or
// of none if e is nil. Heads with equally many layers take turns in the same buffers.
func (d *Draft) estimate(e *spec.Estimator) error {
	d.estimator = nil
	if e == nil {
		return nil
	}
	if err := e.Validate(); err != nil {
		return fmt.Errorf("runner: acceptance head: %w", err)
	}
	if e.Dim != d.Graph.Arch.Dim {
		return fmt.Errorf("runner: acceptance head: its hidden states have %d elements, "+
			"but those of %s have %d; train one for this draft", e.Dim, d.Graph.File, d.Graph.Arch.Dim)
	}
	at := &d.estimators[len(e.Layers)]
	if *at == nil {
		made, err := newEstimator(d, len(e.Layers))
		if err != nil {
			return err
		}
		*at = made
	}
	if (*at).of != e {
		if err := (*at).write(d.Graph.Dev, e); err != nil {
			return err
		}
		(*at).of = e
	}
	d.estimator = *at
	return nil
}

// newEstimator makes the buffers of heads with so many layers.
func newEstimator(d *Draft, layers int) (*estimator, error) {
	n, e := d.Graph.Arch.Dim, &estimator{dim: d.Graph.Arch.Dim, layers: make([]estimatorLayer, layers)}
	var err error
	buffer := func(words int) kernels.View {
		v, fault := d.Graph.Buffer("acceptance head", 4*words)
		err = cmp.Or(err, fault)
		return v
	}
	e.output = buffer(n + 1)
	for i := range e.layers {
		e.layers[i] = estimatorLayer{weight: buffer(n * n), bias: buffer(n)}
		e.scratch[i] = buffer(d.trees.hostRows() * n)
	}
	return e, err
}

// write uploads a head's weights.
func (e *estimator) write(dev webgpu.Device, of *spec.Estimator) error {
	upload := func(v kernels.View, w []float32) error { return dev.Write(v.Buffer, v.Offset, webgpu.F32Bytes(w)) }
	for i, l := range of.Layers {
		byInput := make([]float32, len(l.Weight))
		for n := range e.dim {
			for k := range e.dim {
				byInput[k*e.dim+n] = l.Weight[n*e.dim+k]
			}
		}
		if err := cmp.Or(upload(e.layers[i].weight, byInput), upload(e.layers[i].bias, l.Bias)); err != nil {
			return err
		}
	}
	return upload(e.output, append(slices.Clone(of.Weight), of.Bias))
}

// estimates are the programs that read a pass with an acceptance head, by the number of its layers; 0: not compiled.
type estimates [spec.MostEstimatorLayers + 1]webgpu.Program

// of returns the program for a head.
func (p *estimates) of(e *estimator) *webgpu.Program { return &p[len(e.layers)] }

// record records the head over rows of a pass; the estimates go to out from word at on.
func (e *estimator) record(g *graph.Graph, r *kernels.Recorder, rows int, out kernels.View, at int) {
	g.Normalise(r, rows)
	x := g.Space.Norm
	for i, l := range e.layers {
		layer.RecordAcceptLayer(r, l.weight, l.bias, x, e.scratch[i], rows, e.dim)
		x = e.scratch[i]
	}
	layer.RecordAcceptScore(r, g.Kernels.Lanes, e.output, x, out, at, rows, e.dim)
}

// addEstimate adds the head's program for a proposal to b, if there is a head.
func (t *trees) addEstimate(b *graph.Batch, out *proposal) {
	d := t.draft
	if d.estimator == nil || *out.accept.of(d.estimator) != 0 {
		return
	}
	r := d.Graph.Recorder(fmt.Sprintf("estimates of %d", out.rows))
	d.estimator.record(d.Graph, r, out.rows, out.result.view(out.estimates, out.rows), 0)
	b.Add(r, out.accept.of(d.estimator))
}

// prepareEstimates compiles the head's missing programs for all levels.
func (t *trees) prepareEstimates(p *treePrograms) error {
	if t.draft.estimator == nil {
		return nil
	}
	b := &graph.Batch{}
	for i := range p.levels {
		t.addEstimate(b, &p.levels[i].out)
	}
	return t.draft.Graph.Build(b)
}

// prepareEstimates compiles the head's missing programs for a chain. The step that consumes a token estimates it and
// writes to the token's record.
func (c *chains) prepareEstimates() error {
	d := c.draft
	if d.estimator == nil {
		return nil
	}
	b := &graph.Batch{}
	for i := range c.steps {
		if s := c.steps[i].accept.of(d.estimator); *s == 0 {
			r := d.Graph.Recorder(fmt.Sprintf("estimate of token %d", i))
			d.estimator.record(d.Graph, r, 1, c.record(i), estimateWord)
			b.Add(r, s)
		}
	}
	return d.Graph.Build(b)
}
