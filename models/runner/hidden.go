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

// HiddenAhead consumes pending tokens and then tokens in place of a drafted chain, one or more, and calls each with
// their final hidden states as Hidden does. An EAGLE-3 head reads its target's features of the pending tokens and its
// features of the chain, as while drafting. The sequence keeps the pending tokens alone.
func (d *Draft) HiddenAhead(ctx context.Context, pending, tokens []int32, each func([]float32)) error {
	if n := len(tokens); n < 1 || n > maxPasses {
		return fmt.Errorf("runner: hidden states of a chain of %d tokens; want 1 to %d", n, maxPasses)
	}
	if err := d.checkTokens(tokens); err != nil {
		return err
	}
	p, err := d.trees.programsFor(0, 1)
	if err != nil {
		return err
	}
	if err := d.trees.prepareHost(p, 1); err != nil {
		return err
	}
	norm, err := d.normProgram(kv.Bucket(1))
	if err != nil {
		return err
	}
	rows, err := d.begin(ctx, pending, len(tokens))
	if err != nil {
		return err
	}
	defer d.release()
	d.programs = append(d.programs, d.rootForward[rows-1])
	dim, out, base := d.Graph.Arch.Dim, d.Graph.Space.Norm, d.seq.Len()
	state := webgpu.NewMemory(4 * dim)
	for i, token := range tokens {
		if d.slots, err = d.seq.Take(1, d.slots); err != nil {
			return err
		}
		b := &d.trees.hostPass
		b.Set(0, token, base+i, d.slots[i], base, d.slots...)
		if err := b.Write(1); err != nil {
			return err
		}
		d.programs = append(d.programs, d.trees.hostForward[kv.Bucket(1)], norm)
		read := webgpu.Region{Buffer: out.Buffer, Offset: out.Offset, Dst: state.Bytes()}
		if err := d.run(d.programs, read); err != nil {
			return err
		}
		d.programs = d.programs[:0]
		each(state.F32())
	}
	return nil
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
