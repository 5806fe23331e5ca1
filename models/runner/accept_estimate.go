package runner

import (
	"fmt"

	"foretoken/models/graph"
	"foretoken/webgpu"
	"foretoken/webgpu/kernels"
	"foretoken/webgpu/kernels/layer"
)

// estimator is an acceptance head on the device. Its program follows a pass in the same submit: it records the
// output norm and reads the hidden states.
type estimator struct {
	dim     int
	layers  []estimatorLayer
	output  kernels.View    // w (dim), then c
	scratch [2]kernels.View // (rows, dim), used in turn
}

type estimatorLayer struct {
	weight kernels.View // (dim, dim), input-major
	bias   kernels.View
}

// SetHead sets the acceptance head, which fills Level.Accepts and Drawn.Accept from the next draft on; nil removes
// it. Prepare compiles its programs for requests that read the estimates.
func (d *Draft) SetHead(h *Head) error {
	for _, p := range d.trees.programs { // discard the programs of the previous head
		for i := range p.levels {
			p.levels[i].out.accept = 0
		}
		for i := range p.host {
			p.host[i].accept = 0
		}
	}
	for i := range d.chain.steps {
		d.chain.steps[i].accept = 0
	}
	d.release()
	d.head, d.estimator = nil, nil
	if h == nil {
		return nil
	}
	if err := h.Validate(); err != nil {
		return fmt.Errorf("runner: acceptance head: %w", err)
	}
	if h.Dim != d.Graph.Arch.Dim {
		return fmt.Errorf("runner: acceptance head: its hidden states have %d elements, "+
			"but those of %s have %d; train one for this draft", h.Dim, d.Graph.File, d.Graph.Arch.Dim)
	}
	e := &estimator{dim: h.Dim}
	upload := func(label string, w ...float32) (kernels.View, error) {
		v, err := d.Graph.Buffer(label, 4*len(w))
		if err != nil {
			return v, err
		}
		return v, d.Graph.Dev.Write(v.Buffer, 0, webgpu.F32Bytes(w))
	}
	var err error
	for _, l := range h.Layers {
		byInput := make([]float32, len(l.Weight))
		for n := range h.Dim {
			for k := range h.Dim {
				byInput[k*h.Dim+n] = l.Weight[n*h.Dim+k]
			}
		}
		var y estimatorLayer
		if y.weight, err = upload("acceptance head", byInput...); err != nil {
			return err
		}
		if y.bias, err = upload("acceptance head", l.Bias...); err != nil {
			return err
		}
		e.layers = append(e.layers, y)
	}
	if e.output, err = upload("acceptance head", append(append([]float32{}, h.Weight...), h.Bias)...); err != nil {
		return err
	}
	for i := range e.scratch {
		if e.scratch[i], err = d.Graph.Buffer("acceptance head", 4*d.trees.hostRows()*h.Dim); err != nil {
			return err
		}
	}
	d.head, d.estimator = e, e
	return nil
}

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
	if d.estimator == nil || out.accept != 0 {
		return
	}
	r := d.Graph.Recorder(fmt.Sprintf("estimates of %d", out.rows))
	d.estimator.record(d.Graph, r, out.rows, out.result.view(out.estimates, out.rows), 0)
	b.Add(r, &out.accept)
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
		if s := &c.steps[i]; s.accept == 0 {
			r := d.Graph.Recorder(fmt.Sprintf("estimate of token %d", i))
			d.estimator.record(d.Graph, r, 1, c.record(i), estimateWord)
			b.Add(r, &s.accept)
		}
	}
	return d.Graph.Build(b)
}
