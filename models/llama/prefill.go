package llama

import (
	"context"
	"fmt"

	"foretoken/spec"
	"foretoken/webgpu"
	"foretoken/webgpu/kernels"
)

// feeding is the input and the programs of passes that fill the KV cache only.
type feeding struct {
	batch    pass
	programs []webgpu.Program // one for each bucket up to prefillRows()
}

// batchRows is how many rows the batch pass holds.
func (m *Model) batchRows() int { return max(m.opts.MaxRows, m.prefillRows()) }

// recordFeeding records the programs of Prefill.
func (m *Model) recordFeeding() ([]*kernels.Recorder, func([]webgpu.Program)) {
	f := &m.feeding
	f.batch = newPass(m.work.inputs.Buffer, 0, m.batchRows(), m.batchRows())
	var all []*kernels.Recorder
	for _, n := range buckets {
		if n <= m.prefillRows() {
			r := m.recorder(fmt.Sprintf("prefill %d", n))
			m.forward(r, &f.batch, n)
			all = append(all, r)
		}
	}
	return all, func(p []webgpu.Program) { f.programs = p }
}

func (m *Model) logitRows(n int) kernels.Logits {
	return kernels.Logits{View: m.work.logits, Rows: n, Vocab: m.opts.Vocab, Stride: m.work.stride}
}

// Limits are the model's, as Options set them.
func (m *Model) Limits() spec.Limits {
	return spec.Limits{Context: m.opts.Context, MaxRows: m.opts.MaxRows, Vocab: m.opts.Vocab, TopK: m.opts.TopK}
}

// Reset empties the sequence.
func (m *Model) Reset() {
	m.seq.reset(int(m.work.trash))
}

// Len is the count of committed tokens in the KV cache.
func (m *Model) Len() int { return len(m.seq.table) }

func (m *Model) checkTokens(tokens []int32) error {
	for _, t := range tokens {
		if t < 0 || int(t) >= m.opts.Vocab {
			return fmt.Errorf("llama: token %d is outside the vocabulary of %d", t, m.opts.Vocab)
		}
	}
	return nil
}

// Prefill appends tokens to the sequence in chunks.
func (m *Model) Prefill(ctx context.Context, tokens []int32, progress func(done int)) error {
	if err := m.checkTokens(tokens); err != nil {
		return err
	}
	if m.Len()+len(tokens) > m.opts.Context {
		return fmt.Errorf("llama: %d tokens after %d do not fit a context of %d", len(tokens), m.Len(), m.opts.Context)
	}
	for done := 0; done < len(tokens); {
		if err := ctx.Err(); err != nil {
			return err
		}
		n := min(m.prefillRows(), len(tokens)-done)
		if err := m.feed(tokens[done : done+n]); err != nil {
			return err
		}
		done += n
		if progress != nil {
			progress(done)
		}
	}
	return nil
}

// feed runs up to prefillRows() tokens through the blocks and commits them.
func (m *Model) feed(tokens []int32) error {
	b := &m.feeding.batch
	if err := m.append(b, tokens); err != nil {
		return err
	}
	at := bucket(len(tokens))
	b.pad(len(tokens), buckets[at], m.work.trash)
	if err := b.write(m.dev, m.work.inputs.Buffer); err != nil {
		return err
	}
	return m.run([]webgpu.Program{m.feeding.programs[at]})
}

// append fills the first rows of a pass with tokens that are committed by it:
// each sees the table up to itself.
func (m *Model) append(b *pass, tokens []int32) error {
	for i, t := range tokens {
		slots, err := m.seq.take(1, nil)
		if err != nil {
			return err
		}
		position := m.Len()
		m.seq.commit(slots[0])
		b.set(i, t, position, slots[0], position+1)
	}
	return m.seq.flush(m.dev, m.work.table)
}

func (m *Model) writeDraw(s spec.Sampling, stream uint32, coupled bool) error {
	words := drawParams(s, stream, coupled).Words()
	return m.dev.Write(m.work.draw.Buffer, 0, webgpu.U32Bytes(words[:]))
}

func drawParams(s spec.Sampling, stream uint32, coupled bool) kernels.DrawParams {
	return kernels.DrawParams{Temperature: s.Temperature, TopK: s.TopK, TopP: s.TopP, MinP: s.MinP, Seed: s.Seed, Stream: stream, Coupled: coupled}
}

// filters reports whether a sampling leaves tokens out.
func filters(s spec.Sampling) bool {
	return s.Temperature > 0 && (s.TopK > 0 || s.TopP > 0 && s.TopP < 1 || s.MinP > 0)
}
