package trace

import (
	"math"

	"foretoken/spec"
)

// comparison compares what was drafted with what was verified. Its memory is reused from round to round.
type comparison struct {
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

// fill writes a round's tree over t, without texts.
func (d *comparison) fill(t *Tree, e *spec.Event) {
	t.Tokens, t.Parents = append(t.Tokens[:0], e.Tree.Tokens...), append(t.Parents[:0], e.Tree.Parents...)
	t.Depths, t.Scores = append(t.Depths[:0], e.Tree.Depths...), append(t.Scores[:0], e.Tree.Scores...)
	t.Path = append(t.Path[:0], e.Path...)
	t.Entropies, t.DraftEntropies = t.Entropies[:0], t.DraftEntropies[:0]
	p := &t.Pruned
	p.Tokens, p.Parents, p.Scores, p.Total = p.Tokens[:0], p.Parents[:0], p.Scores[:0], 0
	t.Bin, t.Phi = 0, 0
	if len(e.Outputs) >= t.Len() {
		for i := range t.Tokens {
			t.Entropies = append(t.Entropies, e.Outputs[i].Entropy)
		}
	}
	if e.Proposal == nil {
		return
	}
	t.Bin, t.Phi = e.Proposal.Bin, e.Proposal.Phi
	if len(e.Levels) == 0 && len(e.Proposal.Drawn) == 0 {
		return
	}
	for range t.Tokens {
		t.DraftEntropies = append(t.DraftEntropies, -1)
	}
	for i, drawn := range e.Proposal.Drawn {
		if i < len(t.DraftEntropies) {
			t.DraftEntropies[i] = drawn.Entropy // of the distribution that node i+1 was drawn from
		}
	}
	d.follow(t, e.Levels)
	for i, c := range d.best {
		under := int32(0)
		at := &d.all[c]
		if at.parent >= 0 {
			if under = d.all[at.parent].node; under < 0 {
				under = int32(t.Len()) + d.all[at.parent].place
			}
		}
		at.place = int32(i)
		p.Tokens = append(p.Tokens, at.token)
		p.Parents, p.Scores = append(p.Parents, under), append(p.Scores, at.value)
	}
}

// follow finds the node of each candidate, the draft's entropies and the best pruned candidates. Of candidates with
// equal V the earlier goes first, so a parent precedes its children.
func (d *comparison) follow(t *Tree, levels []spec.Level) {
	d.all, d.best = d.all[:0], d.best[:0]
	above := 0
	for depth, l := range levels {
		first := len(d.all)
		beam := func(b int32) int32 { // the candidate that beam b of this level's proposers is
			if depth == 0 || int(b) >= len(levels[depth-1].Beams) {
				return -1
			}
			return int32(above) + levels[depth-1].Beams[b]
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
				node = t.Child(node, c.Token)
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
func (d *comparison) insertBest(c int32) {
	i := len(d.best)
	if i == MaxPruned {
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
