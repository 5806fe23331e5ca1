package simd

import "time"

// choice finds in how many parts a program runs fastest: in as many as there are threads at first, then in half as many
// for as long as that takes no more. The results are the same. Small dispatches and busy machines lose by threads that
// wait for each other, so the number differs from program to program.
type choice struct {
	parts int
	runs  int           // with so many parts
	sum   time.Duration // of their times, but for the first run's
	twice int           // the number of parts before, 0 at first
	best  time.Duration // the sum with them
	done  bool
}

const (
	trials = 8   // runs with a number of parts before another is tried; a sum has the waits that a minimum leaves out
	lasts  = 512 // runs until all are tried again: other work on the machine ends and begins
)

// next is the number of parts of the next run, at most all.
func (c *choice) next(all int) int {
	if c.parts == 0 || (c.done && c.runs >= lasts) {
		*c = choice{parts: all, done: all == 1}
	}
	return c.parts
}

// took records the time of a run.
func (c *choice) took(t time.Duration) {
	if c.runs++; c.done {
		return
	}
	if c.runs > 1 {
		c.sum += t
	}
	switch {
	case c.runs <= trials:
	case c.twice > 0 && c.sum > c.best+c.best/16: // about as fast with fewer threads is better
		c.parts, c.done = c.twice, true
	case c.parts == 1:
		c.done = true
	default:
		*c = choice{parts: c.parts / 2, twice: c.parts, best: c.sum}
	}
}
