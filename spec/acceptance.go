package spec

import (
	"context"
	"fmt"
	"math"
	"time"
)

// StopThreshold is h = (T_v - T_d(k)) / T_r: drafting k more levels pays while the chance
// that what they hang on is rejected is at most h. tv is the time of a target pass,
// td that of the levels, tr what a rejection costs beyond an acceptance. Where
// a rejection costs nothing there is no reason to stop: +Inf. At 1 or more nothing is
// ever hopeless, at 0 or less everything is.
func StopThreshold(tv, td, tr time.Duration) float64 {
	if tr <= 0 {
		return math.Inf(1)
	}
	return float64(tv-td) / float64(tr)
}

// AcceptanceStop decides, by an acceptance head's estimates, when drafting has become
// hopeless. Everything a branch hangs on must be accepted for its next token to count,
// so the chance that it is rejected is P_rej = 1-Π P_acc over its drafted tokens, as far as the
// draft consumed them.
type AcceptanceStop struct {
	// H is the threshold; 0: it is worked out of measured times.
	H float64
	// Any stops when one live branch is hopeless, and not when all are.
	Any bool

	times passTimes
}

// Threshold is the h in force.
func (a *AcceptanceStop) Threshold() float64 {
	if a.H > 0 {
		return a.H
	}
	return a.times.threshold()
}

// Observe learns what passes cost.
func (a *AcceptanceStop) Observe(e *Event) { a.times.observe(e) }

