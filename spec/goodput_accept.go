package spec

import (
	"fmt"
	"math"
)

// The sources of estimates of a drafted token's acceptance.
const (
	fromDraft  = iota // the draft's probability of the token
	fromLookup        // that of what followed before
	fromC2T           // C2T's classifier
	fromHead          // an acceptance head
	sourceCount
)

// acceptance is what was learnt of how often drafted tokens are accepted under one way of
// sampling.
type acceptance struct {
	// Draft and Lookup calibrate by what a proposer's first choice, its others, and
	// a token it did not choose at all scored. Lookup's first choices are of three classes, see
	// lookupClass.
	Draft  [3]Calibrator `json:"draft"`
	Lookup [5]Calibrator `json:"lookup"`
	C2T    Calibrator    `json:"c2t"`
	Head   Calibrator    `json:"head"`
	Mixer  mixer         `json:"mixer"`
	Yield  profile       `json:"yield"`
	// Trusts corrects all estimates by how the latest ones did: of tokens the draft has
	// a say in, and of the others.
	Trusts [2]trust `json:"trusts"`

	// Tokens and the time they took, in passes over one row, latest rounds first: together the
	// speed that a round has to keep up with.
	Tokens float64 `json:"tokens"`
	Time   float64 `json:"time"`
	Use    float64 `json:"use"` // share of the latest rounds that the draft took part in
	// Loss is what rounds with the draft took more than plain decoding would have, in passes
	// over one row: estimates may be wrong, so it is held to a bound whatever they
	// say. It is forgiven slowly, and gains are not saved up for long.
	Loss float64 `json:"loss"`
}

const (
	mostLoss = 2.5
	mostGain = 1.5
	forgiven = 0.01 // of Loss, each round
)

// solvent tells whether drafting has not lost too much lately.
func (a *acceptance) solvent() bool { return a.Loss < mostLoss }

func newAcceptance() *acceptance {
	const rounds = 8 // that the guess at a speed of one token a pass weighs
	return &acceptance{Tokens: rounds, Time: rounds, Use: 0.5}
}

// ready sets what is not stored. Looking up costs nothing, so it is watched before it is
// believed.
func (a *acceptance) ready() {
	for i := range a.Lookup {
		a.Lookup[i].doubt = 0.6
	}
}

// speed is tokens per pass over one row; plain decoding's is 1.
func (a *acceptance) speed() float64 { return max(1, a.Tokens/a.Time) }

// ran takes in a round: tokens it was worth and its time in passes over one row.
func (a *acceptance) ran(tokens, time float64, drafted bool) {
	const keep = 1 - 1.0/32
	a.Tokens, a.Time = a.Tokens*keep+tokens, a.Time*keep+time
	a.Use *= keep
	a.Loss -= forgiven
	if drafted {
		a.Use += 1 - keep
		a.Loss += time - tokens
	}
	a.Loss = max(a.Loss, -mostGain)
}

// probed takes in a probe, whose time is counted elsewhere: what it gained speaks for the
// draft.
func (a *acceptance) probed(tokens, time float64) {
	a.Loss = max(a.Loss+min(0, time-tokens), -mostGain)
}

// trust compares outcomes with what was expected.
type trust struct {
	Hits     float64 `json:"hits"`
	Expected float64 `json:"expected"`
}

// memories are how many outcomes each of acceptance.Trusts remembers. A draft may lose its way from one token to the next; whether a
// text repeats is a property of it, and trust that moves with every run of hits and misses says less than the estimates.
var memories = [2]float64{16, 40}

// factor corrects estimates. Trusting them weighs as an eighth of the memory.
func (t *trust) factor(memory float64) float64 {
	weight := memory / 8
	return min(max((weight+t.Hits)/(weight+t.Expected), 0.05), 1.25)
}

func (t *trust) learn(expected float64, hit bool, memory float64) {
	keep := 1 - 1/memory
	t.Hits, t.Expected = t.Hits*keep, t.Expected*keep+expected
	if hit {
		t.Hits++
	}
}

// evidence is what sources say of a node: scores in (0, 1] in order of source, and which
// calibrator each is for.
type evidence struct {
	sources uint // a bit for each source that speaks
	scores  [sourceCount]float64
	class   [sourceCount]uint8 // 0 a first choice, 1 another, 2 not chosen, 3 and 4 see lookupClass
}

// lookupClass is the class of a lookup's choice. What follows a place that had a few tokens in common with the text goes
// astray sooner than what follows one that had many, also where the path so far makes both contexts long.
func lookupClass(rank int, rooted int32) uint8 {
	switch {
	case rank > 0:
		return 1
	case rooted >= 7:
		return 4
	case rooted >= 3:
		return 3
	}
	return 0
}

func (e *evidence) add(source int, score float64, class uint8) {
	e.sources |= 1 << source
	e.scores[source], e.class[source] = score, class
}

func (a *acceptance) calibrator(source int, class uint8) *Calibrator {
	switch source {
	case fromDraft:
		return &a.Draft[class]
	case fromLookup:
		return &a.Lookup[class]
	case fromC2T:
		return &a.C2T
	}
	return &a.Head
}

