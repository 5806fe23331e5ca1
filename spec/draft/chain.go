package draft

import (
	"context"
	"fmt"
	"math"
	"time"

	"foretoken/spec"
)

// ChainRule ends a chain while it is drafted. It is also the round's policy: NextBudget says how many tokens the round
// may draft, as Budget.Levels with a Width of 1. A rule with state is a spec.Learner too.
//
// A rule's decision depends only on tokens already drafted and on past rounds. As long as the chain ends after the
// last of them, every verifier of chains stays exact; see RankedChain.Cut.
type ChainRule interface {
	spec.Policy
	// Stop reports whether drafting ends after the last of drawn, the tokens of the chain so far. It is called once
	// per token, in order. Accept of the last token is not known yet and NaN, as it always is without an acceptance
	// head. The slice is valid during the call.
	Stop(drawn []spec.Drawn) bool
}

// MinRun is the length up to which a chain is always drafted in one run, before its rule is asked: a round trip to
// the device costs as much as the few tokens that the rule may throw away.
const MinRun = 4

// RunLength chooses how many tokens of a chain, or levels of a tree, to draft in one run, so that most rounds take
// two runs: the draft's and the target's. The proposal does not depend on it.
type RunLength struct {
	Fixed  int      // a drafter's Ahead; 0: learnt
	kept   float64  // tokens that the rule left of the last chains, a moving average
	verify MeanTime // a pass of the target
	level  MeanTime // drafting one token
}

// Next returns how many tokens to draft next, given the longest chain and the tokens drafted so far. It returns all
// the rest if the tokens that the rule throws away cost less than a pass of the target. Otherwise it first drafts
// as many as recent chains kept, then all the rest; or one at a time, if a token costs at least half of that pass.
func (p *RunLength) Next(most, drafted int) int {
	verify, level := float64(p.verify.Mean()), float64(p.level.Mean())
	switch {
	case p.Fixed > 0:
		return min(p.Fixed, most-drafted)
	case p.verify.Count == 0 || most <= MinRun:
		return most - drafted
	case level > 0 && 2*level >= verify:
		return 1
	case drafted > 0 || (float64(most)-p.kept)*level < verify:
		return most - drafted
	}
	return min(1+int(math.Ceil(p.kept)), most)
}

// Observe learns from a round.
func (p *RunLength) Observe(e *spec.Event) {
	d := e.Proposal
	if d == nil || d.Drafted == 0 {
		return
	}
	p.verify.Add(e.Verify)
	p.level.Add(e.Draft / time.Duration(d.Drafted))
	kept := float64(d.Tree.Depth())
	if p.verify.Count == 1 {
		p.kept = kept
	}
	p.kept += (kept - p.kept) / 4
}

// MeanTime is an exponentially weighted moving average of durations; the first one counts in full.
type MeanTime struct {
	Count int // durations so far
	mean  float64
}

// newestWeight is the weight of the newest duration.
const newestWeight = 1.0 / 8

// Add takes in a duration.
func (m *MeanTime) Add(d time.Duration) {
	if m.Count++; m.Count == 1 {
		m.mean = float64(d)
		return
	}
	m.mean += newestWeight * (float64(d) - m.mean)
}

// Mean is the average, 0 before the first duration.
func (m *MeanTime) Mean() time.Duration { return time.Duration(m.mean) }

// RankedChain drafts the draft's best token again and again, until the rule or the budget ends it.
type RankedChain struct {
	Model spec.DraftModel
	Rule  ChainRule
	// Cut ends the chain before the token at which the rule stops. Dropping a token for its identity changes the
	// output of verifiers that rely on x ~ q, so sampled chains have no such option.
	Cut bool
	// Ahead is the number of tokens drafted in one go before the rule sees them; 0: all of them
	// where that costs little, or as many as the rule mostly leaves. What is proposed does not depend on it.
	Ahead int
	// Uncoupled ranks by ln q alone; see TreeDrafter.
	Uncoupled bool
}

