package goodput

import (
	"context"
	"slices"

	"foretoken/spec"
)

// opening is the start of drafting in a session. What passes cost is then predicted, or was timed at another time, when
// the machine may have been busier or idler. So until rounds were timed, Goodput drafts chains whose length follows
// from the files, and neither goes without them nor drafts more because of such costs. Rounds of plain decoding between
// them show what drafting gains.
type opening struct {
	chains [MostModels]chain // by the files
	drafts [MostModels]trial
	rounds int   // with a draft of any model
	plain  trial // rounds of plain decoding
}

// chain is how a model begins to draft.
type chain struct {
	levels int     // 0: only exploration tries the model
	gain   float64 // expected tokens of a round less its passes over one row
	feed   float64 // passes over one row that a prefill of one token takes
	share  float64 // of the target's bytes
}

// trial is the rounds of one kind since the session began.
type trial struct {
	rounds, tokens float64
	least          float64 // seconds of the shortest: other load only adds to them
	over           bool    // its rounds lost too much
}

func (t *trial) ran(tokens, seconds float64) {
	t.rounds, t.tokens, t.least = t.rounds+1, t.tokens+tokens, least(t.least, seconds)
}

const (
	// openingRounds is the most rounds with a draft in an opening. All the tests of opening_test.go hold it.
	openingRounds = 8
	// plainEvery is the number of rounds with a draft that follow a round of plain decoding.
	plainEvery = 4
	// mostChain is the most levels of an opening's chain.
	mostChain = 4
	// largestDraft is the largest share of the target's bytes that a draft may have to draft before it was timed.
	largestDraft = 0.25
	// leastTrial is the number of rounds with a draft before its time is judged: one may have met other load.
	leastTrial = 2
	// leastPause is the least number of rounds from one draft of a model that was turned off to the next.
	leastPause = 64
	// leastGain stands for the gain of a chain that the files expect to lose when a prefill is weighed.
	leastGain = 0.1
)

// chain returns how a model with a share of the target's bytes begins to draft if passes take what c says.
func (c *Costs) chain(model int, share float64) chain {
	d, one := &c.Drafts[model], c.plainTime()
	best := chain{feed: d.Prefill.At(mostRows) / mostRows / one, share: share}
	most := 0.0
	for n := 1; n <= mostChain && share <= largestDraft; n++ {
		tokens, passes := 1+series(levelReach(model, 1), n), (d.Time(n, 1)+c.verifyTime(n+1))/one
		if tokens/passes > most {
			most, best.levels, best.gain = tokens/passes, n, tokens-passes
		}
	}
	return best
}

// opener returns the model that the opening drafts with after length tokens, or -1.
func (g *Goodput) opener(length int) int {
	o, best := &g.Costs.opening, -1
	if o.rounds >= openingRounds {
		return best
	}
	for i, m := range g.Models {
		c := &o.chains[i]
		if m == nil || c.levels == 0 || o.drafts[i].over || best >= 0 && c.gain <= o.chains[best].gain {
			continue
		}
		lag := g.feed(i) * float64(length-g.drafts[i].Consumed)
		if lag <= horizon*max(c.gain, leastGain)*g.Costs.plainTime() {
			best = i
		}
	}
	return best
}

// open returns the draft of a round of the opening, and whether the round decodes plainly instead. ok is false after
// the opening.
func (g *Goodput) open(length int, b spec.Budget) (s option, plain, ok bool) {
	s.model, s.width = g.opener(length), 1
	if s.model < 0 {
		return s, false, false
	}
	o := &g.Costs.opening
	s.levels = min(o.chains[s.model].levels, g.Levels, b.Levels, b.Nodes-1, g.drafts[s.model].Levels(length, 1))
	s.rows = s.levels + 1
	return s, o.plain.rounds*plainEvery <= float64(o.rounds), s.levels > 0
}

// proposeOpening makes the draft of a round of the opening.
func (g *Goodput) proposeOpening(ctx context.Context, seq []int32, s option, plain bool) (*spec.Draft, error) {
	g.opening, g.idle = true, 0
	if plain {
		s.rows = 1
	} else if err := g.grow(ctx, seq, s, spec.Budget{Levels: s.levels, Nodes: s.rows}); err != nil || g.joined() {
		return &g.draft, err // nothing grows further
	}
	g.draft.Tree = g.candidates.build(s.rows)
	return &g.draft, nil
}

// judge adds a round. It returns the time of such a round in passes over one row, by the shortest rounds so far, or
// expected, by the costs, where the clock is too coarse to tell.
func (o *opening) judge(s option, tokens, seconds, expected float64) float64 {
	if s.width == 0 {
		o.plain.ran(tokens, seconds)
		return 1
	}
	t := &o.drafts[s.model]
	t.ran(tokens, seconds)
	o.rounds++
	if t.least == 0 || o.plain.least == 0 {
		return expected
	}
	return t.least / o.plain.least
}

// lost returns the loss of a model's rounds, of so many passes over one row each. The opening ends for a model that
// lost more than most.
func (t *trial) lost(passes, most float64) float64 {
	loss := t.rounds*passes - t.tokens
	t.over = t.rounds >= leastTrial && loss > most
	if t.over || t.rounds >= openingRounds && t.tokens == t.rounds {
		return mostLoss // nothing was accepted
	}
	return max(loss, -mostLoss)
}

// closed reports whether a model is only explored, because it was not timed.
func (o *opening) closed(model int) bool { return o.drafts[model].rounds < leastTrial }

// ran notes the size of a round.
func (c *Costs) ran(e *spec.Event) {
	c.rounds++
	c.widest, c.deepest = max(c.widest, e.Tree.Len()), max(c.deepest, e.Tree.Depth(), len(e.Levels))
}

// feed returns the seconds that a prefill of one token by a model is expected to take, from what the target just took
// for each token of the prompt or, where it held the prompt, from the files.
func (g *Goodput) feed(model int) float64 {
	c := &g.Costs.opening.chains[model]
	if g.fed > 0 && g.Costs.measured() {
		return c.share * g.fed
	}
	return c.feed * g.Costs.plainTime()
}

// lag returns the seconds that a model takes to consume pending tokens: before it was timed, at least by feed.
func (g *Goodput) lag(model, pending int) float64 {
	lag := g.Costs.Drafts[model].LagTime(pending)
	if g.Costs.opening.closed(model) && pending > spec.MaxPending {
		lag = max(lag, g.feed(model)*float64(pending))
	}
	return lag
}

// Opened reports whether rounds of the session were timed: its opening is over.
func (c *Costs) Opened() bool {
	return c.opening.rounds >= openingRounds ||
		slices.ContainsFunc(c.opening.drafts[:], func(t trial) bool { return t.over })
}

// within bounds the next round: no tree has more than twice the rows and levels of those that were timed, whatever
// larger ones are said to take.
func (c *Costs) within(b spec.Budget) spec.Budget {
	b.Levels = min(b.Levels, max(mostChain, 2*c.deepest))
	b.Nodes = min(b.Nodes, max(1+mostChain, 2*c.widest))
	return b
}

// explorable reports whether a model may be explored: one that was timed, and drafts no more, in rare rounds only.
func (c *Costs) explorable(model int) bool {
	return c.opening.closed(model) || c.rounds-c.drafted[model] >= leastPause
}
