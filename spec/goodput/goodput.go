// Package goodput drafts whatever makes the most tokens a second: each round it chooses between plain decoding, looking
// up the text so far, and a draft model's tree of some width and depth, from measured costs and calibrated chances of
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
// far, and one draft model's tree of some width and depth; candidates of both kinds share one tree. Calibrated
// probabilities a(n) give its expected tokens E = 1 + Σ Π a, measured costs its T seconds. Rounds of many
// kinds commit the most tokens per second when each maximises E - r·T, with r the rate that they reach together
// (Dinkelbach, "On Nonlinear Fractional Programming", 1967); price lowers r in a round that cannot reach it. The
// target's time is a staircase in rows, so trees end at the ends of its stairs. The decision to draft rests on the
// yields of the latest drafts, because the yield of a draft is known only after its cost. One more level grows where
// the candidates of this tree promise more than it costs.
//
// Candidates are fixed before the target's draw, so under Match the output equals plain decoding's. A Goodput is
// drafter, session and policy in one and serves one request at a time.
type Goodput struct {
	Models Models // without any: lookups only
	Costs  *Costs // of these models on this device; nil: start from guesses
	// Levels and Width bound a draft's tree, Nodes the rows of the target's pass, root included.
	Levels, Width, Nodes int
	Uncoupled            bool             // as in TreeDrafter
	Mode                 string           // of verification; each has its own acceptance estimates
	Clock                func() time.Time // nil: time.Now

	drafts     [MostModels]drafting
	coupled    bool
	sampling   spec.Sampling
	learnt     *acceptance
	history    history
	candidates candidates
	draft      spec.Draft
	ladder     []int
	fed        float64     // seconds, as in SessionOptions
	target     spec.Target // as in SessionOptions; nil: this request's pass cannot run with the draft
	request    spec.DraftRequest
	builder    spec.Builder
	// lookupBudget is the loss that rounds without the draft may still cause in this request, in passes over one row.
	lookupBudget float64

	// State of the current round.
	proposed  bool
	bestSpeed float64   // of its choices, as acceptance.speed
	used      option    // the draft that a model made; width 0: none took part
	opening   bool      // the round is one of the opening
	exploring bool      // it took part against the estimates
	grows     int       // calls of Extend, one level each
	idle      int       // rounds for which drafts are not weighed again, unless a lookup pays
	plain     []float64 // seconds of the passes over one row since Costs was updated
}

// drafting is a draft model in a request.
type drafting struct {
	draft.Sequence
	widths []int
	alone  bool // the target cannot verify in the run that drafts
}

const (
	// explorationShare and firstExploration bound what exploration may cost beyond what the estimates advise: a share
	// of all time, for models and again for the number of runs, and for models passes over one row to start with. Held
	// by TestExplorationIsRareAndBounded and, the second, by TestImprovedDraftIsUsedAgain.
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
	// idleRounds is the number of rounds after one of plain decoding in which drafts are not weighed again and the
	// costs of passes not updated: until a model drafts, only the times change what they promise. It bounds the time
	// of a round.
	idleRounds = 7
)

var (
	_ spec.Drafter      = (*Goodput)(nil)
	_ spec.DraftSession = (*Goodput)(nil)
	_ spec.Policy       = (*Goodput)(nil)
)

