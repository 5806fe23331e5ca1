package simd

import "time"

// crew decides how many threads compute. All of them are fastest while each has a processor. Where another process runs
// on one, the threads wait for the one that shares it, which stops in the middle of a part for milliseconds, and fewer
// threads are faster. No host tells us which is the case, so the crew compares: from time to time, and at once where
// its speed drops, it tries one thread more or fewer for a moment, and keeps the number that is faster.
type crew struct {
	most    int // threads that there are
	kept    int // the best number so far
	size    int // threads that compute now; in a trial not those kept
	changes int // of kept

	grow   bool // the latest trial tried more threads
	rest   int  // stretches between two trials
	left   int  // stretches until the next one
	passed int  // stretches that the present trial has been faster in

	// Of the present stretch, or of the trial: seconds, and those that the kept number of threads usually takes.
	took, usual float64
}

// pace is the time of a program.
type pace struct {
	seconds float64 // mean of the latest runs
	runs    float64
	change  int // of crew.kept, before those runs
}

const (
	// stretch is the time over which speeds are measured: threads that share a processor take turns of some
	// milliseconds. memory is the time over which a pace forgets.
	stretch, memory = 0.016, 0.15
	// A trial has to be faster by this factor, after each of so many stretches. Below the other factor it ends within
	// one. Short programs tell little of that: threads wake in them.
	faster, trial, hopeless = 1.04, 4, 0.75
	// A stretch that is slower than usual by this factor starts a trial.
	dropped = 0.85
	// Stretches between two trials: at first and after a change, and where trials change nothing. Where some threads
	// rest, a trial costs less, and the other processes may have ended.
	shortRest, longRest, restOfSome = 8, 128, 32
)

func newCrew(threads int) crew {
	return crew{most: threads, size: threads, kept: threads, rest: shortRest, left: shortRest}
}

// threads returns how many threads compute the next run of a program. A program whose time is unknown gets the kept
// number, because a trial needs a time to compare with.
func (c *crew) threads(p *pace) int {
	if p.runs == 0 || p.change != c.changes {
		return c.kept
	}
	return c.size
}

// ran notes the time of a run of a program on so many threads.
func (c *crew) ran(p *pace, threads int, took time.Duration) {
	seconds := took.Seconds()
	if c.most == 1 || seconds <= 0 {
		return
	}
	if p.change != c.changes {
		*p = pace{change: c.changes}
	}
	if p.runs > 0 && threads == c.size {
		c.took, c.usual = c.took+seconds, c.usual+p.seconds
	}
	if threads == c.kept {
		p.runs++
		p.seconds += (seconds - p.seconds) * max(1/p.runs, seconds/(seconds+memory))
	}
	switch ends := c.took >= stretch*float64(1+c.passed); {
	case c.size == c.kept && ends:
		c.keep()
	case c.size != c.kept && (ends || c.took > stretch/4 && c.usual < hopeless*c.took):
		c.try()
	}
}

// keep ends a stretch of the kept number of threads.
func (c *crew) keep() {
	if c.left--; c.usual < dropped*c.took && c.rest > shortRest {
		c.rest, c.left = shortRest, 0
	}
	c.took, c.usual = 0, 0
	if c.left > 0 {
		return
	}
	c.grow = c.kept == 1 || c.kept < c.most && !c.grow
	c.size = c.kept - 1
	if c.grow {
		c.size = c.kept + 1
	}
}

// try ends a stretch of a trial, and the trial where it is not faster, or where it still is after the last stretch.
func (c *crew) try() {
	if c.usual > faster*c.took {
		if c.passed++; c.passed < trial {
			return
		}
		c.kept, c.rest = c.size, shortRest/2
		c.changes++
	}
	c.rest = min(2*c.rest, longRest)
	if c.kept < c.most {
		c.rest = min(c.rest, restOfSome)
	}
	c.size, c.left, c.passed = c.kept, c.rest, 0
	c.took, c.usual = 0, 0
}
