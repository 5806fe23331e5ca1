package quant

import (
	"encoding/binary"
	"fmt"
	"math"
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
