package adapt

import (
	"slices"

	"foretoken/spec/draft"
)

// passPredictor predicts how many draft passes the next tree needs from the latest trees. Most drafts then take one
// run on the device and waste few passes.
type passPredictor struct {
	past [16]int // ring of the latest counts
	n    int     // counts added so far
}

// add records the passes that a draft needed.
func (r *passPredictor) add(passes int) {
	r.past[r.n%len(r.past)] = passes
	r.n++
}

// next returns the ⅔ quantile of the latest counts, or most if that is less. Before the first count it returns
// min(draft.MinRun, most), and it returns most if that is at most draft.MinRun.
func (r *passPredictor) next(most int) int {
	if r.n == 0 || most <= draft.MinRun {
		return min(draft.MinRun, most)
	}
	sorted := r.past
	known := sorted[:min(r.n, len(sorted))]
	slices.Sort(known)
	return min(known[2*len(known)/3], most)
}
