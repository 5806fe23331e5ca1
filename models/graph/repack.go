package graph

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"foretoken/internal/quote"
	"foretoken/models/gguf"
	"foretoken/models/quant"
	"foretoken/webgpu"
	"foretoken/webgpu/kernels"

	"github.com/x448/float16"
)

// blockLayout says where the parts of a file's block of weights go on the device: to aligned arrays of quants and of
// scales (see unpack_*.wgsl). Floats have neither function: their bits are those of the file.
type blockLayout struct {
	format kernels.Format
	quants func(block []byte, out, spare []uint32) // spare has a word for four weights
	scales func(block []byte, out []uint32)
}

var blockLayouts = map[gguf.Type]blockLayout{
	gguf.F32:   {kernels.F32, nil, nil},
	gguf.F16:   {kernels.F16, nil, nil},
	gguf.BF16:  {kernels.BF16, nil, nil},
	gguf.Q8_0:  {kernels.Q8_0, copied(2, 34), oneFloat},
	gguf.Q4_0:  {kernels.Q4_0, copied(2, 18), oneFloat},
	gguf.Q4_1:  {kernels.Q4_1, copied(4, 20), twoHalves},
	gguf.Q5_0:  {kernels.Q5_0, copied(2, 22), oneFloat},
	gguf.Q5_1:  {kernels.Q5_1, copied(4, 24), twoHalves},
	gguf.IQ4NL: {kernels.IQ4_NL, copied(2, 18), oneFloat},
	gguf.IQ4XS: {kernels.IQ4_NL, copied(8, 136), eightFloats},
	gguf.MXFP4: {kernels.MXFP4, copied(1, 17), powerOfTwo},
	gguf.Q2_K: {kernels.Q2_K, copied(16, 80), func(b []byte, out []uint32) {
		copy(webgpu.U32Bytes(out), b[:16])
		twoHalves(b[80:], out[4:])
	}},
	gguf.Q3_K: {kernels.Q3_K, copied(0, 96), func(b []byte, out []uint32) {
		oneFloat(b[108:], out)
		copy(webgpu.U32Bytes(out[1:]), b[96:108])
	}},
	gguf.Q4_K: {kernels.Q4_K, copied(16, 144), pairsOfBytes},
	gguf.Q5_K: {kernels.Q5_K, copied(16, 176), pairsOfBytes},
	gguf.Q6_K: {kernels.Q6_K, copied(0, 192), func(b []byte, out []uint32) {
		copy(webgpu.U32Bytes(out), b[192:208])
		oneFloat(b[208:], out[4:])
	}},
	gguf.Q1_0:   {kernels.Q1_0, gathered(1, bitCodes), sameFloat(0)},
	gguf.Q2_0:   {kernels.Q2_0, gathered(2, pairCodes), sameFloat(0)},
	gguf.PQ2_0:  {kernels.Q2_0, gathered(2, pairCodes), sameFloat(0)},
	gguf.PTQ1_0: {kernels.Q2_0, gathered(2, digitCodes(16, 8, 2)), sameFloat(26)},
	gguf.TQ1_0:  {kernels.Q2_0, gathered(2, digitCodes(32, 16, 4)), sameFloat(52)},
	gguf.TQ2_0:  {kernels.Q2_0, gathered(2, spreadPairCodes), sameFloat(64)},
}

// copied copies bytes [from, to) of a block.
func copied(from, to int) func(block []byte, out, spare []uint32) {
	return func(block []byte, out, _ []uint32) { copy(webgpu.U32Bytes(out), block[from:to]) }
}

// oneFloat writes a half as a float.
func oneFloat(block []byte, out []uint32) {
	out[0] = math.Float32bits(float16.Frombits(binary.LittleEndian.Uint16(block)).Float32())
}

// twoHalves keeps two halves as a word.
func twoHalves(block []byte, out []uint32) { out[0] = binary.LittleEndian.Uint32(block) }

// pairsOfBytes writes the two halves of Q4_K and Q5_K as floats, and the scale and the minimum of each block of 32 as
// bytes.
func pairsOfBytes(block []byte, out []uint32) {
	oneFloat(block, out)
	oneFloat(block[2:], out[1:])
	bytes := webgpu.U32Bytes(out[2:])
	for i := range 8 {
		bytes[2*i], bytes[2*i+1] = quant.SixBits(block[4:16], i)
	}
}

// sameFloat writes the half at an offset as the scale of all blocks that a file's block becomes.
func sameFloat(at int) func(block []byte, out []uint32) {
	return func(block []byte, out []uint32) {
		oneFloat(block[at:], out)
		for i := range out {
			out[i] = out[0]
		}
	}
}

// eightFloats writes the scales of the blocks of IQ4_XS: a half times six bits less 32.
func eightFloats(block []byte, out []uint32) {
	oneFloat(block, out)
	d, high := math.Float32frombits(out[0]), binary.LittleEndian.Uint16(block[2:])
	for i := range out {
		six := int(block[4+i/2]>>(i%2*4)&15) | int(high>>(2*i)&3)<<4
		out[i] = math.Float32bits(d * float32(six-32))
	}
}

