// Package spec decides what Foretoken decodes: token trees, the round loop, verification, sampling, guides,
// recovery and statistics. It also defines the interfaces of models, drafters, verifiers and policies; the packages
// below it hold drafters and adaptive policies. It is pure Go over ints, floats and slices and never sees a tensor:
// models stand behind the interfaces of this file, so that scripted models test every policy without a GPU.
package spec

import (
	"context"
	"time"
)

// Sampling says how a next-token distribution is made of logits and drawn from. The order is: divide by
// Temperature, keep the TopK largest, keep the smallest set of largest probabilities whose sum reaches TopP, keep
// those of at least MinP times the largest, renormalise. Ties at a threshold are all kept.
type Sampling struct {
	Temperature float64 // 0: argmax, the lowest id among equals; the filters are then idle
	TopK        int     // 0: off
	TopP        float64 // 0 or 1: off
	MinP        float64 // 0: off
	Seed        uint64  // keys the noise of every draw together with the position drawn for
}

// Tree is a token tree in topological order. Node 0 is the root: the last committed token, whose successor is being
// drafted. Node i > 0 is a drafted token. All slices have the same length.
type Tree struct {
	Tokens  []int32
	Parents []int32   // Parents[0] is -1; Parents[i] < i
	Depths  []int32   // Depths[0] is 0
	Scores  []float32 // V: the sum of ln q along the path; 0 for the root
}

// NoToken stands for the draw from logits that are not finite. A verifier accepts nothing below a node that has it, and
// a request that would commit it fails.
const NoToken int32 = -1

// NodeOutput is the target's answer after consuming one node of a tree.
type NodeOutput struct {
	Token     int32   // y: the token drawn (or the argmax) for the position after the node; NoToken
	LogSumExp float32 // of the raw logits, natural log
	Entropy   float32 // of softmax(raw logits), nats
	// TopIDs and TopLogits hold the k best raw logits, best first, as many as Limits.TopK; ties go to the lower id.
	// Where Token is NoToken, so are all TopIDs.
	TopIDs    []int32
	TopLogits []float32
	// Threshold is the raw logit from which a token survives the filters; -Inf when
	// there are none, as at temperature 0.
	Threshold float32
}

// Limits are the sizes a model was loaded with.
type Limits struct {
	Context   int // positions the KV cache holds
	MaxRows   int // nodes of one pass, the root included
	Vocab     int // token ids are in [0, Vocab)
	TopK      int // k best returned per node and largest beam
	Spare     int // KV slots beyond Context, for drafted nodes that are not committed
	LogitRows int // nodes of the largest tree after whose pass Target.Logits reads any node
}

// Model is the part that Target and DraftModel have in common: one sequence in a KV cache.
type Model interface {
	Limits() Limits
	// Reset empties the sequence.
	Reset()
	// ReusePrefix starts a request that begins with tokens: it cuts the sequence to the longest common prefix and
	// returns its length. It drops drafted tokens that were not committed. What stays has the bits that prefilling it
	// again would give, so the next turn of a conversation prefills only what is new in it. A model may reuse nothing.
	ReusePrefix(tokens []int32) int
	// Len is the number of committed tokens in the KV cache.
	Len() int
	// Prefill appends tokens to the sequence in chunks and may return before the device has finished.
	Prefill(ctx context.Context, tokens []int32) error
	// Sync waits until the device has finished all work submitted by this model and by models before it.
	Sync() error
	// ReadbackTime is the total time this model has waited for results from the device.
	ReadbackTime() time.Duration
}

