package spec

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"
)

// ShapedTree grows a tree of one shape every round. Shape[d][r] is how many children the
// node of rank r at depth d has; ranks number the places of a level from 0, those
// of the first parent's children before those of the second's. Without a Sampler
// the children are the draft's best, and with one they are drawn without
// replacement, in that order, so that WithoutReplacement may verify the tree. At
// temperature 0 there is nothing to draw, and both are the same.
//
// A place that the draft has no token for, for want of tokens with a chance above 0,
// stays empty with all below it; the others keep their ranks.
type ShapedTree struct {
	Model   Grower
	Sampler TreeSampler // Model itself, where children are drawn
	Shape   [][]int
	// Uncoupled ranks by ln q alone; see TreeDrafter. Draws are never coupled.
	Uncoupled bool
}

var (
	_ Drafter       = (*ShapedTree)(nil)
	_ ReadbackTimer = (*ShapedTree)(nil)
	_ JointSession  = (*shapedSession)(nil)
)

// static sets a tree of the draft's best.
func (c Config) static(p *Parts, draft DraftModel) error {
	grower, err := c.grower(draft)
	if err != nil {
		return err
	}
	p.Drafter = &ShapedTree{Model: grower, Shape: c.Shape, Uncoupled: c.uncoupled()}
	return nil
}

// sampledTree sets a tree of the draft's draws.
func (c Config) sampledTree(p *Parts, draft DraftModel) error {
	sampler, ok := draft.(TreeSampler)
	if !ok {
		return errors.New("spec: the sampled drafter needs a draft model that draws without replacement, and this one does not")
	}
	p.Drafter = &ShapedTree{Model: sampler, Sampler: sampler, Shape: c.Shape, Uncoupled: c.uncoupled()}
	return nil
}

// Begin implements Drafter.
func (t *ShapedTree) Begin(ctx context.Context, prompt []int32, s Sampling, progress func(int)) (DraftSession, error) {
	session := &shapedSession{feed: feed{model: t.Model}, shape: t.Shape, grower: t.Model, sampling: s}
	lim := t.Model.Limits()
	session.k = min(Config{Drafter: DrafterStatic, Shape: t.Shape}.Budget().Width, lim.TopK, lim.MaxRows)
	if s.Temperature > 0 {
		session.sampler = t.Sampler
		session.coupled = !t.Uncoupled && t.Sampler == nil
	}
	session.request.Build = session.build
	return session, session.begin(ctx, prompt, progress)
}

// ReadbackTime is the model's.
func (t *ShapedTree) ReadbackTime() time.Duration { return readback(t.Model) }

