// Package spec decides what Foretoken decodes: token trees, the round loop, verification, sampling, constraints,
// recovery and statistics. It also defines the interfaces of models, drafters, verifiers and policies; the packages
// below it hold drafters and adaptive policies. It is pure Go over ints, floats and slices and never sees a tensor:
// models stand behind the interfaces of this file, so that scripted models test every policy without a GPU.
package spec

import (
	"context"
	"time"
)

// Sampling says how a next-token distribution is made of logits and drawn from. The order is: divide by Temperature,
// keep the TopK largest, keep the smallest set of largest probabilities whose sum reaches TopP, keep what has at least
// MinP times the largest, renormalise. Ties at a threshold are all kept.
type Sampling struct {
	Temperature float64 `json:"temperature"`    // 0: argmax, the lowest id among equals; the filters are then idle
	TopK        int     `json:"top_k_sampling"` // 0: off
	TopP        float64 `json:"top_p"`          // 0 or 1: off
	MinP        float64 `json:"min_p"`          // 0: off
	Seed        uint64  `json:"seed"`           // keys the noise of every draw together with the position drawn for
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

// Limits holds the sizes that a model was loaded with.
type Limits struct {
	Context   int // positions the KV cache holds
	MaxRows   int // nodes of one pass, the root included
	Vocab     int // token ids are in [0, Vocab)
	TopK      int // k best returned per node and largest beam
	Spare     int // KV slots beyond Context, for drafted nodes that are not committed
	LogitRows int // nodes of the largest tree after whose pass Target.Logits reads any node
	// Joint says that Target.Verify may draft in the same run. A target without it is given trees only.
	Joint bool
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
// Commit makes the entries of one path part of the sequence.
type Target interface {
	Model
	// Verify runs the request's tree in one pass; node i is at position Len()+Depths[i]. Without a tree it has the
	// request's model draft one and verifies it in the same run: the result equals drafting and then verifying. If the
	// target cannot do so, or would have to compile programs first, it returns nil and changes nothing. The result is
	// valid until the next call on a model of the request.
	Verify(ctx context.Context, r PassRequest) (*Pass, error)
	// Adjust has the next pass, of any kind, change its logits by a, which speaks of the tree verified then. The caller
	// may reuse a once Adjust returns.
	Adjust(a *Adjustment) error
	// Logits sets dst[i] to the logit of tokens[i] after node nodes[i] of the last verified tree, which has at most
	// Limits.LogitRows nodes: adjusted, before temperature and filters. It costs a further readback.
	Logits(nodes, tokens []int32, dst []float32) error
	// Score empties the sequence, runs tokens and returns ln p of tokens[i+1] after tokens[:i+1], of the raw softmax,
	// for each i: len(tokens)-1 values.
	Score(ctx context.Context, tokens []int32) ([]float32, error)
	// Commit appends the nodes of path (indices into the last verified tree, root first, each the parent of the next)
	// to the sequence and frees the rest.
	Commit(path []int32) error
	// Prepare compiles what the passes of a request need, so that no round waits for it.
	Prepare(p Programs) error
}

// DraftModel is a small model that drafts trees and chains. Unlike the target's, its KV cache holds every consumed
// token, the root included. All results are valid until the next call.
type DraftModel interface {
	Model
	// Draft consumes the pending tokens and grows the levels of a tree. Ties go to the lower index. It returns no
	// levels and changes nothing if the model cannot run the request's Classifier.
	Draft(ctx context.Context, r DraftRequest) ([]Level, error)
	// Extend grows the last tree and returns all of its levels. Commit then speaks of the grown tree. A policy may so
	// look at a level before it pays for the next one.
	Extend(ctx context.Context, e Extension) ([]Level, error)
	// Sample samples a chain, or more tokens of the last one, and returns all tokens of the chain so far. It samples
	// token i+1 after consuming token i and does not consume the last one. The distributions stay on the device for the
	// target's pass. Commit then takes beams of all zeros.
	Sample(ctx context.Context, r SampleRequest) ([]Drawn, error)
	// Commit appends drafted tokens that were accepted and that the draft has consumed: beams[d] is the index of the
	// accepted beam among the Beams of level d. It drops the beams of later levels and all others.
	Commit(beams []int32) error
	// Prepare compiles what the drafts of a request need, so that no round waits for it.
	Prepare(p Programs) error
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

// Drawn is a token of a sampled chain, and its distribution.
type Drawn struct {
	Token int32
	Prob  float32 // q of the token, of the processed distribution; at temperature 0 of the softmax at T=1
	// Entropy of the processed distribution in nats; at temperature 0 of the softmax at T=1.
	Entropy float32
	// Accept is an acceptance head's estimate for the token; NaN without a head or before the draft has consumed it.
	Accept float32
}
