package llama

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"foretoken/models/gguf"
	"foretoken/models/quant"
	"foretoken/webgpu"
	"foretoken/webgpu/kernels"

	"github.com/x448/float16"
)

// byteRange is bytes [from, to) of a block.
type byteRange struct{ from, to int }

// blockLayout says where the parts of a file's block of weights go on the device: to aligned arrays of quants and
// of scales, bits unchanged (see unpack_*.wgsl).
type blockLayout struct {
	format kernels.Format
	quants byteRange
	half   int         // offset of an f16 that becomes the f32 scale word given by float; -1: none
	float  int         // index of that word among the scales: first or last
	scales []byteRange // the other scale words, in order
}

var blockLayouts = map[gguf.Type]blockLayout{
	gguf.F32:   {kernels.F32, byteRange{0, 4}, -1, 0, nil},
	gguf.F16:   {kernels.F16, byteRange{0, 2}, -1, 0, nil},
	gguf.BF16:  {kernels.BF16, byteRange{0, 2}, -1, 0, nil},
	gguf.Q8_0:  {kernels.Q8_0, byteRange{2, 34}, 0, 0, nil},
	gguf.Q4_0:  {kernels.Q4_0, byteRange{2, 18}, 0, 0, nil},
	gguf.Q4_1:  {kernels.Q4_1, byteRange{4, 20}, -1, 0, []byteRange{{0, 4}}},
	gguf.Q5_0:  {kernels.Q5_0, byteRange{2, 22}, 0, 0, nil},
	gguf.Q5_1:  {kernels.Q5_1, byteRange{4, 24}, -1, 0, []byteRange{{0, 4}}},
	gguf.IQ4NL: {kernels.IQ4_NL, byteRange{2, 18}, 0, 0, nil},
	gguf.Q2_K:  {kernels.Q2_K, byteRange{16, 80}, -1, 0, []byteRange{{0, 16}, {80, 84}}},
	gguf.Q3_K:  {kernels.Q3_K, byteRange{0, 96}, 108, 0, []byteRange{{96, 108}}},
	gguf.Q4_K:  {kernels.Q4_K, byteRange{16, 144}, -1, 0, []byteRange{{0, 16}}},
	gguf.Q5_K:  {kernels.Q5_K, byteRange{16, 176}, -1, 0, []byteRange{{0, 16}}},
	gguf.Q6_K:  {kernels.Q6_K, byteRange{0, 192}, 208, 4, []byteRange{{192, 208}}},
}

// formatOf returns the device format of a tensor's storage type.
func formatOf(f *gguf.File, t *gguf.TensorInfo) (kernels.Format, error) {
	s, ok := blockLayouts[t.Type]
	if !ok {
		return 0, fmt.Errorf("llama: %s: tensor %s is %s, which is not supported; use a file in %s", f.Name(),
			gguf.Show(t.Name), t.Type, quant.Names)
	}
	return s.format, nil
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
		block, out := raw[i*size:][:size], multipliers[i*words:][:words]
		at += copy(bytes[at:], block[s.quants.from:s.quants.to])
		if s.half >= 0 {
			out[s.float] = math.Float32bits(float16.Frombits(binary.LittleEndian.Uint16(block[s.half:])).Float32())
			if s.float == 0 {
				out = out[1:]
			}
		}
		for _, p := range s.scales {
			out = out[copy(webgpu.U32Bytes(out), block[p.from:p.to])/4:]
		}
	}
	return quants, scales
}

// extend lengthens a slice by n and returns the new part and the slice.
func extend(s []uint32, n int) (end, all []uint32) {
	all = slices.Grow(s, n)[:len(s)+n]
	return all[len(s):], all
}