// Begin implements Drafter. It prefills the best draft model, if the estimates expect it to pay.
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
	g.fed = o.Fed.Seconds()
	g.history.reset()
	g.history.extend(prompt)
	g.idle, g.plain = 0, g.plain[:0]
	g.proposed, g.opening, g.exploring = false, false, false
	g.lookupBudget, g.bestSpeed = lookupLoss, math.Inf(1)
	if g.target = o.Target; o.Pass != spec.PassOutputs {
		g.target = nil
	}
	g.ladder = ladder(g.ladder, g.Nodes)
	last := 0
	for i, m := range g.Models {
		if m == nil {
			continue
		}
		last = i + 1
		d := drafting{Sequence: draft.Sequence{Model: m}, widths: DraftWidths(g.Width, m.Limits())}
		g.learnt.Models[i].Yield.ready(i, d.widths, g.Levels, g.ladder[1:])
		if len(prompt) > m.Limits().Context {
			m.Reset()
		} else {
			d.Consumed = m.ReusePrefix(prompt[:len(prompt)-1])
		}
		g.drafts[i] = d
	}
	g.Costs.start(last)
	b := g.Costs.within(spec.Budget{Levels: g.Levels, Nodes: g.Nodes})
	model := -1
	if s, _, ok := g.open(len(prompt), b); ok {
		model = s.model
	} else {
		best, ok := g.choose(len(prompt), 1-g.learnt.speed(), b)
		if !ok || g.exploring {
			return g, nil
		}
		model = best.model
	}
	d, begin := &g.drafts[model], g.Clock()
	fed, err := d.Follow(ctx, prompt, 1)
	if err == nil {
		err = d.Model.Sync()
	}
	if err != nil {
		return nil, err
	}
	g.Costs.observePrefill(model, fed, g.Clock().Sub(begin).Seconds())
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
// rate of plain decoding alone. Where this round cannot reach the rate so far, r is halfway to what it can reach: the
// next rounds are likely to be as this one, and with a price beyond reach the shortest round looks best.
func (g *Goodput) price() float64 {
	speed := g.learnt.speed()
	return min(speed, (speed+g.bestSpeed)/2) / g.Costs.plainTime()
}

// findBestSpeed sets what the best of a round's choices is expected to reach.
func (g *Goodput) findBestSpeed(length int, b spec.Budget) {
	rate := g.candidates.bestRate(g.affordable(), g.Costs.verifyTime)
	g.bestSpeed = rate * g.Costs.plainTime() // so far, for options
	for i, m := range g.Models {
		if m != nil && g.allowed(i) {
			g.options(i, length, b, func(tokens, seconds float64) bool { return tokens > rate*seconds },
				func(_ option, tokens, seconds float64) { rate = tokens / seconds })
		}
	}
	g.bestSpeed = rate * g.Costs.plainTime()
}

// option is a draft that one call of Draft can make.
type option struct {
	model         int // index in Models
	width, levels int
	rows          int     // of the target's pass, if it is one run with the draft
	value         float64 // expected E - r·T in one run or two, without the time that the model lags behind
	lag           float64 // seconds for that
}

// bestOption returns the best draft of a model after length tokens. Its value is -Inf if none fits.
func (g *Goodput) bestOption(model, length int, b spec.Budget) option {
	price := g.price()
	best := option{value: math.Inf(-1)}
	g.options(model, length, b, func(tokens, seconds float64) bool { return tokens-price*seconds > best.value },
		func(s option, tokens, seconds float64) {
			best = s
			best.value = tokens - price*seconds
		})
	best.model, best.lag = model, g.lag(model, length-g.drafts[model].Consumed)
	return best
}

// options yields the drafts of a model after length tokens that are better than those before, with the tokens and the
// seconds that their rounds are expected to have, without the time that the model lags behind. A draft that is better
// with some tokens and seconds is better with more tokens and less time, too.
func (g *Goodput) options(model, length int, b spec.Budget, better func(tokens, seconds float64) bool,
	yield func(s option, tokens, seconds float64)) {
	d, costs, profile := &g.drafts[model], &g.Costs.Drafts[model], &g.learnt.Models[model].Yield
	var room [16]float64 // for the sizes of any ladder
	verify := room[:0]
	for _, rows := range profile.Sizes {
		if rows > b.Nodes {
			break
		}
		verify = append(verify, g.Costs.verifyTime(rows))
	}
	if len(verify) == 0 {
		return
	}
	saved := 0.0
	if g.saves(model) > 0 {
		saved = costs.submit()
	}
	widths := d.widths
	if g.Costs.opening.closed(model) { // the shortest chain
		widths, verify, b.Levels = widths[:1], verify[:1], min(b.Levels, 1)
	}
	for i, w := range widths {
		level, most := costs.Level.At(w), min(g.Levels, b.Levels, d.Levels(length, w))
		for levels := 1; levels <= most; levels++ {
			draft := costs.Root.Seconds + float64(levels-1)*level - saved
			gains := profile.gains(i, levels)[:len(verify)]
			if better(1+gains[len(gains)-1], draft+verify[0]) { // than the best that any of them can be
				for size, gain := range gains {
					if better(1+gain, draft+verify[size]) {
						yield(option{width: w, levels: levels, rows: profile.Sizes[size]}, 1+gain, draft+verify[size])
					}
				}
			}
		}
	}
}

