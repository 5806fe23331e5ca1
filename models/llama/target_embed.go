package llama

import (
	"context"
	"fmt"

	"foretoken/webgpu"
)

// Hidden empties the sequence, runs tokens and calls each, in order, with the final hidden state of every position:
// Info.Width floats after the output norm, valid until each returns. The tokens stay in the sequence.
func (t *Target) Hidden(ctx context.Context, tokens []int32, each func([]float32)) error {
	if err := t.checkText(tokens); err != nil {
		return err
	}
	t.Reset()
	dim := t.cfg.Dim
	states := webgpu.NewMemory(4 * dim * t.prefillRows())
	for len(tokens) > 0 {
		if err := ctx.Err(); err != nil {
			return err
		}
		n := t.chunk(len(tokens))
		norm, err := t.normProgram(bucket(n))
		if err != nil {
			return err
		}
		pass, err := t.placeChunk(tokens[:n])
		if err != nil {
			return err
		}
		read := webgpu.Region{Buffer: t.work.norm.Buffer, Offset: t.work.norm.Offset, Dst: states[:n*dim].Bytes()}
		if err := t.run([]webgpu.Program{pass, norm}, read); err != nil {
			return err
		}
		for i := range n {
			each(states.F32()[i*dim : (i+1)*dim])
		}
		tokens = tokens[n:]
	}
	return nil
}

// normProgram returns the program that norms the rows of a bucket, compiled at first use.
func (t *Target) normProgram(at int) (webgpu.Program, error) {
	if p, ok := t.norms[at]; ok {
		return p, nil
	}
	r := t.recorder(fmt.Sprintf("output norm %d", buckets[at]))
	t.normalise(r, buckets[at])
	return buildInto(t.Model, t.norms, at, r)
}

// checkText refuses tokens that the context or the vocabulary does not hold.
func (t *Target) checkText(tokens []int32) error {
	if len(tokens) > t.opts.Context {
		return fmt.Errorf("llama: a text of %d tokens does not fit a context of %d", len(tokens), t.opts.Context)
	}
	return t.checkTokens(tokens)
}
