package quant

import (
	"encoding/binary"
	"fmt"

	"foretoken/models/gguf"
)

// lanes are the bits of the numbers in eight bytes. Infinity and NaN have exponents of ones alone: adding one carries
// into the sign bit, as it does for no other number.
type lanes struct{ exponents, ones, signs uint64 }

var halves = lanes{0x7c00_7c00_7c00_7c00, 0x0400_0400_0400_0400, 0x8000_8000_8000_8000}

var floatLanes = map[gguf.Type]lanes{
	gguf.F32:  {0x7f80_0000_7f80_0000, 0x0080_0000_0080_0000, 0x8000_0000_8000_0000},
	gguf.F16:  halves,
	gguf.BF16: {0x7f80_7f80_7f80_7f80, 0x0080_0080_0080_0080, 0x8000_8000_8000_8000},
}

// blockScales say where a block of a quantised type has its half-precision scales.
var blockScales = map[gguf.Type]struct{ at, count int }{
	gguf.Q8_0: {0, 1}, gguf.Q8_1: {0, 2}, gguf.Q4_0: {0, 1}, gguf.Q4_1: {0, 2}, gguf.Q5_0: {0, 1}, gguf.Q5_1: {0, 2},
	gguf.Q2_K: {80, 2}, gguf.Q3_K: {108, 1}, gguf.Q4_K: {0, 2}, gguf.Q5_K: {0, 2}, gguf.Q6_K: {208, 1},
	gguf.IQ1S: {0, 1}, gguf.IQ2XXS: {0, 1}, gguf.IQ2XS: {0, 1}, gguf.IQ2S: {0, 1},
	gguf.IQ3XXS: {0, 1}, gguf.IQ3S: {0, 1}, gguf.IQ4NL: {0, 1}, gguf.IQ4XS: {0, 1},
	gguf.TQ1_0: {52, 1}, gguf.TQ2_0: {64, 1},
	gguf.Q1_0: {0, 1}, gguf.Q2_0: {0, 1}, gguf.PQ2_0: {0, 1}, gguf.PTQ1_0: {26, 1},
}

// finiteBlocks report whether a block's scale is finite, for the types whose scale is not a half in one piece. All
// scales of NVFP4 are finite.
var finiteBlocks = map[gguf.Type]func(block []byte) bool{
	gguf.IQ1M:  func(b []byte) bool { return halves.finite(scaleIQ1M(b)) },
	gguf.MXFP4: func(b []byte) bool { return b[0] <= maxMXFP4 },
	gguf.NVFP4: func([]byte) bool { return true },
}

// Scales returns the offset of the first half-precision scale of a block and the number of scales, 0 for floats and for
// types whose scale is not a half in one piece.
func Scales(t gguf.Type) (at, count int) { return blockScales[t].at, blockScales[t].count }

// CheckFinite returns an error if the stored elements of src, complete blocks of a supported type, have an infinite
// number or a NaN: as an element, or as the scale of a block. The error gives the element's index, the first of src
// having the index first. It reads far faster than a disk: loading checks all weights of a model with it.
func CheckFinite(t gguf.Type, src []byte, first int) error {
	if l, ok := floatLanes[t]; ok {
		if l.finite(src) {
			return nil
		}
		size := int(t.BlockBytes())
		for i := 0; ; i++ {
			if !l.finite(src[i*size:][:size]) {
				return fmt.Errorf("element %d is not a finite number", first+i)
			}
		}
	}
	s, size, elements := blockScales[t], int(t.BlockBytes()), int(t.BlockSize())
	special := finiteBlocks[t]
	for i := 0; (i+1)*size <= len(src); i++ {
		finite, block := false, src[i*size:][:size]
		switch {
		case special != nil:
			finite = special(block)
		case s.count == 2:
			finite = halves.carries(uint64(binary.LittleEndian.Uint32(block[s.at:])))&halves.signs == 0
		default:
			finite = halves.carries(uint64(binary.LittleEndian.Uint16(block[s.at:])))&halves.signs == 0
		}
		if !finite {
			return fmt.Errorf("the scale of elements %d to %d is not a finite number", first+i*elements,
				first+(i+1)*elements-1)
		}
	}
	return nil
}

// finite reports whether all numbers in src are finite.
func (l lanes) finite(src []byte) bool {
	seen := uint64(0)
	for len(src) >= 32 {
		b := src[:32]
		seen |= l.carries(eight(b)) | l.carries(eight(b[8:])) | l.carries(eight(b[16:])) | l.carries(eight(b[24:]))
		src = src[32:]
	}
	for len(src) > 0 {
		var b [8]byte
		src = src[copy(b[:], src):]
		seen |= l.carries(eight(b[:]))
	}
	return seen&l.signs == 0
}

// carries has the sign bit of each number that is not finite.
func (l lanes) carries(numbers uint64) uint64 { return numbers&l.exponents + l.ones }

func eight(b []byte) uint64 { return binary.LittleEndian.Uint64(b) }
