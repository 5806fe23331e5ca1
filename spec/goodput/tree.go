package goodput

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"foretoken/spec"
)

// candidates is the tree of all tokens that the draft and the lookup propose in a round, with the probability of each,
// and the part of it to verify.
type candidates struct {
	nodes []candidate
	first [][]int32 // (level of the draft, candidate): its node, or -1
	path  []int32   // scratch of lookUp
	order []int32   // nodes without the root by reach, likeliest first
	index []int32   // of each node, its node in tree, or -1
	beams []int32
	open  []int32   // scratch of frontier and drafted, see rank
	tree  spec.Tree // of the last call of build
}

// candidate is a proposed token.
type candidate struct {
	token, parent, depth int32
	child, next          int32 // first child and next sibling, -1: none
	evidence
	chance float64 // estimated probability that it is accepted if its parent is
	reach  float64 // probability that the path down to the node is accepted
	joint  float64 // Π q along a path of the draft
	beam   int32   // index among the beams of the draft's level; -1: the draft did not consume it
	// width and levels describe the smallest draft that has the node.
	width, levels int32
}

// reset makes c a lone root.
func (c *candidates) reset(root int32) {
	c.nodes = append(c.nodes[:0], candidate{
		token: root, parent: -1, child: -1, next: -1, reach: 1, joint: 1, beam: -1, width: 1,
	})
	c.first = c.first[:0]
	c.order = c.order[:0]
}

func (c *candidates) add(parent, token int32) int32 {
	p := &c.nodes[parent]
	n := int32(len(c.nodes))
	c.nodes = append(c.nodes, candidate{
		token: token, parent: parent, depth: p.depth + 1, child: -1, next: p.child, beam: -1,
		width: p.width, levels: p.levels,
	})
	c.nodes[parent].child = n
	return n
}

func (c *candidates) find(parent, token int32) int32 {
	for n := c.nodes[parent].child; n >= 0; n = c.nodes[n].next {
		if c.nodes[n].token == token {
			return n
		}
	}
	return -1
}

// levels adds the candidates of a draft model with its scores.
func (c *candidates) levels(model int, levels []spec.Level) error {
	offset := ofEachModel * model // of the model's sources
	for d := range levels {
		l := &levels[d]
		c.first = slices.Grow(c.first, 1)[:d+1]
		nodes := slices.Grow(c.first[d][:0], len(l.Candidates))[:len(l.Candidates)]
		c.first[d] = nodes
		rank, last := 0, int32(-1)
		for i, k := range l.Candidates {
			if k.Beam != last {
				rank, last = 0, k.Beam
			}
			nodes[i] = -1
			parent := int32(0)
			if d > 0 {
				beams := levels[d-1].Beams
				if k.Beam < 0 || int(k.Beam) >= len(beams) || int(beams[k.Beam]) >= len(c.first[d-1]) {
					return fmt.Errorf("spec: candidate %d of level %d names beam %d of %d", i, d, k.Beam, len(beams))
				}
				if parent = c.first[d-1][beams[k.Beam]]; parent < 0 {
					continue
				}
			} else if k.Beam != 0 {
				return fmt.Errorf("spec: candidate %d of the draft's first level names beam %d", i, k.Beam)
			}
			if p := &c.nodes[parent]; p.beam < 0 {
				p.beam = k.Beam
				if d > 0 {
					p.width = max(p.width, k.Beam+1)
				}
			}
			q := float64(min(k.LogQ, 0))
			if math.IsNaN(q) || math.IsInf(q, -1) || c.find(parent, k.Token) >= 0 {
				continue
			}
			n := c.add(parent, k.Token)
			x := &c.nodes[n]
			x.levels, x.joint = int32(d+1), c.nodes[parent].joint*math.Exp(q)
			x.width = max(x.width, int32(rank+1))
			x.add(offset+fromDraft+min(rank, 1), math.Exp(q))
			nodes[i] = n
			rank++
		}
	}
	return nil
}

