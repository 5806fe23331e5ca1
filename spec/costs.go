package spec

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"sort"
)

// Costs are what the passes of a pair of models take on a device, in seconds: measured
// once, then followed from round to round, for they grow with the sequence and move
// with the machine's other work. It also keeps what was learnt of how often
// drafted tokens are accepted. One Costs belongs to one pair on one device and to
// one request at a time; encoding/json stores it.
type Costs struct {
	// Verify is the target's pass by its rows, readback included: a staircase, since
	// programs exist for some numbers of rows only.
	Verify Curve
	// Root is the draft's pass over one or two pending tokens, submit and readback
	// included, and Level one more pass of the same submit by its beams.
	Root  Cell
	Level Curve
	// Sync is what Grow takes beyond its passes: another submit and readback.
	Sync Cell
	// Feed is prefilling the draft by tokens.
	Feed Curve
	// Host is the rest of a round.
	Host Cell

	learnt map[string]*acceptance // by the way of sampling
	spent  float64                // seconds of all rounds
	probed float64                // of them, those that probes took beyond plain decoding
}

// Cell is one measured time.
type Cell struct {
	Seconds float64 `json:"s"`
	Count   float64 `json:"n"` // measurements behind it; 0: a guess
}

// Curve is the time of a pass by its size, a staircase: a pass takes as long as the
// smallest of Sizes that holds it.
type Curve struct {
	Sizes []int  `json:"sizes"` // ascending
	Cells []Cell `json:"cells"` // of each size

	fit    []float64 // Cells with what contradicts the order of sizes pooled; empty: to be worked out
	blocks []block   // room to work it out in
}

// block is neighbouring cells that are pooled.
type block struct {
	weight, sum float64
	cells       int
}

// RowBuckets are the sizes of passes that costs are kept for. A model that runs other
// sizes is described by these all the same, less sharply.
func RowBuckets() []int { return []int{1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64} }

const (
	// A guess at a pass before it was measured: so much of the target's for each row more,
	// and the draft's beside the target's.
	guessedRow   = 0.12
	guessedDraft = 0.15

	slowest  = 0.07 // least weight of a new measurement
	leeway   = 0.4  // how far, in ln, one measurement may be from what was expected before it is cut down
	kinship  = 0.25 // how much all other passes move with one
	trusting = 3    // measurements before one is cut down
	familiar = 3    // measurements after which half of what one says is put down to the machine
	common   = 0.18 // how much all passes move with one that is known
)

// NewCosts are costs that nothing was measured of: guesses in proportion to
// each other, replaced by what rounds take.
func NewCosts() *Costs {
	c := &Costs{Root: Cell{Seconds: guessedDraft}, Sync: Cell{Seconds: guessedDraft / 3}, Host: Cell{Seconds: 0.001}}
	c.Verify = curve(RowBuckets(), func(n int) float64 { return 1 + guessedRow*float64(n-1) })
	c.Level = curve(RowBuckets(), func(n int) float64 { return guessedDraft * (1 + guessedRow*float64(n-1)) })
	c.Feed = curve([]int{1, 4, 16, 64}, func(n int) float64 { return guessedDraft * (1 + guessedRow*float64(n-1)) })
	return c
}

func curve(sizes []int, guess func(int) float64) Curve {
	c := Curve{Sizes: sizes}
	for _, n := range sizes {
		c.Cells = append(c.Cells, Cell{Seconds: guess(n)})
	}
	return c
}

// stair is the index of the smallest size that holds n, or of the largest.
func (c *Curve) stair(n int) int {
	return min(sort.SearchInts(c.Sizes, n), len(c.Sizes)-1)
}

// At is the time of a pass of size n; one larger than all sizes is run in pieces.
func (c *Curve) At(n int) float64 {
	if n < 1 {
		return 0
	}
	last := len(c.Sizes) - 1
	if most := c.Sizes[last]; n > most {
		return float64(n/most)*c.At(most) + c.At(n%most)
	}
	if len(c.fit) == 0 {
		c.smooth()
	}
	return c.fit[c.stair(n)]
}

