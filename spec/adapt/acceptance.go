package adapt

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"foretoken/spec"
	"foretoken/spec/draft"
)

// StopThreshold returns h = (T_v - T_d(k)) / T_r: drafting k more levels pays while the probability that their prefix
// is rejected is at most h. tv is the time of a target pass, td the time of the k levels, and tr the extra cost of a
// rejection over an acceptance. If a rejection costs nothing there is no reason to stop: +Inf. At 1 or more drafting
// never stops, at 0 or less it stops at once.
func StopThreshold(tv, td, tr time.Duration) float64 {
	if tr <= 0 {
		return math.Inf(1)
	}
	return float64(tv-td) / float64(tr)
}

// AcceptanceStop decides from an acceptance head's estimates when to stop drafting. A token counts only if all
// tokens before it on its branch are accepted, so a branch is rejected with probability P_rej = 1-Π P_acc over the
// drafted tokens that the draft has consumed.
type AcceptanceStop struct {
	// H is the threshold. 0 computes it from measured times.
	H float64
	// Any stops when P_rej of one live branch exceeds the threshold; otherwise all branches must exceed it.
	Any bool
	// PerBranch ends each branch whose P_rej exceeds the threshold, while the others grow on.
	PerBranch bool
	// Times are of the passes before, which h is computed from.
	Times *PassTimes
}

// Threshold returns the current h.
func (a *AcceptanceStop) Threshold() float64 {
	if a.H > 0 {
		return a.H
	}
	return a.Times.threshold()
}

// Observe records the times of a round.
func (a *AcceptanceStop) Observe(e *spec.Event) { a.Times.observe(e) }

// stops reports whether drafting stops at threshold h. Element i of pathProbs is the probability that all tokens of
// live branch i are accepted.
func (a *AcceptanceStop) stops(h float64, pathProbs []float64) bool {
	least, most := math.Inf(1), math.Inf(-1)
	for _, p := range pathProbs {
		least, most = min(least, 1-p), max(most, 1-p)
	}
	if h <= 0 {
		return true
	}
	if a.Any {
		return most > h
	}
	return least > h
}

// PassTimes are moving averages of the times of a round's parts, readback included. They describe a device and a
// pair of models, so they outlive a request.
type PassTimes struct {
	verify draft.MeanTime // T_v: the target's pass over a draft, with acceptance
	level  draft.MeanTime // T_d(1): one level of a draft
	// wasted averages, over rounds that rejected a drafted token, the time of the levels below that token. The
	// token's own level is T_d(k), which h always charges.
	wasted draft.MeanTime
}

// threshold returns h for one more level. If the next level is accepted it saves a target pass. If it is rejected,
// the round loses that pass and the levels drafted on top of it, so T_r = T_v + wasted. Before the first
// measurement it is +Inf.
func (t *PassTimes) threshold() float64 {
	if t.verify.Count == 0 || t.level.Count == 0 {
		return math.Inf(1)
	}
	return StopThreshold(t.verify.Mean(), t.level.Mean(), t.verify.Mean()+t.wasted.Mean())
}

func (t *PassTimes) observe(e *spec.Event) {
	if e.Proposal == nil {
		return
	}
	levels := max(len(e.Levels), e.Proposal.Drafted)
	if levels == 0 {
		return
	}
	t.verify.Add(e.Verify)
	t.level.Add(e.Draft / time.Duration(levels))
	accepted := len(e.Path) - 1
	if accepted < e.Tree.Depth() && e.VerifiedDepth == e.Tree.Depth() {
		t.wasted.Add(e.Draft * time.Duration(max(levels-accepted-1, 0)) / time.Duration(levels))
	}
}

// AcceptanceDrafter grows EAGLE-2's tree level by level until AcceptanceStop ends it, and reranks the drafted
// nodes.
type AcceptanceDrafter struct {
	Model     spec.DraftModel // with an acceptance head: its levels carry Accepts
	Stop      *AcceptanceStop
	Uncoupled bool // see draft.TreeDrafter
}

var _ spec.Drafter = (*AcceptanceDrafter)(nil)

func (a *AcceptanceDrafter) Begin(ctx context.Context, o spec.SessionOptions) (spec.DraftSession, error) {
	session := &acceptanceSession{
		LevelSession: draft.NewLevelSession(a.Model, o, a.Uncoupled), stop: a.Stop,
	}
	return session, session.Prefill(ctx, o)
}

type acceptanceSession struct {
	draft.LevelSession
	stop      *AcceptanceStop
	run       draft.RunLength
	pathProbs []float64 // per live branch: Π P_acc of its tokens
	nextProbs []float64
}

