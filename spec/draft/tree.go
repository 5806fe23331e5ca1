// Package draft proposes continuations with a draft model or by looking the text up: trees as EAGLE-2 grows them,
// trees of a fixed shape, sampled chains and n-grams. Sequence and LevelSession keep a draft model in step with the
// target, here and in the packages above. Where the target can verify in the run that drafts, a session implements
// spec.JointSession.
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
	// Consumed is how many committed tokens the draft has consumed; those of the sequence after them are pending.
	Consumed int
}

// Prefill begins a request: the draft consumes the prompt but for its last token, of which it may hold
// a part from the request before.
func (s *Sequence) Prefill(ctx context.Context, prompt []int32, progress func(done int)) error {
	body := prompt[:len(prompt)-1]
	if len(prompt) > s.Model.Limits().Context {
		body = nil
	}
	if s.Consumed = s.Model.ReusePrefix(body); s.Consumed < len(body) {
		if err := s.Model.Prefill(ctx, body[s.Consumed:], spec.ProgressFrom(s.Consumed, progress)); err != nil {
			return err
		}
		if err := s.Model.Sync(); err != nil {
			return err
		}
		s.Consumed = len(body)
	}
	return s.Check()
}

// Pending brings the lag down to what one request takes and returns it.
func (s *Sequence) Pending(ctx context.Context, seq []int32) ([]int32, error) {
	if most := max(min(spec.MaxPending, s.Model.Limits().MaxRows), 1); len(seq)-s.Consumed > most {
		surplus := seq[s.Consumed : len(seq)-most]
		if err := s.Model.Prefill(ctx, surplus, nil); err != nil {
			return nil, err
		}
		s.Consumed += len(surplus)
	}
	return seq[s.Consumed:], nil
}

