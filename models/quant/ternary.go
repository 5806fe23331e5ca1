package quant

// The formats of one or two bits without a table: a half-precision scale d and numbers of two or three values.

// Q1_0 is d and 16 bytes of bits, element 8i+j in bit j of byte i: d where the bit is 1, -d where it is 0.
func decodeQ1_0(b []byte, dst []float32) {
	d := half(b)
	for i := range dst {
		dst[i] = -d
		if b[2+i/8]>>(i%8)&1 != 0 {
			dst[i] = d
		}
	}
}

// Q2_0 and PQ2_0 are d and numbers q of two bits, element 4i+j in bits 2j of byte i: d·(q-1). Q2_0 has blocks of 64
// elements, PQ2_0 of 128.
func decodeQ2_0(b []byte, dst []float32) {
	d := half(b)
	for i := range dst {
		dst[i] = d * float32(int(b[2+i/4]>>(2*(i%4))&3)-1)
	}
}

// TQ2_0 is 64 bytes of numbers q of two bits and d: d·(q-1). The 32 bytes of half n of the superblock hold its elements
// 32j+i in bits 2j of byte i.
func decodeTQ2_0(b []byte, dst []float32) {
	d := half(b[64:])
	for i := range dst {
		n, j, l := i/128, i/32%4, i%32
		dst[i] = d * float32(int(b[32*n+l]>>(2*j)&3)-1)
	}
}

// TQ1_0 is 48 bytes of five digits to the base of three, 4 bytes of four digits and d: d·(digit-1). Each of 32 bytes
// holds elements 32 apart, the 16 bytes after them elements 16 apart, the last four elements 4 apart.
func decodeTQ1_0(b []byte, dst []float32) {
	d := half(b[52:])
	digits(dst[:160], b[:32], d)
	digits(dst[160:240], b[32:48], d)
	digits(dst[240:], b[48:52], d)
}

// PTQ1_0 is 24 bytes of five digits to the base of three, 2 bytes of four digits and d: d·(digit-1). Each of 16 bytes
// holds elements 16 apart, the 8 bytes after them elements 8 apart, the last two elements 2 apart.
func decodePTQ1_0(b []byte, dst []float32) {
	d := half(b[26:])
	digits(dst[:80], b[:16], d)
	digits(dst[80:120], b[16:24], d)
	digits(dst[120:], b[24:26], d)
}

// digits writes d·(digit-1) of all bytes' first digits, then of their second digits, and so on. A byte is a fraction of
// 256, rounded up: its first digit is the integer part of the fraction times three.
func digits(dst []float32, b []byte, d float32) {
	power := byte(1) // of three, modulo 256
	for len(dst) > 0 {
		for i, q := range b {
			dst[i] = d * float32(int(uint16(q*power)*3>>8)-1)
		}
		dst, power = dst[len(b):], power*3
	}
}
