package spec

import (
	"context"
	"fmt"
)

// A round that drafts whatever is needed to know before the target's pass asks the device twice: once
// for what was drafted and once for what the target says. Where the draft is a fixed tree of a model on the
// target's device, the target's pass can follow at once: the device makes the tree itself and
// everything comes back together. The tree is the same, and so are verdict, statistics and event.

// JointTarget is a Target that can verify what a draft model drafts in the same run.
type JointTarget interface {
	Target
	// Joins tells whether DraftVerify can do a request now without making anything.
	Joins(draft DraftModel, r *JointRequest) bool
	// DraftVerify is draft.DraftTree, or SampleTree and Expand of r.Beams where r.Drawn is set, r.Build of its levels, and Verify of that tree. The beams are r.Beams where there are any. What
	// it returns is valid until the next call
	// on either model.
	DraftVerify(ctx context.Context, draft DraftModel, r *JointRequest) (tree *Tree, levels []Level, out []NodeOutput, err error)
}

// JointRequest asks for a draft and its verification.
type JointRequest struct {
	DraftRequest
	Nodes int // nodes of the tree at most, the root included
	// Drawn tells that children are drawn without replacement, as SampleTree draws them; of trees of a fixed shape.
	Drawn bool
	// Beams and Chosen are of trees of a fixed shape, and nil where the best candidates are taken: for each level but the last
	// its candidates that become beams, and the candidate of each node but the root, parents
	// first, numbered as Builder.Candidate does where every level has K beams.
	Beams  [][]int32
	Chosen []int32
	// Rows and Children are of trees of a fixed shape too, per node, the root included: the number of the distribution that its children
	// were drawn from, as Draft.Rows has it, and how many it has. They are nodes one after the other, those of one
	// node after those of the node before.
	Rows, Children []int32
	// Build makes the tree of the levels, as Builder.Build does of so many nodes. The device has made the
	// same one by the same rule; where it has not, the tree of Build is verified.
	Build func(levels []Level) (*Tree, error)
}

// JointSession is a DraftSession whose draft can be verified in the same run.
type JointSession interface {
	DraftSession
	// ProposeVerify is Propose and the target's Verify. It returns no draft, and has done nothing, where the target cannot do
	// both at once.
	ProposeVerify(ctx context.Context, seq []int32, b Budget, target JointTarget) (*Draft, []NodeOutput, error)
}

// JointChainTarget is a RejectionTarget that can judge a chain in the run that draws it.
type JointChainTarget interface {
	RejectionTarget
	// JoinsChain tells whether DraftVerifyChain can do a chain of count tokens now without making anything.
	JoinsChain(draft SamplingDraft, count int) bool
	// DraftVerifyChain is draft.DraftSampled, and VerifyChain of the chain of its tokens. What it returns is valid until the next
	// call on either model.
	DraftVerifyChain(ctx context.Context, draft SamplingDraft, r SampleRequest) ([]Drawn, []ChainVerdict, error)
}

// JointDivergenceTarget is a DivergenceTarget that can compare a chain in the run that draws it.
type JointDivergenceTarget interface {
	DivergenceTarget
	// JoinsChain is JointChainTarget's.
	JoinsChain(draft SamplingDraft, count int) bool
	// DraftVerifyDivergence is draft.DraftSampled, and VerifyDivergence of the chain of its tokens. What it returns is valid until
	// the next call on either model.
	DraftVerifyDivergence(ctx context.Context, draft SamplingDraft, r SampleRequest) ([]Drawn, []NodeOutput, []Divergence, error)
}

// JointTreeTarget is a SampledTreeTarget that can judge a tree in the run that draws it without replacement.
type JointTreeTarget interface {
	SampledTreeTarget
	// JoinsSampled tells whether DraftVerifySampled can do a request now without making anything.
	JoinsSampled(draft TreeSampler, r *JointRequest) bool
	// DraftVerifySampled is draft.SampleTree, Expand of r.Beams level by level, r.Build of the levels, and VerifySampled of that tree, where
	// it has a node for each of r.Chosen. Otherwise there are no verdicts. What it returns is valid until the next call on
	// either model.
	DraftVerifySampled(ctx context.Context, draft TreeSampler, r *JointRequest) (*Tree, []Level, []TreeVerdict, error)
}

// OutputVerifier is a Verifier whose verdict follows from what the target says of each node of any
// tree, and from nothing else.
type OutputVerifier interface {
	Verifier
	// Judge is Verify after the target's pass.
	Judge(tree *Tree, out []NodeOutput, v *Verdict) error
}

// passed runs the target's pass and checks that it answered.
func passed(ctx context.Context, target Target, d *Draft, s Sampling) ([]NodeOutput, error) {
	out, err := target.Verify(ctx, d.Tree, s)
	if err != nil {
		return nil, err
	}
	if len(out) != d.Tree.Len() {
		return nil, fmt.Errorf("spec: the target answered for %d of %d nodes", len(out), d.Tree.Len())
	}
	return out, nil
}

// together is what a request needs to draft and verify at once; without a session it cannot.
type together struct {
	session  JointSession
	target   JointTarget
	verifier OutputVerifier
	// Of chains and of trees that were sampled, where there is no session:
	chain       *chainSession
	chainTarget JointChainTarget
	gapTarget   JointDivergenceTarget
	adasd       *AdaSD
	tree        *shapedSession
	treeTarget  JointTreeTarget
}

// join finds out whether a request's parts go together so.
func (r *request) join() {
	if r.opts.Guide != nil { // it has to see the tree before the target does
		return
	}
	verifier, judges := r.parts.Verifier.(OutputVerifier)
	switch own := r.parts.Verifier.(type) {
	case Rejection:
		if r.opts.Sampling.Temperature == 0 { // it is Match then
			verifier, judges = Match{}, true
			break
		}
		chain, ok := r.session.(*chainSession)
		if target, joins := r.target.(JointChainTarget); ok && joins {
			r.joint = together{chain: chain, chainTarget: target}
		}
	case *AdaSD:
		chain, ok := r.session.(*chainSession)
		if target, joins := r.target.(JointDivergenceTarget); ok && joins {
			r.joint = together{chain: chain, gapTarget: target, adasd: own}
		}
	case WithoutReplacement:
		if r.opts.Sampling.Temperature == 0 { // it is Match then, and the draft's best are its tree
			verifier, judges = Match{}, true
			break
		}
		tree, ok := r.session.(*shapedSession)
		if target, joins := r.target.(JointTreeTarget); ok && joins && tree.sampler != nil {
			r.joint = together{tree: tree, treeTarget: target}
		}
	}
	session, ok := r.session.(JointSession)
	if target, joins := r.target.(JointTarget); ok && joins && judges {
		r.joint = together{session: session, target: target, verifier: verifier}
	}
}

// run drafts and verifies within a budget; without a draft it has done nothing.
func (j *together) run(ctx context.Context, seq []int32, b Budget, v *Verdict) (*Draft, error) {
	if j.chain != nil {
		return j.chain.proposeVerify(ctx, seq, b, j, v)
	}
	if j.tree != nil {
		return j.tree.drawVerify(ctx, seq, b, j.treeTarget, v)
	}
	if j.session == nil {
		return nil, nil
	}
	d, out, err := j.session.ProposeVerify(ctx, seq, b, j.target)
	if d == nil || err != nil {
		return nil, err
	}
	if len(out) != d.Tree.Len() {
		return nil, fmt.Errorf("spec: the target answered for %d of %d nodes", len(out), d.Tree.Len())
	}
	return d, j.verifier.Judge(d.Tree, out, v)
}
