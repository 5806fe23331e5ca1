package graph

import (
	"context"
	"math"
	"slices"
	"testing"

	"foretoken/internal/files"
	"foretoken/models/arch"
	"foretoken/models/gguf"
	"foretoken/models/kv"
	"foretoken/models/modeltest"
	"foretoken/webgpu"
	"foretoken/webgpu/kernels"
	"foretoken/webgpu/kernels/kerneltest"
)

// model is a description with random weights, on a device.
type model struct {
	*Graph
	weights modeltest.Weights
	seq     *kv.Sequence
	pass    kv.Pass
	program webgpu.Program // a pass of rows rows
}

// rows is the number of rows of a pass; the last rows of a text are padding.
const rows = 5

// plain describes a model of the Llama architecture.
func plain(layers int) *arch.Model {
	m := &arch.Model{Name: "parts", Architecture: "parts", Dim: 64, Vocab: 96, Context: 64, Eps: 1e-5, Embed: 1,
		Residual: 1, Logit: 1, Tied: true}
	for range layers {
		m.Layers = append(m.Layers, arch.Layer{FFN: &arch.Gated{Width: 96}, Norms: arch.Norms{Before: true},
			Mix: &arch.Attention{Query: 4, KV: 2, Dim: 16, Rotary: 16, Rope: arch.NewRope(500, 16)}})
	}
	return m
}

// place puts a model on a device. lender, if not nil, is the sequence whose cache it reads.
func place(t *testing.T, dev webgpu.Device, a *arch.Model, taps []int, lender *kv.Sequence) *model {
	t.Helper()
	m := &model{weights: modeltest.RandomWeights(a, 7)}
	raw, err := m.weights.File(a)
	if err != nil {
		t.Fatal(err)
	}
	f, err := gguf.Open(files.FromBytes("parts.gguf", raw))
	if err != nil {
		t.Fatal(err)
	}
	if m.Graph, err = newGraph(dev, a, f.Name(), Options{}); err != nil {
		t.Fatal(err)
	}
	if m.seq, err = m.finish(context.Background(), f); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
	if taps != nil {
		if _, err := m.Tap(m.seq, taps); err != nil {
			t.Fatal(err)
		}
	}
	inputs, err := m.Buffer("inputs", 4*kv.PassWords(rows, rows))
	if err != nil {
		t.Fatal(err)
	}
	m.pass = kv.NewPass(m.seq, inputs.Buffer, 0, rows, rows)
	if lender != nil {
		lent, err := m.Buffer("borrowed rows", 4*rows*kernels.RowWords)
		if err != nil {
			t.Fatal(err)
		}
		m.pass.Borrow(lender, lent)
	}
	b := &Batch{}
	r := m.Recorder("pass")
	m.Forward(r, &m.pass, rows)
	m.Head(r, 0, rows, 0)
	b.Add(r, &m.program)
	if err := m.Build(b); err != nil {
		t.Fatal(err)
	}
	return m
}

// run runs the pass and returns the logits of its first n rows.
func (m *model) run(t *testing.T, n int) (logits [][]float32) {
	t.Helper()
	m.pass.Pad(n, rows)
	if err := m.pass.Write(rows); err != nil {
		t.Fatal(err)
	}
	back := webgpu.NewMemory(4 * rows * m.Space.Stride)
	if err := m.Run([]webgpu.Program{m.program}, webgpu.Region{Buffer: m.Space.Logits.Buffer,
		Dst: back.Bytes()}); err != nil {
		t.Fatal(err)
	}
	m.seq.MarkWritten()
	for i := range n {
		logits = append(logits, slices.Clone(back.F32()[i*m.Space.Stride:][:m.Arch.Vocab]))
	}
	return logits
}

// read appends a text to the sequence and returns the logits after each token.
func (m *model) read(t *testing.T, tokens []int32) (logits [][]float32) {
	t.Helper()
	for piece := range slices.Chunk(tokens, rows) {
		if err := m.pass.Append(piece); err != nil {
			t.Fatal(err)
		}
		logits = append(logits, m.run(t, len(piece))...)
	}
	return logits
}

// difference returns the largest distance between rows.
func difference[T float32 | float64](got [][]T, want [][]float64) float64 {
	worst := 0.0
	for i := range want {
		for j, v := range want[i] {
			if d := math.Abs(v - float64(got[i][j])); !(d <= worst) {
				worst = d
			}
		}
	}
	return worst
}