// smooth works out times that do not fall as the size grows: cells that say otherwise are
// pooled with weights by how often they were measured, so that a size of which
// little is known does not speak against those around it.
func (c *Curve) smooth() {
	blocks := c.blocks[:0]
	for _, cell := range c.Cells {
		weight := min(cell.Count, 12) + 0.05
		b := block{weight, weight * cell.Seconds, 1}
		for n := len(blocks) - 1; n >= 0 && blocks[n].sum*b.weight > b.sum*blocks[n].weight; n-- {
			b = block{b.weight + blocks[n].weight, b.sum + blocks[n].sum, b.cells + blocks[n].cells}
			blocks = blocks[:n]
		}
		blocks = append(blocks, b)
	}
	c.fit, c.blocks = c.fit[:0], blocks
	for _, b := range blocks {
		for range b.cells {
			c.fit = append(c.fit, b.sum/b.weight)
		}
	}
}

// Ladder are the sizes up to most, most included: where a pass may end.
func (c *Curve) Ladder(dst []int, most int) []int {
	dst = dst[:0]
	for _, n := range c.Sizes {
		if n < most {
			dst = append(dst, n)
		}
	}
	return append(dst, most)
}

// DraftTime is that of growing levels levels of beams beams by one call.
func (c *Costs) DraftTime(levels, beams int) float64 {
	if levels < 1 {
		return 0
	}
	return c.Root.Seconds + float64(levels-1)*c.Level.At(beams)
}

// GrowTime is that of growing an open tree by so many levels.
func (c *Costs) GrowTime(levels, beams int) float64 {
	return c.Sync.Seconds + float64(levels)*c.Level.At(beams)
}

// LagTime is what a draft behind by pending tokens takes more than one that lacks one or
// two.
func (c *Costs) LagTime(pending int) float64 {
	return c.Feed.At(pending - 2)
}

// plainTime is a round of plain decoding.
func (c *Costs) plainTime() float64 { return c.Verify.At(1) + c.Host.Seconds }

// share is a part of a pass whose time was measured as a whole.
type share struct {
	cell  *Cell
	times float64 // how often it is in there
}

// observe takes in how long a pass of several parts took.
func (c *Costs) observe(seconds float64, parts ...share) {
	expected := 0.0
	for _, p := range parts {
		expected += p.times * p.cell.Seconds
	}
	if !(seconds > 0) || math.IsInf(seconds, 0) || !(expected > 0) {
		return
	}
	news, known := math.Log(seconds/expected), math.Inf(1)
	for _, p := range parts {
		known = min(known, p.cell.Count)
	}
	if known >= trusting { // a pause of the machine is not a pass's own
		news = min(max(news, -leeway), leeway)
	}
	rate := max(1/(2+known), slowest)
	// What is known well has changed because the machine has: then all passes have, and what they take beside each other is as it was.
	trust := known / (known + familiar)
	kin := kinship*rate*(1-trust) + common*trust
	rate = kin*trust + (1-kin*trust)*rate
	if known == 0 {
		rate = 1
	}
	if !c.measured() {
		kin = 1 // the first measurement sets the scale of all guesses
	}
	c.each(func(cell *Cell) {
		for _, p := range parts {
			if p.cell == cell {
				return
			}
		}
		cell.Seconds *= math.Exp(kin * news)
	})
	for _, p := range parts {
		part := p.times * p.cell.Seconds / expected
		if len(parts) == 1 {
			part = 1
		}
		p.cell.Count = min(p.cell.Count+part, 1e6)
		// A part that is most of the time answers for most of the news.
		p.cell.Seconds *= math.Exp(rate * news * min(1, 0.3+part))
	}
}

// measured tells whether any pass of the target was.
func (c *Costs) measured() bool {
	for _, cell := range c.Verify.Cells {
		if cell.Count > 0 {
			return true
		}
	}
	return false
}

