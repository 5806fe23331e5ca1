package spec

import "fmt"

// Bias is added to a token's logit.
type Bias struct {
	Token int32
	Add   float32
}

// Shaping changes the logits after each node of a tree before anything is made of them: what
// is added is added first, then the tokens that a mask leaves out become impossible.
type Shaping struct {
	Nodes  int        // of the tree
	Masks  [][]uint32 // a bit a token, the lowest first: (vocabulary + 31) / 32 words each
	Which  []int32    // of each node, its mask; -1: none. Empty: no node has one
	Common []Bias     // of every node, each token at most once
	// Own, per node, takes the place of Common for the tokens that it names. Empty: no
	// node has any.
	Own [][]Bias
}

// Reset makes the shaping that changes nothing, and keeps its memory.
func (s *Shaping) Reset() {
	s.Nodes, s.Masks, s.Which, s.Common, s.Own = 0, s.Masks[:0], s.Which[:0], s.Common[:0], s.Own[:0]
}

// Guide restricts what the target may draw, by what was drawn so far: a grammar, penalties, biases. A
// guide that says the same of the same tokens leaves speculation exact: what is drafted decides
// which nodes it is asked about, not what it says of them.
type Guide interface {
	// Shape fills s, which knows the count of nodes alone, for those of a tree. Node 0 is the last token taken, or
	// the prompt's last.
	Shape(tree *Tree, s *Shaping) error
	// Take is told which tokens a round made part of the text.
	Take(tokens []int32) error
}

// ShapedTarget is a Target whose logits can be changed.
type ShapedTarget interface {
	Target
	// Shape has the next pass, of whichever verification, change its logits by s, which is of the tree
	// that is verified then. s may change once Shape returns.
	Shape(s *Shaping) error
}

// guided is a guide and what it is asked with.
type guided struct {
	guide   Guide
	target  ShapedTarget
	shaping Shaping
}

// follow begins to ask the options' guide.
func (r *request) follow() error {
	if r.opts.Guide == nil {
		return nil
	}
	target, ok := r.target.(ShapedTarget)
	if !ok {
		return fmt.Errorf("spec: this target's logits cannot be changed, which a grammar, penalties and biases need")
	}
	r.guided = guided{guide: r.opts.Guide, target: target}
	return nil
}

// shape has the next pass over a tree follow the guide.
func (g *guided) shape(tree *Tree) error {
	if g.guide == nil {
		return nil
	}
	g.shaping.Reset()
	g.shaping.Nodes = tree.Len()
	if err := g.guide.Shape(tree, &g.shaping); err != nil {
		return err
	}
	if s := &g.shaping; len(s.Which) > 0 && len(s.Which) != tree.Len() || len(s.Own) > 0 && len(s.Own) != tree.Len() {
		return fmt.Errorf("spec: a guide spoke of %d and %d nodes of a tree of %d", len(s.Which), len(s.Own), tree.Len())
	}
	return g.target.Shape(&g.shaping)
}

func (g *guided) take(tokens []int32) error {
	if g.guide == nil {
		return nil
	}
	return g.guide.Take(tokens)
}
