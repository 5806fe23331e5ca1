package quant

import "encoding/binary"

// The formats with blocks of 32 elements. A scale d and a least value m are halves. Four-bit numbers stand in pairs:
// the low half of byte i is element i, the high half element i+16. A further word of Q5_0 and Q5_1 holds the fifth
// bits, bit i of element i.

// Q8_0 is d and 32 signed bytes q: d·q.
func decodeQ8_0(b []byte, dst []float32) {
	d := half(b)
	for i, q := range b[2:34] {
		dst[i] = d * float32(int8(q))
	}
}

// Q8_1 is Q8_0 with a second half after d, d times the sum of the bytes, which decoding does not need.
func decodeQ8_1(b []byte, dst []float32) {
	d := half(b)
	for i, q := range b[4:36] {
		dst[i] = d * float32(int8(q))
	}
}

// Q4_0 is d and 32 numbers q of four bits: d·(q-8).
func decodeQ4_0(b []byte, dst []float32) {
	d := half(b)
	for i, q := range b[2:18] {
		dst[i] = d * float32(int(q&15)-8)
		dst[i+16] = d * float32(int(q>>4)-8)
	}
}

// Q4_1 is d, m and 32 numbers q of four bits: d·q + m.
func decodeQ4_1(b []byte, dst []float32) {
	d, m := half(b), half(b[2:])
	for i, q := range b[4:20] {
		dst[i] = float32(d*float32(q&15)) + m
		dst[i+16] = float32(d*float32(q>>4)) + m
	}
}

// Q5_0 is d, the fifth bits, and the lower four of 32 numbers q: d·(q-16).
func decodeQ5_0(b []byte, dst []float32) {
	d, fifth := half(b), binary.LittleEndian.Uint32(b[2:])
	for i, q := range b[6:22] {
		dst[i] = d * float32(int(q&15|bit(fifth, i)<<4)-16)
		dst[i+16] = d * float32(int(q>>4|bit(fifth, i+16)<<4)-16)
	}
}

// Q5_1 is d, m, the fifth bits, and the lower four of 32 numbers q: d·q + m.
func decodeQ5_1(b []byte, dst []float32) {
	d, m, fifth := half(b), half(b[2:]), binary.LittleEndian.Uint32(b[4:])
	for i, q := range b[8:24] {
		dst[i] = float32(d*float32(q&15|bit(fifth, i)<<4)) + m
		dst[i+16] = float32(d*float32(q>>4|bit(fifth, i+16)<<4)) + m
	}
}

func bit(w uint32, i int) byte { return byte(w >> i & 1) }

// levels are the values that the numbers of IQ4_NL stand for: closer together around
// zero, where most weights are. They are ggml's, and part of the format.
var levels = [16]float32{-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113}

// IQ4_NL is d and 32 numbers q of four bits: d·levels[q].
func decodeIQ4NL(b []byte, dst []float32) {
	d := half(b)
	for i, q := range b[2:18] {
		dst[i] = d * levels[q&15]
		dst[i+16] = d * levels[q>>4]
	}
}