// Measured tells whether the target's passes up to rows and, where draft is set, the
// draft's were measured, so that nothing has to be.
func (c *Costs) Measured(rows int, draft bool) bool {
	return c != nil && c.Verify.Cells[0].Count > 0 && c.Verify.Cells[c.Verify.stair(rows)].Count > 0 &&
		(!draft || c.Root.Count > 0)
}

// each calls f for every cell of the passes; the host's time is not the device's.
func (c *Costs) each(f func(*Cell)) {
	for _, curve := range []*Curve{&c.Verify, &c.Level, &c.Feed} {
		curve.fit = curve.fit[:0]
		for i := range curve.Cells {
			f(&curve.Cells[i])
		}
	}
	f(&c.Root)
	f(&c.Sync)
}

// observeVerify takes in a pass of the target.
func (c *Costs) observeVerify(rows int, seconds float64) {
	if rows >= 1 && rows <= c.Verify.Sizes[len(c.Verify.Sizes)-1] {
		c.observe(seconds, share{&c.Verify.Cells[c.Verify.stair(rows)], 1})
	}
}

// observeDraft takes in a tree grown by one call, and a prefill of so many tokens that the device had yet to do before.
func (c *Costs) observeDraft(fed, levels, beams int, seconds float64) {
	var room [4]share
	parts := append(c.feeding(room[:0], fed), share{&c.Root, 1})
	if levels > 1 {
		parts = append(parts, share{&c.Level.Cells[c.Level.stair(beams)], float64(levels - 1)})
	}
	c.observe(seconds, parts...)
}

// observeGrow takes in a tree grown further.
func (c *Costs) observeGrow(levels, beams int, seconds float64) {
	c.observe(seconds, share{&c.Sync, 1}, share{&c.Level.Cells[c.Level.stair(beams)], float64(levels)})
}

// feeding appends the parts of a prefill of the draft.
func (c *Costs) feeding(parts []share, tokens int) []share {
	f := &c.Feed
	if most := f.Sizes[len(f.Sizes)-1]; tokens > most {
		parts = append(parts, share{&f.Cells[len(f.Cells)-1], float64(tokens / most)})
		tokens %= most
	}
	if tokens > 0 {
		parts = append(parts, share{&f.Cells[f.stair(tokens)], 1})
	}
	return parts
}

// observeFeed takes in a prefill of the draft that was waited for.
func (c *Costs) observeFeed(tokens int, seconds float64) {
	var room [2]share
	c.observe(seconds, c.feeding(room[:0], tokens)...)
}

// observeHost takes in the rest of a round.
func (c *Costs) observeHost(host float64) {
	host = max(host, 0)
	c.Host.Count++
	c.Host.Seconds += (min(host, 4*c.Host.Seconds+1e-5) - c.Host.Seconds) * max(1/c.Host.Count, slowest)
}

// costsFile is Costs as stored.
type costsFile struct {
	Verify     Curve                  `json:"verify"`
	Root       Cell                   `json:"root"`
	Level      Curve                  `json:"level"`
	Sync       Cell                   `json:"sync"`
	Feed       Curve                  `json:"feed"`
	Host       Cell                   `json:"host"`
	Acceptance map[string]*acceptance `json:"acceptance,omitempty"`
}

// MarshalJSON implements json.Marshaler.
func (c *Costs) MarshalJSON() ([]byte, error) {
	return json.Marshal(costsFile{c.Verify, c.Root, c.Level, c.Sync, c.Feed, c.Host, c.learnt})
}

// UnmarshalJSON implements json.Unmarshaler and refuses what no measurement could have
// given.
func (c *Costs) UnmarshalJSON(b []byte) error {
	var f costsFile
	if err := json.Unmarshal(b, &f); err != nil {
		return fmt.Errorf("spec: costs: %w", err)
	}
	n := Costs{Verify: f.Verify, Root: f.Root, Level: f.Level, Sync: f.Sync, Feed: f.Feed, Host: f.Host, learnt: f.Acceptance}
	if err := n.validate(); err != nil {
		return fmt.Errorf("spec: costs: %w; remove them to have them measured anew", err)
	}
	*c = n
	return nil
}

