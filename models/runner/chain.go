package runner

import (
	"context"
	"errors"
	"fmt"
	"math"

	"foretoken/models/graph"
	"foretoken/models/kv"
	"foretoken/spec"
	"foretoken/webgpu"
	"foretoken/webgpu/kernels"
	"foretoken/webgpu/kernels/sample"
)

// recordWords is the distance between the records of a chain's tokens. Each record is bound separately, because the
// next pass reads its token from it.
const recordWords = webgpu.BindingAlign / 4

// estimateWord is the word of a record that holds the acceptance head's estimate.
const estimateWord = kernels.FilterWords

// chains draws chains for a draft. The distributions that a target verifies against stay in the logits, row by row:
// token i is drawn from row i into record i; step i consumes it.
type chains struct {
	draft   *Draft
	sampled []spec.Drawn  // the last chain; empty after another kind of draft
	records kernels.View  // output of sample.RecordFilter, one binding alignment per row
	base    int           // committed tokens, the root included
	back    webgpu.Memory // host copy of the records
	scratch kernels.View  // of sample.RecordFilter
	inputs  webgpu.Buffer
	root    webgpu.Program // draws token 0
	steps   []chainStep
}

// chainStep consumes one token and draws the next.
type chainStep struct {
	pass    kv.Pass
	forward webgpu.Program
	accept  estimates // of acceptance heads
}

// most returns the longest chain: the target verifies its tokens and the root in one pass.
func (c *chains) most() int { return c.draft.Graph.Options.MaxRows - 1 }

// prepare compiles the programs of chains of up to count tokens.
func (c *chains) prepare(count int) error {
	d := c.draft
	if count < 1 || count > c.most() {
		return fmt.Errorf("runner: a chain of %d tokens; 1 to %d can be drawn", count, c.most())
	}
	if c.root != 0 && len(c.steps) >= count-1 {
		return c.prepareEstimates()
	}
	b := &graph.Batch{}
	if c.back == nil {
		if err := c.allocate(); err != nil {
			return err
		}
	}
	if c.root == 0 {
		r := d.Graph.Recorder("chain root")
		c.draw(r, 0, d.rootPass.Drawn)
		b.Add(r, &c.root)
	}
	have := len(c.steps)
	if have < count-1 {
		d.Graph.Preparing(fmt.Sprintf("recording a chain of %d tokens", count))
		c.steps = append(make([]chainStep, 0, count-1), c.steps...)
	}
	for i := have; i < count-1; i++ {
		r, p := d.Graph.Recorder(fmt.Sprintf("chain step %d", i+1)), kv.NewPass(d.seq, c.inputs,
			4*i*kv.PassWords(1, d.Graph.Options.MaxRows), 1, d.Graph.Options.MaxRows)
		own := p
		own.Tokens = c.record(i) // the drawn token is the record's first word
		d.Graph.Forward(r, &own, 1)
		d.Graph.Head(r, 0, 1, i+1)
		c.draw(r, i+1, p.Drawn)
		c.steps = append(c.steps, chainStep{pass: p})
		b.Add(r, &c.steps[i].forward)
	}
	if err := d.Graph.Build(b); err != nil {
		c.steps = c.steps[:have]
		return err
	}
	return c.prepareEstimates()
}

// allocate makes the buffers of chains of any length.
func (c *chains) allocate() error {
	g := c.draft.Graph
	rows := g.Options.MaxRows
	var err error
	if c.records, err = g.Buffer("drawn tokens", 4*rows*recordWords); err != nil {
		return err
	}
	if c.scratch, err = g.Buffer("filter scratch", sample.FilterScratch(1)); err != nil {
		return err
	}
	inputs, err := g.Buffer("chain inputs", 4*rows*kv.PassWords(1, rows))
	if err != nil {
		return err
	}
	c.inputs, c.back = inputs.Buffer, webgpu.NewMemory(4*rows*recordWords)
	return nil
}

// record returns the record of token i of a chain.
func (c *chains) record(i int) kernels.View {
	return kernels.View{Buffer: c.records.Buffer, Offset: 4 * i * recordWords, Size: 4 * recordWords}
}

