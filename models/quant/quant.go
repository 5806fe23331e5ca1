// Package quant turns stored tensor data into float32: the reference against which the kernels that read quantised
// weights are tested, and the host's way to the few values it needs. The block layouts are ggml's.
package quant

import (
	"encoding/binary"
	"fmt"
	"math"

	"foretoken/models/gguf"

	"github.com/x448/float16"
)

// Decodes reports whether Dequantize reads the type. Fewer types have kernels, see package graph.
func Decodes(t gguf.Type) bool { return decoders[t] != nil }

// decoders write the elements of one block. A type fixes their number and bytes; decoders of plain numbers write any
// number of them.
var decoders = map[gguf.Type]func(block []byte, dst []float32){
	gguf.F32: decodeF32, gguf.F16: decodeF16, gguf.BF16: decodeBF16,
	gguf.Q4_0: decodeQ4_0, gguf.Q4_1: decodeQ4_1, gguf.Q5_0: decodeQ5_0, gguf.Q5_1: decodeQ5_1,
	gguf.Q8_0: decodeQ8_0, gguf.Q8_1: decodeQ8_1,
	gguf.Q2_K: decodeQ2_K, gguf.Q3_K: decodeQ3_K, gguf.Q4_K: decodeQ4_K, gguf.Q5_K: decodeQ5_K, gguf.Q6_K: decodeQ6_K,
	gguf.IQ1S: decodeIQ1S, gguf.IQ1M: decodeIQ1M,
	gguf.IQ2XXS: decodeIQ2XXS, gguf.IQ2XS: decodeIQ2XS, gguf.IQ2S: decodeIQ2S,
	gguf.IQ3XXS: decodeIQ3XXS, gguf.IQ3S: decodeIQ3S, gguf.IQ4NL: decodeIQ4NL, gguf.IQ4XS: decodeIQ4XS,
	gguf.TQ1_0: decodeTQ1_0, gguf.TQ2_0: decodeTQ2_0, gguf.MXFP4: decodeMXFP4, gguf.NVFP4: decodeNVFP4,
	gguf.Q1_0: decodeQ1_0, gguf.Q2_0: decodeQ2_0, gguf.PQ2_0: decodeQ2_0, gguf.PTQ1_0: decodePTQ1_0,
}

// RowBytes is the number of bytes that n consecutive elements of the type take.
// It is an error if n is negative or not a whole number of blocks.
func RowBytes(t gguf.Type, n int) (int, error) {
	if n < 0 {
		return 0, fmt.Errorf("quant: a row of %d elements", n)
	}
	b, err := t.RowBytes(uint64(n))
	if err != nil {
		return 0, fmt.Errorf("quant: %w", err)
	}
	if b > math.MaxInt {
		return 0, fmt.Errorf("quant: a row of %d elements is too large", n)
	}
	return int(b), nil
}

// Dequantize decodes len(dst) elements from src, which must hold exactly their bytes. Each decoder documents its
// format. Sums and products round to float32 one by one in ggml's order, so the values equal ggml's bit for bit.
func Dequantize(t gguf.Type, src []byte, dst []float32) error {
	decode := decoders[t]
	if decode == nil {
		return fmt.Errorf("quant: %s cannot be decoded", t)
	}
	want, err := RowBytes(t, len(dst))
	if err != nil {
		return err
	}
	if len(src) != want {
		return fmt.Errorf("quant: %d elements of %s take %d bytes, got %d", len(dst), t, want, len(src))
	}
	elements, bytes := int(t.BlockSize()), int(t.BlockBytes())
	if elements == 1 { // nothing is shared: all in one call
		elements, bytes = len(dst), len(src)
	}
	for len(dst) > 0 {
		decode(src[:bytes], dst[:elements])
		src, dst = src[bytes:], dst[elements:]
	}
	return nil
}

func half(b []byte) float32 {
	return float16.Frombits(binary.LittleEndian.Uint16(b)).Float32()
}

func decodeF32(b []byte, dst []float32) {
	for i := range dst {
		dst[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
	}
}

func decodeF16(b []byte, dst []float32) {
	for i := range dst {
		dst[i] = half(b[2*i:])
	}
}

// A BF16 is the upper half of a float32.
func decodeBF16(b []byte, dst []float32) {
	for i := range dst {
		dst[i] = math.Float32frombits(uint32(binary.LittleEndian.Uint16(b[2*i:])) << 16)
	}
}