// Target is the model that produces the text. A sequence is a run of committed tokens. The KV cache holds all of them
// but the last, which is the root of the next tree. A verification leaves the KV entries of its tree in free slots, and
// Commit makes those of one path part of the sequence. The drafts of VerifyChain, VerifyDivergence and VerifySampled
// have to run on the target's device, because the distributions they sampled from stay there.
type Target interface {
	Model
	// Verify runs the tree in one pass; node i is at position Len()+Depths[i]. The output of node i holds the draw for
	// position Len()+Depths[i]+1, keyed by (s.Seed, that position) only. The result is valid until the next call.
	Verify(ctx context.Context, tree *Tree, s Sampling) ([]NodeOutput, error)
	// VerifyChain runs the chain (a tree with one child per node) that draft sampled last by DraftSampled with the same
	// s and applies the rejection rule at every node: verdict i is about the child of node i, and the last one holds
	// the bonus draw. Verdicts after the first rejection are meaningless.
	VerifyChain(ctx context.Context, chain *Tree, draft DraftModel, s Sampling) ([]ChainVerdict, error)
	// VerifyDivergence is Verify for the chain that draft sampled last with the same s. It also returns a Divergence
	// for every node but the last.
	VerifyDivergence(ctx context.Context, chain *Tree, draft DraftModel, s Sampling) ([]NodeOutput, []Divergence, error)
	// VerifySampled runs a tree whose children draft sampled without replacement and applies the rule of Sequoia
	// (Chen et al., "Sequoia: Scalable and Robust Speculative Decoding", §3.2) at every node to its children, in the
	// order of the tree. rows[i] numbers the draft's distribution that the children of node i were sampled from; it is
	// -1 for a node without children.
	VerifySampled(ctx context.Context, tree *Tree, rows []int32, draft DraftModel, s Sampling) ([]TreeVerdict, error)
	// Adjust has the next pass, of any kind of verification, change its logits by s, which speaks of the tree verified
	// then. The caller may reuse s once Adjust returns.
	Adjust(s *Adjustment) error
	// Logits sets dst[i] to the logit of tokens[i] after node nodes[i] of the last verified tree, which has at most
	// Limits.LogitRows nodes: shaped, before temperature and filters. It costs a readback of its own.
	Logits(nodes, tokens []int32, dst []float32) error
	// Score empties the sequence, runs tokens and returns ln p of tokens[i+1] after tokens[:i+1], of the raw softmax,
	// for each i: len(tokens)-1 values.
	Score(ctx context.Context, tokens []int32) ([]float32, error)
	// Commit appends the nodes of path (indices into the last verified tree, root first, each the parent of the next)
	// to the sequence and frees the rest.
	Commit(path []int32) error
}

// DraftModel is a small model that drafts trees and chains. Its sequence has a KV cache of its own. Unlike the
// target's, this cache holds every consumed token, the root included.
type DraftModel interface {
	Model
	// DraftTree consumes the pending tokens and grows the levels. Ties go to the lower index. The result is valid until
	// the next call.
	DraftTree(ctx context.Context, r DraftRequest) ([]Level, error)
	// DraftSampled consumes the pending tokens, then samples Count tokens one after the other from the processed
	// distribution and keeps the distributions on the device for VerifyChain. It samples token i+1 after consuming
	// token i; it does not consume the last one. Commit then takes beams of all zeros. The result is valid until the
	// next call.
	DraftSampled(ctx context.Context, r SampleRequest) ([]Drawn, error)
	// DrawMore consumes the last sampled token and samples count more. It returns all tokens of the chain so far.
	DrawMore(ctx context.Context, count int) ([]Drawn, error)
	// Commit appends drafted tokens that were accepted and that the draft has consumed: beams[d] is the index of the
	// accepted beam among the Beams of level d. It drops those of later levels and all others.
	Commit(beams []int32) error
	// Grow runs more passes over the last tree as DraftTree would have: each over the best k of the last level's
	// candidates by V. A policy may so look at a level before it pays for the next one. Like all methods below it
	// returns all levels of the tree so far, and Commit then speaks of the grown tree.
	Grow(ctx context.Context, passes int) ([]Level, error)
	// Expand runs one pass over the last level's candidates that beams names (indices into its Candidates, distinct,
	// at least one and at most Limits.TopK), which become its Beams in that order. Ranking, K and sampling stay those
	// of the DraftTree that began the tree.
	Expand(ctx context.Context, beams []int32) ([]Level, error)
	// SampleTree consumes the pending tokens and samples K children of the root without replacement from
	// softmax(logits/temperature), in the order of sampling (Gumbel top-k with the draft's own noise). Expand goes on
	// in the same way, and the distributions stay on the device for VerifySampled, numbered in the order in which rows
	// were consumed: 0 for the root's, then one for each beam of each Expand. LogQ is ln q of the distribution;
	// candidates of probability zero have -Inf. Depth is the number of Expands to be ready for.
	SampleTree(ctx context.Context, r DraftRequest) ([]Level, error)
	// DraftShaped is DraftTree, or SampleTree where r.Drawn is set, and Expand of r.Beams level by level, in one run.
	// It returns no levels and changes nothing if it would have to compile programs first.
	DraftShaped(ctx context.Context, r *JointRequest) ([]Level, error)
	// DraftPruned runs C2T's classifier between the levels of a tree. It consumes the pending tokens and grows up to
	// Ahead+1 levels; the candidates that stay become the Beams of a level, in their own order. It ends early where
	// none stays. The tree is complete if the last level has no Beams, as level Depth never does; otherwise GrowPruned
	// has to follow before a commit. Like DraftShaped it returns no levels if it would have to compile.
	DraftPruned(ctx context.Context, r PruneRequest) ([]Level, error)
	// GrowPruned completes the tree that DraftPruned began and returns all levels.
	GrowPruned(ctx context.Context) ([]Level, error)
}

