package goodput

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"foretoken/internal/strictjson"
)

// Costs holds the times, in seconds, of the passes of a target and its draft models on one device. Measure times them
// once. Every round updates them, because they grow with the sequence and follow the load of the machine. Costs also
// keeps the acceptance estimates. It serves one request at a time; encoding/json stores it.
type Costs struct {
	// Verify gives the target's pass by rows, readback included.
	Verify Curve `json:"verify"`
	// Drafts are the times of each draft model, in the order of Goodput.Models.
	Drafts [MostModels]DraftCosts `json:"drafts"`
	// Host is the rest of a round.
	Host Cell `json:"host"`
	// Learnt holds the acceptance estimates by the name of Goodput.way.
	Learnt map[string]*acceptance `json:"acceptance,omitempty"`

	opening opening         // of the session
	rounds  int             // of the session
	drafted [MostModels]int // the rounds in which the models drafted last
	// widest and deepest are the most rows and levels of a round of the session.
	widest, deepest int

	filter *filter // of the cells; nil: the next measured pass starts one
	spent  float64 // seconds of all rounds
	// explored is the seconds that exploration took beyond plain decoding.
	explored float64
	// checked is the seconds that rounds in two runs took beyond joint ones.
	checked float64
}

// DraftCosts holds the times of the passes of a draft model, in seconds.
type DraftCosts struct {
	// Root is a pass over one or two pending tokens, submit and readback included. Level is one more pass in the same
	// submit, by beams.
	Root  Cell  `json:"root"`
	Level Curve `json:"level"`
	// Sync is the time of Extend without its passes: another submit and readback.
	Sync Cell `json:"sync"`
	// Prefill is the time of a prefill by tokens.
	Prefill Curve `json:"feed"`
}

// Cell is one measured time.
type Cell struct {
	Seconds float64 `json:"s"`
	Count   float64 `json:"n"` // measurements behind it; 0: a guess
}

// Curve gives the time of a pass by its size. It is a staircase, because programs exist for some sizes only: a pass
// takes as long as the smallest of RowBuckets that holds it.
type Curve struct {
	Cells []Cell `json:"cells"` // one for each of RowBuckets

	// fit holds the cells' times made non-decreasing; empty: At makes it. Held by TestCostsFollowWhatPassesTake.
	fit []float64
}

// RowBuckets returns the sizes of passes that costs are kept for. They also approximate models that run other sizes.
func RowBuckets() []int { return slices.Clone(buckets) }

var buckets = []int{1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64}

const mostRows = 64 // the last of buckets

const (
	// Guesses for passes of unknown work: the cost of each further row and of a draft's pass, as fractions of the
	// target's pass over one row. Held by TestStairsAreClimbedAtTheirEnds and
	// TestGuessesTakeTheirScaleFromTheFirstPass.
	guessedRow   = 0.12
	guessedDraft = 0.15

	// latestHost is the least weight of the latest time of Costs.Host.
	latestHost = 0.07
)

// NewCosts returns unmeasured costs: guesses in proportion to each other, which the first passes replace.
func NewCosts() *Costs {
	c := &Costs{Host: Cell{Seconds: 0.001}}
	c.Verify.guess(1, guessedRow)
	for i := range c.Drafts {
		c.Drafts[i].guess(guessedDraft, guessedRow)
		c.opening.chains[i] = c.chain(i, guessedDraft)
	}
	return c
}

// Work counts the dispatches and the bytes of a pass over one row.
type Work struct {
	Dispatches int   // in Predict 0: there is no such model
	Bytes      int64 // of weights, each of which is read once
}

// Rates describes a class of devices by rough costs, in units of one dispatch. Predict derives proportions between
// passes from them.
type Rates struct {
	// Bytes of weights that a device reads in the time that a dispatch takes without its reading.
	Bytes float64
	// Row is the cost of one more row of a product, as a fraction of the time of reading the weights.
	Row float64
}

// time returns the time of a pass over one row, in dispatches, and the time of one more row as a fraction of it.
func (r Rates) time(w Work) (one, row float64) {
	reading := float64(w.Bytes) / r.Bytes
	one = float64(w.Dispatches) + reading
	return one, r.Row * reading / one
}

