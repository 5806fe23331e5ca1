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
	opts       Options
	emit       func(*Event) error
	limits     Limits
	prompt     int     // tokens of the prompt
	seq        []int32 // all committed tokens; the target's cache lacks the last
	session    DraftSession
	stats      Stats
	event      Event
	rootOnly   Tree // for rounds without a proposal
	adjustment Adjustment
	logits     []float32
	verdict    Verdict
	proposed   bool  // the session made the draft of the verdict
	draft      Draft // for rounds without a proposal
	tokens     []int32
	origins    []Origin
	start      time.Time
	mark       time.Time // since when nothing was charged to any phase

	learners []Learner
}

func newRequest(g *Generator, prompt []int32, o Options, emit func(*Event) error) *request {
	r := &request{
		Generator: g, opts: o, emit: emit, limits: g.target.Limits(),
		prompt: len(prompt),
		stats:  Stats{Requests: 1, PromptTokens: len(prompt), Lossy: g.parts.Lossy},
	}
	room := r.limits.Context
	if o.MaxTokens > 0 {
		room = min(room, len(prompt)+o.MaxTokens)
	}
	r.seq = append(make([]int32, 0, max(room, len(prompt))), prompt...)
	for _, part := range []any{g.parts.Verifier, g.parts.Policy} {
		if l, ok := part.(Learner); ok && !slices.Contains(r.learners, l) {
			l.Start()
			r.learners = append(r.learners, l)
		}
	}
	return r
}

func (r *request) run(ctx context.Context) error {
	r.start = r.parts.Clock()
	r.mark = r.start
	err := r.retry(ctx, r.prefill, r.prefill)
	now := r.parts.Clock()
	r.stats.Prefill = now.Sub(r.start) - r.stats.Recovery
	r.mark = now
	if r.left() == 0 && err == nil {
		return r.close(FinishContext)
	}
	for err == nil && ctx.Err() == nil {
		if err = r.round(ctx); err == nil && r.stats.Finish != "" {
			return nil
		}
	}
	if Cancelled(ctx, err) {
		return r.close(FinishAborted)
	}
	return err
}

// Cancelled reports whether a request that ended with err, or without an error, ended because ctx did, not for another
// error.
func Cancelled(ctx context.Context, err error) bool {
	return ctx.Err() != nil && (err == nil || errors.Is(err, ctx.Err()) || errors.Is(err, context.Cause(ctx)))
}

// prefill has both models consume the prompt but for its last token, the first root.
func (r *request) prefill(ctx context.Context) error {
	body := r.seq[:r.prompt-1]
	held := r.target.ReusePrefix(body)
	r.stats.Reused = held
	err := r.fill(ctx, body, held)
	r.stats.Prefilled = r.target.Len() - held
	return err
}

// fill has the target consume body, of which it holds the first tokens, and the drafter begin.
func (r *request) fill(ctx context.Context, body []int32, held int) error {
	var fed time.Duration
	if n := len(body) - held; n > 0 {
		begun := r.parts.Clock()
		if err := r.target.Prefill(ctx, body[held:]); err != nil {
			return err
		}
		if err := r.target.Sync(); err != nil {
			return err
		}
		fed = r.parts.Clock().Sub(begun) / time.Duration(n)
	}
	if err := r.check(); err != nil {
		return err
	}
	return r.begin(ctx, fed)
}

// begin starts a draft session after the committed tokens; fed is SessionOptions.Fed.
func (r *request) begin(ctx context.Context, fed time.Duration) error {
	o := SessionOptions{Prompt: r.seq, Sampling: r.opts.Sampling, Pass: r.parts.Verifier.Pass(r.opts.Sampling)}
	o.Fed = fed
	if r.opts.Constraint == nil && r.limits.Joint {
		o.Target = r.target
	}
	var err error
	r.session, err = r.parts.Drafter.Begin(ctx, o)
	return err
}

func (r *request) check() error {
	if n := r.target.Len(); n != len(r.seq)-1 {
		return fmt.Errorf("spec: the target holds %d tokens, want %d", n, len(r.seq)-1)
	}
	return nil
}

// left returns the number of tokens that may still be committed.
func (r *request) left() int {
	left := r.limits.Context - len(r.seq)
	if r.opts.MaxTokens > 0 {
		left = min(left, r.opts.MaxTokens-(len(r.seq)-r.prompt))
	}
	return left
}

// free is the greatest budget of the next round. A tree of depth d commits up to d+1 tokens. Each node takes a slot,
// either one that the committed tokens leave or a spare one.
func (r *request) free() Budget {
	b := Budget{
		Levels: r.left() - 1,
		Width:  MaxTopK,
		Nodes:  min(r.limits.MaxRows, r.limits.Context+r.limits.Spare-(len(r.seq)-1)),
	}
	if r.opts.LogProbs {
		b.Nodes = min(b.Nodes, r.limits.LogitRows)
	}
	return b
}

