package spec

import (
	"context"
	"fmt"
	"math"
	"time"
)

// Goodput drafts whatever makes the most tokens a second, nothing included. Each round it
// has the choice of plain decoding, of continuing as the text did before, and of
// the draft model's tree of some width and depth, both kinds of candidates in one
// tree. From calibrated chances a(n) a tree's expected tokens are E = 1 + Σ Π a,
// from measured times it takes T, and rounds of many kinds bring the most tokens a
// second when each maximises E - r·T, r being the rate that they reach together
// (Dinkelbach, "On Nonlinear Fractional Programming", 1967); r is at
// least that of plain decoding. T_v is a staircase, so trees end at the ends of its
// stairs. What a draft would bring is known only after it was paid for, so that the
// choice to draft, and how much, rests on what the latest drafts were expected to
// bring; one more level is grown where the candidates there are promise more than
// it takes.
//
// Candidates are fixed before the target's draw, so the output under Match is that of
// plain decoding. It is drafter, session and policy in one and serves one request
// at a time.
type Goodput struct {
	Model DraftModel // nil: nothing but what followed before
	Costs *Costs     // of this pair on this device; nil: learnt from nothing
	C2T   *C2TClassifier
	// Levels and Width bound the draft's tree, Nodes the target's pass, root included.
	Levels, Width, Nodes int
	Uncoupled            bool             // as of TreeDrafter
	Mode                 string           // of verification: outcomes under another one are learnt apart
	Clock                func() time.Time // nil: time.Now

	feed
	grower     Grower // Model, if it is one
	coupled    bool
	sampling   Sampling
	learnt     *acceptance
	history    history
	candidates candidates
	draft      Draft
	widths     []int
	ladder     []int
	remaining  int // tokens still wanted
	// purse is what rounds of this request without the draft may still lose against plain decoding, in passes over one row:
	// a text that goes on unlike those before is not to pay for what was learnt of them.
	purse float64

	// Of the round under way.
	proposed bool
	drafted  bool   // the draft took part
	probe    bool   // although not expected to pay
	shaped   [3]int // the draft's width, levels of its first call, and further calls of one level
	round    int
	// idle counts rounds since the draft took part, patience how many to wait for the next
	// probe.
	idle, patience int
}

const (
	leastPatience = 8
	mostPatience  = 64
	probeShare    = 0.0075 // of all time, what probes may take beyond plain decoding
	firstProbes   = 1.2    // passes over one row that probes may take before they were earned
	horizon       = 24     // rounds that catching up is paid back over
	wideEvery     = 20     // drafts between two of the next larger shape
	hope          = 0.3    // tokens that the first draft is given the benefit of the doubt
	firstPurse    = 3.0    // passes over one row
	fullestPurse  = 6.0
	allowance     = 0.1  // of the purse, each round
	margin        = 0.02 // tokens that speculation must promise more than plain decoding: estimates are noisy
)

var (
	_ Drafter       = (*Goodput)(nil)
	_ DraftSession  = (*Goodput)(nil)
	_ Policy        = (*Goodput)(nil)
	_ ReadbackTimer = (*Goodput)(nil)
)

// auto sets the goodput tree. draft may be nil.
func (c Config) auto(p *Parts, target Target, draft DraftModel) error {
	g := &Goodput{Model: draft, Costs: c.Aids.Costs, C2T: c.Aids.C2T, Levels: c.Depth + 1, Width: c.TopK,
		Nodes: min(c.Budget().Nodes, target.Limits().MaxRows), Uncoupled: c.uncoupled(), Mode: orElse(c.Verifier, VerifierMatch)}
	p.Drafter, p.Policy = g, g
	return nil
}

// ReadbackTime is the model's.
func (g *Goodput) ReadbackTime() time.Duration { return readback(g.Model) }

func (g *Goodput) now() time.Time {
	if g.Clock != nil {
		return g.Clock()
	}
	return time.Now()
}