// Predict returns unmeasured costs, like NewCosts, in the proportions that the work of the models has on a class of
// devices.
func Predict(r Rates, target Work, drafts [MostModels]Work) *Costs {
	c := NewCosts()
	one, row := r.time(target)
	c.Verify.guess(1, row)
	for i, w := range drafts {
		if w.Dispatches > 0 {
			pass, row := r.time(w)
			c.Drafts[i].guess(pass/one, row)
			c.opening.chains[i] = c.chain(i, float64(w.Bytes)/float64(target.Bytes))
		}
	}
	return c
}

// guess sets the times of an unmeasured draft: one is a pass over one row in seconds, row the fraction that each
// further row adds.
func (d *DraftCosts) guess(one, row float64) {
	d.Root, d.Sync = Cell{Seconds: one}, Cell{Seconds: one / 3}
	d.Level.guess(one, row)
	d.Prefill.guess(one, row)
}

// guess fills an unmeasured curve: one is the time of one row in seconds, row the fraction that each further row adds.
func (c *Curve) guess(one, row float64) {
	*c = Curve{}
	for _, n := range buckets {
		c.Cells = append(c.Cells, Cell{Seconds: one * (1 + row*float64(n-1))})
	}
}

// stair returns the index of the smallest of RowBuckets that holds n, or of the largest.
func stair(n int) int { return int(stairs[min(n, mostRows)]) }

var stairs = func() (all [mostRows + 1]uint8) {
	for n := range all {
		for buckets[all[n]] < n {
			all[n]++
		}
	}
	return all
}()

func (c *Curve) cell(n int) *Cell { return &c.Cells[stair(n)] }

// At returns the seconds of a pass of size n. A pass larger than all sizes runs in pieces.
func (c *Curve) At(n int) float64 {
	if n < 1 {
		return 0
	}
	if n > mostRows {
		return float64(n/mostRows)*c.At(mostRows) + c.At(n%mostRows)
	}
	if len(c.fit) == 0 { // weighted, so that a rarely measured size does not distort its neighbours
		c.fit = isotonic(c.fit, len(c.Cells), func(i int) (weight, sum float64) {
			weight = c.Cells[i].Count + 0.05
			return weight, weight * c.Cells[i].Seconds
		})
	}
	return c.fit[stair(n)]
}

// ladder returns the sizes below most, and most: the ends of the stairs. It reuses dst.
func ladder(dst []int, most int) []int {
	n, _ := slices.BinarySearch(buckets, most)
	return append(append(dst[:0], buckets[:n]...), most)
}

// Time returns the seconds of one call of Draft that grows levels levels of beams beams.
func (c *DraftCosts) Time(levels, beams int) float64 {
	if levels < 1 {
		return 0
	}
	return c.Root.Seconds + float64(levels-1)*c.Level.At(beams)
}

// GrowTime returns the seconds of one call of Extend that adds a level of beams beams.
func (c *DraftCosts) GrowTime(beams int) float64 { return c.Sync.Seconds + c.Level.At(beams) }

// submit returns the seconds that a joint run of draft and pass saves. Sync is a difference of noisy times, so it is
// capped at the time of a draft.
func (c *DraftCosts) submit() float64 { return min(c.Sync.Seconds, c.Root.Seconds) }

// LagTime returns the seconds that a draft with pending unconsumed tokens takes beyond one with at most two.
func (c *DraftCosts) LagTime(pending int) float64 {
	return c.Prefill.At(pending - 2)
}

// verifyTime returns the seconds of a round after its draft.
func (c *Costs) verifyTime(rows int) float64 { return c.Verify.At(rows) + c.Host.Seconds }

// plainTime returns the seconds of a round of plain decoding.
func (c *Costs) plainTime() float64 { return c.verifyTime(1) }

// measured reports whether any pass of the target was measured.
func (c *Costs) measured() bool {
	return slices.ContainsFunc(c.Verify.Cells, func(cell Cell) bool { return cell.Count > 0 })
}

// Measured reports whether the passes of the target, up to rows, and of the draft models were measured.
func (c *Costs) Measured(rows int, models ...int) bool {
	return c != nil && c.Verify.cell(1).Count > 0 && c.Verify.cell(rows).Count > 0 &&
		!slices.ContainsFunc(models, func(m int) bool { return c.Drafts[m].Root.Count == 0 })
}

// cells returns the cells of the device's passes: the target's, then each draft model's. Host is not among them.
func (c *Costs) cells() []*Cell {
	all := c.Verify.cells(nil)
	for i := range c.Drafts {
		all = append(all, c.Drafts[i].cells()...)
	}
	return all
}

func (d *DraftCosts) cells() []*Cell {
	return append(d.Prefill.cells(d.Level.cells(nil)), &d.Root, &d.Sync)
}