var text = []int32{1, 5, 9, 2, 8, 3, 3, 7, 90, 11, 40, 41, 42, 43, 44, 45, 46}

// TestParts compares every part of a description with float64: a text, and a tree after it. Without the part the
// reference differs.
func TestParts(t *testing.T) {
	kerneltest.ModelOnDevices(t, func(t *testing.T, dev webgpu.Device) {
		for name, c := range map[string]struct {
			part    func(*arch.Model)
			without func(*arch.Model)
		}{
			"layers of different shapes": {func(m *arch.Model) {
				m.Layers[1] = arch.Layer{FFN: &arch.Gated{Width: 160}, Norms: arch.Norms{Before: true},
					Mix: &arch.Attention{Query: 6, KV: 3, Dim: 24, Rotary: 8, HalfSplit: true,
						Rope: arch.NewRope(90, 8)}}
			}, func(m *arch.Model) { m.Layers[1].Mix.Rope = m.Layers[0].Mix.Rope }},
			"window of one layer": {func(m *arch.Model) { m.Layers[1].Mix.Window = 6 },
				func(m *arch.Model) { m.Layers[1].Mix.Window = 0 }},
			"no rotation": {func(m *arch.Model) { m.Layers[0].Mix.Rotary, m.Layers[0].Mix.Rope = 0, nil },
				func(m *arch.Model) { m.Layers[0].Mix.Rope = m.Layers[1].Mix.Rope }},
			"no rotation and biases": {func(m *arch.Model) {
				m.Layers[0].Mix.Rotary, m.Layers[0].Mix.Rope, m.Layers[0].Mix.Bias = 0, nil, true
			}, func(m *arch.Model) { m.Layers[0].Mix.Rope = m.Layers[1].Mix.Rope }},
			"norms of heads": {each(func(y *arch.Layer) { y.Mix.QKNorm = arch.Head }),
				each(func(y *arch.Layer) { y.Mix.QKNorm = arch.None })},
			"norms of rows": {each(func(y *arch.Layer) { y.Mix.QKNorm = arch.Row }),
				each(func(y *arch.Layer) { y.Mix.QKNorm = arch.None })},
			"norms of rotated heads": {each(func(y *arch.Layer) { y.Mix.QKNorm, y.Mix.NormLate = arch.Head, true }),
				each(func(y *arch.Layer) { y.Mix.NormLate = false })},
			"norms within": {each(func(y *arch.Layer) { y.Norms.Inner = true }),
				each(func(y *arch.Layer) { y.Norms.Inner = false })},
			"norms after": {each(func(y *arch.Layer) { y.Norms = arch.Norms{After: true} }),
				each(func(y *arch.Layer) { y.Norms = arch.Norms{Before: true} })},
			"norms around": {each(func(y *arch.Layer) { y.Norms = arch.Norms{Before: true, After: true} }),
				each(func(y *arch.Layer) { y.Norms = arch.Norms{Before: true} })},
			"fused tensors": {each(func(y *arch.Layer) { y.Mix.Fused, y.FFN.Fused = true, true }), nil},
			"factors of matrices": {func(m *arch.Model) {
				m.Scales = map[string]float64{"blk.0.attn_k.weight": 2, "blk.1.ffn_up.weight": 0.25,
					"blk.1.ffn_down.weight": 3}
			}, func(m *arch.Model) { m.Scales = nil }},
			"multiplier of the embedding": {func(m *arch.Model) { m.Embed = 3 }, func(m *arch.Model) { m.Embed = 1 }},
			"multiplier of the residual": {func(m *arch.Model) { m.Embed, m.Residual = 12, 0.25 },
				func(m *arch.Model) { m.Residual = 1 }},
			"multiplier of the residual, norms around": {func(m *arch.Model) {
				m.Residual = 0.5
				each(func(y *arch.Layer) { y.Norms = arch.Norms{Before: true, After: true} })(m)
			}, func(m *arch.Model) { m.Residual = 1 }},
			"multiplier of the logits": {func(m *arch.Model) { m.Logit = 0.25 }, func(m *arch.Model) { m.Logit = 1 }},
			"multiplier of the scores": {each(func(y *arch.Layer) { y.Mix.Scale = 0.5 }),
				each(func(y *arch.Layer) { y.Mix.Scale = 0 })},
		} {
			t.Run(name, func(t *testing.T) {
				a := plain(2)
				c.part(a)
				m := place(t, dev, a, nil, nil)
				want := modeltest.Evaluate(a, m.weights, text, 0, nil).Logits
				const tolerance = 5e-4
				if d := difference(m.read(t, text), want); !(d < tolerance) {
					t.Errorf("a logit is off by %.2g", d)
				}
				// A tree: two children of the last token, and a child of the first of them.
				slots, err := m.seq.Take(3, nil)
				if err != nil {
					t.Fatal(err)
				}
				for i, path := range [][]int{{0}, {1}, {0, 2}} {
					var ancestors []uint32
					for _, node := range path {
						ancestors = append(ancestors, slots[node])
					}
					m.pass.Set(i, int32(60+i), len(text)+len(path)-1, slots[i], len(text), ancestors...)
				}
				got := m.run(t, 3)
				for i, path := range [][]int32{{60}, {61}, {60, 62}} {
					all := modeltest.Evaluate(a, m.weights, append(slices.Clone(text), path...), 0, nil).Logits
					if d := difference(got[i:i+1], all[len(all)-1:]); !(d < tolerance) {
						t.Errorf("a logit of node %d is off by %.2g", i, d)
					}
				}
				if c.without == nil {
					return
				}
				c.without(a)
				other := modeltest.Evaluate(a, m.weights, text, 0, nil).Logits
				if d := difference(other, want); d < 10*tolerance {
					t.Errorf("without the part the reference differs by %.2g only", d)
				}
			})
		}
	})
}

