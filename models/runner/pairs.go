package runner

import (
	"context"
	"fmt"

	"foretoken/models/gguf"
	"foretoken/models/graph"
	"foretoken/webgpu"
)

// pairs is the sequence of an EAGLE-3 head, which drafts from the features of one target, whose slot table it reads (Li
// et al. 2025). It grows trees and draws chains as a draft model does. Drafted cache entries are computed from the
// head's own outputs; once their tokens are accepted, entries computed from the target's features replace them.
//
// A position of the head's cache is a pair of a token and the feature of the token before it. The cache is
// therefore one shorter than the sequence, and the target must have consumed all tokens but the root. Call the
// head's methods from the target's goroutine.
type pairs struct {
	draft    *Draft // the head
	target   *Target
	length   int     // tokens of the sequence
	first    int32   // first token of the sequence
	uncached []int32 // last tokens of the sequence, whose pairs are not in the cache yet
	root     []int32 // tokens of the root's pass
	// singleToken marks a cache that holds a first token without a feature, the only input after a prompt of one
	// token. The next draft starts with an empty cache.
	singleToken bool
}

// LoadEAGLE3 loads a head onto its target's device and makes the target store the features that the head reads;
// this empties the target's sequence. The head shares the target's embedding unless its file has one. Close it
// before the target. Options.Context and Options.Vocab default to the target's.
func LoadEAGLE3(ctx context.Context, dev webgpu.Device, target *Target, f *gguf.File,
	o graph.Options) (*Draft, error) {
	if dev != target.Graph.Dev {
		return nil, fmt.Errorf("runner: %s: a head runs on its target's device", f.Name())
	}
	m, taps, err := loadHead(ctx, target, f, o)
	if err != nil {
		return nil, err
	}
	d := newDraft(m)
	// A head whose weights cannot be loaded leaves the target unchanged.
	if err = target.tap(taps); err == nil {
		err = d.record()
	}
	if err != nil {
		m.Close()
		return nil, err
	}
	d.pairs = &pairs{draft: d, target: target}
	return d, nil
}

// loadHead loads a head's network and returns the layers of the target that it reads.
func loadHead(ctx context.Context, target *Target, f *gguf.File, o graph.Options) (*decoder, []int, error) {
	if err := completeDraft(&o); err != nil {
		return nil, nil, err
	}
	m, err := newDecoder(graph.LoadHead(ctx, target.Graph, target.seq, f, o))
	if err != nil {
		return nil, nil, err
	}
	taps, err := m.Graph.Arch.Features.TapsOf(f.Name(), len(target.Graph.Arch.Layers))
	if err != nil {
		m.Close()
	}
	return m, taps, err
}

// reset empties the sequence, whose cache is empty.
func (p *pairs) reset() { p.length, p.uncached, p.singleToken = 0, p.uncached[:0], false }

// reusePrefix truncates the sequence to its longest common prefix with tokens whose pairs are in the cache, and returns
// the length. The pairs stay valid whatever happens to the target's sequence: they depend only on the tokens up to
// them.
func (p *pairs) reusePrefix(tokens []int32) int {
	if p.singleToken || p.length == 0 || len(tokens) == 0 || tokens[0] != p.first {
		p.draft.Reset()
		return 0
	}
	p.length, p.uncached = 1+p.draft.reuseCache(tokens[1:]), p.uncached[:0]
	return p.length
}

// prefill appends tokens. Pairs whose feature the target has computed run at once, the others with the next draft.
func (p *pairs) prefill(ctx context.Context, tokens []int32) error {
	d := p.draft
	if err := d.checkTokens(tokens); err != nil {
		return err
	}
	if err := d.checkContext(p.length+len(tokens), 0); err != nil {
		return err
	}
	p.add(tokens...)
	if n := min(len(p.uncached), p.target.Len()-d.seq.Len()); n > 0 {
		return p.consume(ctx, n, d.decoder.Prefill)
	}
	return nil
}

// add appends tokens to the sequence. Its first token belongs to no pair.
func (p *pairs) add(tokens ...int32) {
	if p.singleToken {
		p.draft.resetCache()
		p.singleToken = false
	}
	if p.length == 0 && len(tokens) > 0 {
		p.first, tokens = tokens[0], tokens[1:]
		p.length = 1
	}
	p.uncached = append(p.uncached, tokens...)
	p.length += len(tokens)
}

// commit appends an accepted token, whose pair runs with the next draft.
func (p *pairs) commit(token int32) { p.uncached, p.length = append(p.uncached, token), p.length+1 }

// consume consumes the first n uncached tokens with forward, which runs or stages them.
func (p *pairs) consume(ctx context.Context, n int, forward func(context.Context, []int32) error) error {
	if err := p.target.seq.Flush(); err != nil {
		return err
	}
	if err := forward(ctx, p.uncached[:n]); err != nil {
		return err
	}
	p.uncached = append(p.uncached[:0], p.uncached[n:]...)
	return nil
}

// feed appends the pending tokens of a new draft and returns those that the root's pass consumes.
func (p *pairs) feed(ctx context.Context, pending []int32) ([]int32, error) {
	if have, want := p.target.Len(), p.length+len(pending)-1; have < want {
		return nil, fmt.Errorf("runner: %s: the target has consumed %d tokens; a head drafts from its features of %d",
			p.draft.Graph.File, have, want)
	}
	p.add(pending...)
	if len(p.uncached) == 0 { // a sequence of one token
		p.singleToken = true
		return pending, p.placeEmpty()
	}
	if err := p.consume(ctx, max(len(p.uncached)-2, 0), p.draft.stage); err != nil {
		return nil, err
	}
	p.root = append(p.root[:0], p.uncached...)
	p.uncached = p.uncached[:0]
	return p.root, nil
}

// placeEmpty makes the first position read the features of a padding row.
func (p *pairs) placeEmpty() error {
	t := p.target
	if t.Len() > 0 {
		return t.seq.Flush()
	}
	return t.Graph.Dev.Write(t.seq.Table.Buffer, t.seq.Table.Offset, webgpu.U32Bytes([]uint32{t.seq.Padding()}))
}