// chances are the calibrated ones of the sources that speak.
func (a *acceptance) chances(dst []float64, e *evidence) []float64 {
	dst = dst[:0]
	for s := range sourceCount {
		if e.sources>>s&1 == 1 {
			dst = append(dst, a.calibrator(s, e.class[s]).Chance(e.scores[s]))
		}
	}
	return dst
}

// trustOf is which of acceptance.Trusts a node's estimate is corrected by.
func trustOf(e *evidence) int {
	if e.sources>>fromDraft&1 == 1 {
		return 0
	}
	return 1
}

// trusted is estimate, corrected.
func (a *acceptance) trusted(e *evidence) float64 {
	which := trustOf(e)
	return min(a.estimate(e)*a.Trusts[which].factor(memories[which]), surest)
}

// estimate is a(n): the chance that the node is accepted if its parent is.
func (a *acceptance) estimate(e *evidence) float64 {
	if e.sources == 0 {
		return 1e-4
	}
	var room [sourceCount]float64
	return a.Mixer.chance(e.sources, a.chances(room[:], e))
}

// learn takes in whether a node whose parent was accepted was accepted itself.
func (a *acceptance) learn(e *evidence, hit bool) {
	if e.sources == 0 {
		return
	}
	var room [sourceCount]float64
	a.Mixer.learn(e.sources, a.chances(room[:], e), hit)
	for s := range sourceCount {
		if e.sources>>s&1 == 1 {
			a.calibrator(s, e.class[s]).Learn(e.scores[s], hit)
		}
	}
}

func (a *acceptance) validate() error {
	all := []*Calibrator{&a.C2T, &a.Head}
	for i := range a.Draft {
		all = append(all, &a.Draft[i])
	}
	for i := range a.Lookup {
		all = append(all, &a.Lookup[i])
	}
	for _, c := range all {
		if err := c.validate(); err != nil {
			return err
		}
	}
	for _, x := range []float64{a.Tokens, a.Time, a.Use, a.Trusts[0].Hits, a.Trusts[0].Expected, a.Trusts[1].Hits, a.Trusts[1].Expected} {
		if !(x >= 0) || math.IsInf(x, 0) {
			return fmt.Errorf("a count of %v", x)
		}
	}
	if math.IsNaN(a.Loss) || math.IsInf(a.Loss, 0) {
		return fmt.Errorf("a loss of %v", a.Loss)
	}
	if a.Time == 0 {
		return fmt.Errorf("no time for %v tokens", a.Tokens)
	}
	if err := a.Mixer.validate(); err != nil {
		return err
	}
	return a.Yield.validate()
}

// profile is what a draft of each shape may be expected to bring: tokens beyond the one that
// any pass brings.
type profile struct {
	Widths []int `json:"widths"` // of the draft, ascending
	Depth  int   `json:"depth"`  // levels
	Sizes  []int `json:"sizes"`  // rows of the target's pass
	// Gains are by width, levels (from 1) and rows.
	Gains []float64 `json:"gains"`
	// Reach is, by width, the chance that a level holds the next token, given that the beams
	// of the level above hold theirs.
	Reach []float64 `json:"reach"`
	// Fade is, by width, what a level adds as a share of what the one above does.
	Fade []float64 `json:"fade"`
	Seen float64   `json:"seen"` // drafts behind it
}

// ready makes the profile one of these shapes, a guess where it was of others.
func (p *profile) ready(widths []int, depth int, sizes []int) {
	if equalInts(p.Widths, widths) && p.Depth == depth && equalInts(p.Sizes, sizes) {
		return
	}
	*p = profile{Widths: append([]int(nil), widths...), Depth: depth, Sizes: append([]int(nil), sizes...)}
	for _, w := range widths {
		// A middling draft's first choice is right two times in three, and its first four more
		// than three in four.
		reach := 0.65 + 0.15*(1-1/float64(w))
		p.Reach, p.Fade = append(p.Reach, reach), append(p.Fade, reach)
		for d := 1; d <= depth; d++ {
			for _, rows := range sizes {
				chain := series(0.65, min(d, rows-1))
				full := series(reach, d)
				p.Gains = append(p.Gains, chain+(full-chain)*min(1, float64(rows-1)/float64(w*d)))
			}
		}
	}
}

// series is x + x² + … + xⁿ.
func series(x float64, n int) float64 {
	sum, term := 0.0, 1.0
	for range max(n, 0) {
		term *= x
		sum += term
	}
	return sum
}

func equalInts(a, b []int) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

func (p *profile) gain(width, levels, size int) *float64 {
	return &p.Gains[(width*p.Depth+levels-1)*len(p.Sizes)+size]
}

func (p *profile) validate() error {
	if len(p.Gains) != len(p.Widths)*p.Depth*len(p.Sizes) || len(p.Reach) != len(p.Widths) || len(p.Fade) != len(p.Widths) {
		return fmt.Errorf("a profile of %d gains for %d widths, %d levels and %d sizes", len(p.Gains), len(p.Widths), p.Depth, len(p.Sizes))
	}
	for _, values := range [][]float64{{p.Seen}, p.Gains, p.Reach, p.Fade} {
		for _, x := range values {
			if !(x >= 0) || math.IsInf(x, 0) {
				return fmt.Errorf("a profile with the value %v", x)
			}
		}
	}
	return nil
}
