package spec

import (
	"fmt"
	"math"
	"slices"
)

// The temperatures above 0 that make sense to single-precision kernels.
const (
	MinTemperature = 0.001
	MaxTemperature = 1000
)

// Validate refuses settings that define no distribution.
func (s Sampling) Validate() error {
	if t := s.Temperature; !(t == 0 || t >= MinTemperature && t <= MaxTemperature) {
		return fmt.Errorf("spec: temperature is %v, want 0 (greedy) or %v to %v", t, MinTemperature,
			float64(MaxTemperature))
	}
	if s.TopK < 0 || s.TopK > math.MaxInt32 {
		return fmt.Errorf("spec: top-k sampling is %d, want 0 (off) to %d", s.TopK, math.MaxInt32)
	}
	if !(s.TopP >= 0 && s.TopP <= 1) {
		return fmt.Errorf("spec: top-p is %v, want 0 (off) to 1", s.TopP)
	}
	if !(s.MinP >= 0 && s.MinP <= 1) {
		return fmt.Errorf("spec: min-p is %v, want 0 (off) to 1", s.MinP)
	}
	return nil
}

// Argmax is the id of the largest logit, the lowest id among equals. NaN and -Inf
// are never chosen; -1 if there is nothing else.
func Argmax(logits []float32) int32 {
	best, id := math.Inf(-1), int32(-1)
	for i, z := range logits {
		if float64(z) > best {
			best, id = float64(z), int32(i)
		}
	}
	return id
}

// Scores appends to dst[:0], for each logit, the logarithm of the processed distribution up to a constant: 0 for
// the largest and -Inf for the tokens that the filters removed. It is the float64 reference of the kernels. TopP
// sums the renormalised probabilities of the tokens that TopK kept; at temperature 0 only the argmax stays.
func (s Sampling) Scores(dst []float64, logits []float32) []float64 {
	dst = dst[:0]
	best := Argmax(logits)
	for i, z := range logits {
		x := math.Inf(-1)
		switch {
		case best < 0 || math.IsNaN(float64(z)):
		case z == logits[best] && (s.Temperature > 0 || int32(i) == best):
			x = 0
		case s.Temperature > 0:
			x = (float64(z) - float64(logits[best])) / s.Temperature
		}
		dst = append(dst, x)
	}
	if best < 0 || s.Temperature == 0 {
		return dst
	}
	if s.TopK > 0 && s.TopK < len(dst) {
		keepFrom(dst, descending(dst)[s.TopK-1])
	}
	if s.TopP > 0 && s.TopP < 1 {
		sorted := descending(dst)
		total := 0.0
		for _, x := range sorted {
			total += math.Exp(x)
		}
		sum := 0.0
		for _, x := range sorted {
			if sum += math.Exp(x); sum >= s.TopP*total {
				keepFrom(dst, x)
				break
			}
		}
	}
	if s.MinP > 0 {
		keepFrom(dst, math.Log(s.MinP))
	}
	return dst
}

func descending(x []float64) []float64 {
	sorted := slices.Clone(x)
	slices.SortFunc(sorted, func(a, b float64) int {
		switch {
		case a > b:
			return -1
		case a < b:
			return 1
		}
		return 0
	})
	return sorted
}

// keepFrom removes the scores below the threshold; ties with it stay.
func keepFrom(x []float64, threshold float64) {
	for i := range x {
		if x[i] < threshold {
			x[i] = math.Inf(-1)
		}
	}
}

// Distribution appends the processed distribution to dst[:0]: p, or q for a draft.
// All zeros if there is no finite logit.
func (s Sampling) Distribution(dst []float64, logits []float32) []float64 {
	dst = s.Scores(dst, logits)
	total := 0.0
	for i, x := range dst {
		dst[i] = math.Exp(x)
		total += dst[i]
	}
	if total > 0 {
		for i := range dst {
			dst[i] /= total
		}
	}
	return dst
}

