package goodput

// enoughDrafts is the number of drafts from which on a model's own yield counts.
const enoughDrafts = 16

// Gain returns how many times as fast rounds are expected to be with a draft model as without it, by the costs and the
// yields learnt in the way of sampling that drafted most. The yield of a model that drafted little is taken to have the
// same proportion to another's as their first guesses. Lookups count neither way.
func (c *Costs) Gain(model int) float64 {
	known, of := c.mostDrafted()
	without := 1 / c.plainTime()
	for i := range c.Drafts {
		if i != model && c.Drafts[i].Root.Count > 0 {
			without = max(without, c.bestRate(i, known.yield(i, of)))
		}
	}
	return c.bestRate(model, known.yield(model, of)) / without
}

// mostDrafted returns the estimates of the way that drafted most, and the model that did.
func (c *Costs) mostDrafted() (way *acceptance, model int) {
	way, most := newAcceptance(), 0.0
	way.Models[model].Yield.ready(model, []int{1, 2, 4}, 8, buckets[1:])
	for _, a := range c.Learnt {
		for i := range a.Models {
			if seen := a.Models[i].Yield.Seen; seen > most {
				way, model, most = a, i, seen
			}
		}
	}
	return way, model
}

// yield returns the yield of a model, or what that of another lets expect of it.
func (a *acceptance) yield(model, other int) *profile {
	of := &a.Models[other].Yield
	if a.Models[model].Yield.Seen >= enoughDrafts || model == other {
		return &a.Models[model].Yield
	}
	var guess, its profile
	guess.ready(model, of.Widths, of.Depth, of.Sizes)
	its.ready(other, of.Widths, of.Depth, of.Sizes)
	for i := range guess.Gains {
		guess.Gains[i] *= of.Gains[i] / its.Gains[i]
	}
	return &guess
}

// bestRate returns the most tokens a second that rounds with a model of this yield are expected to bring.
func (c *Costs) bestRate(model int, of *profile) (best float64) {
	for i, width := range of.Widths {
		for levels := 1; levels <= of.Depth; levels++ {
			for size, rows := range of.Sizes {
				seconds := c.Drafts[model].Time(levels, width) + c.verifyTime(rows)
				best = max(best, (1+*of.gain(i, levels, size))/seconds)
			}
		}
	}
	return best
}
