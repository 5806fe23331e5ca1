package spec

import (
	"context"
	"fmt"
	"time"
)

// feed keeps a draft model's sequence beside the committed tokens. The draft
// lags: it has not consumed the target's last token, nor its own last one when
// everything was accepted, nor anything from rounds it took no part in. fed is how
// many committed tokens it has consumed, and seq[fed:] is what is pending.
type feed struct {
	model DraftModel
	fed   int
}

func (f *feed) begin(ctx context.Context, prompt []int32, progress func(done int)) error {
	body := prompt[:len(prompt)-1]
	if len(prompt) > f.model.Limits().Context {
		body = nil
	}
	if f.fed = keep(f.model, body); f.fed < len(body) {
		if err := f.model.Prefill(ctx, body[f.fed:], after(f.fed, progress)); err != nil {
			return err
		}
		if err := settle(f.model); err != nil {
			return err
		}
		f.fed = len(body)
	}
	return f.check()
}

// pending brings the lag down to what one request takes and returns it.
func (f *feed) pending(ctx context.Context, seq []int32) ([]int32, error) {
	if most := max(min(MaxPending, f.model.Limits().MaxRows), 1); len(seq)-f.fed > most {
		surplus := seq[f.fed : len(seq)-most]
		if err := f.model.Prefill(ctx, surplus, nil); err != nil {
			return nil, err
		}
		f.fed += len(surplus)
	}
	return seq[f.fed:], nil
}

// levels is how many levels of the given width the draft's cache has room for
// once it has consumed seq; 0 when not even that fits. Every beam of every pass
// but the root's is counted as a position, so a cache of exactly
// Limits.Context slots is enough.
func (f *feed) levels(seq []int32, width int) int {
	room := f.model.Limits().Context - len(seq)
	if room < 0 || width < 1 {
		return 0
	}
	return 1 + room/width
}

// consumed notes that the draft has taken in all of seq.
func (f *feed) consumed(seq []int32) error {
	f.fed = len(seq)
	return f.check()
}

// commit makes accepted beams part of the draft's sequence.
func (f *feed) commit(beams []int32) error {
	if err := f.model.Commit(beams); err != nil {
		return err
	}
	f.fed += len(beams)
	return f.check()
}

func (f *feed) check() error {
	if n := f.model.Len(); n != f.fed {
		return fmt.Errorf("spec: the draft model holds %d tokens, want %d", n, f.fed)
	}
	return nil
}

// TreeDrafter grows a tree with a small model and keeps the best of it: EAGLE-2's
// dynamic tree, or a chain where the budget's width is 1.
type TreeDrafter struct {
	Model DraftModel
	// Uncoupled ranks by ln q alone. Otherwise, above temperature 0, the noise that
	// the target will draw with is added, so that both tend to choose the same token;
	// it depends on seed and position only, so matching stays exact.
	Uncoupled bool
}

var (
	_ Drafter       = (*TreeDrafter)(nil)
	_ ReadbackTimer = (*TreeDrafter)(nil)
	_ JointSession  = (*treeSession)(nil)
)

// Begin implements Drafter.
func (t *TreeDrafter) Begin(ctx context.Context, prompt []int32, s Sampling, progress func(int)) (DraftSession, error) {
	session := newTreeSession(t.Model, s, t.Uncoupled)
	return session, session.begin(ctx, prompt, progress)
}

func newTreeSession(model DraftModel, s Sampling, uncoupled bool) *treeSession {
	t := &treeSession{treeDraft: treeDraft{feed: feed{model: model}, coupled: s.Temperature > 0 && !uncoupled, sampling: s}}
	t.request.Build = t.build
	return t
}

// ReadbackTime is the model's.
func (t *TreeDrafter) ReadbackTime() time.Duration { return readback(t.Model) }

// treeDraft is what drafting trees by levels needs from round to round.
type treeDraft struct {
	feed
	coupled  bool
	sampling Sampling
	builder  Builder
	lone     Tree
	draft    Draft
	drafted  bool // the last proposal used the model
}

