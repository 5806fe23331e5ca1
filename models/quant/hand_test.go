package quant

import (
	"testing"

	"foretoken/models/gguf"
)

// Blocks decoded by hand from the formats' definitions. Bytes not named are zero, and so are scales and numbers;
// `rest` is the value of every element not named.
func TestHandWorkedBlocks(t *testing.T) {
	const half, quarter, one, two = 0x38, 0x34, 0x3c, 0x40 // second bytes of the halves 0.5, 0.25, 1 and 2
	for _, c := range []struct {
		t     gguf.Type
		bytes map[int]byte
		want  map[int]float32
		rest  func(i int) float32
	}{
		// The upper half of a float: 0x3f80 is 1; 0xc0c0 is negative, exponent 129 - 127 = 2, fraction 1.5.
		{gguf.BF16, map[int]byte{0: 0x80, 1: 0x3f, 2: 0xc0, 3: 0xc0}, map[int]float32{0: 1, 1: -6}, nil},

		// d = 0.5, m = -2. Byte 4 is elements 0 (low half, 10) and 16 (high half, 3).
		{gguf.Q4_1, map[int]byte{1: half, 3: 0xc0, 4: 0x3a},
			map[int]float32{0: 10*0.5 - 2, 16: 3*0.5 - 2},
			func(int) float32 { return -2 }},

		// d = 2. Bits 0 and 16 of the word at byte 2 are the fifth bits of elements 0 and 16,
		// whose lower bits are in byte 6: 15 + 16 and 7 + 16, less 16.
		{gguf.Q5_0, map[int]byte{1: two, 2: 1, 4: 1, 6: 0x7f},
			map[int]float32{0: 2 * (31 - 16), 16: 2 * (23 - 16)},
			func(int) float32 { return 2 * -16 }},

		// d = 0.25, m = 1. Bit 31 of the word at byte 4 and the high half of byte 8 + 15 are element 31.
		{gguf.Q5_1, map[int]byte{1: quarter, 3: one, 7: 0x80, 23: 0x90},
			map[int]float32{31: 0.25*(9+16) + 1},
			func(int) float32 { return 1 }},

		// d = 0.5. Number 0 stands for -127, 15 for 113, 7 for -10 and 8 for 1.
		{gguf.IQ4NL, map[int]byte{1: half, 2: 0xf0, 3: 0x87},
			map[int]float32{0: -63.5, 16: 56.5, 1: -5, 17: 0.5},
			func(int) float32 { return -63.5 }},

		// d = 0.5, the half at byte 2 is no part of an element. Byte 4 + 31 is element 31.
		{gguf.Q8_1, map[int]byte{1: half, 3: two, 4: 6, 4 + 31: 0xfe}, map[int]float32{0: 3, 31: -1},
			func(int) float32 { return 0 }},

		// d = 0.5. Bits 0 and 1 of byte 2 are elements 0 and 1; element 127 is bits 6 and 7 of byte 2 + 31.
		{gguf.PQ2_0, map[int]byte{1: half, 2: 2 | 1<<2, 2 + 31: 3 << 6},
			map[int]float32{0: 0.5, 1: 0, 127: 2 * 0.5},
			func(int) float32 { return -0.5 }},

		// d = 2 at byte 26. A byte of digits a b c d e is their number to the base of three times 256/243, rounded
		// up. Byte 3 has 2 1 0 2 1, the number 196 and 207, of elements 3, 19, 35, 51 and 67; byte 16 + 1 has
		// 0 0 1 0 2, 11 and 12, of elements 81, 89, 97, 105 and 113; byte 24 + 1 has 1 2 0 1, a fifth digit of 0,
		// 138 and 146, of elements 121, 123, 125 and 127.
		{gguf.PTQ1_0, map[int]byte{27: two, 3: 207, 17: 12, 25: 146},
			map[int]float32{3: 2, 19: 0, 35: -2, 51: 2, 67: 0, 81: -2, 89: -2, 97: 0, 105: -2, 113: 2,
				121: 0, 123: 2, 125: -2, 127: 0},
			func(int) float32 { return -2 }},

		// d = 0.5 at byte 80, dmin = 0.25 at 82. Byte 5 is sub-block 5, elements 80 to 95: scale 3, least 7.
		// Element 83 = 32·2 + 19 is bits 4 and 5 of byte 16 + 19. Byte 11 is sub-block 11, elements 176 to
		// 191: scale 2, least 1. Element 190 = 128 + 32·1 + 30 is bits 2 and 3 of byte 16 + 32 + 30.
		{gguf.Q2_K, map[int]byte{81: half, 83: quarter, 5: 0x73, 16 + 19: 3 << 4, 11: 0x12, 16 + 32 + 30: 2 << 2},
			map[int]float32{83: 0.5*3*3 - 0.25*7, 190: 0.5*2*2 - 0.25*1},
			func(i int) float32 {
				switch i / 16 {
				case 5:
					return -0.25 * 7
				case 11:
					return -0.25 * 1
				}
				return 0
			}},

		// d = 1 at byte 108. Scale 0 is 33: 1 in the low half of byte 96, 2 in bits 0 and 1 of byte 104.
		// Scale 13 is 45: 13 in the high half of byte 96 + 13%8, 2 in bits 2·(13/4) of byte 104 + 13%4. All
		// are less 32, and all numbers less 4. Element 5 is bits 0 and 1 of byte 32 + 5 (2) with its third
		// bit in bit 0 of byte 5. Element 210 = 128 + 32·2 + 18 is bits 4 and 5 of byte 32 + 32 + 18 (1), with
		// its third bit in bit 4 + 2 of byte 18.
		{gguf.Q3_K, map[int]byte{109: one, 96: 1, 104: 2, 101: 13 << 4, 105: 2 << 6,
			32 + 5: 2, 5: 1, 32 + 32 + 18: 1 << 4, 18: 1 << 6},
			map[int]float32{5: (33 - 32) * (2 + 4 - 4), 210: (45 - 32) * (1 + 4 - 4)},
			func(i int) float32 {
				switch i / 16 {
				case 0:
					return (33 - 32) * -4
				case 13:
					return (45 - 32) * -4
				}
				return -32 * -4
			}},

		// d = 0.5, dmin = 0.25. Sub-block 1: scale 3 in byte 4 + 1, least 4 in byte 8 + 1. Sub-block 6: scale 37
		// and least 21, lower four bits in byte 12 + 2, 5 and 5, upper two 2 above the scale of sub-block 2 in
		// byte 4 + 2 and 1 above its least in byte 8 + 2. Element 35 is the high half of byte 16 + 3; element
		// 223 = 32·6 + 31 the low half of byte 16 + 32·3 + 31.
		{gguf.Q4_K, map[int]byte{1: half, 3: quarter, 5: 3, 9: 4, 14: 0x55, 6: 2 << 6, 10: 1 << 6,
			16 + 3: 9 << 4, 16 + 96 + 31: 11},
			map[int]float32{35: 0.5*3*9 - 0.25*4, 223: 0.5*37*11 - 0.25*21},
			leastOfTwo},

		// As Q4_K, the numbers from byte 48 on. The fifth bit of element 35 is bit 1 of byte 16 + 3; that of
		// element 222 bit 6 of byte 16 + 30.
		{gguf.Q5_K, map[int]byte{1: half, 3: quarter, 5: 3, 9: 4, 14: 0x55, 6: 2 << 6, 10: 1 << 6,
			48 + 3: 9 << 4, 16 + 3: 1 << 1, 48 + 96 + 31: 11, 16 + 30: 1 << 6},
			map[int]float32{35: 0.5*3*(9+16) - 0.25*4, 223: 0.5*37*11 - 0.25*21, 222: 0.5*37*16 - 0.25*21},
			leastOfTwo},

		// d = 0.5 at byte 208. Scale 6 is -3. Element 100 = 32·3 + 4: lower bits 10 in the high half of byte
		// 100%64, upper 2 in bits 6 and 7 of byte 128 + 4, less 32. Scale 9 is 2. Element 150 = 128 + 22: lower
		// bits 7 in the low half of byte 64 + 22, upper 1 in bits 0 and 1 of byte 128 + 32 + 22.
		{gguf.Q6_K, map[int]byte{209: half, 192 + 6: 0xfd, 36: 10 << 4, 128 + 4: 2 << 6,
			192 + 9: 2, 64 + 22: 7, 128 + 32 + 22: 1},
			map[int]float32{100: 0.5 * -3 * (10 + 32 - 32), 150: 0.5 * 2 * (7 + 16 - 32)},
			func(i int) float32 {
				switch i / 16 {
				case 6:
					return 0.5 * -3 * -32
				case 9:
					return 0.5 * 2 * -32
				}
				return 0
			}},
	} {
		elements := max(int(c.t.BlockSize()), len(c.want))
		size, err := RowBytes(c.t, elements)
		if err != nil {
			t.Fatal(err)
		}
		block, dst := make([]byte, size), make([]float32, elements)
		for at, b := range c.bytes {
			block[at] = b
		}
		if err := Dequantize(c.t, block, dst); err != nil {
			t.Fatal(err)
		}
		for i, got := range dst {
			want, ok := c.want[i]
			if !ok {
				want = c.rest(i)
			}
			if got != want {
				t.Errorf("%s: element %d is %g, want %g", c.t, i, got, want)
			}
		}
	}
}

// leastOfTwo returns element i of the Q4_K and Q5_K blocks where its bits are 0: sub-blocks 1 and 6 have a minimum
// of their own.
func leastOfTwo(i int) float32 {
	switch i / 32 {
	case 1:
		return -0.25 * 4
	case 6:
		return -0.25 * 21
	}
	return 0
}
