package runner

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
	batch     kv.Pass
	programs  []webgpu.Program // one for each bucket up to prefillRows()
	fastStart bool             // only the buckets of fastStartChunks have programs
	timer     prefillTimer
}

// recordPrefill records the programs of Prefill.
func (d *decoder) recordPrefill(b *graph.Batch) {
	f := &d.prefill
	made, fastStart := make([]webgpu.Program, kv.Bucket(d.Graph.PrefillRows())+1), d.Graph.Options.FastStart
	for i, n := range kv.Buckets[:len(made)] {
		if fastStart && !slices.Contains(fastStartChunks, n) {
			continue
		}
		r := d.Graph.Recorder(fmt.Sprintf("prefill %d", n))
		d.Graph.Forward(r, &f.batch, n)
		b.Add(r, &made[i])
	}
	b.Then(func() { f.programs, f.fastStart = made, fastStart })
}

// fastStartChunks are the chunk sizes that a model with a fast start has programs for. Chunks are not padded: a padding
// row costs as much as another pass.
var fastStartChunks = []int{1, 4, 16}

// chunk returns how many of n tokens the next prefill pass consumes.
func (d *decoder) chunk(n int) int {
	n = min(n, d.Graph.PrefillRows())
	if d.prefill.fastStart {
		for !slices.Contains(fastStartChunks, n) {
			n--
		}
	}
	return n
}

// Limits returns the limits that the options set.
func (d *decoder) Limits() spec.Limits {
	o := &d.Graph.Options
	return spec.Limits{Context: o.Context, MaxRows: o.MaxRows, Vocab: o.Vocab, TopK: o.TopK,
		Spare: o.Spare(), LogitRows: min(d.Graph.PassRows(), o.MaxRows), Joint: true}
}

// Reset empties the sequence.
func (d *decoder) Reset() {
	d.seq.Reset()
}

// Len returns the number of committed tokens in the KV cache.
func (d *decoder) Len() int { return d.seq.Len() }

func (d *decoder) checkTokens(tokens []int32) error {
	for _, t := range tokens {
		if t < 0 || int(t) >= d.Graph.Options.Vocab {
			return fmt.Errorf("runner: token %d is outside the vocabulary of %d", t, d.Graph.Options.Vocab)
		}
	}
	return nil
}

// Prefill appends tokens to the sequence in chunks.
func (d *decoder) Prefill(ctx context.Context, tokens []int32) error {
	if err := d.checkTokens(tokens); err != nil {
		return err
	}
	if d.Len()+len(tokens) > d.Graph.Options.Context {
		return fmt.Errorf("runner: %d tokens after %d do not fit a context of %d", len(tokens), d.Len(),
			d.Graph.Options.Context)
	}
	p, x := &d.prefill.timer, d.Graph.Space.X
	full := d.chunk(d.Graph.PrefillRows())
	wait := p.begin(d.Len(), full)
	for done, passes := 0, 1; done < len(tokens); passes++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		n := d.chunk(len(tokens) - done)
		var reads []webgpu.Region
		if passes == wait {
			reads = []webgpu.Region{{Buffer: x.Buffer, Offset: x.Offset, Dst: make([]byte, 4)}}
		}
		program, err := d.placeChunk(tokens[done : done+n])
		if err != nil {
			return err
		}
		if err := d.run([]webgpu.Program{program}, reads...); err != nil {
			return err
		}
		done += n
		if passes == wait {
			p.end(d.Len(), n == full)
			passes, wait = 0, p.begin(d.Len(), full)
		}
	}
	return nil
}

// placeChunk commits up to prefillRows() tokens and returns the program that consumes them, which the caller must
// run.
func (d *decoder) placeChunk(tokens []int32) (webgpu.Program, error) {
	b := &d.prefill.batch
	if err := b.Append(tokens); err != nil {
		return 0, err
	}
	at := kv.Bucket(len(tokens))
	b.Pad(len(tokens), kv.Buckets[at])
	return d.prefill.programs[at], b.Write(kv.Buckets[at])
}

// writeDraw uploads the sampling parameters of the next runs if they have changed.
func (d *decoder) writeDraw(s spec.Sampling, stream uint32, coupled bool) error {
	words := drawParams(s, stream, coupled).Words()
	if d.drawWords == words {
		return nil
	}
	d.drawWords = words
	err := d.Graph.Dev.Write(d.Graph.Space.Draw.Buffer, 0, webgpu.U32Bytes(d.drawWords[:]))
	if err != nil {
		d.drawWords = [kernels.DrawWords]uint32{}
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