type treeSession struct {
	treeDraft
	request JointRequest
	root    int32
}

// plan sets the request for what a budget has room for, but for its pending tokens, and tells whether there is anything
// to draft.
func (t *treeSession) plan(seq []int32, b Budget) bool {
	t.root, t.drafted = seq[len(seq)-1], false
	lim := t.model.Limits()
	width := min(b.Width, lim.TopK, lim.MaxRows)
	depth := min(b.Levels, t.levels(seq, width)) - 1
	t.request.DraftRequest = DraftRequest{Depth: depth, K: width, Coupled: t.coupled, Sampling: t.sampling}
	t.request.Nodes = b.Nodes
	return depth >= 0 && b.Nodes >= 2
}

// build makes the tree of the levels.
func (t *treeSession) build(levels []Level) (*Tree, error) {
	return t.builder.Build(t.root, levels, t.request.Nodes)
}

func (t *treeSession) Propose(ctx context.Context, seq []int32, b Budget) (*Draft, error) {
	if !t.plan(seq, b) {
		t.lone.Reset(t.root)
		t.draft = Draft{Tree: &t.lone}
		return &t.draft, nil
	}
	var err error
	if t.request.Pending, err = t.pending(ctx, seq); err != nil {
		return nil, err
	}
	levels, err := t.model.DraftTree(ctx, t.request.DraftRequest)
	if err != nil {
		return nil, err
	}
	if err := t.consumed(seq); err != nil {
		return nil, err
	}
	tree, err := t.build(levels)
	if err != nil {
		return nil, err
	}
	t.drafted = true
	t.draft = Draft{Tree: tree, Levels: levels}
	return &t.draft, nil
}

// ProposeVerify implements JointSession.
func (t *treeSession) ProposeVerify(ctx context.Context, seq []int32, b Budget, target JointTarget) (*Draft, []NodeOutput, error) {
	if !t.plan(seq, b) || !target.Joins(t.model, &t.request) {
		return nil, nil, nil
	}
	var err error
	if t.request.Pending, err = t.pending(ctx, seq); err != nil {
		return nil, nil, err
	}
	tree, levels, out, err := target.DraftVerify(ctx, t.model, &t.request)
	if err != nil {
		return nil, nil, err
	}
	if err := t.consumed(seq); err != nil {
		return nil, nil, err
	}
	t.drafted = true
	t.draft = Draft{Tree: tree, Levels: levels}
	return &t.draft, out, nil
}

func (t *treeDraft) Commit(path []int32) error {
	if !t.drafted {
		return nil
	}
	t.drafted = false
	return t.commit(t.builder.Beams(path))
}

// SampledChain draws a chain token by token from the draft's processed distribution,
// as rejection sampling needs it. Matching may verify it too.
type SampledChain struct {
	Model SamplingDraft
	// Rule ends the chain early; nil: nothing does. A ChainCutter's Keep is not asked: a
	// sampled token stays in the chain whatever it is.
	Rule ChainRule
	// Ahead is as RankedChain's; without a rule all tokens are drawn in one go.
	Ahead int
	// Coupled draws with the noise that the target will draw with, where the rule of
	// verification does not need draws independent of the target's.
	Coupled bool
	// Matched tells that at temperature 0 the chain is only matched: without a rule it is the draft's best then, and its distributions
	// are not kept.
	Matched bool
}

var (
	_ Drafter       = (*SampledChain)(nil)
	_ ReadbackTimer = (*SampledChain)(nil)
)

// Begin implements Drafter.
func (c *SampledChain) Begin(ctx context.Context, prompt []int32, s Sampling, progress func(int)) (DraftSession, error) {
	if c.Matched && c.Rule == nil && s.Temperature == 0 {
		session := newTreeSession(c.Model, s, true)
		return session, session.begin(ctx, prompt, progress)
	}
	session := &chainSession{
		feed: feed{model: c.Model}, model: c.Model, rule: ruled{rule: c.Rule, whole: true}, pace: pace{fixed: c.Ahead},
		request: SampleRequest{Coupled: c.Coupled && s.Temperature > 0, Sampling: s},
	}
	return session, session.begin(ctx, prompt, progress)
}

