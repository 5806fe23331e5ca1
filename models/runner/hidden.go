package runner

import (
	"context"
	"fmt"

	"foretoken/models/graph"
	"foretoken/models/kv"
	"foretoken/webgpu"
)

// Hidden empties the sequence, runs tokens and calls each, in order, with the final hidden state of every position:
// Info.Width floats after the output norm, valid until each returns. The tokens stay in the sequence.
func (t *Target) Hidden(ctx context.Context, tokens []int32, each func([]float32)) error {
	return t.hidden(ctx, tokens, t.Reset, each)
}

// Hidden is Target.Hidden for a draft. An acceptance head reads the same bits.
func (d *Draft) Hidden(ctx context.Context, tokens []int32, each func([]float32)) error {
	return d.hidden(ctx, tokens, d.Reset, each)
}

func (d *decoder) hidden(ctx context.Context, tokens []int32, reset func(), each func([]float32)) error {
	if err := d.checkText(tokens); err != nil {
		return err
	}
	reset()
	dim, out := d.Graph.Arch.Dim, d.Graph.Space.Norm
	states := webgpu.NewMemory(4 * dim * d.Graph.PrefillRows())
	for len(tokens) > 0 {
		if err := ctx.Err(); err != nil {
			return err
		}
		n := d.chunk(len(tokens))
		norm, err := d.normProgram(kv.Bucket(n))
		if err != nil {
			return err
		}
		pass, err := d.placeChunk(tokens[:n])
		if err != nil {
			return err
		}
		read := webgpu.Region{Buffer: out.Buffer, Offset: out.Offset, Dst: states[:n*dim].Bytes()}
		if err := d.run([]webgpu.Program{pass, norm}, read); err != nil {
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
func (d *decoder) normProgram(at int) (webgpu.Program, error) {
	if p, ok := d.norms[at]; ok {
		return p, nil
	}
	r := d.Graph.Recorder(fmt.Sprintf("output norm %d", kv.Buckets[at]))
	d.Graph.Normalise(r, kv.Buckets[at])
	return graph.BuildInto(d.Graph, d.norms, at, r)
}

// checkText refuses tokens that the context or the vocabulary does not hold.
func (d *decoder) checkText(tokens []int32) error {
	if most := d.Graph.Options.Context; len(tokens) > most {
		return fmt.Errorf("runner: a text of %d tokens does not fit a context of %d", len(tokens), most)
	}
	return d.checkTokens(tokens)
}
