// Package goodput drafts whatever makes the most tokens a second: each round it chooses between plain decoding, looking
// up the text so far, and the draft model's tree of some width and depth, from measured costs and calibrated chances of
// acceptance.
package goodput

import (
	"context"
	"fmt"
	"math"
	"time"

	"foretoken/spec"
	"foretoken/spec/draft"
)

// Goodput maximises committed tokens per second. Each round it chooses between plain decoding, a lookup in the text so
// far, and the draft model's tree of some width and depth; candidates of both kinds share one tree. Calibrated
// probabilities a(n) give its expected tokens E = 1 + Σ Π a, measured costs its T seconds. Rounds of many
// kinds commit the most tokens per second when each maximises E - r·T, with r the rate that they reach together
// (Dinkelbach, "On Nonlinear Fractional Programming", 1967); r is at least the rate of plain decoding. The target's
// time is a staircase in rows, so trees end at the ends of its stairs. The decision to draft rests on the yields of the
// latest drafts, because the yield of a draft is known only after its cost. One more level grows where the candidates
// of this tree promise more than it costs.
//
// Candidates are fixed before the target's draw, so under Match the output is that of plain decoding. A Goodput is
// drafter, session and policy in one and serves one request at a time.
type Goodput struct {
	Model spec.DraftModel     // nil: lookups only
	Costs *Costs              // of this pair on this device; nil: start from guesses
	C2T   *spec.C2TClassifier // nil: no classifier
	// Levels and Width bound the draft's tree, Nodes the rows of the target's pass, root included.
	Levels, Width, Nodes int
	Uncoupled            bool             // as in TreeDrafter
	Mode                 string           // of verification; each has its own acceptance estimates
	Clock                func() time.Time // nil: time.Now

	sequence   draft.Sequence
	coupled    bool
	sampling   spec.Sampling
	learnt     *acceptance
	history    history
	candidates candidates
	draft      spec.Draft
	widths     []int
	ladder     []int
	// lookupBudget is the loss that rounds without the draft may still cause in this request, in passes over one row.
	lookupBudget float64

	// State of the current round.
	proposed  bool
	usedModel bool // the draft model took part
	exploring bool // it took part against the estimates
	width     int  // beams of the draft's tree
	levels    int  // levels of the DraftTree call
	grows     int  // calls of Grow, one level each
	round     int  // of the request, from 1
}

const (
	// explorationShare and firstExploration bound what exploration may cost beyond plain decoding: a share of all time,
	// and passes over one row to start with. Held by TestExplorationIsRareAndBounded and, the second,
	// by TestImprovedDraftIsUsedAgain.
	explorationShare = 0.0075
	firstExploration = 1.2
	// horizon is the number of rounds over which a prefill of the draft has to pay back. Held by
	// TestPromptIsNotDraftedWhereItDoesNotPay.
	horizon = 24
	// lookupLoss and lookupRefill bound the losses of lookups in one request, in passes over one row: at first and at
	// most, and per round. Held by TestLookupLossIsBoundedPerRequest, the second by the figure of text that repeats
	// under a steep verify in TestNeverSlowerThanPlainAndCloseToTheBest.
	lookupLoss   = 3.0
	lookupRefill = 0.1
)

var (
	_ spec.Drafter      = (*Goodput)(nil)
	_ spec.DraftSession = (*Goodput)(nil)
	_ spec.Policy       = (*Goodput)(nil)
)

// Begin implements Drafter. It prefills the draft model only if the estimates expect it to pay.
func (g *Goodput) Begin(ctx context.Context, o spec.SessionOptions) (spec.DraftSession, error) {
	if g.Costs == nil {
		g.Costs = NewCosts()
	}
	if g.Clock == nil {
		g.Clock = time.Now
	}
	prompt := o.Prompt
	g.sampling, g.coupled = o.Sampling, o.Sampling.Temperature > 0 && !g.Uncoupled
	g.learnt = g.Costs.acceptance(g.way())
	g.history.reset()
	g.history.extend(prompt)
	g.proposed, g.round, g.lookupBudget = false, 0, lookupLoss
	if g.Model == nil {
		return g, nil
	}
	lim := g.Model.Limits()
	g.widths = DraftWidths(g.Width, lim)
	g.ladder = ladder(g.ladder, g.Nodes)
	g.learnt.Yield.ready(g.widths, g.Levels, g.ladder[1:])
	g.sequence = draft.Sequence{Model: g.Model}
	if len(prompt) > lim.Context {
		g.Model.Reset()
		return g, nil
	}
	g.sequence.Consumed = g.Model.ReusePrefix(prompt[:len(prompt)-1])
	best := g.shape(len(prompt), g.Nodes)
	lag := g.Costs.LagTime(len(prompt) - g.sequence.Consumed)
	if g.learnt.Loss >= mostLoss || best.value-(1-g.learnt.speed()) <= g.price()*lag/horizon {
		return g, nil
	}
	begin := g.Clock()
	fed, err := g.sequence.Follow(ctx, prompt, 1, o.Progress)
	if err == nil {
		err = g.Model.Sync()
	}
	if err != nil {
		return nil, err
	}
	g.Costs.observePrefill(fed, g.Clock().Sub(begin).Seconds())
	return g, nil
}

