package llama

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

// recordWords is the distance between the records of a chain's tokens. Each record is a binding of its own, because
// the next pass reads its token from it.
const recordWords = webgpu.BindingAlign / 4

// estimateWord is the word of a record that holds the acceptance head's estimate.
const estimateWord = kernels.FilterWords

// chain holds the programs that draw chains. Token i is drawn from row i of work.logits into record i; step i
// consumes it.
type chain struct {
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
	accept  webgpu.Program // acceptance head; 0 without one
}

// maxChain returns the longest chain: the target verifies its tokens and the root in one pass.
func (d *Draft) maxChain() int { return d.Options.MaxRows - 1 }

// prepareChain compiles the programs of chains of up to count tokens.
func (d *Draft) prepareChain(count int) error {
	if count < 1 || count > d.maxChain() {
		return fmt.Errorf("llama: a chain of %d tokens; 1 to %d can be drawn", count, d.maxChain())
	}
	c := &d.chain
	if c.root != 0 && len(c.steps) >= count-1 {
		return d.prepareChainEstimates()
	}
	b := &graph.Batch{}
	if c.back == nil {
		if err := d.allocateChain(); err != nil {
			return err
		}
	}
	if c.root == 0 {
		r := d.Recorder("chain root")
		d.drawToken(r, 0, d.rootPass.Drawn)
		b.Add(r, &c.root)
	}
	have := len(c.steps)
	if have < count-1 {
		d.Preparing(fmt.Sprintf("recording a chain of %d tokens", count))
		c.steps = append(make([]chainStep, 0, count-1), c.steps...)
	}
	for i := have; i < count-1; i++ {
		r, p := d.Recorder(fmt.Sprintf("chain step %d", i+1)), kv.NewPass(d.seq, c.inputs,
			4*i*kv.PassWords(1, d.Options.MaxRows), 1, d.Options.MaxRows)
		own := p
		own.Tokens = d.drawnRecord(i) // the drawn token is the record's first word
		d.Forward(r, &own, 1)
		d.Head(r, 0, 1, i+1)
		d.drawToken(r, i+1, p.Drawn)
		c.steps = append(c.steps, chainStep{pass: p})
		b.Add(r, &c.steps[i].forward)
	}
	if err := d.Build(b); err != nil {
		c.steps = c.steps[:have]
		return err
	}
	return d.prepareChainEstimates()
}

// allocateChain makes the buffers of chains of any length.
func (d *Draft) allocateChain() error {
	rows, c := d.Options.MaxRows, &d.chain
	var err error
	if d.drawnRecords, err = d.Buffer("drawn tokens", 4*rows*recordWords); err != nil {
		return err
	}
	if c.scratch, err = d.Buffer("filter scratch", sample.FilterScratch(1)); err != nil {
		return err
	}
	inputs, err := d.Buffer("chain inputs", 4*rows*kv.PassWords(1, rows))
	if err != nil {
		return err
	}
	c.inputs, c.back = inputs.Buffer, webgpu.NewMemory(4*rows*recordWords)
	return nil
}

// drawnRecord returns the record of token i of a chain.
func (d *Draft) drawnRecord(i int) kernels.View {
	return kernels.View{Buffer: d.drawnRecords.Buffer, Offset: 4 * i * recordWords, Size: 4 * recordWords}
}

// drawToken records the draw of token i from row i of the logits.
func (d *Draft) drawToken(r *kernels.Recorder, i int, position kernels.View) {
	w := &d.Space
	row := kernels.Logits{View: kernels.View{Buffer: w.Logits.Buffer, Offset: 4 * i * w.Stride, Size: 4 * w.Stride},
		Rows: 1, Vocab: d.Options.Vocab, Stride: w.Stride}
	sample.RecordFilter(r, d.Kernels.Lanes, row, w.Draw, position, d.chain.scratch, d.drawnRecord(i))
}

// Sample implements spec.DraftModel, in one submit and one readback.
func (d *Draft) Sample(ctx context.Context, r spec.SampleRequest) ([]spec.Drawn, error) {
	n := len(d.sampled)
	if len(r.Pending) > 0 {
		n = 0
		if err := d.startChain(ctx, r); err != nil {
			return nil, err
		}
	} else if err := d.extendChain(ctx, r.Count); err != nil {
		return nil, err
	}
	if err := d.run(d.programs, d.regions...); err != nil {
		return nil, err
	}
	return d.takeTokens(n, n+r.Count)
}

// startChain starts a run that consumes the pending tokens and draws a chain.
func (d *Draft) startChain(ctx context.Context, r spec.SampleRequest) error {
	if err := d.prepareChain(r.Count); err != nil {
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
	d.chain.base = d.Len()
	d.programs = append(d.programs, d.rootForward[rows-1], d.chain.root)
	return d.placeTokens(0, r.Count)
}

// extendChain starts a run that consumes the last token drawn and draws count more.
func (d *Draft) extendChain(ctx context.Context, count int) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	n := len(d.sampled)
	if n == 0 {
		return errors.New("llama: no chain to extend; a request with pending tokens begins one, and Commit ends it")
	}
	if count < 1 {
		return fmt.Errorf("llama: %d more tokens of a chain; want at least one", count)
	}
	if err := d.prepareChain(n + count); err != nil {
		return err
	}
	if err := d.checkContext(d.chain.base, n+count-1); err != nil {
		return err
	}
	d.programs = d.programs[:0]
	return d.placeTokens(n, n+count)
}

// placeTokens adds the programs that draw tokens [from, to) of the chain to the run.
func (d *Draft) placeTokens(from, to int) error {
	c, first := &d.chain, max(from, 1)
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
			d.programs = append(d.programs, s.accept)
		}
	}
	first = max(from-1, 0) // the readback includes the estimate for the token that the first step consumes
	words := c.back[first*recordWords : to*recordWords]
	d.regions = append(d.regions[:0], webgpu.Region{Buffer: d.drawnRecords.Buffer, Offset: 4 * first * recordWords,
		Dst: words.Bytes()})
	return nil
}

// takeTokens decodes tokens [from, to) of the chain from the readback.
func (d *Draft) takeTokens(from, to int) ([]spec.Drawn, error) {
	c := &d.chain
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
		d.sampled = append(d.sampled[:i], drawn)
	}
	return d.sampled, nil
}
