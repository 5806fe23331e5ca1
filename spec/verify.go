package spec

import (
	"context"
	"errors"
	"fmt"
)

// Verdict is a verifier's decision on a draft. Its memory is reused from round to round.
type Verdict struct {
	Path []int32 // accepted nodes, root first; each is the parent of the next
	// Relaxed marks, per element of Path, tokens accepted although the target chose
	// another. Empty when there are none.
	Relaxed []bool
	Next    int32 // the token after the last node of Path
	// Outputs are the target's output at every node, where the verifier has them.
	Outputs []NodeOutput
}

// Reset makes the verdict that accepts the root alone.
func (v *Verdict) Reset(out []NodeOutput) {
	v.Path, v.Relaxed, v.Next, v.Outputs = append(v.Path[:0], 0), v.Relaxed[:0], 0, out
}

// Verifier decides which drafted tokens to accept.
type Verifier interface {
	// Pass is the kind of pass that the verifier needs. A draft without tokens always takes PassOutputs.
	Pass(s Sampling) PassKind
	// Accept fills v from a pass, which has an answer for every node of the tree.
	Accept(tree *Tree, p *Pass, v *Verdict) error
}

// verify has the target verify a draft by a pass of a kind.
func verify(ctx context.Context, target Target, kind PassKind, d *Draft, s Sampling) (*Pass, error) {
	if d.Tree.Len() == 1 {
		kind = PassOutputs
	}
	chain := d.Sampler != nil && d.Rows == nil && d.Tree.IsChain()
	switch {
	case kind == PassChain && !chain:
		return nil, errors.New("spec: rejection sampling of a draft that was not sampled as a chain " +
			"would change the output's distribution")
	case kind == PassDivergence && !chain:
		return nil, errors.New("spec: a verifier that compares distributions needs a chain that was sampled")
	case kind == PassSampled && len(d.Rows) != d.Tree.Len():
		return nil, errors.New("spec: the without-replacement rule on a tree that was not drawn so " +
			"would change the output's distribution")
	}
	return target.Verify(ctx, PassRequest{Kind: kind, Sampling: s, Tree: d.Tree, Model: d.Sampler, Rows: d.Rows})
}

// check refuses a pass that did not answer for every node.
func (p *Pass) check(tree *Tree) error {
	if n := max(len(p.Outputs), len(p.Chain), len(p.Children)); n != tree.Len() {
		return fmt.Errorf("spec: the target answered for %d of %d nodes", n, tree.Len())
	}
	return nil
}

// Match is sample-and-match: at each node the target draws its own token y for the next position, with noise keyed
// by (seed, position) alone. Match accepts the child that holds y, or emits y if there is none. Whatever tree was
// fixed before the draw, the output equals plain decoding with the same seed, token for token.
type Match struct{}

var _ Verifier = Match{}

func (Match) Pass(Sampling) PassKind { return PassOutputs }

func (Match) Accept(tree *Tree, p *Pass, v *Verdict) error {
	out := p.Outputs
	v.Reset(out)
	for node := int32(0); ; {
		v.Next = out[node].Token
		if node = tree.Child(node, v.Next); node < 0 {
			return nil
		}
		v.Path = append(v.Path, node)
	}
}

// Rejection is chain rejection sampling: it accepts a token x ~ q with probability min(1, p(x)/q(x)) and replaces the
// first rejected one by a draw from norm((p-q)+) (Leviathan et al., "Fast Inference from Transformers via Speculative
// Decoding", §2.3, and Chen et al., "Accelerating Large Language Model Decoding with Speculative Sampling", algorithm
// 2). The output has the target's distribution but is not the token sequence of plain decoding. At temperature 0 p and
// q are one-hot and the rule equals Match's.
type Rejection struct{}

var _ Verifier = Rejection{}

func (Rejection) Pass(s Sampling) PassKind {
	if s.Temperature == 0 {
		return PassOutputs
	}
	return PassChain
}

// Accept accepts the chain down to the first node whose child was rejected.
func (Rejection) Accept(tree *Tree, p *Pass, v *Verdict) error {
	verdicts := p.Chain
	if verdicts == nil {
		return Match{}.Accept(tree, p, v)
	}
	v.Reset(nil)
	last := int32(len(verdicts) - 1)
	for node := int32(0); ; node++ {
		if node == last || !verdicts[node].Accepted {
			v.Next = verdicts[node].Token
			return nil
		}
		v.Path = append(v.Path, node+1)
	}
}

// WithoutReplacement verifies a tree whose children were sampled from the draft one after the other without
// replacement. At each node it tests the children in order; a rejected child leaves the residual to the next, and if
// none is accepted it samples a token from what is left (Chen et al., "Sequoia: Scalable and Robust Speculative
// Decoding", §3.2). The output has the target's distribution but is not the token sequence of plain decoding. At
// temperature 0 there is nothing to sample, and the rule equals Match's.
type WithoutReplacement struct{}

var _ Verifier = WithoutReplacement{}

func (WithoutReplacement) Pass(s Sampling) PassKind {
	if s.Temperature == 0 {
		return PassOutputs
	}
	return PassSampled
}

// Accept accepts children from the root down to the first node without an accepted child.
func (WithoutReplacement) Accept(tree *Tree, p *Pass, v *Verdict) error {
	verdicts := p.Children
	if verdicts == nil {
		return Match{}.Accept(tree, p, v)
	}
	v.Reset(nil)
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
