// Package draft proposes continuations with a draft model or by looking the text up: trees as EAGLE-2 grows them,
// trees of a fixed shape, sampled chains and n-grams. Sequence and LevelSession keep a draft model in step with the
// target, here and in the packages above.
package draft

import (
	"context"
	"fmt"

	"foretoken/spec"
)

// Sequence keeps a draft model's sequence in step with the committed tokens. Sessions embed it. The draft
// lags: it has not consumed the target's last token, nor its own last one when
// everything was accepted, nor anything from rounds it took no part in.
type Sequence struct {
	Model spec.DraftModel
	// Consumed counts the committed tokens that the draft has consumed; the tokens after them are pending.
	Consumed int
}

// Prefill begins a request: the draft consumes the prompt but for its last token, of which it may hold
// a part from the request before.
func (s *Sequence) Prefill(ctx context.Context, o spec.SessionOptions) error {
	body := o.Prompt[:len(o.Prompt)-1]
	if len(o.Prompt) > s.Model.Limits().Context {
		body = nil
	}
	s.Consumed = s.Model.ReusePrefix(body)
	fed, err := s.Follow(ctx, body, 0)
	if err == nil && fed > 0 {
		err = s.Model.Sync()
	}
	if err != nil {
		return err
	}
	return s.Check()
}

// Pending brings the lag down to what one request takes and returns it.
func (s *Sequence) Pending(ctx context.Context, seq []int32) ([]int32, error) {
	_, err := s.Follow(ctx, seq, MostPending(s.Model))
	return seq[s.Consumed:], err
}

// MostPending returns the number of pending tokens that one request takes.
func MostPending(model spec.DraftModel) int {
	return max(min(spec.MaxPending, model.Limits().MaxRows), 1)
}

// Follow prefills the draft with seq without its last pending tokens, and returns how many tokens that took.
func (s *Sequence) Follow(ctx context.Context, seq []int32, pending int) (int, error) {
	surplus := seq[s.Consumed:max(len(seq)-pending, s.Consumed)]
	if len(surplus) == 0 {
		return 0, nil
	}
	if err := s.Model.Prefill(ctx, surplus); err != nil {
		return 0, err
	}
	s.Consumed += len(surplus)
	return len(surplus), s.Check()
}

// Levels returns the number of levels of the given width that fit the draft's cache once it has consumed so many
// tokens; 0 when not even those fit. Every beam of every pass but the root's is counted as a position, so a cache of
// exactly Limits.Context slots is enough.
func (s *Sequence) Levels(tokens, width int) int {
	room := s.Model.Limits().Context - tokens
	if room < 0 || width < 1 {
		return 0
	}
	return 1 + room/width
}

// Advance notes that the draft has consumed all of seq.
func (s *Sequence) Advance(seq []int32) error {
	s.Consumed = len(seq)
	return s.Check()
}

// Consume calls draft, which has the model consume the pending tokens of seq.
func (s *Sequence) Consume(ctx context.Context, seq []int32, draft func(pending []int32) error) error {
	pending, err := s.Pending(ctx, seq)
	if err != nil {
		return err
	}
	if err := draft(pending); err != nil {
		return err
	}
	return s.Advance(seq)
}

// CommitBeams makes accepted beams part of the draft's sequence.
func (s *Sequence) CommitBeams(beams []int32) error {
	if err := s.Model.Commit(beams); err != nil {
		return err
	}
	s.Consumed += len(beams)
	return s.Check()
}

// Check refuses a draft model that holds another number of tokens than it was given.
func (s *Sequence) Check() error {
	if n := s.Model.Len(); n != s.Consumed {
		return fmt.Errorf("spec: the draft model holds %d tokens, want %d", n, s.Consumed)
	}
	return nil
}

// TreeDrafter grows a tree with a small model and keeps the best of it: EAGLE-2's
// dynamic tree, or a chain where the budget's width is 1.
type TreeDrafter struct {
	Model spec.DraftModel
	// Uncoupled ranks by ln q alone. Otherwise, above temperature 0, the noise that
	// the target will draw with is added, so that both tend to choose the same token;
	// it depends on seed and position only, so matching stays exact.
	Uncoupled bool
}