// draw records the draw of token i from row i of the logits.
func (c *chains) draw(r *kernels.Recorder, i int, position kernels.View) {
	g := c.draft.Graph
	w := &g.Space
	row := kernels.Logits{View: kernels.View{Buffer: w.Logits.Buffer, Offset: 4 * i * w.Stride, Size: 4 * w.Stride},
		Rows: 1, Vocab: g.Options.Vocab, Stride: w.Stride}
	sample.RecordFilter(r, g.Kernels.Lanes, row, w.Draw, position, c.scratch, c.record(i))
}

// sample draws a chain, or more tokens of the last one.
func (c *chains) sample(ctx context.Context, r spec.SampleRequest) ([]spec.Drawn, error) {
	d := c.draft
	n := len(c.sampled)
	if len(r.Pending) > 0 {
		n = 0
		if err := c.start(ctx, r); err != nil {
			return nil, err
		}
	} else if err := c.extend(ctx, r.Count); err != nil {
		return nil, err
	}
	if err := d.run(d.programs, d.regions...); err != nil {
		return nil, err
	}
	return c.take(n, n+r.Count)
}

// start starts a run that consumes the pending tokens and draws a chain.
func (c *chains) start(ctx context.Context, r spec.SampleRequest) error {
	d := c.draft
	if err := c.prepare(r.Count); err != nil {
		return err
	}
	rows, err := d.begin(ctx, r.Pending, r.Count-1)
	if err != nil {
		return err
	}
	stream := spec.StreamDraft
	if r.Coupled {
		stream = spec.StreamTarget
	}
	if err := d.writeDraw(r.Sampling, stream, false); err != nil {
		return err
	}
	c.base = d.seq.Len()
	d.programs = append(d.programs, d.rootForward[rows-1], c.root)
	return c.place(0, r.Count)
}

// extend starts a run that consumes the last token drawn and draws count more.
func (c *chains) extend(ctx context.Context, count int) error {
	d := c.draft
	if err := ctx.Err(); err != nil {
		return err
	}
	n := len(c.sampled)
	if n == 0 {
		return errors.New("runner: no chain to extend; a request with pending tokens begins one, and Commit ends it")
	}
	if count < 1 {
		return fmt.Errorf("runner: %d more tokens of a chain; want at least one", count)
	}
	if err := c.prepare(n + count); err != nil {
		return err
	}
	if err := d.checkContext(c.base, n+count-1); err != nil {
		return err
	}
	d.programs = d.programs[:0]
	return c.place(n, n+count)
}

// place adds the programs that draw tokens [from, to) of the chain to the run.
func (c *chains) place(from, to int) error {
	d := c.draft
	first := max(from, 1)
	if to-first > d.seq.Free() {
		return kv.ErrFull
	}
	for i := first; i < to; i++ {
		var err error
		if d.slots, err = d.seq.Take(1, d.slots); err != nil {
			return err
		}
		s := &c.steps[i-1]
		s.pass.Set(0, 0, c.base+i-1, d.slots[i-1], c.base, d.slots[:i]...)
		if err := s.pass.Write(1); err != nil {
			return err
		}
		d.programs = append(d.programs, s.forward)
		if d.estimator != nil {
			d.programs = append(d.programs, *s.accept.of(d.estimator))
		}
	}
	first = max(from-1, 0) // the readback includes the estimate for the token that the first step consumes
	words := c.back[first*recordWords : to*recordWords]
	d.regions = append(d.regions[:0], webgpu.Region{Buffer: c.records.Buffer, Offset: 4 * first * recordWords,
		Dst: words.Bytes()})
	return nil
}

// take decodes tokens [from, to) of the chain from the readback.
func (c *chains) take(from, to int) ([]spec.Drawn, error) {
	d := c.draft
	for i := max(from-1, 0); i < to; i++ {
		record := c.back[i*recordWords:]
		got := sample.DecodeFilter(record)
		if !got.Finite(d.drawWords[0]) {
			return nil, d.notFinite(c.base - 1 + i)
		}
		drawn := spec.Drawn{Token: got.Token, Prob: got.Prob, Entropy: got.Entropy, Accept: float32(math.NaN())}
		if d.estimator != nil && i < to-1 {
			drawn.Accept = math.Float32frombits(record[estimateWord])
		}
		c.sampled = append(c.sampled[:i], drawn)
	}
	return c.sampled, nil
}
