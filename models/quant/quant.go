// Package quant turns stored tensor data into float32: the reference against
// which the kernels that read quantised weights are tested, and the host's way
// to the few values it needs. The block layouts are ggml's.
package quant

import (
	"encoding/binary"
	"fmt"
	"math"

	"foretoken/models/gguf"

	"github.com/x448/float16"
)

// Supported reports whether weights of the type can be used: F32, F16, Q8_0
// and Q4_0.
func Supported(t gguf.Type) bool {
	switch t {
	case gguf.F32, gguf.F16, gguf.Q8_0, gguf.Q4_0:
		return true
	}
	return false
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

// Dequantize decodes len(dst) elements from src, which must hold exactly their
// bytes. A block of Q8_0 is a half-precision scale d and 32 signed bytes q,
// giving d·q. A block of Q4_0 is a scale d and 16 bytes, giving d·(q-8): the
// low halves are elements 0 to 15, the high halves 16 to 31.
func Dequantize(t gguf.Type, src []byte, dst []float32) error {
	if !Supported(t) {
		return fmt.Errorf("quant: %s cannot be decoded: want F32, F16, Q8_0 or Q4_0", t)
	}
	want, err := RowBytes(t, len(dst))
	if err != nil {
		return err
	}
	if len(src) != want {
		return fmt.Errorf("quant: %d elements of %s take %d bytes, got %d", len(dst), t, want, len(src))
	}
	switch t {
	case gguf.F32:
		for i := range dst {
			dst[i] = math.Float32frombits(binary.LittleEndian.Uint32(src[i*4:]))
		}
	case gguf.F16:
		for i := range dst {
			dst[i] = half(src[i*2:])
		}
	case gguf.Q8_0:
		for len(dst) > 0 {
			d := half(src)
			for i, q := range src[2:34] {
				dst[i] = d * float32(int8(q))
			}
			src, dst = src[34:], dst[32:]
		}
	case gguf.Q4_0:
		for len(dst) > 0 {
			d := half(src)
			for i, q := range src[2:18] {
				dst[i] = d * float32(int(q&15)-8)
				dst[i+16] = d * float32(int(q>>4)-8)
			}
			src, dst = src[18:], dst[32:]
		}
	}
	return nil
}

func half(b []byte) float32 {
	return float16.Frombits(binary.LittleEndian.Uint16(b)).Float32()
}