// each changes all layers of a model.
func each(change func(*arch.Layer)) func(*arch.Model) {
	return func(m *arch.Model) {
		for i := range m.Layers {
			change(&m.Layers[i])
		}
	}
}

// TestFinalTap compares the final hidden states that a pass stores by slot with float64.
func TestFinalTap(t *testing.T) {
	kerneltest.ModelOnDevices(t, func(t *testing.T, dev webgpu.Device) {
		a := plain(2)
		m := place(t, dev, a, []int{2}, nil)
		want := modeltest.Evaluate(a, m.weights, text, 0, nil)
		if d := difference(m.read(t, text), want.Logits); !(d < 5e-4) {
			t.Errorf("a logit is off by %.2g", d)
		}
		view := m.Features()[0]
		back := webgpu.NewMemory(view.Size)
		if err := m.Run(nil, webgpu.Region{Buffer: view.Buffer, Dst: back.Bytes()}); err != nil {
			t.Fatal(err)
		}
		var got [][]float32
		for i := range text {
			got = append(got, back.F32()[int(m.seq.Slot(i))*a.Dim:][:a.Dim])
		}
		if d := difference(got, want.Hidden); !(d < 5e-4) {
			t.Errorf("an element is off by %.2g", d)
		}
	})
}

// TestSharedCache runs a model whose first layer reads a layer of another model's cache, and compares it with float64.
func TestSharedCache(t *testing.T) {
	kerneltest.ModelOnDevices(t, func(t *testing.T, dev webgpu.Device) {
		for _, norm := range []arch.Span{arch.None, arch.Head, arch.Row} {
			target := place(t, dev, plain(2), nil, nil)
			target.read(t, text)
			lender := modeltest.Evaluate(target.Arch, target.weights, text, 0, nil)
			a := plain(2)
			a.Layers[0].Mix.Shares, a.Layers[0].Mix.QKNorm = 2, norm
			draft := place(t, dev, a, nil, target.seq)
			if err := draft.pass.WriteBorrowed(); err != nil {
				t.Fatal(err)
			}
			drafted := []int32{46, 50, 51, 3}
			want := modeltest.Evaluate(a, draft.weights, drafted, 0, lender).Logits
			if d := difference(draft.read(t, drafted), want); !(d < 5e-4) {
				t.Errorf("a logit is off by %.2g", d)
			}
			other := modeltest.Evaluate(target.Arch, target.weights, text[:9], 0, nil)
			if d := difference(modeltest.Evaluate(a, draft.weights, drafted, 0, other).Logits, want); d < 5e-3 {
				t.Error("the reference does not depend on the shared cache")
			}
		}
	})
}
