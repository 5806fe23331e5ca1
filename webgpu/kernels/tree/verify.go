package tree

import (
	"slices"

	"foretoken/webgpu"
	"foretoken/webgpu/kernels"
)

const (
	// VerdictWords is the length in words of a row's verdict in Verification.Out.
	VerdictWords = 2
	// NoChild is the first word of a verdict that accepts no child.
	NoChild = ^uint32(0)
	// NodeWords is the length in words of a row in ChildLists.Nodes.
	NodeWords = 4
)

// ChildLists holds the children of each row for RecordVerify.
type ChildLists struct {
	// Nodes is (rows, NodeWords): row of the draft's logits, first word in Children, number of children, position that
	// the row draws for.
	Nodes    []uint32
	Children []uint32 // for each row: the tokens of its children in the order of drawing, then the same ascending

	awaited int // words of Children that RecordSiblings will fill in
}

// Reset empties the lists.
func (p *ChildLists) Reset() { p.Nodes, p.Children, p.awaited = p.Nodes[:0], p.Children[:0], 0 }

// Await appends a row like Add, when only the number of its children is known: RecordSiblings fills in Children on the
// device. Lists must not mix Add and Await.
func (p *ChildLists) Await(position, draftRow uint32, children int) {
	p.node(draftRow, p.awaited, children, position)
	p.awaited += 2 * children
}

func (p *ChildLists) node(draftRow uint32, at, children int, position uint32) {
	if children > maxChildren {
		panic("tree: ChildLists: a node has at most 64 children")
	}
	p.Nodes = append(p.Nodes, draftRow, uint32(at), uint32(children), position)
}

// Add appends a row that draws for a position. Its children were drawn, in this order, from row draftRow of the draft's
// logits, which is ignored without children.
func (p *ChildLists) Add(position, draftRow uint32, children []int32) {
	at := len(p.Children)
	p.node(draftRow, at, len(children), position)
	for _, x := range children {
		p.Children = append(p.Children, uint32(x))
	}
	p.Children = append(p.Children, p.Children[at:]...)
	slices.Sort(p.Children[at+len(children):])
}

// Verification is a tree, or some rows of a tree, whose children were drawn without replacement.
type Verification struct {
	Target       kernels.Logits // row i holds the logits after node i
	Draft        kernels.Logits // the rows that children were drawn from
	TargetRecord kernels.View   // (rows, FilterWords): Filter's output for Target
	Draw         kernels.View   // DrawParams of the target
	Nodes        kernels.View   // ChildLists.Nodes
	Children     kernels.View   // ChildLists.Children
	Out          kernels.View   // (rows, VerdictWords) u32
}

var verify = kernels.RowKernel{Shaders: shaders, Serial: "noise verify_part verify",
	Grouped: "noise first_of totals verify_part verify_group",
	Access: append(kernels.Inputs(2), webgpu.ReadOnly, webgpu.ReadOnly, webgpu.ReadOnly,
		webgpu.ReadWrite),
	Host: kernels.Host{Ref: verifyRef, Entry: "verify"}, Constants: []kernels.Constant{kernels.RecordConst}}

// RecordVerify verifies children drawn without replacement (Chen et al., "Sequoia: Scalable and Robust Speculative
// Decoding", §3.2) at every node of a tree, in one dispatch. p is the target's processed distribution, q the softmax of
// draft logit/temperature without filters. Child j is accepted with probability min(1, p/q); otherwise p becomes
// norm((p-q)+), and q excludes the child and is renormalised. A row's verdict is
//
//	0 the index of the accepted child among its siblings, or NoChild
//	1 the token: the child's, or one drawn from the residual of p, or, without children, Filter's y
//
// The uniform of child j and the Gumbel noise of the last draw come from streams 2 and 3 of package spec at the row's
// position. At temperature 0 the child with the target's argmax is accepted; without such a child the token is the
// argmax.
//
// After j rejections the residual of p is (p - S·q)+ up to a constant. Each rejection adds W/Q to S, where W is the sum
// of the previous residual and Q the mass of all tokens except the children before j. So S and W are the only state
// from child to child. Rejected children need no list: (p - S·q)+ is 0 for them.
//
// Logits, Draw, Nodes and Children must be in other buffers than the record and Out, which may be disjoint ranges of
// one buffer.
func RecordVerify(r *kernels.Recorder, lanes kernels.Lanes, c Verification) {
	if c.Target.Vocab != c.Draft.Vocab {
		panic("tree: RecordVerify: target and draft do not match")
	}
	steps := (maxChildren+3)*((c.Target.Vocab+3)/4) + maxChildren*maxChildren
	verify.Record(r, lanes, steps, c.Target.Rows, c.Target.Params(c.Draft.RowStride(), c.Draft.Rows),
		c.Target.View, c.Draft.View, c.TargetRecord, c.Draw, c.Nodes, c.Children, c.Out)
}

// maxChildren is the maximum number of children of a node.
const maxChildren = kernels.MaxTopK
