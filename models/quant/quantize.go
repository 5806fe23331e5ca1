package quant

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"foretoken/models/gguf"

	"github.com/x448/float16"
)

// encodable are the types that Quantize writes.
var encodable = []gguf.Type{gguf.F32, gguf.F16, gguf.BF16, gguf.Q8_0, gguf.Q4_0, gguf.Q4_K}

// Quantize encodes all of src into dst, which must have exactly their encoded size, with the bits of ggml's
// reference quantisers (quantize_row_q8_0_ref and its siblings in ggml-quants.c); Q4_K is fitted as there, but its bits
// may differ where sums round. An element that is not finite or
// too large for the type is an error that names it: a block with such a weight decodes to nonsense.
func Quantize(t gguf.Type, src []float32, dst []byte) error {
	if !slices.Contains(encodable, t) {
		return fmt.Errorf("quant: %s cannot be encoded: want F32, F16, BF16, Q8_0, Q4_0 or Q4_K", t)
	}
	want, err := RowBytes(t, len(src))
	if err != nil {
		return err
	}
	if len(dst) != want {
		return fmt.Errorf("quant: %d elements of %s take %d bytes, got room for %d", len(src), t, want, len(dst))
	}
	switch t {
	case gguf.F32:
		for i, x := range src {
			binary.LittleEndian.PutUint32(dst[4*i:], math.Float32bits(x))
		}
	case gguf.F16:
		for i, x := range src {
			h := float16.Fromfloat32(x)
			if h.IsInf(0) && !math.IsInf(float64(x), 0) {
				return tooLarge(t, i, x)
			}
			binary.LittleEndian.PutUint16(dst[2*i:], h.Bits())
		}
	case gguf.BF16:
		for i, x := range src {
			h := bfloat16(x)
			if h&0x7fff == 0x7f80 && !math.IsInf(float64(x), 0) {
				return tooLarge(t, i, x)
			}
			binary.LittleEndian.PutUint16(dst[2*i:], h)
		}
	case gguf.Q8_0:
		return blocks32(t, src, dst, 34, encodeQ8_0)
	case gguf.Q4_0:
		return blocks32(t, src, dst, 18, encodeQ4_0)
	case gguf.Q4_K:
		return encodeQ4_K(src, dst)
	}
	return nil
}

func tooLarge(t gguf.Type, i int, x float32) error {
	return fmt.Errorf("quant: element %d is %g, which %s cannot hold", i, x, t)
}

// blocks32 encodes blocks of 32 elements, each with a half-precision scale first.
func blocks32(t gguf.Type, src []float32, dst []byte, size int,
	encode func(x *[32]float32, dst []byte) (scale float32)) error {
	for i := 0; i < len(src); i += 32 {
		x, block := (*[32]float32)(src[i:]), dst[i/32*size:][:size]
		for j, v := range x {
			if v-v != 0 { // infinite or not a number
				return tooLarge(t, i+j, v)
			}
		}
		scale := float16.Fromfloat32(encode(x, block[2:]))
		if scale.IsInf(0) {
			return fmt.Errorf(
				"quant: elements %d to %d are too large for %s: their scale is beyond half precision", i, i+31, t)
		}
		binary.LittleEndian.PutUint16(block, scale.Bits())
	}
	return nil
}

// encodeQ8_0 rounds to the nearest of 255 steps, halves away from zero.
func encodeQ8_0(x *[32]float32, dst []byte) float32 {
	var most float32
	for _, v := range x {
		most = max(most, abs(v))
	}
	d := most / 127
	inverse := reciprocal(d)
	for i, v := range x {
		dst[i] = byte(int8(math.Round(float64(v * inverse))))
	}
	return d
}

// encodeQ4_0 makes the element of the largest magnitude, the first of equals, the
// end of the 16 steps that has one more of them.
func encodeQ4_0(x *[32]float32, dst []byte) float32 {
	var most, end float32
	for _, v := range x {
		if most < abs(v) {
			most, end = abs(v), v
		}
	}
	d := end / -8
	inverse := reciprocal(d)
	for i := range dst {
		dst[i] = step(x[i], inverse) | step(x[i+16], inverse)<<4
	}
	return d
}

func step(x, inverse float32) byte {
	// The conversion keeps the product and the sum apart: fused, they would round once.
	return byte(min(15, int(float32(x*inverse)+8.5)))
}

// reciprocal is 0 where a block has no scale: of zeros, or of numbers so small that the
// inverse is infinite, whose scale is zero in half precision.
func reciprocal(d float32) float32 {
	if d == 0 {
		return 0
	}
	if inverse := 1 / d; !math.IsInf(float64(inverse), 0) {
		return inverse
	}
	return 0
}

func abs(x float32) float32 { return math.Float32frombits(math.Float32bits(x) &^ (1 << 31)) }

// bfloat16 rounds to the nearest, halves to even; what is not a number stays so.
func bfloat16(x float32) uint16 {
	u := math.Float32bits(x)
	if u&0x7fffffff > 0x7f800000 {
		return uint16(u>>16) | 64
	}
	return uint16((u + 0x7fff + u>>16&1) >> 16)
}
