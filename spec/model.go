// Package spec is the decoding brain of Foretoken: token trees, drafters,
// verifiers, sampling, the round loop and its statistics. It is pure Go over
// ints, floats and slices and never sees a tensor: models stand behind the two
// interfaces of this file, so that every policy is tested to the bottom with
// scripted models and without a GPU.
package spec

import "context"

// Sampling says how a next-token distribution is made of logits and drawn from.
// The order is: divide by Temperature, keep the TopK largest, keep the smallest
// set of largest probabilities whose sum reaches TopP, keep those of at least
// MinP times the largest, renormalise. Ties at a threshold are all kept.
type Sampling struct {
	Temperature float64 // 0: argmax, the lowest id among equals; the filters are then idle
	TopK        int     // 0: off
	TopP        float64 // 0 or 1: off
	MinP        float64 // 0: off
	Seed        uint64  // keys the noise of every draw together with the position drawn for
}

// Tree is a token tree in topological order. Node 0 is the root: the last
// committed token, whose successor is being drafted. Node i > 0 is a drafted
// token. All slices have the same length.
type Tree struct {
	Tokens  []int32
	Parents []int32   // Parents[0] is -1; Parents[i] < i
	Depths  []int32   // Depths[0] is 0
	Scores  []float32 // V: the sum of ln q along the path; 0 for the root
}

// NodeOutput is what the target says after consuming one node of a tree.
type NodeOutput struct {
	Token     int32   // y: the token drawn (or the argmax) for the position after the node
	LogSumExp float32 // of the raw logits, natural log
	Entropy   float32 // of softmax(raw logits), nats
	// TopIDs and TopLogits hold the k best raw logits, best first, as many as
	// Limits.TopK; ties go to the lower id.
	TopIDs    []int32
	TopLogits []float32
	// Threshold is the raw logit from which a token survives the filters; -Inf when
	// there are none, as at temperature 0.
	Threshold float32
}

// ChainVerdict is the outcome of rejection sampling at one node of a chain.
type ChainVerdict struct {
	Accepted bool  // the node's child was accepted with min(1, p/q)
	Token    int32 // when rejected: drawn from norm((p-q)+); after the last node: drawn from p
}

// Limits are a model's.
type Limits struct {
	Context int // positions the KV cache holds
	MaxRows int // nodes of one pass, the root included
	Vocab   int // token ids are in [0, Vocab)
	TopK    int // k best returned per node and largest beam
	Spare   int // KV slots beside Context's, for nodes that are drafted and not committed
}

// Target is the model whose text is produced. A sequence is a run of committed
// tokens. The KV cache holds the committed tokens but the last: that one is
// the root of the next tree. Verify leaves the KV entries of a tree in free
// slots and Commit makes those of one path part of the sequence.
type Target interface {
	Limits() Limits
	// Reset empties the sequence.
	Reset()
	// Len is how many tokens are in the KV cache as committed.
	Len() int
	// Prefill appends tokens to the sequence in chunks. progress, when not nil,
	// is called with how many are done.
	Prefill(ctx context.Context, tokens []int32, progress func(done int)) error
	// Verify runs the tree in one pass; node i is at position Len()+Depths[i].
	// The output of node i holds the draw for position Len()+Depths[i]+1, keyed by
	// (s.Seed, that position) only. The result is valid until the next call.
	Verify(ctx context.Context, tree *Tree, s Sampling) ([]NodeOutput, error)
	// Commit appends the nodes of path (indices into the last verified tree,
	// root first, each the parent of the next) to the sequence and frees the rest.
	Commit(path []int32) error
}

// RejectionTarget is a Target that also does chain rejection sampling on
// distributions that stay on the device.
type RejectionTarget interface {
	Target
	// VerifyChain runs the chain (a tree with one child per node) that draft
	// sampled last by DraftSampled with the same s, and applies the
	// rejection rule at every node: verdict i is about the child of node i, the last
	// one holds the bonus draw. Nodes after the first rejection are meaningless.
	VerifyChain(ctx context.Context, chain *Tree, draft SamplingDraft, s Sampling) ([]ChainVerdict, error)
}

// Candidate is a token proposed by one beam.
type Candidate struct {
	Token int32
	LogQ  float32 // ln q of the token, of the draft's softmax at T=1 (or of the coupled scores)
	Beam  int32   // index of the proposing beam of the level above; 0 at the first level
}