// Levels is how many levels of the given width the draft's cache has room for
// once it has consumed seq; 0 when not even that fits. Every beam of every pass
// but the root's is counted as a position, so a cache of exactly
// Limits.Context slots is enough.
func (s *Sequence) Levels(seq []int32, width int) int {
	room := s.Model.Limits().Context - len(seq)
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

// DraftVerify has the target draft and verify after seq in one run. It returns nil if the target cannot.
func (s *Sequence) DraftVerify(
	ctx context.Context, seq []int32, target spec.JointTarget, r *spec.JointRequest,
) (result *spec.JointResult, err error) {
	if r.Pending, err = s.Pending(ctx, seq); err != nil {
		return nil, err
	}
	if result, err = target.DraftVerify(ctx, s.Model, r); result == nil || err != nil {
		return nil, err
	}
	return result, s.Advance(seq)
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

var (
	_ spec.Drafter      = (*TreeDrafter)(nil)
	_ spec.JointSession = (*treeSession)(nil)
	_ spec.JointSession = (*chainSession)(nil)
)

// Begin implements Drafter.
func (t *TreeDrafter) Begin(
	ctx context.Context, prompt []int32, s spec.Sampling, progress func(int),
) (spec.DraftSession, error) {
	session := newTreeSession(t.Model, s, t.Uncoupled)
	return session, session.Prefill(ctx, prompt, progress)
}

func newTreeSession(model spec.DraftModel, s spec.Sampling, uncoupled bool) *treeSession {
	t := &treeSession{LevelSession: NewLevelSession(model, s, uncoupled)}
	t.request.Build = t.build
	return t
}

// LevelSession is the part of a session that draft trees by levels have in common. Sessions embed it.
type LevelSession struct {
	Sequence
	Coupled  bool // candidates are ranked with the target's noise
	Sampling spec.Sampling
	Builder  spec.Builder
	Draft    spec.Draft // the last proposal
	Drafted  bool       // the last proposal used the model
	root     spec.Tree
}

// NewLevelSession is a session's part for a model. At temperature 0 there is no noise to be coupled by.
func NewLevelSession(model spec.DraftModel, s spec.Sampling, uncoupled bool) LevelSession {
	return LevelSession{Sequence: Sequence{Model: model}, Coupled: s.Temperature > 0 && !uncoupled, Sampling: s}
}

// ProposeRoot proposes the last committed token alone: the round decodes plainly.
func (l *LevelSession) ProposeRoot(root int32) *spec.Draft {
	l.root.Reset(root)
	l.Draft = spec.Draft{Tree: &l.root}
	return &l.Draft
}

// Commit implements DraftSession for trees that Builder made.
func (l *LevelSession) Commit(path []int32) error {
	if !l.Drafted {
		return nil
	}
	l.Drafted = false
	return l.CommitBeams(l.Builder.Beams(path))
}

type treeSession struct {
	LevelSession
	request spec.JointRequest
	last    int32 // the last committed token
}

// plan sets the request to a tree within the budget, without its pending tokens, and reports whether there is
// anything to draft.
func (t *treeSession) plan(seq []int32, b spec.Budget) bool {
	t.last, t.Drafted = seq[len(seq)-1], false
	lim := t.Model.Limits()
	width := min(b.Width, lim.TopK, lim.MaxRows)
	depth := min(b.Levels, t.Levels(seq, width)) - 1
	t.request.DraftRequest = spec.DraftRequest{Depth: depth, K: width, Coupled: t.Coupled, Sampling: t.Sampling}
	t.request.Nodes = b.Nodes
	return depth >= 0 && b.Nodes >= 2
}

// build makes the tree of the levels.
func (t *treeSession) build(levels []spec.Level) (*spec.Tree, error) {
	return t.Builder.Build(t.last, levels, t.request.Nodes)
}

func (t *treeSession) Propose(ctx context.Context, seq []int32, b spec.Budget) (*spec.Draft, error) {
	if !t.plan(seq, b) {
		return t.ProposeRoot(t.last), nil
	}
	var err error
	if t.request.Pending, err = t.Pending(ctx, seq); err != nil {
		return nil, err
	}
	levels, err := t.Model.DraftTree(ctx, t.request.DraftRequest)
	if err != nil {
		return nil, err
	}
	if err := t.Advance(seq); err != nil {
		return nil, err
	}
	tree, err := t.build(levels)
	if err != nil {
		return nil, err
	}
	t.Drafted = true
	t.Draft = spec.Draft{Tree: tree, Levels: levels}
	return &t.Draft, nil
}

// ProposeVerify implements JointSession.
func (t *treeSession) ProposeVerify(
	ctx context.Context, seq []int32, b spec.Budget, target spec.JointTarget, kind spec.PassKind,
) (*spec.Draft, *spec.Pass, error) {
	if kind != spec.PassOutputs || !t.plan(seq, b) {
		return nil, nil, nil
	}
	result, err := t.DraftVerify(ctx, seq, target, &t.request)
	if result == nil || err != nil {
		return nil, nil, err
	}
	t.Drafted = true
	t.Draft = spec.Draft{Tree: result.Tree, Levels: result.Levels}
	return &t.Draft, &result.Pass, nil
}

// SampledChain draws a chain token by token from the draft's processed distribution,
// as rejection sampling needs it. Matching may verify it too.
type SampledChain struct {
	Model spec.DraftModel
	// Rule ends the chain early; nil: nothing does. A ChainCutter's Keep is not asked: a
	// sampled token stays in the chain whatever it is.
	Rule ChainRule
	// Ahead is as RankedChain's; without a rule all tokens are drawn in one go.
	Ahead int
	// Coupled draws with the noise that the target will draw with, where the rule of
	// verification does not need draws independent of the target's.
	Coupled bool
	// Matched says that at temperature 0 the chain is only matched. Without a rule it then is the draft's best
	// chain, and its distributions are not kept.
	Matched bool
}

var (
	_ spec.Drafter = (*SampledChain)(nil)
)

// Begin implements Drafter.
func (c *SampledChain) Begin(
	ctx context.Context, prompt []int32, s spec.Sampling, progress func(int),
) (spec.DraftSession, error) {
	if c.Matched && c.Rule == nil && s.Temperature == 0 {
		session := newTreeSession(c.Model, s, true)
		return session, session.Prefill(ctx, prompt, progress)
	}
	session := &chainSession{
		Sequence: Sequence{Model: c.Model}, model: c.Model,
		rule: ruled{rule: c.Rule, keepAll: true}, run: RunLength{Fixed: c.Ahead},
		request: spec.SampleRequest{Coupled: c.Coupled && s.Temperature > 0, Sampling: s},
	}
	return session, session.Prefill(ctx, prompt, progress)
}

type chainSession struct {
	Sequence
	model   spec.DraftModel
	rule    ruled
	run     RunLength
	request spec.SampleRequest
	joint   spec.JointRequest
	tree    spec.Tree
	draft   spec.Draft
	drawn   int     // tokens drawn for the last proposal, those beyond its end included
	zeros   []int32 // a chain has one beam a level
}

func (c *chainSession) Propose(ctx context.Context, seq []int32, b spec.Budget) (*spec.Draft, error) {
	c.tree.Reset(seq[len(seq)-1])
	c.draft = spec.Draft{Tree: &c.tree}
	c.drawn = 0
	most := min(b.Levels, b.Nodes-1, c.Levels(seq, 1))
	if most < 1 {
		return &c.draft, nil
	}
	pending, err := c.Pending(ctx, seq)
	if err != nil {
		return nil, err
	}
	if c.request.Pending, c.request.Count = pending, most; c.rule.rule != nil {
		c.request.Count = c.run.Next(most, 0)
	}
	tokens, err := c.model.DraftSampled(ctx, c.request)
	if err != nil {
		return nil, err
	}
	if err := c.Advance(seq); err != nil {
		return nil, err
	}
	for want := c.request.Count; ; {
		if len(tokens) != want {
			return nil, fmt.Errorf("spec: the draft model drew %d of %d tokens", len(tokens), want)
		}
		c.drawn = want
		if c.rule.ask(tokens, most, want == c.request.Count) {
			break
		}
		more := c.run.Next(most, want)
		if tokens, err = c.model.DrawMore(ctx, more); err != nil {
			return nil, err
		}
		want += more
	}
	for i, t := range c.rule.kept {
		c.tree.Add(int32(i), t.Token, 0)
	}
	c.draft.Sampler, c.draft.Drawn, c.draft.Drafted = c.model, c.rule.kept, c.drawn
	return &c.draft, nil
}

// ProposeVerify implements JointSession for chains that no rule may end.
func (c *chainSession) ProposeVerify(
	ctx context.Context, seq []int32, b spec.Budget, target spec.JointTarget, kind spec.PassKind,
) (*spec.Draft, *spec.Pass, error) {
	c.drawn = 0
	most := min(b.Levels, b.Nodes-1, c.Levels(seq, 1))
	if c.rule.rule != nil || most < 1 || kind != spec.PassChain && kind != spec.PassDivergence {
		return nil, nil, nil
	}
	c.joint.Pass, c.joint.Count, c.request.Count = kind, most, most
	c.joint.Coupled, c.joint.Sampling = c.request.Coupled, c.request.Sampling
	result, err := c.DraftVerify(ctx, seq, target, &c.joint)
	if result == nil || err != nil {
		return nil, nil, err
	}
	if err := c.propose(seq, result.Drawn); err != nil {
		return nil, nil, err
	}
	return &c.draft, &result.Pass, nil
}

// propose makes the proposal of the tokens that a request for all of them at once gave.
func (c *chainSession) propose(seq []int32, tokens []spec.Drawn) error {
	most := c.request.Count
	if len(tokens) != most {
		return fmt.Errorf("spec: the draft model drew %d of %d tokens", len(tokens), most)
	}
	c.drawn = most
	c.rule.ask(tokens, most, true)
	c.tree.Reset(seq[len(seq)-1])
	for i, t := range c.rule.kept {
		c.tree.Add(int32(i), t.Token, 0)
	}
	c.draft = spec.Draft{Tree: &c.tree, Sampler: c.model, Drawn: c.rule.kept, Drafted: most}
	return nil
}

// Observe implements Observer.
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