// cells appends the cells of a curve.
func (c *Curve) cells(all []*Cell) []*Cell {
	for i := range c.Cells {
		all = append(all, &c.Cells[i])
	}
	return all
}

// observeVerify updates the costs with passes of the target over as many rows. It may change seconds.
func (c *Costs) observeVerify(rows int, seconds ...float64) {
	if rows >= 1 && rows <= mostRows {
		c.observe(seconds, 0, share{c.Verify.cell(rows), 1})
	}
}

// observeDraft updates the costs with a call of Draft of a model that waited for a prefill of fed tokens.
func (c *Costs) observeDraft(model, fed, levels, beams int, seconds float64) {
	var room [4]share
	c.observe([]float64{seconds}, model+1, c.Drafts[model].drafting(room[:0], fed, levels, beams)...)
}

// observeJoint updates the costs with a run of such a draft and the target's pass over its tree. The run saves a submit
// and a readback.
func (c *Costs) observeJoint(model, fed, levels, beams, rows int, seconds float64) {
	if rows > mostRows {
		return
	}
	var room [6]share
	d := &c.Drafts[model]
	c.observe([]float64{seconds}, model+1, append(d.drafting(room[:0], fed, levels, beams),
		share{c.Verify.cell(rows), 1}, share{&d.Sync, -d.submit() / d.Sync.Seconds})...)
}

// drafting appends the parts of a call of Draft to parts.
func (d *DraftCosts) drafting(parts []share, fed, levels, beams int) []share {
	parts = append(d.prefilling(parts, fed), share{&d.Root, 1})
	if levels > 1 {
		parts = append(parts, share{d.Level.cell(beams), float64(levels - 1)})
	}
	return parts
}

// observeGrow updates the costs with a call of Extend by one level.
func (c *Costs) observeGrow(model, beams int, seconds float64) {
	d := &c.Drafts[model]
	c.observe([]float64{seconds}, model+1, share{&d.Sync, 1}, share{d.Level.cell(beams), 1})
}

// prefilling appends the parts of a prefill to parts.
func (c *DraftCosts) prefilling(parts []share, tokens int) []share {
	if tokens > mostRows {
		parts = append(parts, share{c.Prefill.cell(mostRows), float64(tokens / mostRows)})
		tokens %= mostRows
	}
	if tokens > 0 {
		parts = append(parts, share{c.Prefill.cell(tokens), 1})
	}
	return parts
}

// observePrefill updates the costs with a prefill of a model.
func (c *Costs) observePrefill(model, tokens int, seconds float64) {
	var room [2]share
	c.observe([]float64{seconds}, model+1, c.Drafts[model].prefilling(room[:0], tokens)...)
}

// observeHost updates the time of the rest of a round.
func (c *Costs) observeHost(host float64) {
	c.Host.Count++
	c.Host.Seconds += (max(host, 0) - c.Host.Seconds) * max(1/c.Host.Count, latestHost)
}

// UnmarshalJSON implements json.Unmarshaler. It returns an error for values that no measurement can produce. How a
// session begins to draft stays as Predict or NewCosts set it.
func (c *Costs) UnmarshalJSON(b []byte) error {
	type fields Costs // drops this method
	var n Costs
	if err := strictjson.DecodeForeign(b, (*fields)(&n)); err != nil {
		return fmt.Errorf("spec: costs: %w", err)
	}
	if err := n.validate(); err != nil {
		return fmt.Errorf("spec: costs: %w; remove the stored costs to measure again", err)
	}
	n.opening.chains = c.opening.chains
	*c = n
	return nil
}

func (c *Costs) validate() error {
	err := c.Verify.validate("verify")
	for i := range c.Drafts {
		err = cmp.Or(err, c.Drafts[i].Level.validate("level"), c.Drafts[i].Prefill.validate("feed"))
	}
	if err != nil {
		return err
	}
	host := &Cell{Seconds: c.Host.Seconds + 1e-9, Count: c.Host.Count} // may be 0
	for _, cell := range append(c.cells(), host) {
		if !(cell.Seconds > 0) || cell.Seconds > 3600 || !(cell.Count >= 0) || math.IsInf(cell.Count, 0) {
			err = fmt.Errorf("a time of %v s measured %v times", cell.Seconds, cell.Count)
		}
	}
	for name, a := range c.Learnt {
		if a == nil {
			return fmt.Errorf("field acceptance: %s is null", name)
		}
		if e := a.validate(); e != nil {
			return fmt.Errorf("field acceptance: %s: %w", name, e)
		}
	}
	return err
}

