package spec

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// request is a generation under way.
type request struct {
	*Generator
	opts    Options
	emit    func(*Event) error
	limits  Limits
	prompt  int     // tokens of the prompt
	seq     []int32 // all committed tokens; the target's cache lacks the last
	session DraftSession
	stats   Stats
	event   Event
	lone    Tree // for rounds without a proposal
	tokens  []int32
	origins []Origin
	start   time.Time
	mark    time.Time // since when nothing was charged to any phase
}

func newRequest(g *Generator, prompt []int32, o Options, emit func(*Event) error) *request {
	return &request{
		Generator: g, opts: o, emit: emit, limits: g.target.Limits(),
		prompt: len(prompt), seq: slices.Clone(prompt),
		stats: Stats{Requests: 1, PromptTokens: len(prompt)},
	}
}

func (r *request) run(ctx context.Context) error {
	r.start = r.parts.Clock()
	r.mark = r.start
	err := r.prefill(ctx)
	now := r.parts.Clock()
	r.stats.Prefill = now.Sub(r.start)
	r.mark = now
	if r.left() == 0 && err == nil {
		return r.close(FinishContext)
	}
	for err == nil && ctx.Err() == nil {
		if err = r.round(ctx); err == nil && r.stats.Finish != "" {
			return nil
		}
	}
	if cancelled(ctx, err) {
		return r.close(FinishAborted)
	}
	return err
}

// cancelled tells whether the request ended because ctx did, and not for an error
// of its own.
func cancelled(ctx context.Context, err error) bool {
	return ctx.Err() != nil && (err == nil || errors.Is(err, ctx.Err()) || errors.Is(err, context.Cause(ctx)))
}

// prefill has both models consume the prompt but for its last token, the first
// root.
func (r *request) prefill(ctx context.Context) error {
	body := r.seq[:r.prompt-1]
	report := func(before int) func(int) {
		if r.opts.Progress == nil {
			return nil
		}
		return func(done int) { r.opts.Progress(before+done, 2*len(body)) }
	}
	r.target.Reset()
	if len(body) > 0 {
		if err := r.target.Prefill(ctx, body, report(0)); err != nil {
			return err
		}
	}
	r.stats.Prefilled = len(body)
	if err := r.check(); err != nil {
		return err
	}
	var err error
	if r.session, err = r.parts.Drafter.Begin(ctx, r.seq, r.opts.Sampling, report(len(body))); err != nil {
		return err
	}
	if r.opts.Progress != nil {
		r.opts.Progress(2*len(body), 2*len(body))
	}
	return nil
}

func (r *request) check() error {
	if n := r.target.Len(); n != len(r.seq)-1 {
		return fmt.Errorf("spec: the target holds %d tokens, want %d", n, len(r.seq)-1)
	}
	return nil
}

// left is how many tokens may still be committed.
func (r *request) left() int {
	left := r.limits.Context - len(r.seq)
	if r.opts.MaxTokens > 0 {
		left = min(left, r.opts.MaxTokens-(len(r.seq)-r.prompt))
	}
	return left
}

// free is the greatest budget of the next round. A tree of depth d commits up to
// d+1 tokens. Nodes are counted as if each took a position of its own, so a
// cache of exactly Limits.Context slots is enough.
func (r *request) free() Budget {
	return Budget{
		Levels: r.left() - 1,
		Width:  MaxTopK,
		Nodes:  min(r.limits.MaxRows, r.limits.Context-(len(r.seq)-1)),
	}
}

// propose asks the policy for a budget and the session for a draft.
func (r *request) propose(ctx context.Context) (d *Draft, asked bool, err error) {
	free := r.free()
	b := r.parts.Policy.Plan(free)
	b = Budget{Levels: min(b.Levels, free.Levels), Width: min(b.Width, free.Width), Nodes: min(b.Nodes, free.Nodes)}
	if !b.drafts() {
		r.lone.Reset(r.seq[len(r.seq)-1])
		return &Draft{Tree: &r.lone}, false, nil
	}
	begun := r.parts.Clock()
	d, err = r.session.Propose(ctx, r.seq, b)
	r.event.Draft = r.parts.Clock().Sub(begun)
	if err != nil {
		return nil, true, err
	}
	if err := d.Tree.Validate(r.limits.Vocab); err != nil {
		return nil, true, err
	}
	if d.Tree.Tokens[0] != r.seq[len(r.seq)-1] {
		return nil, true, fmt.Errorf("spec: the draft's root is token %d, want %d", d.Tree.Tokens[0], r.seq[len(r.seq)-1])
	}
	if d.Tree.Depth() > b.Levels || d.Tree.Len() > b.Nodes {
		return nil, true, fmt.Errorf("spec: the draft has %d nodes and depth %d, but %d and %d were asked for", d.Tree.Len(), d.Tree.Depth(), b.Nodes, b.Levels)
	}
	return d, true, nil
}

