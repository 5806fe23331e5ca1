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

// span is bytes [from, to) of a block.
type span struct{ from, to int }

// storage is where a file's block of weights goes on the device: to aligned arrays
// of what is unpacked and of what multiplies it, bits unchanged (see unpack_*.wgsl).
type storage struct {
	format kernels.Format
	quants span
	half   int    // of a half that becomes the float of the scales given by float; -1: none
	float  int    // its place among the words of the scales: first or last
	scales []span // the other words, in order
}

var storages = map[gguf.Type]storage{
	gguf.F32:   {kernels.F32, span{0, 4}, -1, 0, nil},
	gguf.F16:   {kernels.F16, span{0, 2}, -1, 0, nil},
	gguf.BF16:  {kernels.BF16, span{0, 2}, -1, 0, nil},
	gguf.Q8_0:  {kernels.Q8_0, span{2, 34}, 0, 0, nil},
	gguf.Q4_0:  {kernels.Q4_0, span{2, 18}, 0, 0, nil},
	gguf.Q4_1:  {kernels.Q4_1, span{4, 20}, -1, 0, []span{{0, 4}}},
	gguf.Q5_0:  {kernels.Q5_0, span{2, 22}, 0, 0, nil},
	gguf.Q5_1:  {kernels.Q5_1, span{4, 24}, -1, 0, []span{{0, 4}}},
	gguf.IQ4NL: {kernels.IQ4_NL, span{2, 18}, 0, 0, nil},
	gguf.Q2_K:  {kernels.Q2_K, span{16, 80}, -1, 0, []span{{0, 16}, {80, 84}}},
	gguf.Q3_K:  {kernels.Q3_K, span{0, 96}, 108, 0, []span{{96, 108}}},
	gguf.Q4_K:  {kernels.Q4_K, span{16, 144}, -1, 0, []span{{0, 16}}},
	gguf.Q5_K:  {kernels.Q5_K, span{16, 176}, -1, 0, []span{{0, 16}}},
	gguf.Q6_K:  {kernels.Q6_K, span{0, 192}, 208, 4, []span{{192, 208}}},
}

// formatOf is the device format of a file's storage type.
func formatOf(f *gguf.File, t *gguf.TensorInfo) (kernels.Format, error) {
	s, ok := storages[t.Type]
	if !ok {
		return 0, fmt.Errorf("llama: %s: tensor %s is %s, which cannot be run: take a file in %s", f.Name(), t.Name, t.Type, quant.Names)
	}
	return s.format, nil
}

// repack parts raw, whole blocks of the type, into the arrays of the kernels, which it
// appends to quants and scales. Words are little-endian in files and on every host that runs this.
func repack(t gguf.Type, raw []byte, quants, scales []uint32) ([]uint32, []uint32) {
	s := storages[t]
	if !s.format.Quantised() {
		to, quants := room(quants, len(raw)/4)
		copy(webgpu.U32Bytes(to), raw)
		return quants, scales
	}
	size, weights := int(t.BlockBytes()), int(t.BlockSize())
	blocks, words := len(raw)/size, s.format.ScalesPerRow(weights)
	to, quants := room(quants, blocks*s.format.WordsPerRow(weights))
	multipliers, scales := room(scales, blocks*words)
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

// room makes a slice longer by n and returns the new end of it too.
func room(s []uint32, n int) (end, all []uint32) {
	all = slices.Grow(s, n)[:len(s)+n]
	return all[len(s):], all
}
