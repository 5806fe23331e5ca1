package llama

import (
	"context"
	"fmt"
	"slices"

	"foretoken/models/kv"
	"foretoken/spec"
	"foretoken/webgpu"
	"foretoken/webgpu/kernels"
)

// prefillPrograms holds the input and the programs of passes that only fill the KV cache.
type prefillPrograms struct {
	batch    kv.Pass
	programs []webgpu.Program // one for each bucket up to prefillRows()
	lean     bool             // only the buckets of leanChunks have programs
	timer    prefillTimer
}

// batchRows returns the capacity of the batch pass.
func (m *Model) batchRows() int { return max(m.opts.MaxRows, maxPrefill) }

// recordPrefill records the programs of Prefill with forward.
func (m *Model) recordPrefill(b *programBatch, forward func(r *kernels.Recorder, p *kv.Pass, n int)) {
	f := &m.prefill
	f.batch = kv.NewPass(&m.seq, m.work.inputs.Buffer, 0, m.batchRows(), m.ancestorStride())
	made, lean := make([]webgpu.Program, kv.Bucket(m.prefillRows())+1), m.opts.Lean
	for i, n := range kv.Buckets[:len(made)] {
		if lean && !slices.Contains(leanChunks, n) {
			continue
		}
		r := m.recorder(fmt.Sprintf("prefill %d", n))
		forward(r, &f.batch, n)
		b.add(r, &made[i])
	}
	b.then = append(b.then, func() { f.programs, f.lean = made, lean })
}

// leanChunks are the chunk sizes that a lean model has programs for. Chunks are not padded: a padding row costs as
// much as a pass of its own.
var leanChunks = []int{1, 4, 16}

// chunk returns how many of n tokens the next prefill pass consumes.
func (m *Model) chunk(n int) int {
	n = min(n, m.prefillRows())
	if m.prefill.lean {
		for !slices.Contains(leanChunks, n) {
			n--
		}
	}
	return n
}

func (m *Model) logitRows(n int) kernels.Logits {
	return kernels.Logits{View: m.work.logits, Rows: n, Vocab: m.opts.Vocab, Stride: m.work.stride}
}

// Limits returns the limits that Options set.
func (m *Model) Limits() spec.Limits {
	return spec.Limits{Context: m.opts.Context, MaxRows: m.opts.MaxRows, Vocab: m.opts.Vocab, TopK: m.opts.TopK,
		Spare:     m.spareSlots(),
		LogitRows: min(m.passRows(), m.opts.MaxRows), Joint: true}
}

// Reset empties the sequence.
func (m *Model) Reset() {
	m.seq.Reset()
}

// Len returns the number of committed tokens in the KV cache.
func (m *Model) Len() int { return m.seq.Len() }

// Tokens returns a copy of the committed tokens in the KV cache.
func (m *Model) Tokens() []int32 { return m.seq.Tokens() }

func (m *Model) checkTokens(tokens []int32) error {
	for _, t := range tokens {
		if t < 0 || int(t) >= m.opts.Vocab {
			return fmt.Errorf("llama: token %d is outside the vocabulary of %d", t, m.opts.Vocab)
		}
	}
	return nil
}

// Prefill appends tokens to the sequence in chunks.
func (m *Model) Prefill(ctx context.Context, tokens []int32) error {
	if err := m.checkTokens(tokens); err != nil {
		return err
	}
	if m.Len()+len(tokens) > m.opts.Context {
		return fmt.Errorf("llama: %d tokens after %d do not fit a context of %d", len(tokens), m.Len(), m.opts.Context)
	}
	p := &m.prefill.timer
	full := m.chunk(m.prefillRows())
	wait := p.begin(m.Len(), full)
	for done, passes := 0, 1; done < len(tokens); passes++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		n := m.chunk(len(tokens) - done)
		var reads []webgpu.Region
		if passes == wait {
			reads = []webgpu.Region{{Buffer: m.work.x.Buffer, Offset: m.work.x.Offset, Dst: make([]byte, 4)}}
		}
		program, err := m.placeChunk(tokens[done : done+n])
		if err != nil {
			return err
		}
		if err := m.run([]webgpu.Program{program}, reads...); err != nil {
			return err
		}
		done += n
		if passes == wait {
			p.end(m.Len(), n == full)
			passes, wait = 0, p.begin(m.Len(), full)
		}
	}
	return nil
}

// placeChunk commits up to prefillRows() tokens and returns the program that consumes them, which the caller must
// run.
func (m *Model) placeChunk(tokens []int32) (webgpu.Program, error) {
	b := &m.prefill.batch
	if err := b.Append(tokens); err != nil {
		return 0, err
	}
	at := kv.Bucket(len(tokens))
	b.Pad(len(tokens), kv.Buckets[at])
	return m.prefill.programs[at], b.Write(kv.Buckets[at])
}

// writeDraw uploads the sampling parameters of the next runs if they have changed.
func (m *Model) writeDraw(s spec.Sampling, stream uint32, coupled bool) error {
	words := drawParams(s, stream, coupled).Words()
	if m.drawWords == words {
		return nil
	}
	m.drawWords = words
	err := m.dev.Write(m.work.draw.Buffer, 0, webgpu.U32Bytes(m.drawWords[:]))
	if err != nil {
		m.drawWords = [kernels.DrawWords]uint32{}
	}
	return err
}

func drawParams(s spec.Sampling, stream uint32, coupled bool) kernels.DrawParams {
	return kernels.DrawParams{Temperature: s.Temperature, TopK: s.TopK, TopP: s.TopP, MinP: s.MinP, Seed: s.Seed,
		Stream: stream, Coupled: coupled}
}

// filters reports whether the sampling settings exclude tokens.
func filters(s spec.Sampling) bool {
	return s.Temperature > 0 && (s.TopK > 0 || s.TopP > 0 && s.TopP < 1 || s.MinP > 0)
}