func (g *Goodput) Propose(ctx context.Context, seq []int32, b spec.Budget) (*spec.Draft, error) {
	g.proposed, g.used, g.opening, g.exploring = true, option{}, false, false
	b = g.Costs.within(b)
	g.history.extend(seq)
	g.draft = spec.Draft{}
	c := &g.candidates
	c.reset(seq[len(seq)-1])
	if s, plain, ok := g.open(len(seq), b); ok {
		return g.proposeOpening(ctx, seq, s, plain)
	}
	g.ladder = ladder(g.ladder, b.Nodes)
	// No candidate is likelier than the likeliest after the root. If that one brings less than the cheapest row has to
	// bring, no lookup pays.
	c.score(&g.history, g.learnt, min(b.Levels, 1), 0)
	rows := 1
	if row := g.cheapestRow(); c.likeliest() > min(g.learnt.speed(), 1)*row {
		c.score(&g.history, g.learnt, b.Levels, g.leastReach(row))
		rows, _ = g.best()
	}
	if g.idle--; g.idle < 0 || rows > 1 {
		g.updatePlain()
		g.findBestSpeed(len(seq), b)
		var value float64
		rows, value = g.best()
		s, ok := g.choose(len(seq), value, b)
		if ok {
			if err := g.grow(ctx, seq, s, b); err != nil || g.joined() {
				return &g.draft, err
			}
			rows, _ = g.best()
		}
		if g.idle = 0; !ok && rows == 1 {
			g.idle = idleRounds
		}
	}
	g.draft.Tree = c.build(rows)
	return &g.draft, nil
}

// best returns how many rows of the candidates to verify, and the value of that.
func (g *Goodput) best() (rows int, value float64) {
	return g.candidates.best(g.affordable(), g.price(), g.Costs.verifyTime)
}

// cheapestRow returns what a further row of the target's pass takes at least, in passes over one row.
func (g *Goodput) cheapestRow() float64 {
	row, one := math.Inf(1), g.Costs.Verify.At(1)
	for _, rows := range g.ladder[1:] {
		row = min(row, (g.Costs.Verify.At(rows)-one)/float64(rows-1))
	}
	return row / g.Costs.plainTime()
}

// leastReach returns the reach from which on the successors of a candidate are looked up: a share of the tokens that
// the cheapest row has to bring. It bounds the time of a round. Held by TestLookupsEndWhereRowsAreDear.
func (g *Goodput) leastReach(row float64) float64 {
	const least, share = 0.01, 0.15
	if math.IsInf(row, 1) {
		return least
	}
	speed := g.learnt.speed()
	return max(least, share*min(speed, (1+speed)/2)*row)
}

// updatePlain updates the costs with the passes over one row since the last time.
func (g *Goodput) updatePlain() {
	g.Costs.observeVerify(1, g.plain...)
	g.plain = g.plain[:0]
}

// affordable returns the sizes of the target's pass: without a draft, those whose complete loss the budget of lookups
// covers.
func (g *Goodput) affordable() []int {
	n := 1
	for n < len(g.ladder) && (g.used.width > 0 ||
		g.Costs.verifyTime(g.ladder[n])-g.Costs.verifyTime(1) <= g.lookupBudget*g.Costs.plainTime()) {
		n++
	}
	return g.ladder[:n]
}

