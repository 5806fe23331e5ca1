package kernels

import (
	"foretoken/webgpu"

	"github.com/x448/float16"
)

// UnpackRow writes the weights of a row as floats; see unpack_*.wgsl for the layouts.
func UnpackRow(f Format, quants, scales webgpu.Memory, row, cols int, dst []float64) {
	words, multipliers := f.WordsPerRow(cols), f.ScalesPerRow(cols)
	q, s := quants[row*words:(row+1)*words], scales[row*multipliers:(row+1)*multipliers]
	l := layouts[f]
	for b := range cols / l.block {
		unpackBlock(f, q[b*l.words:][:l.words], s[b*l.scales:][:l.scales], dst[b*l.block:][:l.block])
	}
}

func unpackBlock(f Format, q, s []uint32, dst []float64) {
	switch f {
	case F32:
		for i, w := range q {
			dst[i] = Float(w)
		}
	case F16:
		for i, w := range q {
			dst[2*i], dst[2*i+1] = halves(w)
		}
	case BF16:
		for i, w := range q {
			dst[2*i], dst[2*i+1] = Float(w<<16), Float(w&^0xffff)
		}
	case Q8_0:
		d := Float(s[0])
		for i, w := range q {
			for j := range 4 {
				dst[4*i+j] = d * float64(int8(w>>(8*j)))
			}
		}
	case Q4_0:
		d := Float(s[0])
		for i, w := range q {
			for j := range 4 {
				dst[4*i+j] = d * float64(int(w>>(8*j)&15)-8)
				dst[16+4*i+j] = d * float64(int(w>>(8*j+4)&15)-8)
			}
		}
	case Q4_1:
		d, m := halves(s[0])
		for i := range dst {
			dst[i] = d*float64(nibble(q, i)) + m
		}
	case Q5_0:
		d := Float(s[0])
		for i := range dst {
			dst[i] = d * float64(nibble(q[1:], i)+int(q[0]>>i&1)<<4-16)
		}
	case Q5_1:
		d, m := halves(s[0])
		for i := range dst {
			dst[i] = d*float64(nibble(q[1:], i)+int(q[0]>>i&1)<<4) + m
		}
	case IQ4_NL, MXFP4:
		d := Float(s[0])
		for i := range dst {
			dst[i] = d * float64(levels[f][nibble(q, i)])
		}
	case Q1_0:
		d := Float(s[0])
		for i := range dst {
			dst[i] = d * float64(int(byteOf(q, i%16)>>(i/16)&1)*2-1)
		}
	case Q2_0:
		d := Float(s[0])
		for i := range dst {
			dst[i] = d * float64(int(byteOf(q, i%16)>>(i/16*2)&3)-1)
		}
	case Q2_K:
		d, dmin := halves(s[4])
		for i := range dst {
			both := byteOf(s, i/16)
			dst[i] = d*float64(both&15)*float64(pairOf(q, i)) - dmin*float64(both>>4)
		}
	case Q3_K:
		d := Float(s[0])
		for i := range dst {
			sub := i / 16
			scale := int(byteOf(s[1:], sub%8)>>(sub/8*4)&15) + int(byteOf(s[3:], sub%4)>>(sub/4*2)&3)<<4 - 32
			dst[i] = d * float64(scale) * float64(pairOf(q[8:], i)+bitOf(q, i)<<2-4)
		}
	case Q4_K, Q5_K:
		for sub := range 8 {
			scale := Float(s[0]) * float64(byteOf(s[2:], 2*sub))
			least := Float(s[1]) * float64(byteOf(s[2:], 2*sub+1))
			for i := 32 * sub; i < 32*sub+32; i++ {
				at := i/64*32 + i%32 // the byte with the lower bits of the number
				if f == Q4_K {
					dst[i] = scale*float64(byteOf(q, at)>>(sub%2*4)&15) - least
				} else {
					dst[i] = scale*float64(int(byteOf(q[8:], at)>>(sub%2*4)&15)+bitOf(q, i)<<4) - least
				}
			}
		}
	case Q6_K:
		d := Float(s[4])
		for i := range dst {
			lower := byteOf(q, i/128*64+i%64) >> (i / 64 % 2 * 4) & 15
			number := int(lower) + pairOf(q[32:], i)<<4 - 32
			dst[i] = d * float64(int8(byteOf(s, i/16))) * float64(number)
		}
	}
}

func halves(w uint32) (low, high float64) {
	return float64(float16.Frombits(uint16(w)).Float32()), float64(float16.Frombits(uint16(w >> 16)).Float32())
}

func byteOf(w []uint32, i int) byte { return byte(w[i/4] >> (i % 4 * 8)) }

// nibble returns number i of a block of 32: the low halves come first.
func nibble(w []uint32, i int) int { return int(byteOf(w, i%16) >> (i / 16 * 4) & 15) }

// pairOf returns the two bits of weight i of a superblock; each half of it has eight words.
func pairOf(w []uint32, i int) int { return int(byteOf(w, i/128*32+i%32) >> (i / 32 % 4 * 2) & 3) }

// bitOf returns the bit of weight i of a superblock, which has eight words of them.
func bitOf(w []uint32, i int) int { return int(byteOf(w, i%32) >> (i / 32) & 1) }

// ScalesOf returns the scales among a dispatch's bindings, nil for formats without scales.
func ScalesOf(f Format, bindings []webgpu.Memory) webgpu.Memory {
	if !f.Quantised() {
		return nil
	}
	return bindings[4]
}
