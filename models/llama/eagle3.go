package llama

import (
	"context"
	"fmt"

	"foretoken/models/eagle3"
	"foretoken/spec"
	"foretoken/webgpu"
)

// EAGLE3 drafts with an EAGLE-3 head from the features of one target, whose slot table
// it reads (Li et al. 2025). It grows trees and draws chains as a Draft does. What it
// drafted was computed from its own outputs; once accepted it is computed again, from
// the target's features, and takes the place of the drafted entries.
//
// A pair of a token and the feature of the token before it is a position of the head's
// cache, so it holds one less than there are tokens, and the target must have consumed all
// tokens but the root. Methods must be called from the target's goroutine.
type EAGLE3 struct {
	*Draft
	target *Target
	given  int     // tokens of the sequence
	first  int32   // the first of them
	late   []int32 // the last of them, whose pairs are not in the cache
	root   []int32 // those that the root's pass feeds
	// lone marks a cache that holds a first token without a feature: there is nothing else
	// to draft from after a prompt of one token. The next draft begins anew.
	lone bool
}

var (
	_ spec.TreeSampler   = (*EAGLE3)(nil)
	_ spec.SamplingDraft = (*EAGLE3)(nil)
	_ spec.Keeper        = (*EAGLE3)(nil)
)

// LoadEAGLE3 loads a head beside its target, on the same device, and has the target keep the
// features that it reads; the target's sequence is emptied. The head shares the target's
// embedding unless it has one of its own. Close it before the target. Of the
// options, Context and Vocab are the target's own where they are 0.
func LoadEAGLE3(ctx context.Context, dev webgpu.Device, target *Target, w *eagle3.Weights, o Options) (*EAGLE3, error) {
	net, taps, err := newEagleNet(dev, target, w, o)
	if err != nil {
		return nil, err
	}
	m := net.Model
	// A head that cannot be loaded leaves the target as it was.
	if err := net.load(ctx); err != nil {
		m.Close()
		return nil, err
	}
	if err := target.Tap(taps); err != nil {
		m.Close()
		return nil, err
	}
	d := newDraft(m, net)
	net.draft = d
	if err := d.record(); err != nil {
		m.Close()
		return nil, err
	}
	e := &EAGLE3{Draft: d, target: target}
	e.Reset()
	return e, nil
}

// newEagleNet is a head of which nothing is loaded, and the layers of the target that it reads.
func newEagleNet(dev webgpu.Device, target *Target, w *eagle3.Weights, o Options) (*eagleNet, []int, error) {
	t, name := target.cfg, w.File.Name()
	taps, err := w.TapsOf(t.Layers)
	switch {
	case err != nil:
		return nil, nil, err
	case dev != target.dev:
		return nil, nil, fmt.Errorf("llama: %s: a head runs on its target's device", name)
	case w.TargetHidden != t.Dim:
		return nil, nil, fmt.Errorf("llama: %s: the head was made for a target of width %d; %s has %d", name, w.TargetHidden, target.file, t.Dim)
	case w.Vocab != t.Vocab:
		return nil, nil, fmt.Errorf("llama: %s: the head was made for a target of %d tokens; %s has %d", name, w.Vocab, target.file, t.Vocab)
	}
	c := &Config{Name: name, Architecture: "eagle3", Dim: w.Hidden, Layers: 1, FFN: w.FFN, Heads: w.Heads, KV: w.KV, HeadDim: w.HeadDim,
		Rotary: w.HeadDim, Context: target.opts.Context, Vocab: t.Vocab, Eps: w.Eps, Inverse: w.Inverse, Magnitude: 1, HalfSplit: true}
	if o.Context == 0 {
		o.Context = target.opts.Context
	}
	if o.Vocab == 0 {
		o.Vocab = target.opts.Vocab
	}
	if o.TopK == 0 {
		o.TopK = 16
	}
	if err := o.complete(c, name); err != nil {
		return nil, nil, err
	}
	o.TopK = min(o.TopK, w.DraftVocab)
	m := &Model{dev: dev, cfg: c, opts: o, file: name, heads: c.heads(o.KV)}
	return &eagleNet{Model: m, target: target, weights: w}, taps, nil
}

// Reset empties the sequence.
func (e *EAGLE3) Reset() {
	e.Draft.Reset()
	e.given, e.late, e.lone = 0, e.late[:0], false
}

// Keep cuts the sequence to the longest prefix that tokens begin with and whose pairs are in
// the cache. They stay right whatever becomes of the target's sequence: a pair's entries
// follow from the tokens up to it.
func (e *EAGLE3) Keep(tokens []int32) int {
	if e.lone || e.given == 0 || len(tokens) == 0 || tokens[0] != e.first {
		e.Reset()
		return 0
	}
	e.given, e.late = 1+e.Draft.Keep(tokens[1:]), e.late[:0]
	return e.given
}

// Len is the count of committed tokens, as the caller counts them.
func (e *EAGLE3) Len() int { return e.given }

// Prefill appends tokens. Pairs whose feature the target has are fed at once, the rest
// with the next draft.
func (e *EAGLE3) Prefill(ctx context.Context, tokens []int32, progress func(done int)) error {
	if err := e.checkTokens(tokens); err != nil {
		return err
	}
	if err := e.checkContext(e.given+len(tokens), 0); err != nil {
		return err
	}
	skipped, older := 0, len(e.late)
	if e.given == 0 {
		skipped = min(1, len(tokens)) // the first token is no pair's
	}
	e.give(tokens)
	if n := min(len(e.late), e.target.Len()-e.Draft.Len()); n > 0 {
		report := func(done int) {
			if fed := done - older + skipped; progress != nil && fed > 0 && fed < len(tokens) {
				progress(fed)
			}
		}
		if err := e.feedPairs(ctx, n, report, e.Draft.Prefill); err != nil {
			return err
		}
	}
	if progress != nil && len(tokens) > 0 {
		progress(len(tokens))
	}
	return nil
}

