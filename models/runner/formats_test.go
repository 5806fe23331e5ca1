package runner

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
	"foretoken/models/graph"
	"foretoken/models/quant"
	"foretoken/spec"
	"foretoken/webgpu"
	"foretoken/webgpu/kernels/kerneltest"

	"github.com/x448/float16"
)

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
		if typ.BlockSize() == 1 {
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
		at, count := quant.Scales(typ)
		scale := func(d func() float64) {
			for b := 0; b < len(raw); b += int(typ.BlockBytes()) {
				for h := range count {
					binary.LittleEndian.PutUint16(raw[b+at+2*h:], float16.Fromfloat32(float32(d())).Bits())
				}
			}
			if err := quant.Dequantize(typ, raw, x); err != nil {
				test.Fatal(err)
			}
		}
		if scale(func() float64 { return 1 }); count > 0 {
			most, squares := max(slices.Max(x), -slices.Min(x)), 0.0 // of a block with scales of 1
			for _, v := range x {
				squares += float64(v) * float64(v)
			}
			// Weights that are all as large as the largest count as more.
			most = max(most, float32(1.7*math.Sqrt(squares/float64(len(x)))))
			scale(func() float64 { return (0.5 + rng.Float64()/2) * 0.15 / float64(most) })
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
		"a bit or a digit": {wide, map[string]gguf.Type{"token_embd.weight": gguf.Q1_0, "attn_q.weight": gguf.Q1_0,
			"attn_k.weight": gguf.Q1_0, "attn_v.weight": gguf.Q2_0, "attn_output.weight": gguf.PQ2_0,
			"0.ffn_gate.weight": gguf.TQ1_0, "0.ffn_up.weight": gguf.TQ1_0, "1.ffn_gate.weight": gguf.Q1_0,
			"1.ffn_up.weight": gguf.IQ4XS, "0.ffn_down.weight": gguf.TQ2_0, "1.ffn_down.weight": gguf.Q2_0}},
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
				m, err := LoadTarget(background, dev, f, graph.Options{MaxRows: 8, Tuning: untimed(t, f)})
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
		{"blk.1.ffn_up.weight", gguf.IQ1S, []string{"toy.gguf: tensor blk.1.ffn_up.weight is IQ1_S",
			"(--quantise q4_0)"}},
		{"token_embd.weight", gguf.I16, []string{"toy.gguf: tensor token_embd.weight is I16", "take a file in Q4_K_M"}},
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
		_, err = LoadTarget(background, dev, model.file(t), graph.Options{})
		dev.Destroy()
		for _, want := range c.want {
			if err == nil || !strings.HasPrefix(err.Error(), "graph: ") || !strings.Contains(err.Error(), want) {
				t.Errorf("%s as %s: error %v, want one about %q", c.name, c.typ, err, want)
			}
		}
	}
}
