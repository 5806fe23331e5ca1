package bench

import (
	"maps"
	"math/rand/v2"
	"slices"
)

// Interval is a ratio of two rows with its interval of 95 %.
type Interval struct {
	Ratio float64 `json:"ratio"`
	Low   float64 `json:"low"`
	High  float64 `json:"high"`
	N     int     `json:"n"` // prompts; 0: not measured
}

// Ratios compares a row with another one on the prompts and repetitions that both have.
type Ratios struct {
	Against string `json:"against"` // the other row
	Seeds   int    `json:"seeds"`   // the most repetitions of a prompt
	// Target passes, rows verified by them and committed tokens per pass, each over all prompts.
	Calls            Interval `json:"calls"`
	Tokens           Interval `json:"tokens"`
	AcceptanceLength Interval `json:"tau"`
	// Speed is the ratio of the mean speedups over plain decoding, which leaves out the drift of the machine.
	Speed Interval `json:"speed"`
}

// leastPrompts is the number of prompts below which a bootstrap over them says nothing.
const leastPrompts = 5

const bootstrapDraws = 10_000

// RatioInterval returns the sum of the first values over the sum of the second ones, a pair for each prompt, with the
// 2.5 % and 97.5 % percentiles of 10,000 sets of prompts drawn with replacement from a fixed seed (Efron, Tibshirani,
// "An Introduction to the Bootstrap", section 13.3). Sums weigh a prompt by its work, as totals of papers do; a mean of
// ratios would give a prompt of few passes, whose ratio is coarse, the weight of a long one. Fewer than five prompts
// have no interval.
func RatioInterval(pairs [][2]float64) Interval {
	quotients := make([]quotient, len(pairs))
	for i, p := range pairs {
		quotients[i] = quotient{p[0], 1, p[1], 1}
	}
	return quotientInterval(quotients)
}

// quotient holds a prompt's value per unit, and its baseline's.
type quotient struct{ value, unit, base, baseUnit float64 }

// quotientInterval is RatioInterval for values per unit: it compares the sum of the values over the sum of their units.
func quotientInterval(prompts []quotient) Interval {
	n := len(prompts)
	if n < leastPrompts {
		return Interval{}
	}
	return bootstrap(n, bootstrapDraws, func(chosen []int) (float64, bool) {
		var s quotient
		for _, i := range chosen {
			p := &prompts[i]
			s.value, s.unit, s.base, s.baseUnit = s.value+p.value, s.unit+p.unit, s.base+p.base, s.baseUnit+p.baseUnit
		}
		if s.unit*s.base == 0 {
			return 0, true
		}
		return s.value * s.baseUnit / (s.unit * s.base), true
	})
}

// bootstrap returns a statistic of n prompts with its interval over that many sets of n prompts. A set for which
// statistic returns false does not count; if the prompts themselves are one, or more than a tenth of the sets, there is
// no interval.
func bootstrap(n, sets int, statistic func(chosen []int) (float64, bool)) Interval {
	chosen := make([]int, n)
	for i := range chosen {
		chosen[i] = i
	}
	all, ok := statistic(chosen)
	if !ok {
		return Interval{}
	}
	rng := rand.New(rand.NewPCG(1, 2))
	var draws []float64
	for range sets {
		for i := range chosen {
			chosen[i] = rng.IntN(n)
		}
		if value, ok := statistic(chosen); ok {
			draws = append(draws, value)
		}
	}
	if len(draws) < sets*9/10 {
		return Interval{}
	}
	slices.Sort(draws)
	tail := len(draws) / 40
	return Interval{all, draws[tail], draws[len(draws)-1-tail], n}
}

// Compare sets the ratios of the rows to plain decoding and to the rows that against names. cells are the ones that the
// report was made of.
func (r *Report) Compare(cells []Cell, against map[string][]string) {
	type place struct {
		prompt string
		rep    int
	}
	of := map[string]map[place]*Cell{}
	plain := map[string]string{} // by row
	for i := range cells {
		c := &cells[i]
		if of[c.Method] == nil {
			of[c.Method] = map[place]*Cell{}
		}
		of[c.Method][place{c.Prompt, c.Rep}] = c
		plain[c.Method] = c.Base
	}
	for i := range r.Rows {
		row := &r.Rows[i]
		if row.Ratios = nil; row.Plain {
			continue
		}
		bases := append([]string{plain[row.Method]}, against[row.Method]...)
		for _, base := range bases {
			prompts := comparison{}
			for at, cell := range of[row.Method] {
				if other := of[base][at]; other != nil && (row.Category == "" || row.Category == cell.Category) {
					prompts.add(cell, other)
				}
			}
			if len(prompts) >= leastPrompts {
				row.Ratios = append(row.Ratios, prompts.ratios(base))
			}
		}
	}
}

// compared sums the cells of a prompt, those of a row and of its baseline.
type compared struct {
	seeds, timed          int
	calls, tokens, output [2]float64
	speedup               [2]float64
}

// comparison holds what a row and its baseline have of each prompt.
type comparison map[string]*compared

func (c comparison) add(cell, base *Cell) {
	p := c[cell.Prompt]
	if p == nil {
		p = &compared{}
		c[cell.Prompt] = p
	}
	p.seeds++
	for i, c := range []*Cell{cell, base} {
		p.calls[i] += float64(c.Stats.Calls)
		p.tokens[i] += float64(c.Stats.Nodes)
		p.output[i] += float64(c.Stats.OutputTokens)
	}
	own, other := cell.Speedup(), base.Speedup()
	if base.Plain {
		other = 1
	}
	if own > 0 && other > 0 {
		p.timed++
		p.speedup[0], p.speedup[1] = p.speedup[0]+own, p.speedup[1]+other
	}
}

// counts returns the intervals of target passes and of the rows that they verified.
func (c comparison) counts() (calls, tokens Interval) {
	var called, verified [][2]float64
	for _, name := range slices.Sorted(maps.Keys(c)) {
		called, verified = append(called, c[name].calls), append(verified, c[name].tokens)
	}
	return RatioInterval(called), RatioInterval(verified)
}

func (c comparison) ratios(base string) Ratios {
	all := Ratios{Against: base}
	var speeds [][2]float64
	var lengths []quotient
	for _, name := range slices.Sorted(maps.Keys(c)) {
		p := c[name]
		all.Seeds = max(all.Seeds, p.seeds)
		lengths = append(lengths, quotient{p.output[0], p.calls[0], p.output[1], p.calls[1]})
		if n := float64(p.timed); n > 0 {
			speeds = append(speeds, [2]float64{p.speedup[0] / n, p.speedup[1] / n})
		}
	}
	all.Calls, all.Tokens = c.counts()
	all.AcceptanceLength, all.Speed = quotientInterval(lengths), RatioInterval(speeds)
	return all
}