// hopeless tells whether drafting stops, given the chance that each live branch is
// accepted whole.
func (a *AcceptanceStop) hopeless(h float64, reach []float64) bool {
	least, most := math.Inf(1), math.Inf(-1)
	for _, p := range reach {
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

// passTimes are moving averages of what a round's parts cost, readback included. They
// belong to a device and a pair, so they outlive a request.
type passTimes struct {
	verify average // T_v: the target's pass over a draft, and the verdict
	level  average // T_d(1): one level of a draft
	// wasted is, over rounds in which a drafted token was rejected, the time of the levels
	// drafted beyond that token's. Its own level is not in it: that is T_d(k), which h
	// charges whatever becomes of it.
	wasted average
}

// threshold is h for one more level, the step between two looks at a draft. The next level
// saves a target pass if it is accepted. If it is rejected, that pass is not
// saved and what was drafted on top of it is thrown away, so
// T_r = T_v + wasted. Before anything was measured it is +Inf.
func (t *passTimes) threshold() float64 {
	if t.verify.n == 0 || t.level.n == 0 {
		return math.Inf(1)
	}
	return StopThreshold(t.verify.value(), t.level.value(), t.verify.value()+t.wasted.value())
}

func (t *passTimes) observe(e *Event) {
	if e.Proposal == nil {
		return
	}
	levels := max(len(e.Levels), e.Proposal.Drafted)
	if levels == 0 {
		return
	}
	t.verify.add(e.Verify)
	t.level.add(e.Draft / time.Duration(levels))
	accepted := len(e.Path) - 1
	if accepted < e.Tree.Depth() && e.Judged == e.Tree.Depth() {
		t.wasted.add(e.Draft * time.Duration(max(levels-accepted-1, 0)) / time.Duration(levels))
	}
}

// average is an exponentially weighted moving average; the first value counts in full.
type average struct {
	sum float64 // nanoseconds
	n   int
}

// averageWeight is that of the newest value.
const averageWeight = 1.0 / 8

func (a *average) add(d time.Duration) {
	if a.n++; a.n == 1 {
		a.sum = float64(d)
		return
	}
	a.sum += averageWeight * (float64(d) - a.sum)
}

func (a *average) value() time.Duration { return time.Duration(a.sum) }

// AcceptanceDrafter grows EAGLE-2's tree level by level until its branches are hopeless,
// and reranks what was drafted.
type AcceptanceDrafter struct {
	Model     Grower // with an acceptance head: its levels carry Accepts
	Stop      *AcceptanceStop
	Uncoupled bool // see TreeDrafter
}

var (
	_ Drafter       = (*AcceptanceDrafter)(nil)
	_ Observer      = (*AcceptanceDrafter)(nil)
	_ ReadbackTimer = (*AcceptanceDrafter)(nil)
)

// Begin implements Drafter.
func (a *AcceptanceDrafter) Begin(ctx context.Context, prompt []int32, s Sampling, progress func(int)) (DraftSession, error) {
	session := &acceptanceSession{
		treeDraft: treeDraft{feed: feed{model: a.Model}, coupled: s.Temperature > 0 && !a.Uncoupled, sampling: s},
		grower:    a.Model, stop: a.Stop,
	}
	return session, session.begin(ctx, prompt, progress)
}

// Observe implements Observer.
func (a *AcceptanceDrafter) Observe(e *Event) { a.Stop.Observe(e) }

// ReadbackTime is the model's.
func (a *AcceptanceDrafter) ReadbackTime() time.Duration { return readback(a.Model) }

type acceptanceSession struct {
	treeDraft
	grower Grower
	stop   *AcceptanceStop
	pace   pace
	reach  []float64 // per live branch: Π P_acc of its tokens
	next   []float64
}

func (a *acceptanceSession) Propose(ctx context.Context, seq []int32, b Budget) (*Draft, error) {
	root := seq[len(seq)-1]
	a.drafted = false
	lim := a.model.Limits()
	width := min(b.Width, lim.TopK, lim.MaxRows)
	most := min(b.Levels, a.levels(seq, width)) - 1
	if most < 0 || b.Nodes < 2 {
		a.lone.Reset(root)
		a.draft = Draft{Tree: &a.lone}
		return &a.draft, nil
	}
	pending, err := a.pending(ctx, seq)
	if err != nil {
		return nil, err
	}
	h, fed := a.stop.Threshold(), a.pace.next(most+1, 0)-1
	if h > 0 { // the root itself is never rejected, so the first pass after it is certain
		fed = min(max(fed, 1), most)
	}
	levels, err := a.grower.DraftTree(ctx, DraftRequest{Pending: pending, Depth: fed, K: width, Coupled: a.coupled, Sampling: a.sampling})
	if err != nil {
		return nil, err
	}
	if err := a.consumed(seq); err != nil {
		return nil, err
	}
	a.reach = append(a.reach[:0], 1)
	depth := 0
	for ; ; depth++ {
		if len(levels) != fed+1 {
			return nil, fmt.Errorf("spec: the draft model gave %d levels after %d passes", len(levels), fed)
		}
		if depth > 0 {
			if err := a.gather(levels, depth); err != nil {
				return nil, err
			}
		}
		if depth >= most || a.stop.hopeless(h, a.reach) {
			break
		}
		if depth < fed {
			continue
		}
		more := a.pace.next(most+1, len(levels))
		if levels, err = a.grower.Grow(ctx, more); err != nil {
			return nil, err
		}
		fed += more
	}
	drafted := len(levels)
	levels = levels[:depth+1] // as if no more had been drafted
	tree, err := a.builder.Build(root, levels, b.Nodes)
	if err != nil {
		return nil, err
	}
	a.drafted = true
	a.draft = Draft{Tree: tree, Levels: levels, Drafted: drafted}
	return &a.draft, nil
}

// Observe implements Observer.
func (a *acceptanceSession) Observe(e *Event) { a.pace.observe(e) }

// gather works out the chances of the beams that proposed level d from those of their parents.
func (a *acceptanceSession) gather(levels []Level, d int) error {
	above, accepts := &levels[d-1], levels[d].Accepts
	if len(accepts) != len(above.Beams) {
		return fmt.Errorf("spec: level %d of the draft has %d beams and %d acceptance estimates; load the draft with its acceptance head", d, len(above.Beams), len(accepts))
	}
	a.next = a.next[:0]
	for i, b := range above.Beams {
		if int(b) >= len(above.Candidates) || int(above.Candidates[b].Beam) >= len(a.reach) {
			return fmt.Errorf("spec: beam %d of level %d of the draft hangs on nothing", i, d-1)
		}
		a.next = append(a.next, a.reach[above.Candidates[b].Beam]*chance(accepts[i]))
	}
	a.reach, a.next = a.next, a.reach
	return nil
}

// chance is an estimate as a probability; 1 where there is none.
func chance(p float32) float64 {
	if math.IsNaN(float64(p)) {
		return 1
	}
	return min(max(float64(p), 0), 1)
}

// AcceptanceRule ends a chain when its one branch is hopeless. It stops after a
// token, never before one for what it is, so every verifier of chains may judge it.
type AcceptanceRule struct {
	AcceptanceStop
	Budget Budget
}

var _ ChainRule = (*AcceptanceRule)(nil)

// Plan implements Policy.
func (a *AcceptanceRule) Plan(Budget) Budget { return a.Budget }

// Stop implements ChainRule. The last token has no estimate yet: the draft has not consumed it.
func (a *AcceptanceRule) Stop(drawn []Drawn) bool {
	reach := 1.0
	for _, d := range drawn[:len(drawn)-1] {
		reach *= chance(d.Accept)
	}
	return a.hopeless(a.Threshold(), []float64{reach})
}

func (c Config) acceptanceStop() AcceptanceStop {
	return AcceptanceStop{H: c.Threshold, Any: c.Any}
}

// acceptance sets the drafter of an EAGLE-2 tree that an acceptance head stops.
func (c Config) acceptance(p *Parts, target Target, draft DraftModel) error {
	model, err := c.grower(draft)
	if err != nil {
		return err
	}
	stop := c.acceptanceStop()
	p.Drafter = &AcceptanceDrafter{Model: model, Stop: &stop, Uncoupled: c.uncoupled()}
	return nil
}

// acceptanceRule is the acceptance head's rule on a chain.
func (c Config) acceptanceRule() (ChainRule, error) {
	return &AcceptanceRule{AcceptanceStop: c.acceptanceStop(), Budget: c.Budget()}, nil
}