// DraftWidths returns the widths that the goodput tree chooses among: 1, 2 and most, as far as lim allows them. No test
// holds 2: beams cost next to nothing in the simulation, but much of a pass on CPUs.
func DraftWidths(most int, lim spec.Limits) []int {
	most = min(most, lim.TopK, lim.MaxRows)
	all := []int{1}
	for _, w := range []int{2, most} {
		if w <= most && w > all[len(all)-1] {
			all = append(all, w)
		}
	}
	return all
}

// way names the sampling and the verifier that acceptance estimates belong to.
func (g *Goodput) way() string {
	switch {
	case g.sampling.Temperature == 0:
		return "greedy " + g.Mode
	case g.coupled:
		return "coupled " + g.Mode
	}
	return "sampled " + g.Mode
}

// acceptance returns the estimates of a way, new ones the first time.
func (c *Costs) acceptance(way string) *acceptance {
	if c.Learnt == nil {
		c.Learnt = map[string]*acceptance{}
	}
	if c.Learnt[way] == nil {
		c.Learnt[way] = newAcceptance()
	}
	// Lookups cost nothing, so their prior is low: they are observed before they are verified. Held by
	// TestNeverSlowerThanPlainAndCloseToTheBest.
	c.Learnt[way].Sources[fromLookup].doubt = 0.6
	c.Learnt[way].Sources[notLookedUp].doubt = 0.6
	return c.Learnt[way]
}

// NextBudget implements Policy. It asks for the largest draft, because Propose decides.
func (g *Goodput) NextBudget(spec.Budget) spec.Budget {
	return spec.Budget{Levels: max(g.Levels, g.Nodes-1), Width: g.Width, Nodes: g.Nodes}
}

// price returns r, the tokens that a second has to bring. TestBusyMachinesDoNotMislead is faster with it than with the
// rate of plain decoding alone.
func (g *Goodput) price() float64 { return g.learnt.speed() / g.Costs.plainTime() }

// verifyTime returns the seconds of a round after its draft.
func (g *Goodput) verifyTime(rows int) float64 { return g.Costs.Verify.At(rows) + g.Costs.Host.Seconds }

// shape is a draft of one DraftTree call.
type shape struct {
	width, levels int
	value         float64 // expected E - r·T
}

// shape returns the best draft after length tokens. Its value is -Inf if none fits.
func (g *Goodput) shape(length, nodes int) shape {
	best := shape{value: math.Inf(-1)}
	for i, w := range g.widths {
		for d := 1; d <= min(g.Levels, g.room(length, w)); d++ {
			for size, rows := range g.learnt.Yield.Sizes {
				seconds := g.Costs.DraftTime(d, w) + g.verifyTime(rows)
				v := 1 + *g.learnt.Yield.gain(i, d, size) - g.price()*seconds
				if rows <= nodes && v > best.value {
					best = shape{width: w, levels: d, value: v}
				}
			}
		}
	}
	return best
}

// room returns how many levels fit the draft's cache after length tokens. The last level takes no slots.
func (g *Goodput) room(length, width int) int {
	if length > g.Model.Limits().Context {
		return 0
	}
	return 1 + (g.Model.Limits().Context-length)/width
}

func (g *Goodput) Propose(ctx context.Context, seq []int32, b spec.Budget) (*spec.Draft, error) {
	g.round++
	g.proposed, g.usedModel, g.exploring = true, false, false
	g.history.extend(seq)
	g.draft = spec.Draft{}
	c := &g.candidates
	c.reset(seq[len(seq)-1])
	c.score(&g.history, g.learnt, b.Levels)
	g.ladder = ladder(g.ladder, b.Nodes)
	rows, value := g.best()
	if g.Model != nil {
		if s, ok := g.choose(len(seq), value, b); ok {
			if err := g.grow(ctx, seq, s, b); err != nil {
				return nil, err
			}
			rows, _ = g.best()
		}
	}
	g.draft.Tree = c.build(rows)
	return &g.draft, nil
}

// best returns how many rows of the candidates to verify, and the value of that.
func (g *Goodput) best() (rows int, value float64) {
	n := 1 // without a draft, the sizes whose complete loss the budget of lookups covers
	for n < len(g.ladder) && (g.usedModel ||
		g.verifyTime(g.ladder[n])-g.verifyTime(1) <= g.lookupBudget*g.Costs.plainTime()) {
		n++
	}
	return g.candidates.best(g.ladder[:n], g.price(), g.verifyTime)
}

