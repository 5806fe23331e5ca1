package graph

import (
	"encoding/binary"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"foretoken/models/gguf"
	"foretoken/models/quant"
	"foretoken/webgpu"
	"foretoken/webgpu/kernels"
	"foretoken/webgpu/kernels/kerneltest"
	layerkernel "foretoken/webgpu/kernels/layer"

	"github.com/x448/float16"
)

// storedTypes are the supported types in the order of their numbers.
func storedTypes() []gguf.Type { return slices.Sorted(maps.Keys(blockLayouts)) }

// finite makes the f16 values of blocks finite: an infinite scale is meaningless.
func finite(t gguf.Type, raw []byte) {
	size := int(t.BlockBytes())
	for b := 0; b < len(raw); b += size {
		if t == gguf.MXFP4 { // as in blocks of usual size; a device may flush smaller products to zero
			raw[b] = 96 + raw[b]%64
		}
		at, count := quant.Scales(t)
		for h := at; h < at+2*count; h += 2 {
			if raw[b+h+1]&0x7c == 0x7c {
				raw[b+h+1] &^= 0x40
			}
		}
	}
}

// decode runs rows of blocks through repack and the kernels of a device.
func decode(t testing.TB, dev webgpu.Device, typ gguf.Type, raw []byte, rows int) []float32 {
	t.Helper()
	format := blockLayouts[typ].format
	cols := len(raw) / int(typ.BlockBytes()) * int(typ.BlockSize()) / rows
	quants, scales := repack(typ, raw, nil, nil)
	if len(quants) != rows*format.WordsPerRow(cols) || len(scales) != rows*format.ScalesPerRow(cols) {
		t.Fatalf("%s: %d rows of %d weights became %d and %d words", typ, rows, cols, len(quants), len(scales))
	}
	view := func(words []uint32) kernels.View {
		b, err := dev.NewBuffer("test", max(4*len(words), 4), webgpu.Storage)
		if err != nil {
			t.Fatal(err)
		}
		if err := dev.Write(b, 0, webgpu.U32Bytes(words)); err != nil && len(words) > 0 {
			t.Fatal(err)
		}
		return kernels.View{Buffer: b, Size: max(4*len(words), 4)}
	}
	tokens := make([]uint32, rows)
	for i := range tokens {
		tokens[i] = uint32(i)
	}
	part := kernels.WeightPart{Rows: rows, Quants: view(quants)}
	if format.Quantised() {
		part.Scales = view(scales)
	}
	w := &kernels.Weight{Format: format, Rows: rows, Cols: cols, Parts: []kernels.WeightPart{part}}
	ids, out := view(tokens), view(make([]uint32, rows*cols))
	r := kernels.NewRecorder("decode", dev.Info())
	layerkernel.RecordEmbed(r, w, ids, out, rows, 1)
	built, err := kernels.Build(dev, r)
	if err != nil {
		t.Fatal(err)
	}
	got := webgpu.NewMemory(out.Size)
	if err := dev.Run(built.Programs, webgpu.Region{Buffer: out.Buffer, Dst: got.Bytes()}); err != nil {
		t.Fatal(err)
	}
	built.Free()
	for _, v := range []kernels.View{part.Quants, part.Scales, ids, out} {
		if v.Buffer != 0 {
			dev.FreeBuffer(v.Buffer)
		}
	}
	return got.F32()
}

// sameWeights compares a kernel's values with the host decoder's. Products and sums may be rounded once or step by
// step.
func sameWeights(t testing.TB, what string, typ gguf.Type, raw []byte, got []float32) {
	t.Helper()
	want := make([]float32, len(got))
	if err := quant.Dequantize(typ, raw, want); err != nil {
		t.Fatal(err)
	}
	size, bytes := int(typ.BlockSize()), int(typ.BlockBytes())
	for i := range want {
		// The rounding error is relative to the largest product of the block, which may be far above the
		// differences of Q4_1, Q5_1 and the K types.
		block, most := raw[i/size*bytes:][:bytes], 0.0
		at, count := quant.Scales(typ)
		for h := at; h < at+2*count; h += 2 {
			most += math.Abs(float64(float16.Frombits(binary.LittleEndian.Uint16(block[h:])).Float32()))
		}
		tolerance := 3e-7 * most * float64(productOf[typ])
		if g, w := float64(got[i]), float64(want[i]); !(math.Abs(g-w) <= tolerance) &&
			math.Float32bits(got[i]) != math.Float32bits(want[i]) && !(g != g && w != w) {
			t.Fatalf("%s: %s: weight %d is %g, the host says %g", what, typ, i, g, w)
		}
	}
}

// productOf returns the largest factor of a type's f16 values.
var productOf = map[gguf.Type]int{gguf.Q8_0: 128, gguf.Q4_0: 8, gguf.Q4_1: 15, gguf.Q5_0: 16, gguf.Q5_1: 31,
	gguf.IQ4NL: 127, gguf.IQ4XS: 32 * 127, gguf.Q2_K: 15 * 3,
	gguf.Q3_K: 32 * 4, gguf.Q4_K: 63 * 15, gguf.Q5_K: 63 * 31, gguf.Q6_K: 128 * 32}

// TestRandomBlocks decodes random blocks of every type on the device and on the host.
func TestRandomBlocks(t *testing.T) {
	kerneltest.ModelOnDevices(t, func(t *testing.T, dev webgpu.Device) {
		rng := rand.New(rand.NewPCG(8, 8))
		for _, typ := range storedTypes() {
			const rows = 3
			size, blocks := int(typ.BlockBytes()), max(1, 512/int(typ.BlockSize()))*rows
			raw := make([]byte, blocks*size)
			for i := range raw {
				raw[i] = byte(rng.Uint32())
			}
			if typ.BlockSize() == 1 { // floats: a device may flush denormals, which no model contains, to zero
				for i := size - 1; i < len(raw); i += size {
					raw[i] = raw[i]&0x83 | 0x38
				}
			}
			finite(typ, raw)
			sameWeights(t, dev.Info().Backend, typ, raw, decode(t, dev, typ, raw, rows))
		}
	})
}

// FuzzBlocks decodes a block of arbitrary bytes on the cpu device and on the host.
func FuzzBlocks(f *testing.F) {
	for _, typ := range storedTypes() {
		f.Add(uint32(typ), []byte(strings.Repeat("\x01\x38\x9a\xf7\x3c", 60)))
	}
	types := storedTypes()
	dev := kerneltest.CPU(f)
	f.Fuzz(func(t *testing.T, n uint32, data []byte) {
		typ := types[int(n)%len(types)]
		raw := make([]byte, int(typ.BlockBytes())*max(1, 4/int(typ.BlockSize())))
		copy(raw, data)
		finite(typ, raw)
		sameWeights(t, "cpu", typ, raw, decode(t, dev, typ, raw, 1))
	})
}
