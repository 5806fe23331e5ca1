package spec

import (
	"fmt"
	"math"
)

// candidates is a tree of all tokens that were proposed in a round, by the draft and by
// what followed before, with the chance of each, and of it the part to verify.
type candidates struct {
	nodes []candidate
	first [][]int32 // of each level of the draft, the node of every candidate, -1: none
	path  []int32
	kids  []int32
	order []int32 // nodes but the root by reach, likeliest first
	reach []float64
	index []int32 // of every node, its node of the tree built last, -1: none
	beams []int32
	tree  Tree

	// Of frontier: the nodes of a level and their joint probabilities.
	joints []float64
	open   []int32
}

// candidate is a proposed token.
type candidate struct {
	token, parent, depth int32
	child, next          int32 // first child and next sibling, -1: none
	evidence
	chance float64 // a: of being accepted if the parent is
	reach  float64 // of the whole path
	joint  float64 // Π q along the path, where the draft proposed all of it
	level  int32   // of the draft, -1: not proposed by it
	beam   int32   // among the level's beams that were fed, -1: none
	fed    bool    // the draft proposed what follows
	// The narrowest and shallowest draft that would have held the node.
	width, levels int32
	// rooted is how many tokens, before the path began, the place that it was looked up at has in common with the text: those
	// of the path are guesses themselves.
	rooted int32
}

// reset makes it a lone root.
func (c *candidates) reset(root int32) {
	c.nodes = append(c.nodes[:0], candidate{token: root, parent: -1, child: -1, next: -1, chance: 1, reach: 1, joint: 1, level: -1, beam: -1, width: 1})
	c.first = c.first[:0]
	c.order = c.order[:0]
}