// choose decides whether to draft, and in which shape. value is that of the round without the draft model.
func (g *Goodput) choose(length int, value float64, b spec.Budget) (shape, bool) {
	if b.Levels < 1 {
		return shape{}, false
	}
	s := g.shape(length, b.Nodes)
	if math.IsInf(s.value, -1) {
		return s, false
	}
	s.levels = min(s.levels, b.Levels)
	lag := g.Costs.LagTime(length - g.sequence.Consumed)
	if g.learnt.Loss < mostLoss && s.value-g.price()*lag/horizon > value {
		return s, true
	}
	// The estimates advise against the draft. They age, so it is tried within the exploration budget.
	loss := max(0, value-s.value)/g.price() + lag
	g.exploring = g.Costs.explored+loss <= explorationShare*g.Costs.spent+firstExploration*g.Costs.plainTime()
	return s, g.exploring
}

// grow drafts: one DraftTree call, then level by level while the next level promises more than it costs.
func (g *Goodput) grow(ctx context.Context, seq []int32, s shape, b spec.Budget) error {
	begin := g.Clock()
	fed, err := g.sequence.Follow(ctx, seq, 2, nil)
	if err != nil {
		return err
	}
	levels, err := g.Model.DraftTree(ctx, spec.DraftRequest{
		Pending: seq[g.sequence.Consumed:], Depth: s.levels - 1, K: s.width, Coupled: g.coupled, Sampling: g.sampling,
	})
	if err != nil {
		return err
	}
	g.usedModel, g.width, g.levels, g.grows = true, s.width, s.levels, 0
	g.Costs.observeDraft(fed, s.levels, s.width, g.Clock().Sub(begin).Seconds())
	if err := g.sequence.Advance(seq); err != nil {
		return err
	}
	if len(levels) != s.levels {
		return fmt.Errorf("spec: the draft model grew %d of %d levels", len(levels), s.levels)
	}
	if err := g.weigh(seq, levels, b); err != nil {
		return err
	}
	most := min(g.Levels, b.Levels, g.room(len(seq), s.width))
	for len(levels) < most && g.promising(len(levels), s) {
		begin := g.Clock()
		if levels, err = g.Model.Grow(ctx, 1); err != nil {
			return err
		}
		g.grows++
		g.Costs.observeGrow(s.width, g.Clock().Sub(begin).Seconds())
		if err := g.weigh(seq, levels, b); err != nil {
			return err
		}
	}
	g.draft.Levels = levels
	// The floor lets the profile follow the text. Without it, TestNeverSlowerThanPlainAndCloseToTheBest's worlds whose
	// draft comes and goes fall by 2 to 3 %. The first weight is held by TestImprovedDraftIsUsedAgain.
	g.candidates.survey(&g.learnt.Yield, s.width, len(levels), max(1/(1.6+g.learnt.Yield.Seen), 0.1))
	return nil
}

// weigh makes candidates of the levels and of the lookups after them.
func (g *Goodput) weigh(seq []int32, levels []spec.Level, b spec.Budget) error {
	g.candidates.reset(seq[len(seq)-1])
	if err := g.candidates.levels(levels, g.C2T); err != nil {
		return err
	}
	g.candidates.score(&g.history, g.learnt, b.Levels)
	return nil
}

// promising reports whether one more level is expected to pay. Held by TestTreesEndAtTheEndsOfStairs and
// TestBusyMachinesDoNotMislead.
func (g *Goodput) promising(levels int, s shape) bool {
	c := &g.candidates
	gain := c.frontier(levels-1, s.width) * levelReach(s.width)
	rows, _ := c.best(g.ladder, g.price(), g.verifyTime)
	more := g.verifyTime(min(rows+1, g.Nodes)) - g.verifyTime(rows)
	return gain > g.price()*(g.Costs.GrowTime(s.width)+more)
}

func (g *Goodput) Commit(path []int32) error {
	if !g.usedModel {
		return nil
	}
	return g.sequence.CommitBeams(g.candidates.accepted(path))
}

// Observe implements Observer: it updates the costs and the acceptance estimates.
func (g *Goodput) Observe(e *spec.Event) {
	if e.Tree == nil || g.learnt == nil {
		return
	}
	verify, host := e.Verify.Seconds(), e.Host.Seconds()
	g.Costs.observeVerify(e.Tree.Len(), verify)
	g.Costs.observeHost(host)
	if !g.proposed {
		return
	}
	g.proposed = false
	g.candidates.learn(g.learnt, e.Tokens)
	plain, tokens := g.Costs.plainTime(), float64(len(e.Tokens))
	// A round is charged its expected time, without noise from other processes. Held by TestBusyMachinesDoNotMislead.
	expected := g.verifyTime(e.Tree.Len())
	if g.usedModel {
		expected += g.Costs.DraftTime(g.levels, g.width) + float64(g.grows)*g.Costs.GrowTime(g.width)
	}
	passes := expected / plain
	if !g.usedModel {
		g.lookupBudget = min(g.lookupBudget+lookupRefill+tokens-passes, lookupLoss)
	}
	took := e.Draft.Seconds() + verify + host
	g.Costs.spent += took
	if g.exploring {
		g.learnt.explored(tokens, passes)
		g.Costs.explored += max(0, took-plain*tokens)
		return
	}
	g.learnt.ran(tokens, passes, g.usedModel)
}
