package main

import (
	"math"

	"foretoken/spec"
)

// maxPruned bounds the drafted but unverified tokens in an event: EAGLE-2 drafts 510 and verifies 59.
const maxPruned = 32

// pruned are drafted tokens that the target was not asked about, best first: those of them with the greatest V.
type pruned struct {
	Tokens  []int32   `json:"tokens"`
	Texts   []string  `json:"texts"`
	Parents []int32   `json:"parents"` // node of the tree; from the tree's length on, of this list
	Scores  []float32 `json:"scores"`  // V, the sum of ln q along the path
	Total   int       `json:"total"`   // how many there were
}

// drafted compares what was drafted with what was verified. Its memory is reused from round to round.
type draftTrace struct {
	values []float32 // V of every candidate, levels one after the other
	parent []int32   // candidate that each was proposed after, -1: the root
	node   []int32   // node of the tree that each became, -1: none
	best   []int32   // the reported pruned candidates
	place  []int32   // of each candidate among best, -1: none
}

// compare adds to an event's tree the entropies in nats after each node, of the target and of the draft (-1 where
// unknown), and the pruned candidates without their texts.
func (d *draftTrace) compare(t *tree, e *spec.Event) {
	t.Entropies, t.DraftEntropies = t.Entropies[:0], t.DraftEntropies[:0]
	p := &t.Pruned
	p.Tokens, p.Texts, p.Parents, p.Scores, p.Total = p.Tokens[:0], p.Texts[:0], p.Parents[:0], p.Scores[:0], 0
	if e.Tree == nil || e.Proposal == nil {
		return
	}
	for i := range min(len(e.Outputs), e.Tree.Len()) {
		t.Entropies = append(t.Entropies, e.Outputs[i].Entropy)
	}
	if len(e.Levels) == 0 && len(e.Proposal.Drawn) == 0 {
		return
	}
	for range e.Tree.Tokens {
		t.DraftEntropies = append(t.DraftEntropies, -1)
	}
	for i, drawn := range e.Proposal.Drawn {
		if i < len(t.DraftEntropies) {
			t.DraftEntropies[i] = drawn.Entropy // of the distribution that node i+1 was drawn from
		}
	}
	d.follow(t, e)
	for i, c := range d.best {
		under := int32(0)
		if from := d.parent[c]; from >= 0 {
			if under = d.node[from]; under < 0 {
				under = int32(e.Tree.Len()) + d.place[from]
			}
		}
		d.place[c] = int32(i)
		p.Parents, p.Scores = append(p.Parents, under), append(p.Scores, d.values[c])
		p.Tokens = append(p.Tokens, token(e.Levels, c))
	}
}

// follow finds the node of each candidate, the draft's entropies and the best pruned candidates. Of candidates with
// equal V the earlier goes first, so a parent precedes its children.
func (d *draftTrace) follow(t *tree, e *spec.Event) {
	d.values, d.parent, d.node, d.best, d.place = d.values[:0], d.parent[:0], d.node[:0], d.best[:0], d.place[:0]
	above := 0
	for depth, l := range e.Levels {
		first := len(d.values)
		beam := func(b int32) int32 { // the candidate that beam b of this level's proposers is
			if depth == 0 || int(b) >= len(e.Levels[depth-1].Beams) {
				return -1
			}
			return int32(above) + e.Levels[depth-1].Beams[b]
		}
		for b, h := range l.Entropies {
			node := int32(0)
			if from := beam(int32(b)); from >= 0 {
				node = d.node[from]
			} else if depth > 0 {
				continue
			}
			if node >= 0 {
				t.DraftEntropies[node] = h
			}
		}
		for _, c := range l.Candidates {
			from, value, node := beam(c.Beam), min(c.LogQ, 0), int32(0)
			if from >= 0 {
				value += d.values[from]
				node = d.node[from]
			}
			if node >= 0 {
				node = e.Tree.Child(node, c.Token)
			}
			at := int32(len(d.values))
			d.values, d.parent, d.node, d.place = append(d.values, value), append(d.parent, from), append(d.node, node),
				append(d.place, -1)
			if node < 0 && !math.IsInf(float64(value), 0) && value == value {
				t.Pruned.Total++
				d.insertBest(at)
			}
		}
		above = first
	}
}

// keep takes candidate c into the best, if it is one of them.
func (d *draftTrace) insertBest(c int32) {
	i := len(d.best)
	if i == maxPruned {
		if i--; d.values[d.best[i]] >= d.values[c] {
			return
		}
	} else {
		d.best = append(d.best, c)
	}
	for ; i > 0 && d.values[d.best[i-1]] < d.values[c]; i-- {
		d.best[i] = d.best[i-1]
	}
	d.best[i] = c
}

// token returns the token of candidate c, counted over all levels.
func token(levels []spec.Level, c int32) int32 {
	for _, l := range levels {
		if int(c) < len(l.Candidates) {
			return l.Candidates[c].Token
		}
		c -= int32(len(l.Candidates))
	}
	return 0
}
