package arch

import (
	"cmp"
	"math"
)

// architectures reads the metadata of each supported architecture. SmolLM2 and Mistral files say "llama", but Mistral
// files since Ministral 3 say "mistral3". The graphs follow llama.cpp's.
var architectures = map[string]func(*fields) *Model{"llama": llama, "mistral3": mistral3, "qwen2": qwen2,
	"qwen3": qwen3, "phi3": phi3, "smollm3": smollm3, "granite": granite, "olmo2": olmo2}

// Checkpoints says what can be converted, by model_type.
var Checkpoints = map[string]Checkpoint{
	"llama":   {Class: "LlamaForCausalLM", Architecture: "llama"},
	"mistral": {Class: "MistralForCausalLM", Architecture: "llama", StatesKV: true, Window: StatedWindow},
	"qwen2":   {Class: "Qwen2ForCausalLM", Architecture: "qwen2", StatesKV: true, Window: UsedWindow},
	"qwen3": {Class: "Qwen3ForCausalLM", Architecture: "qwen3", StatesKV: true, StatesHead: true,
		Window: UsedWindow},
	// auto_map names the model's code, which the libraries contain by now.
	"phi3": {Class: "Phi3ForCausalLM", Architecture: "phi3", Window: StatedWindow, PartialRope: true, LongRope: true,
		Ignored: []string{"auto_map", "original_max_position_embeddings", "full_attn_mod"}},
	"smollm3": {Class: "SmolLM3ForCausalLM", Architecture: "smollm3", StatesKV: true, Window: UsedWindow,
		Defaults: map[string]string{"tie_word_embeddings": "true"}},
	"granite": {Class: "GraniteForCausalLM", Architecture: "granite", Numbers: map[string]string{
		"embedding_multiplier": "embedding_scale", "residual_multiplier": "residual_scale",
		"attention_multiplier": "attention.scale", "logits_scaling": "logit_scale"}},
	"olmo2": {Class: "Olmo2ForCausalLM", Architecture: "olmo2"},
}

// heads are the architectures of drafts that read a target's features.
var heads = map[string]func(*fields) *Model{"eagle3": eagle3}

func llama(r *fields) *Model {
	m := r.decoder()
	bias := r.f.HasTensor("blk.0.attn_q.bias") || r.f.HasTensor("blk.0.attn_qkv.bias")
	for _, l := range m.Layers {
		l.Mix.Bias = bias
	}
	return m
}

// mistral3 multiplies queries by 1 + scale·ln(1 + ⌊position/original⌋), which is 1 within the original context. The
// scaling is not implemented: the context ends before it.
func mistral3(r *fields) *Model {
	m := llama(r)
	if r.number("attention.temperature_scale", 0, -math.MaxFloat32, math.MaxFloat32) != 0 {
		m.Unscaled = r.original(m.Context)
	}
	return m
}

func qwen2(r *fields) *Model {
	m := r.decoder()
	for _, l := range m.Layers {
		l.Mix.HalfSplit, l.Mix.Bias = true, true
	}
	return m
}

func qwen3(r *fields) *Model {
	m := r.decoder()
	for _, l := range m.Layers {
		l.Mix.HalfSplit, l.Mix.QKNorm = true, Head
	}
	return m
}

// phi3 ignores the window, as llama.cpp does: converters have written one for models without. Phi-3-mini-4k has one.
func phi3(r *fields) *Model {
	m := r.decoder()
	for _, l := range m.Layers {
		l.Mix.HalfSplit, l.Mix.Fused, l.FFN.Fused, l.Mix.Window = true, true, true, 0
	}
	return m
}

// smollm3 rotates nothing in every fourth layer.
func smollm3(r *fields) *Model {
	m := r.decoder()
	for i, l := range m.Layers {
		if i%4 == 3 {
			l.Mix.Rotary, l.Mix.Rope = 0, nil
		}
	}
	return m
}

// granite has multipliers, of which the logits' divides. Models of longer contexts do without rotation, which files
// say by rope.scaling.finetuned.
func granite(r *fields) *Model {
	const most = 1e6
	m := r.decoder()
	m.Embed = cmp.Or(r.number("embedding_scale", 0, 0, most), 1)
	m.Logit = 1 / r.number("logit_scale", 1, 1e-6, most)
	m.Residual = cmp.Or(r.number("residual_scale", 0, 0, most), 1)
	scale, rotates := r.number("attention.scale", 0, 0, most), r.number("rope.scaling.finetuned", 1, 0, 1) == 1
	for _, l := range m.Layers {
		if l.Mix.Scale = scale; !rotates {
			l.Mix.Rotary, l.Mix.Rope = 0, nil
		}
	}
	return m
}

// olmo2 norms what a mix and a network give. OLMo 3 has windows in three layers of four, whose rotary embedding is not
// scaled. Converters write YaRN's own magnitude as yarn_attn_factor, which llama.cpp does not read either.
func olmo2(r *fields) *Model {
	m := r.decoder()
	r.has("rope.scaling.yarn_attn_factor")
	plain := NewRope(r.base(), m.Layers[0].Mix.Rotary)
	for i := range m.Layers {
		l := &m.Layers[i]
		l.Norms, l.Mix.HalfSplit, l.Mix.QKNorm = Norms{After: true}, true, Row
		switch {
		case l.Mix.Window > 0 && i%4 == 3:
			l.Mix.Window = 0
		case l.Mix.Window > 0:
			l.Mix.Rope = plain
		}
	}
	return m
}
