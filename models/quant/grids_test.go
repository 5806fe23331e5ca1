package quant

import (
	"slices"
	"testing"

	"foretoken/models/gguf"
)

// TestGrids checks each grid's number of vectors, their order and their bounds: a decoder indexes a grid with the bits
// of a file.
func TestGrids(t *testing.T) {
	for typ, want := range map[gguf.Type]struct{ bits, digits int }{gguf.IQ1S: {11, 8}, gguf.IQ1M: {11, 8},
		gguf.IQ2XXS: {8, 8}, gguf.IQ2XS: {9, 8}, gguf.IQ2S: {10, 8}, gguf.IQ3XXS: {8, 4}, gguf.IQ3S: {9, 4}} {
		all := Grid(typ)
		if len(all) != want.digits<<want.bits {
			t.Fatalf("%s: %d components, want %d", typ, len(all), want.digits<<want.bits)
		}
		last := make([]int8, want.digits)
		for i := 0; i < len(all); i += want.digits {
			reversed := slices.Clone(all[i:][:want.digits])
			slices.Reverse(reversed)
			if i > 0 && slices.Compare(last, reversed) >= 0 {
				t.Fatalf("%s: vector %d is not above the one before it", typ, i/want.digits)
			}
			last = reversed
		}
	}
	if Grid(gguf.IQ4XS) != nil {
		t.Error("IQ4_XS has a grid")
	}
}
