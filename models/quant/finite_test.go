package quant

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"foretoken/models/gguf"
)

// TestCheckFinite puts every kind of number that is not finite in every place of a few blocks of every type, and
// the largest finite one.
func TestCheckFinite(t *testing.T) {
	t.Attr("attack", "NaN or infinity in any place of a block of weights")
	t.Attr("bound", "refused; what is taken decodes to finite numbers")
	tried := 0
	for typ := range decoders {
		size, elements := int(typ.BlockBytes()), int(typ.BlockSize())
		blocks := 3
		if elements == 1 {
			blocks = 45
		}
		places := []int{0}
		if s, ok := blockScales[typ]; ok {
			if places[0] = s.at; s.count == 2 {
				places = append(places, s.at+2)
			}
		} else if finiteBlocks[typ] != nil {
			continue // see TestCheckFiniteOfOtherScales
		} else if floatLanes[typ].signs == 0 {
			t.Fatalf("%s is not checked", typ)
		}
		for i := range blocks {
			for _, place := range places {
				for bits, finite := range map[uint32]bool{0x7f800000: false, 0xff800000: false, 0x7fc00000: false,
					0xff800001: false, 0x7f7fffff: true, 0xff7fffff: true, 0: true} {
					src, at := make([]byte, blocks*size), i*size+place
					switch {
					case typ == gguf.F32:
						binary.LittleEndian.PutUint32(src[at:], bits)
					case typ == gguf.BF16:
						binary.LittleEndian.PutUint16(src[at:], uint16(bits>>16|bits&1))
					default: // the same kinds in half precision
						half := uint16(bits>>16&0x8000 | bits>>13&0x7fff&0x7c00 | bits&1)
						if finite && bits != 0 {
							half = uint16(bits>>16&0x8000 | 0x7bff)
						} else if bits == 0x7fc00000 {
							half = 0x7e00
						}
						binary.LittleEndian.PutUint16(src[at:], half)
					}
					tried++
					err := CheckFinite(typ, src, 1000)
					if (err == nil) != finite {
						t.Fatalf("%s: %#x in block %d: %v", typ, bits, i, err)
					}
					if err != nil && !strings.Contains(err.Error(), fmt.Sprint(1000+i*elements)) {
						t.Fatalf("%s: block %d: %v", typ, i, err)
					}
					checkDecoded(t, typ, src, finite)
				}
			}
		}
	}
	t.Attr("measured", fmt.Sprintf("%d pieces of %d types", tried, len(decoders)))
}

// TestCheckFiniteOfOtherScales tries every scale of the types whose scale is not a half in one piece: a block is
// refused where it decodes to a number that is not finite. The second of two blocks has the scale, and the widest
// numbers.
func TestCheckFiniteOfOtherScales(t *testing.T) {
	for typ, scales := range map[gguf.Type]int{gguf.IQ1M: 1 << 16, gguf.MXFP4: 1 << 8, gguf.NVFP4: 1 << 8} {
		size, elements := int(typ.BlockBytes()), int(typ.BlockSize())
		out, refused := make([]float32, elements), 0
		for s := range scales {
			src := make([]byte, 2*size)
			block := src[size:]
			switch typ {
			case gguf.IQ1M:
				block[49], block[51], block[53], block[55] = byte(s)<<4, byte(s)&0xf0, byte(s>>4)&0xf0, byte(s>>8)&0xf0
			case gguf.MXFP4:
				block[0], block[1] = byte(s), 7
			case gguf.NVFP4:
				block[3], block[35] = byte(s), 7
			}
			if err := Dequantize(typ, block, out); err != nil {
				t.Fatal(err)
			}
			finite := !slices.ContainsFunc(out, func(v float32) bool { return v-v != 0 })
			err := CheckFinite(typ, src, 1000)
			if (err == nil) != finite || err != nil && !strings.Contains(err.Error(), fmt.Sprint(1000+elements)) {
				t.Fatalf("%s: scale %#x, finite %v: %v", typ, s, finite, err)
			}
			if err != nil {
				refused++
			}
		}
		if want := map[gguf.Type]int{gguf.IQ1M: 2048, gguf.MXFP4: 3}[typ]; refused != want {
			t.Errorf("%s: %d scales refused, want %d", typ, refused, want)
		}
	}
}

// checkDecoded compares with what the decoder makes of the block: only blocks that are refused decode to numbers
// that are not finite.
func checkDecoded(t *testing.T, typ gguf.Type, src []byte, finite bool) {
	t.Helper()
	out := make([]float32, len(src)/int(typ.BlockBytes())*int(typ.BlockSize()))
	if err := Dequantize(typ, src, out); err != nil {
		t.Fatal(err)
	}
	for i, v := range out {
		if math.IsNaN(float64(v-v)) && finite {
			t.Fatalf("%s: element %d decodes to %g and is taken", typ, i, v)
		}
	}
}

// BenchmarkCheckFinite measures the check of a loader's chunk.
func BenchmarkCheckFinite(b *testing.B) {
	for _, typ := range []gguf.Type{gguf.F32, gguf.F16, gguf.BF16, gguf.Q8_0, gguf.Q4_0, gguf.Q4_K, gguf.Q6_K} {
		b.Run(typ.String(), func(b *testing.B) {
			size := int(typ.BlockBytes())
			src := make([]byte, 4<<20/size*size)
			b.SetBytes(int64(len(src)))
			for b.Loop() {
				if CheckFinite(typ, src, 0) != nil {
					b.Fatal("zeros")
				}
			}
		})
	}
}