type shapedSession struct {
	feed
	grower   Grower
	sampler  TreeSampler // nil: ranked
	shape    [][]int
	k        int // candidates per beam, the same every round: the width that models are prepared for
	coupled  bool
	sampling Sampling

	plan    [][]int // the shape as far as this round's budget goes
	tree    Tree
	draft   Draft
	rows    []int32
	beam    []int32 // of each node, its place among the beams of its level; -1: not fed
	beams   []int32
	drafted bool
	request JointRequest
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

// cut makes s.plan of the shape: no more levels, children, beams and nodes than the budget
// and the draft's cache have room for, nodes counted in order of levels and ranks.
func (s *shapedSession) cut(seq []int32, b Budget) {
	s.plan = s.plan[:0]
	lim := s.model.Limits()
	width := min(b.Width, lim.TopK, lim.MaxRows)
	room := lim.Context - len(seq) // for beams fed after the root
	if room < 0 || width < 1 {
		return
	}
	nodes, places := b.Nodes-1, 1
	for d := 0; d < min(len(s.shape), b.Levels) && nodes > 0; d++ {
		var ranks []int
		if d < cap(s.plan) {
			ranks = s.plan[:d+1][d][:0]
		}
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
		s.plan = append(s.plan, ranks)
		places = children
	}
}

func (s *shapedSession) Propose(ctx context.Context, seq []int32, b Budget) (*Draft, error) {
	s.tree.Reset(seq[len(seq)-1])
	s.draft = Draft{Tree: &s.tree}
	s.drafted = false
	s.cut(seq, b)
	if len(s.plan) == 0 {
		return &s.draft, nil
	}
	pending, err := s.pending(ctx, seq)
	if err != nil {
		return nil, err
	}
	if shaper, ok := s.model.(Shaper); ok && s.asks(seq, b) && shaper.Shapes(&s.request) {
		s.request.Pending = pending
		levels, err := shaper.DraftShaped(ctx, &s.request)
		if err != nil {
			return nil, err
		}
		if err := s.consumed(seq); err != nil {
			return nil, err
		}
		tree, err := s.build(levels)
		if err != nil {
			return nil, err
		}
		return s.joined(tree, levels), nil
	}
	r := DraftRequest{Pending: pending, K: s.k, Coupled: s.coupled, Sampling: s.sampling}
	var levels []Level
	if s.sampler != nil {
		r.Depth = len(s.plan) - 1
		levels, err = s.sampler.SampleTree(ctx, r)
	} else {
		levels, err = s.model.DraftTree(ctx, r)
	}
	if err != nil {
		return nil, err
	}
	if err := s.consumed(seq); err != nil {
		return nil, err
	}
	s.sprout()
	for d, ranks := range s.plan {
		if len(levels) != d+1 {
			return nil, fmt.Errorf("spec: the draft model gave %d levels, want %d", len(levels), d+1)
		}
		s.place(&levels[d], ranks, s.row)
		if d+1 == len(s.plan) {
			break
		}
		if !s.choose(s.plan[d+1]) {
			break
		}
		if levels, err = s.grower.Expand(ctx, s.beams); err != nil {
			return nil, err
		}
	}
	s.drafted = true
	s.draft.Levels = levels
	if s.sampler != nil {
		s.draft.TreeSampler, s.draft.Rows = s.sampler, s.rows
	}
	return &s.draft, nil
}

// sprout begins a tree of levels.
func (s *shapedSession) sprout() {
	s.rows, s.beam = append(s.rows[:0], -1), append(s.beam[:0], -1)
	s.level = append(s.level[:0], place{})
	s.row, s.fed = 0, 1
}

// ProposeVerify implements JointSession: the shape says beforehand which candidates are beams and nodes.
func (s *shapedSession) ProposeVerify(ctx context.Context, seq []int32, b Budget, target JointTarget) (*Draft, []NodeOutput, error) {
	if !s.asks(seq, b) || !target.Joins(s.model, &s.request) {
		return nil, nil, nil
	}
	if err := s.begun(ctx, seq); err != nil {
		return nil, nil, err
	}
	tree, levels, out, err := target.DraftVerify(ctx, s.model, &s.request)
	if err != nil {
		return nil, nil, err
	}
	d := s.joined(tree, levels)
	return d, out, s.consumed(seq)
}

// drawVerify is Propose and the target's VerifySampled in one run, of children that are drawn; without a draft it has done nothing.
func (s *shapedSession) drawVerify(ctx context.Context, seq []int32, b Budget, target JointTreeTarget, v *Verdict) (*Draft, error) {
	if !s.asks(seq, b) || !target.JoinsSampled(s.sampler, &s.request) {
		return nil, nil
	}
	if err := s.begun(ctx, seq); err != nil {
		return nil, err
	}
	tree, levels, verdicts, err := target.DraftVerifySampled(ctx, s.sampler, &s.request)
	if err != nil {
		return nil, err
	}
	if err := s.consumed(seq); err != nil {
		return nil, err
	}
	d := s.joined(tree, levels)
	if verdicts == nil {
		return d, WithoutReplacement{}.Verify(ctx, target, d, s.sampling, v)
	}
	return d, v.descend(tree, verdicts)
}

// asks sets the request for what a budget has room for, but for its pending tokens, and tells whether there is anything to draft.
func (s *shapedSession) asks(seq []int32, b Budget) bool {
	s.drafted = false
	if s.cut(seq, b); len(s.plan) == 0 {
		return false
	}
	s.foresee()
	s.request.DraftRequest = DraftRequest{Depth: len(s.plan) - 1, K: s.k, Coupled: s.coupled, Sampling: s.sampling}
	s.request.Nodes, s.request.Drawn = 1+len(s.request.Chosen), s.sampler != nil
	return true
}

// begun is what comes before the models' run.
func (s *shapedSession) begun(ctx context.Context, seq []int32) (err error) {
	s.request.Pending, err = s.pending(ctx, seq)
	s.tree.Reset(seq[len(seq)-1])
	return err
}

// joined is the draft that came of a joint run.
func (s *shapedSession) joined(tree *Tree, levels []Level) *Draft {
	s.drafted = true
	s.draft = Draft{Tree: tree, Levels: levels}
	if s.sampler != nil {
		s.draft.TreeSampler, s.draft.Rows = s.sampler, s.rows
	}
	return &s.draft
}

// foresee finds the beams and the nodes of the plan where the draft has a token for every place.
func (s *shapedSession) foresee() {
	beams, chosen := s.request.Beams[:0], s.request.Chosen[:0]
	rows, children := append(s.request.Rows[:0], -1), append(s.request.Children[:0], 0)
	row, proposing := int32(0), int32(1) // the number of the first distribution that a level is proposed from, and how many there are
	s.level = append(s.level[:0], place{})
	for d, ranks := range s.plan {
		next, first, fed := s.next[:0], int32(0), int32(0)
		if d > 0 {
			first = int32(s.k + (d-1)*s.k*s.k)
		}
		var own []int32
		if d+1 < len(s.plan) {
			if d < cap(beams) {
				own = beams[:d+1][d][:0]
			}
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
				if rank := len(next); d+1 < len(s.plan) && rank < len(s.plan[d+1]) && s.plan[d+1][rank] > 0 {
					p.beam, fed, own = fed, fed+1, append(own, c)
				}
				next = append(next, p)
			}
		}
		if d+1 < len(s.plan) {
			beams = append(beams, own)
		}
		row, proposing = row+proposing, fed
		s.level, s.next = next, s.level
	}
	s.request.Beams, s.request.Chosen = beams, chosen
	s.request.Rows, s.request.Children = rows, children
}

