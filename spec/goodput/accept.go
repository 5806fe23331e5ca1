package goodput

import (
	"fmt"
	"math"
	"slices"

	"foretoken/spec"
)

// The sources of estimates of a candidate's acceptance. Each draft model has its own from fromDraft on.
const (
	fromLookup  = iota // the context model's probability of the token
	notLookedUp        // that the lookup proposes other tokens. Held by TestImprovedDraftIsUsedAgain
	fromDraft          // the draft's probability of its first choice
	fromLater          // of its other choices: the target takes them less often at the same probability
	ofEachModel = iota - fromDraft
	sourceCount = fromDraft + MostModels*ofEachModel
)

// Models are the draft models that a Goodput weighs; nil: there is none.
type Models [MostModels]spec.DraftModel

// count returns the number of models.
func (m *Models) count() (n int) {
	for _, model := range m {
		if model != nil {
			n++
		}
	}
	return n
}

// The indices of Models and of Costs.Drafts.
const (
	SmallDraft = iota
	EAGLE3     // a head
	MostModels
)

// acceptance estimates how often candidates are accepted under one way of sampling and verifying.
type acceptance struct {
	// Sources calibrates the scores of each source.
	Sources [sourceCount]Calibrator   `json:"sources"`
	Mixer   mixer                     `json:"mixer"`
	Models  [MostModels]modelEstimate `json:"models"`
	// Ratio corrects all estimates by the latest outcomes. Held by the lowest figure of
	// TestNeverSlowerThanPlainAndCloseToTheBest.
	Ratio calibrationRatio `json:"ratio"`

	// Tokens and Time, in passes over one row, are decaying sums over rounds. Their ratio is the speed that a round
	// has to keep up with.
	Tokens float64 `json:"tokens"`
	Time   float64 `json:"time"`
}

// modelEstimate holds the yield and the loss of a draft model.
type modelEstimate struct {
	Yield profile `json:"yield"`
	// Loss is the time that rounds with the model took beyond plain decoding, in passes over one row. It bounds the
	// cost of wrong estimates; gains are saved up to mostLoss. Held by the lowest figure of
	// TestNeverSlowerThanPlainAndCloseToTheBest.
	Loss float64 `json:"loss"`
	// Choosing compares trees that are chosen and grown after their draft with trees that are fixed before it.
	Choosing choosing `json:"choosing"`
}

const mostLoss = 2.5

// choosing holds the mean gain of choosing trees. Recent rounds weigh more.
type choosing struct {
	Gain float64 `json:"gain"` // tokens, less the price of the extra time
	Seen float64 `json:"seen"` // rounds
}

func (c *choosing) learn(gain float64) {
	c.Gain += max(1/(4+c.Seen), 0.1) * (gain - c.Gain)
	c.Seen++
}

// newAcceptance returns the estimates before the first round: the speed of plain decoding.
func newAcceptance() *acceptance { return &acceptance{Tokens: 1, Time: 1} }

// speed returns tokens per pass over one row. Plain decoding has 1.
func (a *acceptance) speed() float64 { return a.Tokens / a.Time }

// ran adds a round: its tokens and its time in passes over one row. model is the draft model that took part, or nil.
func (a *acceptance) ran(tokens, time float64, model *modelEstimate) {
	// Rounds of long ago count less: else the figure for eight requests of TestNeverSlowerThanPlainAndCloseToTheBest
	// falls by 0.3 %.
	const keep = 1 - 1.0/32
	a.Tokens, a.Time = a.Tokens*keep+tokens, a.Time*keep+time
	if model != nil {
		model.Loss = max(model.Loss+time-tokens, -mostLoss)
	}
}

// explored adds a round of exploration. Its costs count in the budget of exploration; its gains reduce the loss, or
// else no draft would follow a loss. Held by the mean figures of TestNeverSlowerThanPlainAndCloseToTheBest.
func (m *modelEstimate) explored(tokens, time float64) {
	m.Loss = max(m.Loss+min(0, time-tokens), -mostLoss)
}

// calibrationRatio compares the latest outcomes with their estimates.
type calibrationRatio struct {
	Hits     float64 `json:"hits"`
	Expected float64 `json:"expected"`
}

const (
	// ratioMemory is the number of outcomes that a calibrationRatio remembers. If it forgets none, the figure of
	// TestBusyMachinesDoNotMislead falls by 0.6 %.
	ratioMemory = 16
	// ratioPrior is the number of outcomes that the prior of 1 weighs. Held by TestTreesEndAtTheEndsOfStairs and
	// TestExplorationIsRareAndBounded.
	ratioPrior = 2
)

// factor returns the correction of an estimate, at most 1: it only cuts estimates that the outcomes fall short of.
func (r *calibrationRatio) factor() float64 {
	return min((ratioPrior+r.Hits)/(ratioPrior+r.Expected), 1)
}

func (r *calibrationRatio) learn(expected float64, hit bool) {
	const keep = 1 - 1.0/ratioMemory
	r.Hits, r.Expected = r.Hits*keep, r.Expected*keep+expected
	if hit {
		r.Hits++
	}
}

// evidence holds the scores of the sources for a node.
type evidence struct {
	sources uint                 // a bit for each source with a score
	scores  [sourceCount]float64 // in (0, 1]
}