var _ spec.Drafter = (*TreeDrafter)(nil)

func (t *TreeDrafter) Begin(ctx context.Context, o spec.SessionOptions) (spec.DraftSession, error) {
	session := &treeSession{LevelSession: NewLevelSession(t.Model, o, t.Uncoupled)}
	return session, session.Prefill(ctx, o)
}

// LevelSession is the part of a session that draft trees by levels have in common. Sessions embed it.
type LevelSession struct {
	Sequence
	Coupled   bool // candidates are ranked with the target's noise
	Sampling  spec.Sampling
	Draft     spec.Draft // the last proposal
	UsedModel bool       // the last proposal used the model
	// Tree is for proposals that ProposeTree does not build. Beam holds the place of each of its nodes among the beams
	// of its level, -1 for a node that the draft has not consumed.
	Tree    spec.Tree
	Beam    []int32
	builder spec.Builder
	built   bool              // the proposal is of builder, not of Tree
	request spec.DraftRequest // of proposeDraft
	beams   []int32
	target  spec.Target // as in SessionOptions
	pass    spec.PassKind
}

// NewLevelSession is a session's part for a model. At temperature 0 there is no noise to be coupled by.
func NewLevelSession(model spec.DraftModel, o spec.SessionOptions, uncoupled bool) LevelSession {
	coupled := o.Sampling.Temperature > 0 && !uncoupled
	return LevelSession{Sequence: Sequence{Model: model}, Coupled: coupled, Sampling: o.Sampling,
		target: o.Target, pass: o.Pass}
}

// draftVerify has the target draft and verify after seq in one run, by a request for which pending points to the
// pending tokens. It returns nil if the target cannot.
func (l *LevelSession) draftVerify(ctx context.Context, seq []int32, r spec.PassRequest,
	pending *[]int32) (pass *spec.Pass, err error) {
	if l.target == nil {
		return nil, nil
	}
	if *pending, err = l.Pending(ctx, seq); err != nil {
		return nil, err
	}
	r.Kind, r.Sampling, r.Model = l.pass, l.Sampling, l.Model
	if pass, err = l.target.Verify(ctx, r); pass == nil || err != nil {
		return nil, err
	}
	return pass, l.Advance(seq)
}

// ProposeRoot proposes the last committed token alone, in Tree: the round decodes plainly unless nodes are added.
func (l *LevelSession) ProposeRoot(seq []int32) *spec.Draft {
	l.Tree.Reset(seq[len(seq)-1])
	l.Beam = append(l.Beam[:0], -1)
	l.Draft = spec.Draft{Tree: &l.Tree}
	l.UsedModel, l.built = false, false
	return &l.Draft
}

// Room returns how many candidates a beam may have within a budget, and how many passes after the root's: -1 if there
// is nothing to draft.
func (l *LevelSession) Room(seq []int32, b spec.Budget) (width, passes int) {
	lim := l.Model.Limits()
	width = min(b.Width, lim.TopK, lim.MaxRows)
	if b.Nodes < 2 {
		return width, -1
	}
	return width, min(b.Levels, l.Levels(len(seq), width)) - 1
}

// DraftTree drafts the first levels of a tree after seq.
func (l *LevelSession) DraftTree(ctx context.Context, seq []int32, depth, k int) ([]spec.Level, error) {
	return l.draftLevels(ctx, seq, &spec.DraftRequest{Depth: depth, K: k, Coupled: l.Coupled, Sampling: l.Sampling})
}

// DraftUntil drafts a tree after seq until stop ends it or it has most passes after the root's, in runs as long as run
// says. stop is asked once for each level, in order, with all levels down to it, whatever was drafted beyond. The
// levels down to the end come back, and how many were drafted.
func (l *LevelSession) DraftUntil(ctx context.Context, seq []int32, width, most int, run *RunLength,
	stop func(levels []spec.Level) bool) (levels []spec.Level, drafted int, err error) {
	levels, err = l.DraftTree(ctx, seq, run.Next(most+1, 0)-1, width)
	for kept := 1; err == nil; kept++ {
		if kept > len(levels) {
			return nil, 0, fmt.Errorf("spec: the draft model grew a tree of %d levels to %d", kept-1, len(levels))
		}
		if kept > most || stop(levels[:kept]) {
			return levels[:kept], len(levels), nil
		}
		if kept == len(levels) {
			levels, err = l.Model.Extend(ctx, spec.Extension{Passes: run.Next(most+1, kept)})
		}
	}
	return nil, 0, err
}