// ReadbackTime is the model's.
func (c *SampledChain) ReadbackTime() time.Duration { return readback(c.Model) }

type chainSession struct {
	feed
	model   SamplingDraft
	rule    ruled
	pace    pace
	request SampleRequest
	tree    Tree
	draft   Draft
	drawn   int     // tokens drawn for the last proposal, those beyond its end included
	zeros   []int32 // a chain has one beam a level
}

func (c *chainSession) Propose(ctx context.Context, seq []int32, b Budget) (*Draft, error) {
	c.tree.Reset(seq[len(seq)-1])
	c.draft = Draft{Tree: &c.tree}
	c.drawn = 0
	most := min(b.Levels, b.Nodes-1, c.levels(seq, 1))
	if most < 1 {
		return &c.draft, nil
	}
	pending, err := c.pending(ctx, seq)
	if err != nil {
		return nil, err
	}
	if c.request.Pending, c.request.Count = pending, most; c.rule.rule != nil {
		c.request.Count = c.pace.next(most, 0)
	}
	tokens, err := c.model.DraftSampled(ctx, c.request)
	if err != nil {
		return nil, err
	}
	if err := c.consumed(seq); err != nil {
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
		more := c.pace.next(most, want)
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

// proposeVerify is Propose and the target's VerifyChain or VerifyDivergence in one run, where no rule may end the chain; without a draft it
// has done nothing.
func (c *chainSession) proposeVerify(ctx context.Context, seq []int32, b Budget, j *together, v *Verdict) (*Draft, error) {
	joins := func(count int) bool {
		if j.adasd != nil {
			return j.gapTarget.JoinsChain(c.model, count)
		}
		return c.request.Sampling.Temperature > 0 && j.chainTarget.JoinsChain(c.model, count)
	}
	c.drawn = 0
	most := min(b.Levels, b.Nodes-1, c.levels(seq, 1))
	if c.rule.rule != nil || most < 1 || !joins(most) {
		return nil, nil
	}
	var err error
	if c.request.Pending, err = c.pending(ctx, seq); err != nil {
		return nil, err
	}
	c.request.Count = most
	var tokens []Drawn
	var verdicts []ChainVerdict
	var out []NodeOutput
	var gaps []Divergence
	if j.adasd != nil {
		tokens, out, gaps, err = j.gapTarget.DraftVerifyDivergence(ctx, c.model, c.request)
	} else {
		tokens, verdicts, err = j.chainTarget.DraftVerifyChain(ctx, c.model, c.request)
	}
	if err != nil {
		return nil, err
	}
	if err := c.consumed(seq); err != nil {
		return nil, err
	}
	if len(tokens) != most {
		return nil, fmt.Errorf("spec: the draft model drew %d of %d tokens", len(tokens), most)
	}
	c.drawn = most
	c.rule.ask(tokens, most, true)
	c.tree.Reset(seq[len(seq)-1])
	for i, t := range c.rule.kept {
		c.tree.Add(int32(i), t.Token, 0)
	}
	c.draft = Draft{Tree: &c.tree, Sampler: c.model, Drawn: c.rule.kept, Drafted: most}
	if j.adasd != nil {
		return &c.draft, j.adasd.judge(&c.tree, out, gaps, v)
	}
	return &c.draft, v.walk(&c.tree, verdicts)
}

// Observe implements Observer.
func (c *chainSession) Observe(e *Event) { c.pace.observe(e) }

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
	return c.commit(c.zeros[:n])
}

// readback is the time a model has waited for the device, where it tells.
func readback(model any) time.Duration {
	if t, ok := model.(ReadbackTimer); ok {
		return t.ReadbackTime()
	}
	return 0
}