func (c *Costs) validate() error {
	for _, v := range []struct {
		field string
		curve *Curve
	}{{"verify", &c.Verify}, {"level", &c.Level}, {"feed", &c.Feed}} {
		if len(v.curve.Sizes) == 0 || len(v.curve.Sizes) != len(v.curve.Cells) || v.curve.Sizes[0] != 1 {
			return fmt.Errorf("field %s has %d sizes and %d cells, want as many of both, from size 1", v.field, len(v.curve.Sizes), len(v.curve.Cells))
		}
		for i, n := range v.curve.Sizes[1:] {
			if n <= v.curve.Sizes[i] {
				return fmt.Errorf("field %s: size %d after %d", v.field, n, v.curve.Sizes[i])
			}
		}
	}
	var err error
	check := func(cell *Cell) {
		if !(cell.Seconds > 0) || cell.Seconds > 3600 || !(cell.Count >= 0) || math.IsInf(cell.Count, 0) {
			err = fmt.Errorf("a time of %v s measured %v times", cell.Seconds, cell.Count)
		}
	}
	c.each(check)
	check(&Cell{Seconds: c.Host.Seconds + 1e-9, Count: c.Host.Count}) // it may be nothing at all
	for name, a := range c.learnt {
		if a == nil {
			return fmt.Errorf("field acceptance: %s is null", name)
		}
		if e := a.validate(); e != nil {
			return fmt.Errorf("field acceptance: %s: %w", name, e)
		}
	}
	return err
}

// Probe runs passes to be timed. What it does not offer is nil.
type Probe struct {
	Verify func(rows int) error          // a pass of the target
	Draft  func(levels, beams int) error // DraftTree of so many levels, one pending token
	Grow   func(levels, beams int) error // Grow of the tree that Draft drew last
	Feed   func(tokens int) error        // a prefill of the draft
	Clock  func() float64                // seconds since any moment
}

// Measure times passes of a pair on a device: the target's by rows up to a number, trees of
// the draft by each of widths, one grown further, prefills. Each is run once
// untimed, and of several times the least counts: what else the machine does only adds to
// them. The times that decisions rest on most come first; when budget seconds
// are over the rest is put in proportion.
func (c *Costs) Measure(p Probe, rows int, widths []int, budget float64) error {
	m := meter{Probe: p, until: p.Clock() + budget}
	verify := func(n, runs int) {
		m.time(&c.Verify.Cells[c.Verify.stair(n)], runs, 0, 1, func() error { return p.Verify(n) })
	}
	if p.Verify != nil {
		// What they take beside each other decides more than what they take: they run in turn, so that a busy stretch meets all.
		var cells []*Cell
		var sizes []int
		for _, n := range []int{1, 2, rows, 1, 4} {
			if n < rows || n == rows && !slices.Contains(sizes, n) {
				cells, sizes = append(cells, &c.Verify.Cells[c.Verify.stair(n)]), append(sizes, n)
			}
		}
		m.inTurn(cells, 2, func(i int) error { return p.Verify(sizes[i]) })
	}
	if p.Draft != nil {
		m.time(&c.Root, 3, 0, 1, func() error { return p.Draft(1, widths[0]) })
		for _, w := range widths {
			const levels = 3
			cell := &c.Level.Cells[c.Level.stair(w)]
			m.time(cell, 2, c.Root.Seconds, levels-1, func() error { return p.Draft(levels, w) })
		}
		extend(&c.Level)
	}
	if p.Draft != nil && p.Grow != nil {
		w := widths[0]
		m.before = func() error { return p.Draft(1, w) }
		m.time(&c.Sync, 1, c.Level.At(w), 1, func() error { return p.Grow(1, w) })
		m.before = nil
	}
	if p.Feed != nil {
		for _, n := range []int{16, 64} {
			m.time(&c.Feed.Cells[c.Feed.stair(n)], 1, 0, 1, func() error { return p.Feed(n) })
		}
		extend(&c.Feed)
	}
	if p.Verify != nil {
		for _, n := range []int{8, 3, 6, 12, 32, 16, 24, 48} {
			if n < rows && m.left() {
				verify(n, 2)
			}
		}
		extend(&c.Verify)
	}
	return m.err
}