// score adds the lookups down to a depth after nodes of a least reach, and computes all probabilities.
func (c *candidates) score(h *history, a *acceptance, depth int, leastReach float64) {
	for i := 0; i < len(c.nodes); i++ {
		n := &c.nodes[i]
		if int(n.depth) < depth && n.reach >= leastReach {
			c.lookUp(int32(i), h)
		}
		n = &c.nodes[i]
		for k := n.child; k >= 0; k = c.nodes[k].next {
			x := &c.nodes[k]
			x.chance = a.estimate(&x.evidence)
			x.reach = n.reach * min(x.chance*a.Ratio.factor(), surest)
		}
	}
	c.order = c.order[:0]
	for i := range c.nodes[1:] {
		c.order = append(c.order, int32(i+1))
	}
	slices.SortStableFunc(c.order, func(a, b int32) int { return cmp.Compare(c.nodes[b].reach, c.nodes[a].reach) })
}

// likeliest returns the highest reach of the candidates.
func (c *candidates) likeliest() float64 {
	if len(c.order) == 0 {
		return 0
	}
	return c.nodes[c.order[0]].reach
}

// lookUp adds the history's guesses to the children of node n and scores them by it.
func (c *candidates) lookUp(n int32, h *history) {
	c.path = c.path[:0]
	for i := n; i > 0; i = c.nodes[i].parent {
		c.path = append(c.path, c.nodes[i].token)
	}
	slices.Reverse(c.path)
	guesses := h.after(c.path)
	if len(guesses) == 0 {
		return
	}
	for _, g := range guesses {
		k := c.find(n, g.token)
		if k < 0 {
			k = c.add(n, g.token)
		}
		c.nodes[k].add(fromLookup, g.score)
	}
	for k := c.nodes[n].child; k >= 0; k = c.nodes[k].next {
		if x := &c.nodes[k]; !x.has(fromLookup) {
			x.add(notLookedUp, leastChance)
		}
	}
}

// sizes yields the rows at the ends of the stairs, as far as there are candidates, and the tokens that they are
// expected to bring.
func (c *candidates) sizes(ladder []int, yield func(rows int, tokens float64)) {
	e, at := 1.0, 1
	for _, end := range ladder {
		for ; at < end && at <= len(c.order); at++ {
			e += c.nodes[c.order[at-1]].reach
		}
		yield(at, e)
		if at > len(c.order) {
			break
		}
	}
}

// best returns the number of rows, at the end of a stair, with the largest E - price·T_v, and that value.
// Held by TestTreesEndAtTheEndsOfStairs.
func (c *candidates) best(ladder []int, price float64, verify func(rows int) float64) (rows int, value float64) {
	value = math.Inf(-1)
	c.sizes(ladder, func(n int, tokens float64) {
		if v := tokens - price*verify(n); v > value {
			rows, value = n, v
		}
	})
	return rows, value
}

// bestRate returns the most tokens a second that verifying some of the candidates is expected to bring.
func (c *candidates) bestRate(ladder []int, verify func(rows int) float64) (most float64) {
	c.sizes(ladder, func(n int, tokens float64) { most = max(most, tokens/verify(n)) })
	return most
}

// build makes a tree of the rows-1 likeliest candidates, in the order of their addition. It contains the parents of
// its nodes, because parents are likelier than their children.
func (c *candidates) build(rows int) *spec.Tree {
	c.index = c.index[:0]
	for range c.nodes {
		c.index = append(c.index, -1)
	}
	for _, n := range c.order[:min(rows-1, len(c.order))] {
		c.index[n] = 0
	}
	c.tree.Reset(c.nodes[0].token)
	c.index[0] = 0
	for i := 1; i < len(c.nodes); i++ {
		if n := &c.nodes[i]; c.index[i] == 0 {
			c.index[i] = c.tree.Add(c.index[n.parent], n.token, float32(math.Log(max(n.reach, 1e-30))))
		}
	}
	return &c.tree
}

// drafted returns how many tokens of a text a joint run would have committed, and the rows of its tree: the draft's
// best candidates by its own ranking, within levels and rows. Where the text ends within the tree, it adds the expected
// rest.
func (c *candidates) drafted(levels, rows int, text []int32) (tokens float64, n int) {
	c.open = c.open[:0]
	for i := range c.nodes[1:] {
		if x := &c.nodes[i+1]; x.joint > 0 && int(x.levels) <= levels {
			c.open = append(c.open, int32(i+1))
		}
	}
	c.rank(rows - 1)
	at := int32(0)
	for i, token := range text {
		if at = c.find(at, token); at < 0 || !slices.Contains(c.open, at) {
			return float64(i + 1), 1 + len(c.open)
		}
	}
	below := 0.0
	for _, n := range c.open {
		for k := n; k > at; k = c.nodes[k].parent {
			if c.nodes[k].parent == at {
				below += c.nodes[n].reach / c.nodes[at].reach
			}
		}
	}
	return float64(len(text)+1) + below, 1 + len(c.open)
}

