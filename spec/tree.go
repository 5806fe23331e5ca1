package spec

import (
	"fmt"
	"slices"
)

// Len is the number of nodes, the root included.
func (t *Tree) Len() int { return len(t.Tokens) }

// Reset makes the tree a lone root and keeps its memory.
func (t *Tree) Reset(root int32) {
	t.Tokens = append(t.Tokens[:0], root)
	t.Parents = append(t.Parents[:0], -1)
	t.Depths = append(t.Depths[:0], 0)
	t.Scores = append(t.Scores[:0], 0)
}

// Add appends a child of parent, which must be in the tree, and returns its index.
func (t *Tree) Add(parent, token int32, score float32) int32 {
	t.Tokens = append(t.Tokens, token)
	t.Parents = append(t.Parents, parent)
	t.Depths = append(t.Depths, t.Depths[parent]+1)
	t.Scores = append(t.Scores, score)
	return int32(len(t.Tokens) - 1)
}

// Child is the first child of node that holds token, or -1.
func (t *Tree) Child(node, token int32) int32 {
	for i := int(node) + 1; i < len(t.Tokens); i++ {
		if t.Parents[i] == node && t.Tokens[i] == token {
			return int32(i)
		}
	}
	return -1
}

// IsLeaf reports whether node has no children.
func (t *Tree) IsLeaf(node int32) bool {
	return !slices.Contains(t.Parents[node+1:], node)
}

// IsChain reports whether every node has at most one child, the next one.
func (t *Tree) IsChain() bool {
	for i, p := range t.Parents {
		if int(p) != i-1 {
			return false
		}
	}
	return true
}

// Depth is the greatest depth of a node; 0 for a lone root.
func (t *Tree) Depth() int { return int(slices.Max(t.Depths)) }

// Path appends the nodes from the root to node, both included, to dst.
func (t *Tree) Path(dst []int32, node int32) []int32 {
	start := len(dst)
	for n := node; n >= 0; n = t.Parents[n] {
		dst = append(dst, n)
	}
	slices.Reverse(dst[start:])
	return dst
}

// Rank is the place of a node by V among the nodes of the tree, from 1: the root's.
// The lower index goes first among equals.
func (t *Tree) Rank(node int32) int {
	rank := 1
	for i, v := range t.Scores {
		if v > t.Scores[node] || v == t.Scores[node] && int32(i) < node {
			rank++
		}
	}
	return rank
}

// Clone returns a copy that shares nothing with t.
func (t *Tree) Clone() *Tree {
	return &Tree{slices.Clone(t.Tokens), slices.Clone(t.Parents), slices.Clone(t.Depths), slices.Clone(t.Scores)}
}

// Validate checks the invariants of Tree and that the tokens are ids below vocab.
// Siblings with the same token are allowed: Child finds the first.
func (t *Tree) Validate(vocab int) error {
	n := len(t.Tokens)
	if n == 0 {
		return fmt.Errorf("spec: a tree without a root")
	}
	if len(t.Parents) != n || len(t.Depths) != n || len(t.Scores) != n {
		return fmt.Errorf("spec: a tree of %d tokens has %d parents, %d depths and %d scores", n, len(t.Parents),
			len(t.Depths), len(t.Scores))
	}
	if t.Parents[0] != -1 || t.Depths[0] != 0 {
		return fmt.Errorf("spec: the root's parent is %d and its depth %d, want -1 and 0", t.Parents[0], t.Depths[0])
	}
	for i, token := range t.Tokens {
		if token < 0 || int(token) >= vocab {
			return fmt.Errorf("spec: node %d holds token %d, outside the vocabulary of %d", i, token, vocab)
		}
		if i == 0 {
			continue
		}
		if p := t.Parents[i]; p < 0 || int(p) >= i {
			return fmt.Errorf("spec: node %d has parent %d, want an earlier node", i, p)
		}
		if want := t.Depths[t.Parents[i]] + 1; t.Depths[i] != want {
			return fmt.Errorf("spec: node %d has depth %d, want %d", i, t.Depths[i], want)
		}
	}
	return nil
}
