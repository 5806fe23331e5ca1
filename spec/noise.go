package spec

import "math"

// Streams of the counter-based noise. Positions are below 2^28, so the stream
// number rides in the upper bits of the position word.
const (
	StreamTarget   uint32 = 0 // the target's draws, and coupled drafting
	StreamDraft    uint32 = 1 // a sampled draft's own draws
	StreamAccept   uint32 = 2 // the uniform of the rejection test
	StreamResidual uint32 = 3 // draws from the residual distribution
)

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

// Exponential turns a hash into an Exp(1) draw. The hash is taken as w in (0, 1) and the draw is -ln(1-w), by its
// series for small w, where the large Gumbel values come from and where 1-w would lose them.
func Exponential(h uint32) float64 {
	w := (float64(h) + 0.5) / (1 << 32)
	return -math.Log1p(-w)
}

// Gumbel is standard Gumbel noise keyed by (seed, stream, position, id).
func Gumbel(seed uint64, stream, position, id uint32) float64 {
	return -math.Log(Exponential(Hash(seed, stream, position, id)))
}

// Uniform is uniform in (0, 1), keyed by (seed, stream, position).
func Uniform(seed uint64, stream, position uint32) float64 {
	return uniform(seed, stream, position, 0)
}

func uniform(seed uint64, stream, position, id uint32) float64 {
	return (float64(Hash(seed, stream, position, id)) + 0.5) / (1 << 32)
}
