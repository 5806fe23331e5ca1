package spec

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// Builder makes token trees of drafted levels and remembers which beams of the
// draft its nodes are. Its memory is reused from one tree to the next.
type Builder struct {
	tree   Tree
	values []float32 // V of every candidate, levels one after the other
	parent []int32   // the candidate each was proposed by, -1 for the root
	beam   []int32   // its place among the beams of its level, -1: none, or never consumed
	order  []int32   // candidates in order of choice
	node   []int32   // the node each became, -1: none
	row    []int32   // the number of the distribution that it was drawn from
	source []int32   // the candidate of each node, -1 for the root
	beams  []int32
	rows   []int32
}

// FirstCandidate returns the number that Layout.Chosen gives to the first candidate of a level, 0 being the root's: the
// root proposes k candidates, and k beams propose k each at every other level.
func FirstCandidate(level, k int) int {
	if level == 0 {
		return 0
	}
	return k + (level-1)*k*k
}

// BuildFor makes a tree of the levels that a request asked for. With a Layout, its places choose the nodes; without
// one, Build does.
func (b *Builder) BuildFor(r *DraftRequest, levels []Level) (*Tree, error) {
	if r.Layout == nil {
		return b.Build(r.Root(), levels, r.Nodes)
	}
	if len(levels) != r.Depth+1 {
		return nil, fmt.Errorf("spec: the draft model gave %d levels, want %d", len(levels), r.Depth+1)
	}
	for d, beams := range r.Layout.Beams {
		if !slices.Equal(levels[d].Beams, beams) {
			return nil, fmt.Errorf("spec: level %d of the draft has beams %v, want %v", d, levels[d].Beams, beams)
		}
	}
	if err := b.begin(r.Root(), levels); err != nil {
		return nil, err
	}
	level, first := 0, int32(0) // first numbers the level's first candidate among those that there are
	for _, c := range r.Layout.Chosen {
		for int(c) >= FirstCandidate(level+1, r.K) {
			first += int32(len(levels[level].Candidates))
			level++
		}
		at := int(c) - FirstCandidate(level, r.K)
		if at < len(levels[level].Candidates) && !b.impossible(first+int32(at)) {
			b.order = append(b.order, first+int32(at))
		}
	}
	return b.plant(levels), nil
}

// impossible reports whether a candidate has no chance, or one of its path has none.
func (b *Builder) impossible(candidate int32) bool {
	return math.IsInf(float64(b.values[candidate]), -1)
}

// Build chooses the nodes-1 best candidates of all levels by V, the sum of ln q along the path, and makes a tree of
// them under root (Li et al., "EAGLE-2: Faster Inference of Language Models with Dynamic Draft Trees", §4.2). nodes
// counts the root. Ties go to the lower index: to the earlier level, then to the earlier candidate, so that a
// parent goes before its children, whose V is at most its own (a positive or undefined ln q is taken as 0 and as
// -Inf). Candidates of probability zero are never chosen, and of siblings with the same token only the first is.
//
// The tree is in order of candidates and valid until the next call. Levels
// that contradict themselves are an error.
func (b *Builder) Build(root int32, levels []Level, nodes int) (*Tree, error) {
	if err := b.begin(root, levels); err != nil {
		return nil, err
	}
	for i := range int32(len(b.values)) {
		if !b.impossible(i) {
			b.order = append(b.order, i)
		}
	}
	if keep := max(nodes-1, 0); len(b.order) > keep {
		slices.SortFunc(b.order, func(x, y int32) int {
			return cmp.Or(cmp.Compare(b.values[y], b.values[x]), cmp.Compare(x, y))
		})
		b.order = b.order[:keep]
		slices.Sort(b.order)
	}
	return b.plant(levels), nil
}

// begin starts a tree of the levels, without nodes below its root.
func (b *Builder) begin(root int32, levels []Level) error {
	b.tree.Reset(root)
	b.source, b.order = append(b.source[:0], -1), b.order[:0]
	return b.flatten(levels)
}

