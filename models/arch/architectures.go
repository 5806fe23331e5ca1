package arch

import (
	"cmp"
	"math"
	"slices"
)

// architectures reads the metadata of each supported architecture. SmolLM2 and Mistral files say "llama", but Mistral
// files since Ministral 3 say "mistral3". The graphs follow llama.cpp's.
var architectures = map[string]func(*fields) *Model{"llama": llama, "mistral3": mistral3, "qwen2": qwen2,
	"qwen3": qwen3, "qwen2vl": qwen2vl, "qwen3vl": qwen3vl, "phi3": phi3, "smollm3": smollm3, "granite": granite,
	"minicpm": minicpm, "olmo2": olmo2, "exaone4": exaone4, "ernie4_5": llama,
	"hunyuan-dense": hunyuan, "bitnet": bitnet}

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
	"olmo3": {Class: "Olmo3ForCausalLM", Architecture: "olmo2", Window: ListedWindow},
	"exaone4": {Class: "Exaone4ForCausalLM", Architecture: "exaone4", StatesKV: true, Window: ListedWindow,
		Ignored: []string{"sliding_window_pattern"}},
	"ernie4_5": {Class: "Ernie4_5ForCausalLM", Architecture: "ernie4_5", StatesKV: true, Paired: true},
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

// qwen2vl rotates a pair of elements by the time, the row or the column of a token; for text each is its position.
func qwen2vl(r *fields) *Model {
	m := qwen2(r)
	r.sections(m.Layers[0].Mix.Rotary / 2)
	return m
}

// qwen3vl adds features of images, which text does not have, to the outputs of its first layers.
func qwen3vl(r *fields) *Model {
	m := qwen3(r)
	r.has("n_deepstack_layers")
	r.sections(m.Layers[0].Mix.Rotary / 2)
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
	m := r.decoder()
	r.multipliers(m, 1, 1, 1)
	scale, rotates := r.number("attention.scale", 0, 0, mostScale), r.number("rope.scaling.finetuned", 1, 0, 1) == 1
	for _, l := range m.Layers {
		if l.Mix.Scale = scale; !rotates {
			l.Mix.Rotary, l.Mix.Rope = 0, nil
		}
	}
	return m
}

// minicpm has granite's multipliers. Older files lack them, and mean MiniCPM-2B's.
func minicpm(r *fields) *Model {
	m := llama(r)
	r.multipliers(m, 12, 1.4/math.Sqrt(float64(len(m.Layers))), float64(m.Dim)/256)
	return m
}

const mostScale = 1e6

// multipliers reads the multipliers of the embedding and of what layers add, and the divisor of the logits. 0 is none.
func (r *fields) multipliers(m *Model, embed, residual, divisor float64) {
	m.Embed = cmp.Or(r.number("embedding_scale", embed, 0, mostScale), 1)
	m.Residual = cmp.Or(r.number("residual_scale", residual, 0, mostScale), 1)
	m.Logit = 1 / r.number("logit_scale", divisor, 1e-6, mostScale)
}

// olmo2 norms what a mix and a network give. OLMo 3 has windows in three layers of four, whose rotary embedding is not
// scaled. Converters write YaRN's own magnitude as yarn_attn_factor, which llama.cpp does not read either.
func olmo2(r *fields) *Model {
	m := r.decoder()
	r.has("rope.scaling.yarn_attn_factor")
	plain := NewRope(r.base(), m.Layers[0].Mix.Rotary)
	r.everyFourth(m)
	for i := range m.Layers {
		l := &m.Layers[i]
		l.Norms, l.Mix.HalfSplit, l.Mix.QKNorm = Norms{After: true}, true, Row
		if l.Mix.Window > 0 {
			l.Mix.Rope = plain
		}
	}
	return m
}

// everyFourth takes the window from every fourth layer, if the file does not say which layers have one.
func (r *fields) everyFourth(m *Model) {
	for i, l := range m.Layers {
		if i%4 == 3 && !r.f.Has(r.arch+"."+windowPattern) {
			l.Mix.Window = 0
		}
	}
}

// exaone4 norms what a mix and a network give. EXAONE 4.0 32B, with 64 layers, has windows in three layers of four,
// and rotates in these alone.
func exaone4(r *fields) *Model {
	const sizes = 64
	m := r.decoder()
	r.everyFourth(m)
	slides := slices.ContainsFunc(m.Layers, func(l Layer) bool { return l.Mix.Window > 0 })
	if len(m.Layers) == sizes && !slides {
		r.fail(windowSize, "is missing; the model of %d layers has windows", sizes)
	}
	for i := range m.Layers {
		l := &m.Layers[i]
		l.Norms, l.Mix.HalfSplit, l.Mix.QKNorm = Norms{After: true}, true, Head
		if slides && l.Mix.Window == 0 {
			l.Mix.Rotary, l.Mix.Rope = 0, nil
		}
	}
	return m
}

// hunyuan norms heads after their rotation. Its file states the base of the longest context.
func hunyuan(r *fields) *Model {
	m := qwen3(r)
	for _, l := range m.Layers {
		l.Mix.NormLate = true
	}
	return m
}

// bitnet norms the inputs of the last product of a mix and of a network.
func bitnet(r *fields) *Model {
	m := r.decoder()
	for i := range m.Layers {
		m.Layers[i].Mix.HalfSplit, m.Layers[i].Norms.Inner = true, true
	}
	return m
}
