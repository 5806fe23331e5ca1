package simd

import (
	"slices"
	"time"
)

// choice finds in how many parts a program runs fastest: in as many as there are threads at first, then in half as many
// for as long as that takes no more. The results are the same. Small dispatches and busy machines lose by threads that
// wait for each other, so the number differs from program to program.
type choice struct {
	parts int
	runs  int                      // of the trial, or since the number was found
	times [2][trials]time.Duration // of runs in so many parts, and in half as many, in turn
	done  bool
}

const (
	// trials are the runs with each number of parts. Their median has the waits for each other that the shortest leaves
	// out, but not the machine's pauses.
	trials = 7
	lasts  = 256 // runs until all are tried again: other work on the machine ends and begins
)

// next is the number of parts of the next run, at most all.
func (c *choice) next(all int) int {
	if c.parts == 0 || (c.done && c.runs >= lasts) {
		*c = choice{parts: all, done: all == 1}
	}
	if !c.done && c.runs%2 == 1 {
		return c.parts / 2
	}
	return c.parts
}

// took records the time of a run.
func (c *choice) took(t time.Duration) {
	if !c.done {
		c.times[c.runs%2][c.runs/2] = t
	}
	c.runs++
	if c.done || c.runs < 2*trials {
		return
	}
	whole, half := median(c.times[0]), median(c.times[1])
	if half > whole+whole/16 { // about as fast with fewer threads is better
		c.done = true
	} else {
		c.parts /= 2
		c.done = c.parts == 1
	}
	c.runs = 0
}

func median(times [trials]time.Duration) time.Duration {
	slices.Sort(times[:])
	return times[trials/2]
}