// draftLevels drafts the levels of a request, which it completes, after seq.
func (l *LevelSession) draftLevels(ctx context.Context, seq []int32, r *spec.DraftRequest) (levels []spec.Level,
	err error) {
	err = l.Consume(ctx, seq, func(pending []int32) error {
		r.Pending = pending
		levels, err = l.Model.Draft(ctx, *r)
		return err
	})
	return levels, err
}

// proposeDraft drafts what l.request asks for after seq and proposes the tree of its levels. joins: the pass may
// follow in the same run.
func (l *LevelSession) proposeDraft(ctx context.Context, seq []int32, joins bool) (*spec.Draft, error) {
	r, d := &l.request, spec.Draft{}
	if joins {
		pass, err := l.draftVerify(ctx, seq, spec.PassRequest{Draft: r, Builder: &l.builder}, &r.Pending)
		if err != nil {
			return nil, err
		}
		if pass != nil {
			d.Tree, d.Levels, d.Pass = pass.Tree, pass.Levels, pass
		}
	}
	if d.Tree == nil {
		var err error
		if d.Levels, err = l.draftLevels(ctx, seq, r); err != nil {
			return nil, err
		}
		if d.Tree, err = l.builder.BuildFor(r, d.Levels); err != nil {
			return nil, err
		}
	}
	if r.Drawn {
		d.Sampler, d.Rows = l.Model, l.builder.Rows()
	}
	l.Draft, l.UsedModel, l.built = d, true, true
	return &l.Draft, nil
}

// ProposeBest drafts depth passes after the root's, k beams each, after seq, and proposes the best nodes of all levels;
// nodes counts the root. joins: the target may verify the tree in the run that drafts it.
func (l *LevelSession) ProposeBest(ctx context.Context, seq []int32, depth, k, nodes int,
	joins bool) (*spec.Draft, error) {
	l.request = spec.DraftRequest{Depth: depth, K: k, Nodes: nodes, Coupled: l.Coupled, Sampling: l.Sampling}
	return l.proposeDraft(ctx, seq, joins && l.pass == spec.PassOutputs)
}

// ProposeTree proposes the best nodes of d.Levels; nodes counts the root.
func (l *LevelSession) ProposeTree(seq []int32, nodes int, d spec.Draft) (*spec.Draft, error) {
	tree, err := l.builder.Build(seq[len(seq)-1], d.Levels, nodes)
	if err != nil {
		return nil, err
	}
	d.Tree = tree
	l.Draft, l.UsedModel, l.built = d, true, true
	return &l.Draft, nil
}

// Observe does nothing.
func (l *LevelSession) Observe(*spec.Event) {}

func (l *LevelSession) Commit(path []int32) error {
	if !l.UsedModel {
		return nil
	}
	l.UsedModel = false
	if l.built {
		return l.CommitBeams(l.builder.Beams(path))
	}
	l.beams = l.beams[:0]
	for _, n := range path[1:] {
		if l.Beam[n] < 0 {
			break
		}
		l.beams = append(l.beams, l.Beam[n])
	}
	return l.CommitBeams(l.beams)
}

type treeSession struct{ LevelSession }

func (t *treeSession) Propose(ctx context.Context, seq []int32, b spec.Budget) (*spec.Draft, error) {
	width, depth := t.Room(seq, b)
	if depth < 0 {
		return t.ProposeRoot(seq), nil
	}
	return t.ProposeBest(ctx, seq, depth, width, b.Nodes, true)
}