// Level is one level of a drafted tree: what the beams of the level above
// proposed, and which of those became beams themselves.
type Level struct {
	Candidates []Candidate // grouped by beam, best first within a beam
	Beams      []int32     // indices into Candidates of the best k by V, best first; empty at the last level
	Entropies  []float32   // per proposing beam: the entropy in nats of its whole distribution
	// Accepts holds, per proposing beam, an acceptance head's estimate of the chance
	// that the beam itself is accepted when its parent is; 1 for the root. Nil
	// without a head: a head reads the hidden state after a token was
	// consumed, so only tokens that were fed to the draft have an estimate.
	Accepts []float32
}

// DraftRequest asks a DraftModel for the levels of an EAGLE-2 tree.
type DraftRequest struct {
	// Pending are the committed tokens that the draft has not consumed, oldest
	// first; the last is the root. There is at least one. They are committed
	// to the draft's sequence by the call.
	Pending []int32
	Depth   int // passes after the root's: Depth+1 levels come back; 0 gives the root's candidates only
	K       int // candidates per beam and beams per level
	// Coupled ranks by ln q + G with the target's own noise instead of ln q, so
	// that draft and target tend to draw the same token (temperature above 0).
	Coupled  bool
	Sampling Sampling
}

// DraftModel is a small model that grows token trees. Its sequence is, as the
// target's, in its own KV cache; unlike the target's it holds every token it
// was fed, the root included.
type DraftModel interface {
	Limits() Limits
	Reset()
	Len() int // committed tokens in the KV cache
	Prefill(ctx context.Context, tokens []int32, progress func(done int)) error
	// DraftTree feeds the pending tokens and grows the levels. Ties go to the lower
	// index. The result is valid until the next call.
	DraftTree(ctx context.Context, r DraftRequest) ([]Level, error)
	// Commit appends drafted tokens that were accepted and that the draft has
	// consumed: beams[d] is the index of the accepted beam among the Beams of
	// level d. Those of later levels, and all others, are dropped.
	Commit(beams []int32) error
}

// Grower is a DraftModel whose last tree can be grown further, so that a policy may
// look at a level before it pays for the next one. Both methods return all
// levels of the tree so far, and Commit then speaks of the grown tree. Nothing is
// compiled by them when Prepare was told of the depth, width and way.
type Grower interface {
	DraftModel
	// Grow runs more passes as DraftTree would have: each over the best k of the last
	// level's candidates by V.
	Grow(ctx context.Context, passes int) ([]Level, error)
	// Expand runs one pass over the last level's candidates named by beams (indices into
	// its Candidates, distinct, at least one and at most Limits.TopK), which
	// become its Beams in that order. Ranking, K and sampling stay those of
	// the DraftTree that began the tree.
	Expand(ctx context.Context, beams []int32) ([]Level, error)
}

// Shaper is a Grower that can draft a tree of a fixed shape in one go.
type Shaper interface {
	Grower
	// Shapes tells whether DraftShaped can do a request now without making anything.
	Shapes(r *JointRequest) bool
	// DraftShaped is DraftTree, or SampleTree where r.Drawn is set, and Expand of r.Beams level by level.
	DraftShaped(ctx context.Context, r *JointRequest) ([]Level, error)
}

// Pruner is a Grower that can run C2T's classifier between the levels of a tree, so that they are drafted in one go.
type Pruner interface {
	Grower
	// Prunes tells whether DraftPruned can do a request now without making anything.
	Prunes(r *PruneRequest) bool
	// DraftPruned feeds the pending tokens and grows up to Ahead+1 levels: of each the candidates that stay become its Beams, in their own
	// order. It ends early where none stays. The tree is whole where the last level has no Beams, as level Depth never does; otherwise
	// GrowPruned has to follow before anything is committed.
	DraftPruned(ctx context.Context, r PruneRequest) ([]Level, error)
	// GrowPruned grows the tree that DraftPruned left unfinished to its end, and returns all levels.
	GrowPruned(ctx context.Context) ([]Level, error)
}

