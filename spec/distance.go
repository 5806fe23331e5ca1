package spec

// DistanceStats sums the distances of draft and target, D = √JSD in base 2, over the tokens that a verifier compared.
type DistanceStats struct {
	Accepted DistanceSum `json:"accepted"`
	Rejected DistanceSum `json:"rejected"`
}

// DistanceSum is a sum of distances, each in [0, 1].
type DistanceSum struct {
	Sum    float64 `json:"sum"`
	Tokens int     `json:"tokens"`
}

// Mean returns the mean distance; NaN without tokens.
func (d DistanceSum) Mean() float64 { return d.Sum / float64(d.Tokens) }

func (d *DistanceSum) add(g Divergence) {
	d.Sum += float64(g.Distance)
	d.Tokens++
}

// Count takes in the verified tokens of a round: the accepted ones and the first rejected one. Tokens after a rejection
// or a cut of the run are not verified. It counts nothing if the verifier compared no distributions.
func (d *DistanceStats) Count(e *Event) {
	if len(e.Divergences) == 0 {
		return
	}
	accepted := len(e.Path) - 1
	for _, g := range e.Divergences[:accepted] {
		d.Accepted.add(g)
	}
	if accepted < e.VerifiedDepth {
		d.Rejected.add(e.Divergences[accepted])
	}
}