// build makes the tree of levels whose beams were foreseen.
func (s *shapedSession) build(levels []Level) (*Tree, error) {
	if len(levels) != len(s.plan) {
		return nil, fmt.Errorf("spec: the draft model gave %d levels, want %d", len(levels), len(s.plan))
	}
	s.sprout()
	for d, ranks := range s.plan {
		s.place(&levels[d], ranks, s.row)
		if d+1 == len(s.plan) || !s.choose(s.plan[d+1]) {
			break
		}
		if !slices.Equal(s.beams, levels[d].Beams) { // the draft had no token for a place
			for n := range s.beam {
				if s.tree.Depths[n] == int32(d+1) {
					s.beam[n] = -1
				}
			}
			break
		}
	}
	return &s.tree, nil
}

// place makes nodes of a level's candidates: for the place of rank r above, the first
// ranks[r] that its beam proposed. row numbers the distribution of the level's first
// beam.
func (s *shapedSession) place(l *Level, ranks []int, row int32) {
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
				p.node = s.tree.Add(above.node, c.Token, s.tree.Scores[above.node]+min(c.LogQ, 0))
				s.rows, s.beam = append(s.rows, -1), append(s.beam, -1)
				s.rows[above.node] = row + above.beam
				i++
			}
			next = append(next, p)
		}
	}
	s.level, s.next = next, s.level
}

// possible tells whether a candidate may become a child of node: it has a chance and its
// token is not there yet.
func (s *shapedSession) possible(node int32, c *Candidate) bool {
	return c.LogQ > float32(math.Inf(-1)) && s.tree.Child(node, c.Token) < 0
}

// choose makes s.beams of the places that are to have children, and tells whether there are
// any.
func (s *shapedSession) choose(ranks []int) bool {
	s.beams = s.beams[:0]
	for r, n := range ranks {
		if p := &s.level[r]; n > 0 && p.node >= 0 {
			p.beam = int32(len(s.beams))
			s.beam[p.node] = p.beam
			s.beams = append(s.beams, p.candidate)
		}
	}
	s.row, s.fed = s.row+s.fed, int32(len(s.beams))
	return len(s.beams) > 0
}

func (s *shapedSession) Commit(path []int32) error {
	if !s.drafted {
		return nil
	}
	s.drafted = false
	s.beams = s.beams[:0]
	for _, n := range path[1:] {
		if s.beam[n] < 0 {
			break
		}
		s.beams = append(s.beams, s.beam[n])
	}
	return s.commit(s.beams)
}