// Begin implements Drafter. The draft model consumes the prompt only where it is expected
// to be of use.
func (g *Goodput) Begin(ctx context.Context, prompt []int32, s Sampling, progress func(int)) (DraftSession, error) {
	if g.Costs == nil {
		g.Costs = NewCosts()
	}
	g.sampling, g.coupled = s, s.Temperature > 0 && !g.Uncoupled
	g.learnt = g.Costs.acceptance(g.way())
	g.history.reset()
	g.history.extend(prompt)
	g.proposed, g.round, g.idle, g.patience = false, 0, 0, leastPatience
	g.remaining, g.purse = math.MaxInt, firstPurse
	if g.Model == nil {
		return g, nil
	}
	g.grower, _ = g.Model.(Grower)
	lim := g.Model.Limits()
	g.widths = DraftWidths(g.Width, lim)
	g.ladder = g.Costs.Verify.Ladder(g.ladder, g.Nodes)
	g.learnt.Yield.ready(g.widths, g.Levels, g.ladder[1:])
	g.feed = feed{model: g.Model}
	if len(prompt) > lim.Context {
		g.Model.Reset()
		return g, nil
	}
	g.fed = keep(g.Model, prompt[:len(prompt)-1])
	shape := g.shape(len(prompt), g.Nodes)
	lag := g.Costs.LagTime(len(prompt) - g.fed)
	if g.Costs.measured() && g.learnt.Use > 0.25 && g.learnt.solvent() && shape.value-g.plain() > g.price()*lag/horizon {
		begin := g.now()
		fed, err := g.follow(ctx, prompt, 1, progress)
		if err == nil {
			err = settle(g.Model)
		}
		if err != nil {
			return nil, err
		}
		g.Costs.observeFeed(fed, g.now().Sub(begin).Seconds())
	}
	return g, nil
}

// DraftWidths are the widths of tree that the goodput tree chooses among: a chain, two
// beams, and most of them as far as the draft's limits allow it.
func DraftWidths(most int, lim Limits) []int {
	most = min(most, lim.TopK, lim.MaxRows)
	all := []int{1}
	for _, w := range []int{2, most} {
		if w <= most && w > all[len(all)-1] {
			all = append(all, w)
		}
	}
	return all
}

// way names what outcomes are learnt apart for.
func (g *Goodput) way() string {
	switch {
	case g.sampling.Temperature == 0:
		return "greedy " + g.Mode
	case g.coupled:
		return "coupled " + g.Mode
	}
	return "sampled " + g.Mode
}

// acceptance is what was learnt under a name.
func (c *Costs) acceptance(way string) *acceptance {
	if c.learnt == nil {
		c.learnt = map[string]*acceptance{}
	}
	if c.learnt[way] == nil {
		c.learnt[way] = newAcceptance()
	}
	c.learnt[way].ready()
	return c.learnt[way]
}

// Plan implements Policy: Propose decides, within all there is.
func (g *Goodput) Plan(free Budget) Budget {
	g.remaining = free.Levels + 1
	return Budget{Levels: max(g.Levels, g.Nodes-1), Width: g.Width, Nodes: g.Nodes}
}

// price is r, in tokens a second: what a second must bring.
func (g *Goodput) price() float64 { return g.learnt.speed() / g.Costs.plainTime() }

// plain is the value of plain decoding.
func (g *Goodput) plain() float64 { return 1 - g.price()*g.Costs.plainTime() }

// verifyTime is that of a round's rest after a draft.
func (g *Goodput) verifyTime(rows int) float64 { return g.Costs.Verify.At(rows) + g.Costs.Host.Seconds }

// shape is a draft by one call, and what it is expected to be worth.
type shape struct {
	width, levels int
	index         int // of the width
	value         float64
}

// shape is the best draft after length tokens.
func (g *Goodput) shape(length, nodes int) shape {
	best := shape{value: math.Inf(-1)}
	for i := range g.widths {
		for d := 1; d <= g.Levels; d++ {
			if v := g.worth(i, d, length, nodes); v > best.value {
				best = shape{width: g.widths[i], levels: d, index: i, value: v}
			}
		}
	}
	return best
}

// worth is E - r·T of a draft, -Inf where it has no room.
func (g *Goodput) worth(width, levels, length, nodes int) float64 {
	w := g.widths[width]
	if levels > min(g.Levels, g.room(length, w)) {
		return math.Inf(-1)
	}
	best := math.Inf(-1)
	for size, rows := range g.learnt.Yield.Sizes {
		if rows <= nodes {
			best = max(best, 1+*g.learnt.Yield.gain(width, levels, size)-g.price()*g.verifyTime(rows))
		}
	}
	return best - g.price()*g.Costs.DraftTime(levels, w)
}

// room is how many levels fit the draft's cache once it holds length tokens, one more than
// fits taken as none.
func (g *Goodput) room(length, width int) int {
	if length > g.Model.Limits().Context {
		return 0
	}
	return 1 + (g.Model.Limits().Context-length)/width
}

