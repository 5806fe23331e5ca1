package llama

import (
	"context"
	"fmt"
	"slices"

	"foretoken/spec"
	"foretoken/webgpu"
	"foretoken/webgpu/kernels"
)

// feeding is the input and the programs of passes that fill the KV cache only.
type feeding struct {
	batch    pass
	programs []webgpu.Program // one for each bucket up to prefillRows()
	lean     bool             // there are those of leanFeeds only
	pace     pace
}

// batchRows is how many rows the batch pass holds.
func (m *Model) batchRows() int { return max(m.opts.MaxRows, mostPrefill) }

// recordFeeding records the programs of Prefill, of passes that forward records.
func (m *Model) recordFeeding(forward func(r *kernels.Recorder, p *pass, n int)) ([]*kernels.Recorder, func([]webgpu.Program)) {
	f := &m.feeding
	f.batch = newPass(&m.seq, m.work.inputs.Buffer, 0, m.batchRows(), m.ancestorStride())
	var all []*kernels.Recorder
	var at []int
	for i, n := range buckets[:bucket(m.prefillRows())+1] {
		if m.single && !slices.Contains(leanFeeds, n) {
			continue
		}
		r := m.recorder(fmt.Sprintf("prefill %d", n))
		forward(r, &f.batch, n)
		all, at = append(all, r), append(at, i)
	}
	return all, func(p []webgpu.Program) {
		f.programs, f.lean = make([]webgpu.Program, bucket(m.prefillRows())+1), len(at) <= bucket(m.prefillRows())
		for i, program := range p {
			f.programs[at[i]] = program
		}
	}
}

// leanFeeds are the chunks that a lean model has programs for. A row more takes as long as a pass of its own, so
// none is padded.
var leanFeeds = []int{1, 4, 16}

// chunk is how many of n tokens the next pass of a prefill takes.
func (m *Model) chunk(n int) int {
	n = min(n, m.prefillRows())
	if m.feeding.lean {
		for !slices.Contains(leanFeeds, n) {
			n--
		}
	}
	return n
}

func (m *Model) logitRows(n int) kernels.Logits {
	return kernels.Logits{View: m.work.logits, Rows: n, Vocab: m.opts.Vocab, Stride: m.work.stride}
}

// Limits are the model's, as Options set them.
func (m *Model) Limits() spec.Limits {
	return spec.Limits{Context: m.opts.Context, MaxRows: m.opts.MaxRows, Vocab: m.opts.Vocab, TopK: m.opts.TopK, Spare: m.spareSlots()}
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
	p := &m.feeding.pace
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
		if err := m.feed(tokens[done:done+n], reads...); err != nil {
			return err
		}
		done += n
		if passes == wait {
			p.end(m.Len(), n == full)
			passes, wait = 0, p.begin(m.Len(), full)
		}
		if progress != nil {
			progress(done)
		}
	}
	return nil
}

// feed runs up to prefillRows() tokens through the blocks and commits them.
func (m *Model) feed(tokens []int32, reads ...webgpu.Region) error {
	p, err := m.placeFeed(tokens)
	if err != nil {
		return err
	}
	return m.run([]webgpu.Program{p}, reads...)
}

// placeFeed commits up to prefillRows() tokens that the program, which is still to run, takes through the blocks.
func (m *Model) placeFeed(tokens []int32) (webgpu.Program, error) {
	b := &m.feeding.batch
	if err := m.append(b, tokens); err != nil {
		return 0, err
	}
	at := bucket(len(tokens))
	b.pad(len(tokens), buckets[at], m.work.trash)
	return m.feeding.programs[at], b.writeRows(m.dev, buckets[at])
}

// append fills the first rows of a pass with tokens that are committed by it:
// each sees the table up to itself.
func (m *Model) append(b *pass, tokens []int32) error {
	for i, t := range tokens {
		slot, err := m.seq.takeOne()
		if err != nil {
			return err
		}
		position := m.Len()
		m.seq.commit(slot, t)
		b.set(i, t, position, slot, position+1)
	}
	return m.seq.flush(m.dev, m.work.table)
}

// writeDraw says how the next runs draw, unless they draw so already.
func (m *Model) writeDraw(s spec.Sampling, stream uint32, coupled bool) error {
	words := drawParams(s, stream, coupled).Words()
	if m.drawing == words {
		return nil
	}
	m.drawing = words
	err := m.dev.Write(m.work.draw.Buffer, 0, webgpu.U32Bytes(m.drawing[:]))
	if err != nil {
		m.drawing = [kernels.DrawWords]uint32{}
	}
	return err
}

func drawParams(s spec.Sampling, stream uint32, coupled bool) kernels.DrawParams {
	return kernels.DrawParams{Temperature: s.Temperature, TopK: s.TopK, TopP: s.TopP, MinP: s.MinP, Seed: s.Seed, Stream: stream, Coupled: coupled}
}

// filters reports whether a sampling leaves tokens out.
func filters(s spec.Sampling) bool {
	return s.Temperature > 0 && (s.TopK > 0 || s.TopP > 0 && s.TopP < 1 || s.MinP > 0)
}
