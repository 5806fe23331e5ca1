package kernels

import "math"

// NoScore is below every score, like NONE in noise.wgsl.
const NoScore = float64(float32(-3e38))

// Finite reads a logit like finite in noise.wgsl.
func Finite(z float32) float64 {
	switch v := float64(z); {
	case v < LowLogit:
		return float64(float32(LowLogit))
	case v == 0:
		return 0 // -0 too: equal logits have equal keys
	case v != v || v > -LowLogit:
		return -float64(float32(LowLogit))
	default:
		return v
	}
}

// DrawKey holds everything that a row's noise depends on, except the token id.
type DrawKey struct{ lo, hi, position uint32 }

// RowKey returns the key of a row that draws for a position with the seed of a draw view.
func RowKey(draw []uint32, stream, position uint32) DrawKey {
	return DrawKey{draw[1], draw[2], position | stream<<28}
}

// Hash is PCG4D.
func (k DrawKey) Hash(id uint32) uint32 {
	x, y, z, w := k.lo*1664525+1013904223, k.hi*1664525+1013904223, k.position*1664525+1013904223, id*1664525+1013904223
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

// Uniform returns a number in (0, 1).
func (k DrawKey) Uniform(id uint32) float64 {
	return (float64(k.Hash(id)) + 0.5) / (1 << 32)
}

// Gumbel returns standard Gumbel noise.
func (k DrawKey) Gumbel(id uint32) float64 {
	return -math.Log(-math.Log1p(-k.Uniform(id)))
}