func (c *candidates) add(parent, token int32) int32 {
	p := &c.nodes[parent]
	n := int32(len(c.nodes))
	c.nodes = append(c.nodes, candidate{token: token, parent: parent, depth: p.depth + 1, child: -1, next: p.child, level: -1, beam: -1, width: p.width, levels: p.levels})
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

// resized is s with n elements, whatever they are.
func resized(s []int32, n int) []int32 {
	if cap(s) < n {
		return make([]int32, n)
	}
	return s[:n]
}

// levels adds what the draft proposed, with what a classifier says of it, if there is one.
func (c *candidates) levels(levels []Level, c2t *C2TClassifier) error {
	for d := range levels {
		l := &levels[d]
		if len(c.first) < cap(c.first) {
			c.first = c.first[:len(c.first)+1]
		} else {
			c.first = append(c.first, nil)
		}
		nodes := resized(c.first[d], len(l.Candidates))
		c.first[d] = nodes
		rank, last := 0, int32(-1)
		for i, k := range l.Candidates {
			if k.Beam != last {
				rank, last = 0, k.Beam
			}
			nodes[i] = -1
			parent := int32(0)
			if d > 0 {
				if k.Beam < 0 || int(k.Beam) >= len(levels[d-1].Beams) || int(levels[d-1].Beams[k.Beam]) >= len(c.first[d-1]) {
					return fmt.Errorf("spec: candidate %d of level %d names beam %d of %d", i, d, k.Beam, len(levels[d-1].Beams))
				}
				if parent = c.first[d-1][levels[d-1].Beams[k.Beam]]; parent < 0 {
					continue
				}
			} else if k.Beam != 0 {
				return fmt.Errorf("spec: candidate %d of the draft's first level names beam %d", i, k.Beam)
			}
			if p := &c.nodes[parent]; !p.fed {
				p.fed, p.beam = true, k.Beam
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
			x.level, x.levels, x.joint = int32(d), int32(d+1), c.nodes[parent].joint*math.Exp(q)
			x.width = max(x.width, int32(rank+1))
			x.add(fromDraft, math.Exp(q), uint8(min(rank, 1)))
			if c2t != nil && int(k.Beam) < len(l.Entropies) {
				x.add(fromC2T, c2t.Confidence(C2TFeatures{Probability: x.joint, Entropy: float64(l.Entropies[k.Beam]), Depth: d + 1}), 0)
			}
			nodes[i] = n
			rank++
		}
		if d == 0 {
			continue
		}
		for b, from := range levels[d-1].Beams { // an acceptance head knows what the draft was fed
			if n := c.first[d-1][from]; n >= 0 && b < len(l.Accepts) && l.Accepts[b] == l.Accepts[b] {
				c.nodes[n].add(fromHead, float64(l.Accepts[b]), 0)
			}
		}
	}
	return nil
}

// score adds what followed before and works out every chance, to a depth and a number of
// nodes that bound the search.
func (c *candidates) score(h *history, a *acceptance, depth, most int) {
	const leastReach = 0.01 // of nodes whose successors are looked up
	for i := 0; i < len(c.nodes); i++ {
		n := &c.nodes[i]
		if int(n.depth) < depth && n.reach >= leastReach && (n.fed || len(c.nodes) < most) {
			c.lookUp(int32(i), h, len(c.nodes) < most)
		}
		n = &c.nodes[i]
		sum := 0.0
		for k := n.child; k >= 0; k = c.nodes[k].next {
			x := &c.nodes[k]
			x.chance = a.trusted(&x.evidence)
			sum += x.chance
		}
		for k := n.child; k >= 0; k = c.nodes[k].next {
			x := &c.nodes[k]
			if sum > surest { // one of them at most is accepted
				x.chance *= surest / sum
			}
			x.reach = n.reach * x.chance
		}
	}
	c.reach = c.reach[:0]
	for i := range c.nodes[1:] {
		c.reach = append(c.reach, c.nodes[i+1].reach)
	}
	c.order = ordered(c.order, c.reach)
	for i := range c.order {
		c.order[i]++
	}
}

// lookUp adds what followed before after node n, or only its say on what is there.
func (c *candidates) lookUp(n int32, h *history, grow bool) {
	c.path = c.path[:0]
	for i := n; i > 0; i = c.nodes[i].parent {
		c.path = append(c.path, c.nodes[i].token)
	}
	for i, j := 0, len(c.path)-1; i < j; i, j = i+1, j-1 {
		c.path[i], c.path[j] = c.path[j], c.path[i]
	}
	guesses := h.after(c.path)
	if len(guesses) == 0 {
		return
	}
	for rank, g := range guesses {
		k := c.find(n, g.token)
		if k < 0 {
			if !grow {
				continue
			}
			k = c.add(n, g.token)
			if c.nodes[n].fed {
				c.nodes[k].evidence.add(fromDraft, c.unlisted(n), 2)
			}
		}
		x := &c.nodes[k]
		if x.rooted = max(g.order-int32(len(c.path)), 1); c.nodes[n].rooted > 0 {
			x.rooted = c.nodes[n].rooted
		}
		x.evidence.add(fromLookup, min(g.score, 1), lookupClass(rank, x.rooted))
	}
	for k := c.nodes[n].child; k >= 0; k = c.nodes[k].next {
		if x := &c.nodes[k]; x.sources>>fromLookup&1 == 0 {
			x.evidence.add(fromLookup, leastChance, 2)
		}
	}
}

// unlisted is a score for tokens that the draft did not propose after n: no more than its
// worst proposal, nor than what it left.
func (c *candidates) unlisted(n int32) float64 {
	left, worst := 1.0, 1.0
	for k := c.nodes[n].child; k >= 0; k = c.nodes[k].next {
		if x := &c.nodes[k]; x.sources>>fromDraft&1 == 1 && x.class[fromDraft] < 2 {
			left -= x.scores[fromDraft]
			worst = min(worst, x.scores[fromDraft])
		}
	}
	return max(min(left/2, worst), 1e-4)
}

// expected is how many tokens a pass brings in the mean when it verifies the rows-1
// likeliest candidates: E = 1 + Σ reach.
func (c *candidates) expected(rows int) float64 {
	e := 1.0
	for _, n := range c.order[:min(rows-1, len(c.order))] {
		e += c.nodes[n].reach
	}
	return e
}

// best gives the number of rows, at the end of a stair, that makes E - price·T_v largest, and
// that value.
func (c *candidates) best(ladder []int, price float64, verify func(rows int) float64) (rows int, value float64) {
	value = math.Inf(-1)
	e, at := 1.0, 1
	for _, end := range ladder {
		for ; at < end && at <= len(c.order); at++ {
			e += c.nodes[c.order[at-1]].reach
		}
		if v := e - price*verify(min(end, at)); v > value {
			rows, value = min(end, at), v
		}
		if at > len(c.order) {
			break
		}
	}
	return rows, value
}

// build makes a tree of the rows-1 likeliest candidates, in the order they were added.
// Parents are likelier than their children, so they are among them.
func (c *candidates) build(rows int) *Tree {
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

// accepted gives the draft's beams along an accepted path of the tree built last, as far
// down as the draft was fed them.
func (c *candidates) accepted(path []int32) []int32 {
	c.beams = c.beams[:0]
	at := int32(0)
	for _, node := range path[1:] {
		if at = c.find(at, c.tree.Tokens[node]); at < 0 || c.nodes[at].beam < 0 || c.nodes[at].level < 0 {
			break
		}
		c.beams = append(c.beams, c.nodes[at].beam)
	}
	return c.beams
}

// foresaw tells whether the draft's first choice after the root was token.
func (c *candidates) foresaw(token int32) bool {
	n := c.find(0, token)
	return n >= 0 && c.nodes[n].level == 0 && c.nodes[n].class[fromDraft] == 0
}

// learn compares the chances with the tokens that were committed.
func (c *candidates) learn(a *acceptance, tokens []int32) {
	at := int32(0)
	for _, token := range tokens {
		var expected [2]float64
		var any, hit [2]bool
		found := int32(-1)
		for k := c.nodes[at].child; k >= 0; k = c.nodes[k].next {
			x := &c.nodes[k]
			which := trustOf(&x.evidence)
			expected[which] += a.estimate(&x.evidence)
			any[which] = true
			if x.token == token {
				found, hit[which] = k, true
			}
		}
		for k := c.nodes[at].child; k >= 0; k = c.nodes[k].next {
			a.learn(&c.nodes[k].evidence, k == found)
		}
		for i := range a.Trusts {
			if any[i] {
				a.Trusts[i].learn(min(expected[i], surest), hit[i], memories[i])
			}
		}
		if found < 0 {
			return
		}
		at = found
	}
}

// survey takes the drafted candidates into a profile: what each narrower, shallower draft of
// the same round would have been expected to bring.
func (c *candidates) survey(p *profile, width, levels int, weight float64) {
	news, known := 0.0, 0.0
	for w, beams := range p.Widths {
		if beams > width {
			break
		}
		var first, before, full, added, base float64
		for d := 1; d <= min(levels, p.Depth); d++ {
			sum, at, size := 0.0, 1, 0
			for _, n := range c.order {
				x := &c.nodes[n]
				if int(x.width) > beams || int(x.levels) > d {
					continue
				}
				for size < len(p.Sizes) && at >= p.Sizes[size] {
					g := p.gain(w, d, size)
					*g += weight * (sum - *g)
					size++
				}
				if size == len(p.Sizes) {
					break
				}
				sum += x.reach
				at++
			}
			for ; size < len(p.Sizes); size++ {
				g := p.gain(w, d, size)
				if d == min(levels, p.Depth) && size == len(p.Sizes)-1 {
					news, known = sum, *g
				}
				*g += weight * (sum - *g)
				full = sum
			}
			if d > 1 {
				added, base = added+full-before, base+before-first
			}
			first, before = before, full
		}
		if base > 1e-3 {
			p.Fade[w] += weight * (min(max(added/base, 0), 0.95) - p.Fade[w])
		}
	}
	// Deeper drafts go on as this one did; wider ones, of which it says nothing, move with the
	// largest that it tells of.
	ratio := min(max((news+0.02)/(known+0.02), 0.2), 3)
	kin := 0.6
	if p.Seen < 6 {
		kin = 0.8 // they are guesses
	}
	scale := 1 + weight*kin*(ratio-1)
	for w, beams := range p.Widths {
		for d := 1; d <= p.Depth; d++ {
			if beams <= width && d <= levels {
				continue
			}
			for size := range p.Sizes {
				g := p.gain(w, d, size)
				if beams > width {
					*g *= scale
					continue
				}
				*g += weight * (p.deeper(w, levels, d, size) - *g)
			}
		}
	}
	p.Seen++
	c.goesOn(p, width, levels, weight)
}

// deeper is the gain of d levels when that of known ones is known: each further one adds as
// much less than the one before as the draft loses its way from level to level, as far as
// the rows reach.
func (p *profile) deeper(width, known, d, size int) float64 {
	gain := *p.gain(width, known, size)
	last := gain
	if known > 1 {
		last -= *p.gain(width, known-1, size)
	}
	fit := int(float64(p.Sizes[size]-1) / (1 + 0.4*float64(p.Widths[width]-1)))
	return gain + max(last, 0)*series(p.Fade[width], min(d, fit)-known)
}

// goesOn learns how much of one level's reach the next has.
func (c *candidates) goesOn(p *profile, width, levels int, weight float64) {
	w := -1
	for i, beams := range p.Widths {
		if beams <= width {
			w = i
		}
	}
	if w < 0 {
		return
	}
	above := 1.0
	for d := 1; d <= levels; d++ {
		sum, fed := 0.0, 0.0
		for i := range c.nodes[1:] {
			if n := &c.nodes[i+1]; int(n.level) == d-1 {
				sum += n.reach
				if n.fed {
					fed += n.reach
				}
			}
		}
		if above > 1e-6 {
			p.Reach[w] += weight / float64(levels) * (min(sum/above, 1) - p.Reach[w])
		}
		above = fed
	}
}

// frontier is the reach of the beams that the next level of the draft would follow, the
// best k of the last level by the draft's own ranking.
func (c *candidates) frontier(level, k int) float64 {
	c.joints, c.open = c.joints[:0], c.open[:0]
	for i := range c.nodes[1:] {
		if n := &c.nodes[i+1]; int(n.level) == level {
			c.joints, c.open = append(c.joints, n.joint), append(c.open, int32(i+1))
		}
	}
	c.beams = ordered(c.beams, c.joints)
	sum := 0.0
	for _, i := range c.beams[:min(k, len(c.beams))] {
		sum += c.nodes[c.open[i]].reach
	}
	return sum
}
