package spec

import "fmt"

// Bias is added to a token's logit.
type Bias struct {
	Token int32
	Add   float32
}

// Adjustment changes the logits after each node of a tree before the target draws from them. The target first adds the
// biases and then makes the tokens impossible that a mask leaves out.
type Adjustment struct {
	Nodes  int        // of the tree
	Masks  [][]uint32 // a bit a token, the lowest first: (vocabulary + 31) / 32 words each
	Which  []int32    // of each node, its mask; -1: none. Empty: no node has one
	Common []Bias     // of every node, each token at most once
	// Own, per node, takes the place of Common for the tokens that it names. Empty: no node has any.
	Own [][]Bias
}

// Reset makes the adjustment that changes nothing, and keeps its memory.
func (a *Adjustment) Reset() {
	a.Nodes, a.Masks, a.Which, a.Common, a.Own = 0, a.Masks[:0], a.Which[:0], a.Common[:0], a.Own[:0]
}

// AdjustmentKinds says which kinds of adjustment a request needs.
type AdjustmentKinds struct {
	Masks, Biases bool
	Own           int // biases of one node's own, at most; 0: one for each token of its path
}

// Constraint restricts the target's choice of tokens by the tokens so far: a grammar, penalties, biases. A constraint
// that answers the same for the same tokens leaves speculation exact: the draft decides which nodes the constraint is
// asked about, not what it answers.
type Constraint interface {
	// Adjust fills s with what changes at the nodes of a tree. At the call s has their count alone. Node 0 is the last
	// token taken, or the prompt's last.
	Adjust(tree *Tree, s *Adjustment) error
	// Take receives the tokens that a round committed.
	Take(tokens []int32) error
}

// adjust has the next pass over a tree follow the constraint.
func (r *request) adjust(tree *Tree) error {
	if r.opts.Constraint == nil {
		return nil
	}
	s := &r.adjustment
	s.Reset()
	s.Nodes = tree.Len()
	if err := r.opts.Constraint.Adjust(tree, s); err != nil {
		return err
	}
	if len(s.Which) > 0 && len(s.Which) != tree.Len() || len(s.Own) > 0 && len(s.Own) != tree.Len() {
		return fmt.Errorf("spec: a constraint spoke of %d and %d nodes of a tree of %d", len(s.Which), len(s.Own),
			tree.Len())
	}
	return r.target.Adjust(s)
}