// give counts tokens in. The first of all is no pair's token.
func (e *EAGLE3) give(tokens []int32) {
	if e.lone {
		e.Draft.Reset()
		e.lone = false
	}
	if e.given == 0 && len(tokens) > 0 {
		e.first, tokens = tokens[0], tokens[1:]
		e.given = 1
	}
	e.late = append(e.late, tokens...)
	e.given += len(tokens)
}

// feedPairs feeds the first n late tokens, at once or with the next run.
func (e *EAGLE3) feedPairs(ctx context.Context, n int, progress func(done int), feed func(context.Context, []int32, func(int)) error) error {
	if err := e.target.seq.flush(e.target.dev, e.target.work.table); err != nil {
		return err
	}
	if err := feed(ctx, e.late[:n], progress); err != nil {
		return err
	}
	e.late = append(e.late[:0], e.late[n:]...)
	return nil
}

// begin takes pending tokens in and returns those that the root's pass feeds.
func (e *EAGLE3) begin(ctx context.Context, pending []int32) ([]int32, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if len(pending) == 0 || len(pending) > spec.MaxPending {
		return nil, fmt.Errorf("llama: %d pending tokens; want 1 to %d", len(pending), spec.MaxPending)
	}
	if err := e.checkTokens(pending); err != nil {
		return nil, err
	}
	if have, want := e.target.Len(), e.given+len(pending)-1; have < want {
		return nil, fmt.Errorf("llama: %s: the target has consumed %d tokens; a head drafts from its features of %d", e.file, have, want)
	}
	e.drop()
	e.give(pending)
	if len(e.late) == 0 { // a sequence of one token
		e.lone = true
		return pending, e.placeNothing()
	}
	if err := e.feedPairs(ctx, max(len(e.late)-2, 0), nil, e.stage); err != nil {
		return nil, err
	}
	e.root = append(e.root[:0], e.late...)
	e.late = e.late[:0]
	return e.root, nil
}

// placeNothing has the first position read the features of no token.
func (e *EAGLE3) placeNothing() error {
	t := e.target
	if t.Len() > 0 {
		return t.seq.flush(t.dev, t.work.table)
	}
	return t.dev.Write(t.work.table.Buffer, t.work.table.Offset, webgpu.U32Bytes([]uint32{t.work.trash}))
}

// DraftTree is Draft's, from the target's features.
func (e *EAGLE3) DraftTree(ctx context.Context, r spec.DraftRequest) ([]spec.Level, error) {
	if err := e.startTree(ctx, r, ranked, nil); err != nil {
		return nil, err
	}
	if err := e.run(e.programs, e.regions...); err != nil {
		return nil, err
	}
	return e.endTree(r, ranked, nil), nil
}

// startTree is Draft's, from the target's features.
func (e *EAGLE3) startTree(ctx context.Context, r spec.DraftRequest, how want, beams [][]int32) error {
	if _, err := e.plan(r.Depth, r.K); err != nil {
		return err
	}
	var err error
	if r.Pending, err = e.begin(ctx, r.Pending); err != nil {
		return err
	}
	return e.Draft.startTree(ctx, r, how, beams)
}

// DraftSampled is Draft's, from the target's features.
func (e *EAGLE3) DraftSampled(ctx context.Context, r spec.SampleRequest) ([]spec.Drawn, error) {
	if err := e.startSampled(ctx, r); err != nil {
		return nil, err
	}
	return e.drawTokens(0, r.Count)
}

// startSampled is Draft's, from the target's features.
func (e *EAGLE3) startSampled(ctx context.Context, r spec.SampleRequest) error {
	if err := e.PrepareChain(r.Count); err != nil {
		return err
	}
	var err error
	if r.Pending, err = e.begin(ctx, r.Pending); err != nil {
		return err
	}
	return e.Draft.startSampled(ctx, r)
}

// SampleTree is Draft's, from the target's features.
func (e *EAGLE3) SampleTree(ctx context.Context, r spec.DraftRequest) ([]spec.Level, error) {
	if err := e.PrepareSampled(0, r.K); err != nil {
		return nil, err
	}
	var err error
	if r.Pending, err = e.begin(ctx, r.Pending); err != nil {
		return nil, err
	}
	return e.Draft.SampleTree(ctx, r)
}

// Commit appends accepted tokens, as Draft's does; their pairs are fed with the next draft, when
// the target has their features.
func (e *EAGLE3) Commit(beams []int32) error {
	d, at := e.Draft, len(e.late)
	for level, beam := range beams {
		if d.tree.plan == nil {
			if beam != 0 || level >= len(d.slots) {
				return fmt.Errorf("llama: beam %d of level %d was committed of a chain of which %d tokens were consumed", beam, level, len(d.slots))
			}
		} else if _, err := d.tree.slotOf(beams[:level+1]); err != nil {
			e.late = e.late[:at]
			return err
		}
		e.late = append(e.late, d.drafted(level, beam))
	}
	e.given += len(beams)
	d.drop()
	return nil
}