var _ spec.Drafter = (*RankedChain)(nil)

func (r *RankedChain) Begin(ctx context.Context, o spec.SessionOptions) (spec.DraftSession, error) {
	session := &rankedSession{
		LevelSession: NewLevelSession(r.Model, o, r.Uncoupled),
		rule:         ruled{rule: r.Rule, cut: r.Cut}, run: RunLength{Fixed: r.Ahead},
	}
	return session, session.Prefill(ctx, o)
}

type rankedSession struct {
	LevelSession
	rule  ruled
	run   RunLength
	shown []spec.Drawn // the tokens of the levels
}

func (r *rankedSession) Propose(ctx context.Context, seq []int32, b spec.Budget) (*spec.Draft, error) {
	most := min(b.Levels, b.Nodes-1, r.Levels(len(seq), 1))
	if most < 1 || b.Width < 1 {
		return r.ProposeRoot(seq), nil
	}
	levels, err := r.DraftTree(ctx, seq, r.run.Next(most, 0)-1, 1)
	if err != nil {
		return nil, err
	}
	for first := true; ; first = false {
		before := len(levels)
		if r.rule.ask(r.show(levels), most, first) {
			break
		}
		if levels, err = r.Model.Extend(ctx, spec.Extension{Passes: r.run.Next(most, before)}); err != nil {
			return nil, err
		}
		if len(levels) <= before {
			return nil, fmt.Errorf("spec: the draft model grew a chain of %d tokens to %d", before, len(levels))
		}
	}
	kept := r.rule.kept
	return r.ProposeTree(seq, len(kept)+1, spec.Draft{Levels: levels, Drawn: kept, Drafted: len(levels)})
}

func (r *rankedSession) Observe(e *spec.Event) { r.run.Observe(e) }

// show returns the drafted tokens and their scores of levels, down to the first level that proposes nothing.
func (r *rankedSession) show(levels []spec.Level) []spec.Drawn {
	r.shown = r.shown[:0]
	for i := range levels {
		l := &levels[i]
		if len(l.Candidates) == 0 || !(l.Candidates[0].LogQ > float32(math.Inf(-1))) {
			break
		}
		d := spec.Drawn{
			Token:  l.Candidates[0].Token,
			Prob:   float32(math.Exp(float64(l.Candidates[0].LogQ))),
			Accept: float32(math.NaN()),
		}
		if len(l.Entropies) > 0 {
			d.Entropy = l.Entropies[0]
		}
		if i+1 < len(levels) && len(levels[i+1].Accepts) > 0 {
			d.Accept = levels[i+1].Accepts[0]
		}
		r.shown = append(r.shown, d)
	}
	return r.shown
}

// ruled applies a rule to the tokens of a chain, each once, however many are drafted at a time.
type ruled struct {
	rule ChainRule    // nil: nothing ends the chain
	cut  bool         // as in RankedChain
	kept []spec.Drawn // tokens that the rule has left in the chain so far
}

// ask shows the rule the tokens it has not seen and reports whether the chain is complete: the rule ended it, it
// has most tokens, or the draft had no more to offer.
func (r *ruled) ask(drawn []spec.Drawn, most int, first bool) (complete bool) {
	if first {
		r.kept = r.kept[:0]
	}
	if len(drawn) <= len(r.kept) {
		return true
	}
	copy(r.kept, drawn) // more may be known of earlier tokens by now
	for _, d := range drawn[len(r.kept):] {
		known := d.Accept
		d.Accept = float32(math.NaN()) // as if no other token had been drafted yet
		r.kept = append(r.kept, d)
		last := len(r.kept) - 1
		stop := r.rule != nil && r.rule.Stop(r.kept)
		r.kept[last].Accept = known
		if stop && r.cut {
			r.kept = r.kept[:last]
		}
		if stop || len(r.kept) >= most {
			return true
		}
	}
	return false
}
