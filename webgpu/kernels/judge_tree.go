package kernels

import (
	"slices"

	"foretoken/webgpu"
)

const (
	// TreeVerdictWords is the length in words of a row's verdict in JudgeTree's output.
	TreeVerdictWords = 2
	// NoChild is the first word of the verdict where no child was accepted.
	NoChild = ^uint32(0)
	// TreePlanWords is the length in words of a row's part of a TreePlan's Nodes.
	TreePlanWords = 4
)

// TreePlan tells JudgeTree of each row's children.
type TreePlan struct {
	Nodes    []uint32 // (rows, TreePlanWords): row of the draft's logits, first word of Children, count, position drawn for
	Children []uint32 // per row with children: their tokens in order of drawing, then the same ascending

	awaited int // words of Children that Siblings is to fill in
}

// Reset empties the plan.
func (p *TreePlan) Reset() { p.Nodes, p.Children, p.awaited = p.Nodes[:0], p.Children[:0], 0 }

// Await is Add where only the number of children is known yet. Siblings fills in Children on the device; a plan has rows of
// one kind.
func (p *TreePlan) Await(position, draftRow uint32, children int) {
	if children > maxJudged {
		panic("kernels: TreePlan: a node has at most 64 children")
	}
	p.Nodes = append(p.Nodes, draftRow, u32(p.awaited), u32(children), position)
	p.awaited += 2 * children
}

// Add appends a row that draws for a position and whose children were drawn, in this order, from a
// row of the draft's logits, which is idle without children.
func (p *TreePlan) Add(position, draftRow uint32, children []int32) {
	if len(children) > maxJudged {
		panic("kernels: TreePlan: a node has at most 64 children")
	}
	at := len(p.Children)
	p.Nodes = append(p.Nodes, draftRow, u32(at), u32(len(children)), position)
	for _, x := range children {
		p.Children = append(p.Children, uint32(x))
	}
	p.Children = append(p.Children, p.Children[at:]...)
	slices.Sort(p.Children[at+len(children):])
}

// TreeJudgement is a tree, or some rows of one, whose children were drawn without replacement.
type TreeJudgement struct {
	Target       Logits // row i is what follows node i
	Draft        Logits // the rows that children were drawn from
	TargetRecord View   // (rows, FilterWords): Filter's output for Target
	Draw         View   // DrawParams of the target
	Nodes        View   // TreePlan.Nodes
	Children     View   // TreePlan.Children
	Out          View   // (rows, TreeVerdictWords) u32
}

var judgeTreeAccess = []webgpu.Access{webgpu.Constants, webgpu.ReadOnly, webgpu.ReadOnly, webgpu.ReadWrite,
	webgpu.ReadOnly, webgpu.ReadOnly, webgpu.ReadOnly, webgpu.ReadWrite}

// JudgeTree applies sampling without replacement (Chen et al., "Sequoia: Scalable and Robust
// Speculative Decoding", §3.2) at every node of a tree, in one dispatch. p is the
// target's processed distribution, q the softmax of draft logit/temperature without filters. Child j
// is accepted with probability min(1, p/q); else p becomes norm((p-q)+), and q loses the child and is
// renormalised. A row's verdict is
//
//	0 the accepted child's place among its siblings, NoChild for none
//	1 the token: the child's, or one drawn from what is left of p, or without children Filter's y
//
// The uniform of child j and the last draw's Gumbel noise have the streams 2 and 3 of package
// spec and the row's position. At temperature 0 the child that is the target's argmax
// is accepted, and the argmax is the token otherwise.
//
// After j rejections what is left of p is (p - S·q)+ up to a constant, where S grows by
// W/Q at each: W is the sum of what was left before, and Q the mass of the children from j on
// and of all that are none. So nothing but S and W is kept from child to child, and the
// children judged and gone need no list: (p - S·q)+ is 0 for them.
//
// Logits, Draw, Nodes and Children must be in other buffers than the record and Out, which may
// share one (at ranges of their own).
func (r *Recorder) JudgeTree(lanes Lanes, c TreeJudgement) {
	if c.Target.Vocab != c.Draft.Vocab {
		panic("kernels: JudgeTree: target and draft do not match")
	}
	params := []uint32{u32(c.Target.Rows), u32(c.Target.Vocab), u32(c.Target.stride()), u32(c.Draft.stride()), u32(c.Draft.Rows)}
	views := []View{c.Target.View, c.Draft.View, c.TargetRecord, c.Draw, c.Nodes, c.Children, c.Out}
	if lanes == Serial && (maxJudged+3)*((c.Target.Vocab+3)/4)+maxJudged*maxJudged <= maxSteps {
		r.add(source("noise judge_tree_part judge_tree", judgeTreeAccess, judgeTreeRef, recordWords), r.groupsFor(c.Target.Rows, 8), params, views...)
		return
	}
	r.add(source("noise first_of totals judge_tree_part judge_tree_group", judgeTreeAccess, judgeTreeRef, recordWords), [3]int{c.Target.Rows, 1, 1}, params, views...)
}

// maxJudged is the most children of a node: as many as a draft has candidates.
const maxJudged = maxTopK