// mostLoss returns the loss from which on a model has to wait for exploration.
func (g *Goodput) mostLoss() float64 { return mostLoss / float64(g.Models.count()) }

// allowed reports whether the estimates may decide to draft with a model.
func (g *Goodput) allowed(model int) bool {
	return g.learnt.Models[model].Loss < g.mostLoss() && !g.Costs.opening.closed(model)
}

// choose decides whether to draft, by which model, and how much. value is E − r·T of the round without a model.
func (g *Goodput) choose(length int, value float64, b spec.Budget) (best option, drafts bool) {
	if b.Levels < 1 {
		return best, false
	}
	var room [MostModels]option
	options := room[:0]
	for i, m := range g.Models {
		if m == nil {
			continue
		}
		s := g.bestOption(i, length, b)
		if math.IsInf(s.value, -1) {
			continue
		}
		options = append(options, s)
		if v := s.value - g.price()*s.lag/horizon; g.allowed(i) && v > value {
			best, value, drafts = s, v, true
		}
	}
	// The estimates advise against the other models. They age, so the one that drafted last longest ago is tried within
	// the exploration budget.
	oldest := -1
	for i, s := range options {
		if (!drafts || s.model != best.model) && g.Costs.explorable(s.model) &&
			(oldest < 0 || g.Costs.drafted[s.model] < g.Costs.drafted[options[oldest].model]) {
			oldest = i
		}
	}
	if oldest >= 0 {
		s := options[oldest]
		loss := max(0, value-s.value)/g.price() + s.lag
		if g.Costs.explored+loss <= explorationShare*g.Costs.spent+firstExploration*g.Costs.plainTime() {
			g.exploring = true
			return s, true
		}
	}
	return best, drafts
}

// grow drafts: in the run that verifies, if that is expected to bring more, or in one call of Draft and then level by
// level while the next level promises more than it costs.
func (g *Goodput) grow(ctx context.Context, seq []int32, s option, b spec.Budget) error {
	d, begin := &g.drafts[s.model], g.Clock()
	fed, err := d.Follow(ctx, seq, 2)
	if err != nil {
		return err
	}
	g.used, g.grows, g.Costs.drafted[s.model] = s, 0, g.Costs.rounds
	r := spec.DraftRequest{
		Pending: seq[d.Consumed:], Depth: s.levels - 1, K: s.width, Coupled: g.coupled, Sampling: g.sampling,
	}
	if g.joins(s.model) {
		if err := g.join(ctx, r, fed, begin); err != nil {
			return err
		}
	}
	if !g.joined() {
		if g.draft.Levels, err = d.Model.Draft(ctx, r); err != nil {
			return err
		}
		g.Costs.observeDraft(s.model, fed, s.levels, s.width, g.Clock().Sub(begin).Seconds())
	}
	if err := d.Advance(seq); err != nil {
		return err
	}
	if n := len(g.draft.Levels); n != s.levels {
		return fmt.Errorf("spec: the draft model grew %d of %d levels", n, s.levels)
	}
	if err := g.weigh(seq, g.draft.Levels, b); err != nil {
		return err
	}
	most := min(g.Levels, b.Levels, d.Levels(len(seq), s.width))
	for !g.joined() && len(g.draft.Levels) < most && g.promising(len(g.draft.Levels), s) {
		begin := g.Clock()
		if g.draft.Levels, err = d.Model.Extend(ctx, spec.Extension{Passes: 1}); err != nil {
			return err
		}
		g.grows++
		g.Costs.observeGrow(s.model, s.width, g.Clock().Sub(begin).Seconds())
		if err := g.weigh(seq, g.draft.Levels, b); err != nil {
			return err
		}
	}
	// The floor lets the profile follow the text. Without it, TestNeverSlowerThanPlainAndCloseToTheBest's worlds whose
	// draft comes and goes fall by 2 to 3 %. The first weight is held by TestImprovedDraftIsUsedAgain.
	yield := &g.learnt.Models[s.model].Yield
	g.candidates.survey(yield, s.width, len(g.draft.Levels), max(1/(1.6+yield.Seen), 0.1))
	return nil
}