// PruneRequest asks a Pruner for a tree.
type PruneRequest struct {
	DraftRequest
	Classifier *C2TClassifier
	Beta       float64 // the confidence that a candidate has to exceed, in the open interval (0, 1)
	Nodes      int     // nodes of the tree at most, the root included
	Ahead      int     // passes after the root's that DraftPruned runs, 0 to Depth; the tree does not depend on it
}

// Drawn is a token that a SamplingDraft drew, and what it was drawn from.
type Drawn struct {
	Token int32
	Prob  float32 // q of the token, of the processed distribution; of the softmax at T=1 at temperature 0
	// Entropy is that of the processed distribution in nats; of the softmax at T=1 at
	// temperature 0.
	Entropy float32
	// Accept is an acceptance head's estimate for the token, NaN without a head or
	// while the draft has not consumed the token.
	Accept float32
}

// SamplingDraft is a DraftModel that can draw a chain for rejection sampling.
type SamplingDraft interface {
	DraftModel
	// DraftSampled feeds the pending tokens, then draws Count tokens one after the other
	// from the processed distribution, and keeps the distributions on the
	// device for VerifyChain. Token i+1 is drawn after token i was consumed; the
	// last one is not consumed. Commit then takes beams of all zeros. The result is
	// valid until the next call.
	DraftSampled(ctx context.Context, r SampleRequest) ([]Drawn, error)
	// DrawMore feeds the last token drawn and draws count more; it returns all tokens
	// of the chain so far.
	DrawMore(ctx context.Context, count int) ([]Drawn, error)
}

// SampleRequest asks a SamplingDraft for a chain.
type SampleRequest struct {
	Pending []int32 // as in DraftRequest
	Count   int     // tokens to draw, at least one
	// Coupled draws with the target's own noise. Otherwise the noise, keyed by (seed,
	// position) too, is independent of the target's draws, as rejection sampling
	// needs it.
	Coupled  bool
	Sampling Sampling
}

// Divergence compares draft and target at a node of a chain.
type Divergence struct {
	// Distance is √JSD in [0, 1], base 2, between the processed distributions of
	// draft and target for the token after the node; of the softmaxes at T=1
	// at temperature 0.
	Distance float32
	Possible bool // the target gives the node's child a probability above 0
}

// DivergenceTarget is a Target that also measures how far its distributions are
// from those of the draft, on the device.
type DivergenceTarget interface {
	Target
	// VerifyDivergence is Verify for the chain that draft sampled last with the same s,
	// with a Divergence for every node but the last.
	VerifyDivergence(ctx context.Context, chain *Tree, draft SamplingDraft, s Sampling) ([]NodeOutput, []Divergence, error)
}

// TreeSampler is a Grower that draws children without replacement.
type TreeSampler interface {
	Grower
	// SampleTree feeds the pending tokens and draws K children of the root without
	// replacement from softmax(logits/temperature), in order of drawing (Gumbel
	// top-k with the draft's own noise); Expand goes on from there in the same
	// way, and the distributions stay on the device for VerifySampled. They are
	// numbered in the order in which rows were fed: 0 for the root's, then one
	// for each beam of each Expand. LogQ is ln q of the distribution; candidates of
	// probability zero have -Inf. Depth is the number of Expands to be ready for.
	SampleTree(ctx context.Context, r DraftRequest) ([]Level, error)
}

// TreeVerdict is the outcome of sampling without replacement at one node.
type TreeVerdict struct {
	Child int32 // the child accepted, a node of the tree; -1: none
	Token int32 // with no child accepted: drawn from what is left of p
}

// SampledTreeTarget is a Target that verifies trees whose children were drawn
// without replacement (Chen et al., "Sequoia: Scalable and Robust Speculative
// Decoding", §3.2).
type SampledTreeTarget interface {
	Target
	// VerifySampled runs the tree and applies the rule at every node to its children in
	// the order of the tree. rows[i] is the number of the draft's distribution that the
	// children of node i were drawn from, -1 for a node without children.
	VerifySampled(ctx context.Context, tree *Tree, rows []int32, draft TreeSampler, s Sampling) ([]TreeVerdict, error)
}

// ScoringTarget is a Target that can say how likely a text is.
type ScoringTarget interface {
	Target
	// Score empties the sequence, runs tokens and returns ln p of tokens[i+1] after
	// tokens[:i+1], of the raw softmax, for each i; len(tokens)-1 values.
	Score(ctx context.Context, tokens []int32) ([]float32, error)
}
