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
	f.model.Reset()
	if n := len(prompt) - 1; n > 0 && len(prompt) <= f.model.Limits().Context {
		if err := f.model.Prefill(ctx, prompt[:n], progress); err != nil {
			return err
		}
		f.fed = n
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
)

// Begin implements Drafter.
func (t *TreeDrafter) Begin(ctx context.Context, prompt []int32, s Sampling, progress func(int)) (DraftSession, error) {
	session := &treeSession{feed: feed{model: t.Model}, coupled: s.Temperature > 0 && !t.Uncoupled, sampling: s}
	return session, session.begin(ctx, prompt, progress)
}

// ReadbackTime is the model's.
func (t *TreeDrafter) ReadbackTime() time.Duration { return readback(t.Model) }

type treeSession struct {
	feed
	coupled  bool
	sampling Sampling
	builder  Builder
	lone     Tree
	draft    Draft
	drafted  bool // the last proposal used the model
}

func (t *treeSession) Propose(ctx context.Context, seq []int32, b Budget) (*Draft, error) {
	root := seq[len(seq)-1]
	t.drafted = false
	lim := t.model.Limits()
	width := min(b.Width, lim.TopK, lim.MaxRows)
	depth := min(b.Levels, t.levels(seq, width)) - 1
	if depth < 0 || b.Nodes < 2 {
		t.lone.Reset(root)
		t.draft = Draft{Tree: &t.lone}
		return &t.draft, nil
	}
	pending, err := t.pending(ctx, seq)
	if err != nil {
		return nil, err
	}
	levels, err := t.model.DraftTree(ctx, DraftRequest{Pending: pending, Depth: depth, K: width, Coupled: t.coupled, Sampling: t.sampling})
	if err != nil {
		return nil, err
	}
	if err := t.consumed(seq); err != nil {
		return nil, err
	}
	tree, err := t.builder.Build(root, levels, b.Nodes)
	if err != nil {
		return nil, err
	}
	t.drafted = true
	t.draft = Draft{Tree: tree, Levels: levels}
	return &t.draft, nil
}

func (t *treeSession) Commit(path []int32) error {
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
}

var (
	_ Drafter       = (*SampledChain)(nil)
	_ ReadbackTimer = (*SampledChain)(nil)
)

// Begin implements Drafter.
func (c *SampledChain) Begin(ctx context.Context, prompt []int32, s Sampling, progress func(int)) (DraftSession, error) {
	session := &chainSession{feed: feed{model: c.Model}, model: c.Model, sampling: s}
	return session, session.begin(ctx, prompt, progress)
}

// ReadbackTime is the model's.
func (c *SampledChain) ReadbackTime() time.Duration { return readback(c.Model) }

type chainSession struct {
	feed
	model    SamplingDraft
	sampling Sampling
	tree     Tree
	draft    Draft
	drawn    int     // tokens of the last proposal
	zeros    []int32 // a chain has one beam a level
}

func (c *chainSession) Propose(ctx context.Context, seq []int32, b Budget) (*Draft, error) {
	c.tree.Reset(seq[len(seq)-1])
	c.draft = Draft{Tree: &c.tree}
	c.drawn = max(min(b.Levels, b.Nodes-1, c.levels(seq, 1)), 0)
	if c.drawn == 0 {
		return &c.draft, nil
	}
	pending, err := c.pending(ctx, seq)
	if err != nil {
		return nil, err
	}
	tokens, err := c.model.DraftSampled(ctx, pending, c.drawn, c.sampling)
	if err != nil {
		return nil, err
	}
	if len(tokens) != c.drawn {
		return nil, fmt.Errorf("spec: the draft model drew %d of %d tokens", len(tokens), c.drawn)
	}
	if err := c.consumed(seq); err != nil {
		return nil, err
	}
	for i, token := range tokens {
		c.tree.Add(int32(i), token, 0)
	}
	c.draft.Sampler = c.model
	return &c.draft, nil
}

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
