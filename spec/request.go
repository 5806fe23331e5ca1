package spec

// DraftRequest asks a DraftModel for the levels of a tree. Each beam proposes its K best tokens, and the K best
// candidates of a level by V become its beams, as EAGLE-2 has it, unless one of the rules below is set.
type DraftRequest struct {
	// Pending are the committed tokens that the draft has not consumed, oldest first; the last is the root. There is at
	// least one. The call commits them to the draft's sequence.
	Pending []int32
	Depth   int // passes after the root's: Depth+1 levels come back; 0 gives the root's candidates only
	K       int // candidates per beam and beams per level
	Nodes   int // nodes of the tree that is made of the levels, the root included; 0 where none is
	// Coupled ranks by ln q + G with the target's own noise instead of ln q, so that draft and target tend to draw the
	// same token (temperature above 0).
	Coupled  bool
	Sampling Sampling
	// EntropyTop, if not 0, has the levels' Entropies be of the EntropyTop likeliest tokens alone, renormalised. The
	// model prunes no such tree: Classifier is nil.
	EntropyTop int

	// Drawn has the K children of a beam sampled without replacement from softmax(logits/temperature), in the order of
	// sampling (Gumbel top-k with the draft's own noise). It needs Depth 0 or a Layout. The distributions stay on the
	// device for the target's pass, numbered in the order in which rows were consumed: 0 for the root's, then one for
	// each beam of each level. LogQ is ln q of the distribution; candidates of probability zero have -Inf.
	Drawn  bool
	Layout *Layout // of trees of a fixed shape; nil: the levels say which candidates are beams and nodes
	// Classifier chooses the beams of each level in place of their V, if not nil: of the candidates to which it gives
	// more than Beta, in (0, 1), the K likeliest, in their own order, as long as the tree has at most Nodes of them.
	// The first call runs Ahead passes after the root's, 0 to Depth; the tree does not depend on it. The tree is
	// complete if the last level has no Beams, as level Depth never does; otherwise an Extension has to follow before a
	// commit.
	Classifier *NodeClassifier
	Beta       float64
	Ahead      int
}

// Root returns the tree's root.
func (r *DraftRequest) Root() int32 { return r.Pending[len(r.Pending)-1] }

// Layout describes trees of a fixed shape by places for their nodes. A draft may have no token for a place: it stays
// empty with all below it.
type Layout struct {
	// Beams holds, for each level but the last, the candidates that become its beams, at most K.
	Beams [][]int32
	// Chosen holds the candidate for each place but the root, parents first, numbered as Builder.Candidate does if
	// every level has K beams.
	Chosen []int32
	// Rows and Children hold per place, the root included, the number of the distribution that its children are
	// sampled from, -1 without children, and the number of its children. Siblings follow each other, in the order of
	// their parents.
	Rows, Children []int32
}

// Extension says how to grow the last tree: by one pass over Beams (indices into the Candidates of the last level,
// distinct, at most Limits.TopK), which become its Beams in that order, or else by Passes, each over the best K of the
// last level's candidates by V. Ranking, K and sampling stay as in the DraftRequest. A tree that a classifier prunes is
// grown to its end, with neither.
type Extension struct {
	Beams  []int32
	Passes int
}

// SampleRequest asks a DraftModel for a chain of tokens sampled one after the other from the processed distribution.
type SampleRequest struct {
	Pending []int32 // as in DraftRequest; empty: sample more tokens of the last chain, as its request says
	Count   int     // tokens to sample, at least one
	// Coupled samples with the target's own noise. Otherwise the noise, also keyed by (seed, position), is independent
	// of the target's draws, which rejection sampling requires.
	Coupled  bool
	Sampling Sampling
}

// PassKind names a way to verify.
type PassKind int

// The kinds of pass. Those that compare with a draft need the draft on the target's device, because the distributions
// that it sampled from stay there.
const (
	// PassOutputs gives an output for each node, with the draw for position Len()+Depths[i]+1, keyed by (Sampling.Seed,
	// that position) only.
	PassOutputs PassKind = iota
	// PassChain applies the rejection rule at every node of the chain (a tree with one child per node) that Model
	// sampled last with the same Sampling: verdict i is about the child of node i, and the last one holds the bonus
	// draw. Verdicts after the first rejection are meaningless.
	PassChain
	// PassDivergence is PassOutputs for the chain that Model sampled last with the same Sampling. It also gives a
	// Divergence for every node but the last.
	PassDivergence
	// PassSampled applies the rule of Sequoia (Chen et al., "Sequoia: Scalable and Robust Speculative Decoding", §3.2)
	// at every node of a tree whose children Model sampled without replacement, in the order of the tree.
	PassSampled
)

// PassRequest asks a Target for a pass over a tree. A round that drafts and then verifies waits for the device twice:
// once for the draft and once for the target's answer. Some drafts do not depend on anything that the host learns on
// the way. Then the target's pass follows in the same run: the device builds the tree, and one readback returns
// everything.
type PassRequest struct {
	Kind     PassKind
	Sampling Sampling
	Tree     *Tree      // nil: Model drafts one in the same run
	Model    DraftModel // drafts in the same run, or sampled the tree; PassOutputs over a Tree does not need it
	// Rows numbers, for PassSampled over a Tree, the distribution that the children of each node were sampled from; -1
	// for a node without children.
	Rows []int32
	// Where Tree is nil, Chain asks for a chain, and otherwise Draft for the levels of which Builder makes a tree. The
	// device builds the same tree by the same rule; if the trees differ, the target verifies Builder's.
	Chain   *SampleRequest
	Draft   *DraftRequest
	Builder *Builder
}

// Pass is the target's answer to a PassRequest. Its kind says which fields are set.
type Pass struct {
	Outputs     []NodeOutput   // of PassOutputs and PassDivergence
	Divergences []Divergence   // of PassDivergence
	Chain       []ChainVerdict // of PassChain
	Children    []TreeVerdict  // of PassSampled

	// What was drafted in the same run: the tokens of a chain, or the levels of a tree.
	Drawn  []Drawn
	Tree   *Tree
	Levels []Level
}