// accepted returns the draft's beams along an accepted path of the last built tree, down to the last token that the
// draft consumed.
func (c *candidates) accepted(path []int32) []int32 {
	c.beams = c.beams[:0]
	at := int32(0)
	for _, node := range path[1:] {
		if at = c.find(at, c.tree.Tokens[node]); at < 0 || c.nodes[at].beam < 0 {
			break
		}
		c.beams = append(c.beams, c.nodes[at].beam)
	}
	return c.beams
}

// learn updates the estimates with the committed tokens.
func (c *candidates) learn(a *acceptance, tokens []int32) {
	at := int32(0)
	for _, token := range tokens {
		expected, found := 0.0, int32(-1)
		for k := c.nodes[at].child; k >= 0; k = c.nodes[k].next {
			x := &c.nodes[k]
			expected += x.chance
			if x.token == token {
				found = k
			}
		}
		for k := c.nodes[at].child; k >= 0; k = c.nodes[k].next {
			a.learn(&c.nodes[k].evidence, k == found)
		}
		if c.nodes[at].child >= 0 {
			a.Ratio.learn(min(expected, surest), found >= 0)
		}
		if found < 0 {
			return
		}
		at = found
	}
}

// survey updates a profile with the expected yield of each narrower, shallower draft of this round. weight, in (0, 1],
// is the share of this round in the updated estimates.
func (c *candidates) survey(p *profile, width, levels int, weight float64) {
	levels = min(levels, p.Depth)
	latest, known := 0.0, 0.0 // yield of the largest of them that the rows hold completely, and its estimate
	for w, beams := range p.Widths {
		if beams > width {
			break
		}
		for d := 1; d <= levels; d++ {
			sum, at, size := 0.0, 1, 0
			for _, n := range c.order {
				x := &c.nodes[n]
				if int(x.width) > beams || int(x.levels) > d {
					continue
				}
				for ; size < len(p.Sizes) && at >= p.Sizes[size]; size++ {
					g := p.gain(w, d, size)
					*g += weight * (sum - *g)
				}
				sum += x.reach
				at++
			}
			for ; size < len(p.Sizes); size++ {
				g := p.gain(w, d, size)
				if d == levels && size == len(p.Sizes)-1 {
					latest, known = sum, *g
				}
				*g += weight * (sum - *g)
			}
		}
	}
	// Deeper and wider drafts move with the largest one within this draft, and contain the next smaller ones. Held by
	// TestBusyMachinesDoNotMislead and TestNeverSlowerThanPlainAndCloseToTheBest.
	scale := 1 + weight*((latest+0.02)/(known+0.02)-1)
	for w, beams := range p.Widths {
		for d := 1; d <= p.Depth; d++ {
			for size := range p.Sizes {
				if beams <= width && d <= levels {
					continue
				}
				g, within := p.gain(w, d, size), 0.0
				if d > 1 {
					within = *p.gain(w, d-1, size)
				}
				if w > 0 {
					within = max(within, *p.gain(w-1, d, size))
				}
				*g = max(*g*scale, within)
			}
		}
	}
	p.Seen++
}

// rank sorts open by the draft's own ranking and keeps the best k.
func (c *candidates) rank(k int) {
	slices.SortStableFunc(c.open, func(a, b int32) int { return cmp.Compare(c.nodes[b].joint, c.nodes[a].joint) })
	c.open = c.open[:min(k, len(c.open))]
}

// frontier returns the reach of the beams that the next level of the draft would follow: the best k of a level by the
// draft's own ranking.
func (c *candidates) frontier(level, k int) float64 {
	c.open = c.open[:0]
	for _, n := range c.first[level] {
		if n >= 0 {
			c.open = append(c.open, n)
		}
	}
	c.rank(k)
	sum := 0.0
	for _, n := range c.open {
		sum += c.nodes[n].reach
	}
	return sum
}