// SampledChain draws a chain token by token from the draft's processed distribution,
// as rejection sampling needs it. Matching may verify it too.
type SampledChain struct {
	Model spec.DraftModel
	// Rule ends the chain early, after the token at which it stops; nil: nothing does.
	Rule ChainRule
	// Ahead: see RankedChain. Without a rule all tokens are drawn in one go.
	Ahead int
	// Coupled draws with the noise that the target will draw with, where the rule of
	// verification does not need draws independent of the target's.
	Coupled bool
	// Matched says that at temperature 0 the chain is only matched. Without a rule it then is the draft's best
	// chain, and its distributions are not kept.
	Matched bool
}

var _ spec.Drafter = (*SampledChain)(nil)

func (c *SampledChain) Begin(ctx context.Context, o spec.SessionOptions) (spec.DraftSession, error) {
	if c.Matched && c.Rule == nil && o.Sampling.Temperature == 0 {
		session := &treeSession{LevelSession: NewLevelSession(c.Model, o, true)}
		return session, session.Prefill(ctx, o)
	}
	session := &chainSession{
		LevelSession: NewLevelSession(c.Model, o, !c.Coupled),
		rule:         ruled{rule: c.Rule}, run: RunLength{Fixed: c.Ahead},
	}
	return session, session.Prefill(ctx, o)
}

type chainSession struct {
	LevelSession
	rule   ruled
	run    RunLength
	sample spec.SampleRequest
	drawn  int     // tokens drawn for the last proposal, those beyond its end included
	zeros  []int32 // a chain has one beam a level
}

func (c *chainSession) Propose(ctx context.Context, seq []int32, b spec.Budget) (*spec.Draft, error) {
	c.drawn = 0
	most := min(b.Levels, b.Nodes-1, c.Levels(len(seq), 1))
	if most < 1 {
		return c.ProposeRoot(seq), nil
	}
	drawn := most
	if c.rule.rule != nil {
		drawn = c.run.Next(most, 0)
	} else if c.pass == spec.PassChain || c.pass == spec.PassDivergence {
		c.sample = spec.SampleRequest{Count: most, Coupled: c.Coupled, Sampling: c.Sampling}
		pass, err := c.draftVerify(ctx, seq, spec.PassRequest{Chain: &c.sample}, &c.sample.Pending)
		if err != nil {
			return nil, err
		}
		if pass != nil {
			d, err := c.propose(seq, pass.Drawn, most, most, true)
			if err == nil {
				d.Pass = pass
			}
			return d, err
		}
	}
	var tokens []spec.Drawn
	err := c.Consume(ctx, seq, func(pending []int32) (err error) {
		tokens, err = c.Model.Sample(ctx, spec.SampleRequest{Pending: pending, Count: drawn, Coupled: c.Coupled,
			Sampling: c.Sampling})
		return err
	})
	if err != nil {
		return nil, err
	}
	for first := true; ; first = false {
		if d, err := c.propose(seq, tokens, drawn, most, first); d != nil || err != nil {
			return d, err
		}
		more := c.run.Next(most, drawn)
		if tokens, err = c.Model.Sample(ctx, spec.SampleRequest{Count: more}); err != nil {
			return nil, err
		}
		drawn += more
	}
}

// propose applies the rule to a chain of drawn tokens. It returns nil if the chain goes on.
func (c *chainSession) propose(seq []int32, tokens []spec.Drawn, drawn, most int, first bool) (*spec.Draft, error) {
	if len(tokens) != drawn {
		return nil, fmt.Errorf("spec: the draft model drew %d of %d tokens", len(tokens), drawn)
	}
	if !c.rule.ask(tokens, most, first) {
		return nil, nil
	}
	d := c.ProposeRoot(seq)
	for i, t := range c.rule.kept {
		c.Tree.Add(int32(i), t.Token, 0)
	}
	c.drawn = drawn
	d.Sampler, d.Drawn, d.Drafted = c.Model, c.rule.kept, drawn
	return d, nil
}

func (c *chainSession) Observe(e *spec.Event) { c.run.Observe(e) }

func (c *chainSession) Commit(path []int32) error {
	if c.drawn == 0 {
		return nil
	}
	// The last token drawn was not consumed.
	n := min(len(path)-1, c.drawn-1)
	c.drawn = 0
	for len(c.zeros) < n {
		c.zeros = append(c.zeros, 0)
	}
	return c.CommitBeams(c.zeros[:n])
}