// disbelief is how many times as long or as short as kept a pass may take before kept
// costs are measured anew.
const disbelief = 1.5

// Holds tells whether costs from an earlier time, up to rows, still describe the device: a machine
// that was busy then, or is in another state now, may have costs that no round of plain
// decoding would ever correct.
func (c *Costs) Holds(p Probe, rows int) (bool, error) {
	for _, n := range []int{1, 4, rows} {
		if n > rows {
			continue
		}
		m, now := meter{Probe: p}, Cell{}
		m.time(&now, 2, 0, 1, func() error { return p.Verify(n) })
		if m.err != nil {
			return false, m.err
		}
		if kept := c.Verify.At(n); now.Seconds > disbelief*kept || kept > disbelief*now.Seconds {
			return false, nil
		}
	}
	return true, nil
}

// Forget makes guesses of all times and keeps what was learnt of acceptance.
func (c *Costs) Forget() {
	learnt := c.learnt
	*c = *NewCosts()
	c.learnt = learnt
}

// meter times passes until one fails.
type meter struct {
	Probe
	until  float64
	before func() error // untimed, before each run
	err    error
}

func (m *meter) left() bool { return m.err == nil && m.Clock() < m.until }

// time sets a cell to the least of so many runs, less what is known of it, in equal parts.
func (m *meter) time(cell *Cell, runs int, less float64, parts int, run func() error) {
	var took []float64
	for i := 0; i <= runs && m.err == nil; i++ {
		if m.before != nil {
			if m.err = m.before(); m.err != nil {
				return
			}
		}
		begin := m.Clock()
		if m.err = run(); i > 0 {
			took = append(took, m.Clock()-begin)
		}
	}
	if m.err != nil {
		return
	}
	whole := slices.Min(took)
	// A difference of two times is noisy, and nothing takes no time at all.
	if one := max((whole-less)/float64(parts), whole/20/float64(parts)); one > 0 {
		*cell = Cell{Seconds: one, Count: 1} // what rounds take soon weighs more
	}
}

// inTurn sets cells to the least of so many runs of each, one after the other again and again. A cell may be there more than once.
func (m *meter) inTurn(cells []*Cell, runs int, run func(i int) error) {
	least := map[*Cell]float64{}
	for r := 0; r <= runs; r++ {
		for i, cell := range cells {
			if m.err != nil {
				return
			}
			begin := m.Clock()
			if m.err = run(i); r > 0 {
				took := m.Clock() - begin
				if known, ok := least[cell]; !ok || took < known {
					least[cell] = took
				}
			}
		}
	}
	for cell, seconds := range least {
		if m.err == nil && seconds > 0 {
			*cell = Cell{Seconds: seconds, Count: 1}
		}
	}
}

// extend puts sizes that were not measured in proportion to the measured ones around.
func extend(c *Curve) {
	c.fit = c.fit[:0]
	last := -1
	for i := range c.Cells {
		if c.Cells[i].Count == 0 {
			continue
		}
		for j := last + 1; j < i; j++ {
			if last < 0 {
				c.Cells[j].Seconds = c.Cells[i].Seconds
				continue
			}
			at := float64(c.Sizes[j]-c.Sizes[last]) / float64(c.Sizes[i]-c.Sizes[last])
			c.Cells[j].Seconds = c.Cells[last].Seconds + at*(c.Cells[i].Seconds-c.Cells[last].Seconds)
		}
		last = i
	}
	if last < 0 {
		return
	}
	per := c.Cells[last].Seconds * guessedRow / (1 + guessedRow*float64(c.Sizes[last]-1))
	if last > 0 {
		per = max(0, c.Cells[last].Seconds-c.Cells[0].Seconds) / float64(c.Sizes[last]-1)
	}
	for j := last + 1; j < len(c.Cells); j++ {
		c.Cells[j].Seconds = c.Cells[last].Seconds + per*float64(c.Sizes[j]-c.Sizes[last])
	}
}
