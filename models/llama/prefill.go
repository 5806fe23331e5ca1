package llama

import (
	"context"
	"fmt"
	"slices"

	"foretoken/models/graph"
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

// recordPrefill records the programs of Prefill.
func (m *Model) recordPrefill(b *graph.Batch) {
	f := &m.prefill
	made, lean := make([]webgpu.Program, kv.Bucket(m.PrefillRows())+1), m.Options.Lean
	for i, n := range kv.Buckets[:len(made)] {
		if lean && !slices.Contains(leanChunks, n) {
			continue
		}
		r := m.Recorder(fmt.Sprintf("prefill %d", n))
		m.Forward(r, &f.batch, n)
		b.Add(r, &made[i])
	}
	b.Then(func() { f.programs, f.lean = made, lean })
}

// leanChunks are the chunk sizes that a lean model has programs for. Chunks are not padded: a padding row costs as
// much as a pass of its own.
var leanChunks = []int{1, 4, 16}

// chunk returns how many of n tokens the next prefill pass consumes.
func (m *Model) chunk(n int) int {
	n = min(n, m.PrefillRows())
	if m.prefill.lean {
		for !slices.Contains(leanChunks, n) {
			n--
		}
	}
	return n
}

// Limits returns the limits that the options set.
func (m *Model) Limits() spec.Limits {
	o := &m.Options
	return spec.Limits{Context: o.Context, MaxRows: o.MaxRows, Vocab: o.Vocab, TopK: o.TopK,
		Spare: o.Spare(), LogitRows: min(m.PassRows(), o.MaxRows), Joint: true}
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
		if t < 0 || int(t) >= m.Options.Vocab {
			return fmt.Errorf("llama: token %d is outside the vocabulary of %d", t, m.Options.Vocab)
		}
	}
	return nil
}

// Prefill appends tokens to the sequence in chunks.
func (m *Model) Prefill(ctx context.Context, tokens []int32) error {
	if err := m.checkTokens(tokens); err != nil {
		return err
	}
	if m.Len()+len(tokens) > m.Options.Context {
		return fmt.Errorf("llama: %d tokens after %d do not fit a context of %d", len(tokens), m.Len(),
			m.Options.Context)
	}
	p := &m.prefill.timer
	full := m.chunk(m.PrefillRows())
	wait := p.begin(m.Len(), full)
	for done, passes := 0, 1; done < len(tokens); passes++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		n := m.chunk(len(tokens) - done)
		var reads []webgpu.Region
		if passes == wait {
			reads = []webgpu.Region{{Buffer: m.Space.X.Buffer, Offset: m.Space.X.Offset, Dst: make([]byte, 4)}}
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
	err := m.Dev.Write(m.Space.Draw.Buffer, 0, webgpu.U32Bytes(m.drawWords[:]))
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