// Propose implements DraftSession.
func (g *Goodput) Propose(ctx context.Context, seq []int32, b Budget) (*Draft, error) {
	g.round++
	g.proposed, g.drafted, g.probe = true, false, false
	g.history.extend(seq)
	g.draft = Draft{}
	c := &g.candidates
	c.reset(seq[len(seq)-1])
	c.score(&g.history, g.learnt, b.Levels, 3*b.Nodes)
	g.ladder = g.Costs.Verify.Ladder(g.ladder, b.Nodes)
	rows, value := g.best()
	if g.Model != nil {
		if s, ok := g.choose(len(seq), value, b); ok {
			if err := g.grow(ctx, seq, s, b); err != nil {
				return nil, err
			}
			rows, _ = g.best()
		}
	}
	if g.round == 1 && !g.Costs.measured() {
		rows = 1 // one plain pass sets the scale of all times
	}
	g.draft.Tree = c.build(rows)
	return &g.draft, nil
}

// best is how many rows to verify of what there is, and what that is worth.
func (g *Goodput) best() (rows int, value float64) {
	ladder := g.ladder
	if !g.drafted {
		ladder = g.affordable(ladder)
	}
	rows, value = g.candidates.best(ladder, g.price(), g.verifyTime)
	if plain := g.plain(); rows > 1 && value < plain+margin {
		return 1, plain
	}
	return rows, value
}

// affordable is the ladder as far as a round may be lost altogether without the purse being overdrawn.
func (g *Goodput) affordable(ladder []int) []int {
	n := 1
	for n < len(ladder) && g.verifyTime(ladder[n])-g.verifyTime(1) <= g.purse*g.Costs.plainTime() {
		n++
	}
	return ladder[:n]
}

// choose decides whether to draft and in which shape. value is that of the round without.
func (g *Goodput) choose(length int, value float64, b Budget) (shape, bool) {
	if b.Levels < 1 || g.round == 1 && !g.Costs.measured() {
		return shape{}, false
	}
	s := g.shape(length, b.Nodes)
	if math.IsInf(s.value, -1) {
		return s, false
	}
	s.levels = min(s.levels, b.Levels)
	lag := g.Costs.LagTime(length - g.fed)
	rounds := min(horizon, 1+float64(g.remaining)/2)
	s.value += hope / (1 + g.learnt.Yield.Seen) // one bad draft says little
	if g.learnt.solvent() && s.value-g.price()*lag/rounds > value+margin {
		g.patience = leastPatience
		g.vary(&s, length, b)
		s.levels = min(s.levels, 2*(1+int(g.learnt.Yield.Seen))) // with a guess to begin with
		return s, true
	}
	// Not expected to pay; but expectations age.
	if g.idle < g.patience {
		return s, false
	}
	if s.levels > 2 { // enough to see whether the draft has found its way
		s.levels, s.value = 2, g.worth(s.index, 2, length, b.Nodes)
	}
	loss := max(0, value-s.value)/g.price() + lag
	if g.Costs.probed+loss > probeShare*g.Costs.spent+firstProbes*g.Costs.plainTime() {
		return s, false
	}
	g.patience = min(2*g.patience, mostPatience)
	g.probe = true
	return s, true
}

// vary tries the next larger shape now and then, and leaves the last level to be decided on
// when the others are there, where that costs little.
func (g *Goodput) vary(s *shape, length int, b Budget) {
	deeper := min(g.Levels, b.Levels, g.room(length, s.width))
	if g.round%wideEvery == 0 && s.value > g.plain() {
		if g.round%(2*wideEvery) == 0 && s.levels < deeper {
			s.levels++
		} else if s.index+1 < len(g.widths) && s.levels <= g.room(length, g.widths[s.index+1]) {
			s.index++
			s.width = g.widths[s.index]
		}
		return
	}
	if g.grower != nil && s.levels > 1 && g.Costs.Sync.Seconds < 0.4*g.Costs.Level.At(s.width) {
		s.levels--
	}
}

// follow has the draft consume seq but for the last few tokens, and returns how many it began on.
func (g *Goodput) follow(ctx context.Context, seq []int32, pending int, progress func(int)) (int, error) {
	surplus := seq[g.fed:max(len(seq)-pending, g.fed)]
	if len(surplus) == 0 {
		return 0, nil
	}
	if err := g.Model.Prefill(ctx, surplus, after(g.fed, progress)); err != nil {
		return 0, err
	}
	g.fed += len(surplus)
	return len(surplus), g.check()
}

