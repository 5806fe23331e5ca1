package spec

import "slices"

// reach foretells how many passes a tree or a chain will need, from those that the last ones needed, so that most are drafted in one
// run and little is thrown away.
type reach struct {
	past [16]int
	n    int
}

// add notes what one needed.
func (r *reach) add(passes int) {
	r.past[r.n%len(r.past)] = passes
	r.n++
}

// next is as many as two in three of the last ones needed at most; all where they are few.
func (r *reach) next(most int) int {
	if r.n == 0 || most <= wholeChain {
		return min(wholeChain, most)
	}
	sorted := r.past
	known := sorted[:min(r.n, len(sorted))]
	slices.Sort(known)
	return min(known[2*len(known)/3], most)
}