func (a *acceptanceSession) Propose(ctx context.Context, seq []int32, b spec.Budget) (*spec.Draft, error) {
	width, most := a.Room(seq, b)
	if most < 0 {
		return a.ProposeRoot(seq), nil
	}
	a.pathProbs = append(a.pathProbs[:0], 1)
	h, fed := a.stop.Threshold(), a.run.Next(most+1, 0)-1
	if a.stop.PerBranch {
		return a.proposeBranches(ctx, seq, b.Nodes, width, most, h)
	}
	if h > 0 { // the root is never rejected, so the first pass after it is certain
		fed = min(max(fed, 1), most)
	}
	levels, err := a.DraftTree(ctx, seq, fed, width)
	if err != nil {
		return nil, err
	}
	depth := 0
	for ; ; depth++ {
		if len(levels) != fed+1 {
			return nil, fmt.Errorf("spec: the draft model returned %d levels after %d passes", len(levels), fed)
		}
		if depth > 0 {
			if err := a.gather(levels, depth); err != nil {
				return nil, err
			}
		}
		if depth >= most || a.stop.stops(h, a.pathProbs) {
			break
		}
		if depth < fed {
			continue
		}
		more := a.run.Next(most+1, len(levels))
		if levels, err = a.Model.Extend(ctx, spec.Extension{Passes: more}); err != nil {
			return nil, err
		}
		fed += more
	}
	// The levels drafted beyond the stop are dropped.
	return a.ProposeTree(seq, b.Nodes, spec.Draft{Levels: levels[:depth+1], Drafted: len(levels)})
}

// proposeBranches drafts level by level. Each pass takes the best width candidates of the branches that may still be
// accepted at threshold h; the tree ends where there are none, or after most passes.
func (a *acceptanceSession) proposeBranches(ctx context.Context, seq []int32, nodes, width, most int,
	h float64) (*spec.Draft, error) {
	levels, err := a.DraftTree(ctx, seq, 0, width)
	if err != nil {
		return nil, err
	}
	values := []float32{0} // V of each beam
	for depth := 0; ; depth++ {
		if len(levels) != depth+1 {
			return nil, fmt.Errorf("spec: the draft model returned %d levels after %d passes", len(levels), depth)
		}
		if depth > 0 {
			if err := a.gather(levels, depth); err != nil {
				return nil, err
			}
		}
		if depth >= most || h <= 0 {
			break
		}
		beams, next := a.grow(levels[depth].Candidates, values, width, h)
		if len(beams) == 0 {
			break
		}
		if levels, err = a.Model.Extend(ctx, spec.Extension{Beams: beams}); err != nil {
			return nil, err
		}
		values = next
	}
	return a.ProposeTree(seq, nodes, spec.Draft{Levels: levels, Drafted: len(levels)})
}

// grow returns the best width candidates, by V, of the beams whose P_rej is at most h, and their values. values holds V
// of the beams. Equal ones keep the order of candidates.
func (a *acceptanceSession) grow(candidates []spec.Candidate, values []float32, width int,
	h float64) (beams []int32, next []float32) {
	for i, c := range candidates {
		if 1-a.pathProbs[c.Beam] <= h {
			beams = append(beams, int32(i))
		}
	}
	value := func(i int32) float32 { return values[candidates[i].Beam] + candidates[i].LogQ }
	slices.SortStableFunc(beams, func(x, y int32) int { return cmp.Compare(value(y), value(x)) })
	beams = beams[:min(width, len(beams))]
	for _, i := range beams {
		next = append(next, value(i))
	}
	return beams, next
}

func (a *acceptanceSession) Observe(e *spec.Event) {
	a.stop.Observe(e)
	a.run.Observe(e)
}

// gather computes the acceptance probabilities of the beams that proposed level d from their parents' probabilities.
func (a *acceptanceSession) gather(levels []spec.Level, d int) error {
	above, accepts := &levels[d-1], levels[d].Accepts
	if len(accepts) != len(above.Beams) {
		return fmt.Errorf("spec: level %d of the draft has %d beams and %d acceptance estimates; prepare the draft "+
			"with an acceptance head", d, len(above.Beams), len(accepts))
	}
	a.nextProbs = a.nextProbs[:0]
	for i, b := range above.Beams {
		if int(b) >= len(above.Candidates) || int(above.Candidates[b].Beam) >= len(a.pathProbs) {
			return fmt.Errorf("spec: beam %d of level %d of the draft has no parent", i, d-1)
		}
		a.nextProbs = append(a.nextProbs, a.pathProbs[above.Candidates[b].Beam]*chance(accepts[i]))
	}
	a.pathProbs, a.nextProbs = a.nextProbs, a.pathProbs
	return nil
}

// chance clamps an estimate to [0, 1]. It returns 1 if there is no estimate.
func chance(p float32) float64 {
	if math.IsNaN(float64(p)) {
		return 1
	}
	return min(max(float64(p), 0), 1)
}

// AcceptanceRule ends a chain when AcceptanceStop rejects its one branch. It stops after a token and never because
// of the next token's value, so it works with every verifier of chains.
type AcceptanceRule struct {
	AcceptanceStop
	Budget spec.Budget
}

var (
	_ draft.ChainRule = (*AcceptanceRule)(nil)
	_ spec.Learner    = (*AcceptanceRule)(nil)
)

// Start keeps Times, which outlive a request.
func (a *AcceptanceRule) Start() {}

func (a *AcceptanceRule) NextBudget(spec.Budget) spec.Budget { return a.Budget }

// Stop implements ChainRule. The last token has no estimate yet because the draft has not consumed it.
func (a *AcceptanceRule) Stop(drawn []spec.Drawn) bool {
	pathProb := 1.0
	for _, d := range drawn[:len(drawn)-1] {
		pathProb *= chance(d.Accept)
	}
	return a.stops(a.Threshold(), []float64{pathProb})
}