// decide asks the policy for a budget, the session for a draft and the verifier for a verdict.
func (r *request) decide(ctx context.Context) (d *Draft, asked bool, err error) {
	free, e := r.free(), &r.event
	b := r.parts.Policy.NextBudget(free)
	b = Budget{Levels: min(b.Levels, free.Levels), Width: min(b.Width, free.Width), Nodes: min(b.Nodes, free.Nodes)}
	verifier, sampling := r.parts.Verifier, r.opts.Sampling
	begun := r.parts.Clock()
	if asked = b.drafts(); asked {
		if d, err = r.session.Propose(ctx, r.seq, b); err != nil {
			return nil, true, err
		}
		if e.Joint = d.Pass != nil; !e.Joint {
			now := r.parts.Clock()
			e.Draft, begun = now.Sub(begun), now
		}
		if err := r.checkDraft(d, b); err != nil {
			return nil, true, err
		}
	} else {
		r.rootOnly.Reset(r.seq[len(r.seq)-1])
		r.draft = Draft{Tree: &r.rootOnly}
		d = &r.draft
	}
	pass := d.Pass
	if pass == nil {
		if err := r.adjust(d.Tree); err != nil {
			return nil, asked, err
		}
		if pass, err = verify(ctx, r.target, verifier.Pass(sampling), d, sampling); err != nil {
			return nil, asked, err
		}
	}
	if err := pass.check(d.Tree); err != nil {
		return nil, asked, err
	}
	if err := verifier.Accept(d.Tree, pass, &r.verdict); err != nil {
		return nil, asked, err
	}
	e.Divergences = pass.Divergences
	e.Verify = r.parts.Clock().Sub(begun)
	return d, asked, nil
}

// checkDraft rejects an invalid draft, or one over the budget.
func (r *request) checkDraft(d *Draft, b Budget) error {
	if err := d.Tree.Validate(r.limits.Vocab); err != nil {
		return err
	}
	if d.Tree.Tokens[0] != r.seq[len(r.seq)-1] {
		return fmt.Errorf("spec: the draft's root is token %d, want %d", d.Tree.Tokens[0], r.seq[len(r.seq)-1])
	}
	if d.Tree.Depth() > b.Levels || d.Tree.Len() > b.Nodes {
		return fmt.Errorf("spec: the draft has %d nodes and depth %d, but %d and %d were asked for", d.Tree.Len(),
			d.Tree.Depth(), b.Nodes, b.Levels)
	}
	return nil
}

// round drafts, verifies and commits once.
func (r *request) round(ctx context.Context) error {
	if err := r.retry(ctx, r.attempt, r.reattempt); err != nil {
		return err
	}
	return r.commit()
}

// attempt does all of a round that needs the device. It commits nothing, so that it can be done again.
func (r *request) attempt(ctx context.Context) error {
	e := &r.event
	*e = Event{Round: r.stats.Rounds + 1, Stats: &r.stats}
	waited := r.readback()
	d, asked, err := r.decide(ctx)
	if err != nil {
		return err
	}
	v := &r.verdict
	e.Readback = r.readback() - waited
	e.Proposal, e.Tree, e.Levels, e.Outputs = d, d.Tree, d.Levels, v.Outputs
	r.proposed = asked
	if err := r.accept(d.Tree, v); err != nil {
		return err
	}
	return r.logProbs(v)
}

// commit makes the verdict's tokens part of the sequence and publishes the event.
func (r *request) commit() error {
	e, v := &r.event, &r.verdict
	if err := r.cut(); err != nil {
		return err
	}
	// Each committed token moves the cache forward by one: the root is the first to go
	// in, and the last committed token stays out as the next root.
	n := len(r.tokens)
	if r.opts.LogProbs {
		e.LogProbs = e.LogProbs[:n]
	}
	if err := r.target.Commit(v.Path[:n]); err != nil {
		return err
	}
	r.seq = append(r.seq, r.tokens...)
	if err := r.check(); err != nil {
		return err
	}
	if r.opts.Constraint != nil {
		if err := r.opts.Constraint.Take(r.tokens); err != nil {
			return err
		}
	}
	if r.proposed {
		if err := r.session.Commit(v.Path[:n]); err != nil {
			return err
		}
	}
	e.Tokens, e.Origins = r.tokens, r.origins[:n]
	e.Path = v.Path[:min(n+1, len(v.Path))]
	e.VerifiedDepth = e.Tree.Depth()
	if n <= len(v.Path)-1 {
		e.VerifiedDepth = n // the verdict's run had one token more than the path has drafted ones
	}
	if e.Finish == "" && r.left() == 0 {
		e.Finish = FinishContext
		if len(r.seq)-r.prompt == r.opts.MaxTokens {
			e.Finish = FinishLength
		}
	}
	return r.publish()
}

// accept turns a verdict into the run of tokens it commits and their origins.
func (r *request) accept(t *Tree, v *Verdict) error {
	r.tokens, r.origins = r.tokens[:0], r.origins[:0]
	if len(v.Path) == 0 || v.Path[0] != 0 || len(v.Relaxed) > 0 && len(v.Relaxed) != len(v.Path) {
		return fmt.Errorf("spec: a verdict with path %v and %d marks", v.Path, len(v.Relaxed))
	}
	for i, node := range v.Path[1:] {
		if int(node) >= t.Len() || node < 1 || t.Parents[node] != v.Path[i] {
			return fmt.Errorf("spec: the accepted path %v is not a path of the tree", v.Path)
		}
		origin := Accepted
		if len(v.Relaxed) > 0 && v.Relaxed[i+1] {
			origin = Relaxed
		}
		r.tokens = append(r.tokens, t.Tokens[node])
		r.origins = append(r.origins, origin)
	}
	if v.Next == NoToken {
		return fmt.Errorf("spec: the target's logits after position %d are not finite: its weights overflow; "+
			"use another model", len(r.seq)-2+len(v.Path))
	}
	if v.Next < 0 || int(v.Next) >= r.limits.Vocab {
		return fmt.Errorf("spec: the target drew token %d, outside the vocabulary of %d (are its logits finite?)",
			v.Next, r.limits.Vocab)
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
	for _, part := range r.learners {
		part.Observe(e)
	}
	r.session.Observe(e)
	return r.send(now)
}

// send emits the event and charges the time to Emit, but for the last one: no token waits for it.
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

// readback is the time all models have waited for their devices.
func (r *request) readback() time.Duration {
	t := r.target.ReadbackTime()
	for _, m := range r.parts.Models {
		t += m.ReadbackTime()
	}
	return t
}
