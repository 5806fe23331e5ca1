package arch

import (
	"maps"
	"strings"
	"testing"

	"foretoken/models/gguf"
)

// The worked example of docs/extending.md, which quotes it: an architecture and its checkpoint.

// marble scales its residual stream and rotates nothing in every second layer.
func marble(r *fields) *Model {
	m := r.decoder()
	m.Residual = r.number("residual_scale", 1, 1e-6, 1e6)
	for i, l := range m.Layers {
		l.Mix.HalfSplit, l.Mix.QKNorm = true, Head
		if i%2 == 1 {
			l.Mix.Rotary, l.Mix.Rope = 0, nil
		}
	}
	return m
}

var marbleCheckpoints = map[string]Checkpoint{
	"marble": {Class: "MarbleForCausalLM", Architecture: "marble",
		Numbers: map[string]string{"residual_multiplier": "residual_scale"}},
}

// TestExample reads a file of the example's architecture, and refuses a field that it has not read.
func TestExample(t *testing.T) {
	file := func(more map[string]any) *gguf.File {
		stated := map[string]any{"context_length": uint32(64), "block_count": uint32(2),
			marbleCheckpoints["marble"].Numbers["residual_multiplier"]: float32(0.5)}
		maps.Copy(stated, more)
		return small(t, "marble", stated, nil)
	}
	with := map[string]func(*fields) *Model{"marble": marble}
	m, err := read(file(nil), 0, with)
	if err != nil {
		t.Fatal(err)
	}
	if m.Residual != 0.5 || m.Layers[0].Mix.Rope == nil || m.Layers[1].Mix.Rope != nil || !m.Tied || m.Vocab != 8 {
		t.Errorf("%+v", m)
	}
	names := map[string]bool{}
	for w := range m.Tensors() {
		names[w.HF] = true
	}
	if !names["model.layers.1.self_attn.q_norm.weight"] || names["lm_head.weight"] {
		t.Errorf("the tensors are %v", maps.Keys(names))
	}
	_, err = read(file(map[string]any{"embedding_scale": float32(2)}), 0, with)
	if err == nil || !strings.Contains(err.Error(), "marble.embedding_scale is 2, which is not supported") {
		t.Errorf("a field that changes the output: %v", err)
	}
	if _, err = read(file(nil), 0, architectures); err == nil {
		t.Error("an architecture without a row is read")
	}
}
