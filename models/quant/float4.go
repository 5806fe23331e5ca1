package quant

import "math"

// The formats of four-bit floats. A number's three lower bits are a magnitude, the upper one its sign.

// doubled are twice the values of the four-bit floats (E2M1): scales are halved for them.
var doubled = [16]float32{0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12}

// MXFP4 is a byte e and 32 numbers q of four bits in pairs, as in Q4_0: 2^(e-128)·doubled[q].
func decodeMXFP4(b []byte, dst []float32) {
	d := float32(math.Ldexp(1, int(b[0])-128))
	for i, q := range b[1:17] {
		dst[i] = d * doubled[q&15]
		dst[i+16] = d * doubled[q>>4]
	}
}

// maxMXFP4 is the largest e whose numbers are all finite.
const maxMXFP4 = 252

// NVFP4 is 4 bytes of scales and 64 numbers q of four bits: 8 bytes for each 16 elements, the first eight in the low
// halves. A scale is an unsigned float of eight bits (E4M3, exponent bias 7); ggml reads its NaN as 0, and its sign bit
// as nothing: scale/2·doubled[q].
func decodeNVFP4(b []byte, dst []float32) {
	for s := range 4 {
		exponent, fraction := int(b[s]>>3&15), float64(b[s]&7)
		d := float32(math.Ldexp(8+fraction, exponent-11))
		switch {
		case b[s] == 0x7f:
			d = 0
		case exponent == 0:
			d = float32(math.Ldexp(fraction, -10))
		}
		for i, q := range b[4+8*s:][:8] {
			dst[16*s+i] = d * doubled[q&15]
			dst[16*s+i+8] = d * doubled[q>>4]
		}
	}
}
