package spec

import (
	"context"
	"time"
)

// MaxPending limits the pending tokens that a DraftModel takes in one request. A draft that lags further behind is
// prefilled first.
const MaxPending = 8

// The largest draft of a round; a model's Limits are mostly narrower.
const (
	MaxDepth = 64
	MaxTopK  = 64
	MaxNodes = 4096
)

// Budget limits the draft of one round.
type Budget struct {
	Levels int // levels of tokens, so the greatest depth of a node; 0: decode plainly
	Width  int // k: candidates per beam and beams per level; 1 for chains
	Nodes  int // N: nodes the target verifies, the root included
}

// ChainBudget returns the budget of a chain of some tokens.
func ChainBudget(tokens int) Budget { return Budget{Levels: tokens, Width: 1, Nodes: tokens + 1} }

// drafts reports whether the budget allows any draft.
func (b Budget) drafts() bool { return b.Levels > 0 && b.Nodes > 1 }

// Draft is a proposal. It is valid until the session's next call.
type Draft struct {
	Tree *Tree // at least the root
	// Levels are those that the tree was built from, if the drafter works by levels.
	Levels []Level
	// Sampler sampled the tree from its own distribution: a chain, or, with Rows, children without replacement. It
	// is nil for every tree whose tokens were chosen in another way. Rows numbers, per node, the distribution that
	// its children were sampled from; -1 for a node without children.
	Sampler DraftModel
	Rows    []int32
	// Drawn describes node i+1 of a chain that was drafted token by token: one that was sampled or that a rule
	// could end.
	Drawn []Drawn
	// Drafted counts the tokens drafted for such a chain, or the levels of a tree that ended early, including those
	// beyond the end.
	Drafted int
	Bin     int     // the entropy bin that the round fell in, from 1; 0 where there are no bins
	Phi     float64 // Φ of the round's meta-path in nats, where there is a bin
	Pass    *Pass   // the target's answer, if the run that drafted the tree also verified it
}

// Drafter proposes continuations for the target to verify. It belongs to a
// pair of models; what belongs to a request lives in a DraftSession.
type Drafter interface {
	// Begin starts a request, prefilling the draft model with all of the prompt but its last token.
	Begin(ctx context.Context, o SessionOptions) (DraftSession, error)
}

// SessionOptions are a draft session's.
type SessionOptions struct {
	Prompt   []int32
	Sampling Sampling
	Pass     PassKind // the pass that verifies the drafts
	// Fed is the time that the target took for each token of the prompt that it did not hold; 0: it held all.
	Fed time.Duration
	// Target may verify a draft in the run that drafts it; nil: it cannot, or a constraint has to see the tree before.
	Target Target
}

// DraftSession drafts for one request.
type DraftSession interface {
	// Propose drafts what may follow the last token of seq, which holds all
	// committed tokens. The tree keeps within the budget. seq grows from
	// call to call, by more than one token when rounds passed without a proposal.
	Propose(ctx context.Context, seq []int32, b Budget) (*Draft, error)
	// Commit says which nodes of the last proposal joined the target's sequence. path, root first, holds all of
	// them but the last committed token, as in Target.Commit. It follows every Propose whose round was committed.
	Commit(path []int32) error
	// Observe shows every round since Begin after it was counted. The event is valid during the call.
	Observe(e *Event)
}

// Learner is implemented by verifiers and policies that learn from rounds. A part that is both learns once.
type Learner interface {
	// Start begins a request.
	Start()
	// Observe shows every round that could draft, as DraftSession.Observe does.
	Observe(e *Event)
}

// None never drafts: plain decoding. It is its own session.
type None struct{}

var (
	_ Drafter      = None{}
	_ DraftSession = None{}
)

// Begin does nothing.
func (None) Begin(context.Context, SessionOptions) (DraftSession, error) { return None{}, nil }

// Propose proposes the root alone.
func (None) Propose(_ context.Context, seq []int32, _ Budget) (*Draft, error) {
	var t Tree
	t.Reset(seq[len(seq)-1])
	return &Draft{Tree: &t}, nil
}

// Commit does nothing.
func (None) Commit([]int32) error { return nil }

// Observe does nothing.
func (None) Observe(*Event) {}
