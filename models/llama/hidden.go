package llama

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

func (m *Model) hidden(ctx context.Context, tokens []int32, reset func(), each func([]float32)) error {
	if err := m.checkText(tokens); err != nil {
		return err
	}
	reset()
	dim := m.Arch.Dim
	states := webgpu.NewMemory(4 * dim * m.PrefillRows())
	for len(tokens) > 0 {
		if err := ctx.Err(); err != nil {
			return err
		}
		n := m.chunk(len(tokens))
		norm, err := m.normProgram(kv.Bucket(n))
		if err != nil {
			return err
		}
		pass, err := m.placeChunk(tokens[:n])
		if err != nil {
			return err
		}
		read := webgpu.Region{Buffer: m.Space.Norm.Buffer, Offset: m.Space.Norm.Offset, Dst: states[:n*dim].Bytes()}
		if err := m.run([]webgpu.Program{pass, norm}, read); err != nil {
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
func (m *Model) normProgram(at int) (webgpu.Program, error) {
	if p, ok := m.norms[at]; ok {
		return p, nil
	}
	r := m.Recorder(fmt.Sprintf("output norm %d", kv.Buckets[at]))
	m.Normalise(r, kv.Buckets[at])
	return graph.BuildInto(m.Graph, m.norms, at, r)
}

// checkText refuses tokens that the context or the vocabulary does not hold.
func (m *Model) checkText(tokens []int32) error {
	if len(tokens) > m.Options.Context {
		return fmt.Errorf("llama: a text of %d tokens does not fit a context of %d", len(tokens), m.Options.Context)
	}
	return m.checkTokens(tokens)
}
