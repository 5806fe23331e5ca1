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

// draftTrace compares what was drafted with what was verified. Its memory is reused from round to round.
type draftTrace struct {
	all  []candidate // levels one after the other
	best []int32     // the reported pruned candidates
}

type candidate struct {
	token  int32
	value  float32 // V
	parent int32   // candidate that it was proposed after, -1: the root
	node   int32   // of the tree that it became, -1: none
	place  int32   // among the reported, if it is one of them
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
		at := &d.all[c]
		if at.parent >= 0 {
			if under = d.all[at.parent].node; under < 0 {
				under = int32(e.Tree.Len()) + d.all[at.parent].place
			}
		}
		at.place = int32(i)
		p.Parents, p.Scores = append(p.Parents, under), append(p.Scores, at.value)
		p.Tokens = append(p.Tokens, at.token)
	}
}

// follow finds the node of each candidate, the draft's entropies and the best pruned candidates. Of candidates with
// equal V the earlier goes first, so a parent precedes its children.
func (d *draftTrace) follow(t *tree, e *spec.Event) {
	d.all, d.best = d.all[:0], d.best[:0]
	above := 0
	for depth, l := range e.Levels {
		first := len(d.all)
		beam := func(b int32) int32 { // the candidate that beam b of this level's proposers is
			if depth == 0 || int(b) >= len(e.Levels[depth-1].Beams) {
				return -1
			}
			return int32(above) + e.Levels[depth-1].Beams[b]
		}
		for b, h := range l.Entropies {
			node := int32(0)
			if from := beam(int32(b)); from >= 0 {
				node = d.all[from].node
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
				value += d.all[from].value
				node = d.all[from].node
			}
			if node >= 0 {
				node = e.Tree.Child(node, c.Token)
			}
			d.all = append(d.all, candidate{token: c.Token, value: value, parent: from, node: node})
			if node < 0 && !math.IsInf(float64(value), 0) && value == value {
				t.Pruned.Total++
				d.insertBest(int32(len(d.all) - 1))
			}
		}
		above = first
	}
}

// insertBest takes candidate c into the best, if it is one of them.
func (d *draftTrace) insertBest(c int32) {
	i := len(d.best)
	if i == maxPruned {
		if i--; d.all[d.best[i]].value >= d.all[c].value {
			return
		}
	} else {
		d.best = append(d.best, c)
	}
	for ; i > 0 && d.all[d.best[i-1]].value < d.all[c].value; i-- {
		d.best[i] = d.best[i-1]
	}
	d.best[i] = c
}
