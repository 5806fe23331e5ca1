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

// byteRange is bytes [from, to) of a block.
type byteRange struct{ from, to int }

// blockLayout says where the parts of a file's block of weights go on the device: to aligned arrays of quants, bits
// unchanged, and of scales (see unpack_*.wgsl).
type blockLayout struct {
	format kernels.Format
	quants byteRange
	scales func(block []byte, out []uint32)
}

var blockLayouts = map[gguf.Type]blockLayout{
	gguf.F32:   {kernels.F32, byteRange{0, 4}, nil},
	gguf.F16:   {kernels.F16, byteRange{0, 2}, nil},
	gguf.BF16:  {kernels.BF16, byteRange{0, 2}, nil},
	gguf.Q8_0:  {kernels.Q8_0, byteRange{2, 34}, oneFloat},
	gguf.Q4_0:  {kernels.Q4_0, byteRange{2, 18}, oneFloat},
	gguf.Q4_1:  {kernels.Q4_1, byteRange{4, 20}, twoHalves},
	gguf.Q5_0:  {kernels.Q5_0, byteRange{2, 22}, oneFloat},
	gguf.Q5_1:  {kernels.Q5_1, byteRange{4, 24}, twoHalves},
	gguf.IQ4NL: {kernels.IQ4_NL, byteRange{2, 18}, oneFloat},
	gguf.Q2_K: {kernels.Q2_K, byteRange{16, 80}, func(b []byte, out []uint32) {
		copy(webgpu.U32Bytes(out), b[:16])
		twoHalves(b[80:], out[4:])
	}},
	gguf.Q3_K: {kernels.Q3_K, byteRange{0, 96}, func(b []byte, out []uint32) {
		oneFloat(b[108:], out)
		copy(webgpu.U32Bytes(out[1:]), b[96:108])
	}},
	gguf.Q4_K: {kernels.Q4_K, byteRange{16, 144}, pairsOfBytes},
	gguf.Q5_K: {kernels.Q5_K, byteRange{16, 176}, pairsOfBytes},
	gguf.Q6_K: {kernels.Q6_K, byteRange{0, 192}, func(b []byte, out []uint32) {
		copy(webgpu.U32Bytes(out), b[192:208])
		oneFloat(b[208:], out[4:])
	}},
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

// CheckType refuses a tensor of a storage type that no kernel reads.
func CheckType(f *gguf.File, t *gguf.TensorInfo) error {
	_, kernel := blockLayouts[t.Type]
	switch {
	case kernel:
		return nil
	case quant.Decodes(t.Type):
		return fmt.Errorf("graph: %s: tensor %s is %s, which no kernel reads; load the file with --quantise q4_0 or "+
			"q8_0 (the option quantise of a page), or take one in Q4_K_M, Q8_0 or Q4_0", f.Name(), quote.Name(t.Name),
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
	bytes, at := webgpu.U32Bytes(to), 0
	for i := range blocks {
		block := raw[i*size:][:size]
		at += copy(bytes[at:], block[s.quants.from:s.quants.to])
		s.scales(block, multipliers[i*words:][:words])
	}
	return quants, scales
}

// extend lengthens a slice by n and returns the new part and the slice.
func extend(s []uint32, n int) (end, all []uint32) {
	all = slices.Grow(s, n)[:len(s)+n]
	return all[len(s):], all
}
