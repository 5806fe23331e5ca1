package quant

// The K formats: superblocks of 256 elements in 8 or 16 sub-blocks. Each sub-block has a small integer scale (and
// minimum), multiplied by the superblock's half-precision d (and dmin).
//
// The bits of a number are spread so that a run of 32 bytes holds one bit field of many sub-blocks: byte i of the
// run belongs to element i of each of them.

// Q2_K is 16 bytes of scales (low half: scale, high half: least value, for the 16
// sub-blocks of 16), 64 bytes of numbers q of two bits, d and dmin: d·scale·q - dmin·least.
// The 32 bytes of half n of the superblock hold its elements 32j+i in bits 2j of byte i.
func decodeQ2_K(b []byte, dst []float32) {
	scales, qs, d, dmin := b[:16], b[16:80], half(b[80:]), half(b[82:])
	for i := range dst {
		n, j, l := i/128, i/32%4, i%32
		scale := d * float32(scales[i/16]&15)
		least := dmin * float32(scales[i/16]>>4)
		q := qs[32*n+l] >> (2 * j) & 3
		dst[i] = float32(scale*float32(q)) - least
	}
}

// Q3_K is 32 bytes of third bits, 64 bytes of the lower two of each number, 12 bytes of
// scales and d. Numbers are laid out as in Q2_K, the third bit of element 128n+32j+i in
// bit 4n+j of byte i, and q is the number less 4: d·(scale-32)·q.
//
// The scales of the 16 sub-blocks of 16 have six bits: the lower four of scale i in the
// low (i < 8) or high half of byte i%8, the upper two in bits 2·(i/4) of byte 8+i%4.
func decodeQ3_K(b []byte, dst []float32) {
	third, qs, packed, d := b[:32], b[32:96], b[96:108], half(b[108:])
	var scales [16]float32
	for i := range scales {
		low := packed[i%8] >> (4 * (i / 8)) & 15
		high := packed[8+i%4] >> (2 * (i / 4)) & 3
		scales[i] = d * float32(int(low|high<<4)-32)
	}
	for i := range dst {
		n, j, l := i/128, i/32%4, i%32
		q := qs[32*n+l]>>(2*j)&3 | third[l]>>(4*n+j)&1<<2
		dst[i] = scales[i/16] * float32(int(q)-4)
	}
}

// SixBits unpacks the 12 bytes that hold 8 scales and 8 least values of six bits in Q4_K and Q5_K: the first four
// of each are the lower six bits of bytes i and 4+i; of the last four, byte 8+i%4 holds the lower four bits of the
// scale (low half) and of the least value (high half), and the upper two bits are those left in bytes i-4 and i.
func SixBits(b []byte, i int) (scale, least byte) {
	if i < 4 {
		return b[i] & 63, b[4+i] & 63
	}
	return b[4+i]&15 | b[i-4]>>6<<4, b[4+i]>>4 | b[i]>>6<<4
}

// Q4_K is d, dmin, 12 bytes of scales and least values (see SixBits) of 8 sub-blocks of 32,
// and 128 bytes of numbers q of four bits: d·scale·q - dmin·least. The 32 bytes of each
// pair of sub-blocks hold the first in their low halves and the second in their high halves.
func decodeQ4_K(b []byte, dst []float32) {
	d, dmin, packed, qs := half(b), half(b[2:]), b[4:16], b[16:144]
	for s := range 8 {
		sc, le := SixBits(packed, s)
		scale, least := d*float32(sc), dmin*float32(le)
		for i, q := range qs[32*(s/2):][:32] {
			dst[32*s+i] = float32(scale*float32(q>>(4*(s%2))&15)) - least
		}
	}
}

// Q5_K is Q4_K with 32 bytes before the numbers: bit s of byte i is the fifth bit of element i of sub-block s.
func decodeQ5_K(b []byte, dst []float32) {
	d, dmin, packed, fifth, qs := half(b), half(b[2:]), b[4:16], b[16:48], b[48:176]
	for s := range 8 {
		sc, le := SixBits(packed, s)
		scale, least := d*float32(sc), dmin*float32(le)
		for i, q := range qs[32*(s/2):][:32] {
			q = q>>(4*(s%2))&15 | fifth[i]>>s&1<<4
			dst[32*s+i] = float32(scale*float32(q)) - least
		}
	}
}

// Q6_K is 128 bytes of the lower four bits and 64 bytes of the upper two of each number,
// 16 signed bytes of scales for sub-blocks of 16, and d: d·scale·(number-32). Half n of the
// superblock has 64 bytes of the former, whose low halves are its elements 0 to 63 and high
// halves 64 to 127, and 32 of the latter: bits 2j of byte i belong to its element 32j+i.
func decodeQ6_K(b []byte, dst []float32) {
	low, high, scales, d := b[:128], b[128:192], b[192:208], half(b[208:])
	for i := range dst {
		n, j, l := i/128, i/32%4, i%32
		q := low[64*n+i%64]>>(4*(j/2))&15 | high[32*n+l]>>(2*j)&3<<4
		dst[i] = float32(d*float32(int8(scales[i/16]))) * float32(int(q)-32)
	}
}
