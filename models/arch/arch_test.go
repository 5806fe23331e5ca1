package arch_test

import (
	"slices"
	"testing"

	"foretoken/models/arch"
	"foretoken/models/modeltest"
)

// TestTensors compares the list of tensors with the files of the test models, which have every architecture.
func TestTensors(t *testing.T) {
	seen := map[string]bool{}
	for _, name := range modeltest.Oracles() {
		f := modeltest.File(t, name)
		m, err := arch.Read(f, 0)
		if err != nil {
			t.Fatal(err)
		}
		seen[m.Architecture] = true
		listed := map[string]bool{}
		for want := range m.Tensors() {
			if listed[want.GGUF] = true; want.Optional {
				continue
			}
			got, err := f.Tensor(want.GGUF)
			if err != nil {
				t.Fatal(err)
			}
			dims := slices.Clone(want.Shape)
			slices.Reverse(dims)
			if !slices.EqualFunc(dims, got.Dims, func(a int, b uint64) bool { return uint64(a) == b }) {
				t.Errorf("%s: %s is listed as %v, the file has %v", name, want.GGUF, dims, got.Dims)
			}
		}
		for _, got := range f.Tensors {
			if !listed[got.Name] {
				t.Errorf("%s: %s is not listed", name, got.Name)
			}
		}
	}
	for _, name := range arch.Names() {
		if !seen[name] {
			t.Errorf("no test model of %s", name)
		}
	}
}

// TestHubNames holds the names of tensors in checkpoints to published ones.
func TestHubNames(t *testing.T) {
	for name, want := range map[string][]string{
		"llama-f32":    {"self_attn.k_proj.weight"},
		"qwen2-bf16":   {"self_attn.k_proj.weight", "self_attn.k_proj.bias"},
		"qwen3-q8_0":   {"self_attn.k_proj.weight", "self_attn.k_norm.weight"},
		"phi3-f32":     {"self_attn.qkv_proj.weight", "mlp.gate_up_proj.weight"},
		"smollm3-f32":  {"self_attn.k_proj.weight"},
		"granite-f32":  {"self_attn.k_proj.weight"},
		"ernie4_5-f32": {"self_attn.k_proj.weight"},
		"minicpm-f32":  {"self_attn.k_proj.weight"},
		"exaone4-f32":  {"self_attn.k_norm.weight", "post_feedforward_layernorm.weight"},
		"olmo2-f32":    {"self_attn.k_proj.weight", "self_attn.k_norm.weight", "post_feedforward_layernorm.weight"},
	} {
		m, err := arch.Read(modeltest.File(t, name), 0)
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, "self_attn.o_proj.weight", "post_attention_layernorm.weight", "mlp.down_proj.weight")
		if m.Layers[0].Norms.Before {
			want = append(want, "input_layernorm.weight")
		}
		if !m.Layers[0].FFN.Fused {
			want = append(want, "mlp.gate_proj.weight", "mlp.up_proj.weight")
		}
		names := map[string]bool{}
		for w := range m.Tensors() {
			names[w.HF] = true
		}
		for i, part := range want {
			want[i] = "model.layers.1." + part
		}
		want = append(want, "model.embed_tokens.weight", "model.norm.weight")
		for _, one := range want {
			if !names[one] {
				t.Errorf("%s: no tensor is called %s", name, one)
			}
		}
	}
}