// grow drafts, one call and then level by level while the next one promises more than it
// takes.
func (g *Goodput) grow(ctx context.Context, seq []int32, s shape, b Budget) error {
	begin := g.now()
	fed, err := g.follow(ctx, seq, 2, nil)
	if err != nil {
		return err
	}
	levels, err := g.Model.DraftTree(ctx, DraftRequest{Pending: seq[g.fed:], Depth: s.levels - 1, K: s.width, Coupled: g.coupled, Sampling: g.sampling})
	if err != nil {
		return err
	}
	g.drafted, g.shaped = true, [3]int{s.width, s.levels, 0}
	g.Costs.observeDraft(fed, s.levels, s.width, g.now().Sub(begin).Seconds())
	if err := g.consumed(seq); err != nil {
		return err
	}
	if len(levels) != s.levels {
		return fmt.Errorf("spec: the draft model grew %d of %d levels", len(levels), s.levels)
	}
	if err := g.weigh(seq, levels, b); err != nil {
		return err
	}
	most := min(g.Levels, b.Levels, g.room(len(seq), s.width))
	for g.grower != nil && len(levels) < most && g.promising(len(levels), s) {
		begin := g.now()
		if levels, err = g.grower.Grow(ctx, 1); err != nil {
			return err
		}
		g.shaped[2]++
		g.Costs.observeGrow(1, s.width, g.now().Sub(begin).Seconds())
		if err := g.weigh(seq, levels, b); err != nil {
			return err
		}
	}
	g.draft.Levels = levels
	// What was not looked at for long is known badly.
	y := &g.learnt.Yield
	weight := max(1/(1.6+y.Seen), min(0.5, 0.1+float64(g.idle)/64))
	if g.probe {
		weight = max(weight, 0.3)
	}
	g.candidates.survey(y, s.width, len(levels), weight)
	return nil
}

// weigh makes candidates of the levels.
func (g *Goodput) weigh(seq []int32, levels []Level, b Budget) error {
	g.candidates.reset(seq[len(seq)-1])
	if err := g.candidates.levels(levels, g.C2T); err != nil {
		return err
	}
	g.candidates.score(&g.history, g.learnt, b.Levels, 3*b.Nodes)
	return nil
}

// promising tells whether one more level is expected to pay.
func (g *Goodput) promising(levels int, s shape) bool {
	c := &g.candidates
	reach := c.frontier(levels-1, s.width)
	gain := reach * g.learnt.Yield.Reach[s.index]
	rows, _ := c.best(g.ladder, g.price(), g.verifyTime)
	more := g.verifyTime(min(rows+1, g.Nodes)) - g.verifyTime(rows)
	return gain > g.price()*(g.Costs.GrowTime(1, s.width)+more)
}

// Commit implements DraftSession.
func (g *Goodput) Commit(path []int32) error {
	if !g.drafted {
		return nil
	}
	return g.commit(g.candidates.accepted(path))
}

// ordinary is what the round under way would have taken at the machine's pace: what else the machine does meanwhile is no fault of the draft's.
func (g *Goodput) ordinary(rows int) float64 {
	t := g.verifyTime(rows)
	if g.drafted {
		t += g.Costs.DraftTime(g.shaped[1], g.shaped[0]) + float64(g.shaped[2])*g.Costs.GrowTime(1, g.shaped[0])
	}
	return t
}

// Observe learns what the round took and brought.
func (g *Goodput) Observe(e *Event) {
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
	unit := g.Costs.plainTime()
	spent := g.ordinary(e.Tree.Len())
	if !g.drafted && unit > 0 {
		g.purse = min(g.purse+allowance+float64(len(e.Tokens))-spent/unit, fullestPurse)
	}
	if tokens := float64(len(e.Tokens)); unit > 0 && g.probe {
		g.learnt.probed(tokens, spent/unit)
	} else if unit > 0 {
		g.learnt.ran(tokens, spent/unit, g.drafted)
	}
	g.Costs.spent += e.Draft.Seconds() + verify + host
	if g.probe {
		if g.candidates.foresaw(e.Tokens[0]) {
			g.patience = 1 // the draft has found its way, or was lucky: look again while it is not behind
		}
		g.Costs.probed += max(0, e.Draft.Seconds()+verify+host-unit*float64(len(e.Tokens)))
	}
	g.idle++
	if g.drafted {
		g.idle = 0
	}
}
