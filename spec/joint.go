package spec

import "context"

// A round that drafts and then verifies waits for the device twice: once for the draft and once for the target's
// answer. Some drafts do not depend on anything the host learns on the way. Then the target's pass follows in the
// same run: the device builds the tree and one readback returns everything. Tree, verdict, statistics and event
// stay the same.

// JointTarget is a Target that can verify a draft in the run that drafts it.
type JointTarget interface {
	Target
	// DraftVerify drafts with draft, as r says, and verifies the result. It returns nil and changes nothing if it
	// cannot, or would have to compile programs first. The result is valid until the next call on either model.
	DraftVerify(ctx context.Context, draft DraftModel, r *JointRequest) (*JointResult, error)
}

// JointRequest asks for a draft and its verification. PassChain and PassDivergence take a chain as DraftSampled samples
// it, all others a tree as DraftTree grows it.
type JointRequest struct {
	DraftRequest
	Pass  PassKind
	Count int // tokens of a chain
	Nodes int // nodes of the tree at most, the root included
	// Drawn has children sampled without replacement, as SampleTree does; only of trees of a fixed shape.
	Drawn bool
	// Beams and Chosen describe a tree of a fixed shape; they are nil if the best candidates are taken. Beams
	// holds, for each level but the last, the candidates that become beams. Chosen holds the candidate of each node
	// but the root, parents first, numbered as Builder.Candidate does if every level has K beams.
	Beams  [][]int32
	Chosen []int32
	// Rows and Children also describe a tree of a fixed shape. They hold per node, the root included, the number of the
	// distribution that its children are sampled from, as Draft.Rows does, and the number of its children. Siblings
	// follow each other, in the order of their parents.
	Rows, Children []int32
	// Build makes the tree of the levels, as Builder.Build does with Nodes. The device builds the same tree by the same
	// rule; if the trees differ, the target verifies that of Build.
	Build func(levels []Level) (*Tree, error)
}

// JointResult holds the draft of a joint run and the target's pass over it.
type JointResult struct {
	Tree   *Tree // of a tree
	Levels []Level
	Drawn  []Drawn // of a chain
	// Pass holds no verdicts for PassSampled if the draft had no token for a place of the shape: Tree then still needs
	// VerifySampled.
	Pass Pass
}
