package spectest

import (
	"math"
	"slices"

	"foretoken/spec"
)

// The reference of noise, sampling and verdicts, in float64: what a device computes is compared with it.

// Hash mixes (seed, stream, position, id) into 32 bits: PCG4D of Jarzynski and Olano, "Hash Functions for GPU
// Rendering" (JCGT 2020), whose integer steps are the same in WGSL.
func Hash(seed uint64, stream, position, id uint32) uint32 {
	x, y, z, w := uint32(seed), uint32(seed>>32), position|stream<<28, id
	x, y, z, w = x*1664525+1013904223, y*1664525+1013904223, z*1664525+1013904223, w*1664525+1013904223
	x += y * w
	y += z * x
	z += x * y
	w += y * z
	x ^= x >> 16
	y ^= y >> 16
	z ^= z >> 16
	w ^= w >> 16
	x += y * w
	y += z * x
	z += x * y
	w += y * z
	return w ^ x
}

// Uniform is uniform in (0, 1), keyed by (seed, stream, position, id).
func Uniform(seed uint64, stream, position, id uint32) float64 {
	return (float64(Hash(seed, stream, position, id)) + 0.5) / (1 << 32)
}

// Gumbel is standard Gumbel noise keyed by (seed, stream, position, id): -ln of an Exp(1) draw, which is -ln(1-u) by
// its series for small u, where the large values come from and where 1-u would lose them.
func Gumbel(seed uint64, stream, position, id uint32) float64 {
	return -math.Log(-math.Log1p(-Uniform(seed, stream, position, id)))
}

// argmax is the id of the largest logit, the lowest id among equals. NaN and -Inf
// are never chosen; -1 if there is nothing else.
func argmax(logits []float32) int32 {
	best, id := math.Inf(-1), int32(-1)
	for i, z := range logits {
		if float64(z) > best {
			best, id = float64(z), int32(i)
		}
	}
	return id
}

// scores returns, for each logit, the logarithm of the processed distribution up to a constant: 0 for the largest and
// -Inf for the tokens that the filters removed. TopP sums the renormalised probabilities of the tokens that TopK kept;
// at temperature 0 only the argmax stays.
func scores(s spec.Sampling, logits []float32) []float64 {
	all := make([]float64, len(logits))
	best := argmax(logits)
	for i, z := range logits {
		switch {
		case best < 0 || math.IsNaN(float64(z)):
			all[i] = math.Inf(-1)
		case z == logits[best] && (s.Temperature > 0 || int32(i) == best):
		case s.Temperature > 0:
			all[i] = (float64(z) - float64(logits[best])) / s.Temperature
		default:
			all[i] = math.Inf(-1)
		}
	}
	if best < 0 || s.Temperature == 0 {
		return all
	}
	if s.TopK > 0 && s.TopK < len(all) {
		keepFrom(all, descending(all)[s.TopK-1])
	}
	if s.TopP > 0 && s.TopP < 1 {
		sorted := descending(all)
		total := 0.0
		for _, x := range sorted {
			total += math.Exp(x)
		}
		sum := 0.0
		for _, x := range sorted {
			if sum += math.Exp(x); sum >= s.TopP*total {
				keepFrom(all, x)
				break
			}
		}
	}
	if s.MinP > 0 {
		keepFrom(all, math.Log(s.MinP))
	}
	return all
}

func descending(x []float64) []float64 {
	sorted := slices.Sorted(slices.Values(x))
	slices.Reverse(sorted)
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

// Distribution returns the processed distribution: p, or q for a draft. It is all zeros if there is no finite logit.
func Distribution(s spec.Sampling, logits []float32) []float64 {
	p := scores(s, logits)
	for i, x := range p {
		p[i] = math.Exp(x)
	}
	normalise(p)
	return p
}

// Draw draws the token for a position: the argmax at temperature 0, otherwise by Gumbel-max, argmax over the kept
// ids of ln p + G with noise of the stream, the lowest id among equals. -1 if there is no finite logit.
func Draw(s spec.Sampling, logits []float32, stream, position uint32) int32 {
	if s.Temperature == 0 {
		return argmax(logits)
	}
	return gumbelMax(scores(s, logits), s.Seed, stream, position)
}

// drawFrom draws from a distribution, which need not be normalised, by Gumbel-max.
// -1 if all is zero.
func drawFrom(p []float64, seed uint64, stream, position uint32) int32 {
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

// coupled returns the log-softmax of ln q + G, by which a coupled draft ranks its candidates: q is the processed
// distribution at the target's temperature and G the noise that the target draws with at that position.
func coupled(s spec.Sampling, logits []float32, position uint32) []float64 {
	all := scores(s, logits)
	best := math.Inf(-1)
	for i := range all {
		if !math.IsInf(all[i], -1) {
			all[i] += Gumbel(s.Seed, spec.StreamTarget, position, uint32(i))
			best = max(best, all[i])
		}
	}
	if math.IsInf(best, -1) {
		return all
	}
	total := 0.0
	for _, x := range all {
		total += math.Exp(x - best)
	}
	for i := range all {
		all[i] -= best + math.Log(total)
	}
	return all
}

// VerifyToken applies the rejection rule to token x, drawn from q for a position: accepted
// with probability min(1, p(x)/q(x)), else replaced by a draw from norm((p-q)+).
func VerifyToken(p, q []float64, x int32, seed uint64, position uint32) spec.ChainVerdict {
	// u < p/q without the division, which q(x) = 0 would spoil.
	if Uniform(seed, spec.StreamAccept, position, 0)*q[x] < p[x] {
		return spec.ChainVerdict{Accepted: true}
	}
	token := drawFrom(residual(p, q), seed, spec.StreamResidual, position)
	if token < 0 {
		// p and q differ by less than rounding: nothing is left, and p is as good.
		token = drawFrom(p, seed, spec.StreamResidual, position)
	}
	return spec.ChainVerdict{Token: token}
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
		if Uniform(seed, spec.StreamAccept, position, uint32(j))*q[x] < p[x] {
			return j, x
		}
		if r := residual(p, q); normalise(r) { // otherwise p and q differ by less than rounding, and p is as good
			p = r
		}
		q[x] = 0
	}
	return -1, drawFrom(p, seed, spec.StreamResidual, position)
}

// residual returns (p-q)+.
func residual(p, q []float64) []float64 {
	r := make([]float64, len(p))
	for i := range p {
		r[i] = max(p[i]-q[i], 0)
	}
	return r
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
