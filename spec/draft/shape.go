package draft

import (
	"context"
	"fmt"
	"math"
	"slices"

	"foretoken/spec"
)

// ShapedTree grows a tree of one shape every round. Shape[d][r] is how many children the node of rank r at depth d
// has; ranks number the places of a level from 0, those of the first parent's children before those of the
// second's. The children are the draft's best or, if Drawn, drawn without replacement, in that order, so that
// WithoutReplacement may verify the tree. At temperature 0 there is nothing to draw, and both are the same.
//
// A place that the draft has no token for, for want of tokens with a chance above 0,
// stays empty with all below it; the others keep their ranks.
type ShapedTree struct {
	Model spec.DraftModel
	Shape [][]int
	Drawn bool
	// Uncoupled ranks by ln q alone; see TreeDrafter. Draws are never coupled.
	Uncoupled bool
}

var _ spec.Drafter = (*ShapedTree)(nil)

// ShapeBudget is the most that a tree of a shape may use.
func ShapeBudget(shape [][]int) spec.Budget {
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

func (t *ShapedTree) Begin(ctx context.Context, o spec.SessionOptions) (spec.DraftSession, error) {
	uncoupled := t.Uncoupled || t.Drawn
	session := &shapedSession{LevelSession: NewLevelSession(t.Model, o, uncoupled), shape: t.Shape}
	lim := t.Model.Limits()
	session.k = min(ShapeBudget(t.Shape).Width, lim.TopK, lim.MaxRows)
	session.drawn = t.Drawn && o.Sampling.Temperature > 0
	session.request.Build = session.build
	return session, session.Prefill(ctx, o)
}

type shapedSession struct {
	LevelSession
	drawn bool // children are drawn, not ranked
	shape [][]int
	k     int // candidates per beam, the same every round: the width that models are prepared for

	fitted  [][]int // the shape, cut to this round's budget
	rows    []int32
	beams   []int32 // candidates of the last level placed
	request spec.JointRequest
	row     int32   // the number of the last level's first distribution
	fed     int32   // how many it has
	level   []place // of the last level placed, by rank
	next    []place
}

// place is a place of a level.
type place struct {
	node      int32 // -1: empty
	candidate int32 // index into the level's
	beam      int32 // index into the beams of its level, -1: not fed
}

// cut makes s.fitted of the shape: no more levels, children, beams and nodes than the budget
// and the draft's cache have room for, nodes counted in order of levels and ranks.
func (s *shapedSession) cut(seq []int32, b spec.Budget) {
	s.fitted = s.fitted[:0]
	lim := s.Model.Limits()
	width := min(b.Width, lim.TopK, lim.MaxRows)
	room := lim.Context - len(seq) // for beams fed after the root
	if room < 0 || width < 1 {
		return
	}
	nodes, places := b.Nodes-1, 1
	for d := 0; d < min(len(s.shape), b.Levels) && nodes > 0; d++ {
		s.fitted = slices.Grow(s.fitted, 1)
		ranks := s.fitted[:d+1][d][:0]
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
		s.fitted = append(s.fitted, ranks)
		places = children
	}
}

func (s *shapedSession) Propose(ctx context.Context, seq []int32, b spec.Budget) (*spec.Draft, error) {
	if !s.asks(seq, b) {
		return &s.Draft, nil
	}
	// The shape says beforehand which candidates are beams and nodes.
	if s.pass == spec.PassOutputs || s.pass == spec.PassSampled && s.drawn {
		result, err := s.draftVerify(ctx, seq, &s.request)
		if err != nil {
			return nil, err
		}
		if result != nil {
			d := s.propose(result.Tree, result.Levels)
			if s.pass == spec.PassOutputs || result.Pass.Children != nil {
				d.Pass = &result.Pass
			}
			return d, nil
		}
	}
	var levels []spec.Level
	foreseen := false // the draft ran through all levels
	err := s.Consume(ctx, seq, func(pending []int32) (err error) {
		s.request.Pending = pending
		levels, err = s.Model.DraftShaped(ctx, &s.request)
		if foreseen = levels != nil; foreseen || err != nil {
			return err
		}
		r := s.request.DraftRequest
		if s.drawn {
			levels, err = s.Model.SampleTree(ctx, r)
			return err
		}
		r.Depth = 0
		levels, err = s.Model.DraftTree(ctx, r)
		return err
	})
	if err != nil {
		return nil, err
	}
	if foreseen {
		tree, err := s.build(levels)
		if err != nil {
			return nil, err
		}
		return s.propose(tree, levels), nil
	}
	s.beginTree()
	for d, ranks := range s.fitted {
		if len(levels) != d+1 {
			return nil, fmt.Errorf("spec: the draft model gave %d levels, want %d", len(levels), d+1)
		}
		s.place(&levels[d], ranks)
		if d+1 == len(s.fitted) || !s.choose(s.fitted[d+1]) {
			break
		}
		if levels, err = s.Model.Expand(ctx, s.beams); err != nil {
			return nil, err
		}
	}
	return s.propose(&s.Tree, levels), nil
}

// beginTree begins a tree of levels.
func (s *shapedSession) beginTree() {
	s.rows, s.level = append(s.rows[:0], -1), append(s.level[:0], place{})
	s.row, s.fed = 0, 1
}

// asks sets the request to a tree within the budget, without its pending tokens, and reports whether the tree has
// any drafted node.
func (s *shapedSession) asks(seq []int32, b spec.Budget) bool {
	s.ProposeRoot(seq)
	if s.cut(seq, b); len(s.fitted) == 0 {
		return false
	}
	s.fillRequest()
	s.request.DraftRequest = spec.DraftRequest{Depth: len(s.fitted) - 1, K: s.k, Coupled: s.Coupled,
		Sampling: s.Sampling}
	s.request.Nodes, s.request.Drawn = 1+len(s.request.Chosen), s.drawn
	return true
}

// propose proposes the tree of the levels.
func (s *shapedSession) propose(tree *spec.Tree, levels []spec.Level) *spec.Draft {
	s.Draft, s.UsedModel = spec.Draft{Tree: tree, Levels: levels}, true
	if s.drawn {
		s.Draft.Sampler, s.Draft.Rows = s.Model, s.rows
	}
	return &s.Draft
}

// fillRequest finds the beams and the nodes of the fitted shape where the draft has a token for every place.
func (s *shapedSession) fillRequest() {
	beams, chosen := s.request.Beams[:0], s.request.Chosen[:0]
	rows, children := append(s.request.Rows[:0], -1), append(s.request.Children[:0], 0)
	// row numbers the first distribution that a level is proposed from; proposing counts them.
	row, proposing := int32(0), int32(1)
	s.level = append(s.level[:0], place{})
	for d, ranks := range s.fitted {
		next, first, fed := s.next[:0], int32(0), int32(0)
		if d > 0 {
			first = int32(s.k + (d-1)*s.k*s.k)
		}
		if d+1 < len(s.fitted) {
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
				p := place{node: int32(len(rows)), candidate: c, beam: -1}
				chosen, rows, children = append(chosen, first+c), append(rows, -1), append(children, 0)
				if rank := len(next); d+1 < len(s.fitted) && rank < len(s.fitted[d+1]) && s.fitted[d+1][rank] > 0 {
					p.beam, fed, beams[d] = fed, fed+1, append(beams[d], c)
				}
				next = append(next, p)
			}
		}
		row, proposing = row+proposing, fed
		s.level, s.next = next, s.level
	}
	s.request.Beams, s.request.Chosen = beams, chosen
	s.request.Rows, s.request.Children = rows, children
}

