package adapt

import (
	"fmt"

	"foretoken/spec"
)

// MARSTheta is the default θ, the paper's.
const MARSTheta = 0.9

// MARS is margin-aware verification, a lossy rule: if the target's second choice is nearly as good as its first, a
// drafted second choice is accepted too ("MARS: Unleashing the Power of Speculative Decoding via Margin-Aware
// Verification", algorithm 1). With v1 and v2 the target's two best tokens and z1 >= z2 their raw logits, v2 is
// accepted if z2/z1 > Theta. The ratio depends on the origin of the logits but not on the temperature, so MARS
// takes the logits as the model computes them, and relaxes nothing unless both are above 0. It never accepts a v2
// that the sampling filters removed.
//
// In a tree, a child v1 takes precedence over a relaxed v2.
type MARS struct {
	Theta float64 // in (0, 1]; 1 relaxes nothing
	Gap   float64 // maximum z1-z2 to relax, in nats; 0: no maximum
	// Sampled draws y from the target as Match does: it accepts a child y, else a relaxed v2, else it emits y.
	// Without Sampled, y is v1 at every temperature (the paper's algorithm, close to greedy decoding).
	Sampled bool
}

var _ spec.Verifier = MARS{}

func (MARS) Pass(spec.Sampling) spec.PassKind { return spec.PassOutputs }

func (m MARS) Accept(tree *spec.Tree, p *spec.Pass, v *spec.Verdict) error {
	out := p.Outputs
	v.Reset(out)
	v.Relaxed = append(v.Relaxed, false)
	for node := int32(0); ; {
		o := &out[node]
		if len(o.TopIDs) == 0 || len(o.TopLogits) != len(o.TopIDs) {
			return fmt.Errorf("spec: the target returned %d ids and %d logits for node %d; mars needs its best tokens",
				len(o.TopIDs), len(o.TopLogits), node)
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

// relaxes reports whether the second best token is acceptable in place of the best.
func (m MARS) relaxes(o *spec.NodeOutput) bool {
	if len(o.TopIDs) < 2 {
		return false
	}
	z1, z2 := float64(o.TopLogits[0]), float64(o.TopLogits[1])
	// In this form NaN relaxes nothing.
	return z1 > 0 && z2 > 0 && z2/z1 > m.Theta && !(o.TopLogits[1] < o.Threshold) &&
		(m.Gap == 0 || z1-z2 <= m.Gap)
}