// weigh makes candidates of the levels and of the lookups after them.
func (g *Goodput) weigh(seq []int32, levels []spec.Level, b spec.Budget) error {
	g.candidates.reset(seq[len(seq)-1])
	if err := g.candidates.levels(g.used.model, levels); err != nil {
		return err
	}
	g.candidates.score(&g.history, g.learnt, b.Levels, g.leastReach(g.cheapestRow()))
	return nil
}

// promising reports whether one more level is expected to pay. Held by TestTreesEndAtTheEndsOfStairs and
// TestBusyMachinesDoNotMislead.
func (g *Goodput) promising(levels int, s option) bool {
	c := &g.candidates
	gain := c.frontier(levels-1, s.width) * levelReach(s.model, s.width)
	rows, _ := c.best(g.ladder, g.price(), g.Costs.verifyTime)
	more := g.Costs.verifyTime(min(rows+1, g.Nodes)) - g.Costs.verifyTime(rows)
	return gain > g.price()*(g.Costs.Drafts[s.model].GrowTime(s.width)+more)
}

func (g *Goodput) Commit(path []int32) error {
	if g.used.width == 0 {
		return nil
	}
	d := &g.drafts[g.used.model]
	if g.joined() {
		return d.CommitBeams(g.builder.Beams(path))
	}
	return d.CommitBeams(g.candidates.accepted(path))
}

// Observe implements Observer: it updates the costs and the acceptance estimates.
func (g *Goodput) Observe(e *spec.Event) {
	if e.Tree == nil || g.learnt == nil {
		return
	}
	verify, host := e.Verify.Seconds(), e.Host.Seconds()
	switch rows := e.Tree.Len(); {
	case e.Joint: // observed where it ran
	case rows > 1:
		g.Costs.observeVerify(rows, verify)
	default:
		g.plain = append(g.plain, verify)
		if g.idle == 0 || e.Finish != "" {
			g.updatePlain()
		}
	}
	g.Costs.observeHost(host)
	if !g.proposed {
		return
	}
	g.proposed = false
	g.candidates.learn(g.learnt, e.Tokens)
	plain, tokens, took := g.Costs.plainTime(), float64(len(e.Tokens)), e.Draft.Seconds()+verify+host
	// A round is charged its expected time, without noise from other processes. Held by TestBusyMachinesDoNotMislead.
	expected := g.Costs.verifyTime(e.Tree.Len())
	var model *modelEstimate
	if s := g.used; s.width > 0 {
		costs := &g.Costs.Drafts[s.model]
		if !e.Joint && g.joinable(s.model) {
			g.judge(e)
		}
		expected += costs.Time(s.levels, s.width) + float64(g.grows)*costs.GrowTime(s.width)
		if e.Joint {
			expected -= costs.submit()
		}
		model = &g.learnt.Models[s.model]
	}
	passes := expected / plain
	g.Costs.ran(e)
	switch o := &g.Costs.opening; {
	case g.opening:
		passes = o.judge(g.used, tokens, took, passes)
	case g.exploring:
		o.drafts[g.used.model].ran(tokens, took)
	}
	if model == nil {
		g.lookupBudget = min(g.lookupBudget+lookupRefill+tokens-passes, lookupLoss)
	}
	g.Costs.spent += took
	if g.exploring {
		model.explored(tokens, passes)
		g.Costs.explored += max(0, took-plain*tokens/max(g.learnt.speed(), 1))
		return
	}
	g.learnt.ran(tokens, passes, model)
	if g.opening && model != nil {
		model.Loss = g.Costs.opening.drafts[g.used.model].lost(passes, g.mostLoss())
	}
}
