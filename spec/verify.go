package spec

import (
	"context"
	"errors"
	"fmt"
)

// Verdict is what a verifier makes of a draft.
type Verdict struct {
	Path []int32 // accepted nodes, root first; each is the parent of the next
	// Relaxed marks, per element of Path, tokens accepted although the target chose
	// another. Nil when there are none.
	Relaxed []bool
	Next    int32 // the token after the last node of Path
}

// Verifier has the target judge a draft.
type Verifier interface {
	// Verify runs one target pass. The verdict is valid until the next call on the
	// target.
	Verify(ctx context.Context, target Target, d *Draft, s Sampling) (Verdict, error)
}

// Match is sample-and-match: at each node the target's own token y for the next
// position is drawn, by noise keyed with (seed, position) alone; the child that
// holds y is accepted, and where there is none y itself is emitted. Whatever
// tree was fixed before the draw, the output is that of plain decoding with
// the same seed, token for token.
type Match struct{}

var _ Verifier = Match{}

// Verify implements Verifier.
func (Match) Verify(ctx context.Context, target Target, d *Draft, s Sampling) (Verdict, error) {
	out, err := target.Verify(ctx, d.Tree, s)
	if err != nil {
		return Verdict{}, err
	}
	if len(out) != d.Tree.Len() {
		return Verdict{}, fmt.Errorf("spec: the target answered for %d of %d nodes", len(out), d.Tree.Len())
	}
	v := Verdict{Path: []int32{0}}
	for node := int32(0); ; {
		v.Next = out[node].Token
		if node = d.Tree.Child(node, v.Next); node < 0 {
			return v, nil
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
func (Rejection) Verify(ctx context.Context, target Target, d *Draft, s Sampling) (Verdict, error) {
	if s.Temperature == 0 || d.Tree.Len() == 1 {
		return Match{}.Verify(ctx, target, d, s)
	}
	if d.Sampler == nil || !d.Tree.IsChain() {
		return Verdict{}, errors.New("spec: rejection sampling of a draft that was not sampled as a chain would change the output's distribution")
	}
	rt, ok := target.(RejectionTarget)
	if !ok {
		return Verdict{}, errors.New("spec: this target cannot verify by rejection sampling")
	}
	verdicts, err := rt.VerifyChain(ctx, d.Tree, d.Sampler, s)
	if err != nil {
		return Verdict{}, err
	}
	if len(verdicts) != d.Tree.Len() {
		return Verdict{}, fmt.Errorf("spec: the target answered for %d of %d nodes", len(verdicts), d.Tree.Len())
	}
	v := Verdict{Path: []int32{0}}
	last := int32(len(verdicts) - 1)
	for node := int32(0); ; node++ {
		if node == last || !verdicts[node].Accepted {
			v.Next = verdicts[node].Token
			return v, nil
		}
		v.Path = append(v.Path, node+1)
	}
}