// ChainVerdict is the outcome of rejection sampling at one node of a chain.
type ChainVerdict struct {
	Accepted bool  // the node's child was accepted with min(1, p/q)
	Token    int32 // if rejected: sampled from norm((p-q)+); after the last node: sampled from p; NoToken
}

// Divergence compares draft and target at a node of a chain.
type Divergence struct {
	// Distance is √JSD in [0, 1], base 2, between the processed distributions of draft and target for the token after
	// the node; at temperature 0 between the softmaxes at T=1.
	Distance float32
	Possible bool // the target gives the node's child a probability above 0
}

// TreeVerdict is the outcome of sampling without replacement at one node.
type TreeVerdict struct {
	Child int32 // the accepted child, a node of the tree; -1: none
	Token int32 // if no child is accepted: sampled from what is left of p; NoToken
}

// Candidate is a token proposed by one beam.
type Candidate struct {
	Token int32
	LogQ  float32 // ln q of the token, of the draft's softmax at T=1 (or of the coupled scores)
	Beam  int32   // index of the proposing beam of the level above; 0 at the first level
}

// Level is one level of a drafted tree: the candidates that the beams of the level above proposed, and which of them
// became beams.
type Level struct {
	Candidates []Candidate // grouped by beam, best first within a beam
	Beams      []int32     // indices into Candidates of the best k by V, best first; empty at the last level
	Entropies  []float32   // per proposing beam: the entropy in nats of its complete distribution
	// Accepts holds, per proposing beam, an acceptance head's estimate of the chance that the beam itself is accepted
	// if its parent is; 1 for the root. It is nil without a head. A head reads the hidden state after a token was
	// consumed, so only consumed tokens have an estimate.
	Accepts []float32
}

// Drawn is a token sampled by DraftSampled, and its distribution.
type Drawn struct {
	Token int32
	Prob  float32 // q of the token, of the processed distribution; at temperature 0 of the softmax at T=1
	// Entropy is that of the processed distribution in nats; at temperature 0 of the softmax at T=1.
	Entropy float32
	// Accept is an acceptance head's estimate for the token; NaN without a head or before the draft has consumed it.
	Accept float32
}

// DraftRequest asks a DraftModel for the levels of an EAGLE-2 tree.
type DraftRequest struct {
	// Pending are the committed tokens that the draft has not consumed, oldest first; the last is the root. There is at
	// least one. The call commits them to the draft's sequence.
	Pending []int32
	Depth   int // passes after the root's: Depth+1 levels come back; 0 gives the root's candidates only
	K       int // candidates per beam and beams per level
	// Coupled ranks by ln q + G with the target's own noise instead of ln q, so that draft and target tend to draw the
	// same token (temperature above 0).
	Coupled  bool
	Sampling Sampling
}

// SampleRequest asks a DraftModel for a chain.
type SampleRequest struct {
	Pending []int32 // as in DraftRequest
	Count   int     // tokens to sample, at least one
	// Coupled samples with the target's own noise. Otherwise the noise, also keyed by (seed, position), is independent
	// of the target's draws, which rejection sampling requires.
	Coupled  bool
	Sampling Sampling
}

// PruneRequest asks a DraftModel for a tree pruned by C2T's classifier.
type PruneRequest struct {
	DraftRequest
	Classifier *C2TClassifier
	Beta       float64 // the confidence that a candidate has to exceed, in the open interval (0, 1)
	Nodes      int     // nodes of the tree at most, the root included
	Ahead      int     // passes after the root's that DraftPruned runs, 0 to Depth; the tree does not depend on it
}