// powerOfTwo writes the scale of MXFP4, 2^(e-128) for a byte e. The first two are subnormal.
func powerOfTwo(block []byte, out []uint32) {
	if e := uint32(block[0]); e < 2 {
		out[0] = 0x00200000 << e
	} else {
		out[0] = (e - 1) << 23
	}
}

// bitCodes writes the numbers of Q1_0: bit i of byte j is number 8j + i.
func bitCodes(block []byte, out []uint32) {
	for i := range out {
		four := uint32(block[2+i/2]>>(i%2*4)) & 15
		out[i] = four * 0x00204081 & 0x01010101
	}
}

// pairCodes writes the numbers of Q2_0 and PQ2_0: pair i of byte j is number 4j + i.
func pairCodes(block []byte, out []uint32) {
	for i, b := range block[2:] {
		four := uint32(b)
		out[i] = four&3 | four&12<<6 | four&48<<12 | four&192<<18
	}
}

// spreadPairCodes writes the numbers of TQ2_0: pair j of byte i of each half is number 32j + i.
func spreadPairCodes(block []byte, out []uint32) {
	for i := range out {
		four := binary.LittleEndian.Uint32(block[i/32*32+i%8*4:])
		out[i] = four >> (i / 8 % 4 * 2) & 0x03030303
	}
}

// digitCodes returns the numbers of types with digits to the base of three: of so many bytes first, second and third,
// the first digits of all, then their second ones, and so on. The third bytes have four digits, the others five.
func digitCodes(first, second, third int) func(block []byte, out []uint32) {
	return func(block []byte, out []uint32) {
		numbers := webgpu.U32Bytes(out)
		for part, n := range [3]int{first, second, third} {
			digits := [3]int{5, 5, 4}[part]
			for i, left := range block[:n] {
				for d := range digits {
					// A digit is the whole part of three times a fraction of 256, what is left the next fraction.
					three := 3 * uint16(left)
					numbers[d*n+i], left = byte(three>>8), byte(three)
				}
			}
			block, numbers = block[n:], numbers[digits*n:]
		}
	}
}

// gathered packs numbers of so many bits, four to a word of codes, as Q1_0 and Q2_0 have them on the device: a block is
// four words, whose byte k has numbers k, 16 + k and so on from its lowest bits up.
func gathered(bits int, codes func(block []byte, out []uint32)) func(block []byte, out, spare []uint32) {
	return func(block []byte, out, spare []uint32) {
		codes(block, spare)
		clear(out)
		for ; len(out) >= 4; out = out[4:] {
			for at := 0; at < 8; at += bits {
				out[0] |= spare[0] << at
				out[1] |= spare[1] << at
				out[2] |= spare[2] << at
				out[3] |= spare[3] << at
				spare = spare[4:]
			}
		}
	}
}

// Runs reports whether kernels read weights of the type.
func Runs(t gguf.Type) bool { _, ok := blockLayouts[t]; return ok }

// CheckType refuses a tensor of a storage type that no kernel reads.
func CheckType(f *gguf.File, t *gguf.TensorInfo) error {
	switch {
	case Runs(t.Type):
		return nil
	case quant.Decodes(t.Type):
		return fmt.Errorf("graph: %s: tensor %s is %s, which no kernel reads; convert it while it loads "+
			"(--quantise q4_0), or take a file in Q4_K_M, Q8_0 or Q4_0", f.Name(), quote.Name(t.Name),
			t.Type)
	}
	return fmt.Errorf("graph: %s: tensor %s is %s, which no model stores its weights in; take a file in Q4_K_M, Q8_0 "+
		"or Q4_0", f.Name(), quote.Name(t.Name), t.Type)
}

// repack splits raw, complete blocks of type t, into the arrays of the kernels and appends them to quants and
// scales. Words are little-endian in files and on every supported host.
func repack(t gguf.Type, raw []byte, quants, scales []uint32) ([]uint32, []uint32) {
	s := blockLayouts[t]
	if !s.format.Quantised() {
		to, quants := extend(quants, len(raw)/4)
		copy(webgpu.U32Bytes(to), raw)
		return quants, scales
	}
	size, weights := int(t.BlockBytes()), int(t.BlockSize())
	blocks, words := len(raw)/size, s.format.ScalesPerRow(weights)
	to, quants := extend(quants, blocks*s.format.WordsPerRow(weights))
	multipliers, scales := extend(scales, blocks*words)
	each, spare := s.format.WordsPerRow(weights), make([]uint32, weights/4)
	for i := range blocks {
		block := raw[i*size:][:size]
		s.quants(block, to[i*each:][:each], spare)
		s.scales(block, multipliers[i*words:][:words])
	}
	return quants, scales
}

// extend lengthens a slice by n and returns the new part and the slice.
func extend(s []uint32, n int) (end, all []uint32) {
	all = slices.Grow(s, n)[:len(s)+n]
	return all[len(s):], all
}