// Draw draws the token for a position: the argmax at temperature 0, otherwise by Gumbel-max, argmax over the kept
// ids of ln p + G with noise of the stream, the lowest id among equals. -1 if there is no finite logit.
func (s Sampling) Draw(logits []float32, stream, position uint32) int32 {
	if s.Temperature == 0 {
		return Argmax(logits)
	}
	return gumbelMax(s.Scores(nil, logits), s.Seed, stream, position)
}

// DrawFrom draws from a distribution, which need not be normalised, by Gumbel-max.
// -1 if all is zero.
func DrawFrom(p []float64, seed uint64, stream, position uint32) int32 {
	scores := make([]float64, len(p))
	for i := range p {
		scores[i] = math.Log(p[i])
	}
	return gumbelMax(scores, seed, stream, position)
}

func gumbelMax(scores []float64, seed uint64, stream, position uint32) int32 {
	best, id := math.Inf(-1), int32(-1)
	for i, x := range scores {
		if math.IsInf(x, -1) {
			continue
		}
		if x += Gumbel(seed, stream, position, uint32(i)); x > best {
			best, id = x, int32(i)
		}
	}
	return id
}

// Coupled appends to dst[:0] the log-softmax of ln q + G, by which a coupled draft ranks its candidates: q is the
// processed distribution at the target's temperature and G the noise that the target draws with at that position.
func (s Sampling) Coupled(dst []float64, logits []float32, position uint32) []float64 {
	dst = s.Scores(dst, logits)
	best := math.Inf(-1)
	for i := range dst {
		if !math.IsInf(dst[i], -1) {
			dst[i] += Gumbel(s.Seed, StreamTarget, position, uint32(i))
			best = max(best, dst[i])
		}
	}
	if math.IsInf(best, -1) {
		return dst
	}
	total := 0.0
	for _, x := range dst {
		total += math.Exp(x - best)
	}
	for i := range dst {
		dst[i] -= best + math.Log(total)
	}
	return dst
}

// VerifyToken applies the rejection rule to token x, drawn from q for a position: accepted
// with probability min(1, p(x)/q(x)), else replaced by a draw from norm((p-q)+).
func VerifyToken(p, q []float64, x int32, seed uint64, position uint32) ChainVerdict {
	// u < p/q without the division, which q(x) = 0 would spoil.
	if Uniform(seed, StreamAccept, position)*q[x] < p[x] {
		return ChainVerdict{Accepted: true}
	}
	residual := make([]float64, len(p))
	for i := range p {
		residual[i] = max(p[i]-q[i], 0)
	}
	token := DrawFrom(residual, seed, StreamResidual, position)
	if token < 0 {
		// p and q differ by less than rounding: nothing is left, and p is as good.
		token = DrawFrom(p, seed, StreamResidual, position)
	}
	return ChainVerdict{Token: token}
}

// VerifyChildren applies Sequoia's rule to children that were sampled from q without replacement, in order. It
// accepts child j with probability min(1, p/q); otherwise p becomes norm((p-q)+) and q loses the child and is
// renormalised. If it accepts none, it samples the token from what is left of p. It returns the index of the
// accepted child, or -1. The uniform of child j is keyed by (seed, position, j).
func VerifyChildren(p, q []float64, children []int32, seed uint64, position uint32) (int, int32) {
	p, q = slices.Clone(p), slices.Clone(q)
	normalise(p)
	for j, x := range children {
		if !normalise(q) {
			break // nothing was left to draw this child from
		}
		if uniform(seed, StreamAccept, position, uint32(j))*q[x] < p[x] {
			return j, x
		}
		residual := make([]float64, len(p))
		for i := range p {
			residual[i] = max(p[i]-q[i], 0)
		}
		if normalise(residual) { // otherwise p and q differ by less than rounding, and p is as good
			p = residual
		}
		q[x] = 0
	}
	return -1, DrawFrom(p, seed, StreamResidual, position)
}

// normalise scales x to a sum of 1; false if it is all zero.
func normalise(x []float64) bool {
	total := 0.0
	for _, v := range x {
		total += v
	}
	if !(total > 0) {
		return false
	}
	for i := range x {
		x[i] /= total
	}
	return true
}