// plant adds the candidates in order to the tree.
func (b *Builder) plant(levels []Level) *Tree {
	b.node = b.node[:0]
	for range b.values {
		b.node = append(b.node, -1)
	}
	level, first := 0, int32(0)
	for _, c := range b.order {
		for c-first >= int32(len(levels[level].Candidates)) {
			first += int32(len(levels[level].Candidates))
			level++
		}
		under := int32(0)
		if b.parent[c] >= 0 {
			under = b.node[b.parent[c]]
		}
		b.node[c] = b.tree.Add(under, levels[level].Candidates[c-first].Token, b.values[c])
		b.source = append(b.source, c)
	}
	return &b.tree
}

// flatten checks the levels and fills values, parent, beam and row.
func (b *Builder) flatten(levels []Level) error {
	b.values, b.parent, b.beam, b.row = b.values[:0], b.parent[:0], b.beam[:0], b.row[:0]
	above, row := 0, int32(0) // the first candidate of the level above, and the level's first distribution
	for d := range levels {
		first, l := len(b.values), &levels[d]
		last := int32(0)
		for i, c := range l.Candidates {
			from := int32(-1)
			value := float32(0)
			switch {
			case c.Beam < last:
				return fmt.Errorf("spec: level %d of the draft is not grouped by beam at candidate %d", d, i)
			case d == 0 && c.Beam != 0:
				return fmt.Errorf("spec: candidate %d of the draft's first level names beam %d", i, c.Beam)
			case d > 0:
				if beams := levels[d-1].Beams; int(c.Beam) >= len(beams) {
					return fmt.Errorf("spec: candidate %d of level %d names beam %d of %d", i, d, c.Beam, len(beams))
				}
				from = int32(above) + levels[d-1].Beams[c.Beam]
				value = b.values[from]
			}
			last = c.Beam
			value += min(c.LogQ, 0)
			if math.IsNaN(float64(value)) || l.Repeats(i) {
				value = float32(math.Inf(-1))
			}
			b.values = append(b.values, value)
			b.parent = append(b.parent, from)
			b.beam, b.row = append(b.beam, -1), append(b.row, row+c.Beam)
		}
		for i, c := range l.Beams {
			if c < 0 || int(c) >= len(l.Candidates) {
				return fmt.Errorf("spec: beam %d of level %d is candidate %d of %d", i, d, c, len(l.Candidates))
			}
			if b.beam[first+int(c)] >= 0 {
				return fmt.Errorf("spec: beams %d and %d of level %d are the same candidate", b.beam[first+int(c)], i,
					d)
			}
			b.beam[first+int(c)] = int32(i)
		}
		if d == len(levels)-1 {
			// No pass followed the last level, so the draft consumed none of it.
			for i := first; i < len(b.beam); i++ {
				b.beam[i] = -1
			}
		}
		above = first
		proposed := 1 // by the root
		if d > 0 {
			proposed = len(levels[d-1].Beams)
		}
		row += int32(proposed)
	}
	return nil
}

// Repeats reports whether an earlier candidate of the same beam has the token of candidate i.
func (l *Level) Repeats(i int) bool {
	for j := i - 1; j >= 0 && l.Candidates[j].Beam == l.Candidates[i].Beam; j-- {
		if l.Candidates[j].Token == l.Candidates[i].Token {
			return true
		}
	}
	return false
}

// Candidate is the number of the candidate that a node of the last tree became, levels counted one
// after the other; -1 for the root.
func (b *Builder) Candidate(node int32) int32 { return b.source[node] }

// Beams gives, for an accepted path of the last tree (root first), what DraftModel.Commit takes: the beams that its
// nodes are, as far down as the draft consumed them. It is valid until the next call.
func (b *Builder) Beams(path []int32) []int32 {
	b.beams = b.beams[:0]
	for _, n := range path[1:] {
		beam := b.beam[b.source[n]]
		if beam < 0 {
			break
		}
		b.beams = append(b.beams, beam)
	}
	return b.beams
}

// Rows numbers, per node of the last tree, the distribution that its children were drawn from, as PassRequest.Rows
// does. It is valid until the next call.
func (b *Builder) Rows() []int32 {
	b.rows = b.rows[:0]
	for range b.source {
		b.rows = append(b.rows, -1)
	}
	for i, parent := range b.tree.Parents[1:] {
		b.rows[parent] = b.row[b.source[i+1]]
	}
	return b.rows
}
