package llama

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"foretoken/models/gguf"
	"foretoken/models/quant"
	"foretoken/spec"
	"foretoken/webgpu"
	"foretoken/webgpu/kernels"
	"foretoken/webgpu/kernels/kerneltest"
	"foretoken/webgpu/kernels/layer"

	"github.com/x448/float16"
)

// halvesOf gives the offsets of the f16 scales and minima in a type's blocks.
var halvesOf = map[gguf.Type][]int{gguf.Q8_0: {0}, gguf.Q4_0: {0}, gguf.Q4_1: {0, 2}, gguf.Q5_0: {0},
	gguf.Q5_1: {0, 2}, gguf.IQ4NL: {0},
	gguf.Q2_K: {80, 82}, gguf.Q3_K: {108}, gguf.Q4_K: {0, 2}, gguf.Q5_K: {0, 2}, gguf.Q6_K: {208}}

// storedTypes are the supported types in the order of their numbers.
func storedTypes() []gguf.Type { return slices.Sorted(maps.Keys(blockLayouts)) }

// finite makes the f16 values of blocks finite: an infinite scale is meaningless.
func finite(t gguf.Type, raw []byte) {
	size := int(t.BlockBytes())
	for b := 0; b < len(raw); b += size {
		for _, h := range halvesOf[t] {
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
	layer.RecordEmbed(r, w, ids, out, rows, 1)
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
		for _, h := range halvesOf[typ] {
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
	gguf.IQ4NL: 127, gguf.Q2_K: 15 * 3, gguf.Q3_K: 32 * 4, gguf.Q4_K: 63 * 15, gguf.Q5_K: 63 * 31, gguf.Q6_K: 128 * 32}

// TestRandomBlocks decodes random blocks of every type on the device and on the host.
func TestRandomBlocks(t *testing.T) {
	onDevices(t, func(t *testing.T, dev webgpu.Device) {
		rng := rand.New(rand.NewPCG(8, 8))
		for _, typ := range storedTypes() {
			const rows = 3
			size, blocks := int(typ.BlockBytes()), max(1, 512/int(typ.BlockSize()))*rows
			raw := make([]byte, blocks*size)
			for i := range raw {
				raw[i] = byte(rng.Uint32())
			}
			if halvesOf[typ] == nil { // floats: a device may flush denormals, which no model contains, to zero
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

// store replaces matrices of a toy by random blocks of other types, with scales of about the size of the weights.
func (t *toy) store(test *testing.T, types func(name string) gguf.Type) {
	test.Helper()
	t.stored = map[string]stored{}
	rng := rand.New(rand.NewPCG(3, 3))
	for _, name := range slices.Sorted(maps.Keys(t.weights)) {
		x := t.weights[name]
		typ := types(name)
		size, err := quant.RowBytes(typ, len(x))
		if err != nil {
			test.Fatal(err)
		}
		raw := make([]byte, size)
		for i := range raw {
			raw[i] = byte(rng.Uint32())
		}
		if halvesOf[typ] == nil {
			for i, v := range x {
				switch typ {
				case gguf.F32:
					binary.LittleEndian.PutUint32(raw[4*i:], math.Float32bits(v))
				case gguf.F16:
					binary.LittleEndian.PutUint16(raw[2*i:], float16.Fromfloat32(v).Bits())
				case gguf.BF16:
					binary.LittleEndian.PutUint16(raw[2*i:], uint16(math.Float32bits(v)>>16))
				}
			}
		}
		for b := 0; b < len(raw); b += int(typ.BlockBytes()) {
			for _, h := range halvesOf[typ] { // between half and all of the scale that bounds weights by 0.15
				d := (0.5 + rng.Float64()/2) * 0.15 / float64(productOf[typ])
				binary.LittleEndian.PutUint16(raw[b+h:], float16.Fromfloat32(float32(d)).Bits())
			}
		}
		if err := quant.Dequantize(typ, raw, x); err != nil {
			test.Fatal(err)
		}
		t.stored[name] = stored{typ, raw}
	}
}

// TestMixedFormats runs models whose tensors have all types, adjacent and at the same place of different blocks,
// and compares the logits with float64.
func TestMixedFormats(t *testing.T) {
	if testing.Short() {
		t.Skip("short: full runs compile the kernels of every format")
	}
	wide := func(t *toy) { t.dim, t.ffn, t.heads, t.kv, t.head, t.vocab = 256, 512, 4, 2, 64, 80 }
	for name, c := range map[string]struct {
		change func(*toy)
		types  map[string]gguf.Type // by the longest suffix of the name; vectors are F32 unless named
	}{
		"as Q4_K_M": {wide, map[string]gguf.Type{"token_embd.weight": gguf.Q6_K, "attn_q.weight": gguf.Q4_K,
			"attn_k.weight": gguf.Q4_K, "0.attn_v.weight": gguf.Q6_K, "1.attn_v.weight": gguf.Q4_K,
			"attn_output.weight": gguf.Q4_K, "ffn_gate.weight": gguf.Q4_K, "ffn_up.weight": gguf.Q4_K,
			"0.ffn_down.weight": gguf.Q4_K, "1.ffn_down.weight": gguf.Q6_K}},
		"superblocks": {wide, map[string]gguf.Type{"token_embd.weight": gguf.Q5_K, "attn_q.weight": gguf.Q2_K,
			"attn_k.weight": gguf.Q3_K, "attn_v.weight": gguf.Q5_K, "attn_output.weight": gguf.Q3_K,
			"ffn_gate.weight": gguf.Q2_K, "ffn_up.weight": gguf.Q5_K, "ffn_down.weight": gguf.Q3_K,
			"ffn_norm.weight": gguf.BF16, "output_norm.weight": gguf.F16}},
		"blocks": {func(t *toy) { t.untied = true }, map[string]gguf.Type{"token_embd.weight": gguf.IQ4NL,
			"output.weight": gguf.Q5_1, "attn_q.weight": gguf.Q4_1, "attn_k.weight": gguf.Q5_0,
			"attn_v.weight": gguf.BF16, "attn_output.weight": gguf.Q5_0, "ffn_gate.weight": gguf.IQ4NL,
			"ffn_up.weight": gguf.IQ4NL, "ffn_down.weight": gguf.Q4_1}},
	} {
		t.Run(name, func(t *testing.T) {
			model := newToy(c.change)
			model.store(t, func(name string) gguf.Type {
				longest, of := "", gguf.F32
				for end, typ := range c.types {
					if strings.HasSuffix(name, end) && len(end) > len(longest) {
						longest, of = end, typ
					}
				}
				return of
			})
			tokens := []int32{1, 5, 9, 2, 8, 3, 3, 7, 40, 11, 41, 42}
			all := model.forward(tokens)
			want := all[len(all)-1]
			onDevices(t, func(t *testing.T, dev webgpu.Device) {
				if !dev.Info().Host() && name != "as Q4_K_M" && !full() {
					t.Skip("full runs compile the kernels of every format; oracles cover each alone")
				}
				f := model.file(t)
				m, err := LoadTarget(background, dev, f, Options{MaxRows: 8, Tuning: untimed(t, f)})
				if err != nil {
					t.Fatal(err)
				}
				defer m.Close()
				most := len(tokens)
				if !full() { // the tests of the kernels cover larger batches
					most = 4
				}
				restartBy(t, m, tokens[:len(tokens)-1], most)
				if _, err := verify(m, node(tokens[len(tokens)-1]), spec.Sampling{}); err != nil {
					t.Fatal(err)
				}
				got, worst := m.logitsOf(t, 0), 0.0
				for id := range want {
					worst = math.Max(worst, math.Abs(want[id]-float64(got[id])))
				}
				if !(worst < 5e-4) {
					t.Errorf("a logit is off by %.3g", worst)
				}
				t.Logf("worst difference of a logit %.2g; logits %s", worst, spread(want))
			})
		})
	}
}

func spread(x []float64) string {
	return fmt.Sprintf("from %.2g to %.2g", slices.Min(x), slices.Max(x))
}

// TestRefusedTypes loads files with tensors of types that no kernel reads. Opening a file refuses rows that are no
// multiple of the block size.
func TestRefusedTypes(t *testing.T) {
	wide := func(t *toy) { t.dim, t.ffn, t.heads, t.kv, t.head = 256, 512, 4, 2, 64 }
	for _, c := range []struct {
		name string
		typ  gguf.Type
		want []string
	}{
		{"blk.1.ffn_up.weight", gguf.IQ4XS, []string{"toy.gguf: tensor blk.1.ffn_up.weight is IQ4_XS",
			"use a file in F32, F16, BF16, Q4_0"}},
		{"token_embd.weight", gguf.I16, []string{"toy.gguf: tensor token_embd.weight is I16", "is not supported"}},
		{"blk.0.attn_norm.weight", gguf.Q8_0, []string{"toy.gguf: tensor blk.0.attn_norm.weight is Q8_0",
			"F32, F16 or BF16"}},
	} {
		model := newToy(wide)
		size, err := quant.RowBytes(c.typ, len(model.weights[c.name]))
		if err != nil {
			t.Fatal(err)
		}
		model.stored = map[string]stored{c.name: {c.typ, make([]byte, size)}}
		dev := kerneltest.Reference(t)
		_, err = LoadTarget(background, dev, model.file(t), Options{})
		dev.Destroy()
		for _, want := range c.want {
			if err == nil || !strings.HasPrefix(err.Error(), "llama: ") || !strings.Contains(err.Error(), want) {
				t.Errorf("%s as %s: error %v, want one about %q", c.name, c.typ, err, want)
			}
		}
	}
}
