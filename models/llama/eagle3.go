package llama

import (
	"context"
	"fmt"

	"foretoken/models/gguf"
	"foretoken/models/graph"
	"foretoken/spec"
	"foretoken/webgpu"
)

// EAGLE3 drafts with an EAGLE-3 head from the features of one target, whose slot table it reads (Li et al. 2025).
// It grows trees and draws chains as a Draft does. Drafted cache entries are computed from the head's own outputs;
// once their tokens are accepted, entries computed from the target's features replace them.
//
// A position of the head's cache is a pair of a token and the feature of the token before it. The cache is
// therefore one shorter than the sequence, and the target must have consumed all tokens but the root. Call the
// methods from the target's goroutine.
type EAGLE3 struct{ *headSequence }

// headSequence is the state of an EAGLE3. Draft.feed is bound to it, so that an EAGLE3 can be copied.
type headSequence struct {
	*Draft
	target   *Target
	length   int     // tokens of the sequence
	first    int32   // first token of the sequence
	uncached []int32 // last tokens of the sequence, whose pairs are not in the cache yet
	root     []int32 // tokens of the root's pass
	// singleToken marks a cache that holds a first token without a feature, the only input after a prompt of one
	// token. The next draft starts with an empty cache.
	singleToken bool
}

var _ spec.DraftModel = (*EAGLE3)(nil)

// LoadEAGLE3 loads a head onto its target's device and makes the target store the features that the head reads;
// this empties the target's sequence. The head shares the target's embedding unless its file has one. Close it
// before the target. Options.Context and Options.Vocab default to the target's.
func LoadEAGLE3(ctx context.Context, dev webgpu.Device, target *Target, f *gguf.File,
	o graph.Options) (*EAGLE3, error) {
	if dev != target.Dev {
		return nil, fmt.Errorf("llama: %s: a head runs on its target's device", f.Name())
	}
	m, taps, err := loadHead(ctx, target, f, o)
	if err != nil {
		return nil, err
	}
	d := newDraft(m)
	// A head whose weights cannot be loaded leaves the target unchanged.
	if err = target.Tap(taps); err == nil {
		err = d.record()
	}
	if err != nil {
		m.Close()
		return nil, err
	}
	e := &EAGLE3{&headSequence{Draft: d, target: target}}
	d.feed = e.feed
	e.Reset()
	return e, nil
}

// loadHead loads a head's network and returns the layers of the target that it reads.
func loadHead(ctx context.Context, target *Target, f *gguf.File, o graph.Options) (*Model, []int, error) {
	if err := completeDraft(&o); err != nil {
		return nil, nil, err
	}
	m, err := newModel(graph.LoadHead(ctx, target.Graph, target.seq, f, o))
	if err != nil {
		return nil, nil, err
	}
	taps, err := m.Arch.Features.TapsOf(f.Name(), len(target.Arch.Layers))
	if err != nil {
		m.Close()
	}
	return m, taps, err
}

// Draft drafts a tree, as Draft.Draft does.
func (e *EAGLE3) Draft(ctx context.Context, r spec.DraftRequest) ([]spec.Level, error) {
	return e.headSequence.Draft.Draft(ctx, r)
}

// Reset empties the sequence.
func (e *EAGLE3) Reset() {
	e.headSequence.Draft.Reset()
	e.length, e.uncached, e.singleToken = 0, e.uncached[:0], false
}

// ReusePrefix truncates the sequence to its longest common prefix with tokens whose pairs are in the cache, and returns
// the length. The pairs stay valid whatever happens to the target's sequence: they depend only on the tokens up to
// them.
func (e *EAGLE3) ReusePrefix(tokens []int32) int {
	if e.singleToken || e.length == 0 || len(tokens) == 0 || tokens[0] != e.first {
		e.Reset()
		return 0
	}
	e.length, e.uncached = 1+e.headSequence.Draft.ReusePrefix(tokens[1:]), e.uncached[:0]
	return e.length
}

// Len returns the number of committed tokens, uncached ones included.
func (e *EAGLE3) Len() int { return e.length }

// Prefill appends tokens. Pairs whose feature the target has computed run at once, the others with the next draft.
func (e *EAGLE3) Prefill(ctx context.Context, tokens []int32) error {
	if err := e.checkTokens(tokens); err != nil {
		return err
	}
	if err := e.checkContext(e.length+len(tokens), 0); err != nil {
		return err
	}
	e.addTokens(tokens)
	if n := min(len(e.uncached), e.target.Len()-e.headSequence.Draft.Len()); n > 0 {
		return e.prefillPairs(ctx, n, e.headSequence.Draft.Prefill)
	}
	return nil
}

// addTokens appends tokens to the sequence. Its first token belongs to no pair.
func (e *headSequence) addTokens(tokens []int32) {
	if e.singleToken {
		e.Draft.Reset()
		e.singleToken = false
	}
	if e.length == 0 && len(tokens) > 0 {
		e.first, tokens = tokens[0], tokens[1:]
		e.length = 1
	}
	e.uncached = append(e.uncached, tokens...)
	e.length += len(tokens)
}

// prefillPairs consumes the first n uncached tokens with forward, which runs or stages them.
func (e *headSequence) prefillPairs(ctx context.Context, n int, forward func(context.Context, []int32) error) error {
	if err := e.target.seq.Flush(); err != nil {
		return err
	}
	if err := forward(ctx, e.uncached[:n]); err != nil {
		return err
	}
	e.uncached = append(e.uncached[:0], e.uncached[n:]...)
	return nil
}

// feed is Draft.feed: it appends pending tokens and returns those that the root's pass consumes.
func (e *headSequence) feed(ctx context.Context, pending []int32) ([]int32, error) {
	if have, want := e.target.Len(), e.length+len(pending)-1; have < want {
		return nil, fmt.Errorf("llama: %s: the target has consumed %d tokens; a head drafts from its features of %d",
			e.File, have, want)
	}
	e.addTokens(pending)
	if len(e.uncached) == 0 { // a sequence of one token
		e.singleToken = true
		return pending, e.placeEmpty()
	}
	if err := e.prefillPairs(ctx, max(len(e.uncached)-2, 0), e.stage); err != nil {
		return nil, err
	}
	e.root = append(e.root[:0], e.uncached...)
	e.uncached = e.uncached[:0]
	return e.root, nil
}

// placeEmpty makes the first position read the features of a padding row.
func (e *headSequence) placeEmpty() error {
	t := e.target
	if t.Len() > 0 {
		return t.seq.Flush()
	}
	return t.Dev.Write(t.seq.Table.Buffer, t.seq.Table.Offset, webgpu.U32Bytes([]uint32{t.seq.Padding()}))
}

// Commit appends accepted tokens, as Draft.Commit does. Their pairs run with the next draft, when the target has
// their features.
func (e *EAGLE3) Commit(beams []int32) error {
	d, at := e.headSequence.Draft, len(e.uncached)
	for level, beam := range beams {
		if _, err := d.slotOf(beams[:level+1]); err != nil {
			e.uncached = e.uncached[:at]
			return err
		}
		e.uncached = append(e.uncached, d.draftedToken(level, beam))
	}
	e.length += len(beams)
	d.release()
	return nil
}
