package kernels

import "math"

// noScore is below every score, as NONE in noise.wgsl.
const noScore = float64(float32(-3e38))

// finite reads a logit as noise.wgsl does.
func finite(z float32) float64 {
	switch v := float64(z); {
	case v != v || v < LowLogit:
		return float64(float32(LowLogit))
	case v == 0:
		return 0 // -0 too: equal logits have equal keys
	case v > -LowLogit:
		return -float64(float32(LowLogit))
	default:
		return v
	}
}

// drawKey is what a row's noise depends on besides the token id.
type drawKey struct{ lo, hi, position uint32 }

// rowKey is the key of a row drawing for a position with a draw view's seed.
func rowKey(draw []uint32, stream, position uint32) drawKey {
	return drawKey{draw[1], draw[2], position | stream<<28}
}

func (k drawKey) hash(id uint32) uint32 {
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

// uniform is in (0, 1).
func (k drawKey) uniform(id uint32) float64 {
	return (float64(k.hash(id)) + 0.5) / (1 << 32)
}

func (k drawKey) gumbel(id uint32) float64 {
	return -math.Log(-math.Log1p(-k.uniform(id)))
}

// order maps a finite float to a word so that words compare as the floats do.
func order(z float64) uint32 {
	w := math.Float32bits(float32(z))
	if w>>31 == 1 {
		return ^w
	}
	return w | 1<<31
}

func unorder(k uint32) float64 {
	if k>>31 == 1 {
		return fromBits(k &^ (1 << 31))
	}
	return fromBits(^k)
}
