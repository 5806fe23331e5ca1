package llama

import (
	"context"
	"fmt"

	"foretoken/webgpu"
	"foretoken/webgpu/kernels"
)

// estimator is an acceptance head on the device. It reads the hidden states of a
// pass, whose norm it records, after the pass and in the same submit.
type estimator struct {
	dim     int
	layers  []estimatorLayer
	end     kernels.View    // w, c
	scratch [2]kernels.View // (rows, dim), in turn
}

type estimatorLayer struct {
	weight kernels.View // (dim, dim) by input
	bias   kernels.View
}

// SetHead gives the draft an acceptance head, which fills Level.Accepts and Drawn.Accept from
// the next draft on; nil takes it away. Calls of Prepare after it make its programs too.
func (d *Draft) SetHead(h *Head) error {
	for _, p := range d.plans { // the programs of another head are of no use
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
	d.drop()
	d.head, d.estimator = nil, nil
	if h == nil {
		return nil
	}
	if err := h.validate(); err != nil {
		return fmt.Errorf("llama: acceptance head: %w", err)
	}
	if h.Dim != d.cfg.Dim {
		return fmt.Errorf("llama: acceptance head: it reads hidden states of %d, but those of %s have %d; train one for this draft", h.Dim, d.file, d.cfg.Dim)
	}
	e := &estimator{dim: h.Dim}
	upload := func(label string, w ...float32) (kernels.View, error) {
		v, err := d.storage(label, 4*len(w))
		if err != nil {
			return v, err
		}
		return v, d.dev.Write(v.Buffer, 0, webgpu.F32Bytes(w))
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
	if e.end, err = upload("acceptance head", append(append([]float32{}, h.Weight...), h.Bias)...); err != nil {
		return err
	}
	for i := range e.scratch {
		if e.scratch[i], err = d.storage("acceptance head", 4*d.hostRows()*h.Dim); err != nil {
			return err
		}
	}
	d.head, d.estimator = e, e
	return nil
}

// UseHead turns the head on or off, and says whether there is one. Drafts that nobody asks
// for estimates need not pay for them. Prepare makes its programs while it is on.
func (d *Draft) UseHead(on bool) bool {
	d.estimator = nil
	if on {
		d.estimator = d.head
	}
	return d.head != nil
}

// record appends the head's dispatches: estimates of rows of a pass in out, from word at on.
func (e *estimator) record(d *Draft, r *kernels.Recorder, rows int, out kernels.View, at int) {
	d.net.normalise(r, rows)
	x := d.work.norm
	for i, l := range e.layers {
		r.AcceptLayer(l.weight, l.bias, x, e.scratch[i], rows, e.dim)
		x = e.scratch[i]
	}
	r.AcceptScore(d.tuning.lanes, e.end, x, out, at, rows, e.dim)
}

// estimate adds the program that judges the rows of a pass, where there is a head.
func (d *Draft) estimate(b *batch, out *proposal) {
	if d.estimator == nil || out.accept != 0 {
		return
	}
	r := d.recorder(fmt.Sprintf("estimates of %d", out.rows))
	d.estimator.record(d, r, out.rows, out.result.view(out.estimates, out.rows), 0)
	b.add(r, &out.accept)
}

// estimateLevels makes what the levels of a plan lack of it.
func (d *Draft) estimateLevels(p *plan) error {
	if d.estimator == nil {
		return nil
	}
	b := &batch{}
	for i := range p.levels {
		d.estimate(b, &p.levels[i].out)
	}
	return d.make(b)
}

// estimateChain likewise, for the steps of a chain: the token that a step consumes is judged
// by it, in the token's own record.
func (d *Draft) estimateChain() error {
	if d.estimator == nil {
		return nil
	}
	b := &batch{}
	for i := range d.chain.steps {
		if s := &d.chain.steps[i]; s.accept == 0 {
			r := d.recorder(fmt.Sprintf("estimate of token %d", i))
			d.estimator.record(d, r, 1, d.drawnRecord(i), estimateWord)
			b.add(r, &s.accept)
		}
	}
	return d.make(b)
}

// Hidden empties the sequence, runs tokens and returns the final hidden states, after the output
// norm, of every position: (len(tokens), dim). They are what an acceptance head reads,
// bit for bit. The tokens stay in the sequence as those of Prefill do.
func (d *Draft) Hidden(ctx context.Context, tokens []int32) ([]float32, error) {
	if err := d.checkTokens(tokens); err != nil {
		return nil, err
	}
	d.Reset()
	if err := d.checkContext(len(tokens), 0); err != nil {
		return nil, err
	}
	if d.hidden == nil {
		if err := d.recordHidden(); err != nil {
			return nil, err
		}
	}
	dim, b := d.cfg.Dim, &d.feeding.batch
	out := make([]float32, len(tokens)*dim)
	for done := 0; done < len(tokens); {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		n := min(d.prefillRows(), len(tokens)-done)
		if err := d.append(b, tokens[done:done+n]); err != nil {
			return nil, err
		}
		at := bucket(n)
		b.pad(n, buckets[at], d.work.trash)
		if err := b.write(d.dev, d.work.inputs.Buffer); err != nil {
			return nil, err
		}
		to := webgpu.F32Bytes(out[done*dim : (done+n)*dim])
		if err := d.run(d.hidden[at:at+1], webgpu.Region{Buffer: d.work.norm.Buffer, Offset: d.work.norm.Offset, Dst: to}); err != nil {
			return nil, err
		}
		done += n
	}
	return out, nil
}

// recordHidden makes the programs of Hidden, by bucket.
func (d *Draft) recordHidden() error {
	b, made := &batch{}, []webgpu.Program{}
	for _, n := range buckets {
		if n <= d.prefillRows() {
			made = append(made, 0)
		}
	}
	for i := range made {
		n := buckets[i]
		r := d.recorder(fmt.Sprintf("hidden states of %d", n))
		d.net.forward(r, &d.feeding.batch, n)
		d.net.normalise(r, n)
		b.add(r, &made[i])
	}
	if err := d.make(b); err != nil {
		return err
	}
	d.hidden = made
	return nil
}
