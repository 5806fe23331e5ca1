package spec

import (
	"context"
	"fmt"
	"math"
	"time"
)

// ChainRule ends a chain while it is drafted. It is the round's policy as well: Plan
// says how many tokens the round may draft, as Budget.Levels with a Width of 1,
// and Observe tells it what became of them. A rule with a state of its own per
// request implements Starter.
//
// A rule stops after a token and never takes one back, so every verifier of chains
// stays what it is: the decision depends on tokens already drafted and on past
// rounds only.
type ChainRule interface {
	Policy
	// Stop tells whether drafting ends after the last of drawn, the tokens of the chain so
	// far. It is asked once for every token, in order. Accept of the last token
	// is not known yet and NaN, as it is everywhere without an acceptance head. The
	// slice is valid during the call.
	Stop(drawn []Drawn) bool
}

// ChainCutter is a ChainRule that also refuses tokens: the chain ends before the first
// one that Keep refuses. Dropping a token for what it is changes the output of
// verifiers that rely on x ~ q, so only ranked chains take such a rule.
type ChainCutter interface {
	ChainRule
	// Keep tells whether the last of drawn stays in the chain; asked before Stop.
	Keep(drawn []Drawn) bool
}

// wholeChain is the length up to which chains are always drafted in one go, before their rule is asked: a trip to the device
// costs as much as the few tokens that are thrown away.
const wholeChain = 4

// pace says how many tokens of a chain, or levels of a tree, to draft in one go, so that most rounds take two runs: the draft's and the
// target's. What is proposed does not depend on it.
type pace struct {
	fixed  int     // a drafter's Ahead
	kept   float64 // tokens that the rule left of the last chains, a moving average
	verify average // a pass of the target
	level  average // drafting one token
}

// next is how many tokens to draft of a chain of up to most, so many of which are there. It is whole where what is thrown away costs
// less than a pass of the target. Otherwise it is drafted as far as the last ones came, and where that was too
// little the rest follows at once; token by token, where one costs half as much as that pass.
func (p *pace) next(most, drafted int) int {
	verify, level := float64(p.verify.value()), float64(p.level.value())
	switch {
	case p.fixed > 0:
		return min(p.fixed, most-drafted)
	case p.verify.n == 0 || most <= wholeChain:
		return most - drafted
	case level > 0 && 2*level >= verify:
		return 1
	case drafted > 0 || (float64(most)-p.kept)*level < verify:
		return most - drafted
	}
	return min(1+int(math.Ceil(p.kept)), most)
}

// observe learns from a round.
func (p *pace) observe(e *Event) {
	d := e.Proposal
	if d == nil || d.Drafted == 0 {
		return
	}
	p.verify.add(e.Verify)
	p.level.add(e.Draft / time.Duration(d.Drafted))
	kept := float64(d.Tree.Depth())
	if p.verify.n == 1 {
		p.kept = kept
	}
	p.kept += (kept - p.kept) / 4
}

// RankedChain drafts the draft's best token again and again, until the rule or the
// budget ends it.
type RankedChain struct {
	Model Grower
	Rule  ChainRule
	// Ahead is how many tokens are drafted in one go before the rule is asked about them; 0: all of them
	// where that costs little, or as many as the rule mostly leaves. What is proposed does not depend on it.
	Ahead int
	// Uncoupled ranks by ln q alone; see TreeDrafter.
	Uncoupled bool
}

var (
	_ Drafter       = (*RankedChain)(nil)
	_ ReadbackTimer = (*RankedChain)(nil)
)

// Begin implements Drafter.
func (r *RankedChain) Begin(ctx context.Context, prompt []int32, s Sampling, progress func(int)) (DraftSession, error) {
	session := &rankedSession{
		treeDraft: treeDraft{feed: feed{model: r.Model}, coupled: s.Temperature > 0 && !r.Uncoupled, sampling: s},
		grower:    r.Model, rule: ruled{rule: r.Rule}, pace: pace{fixed: r.Ahead},
	}
	return session, session.begin(ctx, prompt, progress)
}

// ReadbackTime is the model's.
func (r *RankedChain) ReadbackTime() time.Duration { return readback(r.Model) }

type rankedSession struct {
	treeDraft
	grower Grower
	rule   ruled
	pace   pace
	shown  []Drawn // what the levels say of the tokens
}

func (r *rankedSession) Propose(ctx context.Context, seq []int32, b Budget) (*Draft, error) {
	root := seq[len(seq)-1]
	r.drafted = false
	most := min(b.Levels, b.Nodes-1, r.levels(seq, 1))
	if most < 1 || b.Width < 1 {
		r.lone.Reset(root)
		r.draft = Draft{Tree: &r.lone}
		return &r.draft, nil
	}
	pending, err := r.pending(ctx, seq)
	if err != nil {
		return nil, err
	}
	levels, err := r.grower.DraftTree(ctx, DraftRequest{
		Pending: pending, Depth: r.pace.next(most, 0) - 1, K: 1, Coupled: r.coupled, Sampling: r.sampling,
	})
	if err != nil {
		return nil, err
	}
	if err := r.consumed(seq); err != nil {
		return nil, err
	}
	for first := true; ; first = false {
		before := len(levels)
		if r.rule.ask(r.show(levels), most, first) {
			break
		}
		if levels, err = r.grower.Grow(ctx, r.pace.next(most, before)); err != nil {
			return nil, err
		}
		if len(levels) <= before {
			return nil, fmt.Errorf("spec: the draft model grew a chain of %d tokens to %d", before, len(levels))
		}
	}
	tree, err := r.builder.Build(root, levels, len(r.rule.kept)+1)
	if err != nil {
		return nil, err
	}
	r.drafted = true
	r.draft = Draft{Tree: tree, Levels: levels, Drawn: r.rule.kept, Drafted: len(levels)}
	return &r.draft, nil
}

// Observe implements Observer.
func (r *rankedSession) Observe(e *Event) { r.pace.observe(e) }

// show gives what is known of the tokens of a chain of levels, down to the first
// level that proposes nothing.
func (r *rankedSession) show(levels []Level) []Drawn {
	r.shown = r.shown[:0]
	for i := range levels {
		l := &levels[i]
		if len(l.Candidates) == 0 || !(l.Candidates[0].LogQ > float32(math.Inf(-1))) {
			break
		}
		d := Drawn{Token: l.Candidates[0].Token, Prob: float32(math.Exp(float64(l.Candidates[0].LogQ))), Accept: float32(math.NaN())}
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

// ruled applies a rule to the tokens of a chain, each once, however many are drafted at
// a time.
type ruled struct {
	rule  ChainRule // nil: nothing ends the chain
	whole bool      // no token is refused
	kept  []Drawn   // tokens that are in the chain, as far as the rule was asked
}

// ask shows the rule the tokens it has not seen, and tells whether the chain is complete:
// the rule ended it, it has most tokens, or the draft had no more to offer.
func (r *ruled) ask(drawn []Drawn, most int, first bool) (complete bool) {
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
		if cutter, ok := r.rule.(ChainCutter); ok && !r.whole && !cutter.Keep(r.kept) {
			r.kept = r.kept[:last]
			return true
		}
		stop := r.rule != nil && r.rule.Stop(r.kept)
		r.kept[last].Accept = known
		if stop || len(r.kept) >= most {
			return true
		}
	}
	return false
}
