package spec

import (
	"context"
	"fmt"
)

// MARS is margin-aware verification, a lossy rule: where the target's second choice is
// nearly as good as its first, a draft that holds the second is accepted too ("MARS:
// Unleashing the Power of Speculative Decoding via Margin-Aware Verification",
// algorithm 1). With v1 and v2 the target's two best tokens and z1 >= z2 their
// raw logits, v2 is accepted when z2/z1 > Theta. The ratio does not depend on the
// temperature, but it does on the origin of the logits, which are therefore taken
// as the model gives them; where one of both is not above 0 it means nothing, and
// nothing is relaxed. A v2 that the filters of the sampling removed is not
// accepted either.
//
// In a tree the child v1 goes first, then a relaxed v2.
type MARS struct {
	Theta float64 // in (0, 1]; 1 relaxes nothing
	Gap   float64 // greatest z1-z2 relaxed, in nats; 0: no cap
	// Sampled draws y from the target as Match does: a child y is accepted, else a relaxed
	// v2, else y is emitted. Otherwise y is v1 at every temperature (the paper's
	// algorithm, close to greedy decoding).
	Sampled bool
}

var _ OutputVerifier = MARS{}

// mars is the verifier that the config names.
func (c Config) mars() MARS {
	m := MARS{Theta: c.Theta, Gap: c.Gap, Sampled: c.Mode == MARSSampled}
	if m.Theta == 0 {
		m.Theta = 0.9
	}
	return m
}

// Lossy tells that accepted tokens need not be the target's.
func (MARS) Lossy() bool { return true }

// Verify implements Verifier.
func (m MARS) Verify(ctx context.Context, target Target, d *Draft, s Sampling, v *Verdict) error {
	out, err := passed(ctx, target, d, s)
	if err != nil {
		return err
	}
	return m.Judge(d.Tree, out, v)
}

// Judge implements OutputVerifier.
func (m MARS) Judge(tree *Tree, out []NodeOutput, v *Verdict) error {
	v.begin(out)
	v.Relaxed = append(v.Relaxed, false)
	for node := int32(0); ; {
		o := &out[node]
		if len(o.TopIDs) == 0 || len(o.TopLogits) != len(o.TopIDs) {
			return fmt.Errorf("spec: the target gave %d ids and %d logits for node %d; mars needs its best tokens", len(o.TopIDs), len(o.TopLogits), node)
		}
		v.Next = o.TopIDs[0]
		if m.Sampled {
			v.Next = o.Token
		}
		child, relaxed := tree.Child(node, v.Next), false
		if child < 0 && m.relaxes(o) && o.TopIDs[1] != v.Next {
			child = tree.Child(node, o.TopIDs[1])
			relaxed = child >= 0
		}
		if child < 0 {
			return nil
		}
		v.Path, v.Relaxed = append(v.Path, child), append(v.Relaxed, relaxed)
		node = child
	}
}

// relaxes tells whether the second best token is as good as the best.
func (m MARS) relaxes(o *NodeOutput) bool {
	if len(o.TopIDs) < 2 {
		return false
	}
	z1, z2 := float64(o.TopLogits[0]), float64(o.TopLogits[1])
	// Written so that NaN relaxes nothing.
	return z1 > 0 && z2 > 0 && z2/z1 > m.Theta && !(o.TopLogits[1] < o.Threshold) &&
		(m.Gap == 0 || z1-z2 <= m.Gap)
}