func (c *Curve) validate(field string) error {
	if len(c.Cells) != len(buckets) {
		return fmt.Errorf("field %s has %d cells, want %d", field, len(c.Cells), len(buckets))
	}
	return nil
}

// Probe runs the passes that Measure times.
type Probe struct {
	Verify func(rows int) error // a pass of the target; nil: not measured
	Drafts []DraftProbe         // of the draft models, in the order of Goodput.Models
	Clock  func() float64       // seconds since an arbitrary moment; not nil
}

// DraftProbe runs the passes of a draft model. Without Draft they are not measured.
type DraftProbe struct {
	Widths  []int                         // of trees, ascending
	Draft   func(levels, beams int) error // Draft of so many levels after one pending token
	Grow    func() error                  // Extend, by one level, of the tree of the last call of Draft
	Prefill func(tokens int) error        // of an emptied sequence
	Most    int                           // tokens of a prefill; 0: any number
}

// Measure times the passes of a target and its draft models on a device: the target's up to rows rows, trees by each
// model's widths, one grown further, and prefills. Each pass runs once untimed, and the shortest of several runs
// counts, because other load only adds to it. The times that decide most come first. After budget seconds Measure
// interpolates the other sizes and times no more turns than it has to. It returns the first error of a pass.
func (c *Costs) Measure(p Probe, rows int, budget float64) error {
	m := meter{Probe: p, until: p.Clock() + budget}
	c.filter = nil
	var sizes []int
	var passes []func() error
	if p.Verify != nil {
		for _, n := range []int{1, 2, 4, rows} {
			if n <= rows && !slices.Contains(sizes, n) {
				sizes, passes = append(sizes, n), append(passes, func() error { return p.Verify(n) })
			}
		}
	}
	var prefills []func() error
	for _, d := range p.Drafts {
		if d.Draft != nil {
			passes = append(passes, d.trees()...)
			for _, n := range d.prefills() {
				prefills = append(prefills, func() error { return d.Prefill(n) })
			}
		}
	}
	// The ratios of these times decide more than the times themselves. They run in turn, so that a busy stretch of the
	// machine meets all of them, and again later: if bursts of other load met all runs of a pass, it would look slow,
	// and no round corrects a pass that auto avoids. Held by TestBusyMachinesAreSeenThrough and TestWorlds.
	runs := 2
	times := m.shortest(1, runs, passes...)
	between := make([]float64, len(buckets))
	for i, n := range slices.Backward(buckets) {
		if p.Verify != nil && n < rows && !slices.Contains(sizes, n) && m.err == nil && m.Clock() < m.until {
			copy(between[i:], m.shortest(1, 2, func() error { return p.Verify(n) }))
		}
	}
	for turn := range laterTurns {
		if turn > 0 && m.Clock() >= m.until {
			break
		}
		runs++
		for i, seconds := range m.shortest(0, 1, passes...) {
			times[i] = least(times[i], seconds)
		}
	}
	// Last, and once each: after a prefill that is shorter than a tree's sequence, the next tree would prefill first.
	filled := m.shortest(1, 1, prefills...)
	if m.err != nil {
		return m.err
	}
	for i, n := range sizes {
		c.Verify.cell(n).set(times[i], runs)
	}
	for i, seconds := range between {
		c.Verify.Cells[i].set(seconds, 2)
	}
	extend(&c.Verify)
	times = times[len(sizes):]
	for i, d := range p.Drafts {
		if d.Draft != nil {
			times, filled = d.set(&c.Drafts[i], times, filled, runs)
		}
	}
	return nil
}

const (
	// laterTurns is the most turns after the first ones; one runs even beyond the budget.
	laterTurns = 3
	// draftLevels is the number of levels of the trees that time DraftCosts.Level.
	draftLevels = 3
)

// trees returns the passes of a draft model that Measure times in turn: a tree of one level, one of two, one grown to
// two, and trees of each width.
func (p DraftProbe) trees() []func() error {
	first := p.Widths[0]
	tree := func(levels, beams int) func() error { return func() error { return p.Draft(levels, beams) } }
	grown := func() error {
		if err := p.Draft(1, first); err != nil {
			return err
		}
		return p.Grow()
	}
	all := []func() error{tree(1, first), tree(2, first), grown}
	for _, w := range p.Widths {
		all = append(all, tree(draftLevels, w))
	}
	return all
}