func (e *evidence) has(source int) bool { return e.sources>>source&1 == 1 }

func (e *evidence) add(source int, score float64) {
	e.sources |= 1 << source
	e.scores[source] = score
}

// chances returns the calibrated probabilities of the sources with a score. It reuses dst.
func (a *acceptance) chances(dst []float64, e *evidence) []float64 {
	dst = dst[:0]
	for s := range sourceCount {
		if e.has(s) {
			dst = append(dst, a.Sources[s].Chance(e.scores[s]))
		}
	}
	return dst
}

// estimate returns a(n): the probability that the node is accepted if its parent is.
func (a *acceptance) estimate(e *evidence) float64 {
	var room [sourceCount]float64
	return a.Mixer.chance(e.sources, a.chances(room[:], e))
}

// learn updates the estimates with whether a node was accepted whose parent was accepted.
func (a *acceptance) learn(e *evidence, hit bool) {
	var room [sourceCount]float64
	a.Mixer.learn(e.sources, a.chances(room[:], e), hit)
	for s := range sourceCount {
		if e.has(s) {
			a.Sources[s].Learn(e.scores[s], hit)
		}
	}
}

func (a *acceptance) validate() error {
	for i := range a.Sources {
		if err := a.Sources[i].validate(); err != nil {
			return err
		}
	}
	for _, x := range []float64{a.Tokens, a.Time, a.Ratio.Hits, a.Ratio.Expected} {
		if !(x >= 0) || math.IsInf(x, 0) {
			return fmt.Errorf("a count of %v", x)
		}
	}
	for i := range a.Models {
		m := &a.Models[i]
		if math.IsNaN(m.Loss) || math.IsInf(m.Loss, 0) {
			return fmt.Errorf("a loss of %v", m.Loss)
		}
		if c := m.Choosing; math.IsNaN(c.Gain) || math.IsInf(c.Gain, 0) || !(c.Seen >= 0) || math.IsInf(c.Seen, 0) {
			return fmt.Errorf("a gain by choice of %v in %v rounds", c.Gain, c.Seen)
		}
		if err := m.Yield.validate(); err != nil {
			return err
		}
	}
	if a.Time == 0 {
		return fmt.Errorf("no time for %v tokens", a.Tokens)
	}
	return a.Mixer.validate()
}

// profile estimates the yield of drafts by width, levels and size: tokens beyond the one that every pass commits.
type profile struct {
	Widths []int     `json:"widths"` // of the draft, ascending
	Depth  int       `json:"depth"`  // levels
	Sizes  []int     `json:"sizes"`  // rows of the target's pass, ascending
	Gains  []float64 `json:"gains"`  // (width, levels from 1, size)
	Seen   float64   `json:"seen"`   // drafts behind it
}

// levelReach is the guess at the probability that a level of width beams holds the next token if the level above holds
// its own. A middling draft's first choice is right two times in three, its first four more than three in four. Held
// by TestTreesEndAtTheEndsOfStairs and TestImprovedDraftIsUsedAgain. A head, which reads the target's features, is
// right more often.
func levelReach(model, width int) float64 {
	first := 0.65
	if model == EAGLE3 {
		first = 0.75
	}
	return first + 0.15*(1-1/float64(width))
}

// ready resets a model's profile of other widths, depths or sizes to guesses for these.
func (p *profile) ready(model int, widths []int, depth int, sizes []int) {
	if slices.Equal(p.Widths, widths) && p.Depth == depth && slices.Equal(p.Sizes, sizes) {
		return
	}
	*p = profile{Widths: slices.Clone(widths), Depth: depth, Sizes: slices.Clone(sizes)}
	for _, w := range widths {
		for d := 1; d <= depth; d++ {
			for _, rows := range sizes {
				chain := series(levelReach(model, 1), min(d, rows-1))
				full := series(levelReach(model, w), d)
				p.Gains = append(p.Gains, chain+(full-chain)*min(1, float64(rows-1)/float64(w*d)))
			}
		}
	}
}

// series returns x + x² + … + xⁿ.
func series(x float64, n int) float64 {
	sum, term := 0.0, 1.0
	for range max(n, 0) {
		term *= x
		sum += term
	}
	return sum
}

// gain returns the yield of levels levels, from 1, at indices of Widths and Sizes. It does not fall as the size grows.
func (p *profile) gain(width, levels, size int) *float64 { return &p.gains(width, levels)[size] }

// gains returns the yields of all sizes.
func (p *profile) gains(width, levels int) []float64 {
	n := len(p.Sizes)
	return p.Gains[(width*p.Depth+levels-1)*n:][:n]
}

func (p *profile) validate() error {
	if len(p.Gains) != len(p.Widths)*p.Depth*len(p.Sizes) {
		return fmt.Errorf("a profile of %d gains for %d widths, %d levels and %d sizes",
			len(p.Gains), len(p.Widths), p.Depth, len(p.Sizes))
	}
	for _, x := range append([]float64{p.Seen}, p.Gains...) {
		if !(x >= 0) || math.IsInf(x, 0) {
			return fmt.Errorf("a profile with the value %v", x)
		}
	}
	return nil
}
