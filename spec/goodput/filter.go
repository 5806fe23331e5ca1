package goodput

import (
	"math"
	"slices"
)

// share is one part of a measured time.
type share struct {
	cell  *Cell
	times float64 // how often the measured time contains the cell; below 0: it was saved
}

// filter is a Kalman filter over the ln of the seconds of all passes (Kalman, "A New Approach to Linear Filtering and
// Prediction Problems", 1960). A time tells what its passes take and, as the machine may have become slower, what all
// others take; it tells most about the parts that were least certain.
type filter struct {
	cells  []*Cell
	target int // number of the target's cells, which come before the draft models' cells
	// cov holds the covariances of the ln of the cells' seconds, relative to the times that the next pass will take, of
	// each cell with itself and those before it, without the drift of the passes so far.
	cov    []float64 // (cells, cells)
	passes float64
	part   []float64 // (cells): scratch, the shares of a pass
	moving []float64 // (cells): scratch, the covariances of a pass with the cells, without the drift
	drift  []float64 // (cells): scratch, what the drift adds to them from pass to pass
}

// Standard deviations of ln seconds. Within a factor of two they move the means of TestWorlds by at most a hundredth.
const (
	timerNoise   = 0.12  // of a measurement
	machineDrift = 0.06  // of all cells together, from pass to pass
	modelDrift   = 0.01  // of all cells of a model, from pass to pass
	cellDrift    = 0.001 // of each cell, from pass to pass
	cellGuess    = 0.3   // of a guess, of each cell
	// At first, whether cells were measured or not: measurements of another time may be of another load. Held by
	// TestOpeningsAreNotMisled.
	rowGuess     = 0.6 // of what the target's rows after the first take
	modelGuess   = 0.5 // of all cells of a model
	machineGuess = 1.0 // of all cells together
	scaleGuess   = 1e4 // of all cells together, before the target was measured
	// furthest bounds one measurement's news, in standard deviations: beyond it is a pause of the machine. Held by
	// TestCostsFollowWhatPassesTake.
	furthest = 2.5
)

// newFilter starts a filter of the target and of the first models by how often each cell was measured.
func newFilter(c *Costs, models int) *filter {
	machine := machineGuess
	if !c.measured() {
		machine, models = scaleGuess, MostModels
	}
	f := &filter{target: len(c.Verify.Cells)}
	f.cells = c.cells()[:f.target+models*ofEachDraft]
	n := len(f.cells)
	f.cov, f.part = make([]float64, n*n), make([]float64, n)
	f.moving, f.drift = make([]float64, n), make([]float64, n)
	for i, x := range f.cells {
		from, to := f.model(i)
		for k := range f.cells {
			v := machine * machine
			if k >= from && k < to {
				v += modelGuess * modelGuess
			}
			if i < f.target && k < f.target {
				v += rowGuess * rowGuess * many(i) * many(k)
			}
			if i == k {
				v += 1 / (1/(cellGuess*cellGuess) + x.Count/(timerNoise*timerNoise))
			}
			f.cov[i*n+k] = v
		}
	}
	return f
}

// many says how far the time of the target's i-th cell consists of rows after the first, from 0 to 1.
func many(i int) float64 { return 1 - 1/float64(buckets[i]) }

// start begins the filter of a session for the target and the first models.
func (c *Costs) start(models int) {
	if c.filter == nil {
		c.filter = newFilter(c, models)
	}
}

// ofEachDraft is the number of cells of a draft model.
var ofEachDraft = 2*len(buckets) + 2

// model returns the range of the cells of a cell's model.
func (f *filter) model(i int) (from, to int) {
	if i < f.target {
		return 0, f.target
	}
	from = i - (i-f.target)%ofEachDraft
	return from, from + ofEachDraft
}

// observe updates the costs with the measured seconds of equal passes of several parts, of the target and the first
// models. It may change seconds.
func (c *Costs) observe(seconds []float64, models int, parts ...share) {
	expected := 0.0
	for _, p := range parts {
		expected += p.times * p.cell.Seconds
	}
	seconds = slices.DeleteFunc(seconds, func(s float64) bool { return !(s > 0) || math.IsInf(s, 0) })
	if len(seconds) == 0 || !(expected > 0) {
		return
	}
	if c.filter == nil || slices.Index(c.filter.cells, parts[0].cell) < 0 {
		c.filter = newFilter(c, models)
	}
	f := c.filter
	clear(f.part)
	for _, p := range parts {
		x := p.times * p.cell.Seconds / expected
		f.part[slices.Index(f.cells, p.cell)] += x
		p.cell.Count = min(p.cell.Count+math.Abs(x)*float64(len(seconds)), 1e6)
	}
	f.learn(expected, seconds)
	c.Verify.fit = c.Verify.fit[:0]
	for i := range c.Drafts {
		d := &c.Drafts[i]
		d.Level.fit, d.Prefill.fit = d.Level.fit[:0], d.Prefill.fit[:0]
	}
}

// learn moves the cells by equal passes, whose shares are in f.part, in turn. expected is the seconds of each by the
// cells before the first.
func (f *filter) learn(expected float64, seconds []float64) {
	clear(f.moving)
	clear(f.drift)
	for k, x := range f.part {
		if x != 0 {
			f.move(k, x)
		}
	}
	own, drift := 0.0, 0.0 // of a pass with itself
	for i, x := range f.part {
		own += x * f.moving[i]
		drift += x * f.drift[i]
	}
	// The covariances of the cells with a pass of these shares stay a·moving + b·drift, so one update of all cells and
	// covariances stands for the updates of all passes.
	a, b := 1.0, f.passes
	var cells struct{ moving, drift float64 }      // change of ln seconds
	var cov struct{ moving, mixed, drift float64 } // change of the covariances
	for _, s := range seconds {
		pass := a*own + b*drift
		variance := timerNoise*timerNoise + pass
		most := furthest * math.Sqrt(variance)
		gain := min(max(math.Log(s/expected)-cells.moving*own-cells.drift*drift, -most), most) / variance
		cells.moving, cells.drift = cells.moving+a*gain, cells.drift+b*gain
		cov.moving, cov.mixed, cov.drift = cov.moving+a*a/variance, cov.mixed+a*b/variance, cov.drift+b*b/variance
		a, b = a*(1-pass/variance), b*(1-pass/variance)+1
		f.passes++
	}
	n := len(f.cells)
	for i, cell := range f.cells {
		moving, drifts := f.moving[:i+1], f.drift[:i+1]
		x, y := moving[i], drifts[i]
		cell.Seconds *= math.Exp(cells.moving*x + cells.drift*y)
		x, y = cov.moving*x+cov.mixed*y, cov.mixed*x+cov.drift*y
		for k, row := 0, f.cov[i*n:][:len(moving)]; k < len(row); k++ {
			row[k] -= x*moving[k] + y*drifts[k]
		}
	}
}

// move adds the covariances of x times cell k with all cells to f.moving and f.drift.
func (f *filter) move(k int, x float64) {
	n := len(f.cells)
	from, to := f.model(k)
	for i := range f.moving {
		v := machineDrift * machineDrift
		if i >= from && i < to {
			v += modelDrift * modelDrift
		}
		if i == k {
			v += cellDrift * cellDrift
		}
		f.moving[i] += x * f.cov[max(i, k)*n+min(i, k)]
		f.drift[i] += x * v
	}
}