// round drafts, verifies and commits once.
func (r *request) round(ctx context.Context) error {
	e := &r.event
	*e = Event{Round: e.Round + 1, Stats: &r.stats}
	waited := r.readback()
	d, asked, err := r.propose(ctx)
	if err != nil {
		return err
	}
	begun := r.parts.Clock()
	v, err := r.parts.Verifier.Verify(ctx, r.target, d, r.opts.Sampling)
	if err != nil {
		return err
	}
	e.Verify = r.parts.Clock().Sub(begun)
	e.Readback = r.readback() - waited
	e.Tree, e.Levels = d.Tree, d.Levels
	if err := r.judge(d.Tree, &v); err != nil {
		return err
	}
	if err := r.cut(); err != nil {
		return err
	}
	// Each committed token moves the cache forward by one: the root is the first to go
	// in, and the last committed token stays out as the next root.
	n := len(r.tokens)
	if err := r.target.Commit(v.Path[:n]); err != nil {
		return err
	}
	r.seq = append(r.seq, r.tokens...)
	if err := r.check(); err != nil {
		return err
	}
	if asked {
		if err := r.session.Commit(v.Path[:n]); err != nil {
			return err
		}
	}
	e.Tokens, e.Origins = r.tokens, r.origins[:n]
	e.Path = v.Path[:min(n+1, len(v.Path))]
	e.Judged = e.Tree.Depth()
	if n <= len(v.Path)-1 {
		e.Judged = n // the verdict's run had one token more than the path has drafted ones
	}
	if e.Finish == "" && r.left() == 0 {
		e.Finish = FinishContext
		if len(r.seq)-r.prompt == r.opts.MaxTokens {
			e.Finish = FinishLength
		}
	}
	return r.publish()
}

// judge turns a verdict into the run of tokens it commits and their origins.
func (r *request) judge(t *Tree, v *Verdict) error {
	r.tokens, r.origins = r.tokens[:0], r.origins[:0]
	if len(v.Path) == 0 || v.Path[0] != 0 || v.Relaxed != nil && len(v.Relaxed) != len(v.Path) {
		return fmt.Errorf("spec: a verdict with path %v and %d marks", v.Path, len(v.Relaxed))
	}
	for i, node := range v.Path[1:] {
		if int(node) >= t.Len() || node < 1 || t.Parents[node] != v.Path[i] {
			return fmt.Errorf("spec: the accepted path %v is not a path of the tree", v.Path)
		}
		origin := Accepted
		if v.Relaxed != nil && v.Relaxed[i+1] {
			origin = Relaxed
		}
		r.tokens = append(r.tokens, t.Tokens[node])
		r.origins = append(r.origins, origin)
	}
	if v.Next < 0 || int(v.Next) >= r.limits.Vocab {
		return fmt.Errorf("spec: the target drew token %d, outside the vocabulary of %d (are its logits finite?)", v.Next, r.limits.Vocab)
	}
	origin := Corrected
	if t.Len() == 1 {
		origin = Plain
	} else if t.IsLeaf(v.Path[len(v.Path)-1]) {
		origin = Bonus
	}
	r.tokens = append(r.tokens, v.Next)
	r.origins = append(r.origins, origin)
	return nil
}

// cut ends the run after an end-of-sequence id or where Options.Cut says, in that
// order, so that what comes after was never part of anything.
func (r *request) cut() error {
	for i, id := range r.tokens {
		if slices.Contains(r.opts.EOS, id) {
			r.tokens = r.tokens[:i+1]
			r.event.Finish = FinishEOS
			break
		}
	}
	if r.opts.Cut == nil {
		return nil
	}
	n, stop := r.opts.Cut(r.tokens)
	if n < 1 || n > len(r.tokens) || n < len(r.tokens) && !stop {
		return fmt.Errorf("spec: Options.Cut kept %d of %d tokens with stop %v", n, len(r.tokens), stop)
	}
	r.tokens = r.tokens[:n]
	if stop {
		r.event.Finish = FinishStop
	}
	return nil
}

// publish counts the round, shows it to the policy and emits it.
func (r *request) publish() error {
	e := &r.event
	now := r.parts.Clock()
	e.Host = now.Sub(r.mark) - e.Draft - e.Verify
	r.stats.count(e)
	r.stats.Decode += now.Sub(r.mark)
	r.stats.Finish = e.Finish
	if r.stats.Started == 0 {
		r.stats.Started = 1
		r.stats.First = now.Sub(r.start)
	}
	r.parts.Policy.Observe(e)
	return r.send(now)
}

// send emits the event and charges the time to Emit, but for the last one: no
// token waits for it.
func (r *request) send(now time.Time) error {
	var err error
	if r.emit != nil {
		err = r.emit(&r.event)
	}
	if r.mark = r.parts.Clock(); r.event.Finish == "" {
		r.stats.Emit += r.mark.Sub(now)
		r.stats.Decode += r.mark.Sub(now)
	}
	return err
}

// close ends a request whose last round did not say why.
func (r *request) close(f Finish) error {
	r.stats.Finish = f
	r.event = Event{Round: r.stats.Rounds, Finish: f, Stats: &r.stats}
	return r.send(r.parts.Clock())
}

// readback is the time both models have waited for their devices.
func (r *request) readback() time.Duration {
	return readback(r.target) + readback(r.parts.Drafter)
}
