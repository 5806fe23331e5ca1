package draft

import (
	"context"
	"slices"

	"foretoken/spec"
)

// StaticTree grows a tree of the same shape every round. Shape[d][r] is how many children the node of rank r at depth d
// has; ranks number the places of a level from 0, the first parent's children before the second's. The children are the
// draft's best or, if Drawn, drawn without replacement, in that order, so that WithoutReplacement may verify the tree.
// At temperature 0 there is nothing to draw, and both are the same.
//
// A place that the draft has no token for, for want of tokens with a chance above 0,
// stays empty with all below it; the others keep their ranks.
type StaticTree struct {
	Model spec.DraftModel
	Shape [][]int
	Drawn bool
	// Uncoupled ranks by ln q alone; see TreeDrafter. Draws are never coupled.
	Uncoupled bool
}

var _ spec.Drafter = (*StaticTree)(nil)

// StaticBudget returns what a tree of this shape uses at most.
func StaticBudget(shape [][]int) spec.Budget {
	b := spec.Budget{Levels: len(shape), Nodes: 1}
	for _, ranks := range shape {
		b.Width = max(b.Width, len(ranks))
		for _, n := range ranks {
			b.Nodes += n
			b.Width = max(b.Width, n)
		}
	}
	return b
}

func (t *StaticTree) Begin(ctx context.Context, o spec.SessionOptions) (spec.DraftSession, error) {
	uncoupled := t.Uncoupled || t.Drawn
	session := &staticSession{LevelSession: NewLevelSession(t.Model, o, uncoupled), shape: t.Shape}
	lim := t.Model.Limits()
	session.k = min(StaticBudget(t.Shape).Width, lim.TopK, lim.MaxRows)
	session.drawn = t.Drawn && o.Sampling.Temperature > 0
	return session, session.Prefill(ctx, o)
}

type staticSession struct {
	LevelSession
	drawn bool // children are drawn, not ranked
	shape [][]int
	k     int // candidates per beam, the same every round: the width that models are prepared for

	kept  [][]int     // the shape, cut to this round's budget
	asked spec.Layout // the same, as the request has it
	level []place     // of a level of asked, by rank
	next  []place
}

// place is a place of a level.
type place struct {
	node int32 // its number among all places
	beam int32 // index into the beams of its level, -1: none
}

// cut makes s.kept of the shape: no more levels, children, beams and nodes than the budget and the draft's cache have
// room for, nodes counted in order of levels and ranks.
func (s *staticSession) cut(seq []int32, b spec.Budget) {
	s.kept = s.kept[:0]
	lim := s.Model.Limits()
	width := min(b.Width, lim.TopK, lim.MaxRows)
	room := lim.Context - len(seq) // for beams fed after the root
	if room < 0 || width < 1 {
		return
	}
	nodes, places := b.Nodes-1, 1
	for d := 0; d < min(len(s.shape), b.Levels) && nodes > 0; d++ {
		s.kept = slices.Grow(s.kept, 1)
		ranks := s.kept[:d+1][d][:0]
		beams, children := 0, 0
		for r := 0; r < min(len(s.shape[d]), places); r++ {
			n := min(s.shape[d][r], width, nodes)
			if d > 0 && n > 0 && (beams == width || room == 0) {
				n = 0
			}
			if n > 0 {
				beams++
				if d > 0 {
					room--
				}
			}
			ranks = append(ranks, n)
			children += n
			nodes -= n
		}
		if children == 0 {
			return
		}
		s.kept = append(s.kept, ranks)
		places = children
	}
}

func (s *staticSession) Propose(ctx context.Context, seq []int32, b spec.Budget) (*spec.Draft, error) {
	if s.cut(seq, b); len(s.kept) == 0 {
		return s.ProposeRoot(seq), nil
	}
	s.ask()
	s.request = spec.DraftRequest{Depth: len(s.kept) - 1, K: s.k, Nodes: 1 + len(s.asked.Chosen), Coupled: s.Coupled,
		Sampling: s.Sampling, Drawn: s.drawn, Layout: &s.asked}
	return s.proposeDraft(ctx, seq, s.pass == spec.PassOutputs || s.pass == spec.PassSampled && s.drawn)
}

// ask makes s.asked of s.kept.
func (s *staticSession) ask() {
	a := &s.asked
	beams, chosen := a.Beams[:0], a.Chosen[:0]
	rows, children := append(a.Rows[:0], -1), append(a.Children[:0], 0)
	// row numbers the first distribution that a level is proposed from; proposing counts them.
	row, proposing := int32(0), int32(1)
	s.level = append(s.level[:0], place{})
	for d, ranks := range s.kept {
		next, first, fed := s.next[:0], int32(spec.FirstCandidate(d, s.k)), int32(0)
		if d+1 < len(s.kept) {
			beams = slices.Grow(beams, 1)[:d+1]
			beams[d] = beams[d][:0]
		}
		for r, n := range ranks {
			above := s.level[r]
			if n > 0 {
				rows[above.node], children[above.node] = row+above.beam, int32(n)
			}
			for i := range n {
				c := above.beam*int32(s.k) + int32(i)
				p := place{node: int32(len(rows)), beam: -1}
				chosen, rows, children = append(chosen, first+c), append(rows, -1), append(children, 0)
				if rank := len(next); d+1 < len(s.kept) && rank < len(s.kept[d+1]) && s.kept[d+1][rank] > 0 {
					p.beam, fed, beams[d] = fed, fed+1, append(beams[d], c)
				}
				next = append(next, p)
			}
		}
		row, proposing = row+proposing, fed
		s.level, s.next = next, s.level
	}
	a.Beams, a.Chosen, a.Rows, a.Children = beams, chosen, rows, children
}