// build makes the tree of levels whose beams were foreseen.
func (s *shapedSession) build(levels []spec.Level) (*spec.Tree, error) {
	if len(levels) != len(s.fitted) {
		return nil, fmt.Errorf("spec: the draft model gave %d levels, want %d", len(levels), len(s.fitted))
	}
	s.beginTree()
	for d, ranks := range s.fitted {
		s.place(&levels[d], ranks)
		if d+1 == len(s.fitted) || !s.choose(s.fitted[d+1]) {
			break
		}
		if !slices.Equal(s.beams, levels[d].Beams) { // the draft had no token for a place
			for n := range s.Beam {
				if s.Tree.Depths[n] == int32(d+1) {
					s.Beam[n] = -1
				}
			}
			break
		}
	}
	return &s.Tree, nil
}

// place makes nodes of a level's candidates: for the place of rank r above, the first ranks[r] that its beam
// proposed.
func (s *shapedSession) place(l *spec.Level, ranks []int) {
	next := s.next[:0]
	for r, n := range ranks {
		above := s.level[r]
		i := 0
		if above.node >= 0 && above.beam >= 0 {
			for i < len(l.Candidates) && l.Candidates[i].Beam < above.beam {
				i++
			}
		} else {
			i = len(l.Candidates) // an empty place has no children
		}
		for range n {
			p := place{node: -1, candidate: int32(i), beam: -1}
			// Candidates without a chance come last and are no tokens of the tree.
			if i < len(l.Candidates) && l.Candidates[i].Beam == above.beam && s.possible(above.node, &l.Candidates[i]) {
				c := &l.Candidates[i]
				p.node = s.Tree.Add(above.node, c.Token, s.Tree.Scores[above.node]+min(c.LogQ, 0))
				s.rows, s.Beam = append(s.rows, -1), append(s.Beam, -1)
				s.rows[above.node] = s.row + above.beam
				i++
			}
			next = append(next, p)
		}
	}
	s.level, s.next = next, s.level
}

// possible reports whether a candidate may become a child of node: it has a chance, and node has no child with its
// token.
func (s *shapedSession) possible(node int32, c *spec.Candidate) bool {
	return c.LogQ > float32(math.Inf(-1)) && s.Tree.Child(node, c.Token) < 0
}

// choose sets s.beams to the places that get children and reports whether there are any.
func (s *shapedSession) choose(ranks []int) bool {
	s.beams = s.beams[:0]
	for r, n := range ranks {
		if p := &s.level[r]; n > 0 && p.node >= 0 {
			p.beam = int32(len(s.beams))
			s.Beam[p.node] = p.beam
			s.beams = append(s.beams, p.candidate)
		}
	}
	s.row, s.fed = s.row+s.fed, int32(len(s.beams))
	return len(s.beams) > 0
}