// set sets c by the first times, the shortest of this draft's trees and prefills, and returns the remaining times,
// which belong to the next models.
func (p DraftProbe) set(c *DraftCosts, times, filled []float64, runs int) (restTimes, restFilled []float64) {
	root, two, grown := times[0], times[1], times[2]
	c.Root.set(root, runs)
	c.Sync.set(beyond(grown, two), runs) // with the same passes
	times = times[3:]
	for i, w := range p.Widths {
		c.Level.cell(w).set(beyond(times[i], root)/(draftLevels-1), runs)
	}
	extend(&c.Level)
	sizes := p.prefills()
	for i, n := range sizes {
		c.Prefill.cell(n).set(filled[i], 1)
	}
	extend(&c.Prefill)
	return times[len(p.Widths):], filled[len(sizes):]
}

// prefills returns the tokens of the prefills that Measure times.
func (p DraftProbe) prefills() (all []int) {
	for _, n := range []int{16, 64} {
		if p.Most == 0 || n <= p.Most {
			all = append(all, n)
		}
	}
	return all
}

// beyond returns the time by which a run takes longer than a part of it. The difference of two noisy times may be 0 or
// negative, and costs have to be positive.
func beyond(run, part float64) float64 { return max(run-part, run/20) }

// least returns the lower of two times; 0 is none, as of a coarse clock.
func least(a, b float64) float64 {
	if a == 0 || b > 0 && b < a {
		return b
	}
	return a
}

// set sets a cell to the shortest time of some runs; 0 leaves it.
func (c *Cell) set(seconds float64, runs int) {
	if seconds > 0 {
		*c = Cell{Seconds: seconds, Count: float64(runs)}
	}
}

// staleRatio is the ratio of a new time to a stored one from which on Holds rejects the stored costs.
// Held by TestKeptCostsAreCheckedBeforeUse.
const staleRatio = 1.5

// Holds reports whether stored costs up to rows rows still describe the device. Costs stored on a busy machine would
// otherwise stay: a round of plain decoding corrects none of the larger passes.
func (c *Costs) Holds(p Probe, rows int) (bool, error) {
	for _, n := range []int{1, 4, rows} {
		if n > rows {
			continue
		}
		m := meter{Probe: p}
		for _, now := range m.shortest(1, 2, func() error { return p.Verify(n) }) {
			if kept := c.Verify.At(n); now > staleRatio*kept || kept > staleRatio*now {
				return false, nil
			}
		}
		if m.err != nil {
			return false, m.err
		}
	}
	return true, nil
}

// meter times passes until one fails.
type meter struct {
	Probe
	until float64 // end of the time budget on Clock
	err   error   // of the first pass that failed
}

// shortest runs passes in turn, some times untimed and then so many times, and returns the shortest time of each in
// seconds, or nothing once a pass has failed.
func (m *meter) shortest(untimed, times int, passes ...func() error) []float64 {
	if m.err != nil {
		return nil
	}
	shortest := make([]float64, len(passes))
	for round := range untimed + times {
		for i, pass := range passes {
			begin := m.Clock()
			if m.err = pass(); m.err != nil {
				return nil
			}
			if round >= untimed {
				shortest[i] = least(shortest[i], m.Clock()-begin)
			}
		}
	}
	return shortest
}

// extend interpolates the sizes between measured ones, and extrapolates beyond the last. A pass that took longer than a
// larger one met other load, so it counts as that one.
func extend(c *Curve) {
	c.fit = c.fit[:0]
	larger := math.Inf(1)
	for i := range slices.Backward(c.Cells) {
		if cell := &c.Cells[i]; cell.Count > 0 {
			cell.Seconds = min(cell.Seconds, larger)
			larger = cell.Seconds
		}
	}
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
			at := float64(buckets[j]-buckets[last]) / float64(buckets[i]-buckets[last])
			c.Cells[j].Seconds = c.Cells[last].Seconds + at*(c.Cells[i].Seconds-c.Cells[last].Seconds)
		}
		last = i
	}
	if last < 0 {
		return
	}
	per := max(0, c.Cells[last].Seconds-c.Cells[0].Seconds) / float64(max(buckets[last]-1, 1))
	for j := last + 1; j < len(c.Cells); j++ {
		c.Cells[j].Seconds = c.Cells[last].Seconds + per*float64(buckets[j]-buckets[last])
	}
}
