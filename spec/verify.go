package spec

import (
	"context"
	"errors"
	"fmt"
)

// Verdict is what a verifier makes of a draft. Its memory is used again from round to round.
type Verdict struct {
	Path []int32 // accepted nodes, root first; each is the parent of the next
	// Relaxed marks, per element of Path, tokens accepted although the target chose
	// another. Empty when there are none.
	Relaxed []bool
	Next    int32 // the token after the last node of Path
	// Outputs are the target's of every node, where the verifier has them.
	Outputs []NodeOutput
}

// begin makes the verdict that accepts the root alone.
func (v *Verdict) begin(out []NodeOutput) {
	v.Path, v.Relaxed, v.Next, v.Outputs = append(v.Path[:0], 0), v.Relaxed[:0], 0, out
}

// Verifier has the target judge a draft.
type Verifier interface {
	// Verify runs one target pass and fills v, which is valid until the next call on the
	// target.
	Verify(ctx context.Context, target Target, d *Draft, s Sampling, v *Verdict) error
}

// Match is sample-and-match: at each node the target's own token y for the next
// position is drawn, by noise keyed with (seed, position) alone; the child that
// holds y is accepted, and where there is none y itself is emitted. Whatever
// tree was fixed before the draw, the output is that of plain decoding with
// the same seed, token for token.
type Match struct{}

var _ OutputVerifier = Match{}

// Verify implements Verifier.
func (m Match) Verify(ctx context.Context, target Target, d *Draft, s Sampling, v *Verdict) error {
	out, err := passed(ctx, target, d, s)
	if err != nil {
		return err
	}
	return m.Judge(d.Tree, out, v)
}

// Judge implements OutputVerifier.
func (Match) Judge(tree *Tree, out []NodeOutput, v *Verdict) error {
	v.begin(out)
	for node := int32(0); ; {
		v.Next = out[node].Token
		if node = tree.Child(node, v.Next); node < 0 {
			return nil
		}
		v.Path = append(v.Path, node)
	}
}

// Rejection is chain rejection sampling: a token x ~ q is accepted with
// probability min(1, p(x)/q(x)), and the first rejected one is replaced by a draw
// from norm((p-q)+) (Leviathan et al., "Fast Inference from Transformers via
// Speculative Decoding", §2.3, and Chen et al., "Accelerating Large Language
// Model Decoding with Speculative Sampling", algorithm 2). The output has the
// target's distribution but is not the token sequence of plain decoding. At
// temperature 0 p and q are one-hot and the rule is that of Match, which is used.
type Rejection struct{}

var _ Verifier = Rejection{}

// Verify implements Verifier. The draft is a chain drawn by d.Sampler, or a lone
// root.
func (Rejection) Verify(ctx context.Context, target Target, d *Draft, s Sampling, v *Verdict) error {
	if s.Temperature == 0 || d.Tree.Len() == 1 {
		return Match{}.Verify(ctx, target, d, s, v)
	}
	if d.Sampler == nil || !d.Tree.IsChain() {
		return errors.New("spec: rejection sampling of a draft that was not sampled as a chain would change the output's distribution")
	}
	rt, ok := target.(RejectionTarget)
	if !ok {
		return errors.New("spec: this target cannot verify by rejection sampling")
	}
	verdicts, err := rt.VerifyChain(ctx, d.Tree, d.Sampler, s)
	if err != nil {
		return err
	}
	return v.walk(d.Tree, verdicts)
}

// walk accepts a chain down to the first node whose child was rejected.
func (v *Verdict) walk(tree *Tree, verdicts []ChainVerdict) error {
	if len(verdicts) != tree.Len() {
		return fmt.Errorf("spec: the target answered for %d of %d nodes", len(verdicts), tree.Len())
	}
	v.begin(nil)
	last := int32(len(verdicts) - 1)
	for node := int32(0); ; node++ {
		if node == last || !verdicts[node].Accepted {
			v.Next = verdicts[node].Token
			return nil
		}
		v.Path = append(v.Path, node+1)
	}
}

// WithoutReplacement verifies a tree whose children were drawn from the draft one
// after the other without replacement: at each node the children are judged in
// order, each rejected one leaves the residual to the next, and where none is
// accepted a token is drawn from what is left (Chen et al., "Sequoia: Scalable and
// Robust Speculative Decoding", §3.2). The output has the target's distribution
// but is not the token sequence of plain decoding. At temperature 0 there is
// nothing to draw, and the rule is that of Match, which is used.
type WithoutReplacement struct{}

var _ Verifier = WithoutReplacement{}

// Verify implements Verifier. The draft is a tree drawn by d.TreeSampler, or a lone
// root.
func (WithoutReplacement) Verify(ctx context.Context, target Target, d *Draft, s Sampling, v *Verdict) error {
	if s.Temperature == 0 || d.Tree.Len() == 1 {
		return Match{}.Verify(ctx, target, d, s, v)
	}
	if d.TreeSampler == nil || len(d.Rows) != d.Tree.Len() {
		return errors.New("spec: the without-replacement rule on a tree that was not drawn so would change the output's distribution")
	}
	st, ok := target.(SampledTreeTarget)
	if !ok {
		return errors.New("spec: this target cannot verify trees drawn without replacement")
	}
	verdicts, err := st.VerifySampled(ctx, d.Tree, d.Rows, d.TreeSampler, s)
	if err != nil {
		return err
	}
	return v.descend(d.Tree, verdicts)
}

// descend accepts children from the root down to the first node that has none accepted.
func (v *Verdict) descend(tree *Tree, verdicts []TreeVerdict) error {
	if len(verdicts) != tree.Len() {
		return fmt.Errorf("spec: the target answered for %d of %d nodes", len(verdicts), tree.Len())
	}
	v.begin(nil)
	for node := int32(0); ; {
		child := verdicts[node].Child
		if child < 0 {
			v.Next = verdicts[node].Token
			return nil
		}
		if int(child) >= tree.Len() || tree.Parents[child] != node {
			return fmt.Errorf("spec: the target accepted node %d as a child of node %d, which it is not", child, node)
		}
		v.Path = append(v.Path, child)
		node = child
	}
}
