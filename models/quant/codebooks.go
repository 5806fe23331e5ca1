package quant

import "encoding/binary"

// The IQ formats: superblocks of 256 elements in 8 blocks of 32. All but IQ4_XS store groups of elements as indexes
// into a grid (see grids.go); IQ2 and IQ3 store the signs of the elements apart. The half-precision scale d comes
// first, except in IQ1_M.

// IQ4_XS is d, a word of the upper two bits of 8 scales, 4 bytes of their lower four bits in pairs, and 128 bytes of
// numbers q: d·(scale-32)·levels[q]. A block's 16 bytes hold its numbers as in IQ4_NL.
func decodeIQ4XS(b []byte, dst []float32) {
	d, high, low, qs := half(b), binary.LittleEndian.Uint16(b[2:]), b[4:8], b[8:136]
	for s := range 8 {
		scale := low[s/2]>>(4*(s%2))&15 | byte(high>>(2*s)&3)<<4
		dl := d * float32(int(scale)-32)
		for i, q := range qs[16*s:][:16] {
			dst[32*s+i] = dl * levels[q&15]
			dst[32*s+i+16] = dl * levels[q>>4]
		}
	}
}

// signed writes scale·vector, an element negative where its bit of signs is 1.
func signed(dst []float32, vector []int8, scale float32, signs byte) {
	for j, v := range vector {
		x := scale * float32(v)
		if signs>>j&1 != 0 {
			x = -x
		}
		dst[j] = x
	}
}

// evenSigns completes seven signs with an eighth that makes the number of negative elements even.
func evenSigns(seven uint32) byte {
	s := byte(seven & 127)
	p := s ^ s>>4
	p ^= p >> 2
	return s | (p^p>>1)<<7
}

// IQ2_XXS is d and 8 bytes for each block: four indexes of a byte, and a word of four times seven signs with a scale
// of four bits above them: d·(scale+½)/4·±vector.
func decodeIQ2XXS(b []byte, dst []float32) {
	d, vectors := half(b), iq2XXS()
	for s := range 8 {
		block := b[2+8*s:][:8]
		signs := binary.LittleEndian.Uint32(block[4:])
		scale := float32(d*(0.5+float32(signs>>28))) * 0.25
		for l := range 4 {
			signed(dst[32*s+8*l:], vectors[8*int(block[l]):][:8], scale, evenSigns(signs>>(7*l)))
		}
	}
}

// IQ2_XS is d, 64 bytes of words of 16 bits, an index of nine bits and seven signs above it, and 8 bytes of scales,
// two for each block: d·(scale+½)/4·±vector.
func decodeIQ2XS(b []byte, dst []float32) {
	d, vectors := half(b), iq2XS()
	for g := range 32 {
		word := binary.LittleEndian.Uint16(b[2+2*g:])
		scale := float32(d*(0.5+float32(b[66+g/4]>>(4*(g/2%2))&15))) * 0.25
		signed(dst[8*g:], vectors[8*int(word&511):][:8], scale, evenSigns(uint32(word>>9)))
	}
}

// IQ2_S is d, 32 bytes of the lower eight bits of indexes, 32 bytes of signs, 8 bytes of the upper two bits of indexes
// and 8 bytes of scales, two for each block: d·(scale+½)/4·±vector.
func decodeIQ2S(b []byte, dst []float32) {
	d, vectors := half(b), iq2S()
	for g := range 32 {
		index := int(b[2+g]) | int(b[66+g/4]>>(2*(g%4))&3)<<8
		scale := float32(d*(0.5+float32(b[74+g/4]>>(4*(g/2%2))&15))) * 0.25
		signed(dst[8*g:], vectors[8*index:][:8], scale, b[34+g])
	}
}

// IQ3_XXS is d, 64 bytes of indexes, and a word for each block of four times seven signs with a scale of four bits
// above them: d·(scale+½)/2·±vector.
func decodeIQ3XXS(b []byte, dst []float32) {
	d, vectors := half(b), iq3XXS()
	for s := range 8 {
		signs := binary.LittleEndian.Uint32(b[66+4*s:])
		scale := float32(d*(0.5+float32(signs>>28))) * 0.5
		for l := range 8 {
			eight := evenSigns(signs >> (7 * (l / 2)))
			signed(dst[32*s+4*l:], vectors[4*int(b[2+8*s+l]):][:4], scale, eight>>(4*(l%2)))
		}
	}
}

// IQ3_S is d, 64 bytes of the lower eight bits of indexes, 8 bytes of their ninth bits, 32 bytes of signs and 4 bytes
// of scales in pairs: d·(2·scale+1)·±vector.
func decodeIQ3S(b []byte, dst []float32) {
	d, vectors := half(b), iq3S()
	for g := range 64 {
		index := int(b[2+g]) | int(b[66+g/8]>>(g%8)&1)<<8
		scale := d * float32(1+2*int(b[106+g/16]>>(4*(g/8%2))&15))
		signed(dst[4*g:], vectors[4*index:][:4], scale, b[74+g/2]>>(4*(g%2)))
	}
}

// shifted writes scale·(vector ± ⅛).
func shifted(dst []float32, vector []int8, scale float32, negative bool) {
	delta := float32(0.125)
	if negative {
		delta = -delta
	}
	for j, v := range vector {
		dst[j] = scale * (float32(v) + delta)
	}
}

// IQ1_S is d, 32 bytes of the lower eight bits of indexes, and a word of 16 bits for each block: four times the upper
// three bits of an index, a scale of three bits and the sign of the shift: d·(2·scale+1)·(vector ± ⅛).
func decodeIQ1S(b []byte, dst []float32) {
	d, vectors := half(b), iq1()
	for g := range 32 {
		word := binary.LittleEndian.Uint16(b[34+2*(g/4):])
		index := int(b[2+g]) | int(word>>(3*(g%4))&7)<<8
		shifted(dst[8*g:], vectors[8*index:][:8], d*float32(2*(word>>12&7)+1), word>>15 != 0)
	}
}

// IQ1_M is 32 bytes of the lower eight bits of indexes, 16 bytes with the upper three bits of two indexes, each below
// the sign of its shift, and 4 words of 16 bits with a scale of three bits for every 16 elements. The upper four bits
// of the words are d, lowest first: d·(2·scale+1)·(vector ± ⅛).
func decodeIQ1M(b []byte, dst []float32) {
	d, vectors := half(scaleIQ1M(b)), iq1()
	for g := range 32 {
		high := b[32+g/2] >> (4 * (g % 2))
		index := int(b[g]) | int(high&7)<<8
		scale := binary.LittleEndian.Uint16(b[48+2*(g/8):]) >> (3 * (g / 2 % 4)) & 7
		shifted(dst[8*g:], vectors[8*index:][:8], d*float32(2*scale+1), high&8 != 0)
	}
}

// scaleIQ1M gathers the bytes of a block's d.
func scaleIQ1M(b []byte) []byte {
	return []byte{b[49]>>4 | b[51]&0xf0, b[53]>>4 | b[55]&0xf0}
}
