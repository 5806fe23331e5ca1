package convert

import (
	"encoding/json"
	"maps"
	"math"
	"strings"
	"testing"

	"foretoken/models/quant"
)

// base is a config.json of each model type as it is published.
var base = map[string]string{
	// SmolLM2 135M
	"llama": `{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "attention_bias": false,
		"attention_dropout": 0.0, "bos_token_id": 1, "eos_token_id": 2, "hidden_act": "silu",
		"hidden_size": 576, "initializer_range": 0.041666666666666664, "intermediate_size": 1536,
		"is_llama_config": true, "max_position_embeddings": 8192, "mlp_bias": false,
		"num_attention_heads": 9, "num_hidden_layers": 30, "num_key_value_heads": 3, "pad_token_id": 2,
		"pretraining_tp": 1, "rms_norm_eps": 1e-05, "rope_interleaved": false,
		"rope_scaling": null, "rope_theta": 100000, "tie_word_embeddings": true, "torch_dtype": "bfloat16",
		"transformers.js_config": {"kv_cache_dtype": {"q4f16": "float16"}},
		"transformers_version": "4.42.3", "use_cache": true, "vocab_size": 49152}`,
	// Mistral 7B v0.1
	"mistral": `{"architectures": ["MistralForCausalLM"], "bos_token_id": 1, "eos_token_id": 2,
		"hidden_act": "silu", "hidden_size": 4096, "initializer_range": 0.02,
		"intermediate_size": 14336, "max_position_embeddings": 32768, "model_type": "mistral",
		"num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 8,
		"rms_norm_eps": 1e-05, "rope_theta": 10000.0, "sliding_window": 4096, "tie_word_embeddings": false,
		"torch_dtype": "bfloat16", "use_cache": true, "vocab_size": 32000}`,
	// Qwen2.5 1.5B
	"qwen2": `{"architectures": ["Qwen2ForCausalLM"], "attention_dropout": 0.0, "bos_token_id": 151643,
		"eos_token_id": 151645, "hidden_act": "silu", "hidden_size": 1536,
		"initializer_range": 0.02, "intermediate_size": 8960, "max_position_embeddings": 32768,
		"max_window_layers": 21, "model_type": "qwen2", "num_attention_heads": 12,
		"num_hidden_layers": 28, "num_key_value_heads": 2, "rms_norm_eps": 1e-06, "rope_theta": 1000000.0,
		"sliding_window": 32768, "tie_word_embeddings": true,
		"torch_dtype": "bfloat16", "use_cache": true, "use_sliding_window": false, "vocab_size": 151936}`,
	// Qwen3 0.6B
	"qwen3": `{"architectures": ["Qwen3ForCausalLM"], "attention_bias": false, "attention_dropout": 0.0,
		"bos_token_id": 151643, "eos_token_id": 151645, "head_dim": 128,
		"hidden_act": "silu", "hidden_size": 1024, "initializer_range": 0.02, "intermediate_size": 3072,
		"max_position_embeddings": 40960, "max_window_layers": 28,
		"model_type": "qwen3", "num_attention_heads": 16, "num_hidden_layers": 28, "num_key_value_heads": 8,
		"rms_norm_eps": 1e-06, "rope_scaling": null, "rope_theta": 1000000,
		"sliding_window": null, "tie_word_embeddings": true, "torch_dtype": "bfloat16", "use_cache": true,
		"use_sliding_window": false, "vocab_size": 151936}`,
	// Phi-4-mini with heads of 16 elements
	"phi3": `{"architectures": ["Phi3ForCausalLM"], "attention_bias": false, "attention_dropout": 0.0,
		"auto_map": {"AutoConfig": "configuration_phi3.Phi3Config"}, "bos_token_id": 199999, "embd_pdrop": 0.0,
		"eos_token_id": 199999, "full_attn_mod": 1, "hidden_act": "silu", "hidden_size": 384,
		"initializer_range": 0.02, "intermediate_size": 8192, "interpolate_factor": 1, "lm_head_bias": false,
		"max_position_embeddings": 131072, "mlp_bias": false, "model_type": "phi3", "num_attention_heads": 24,
		"num_hidden_layers": 32, "num_key_value_heads": 8, "original_max_position_embeddings": 4096,
		"pad_token_id": 199999, "partial_rotary_factor": 0.75, "resid_pdrop": 0.0, "rms_norm_eps": 1e-05,
		"rope_scaling": {"long_factor": [1, 1.25, 4, 30, 60.5, 64], "short_factor": [1, 1, 1, 1, 1, 1],
			"type": "longrope"},
		"rope_theta": 10000.0, "sliding_window": 262144, "tie_word_embeddings": true, "torch_dtype": "bfloat16",
		"use_cache": true, "vocab_size": 200064}`,
	// SmolLM3 3B with 4 of 36 layers
	"smollm3": `{"architectures": ["SmolLM3ForCausalLM"], "attention_bias": false, "attention_dropout": 0.0,
		"bos_token_id": 128000, "eos_token_id": 128012, "hidden_act": "silu", "hidden_size": 2048,
		"initializer_range": 0.02, "intermediate_size": 11008, "layer_types": ["full_attention",
			"full_attention", "full_attention", "full_attention"],
		"max_position_embeddings": 65536, "max_window_layers": 28, "mlp_bias": false, "model_type": "smollm3",
		"no_rope_layer_interval": 4, "no_rope_layers": [1, 1, 1, 0], "num_attention_heads": 16,
		"num_hidden_layers": 4, "num_key_value_heads": 4, "pad_token_id": 128004, "pretraining_tp": 2,
		"rms_norm_eps": 1e-06, "rope_scaling": null, "rope_theta": 5000000.0, "sliding_window": null,
		"torch_dtype": "bfloat16", "use_cache": false, "use_sliding_window": false, "vocab_size": 128256}`,
	// Granite 3.3 2B
	"granite": `{"architectures": ["GraniteForCausalLM"], "attention_bias": false, "attention_dropout": 0.0,
		"attention_multiplier": 0.015625, "bos_token_id": 0, "embedding_multiplier": 12.0, "eos_token_id": 0,
		"hidden_act": "silu", "hidden_size": 2048, "initializer_range": 0.02, "intermediate_size": 8192,
		"logits_scaling": 8.0, "max_position_embeddings": 131072, "mlp_bias": false, "model_type": "granite",
		"num_attention_heads": 32, "num_hidden_layers": 40, "num_key_value_heads": 8, "pad_token_id": 0,
		"residual_multiplier": 0.22, "rms_norm_eps": 1e-05, "rope_scaling": null, "rope_theta": 10000000.0,
		"tie_word_embeddings": true, "torch_dtype": "bfloat16", "use_cache": true, "vocab_size": 49159}`,
	// OLMo 2 1B
	"olmo2": `{"architectures": ["Olmo2ForCausalLM"], "attention_bias": false, "attention_dropout": 0.0,
		"eos_token_id": 100257, "hidden_act": "silu", "hidden_size": 2048, "initializer_range": 0.02,
		"intermediate_size": 8192, "max_position_embeddings": 4096, "model_type": "olmo2",
		"num_attention_heads": 16, "num_hidden_layers": 16, "num_key_value_heads": 16, "pad_token_id": 100277,
		"rms_norm_eps": 1e-06, "rope_scaling": null, "rope_theta": 500000, "tie_word_embeddings": false,
		"torch_dtype": "float32", "use_cache": false, "vocab_size": 100352}`,
	// OLMo 3 7B with 4 of 32 layers
	"olmo3": `{"architectures": ["Olmo3ForCausalLM"], "attention_bias": false, "attention_dropout": 0.0,
		"eos_token_id": 100257, "hidden_act": "silu", "hidden_size": 4096, "initializer_range": 0.02,
		"intermediate_size": 11008, "layer_types": ["sliding_attention", "sliding_attention", "sliding_attention",
			"full_attention"],
		"max_position_embeddings": 65536, "model_type": "olmo3", "num_attention_heads": 32, "num_hidden_layers": 4,
		"num_key_value_heads": 32, "pad_token_id": 100277, "rms_norm_eps": 1e-06,
		"rope_scaling": {"attention_factor": 1.2079441541679836, "beta_fast": 32, "beta_slow": 1, "factor": 8.0,
			"original_max_position_embeddings": 8192, "rope_type": "yarn"},
		"rope_theta": 500000, "sliding_window": 4096, "tie_word_embeddings": false, "torch_dtype": "bfloat16",
		"use_cache": true, "vocab_size": 100278}`,
	// EXAONE 4.0 1.2B with 4 of 30 layers
	"exaone4": `{"architectures": ["Exaone4ForCausalLM"], "attention_dropout": 0.0, "bos_token_id": 0,
		"eos_token_id": 361, "head_dim": 64, "hidden_act": "silu", "hidden_size": 2048, "initializer_range": 0.02,
		"intermediate_size": 4096, "layer_types": ["full_attention", "full_attention", "full_attention",
			"full_attention"],
		"max_position_embeddings": 65536, "model_type": "exaone4", "num_attention_heads": 32,
		"num_hidden_layers": 4, "num_key_value_heads": 8, "pad_token_id": 1, "rms_norm_eps": 1e-05,
		"rope_scaling": {"factor": 16.0, "high_freq_factor": 4.0, "low_freq_factor": 1.0,
			"original_max_position_embeddings": 8192, "rope_type": "llama3"},
		"rope_theta": 1000000, "sliding_window": null, "sliding_window_pattern": null, "tie_word_embeddings": true,
		"torch_dtype": "bfloat16", "use_cache": true, "vocab_size": 102400}`,
	// ERNIE 4.5 0.3B
	"ernie4_5": `{"architectures": ["Ernie4_5ForCausalLM"], "bos_token_id": 1, "eos_token_id": 2, "head_dim": 128,
		"hidden_act": "silu", "hidden_size": 1024, "intermediate_size": 3072, "max_position_embeddings": 131072,
		"model_type": "ernie4_5", "num_attention_heads": 16, "num_hidden_layers": 18, "num_key_value_heads": 2,
		"pad_token_id": 0, "rms_norm_eps": 1e-05, "rope_scaling": null, "rope_theta": 500000.0,
		"tie_word_embeddings": true, "torch_dtype": "bfloat16", "use_bias": false, "use_cache": false,
		"vocab_size": 103424}`,
}

// changed gives a model type's config.json with fields changed, or taken out where they are "-".
func changed(t testing.TB, modelType string, fields map[string]string) []byte {
	t.Helper()
	var c map[string]json.RawMessage
	if err := json.Unmarshal([]byte(base[modelType]), &c); err != nil {
		t.Fatal(err)
	}
	for key, value := range fields {
		if c[key] = json.RawMessage(value); value == "-" {
			delete(c, key)
		}
	}
	b, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func metadataOf(s *hparams) map[string]any {
	all := map[string]any{}
	for _, e := range s.kv {
		all[e.Key] = e.Value
	}
	return all
}

// TestConfigsOfPublishedModels: what llama.cpp's converter writes of them.
func TestConfigsOfPublishedModels(t *testing.T) {
	u := func(x int) uint32 { return uint32(x) }
	for _, c := range []struct {
		modelType string
		fields    map[string]string
		want      map[string]any // nil values must not be there
		divisor   bool
	}{
		{"llama", nil, map[string]any{"llama.block_count": u(30), "llama.context_length": u(8192),
			"llama.embedding_length": u(576), "llama.feed_forward_length": u(1536),
			"llama.attention.head_count": u(9), "llama.attention.head_count_kv": u(3),
			"llama.attention.layer_norm_rms_epsilon": float32(1e-5), "llama.rope.freq_base": float32(1e5),
			"llama.rope.dimension_count": u(64), "llama.vocab_size": u(49152), "llama.attention.key_length": nil,
			"llama.attention.sliding_window": nil, "llama.rope.scaling.type": nil}, false},
		{"llama", map[string]string{"num_key_value_heads": "-", "rope_theta": "-"},
			map[string]any{"llama.attention.head_count_kv": u(9), "llama.rope.freq_base": float32(10000)}, false},
		{"llama", map[string]string{"head_dim": "128"},
			map[string]any{"llama.attention.key_length": u(128), "llama.attention.value_length": u(128),
				"llama.rope.dimension_count": u(128)}, false},
		{"llama", map[string]string{"rope_scaling": `{"type": "linear", "factor": 4.0}`},
			map[string]any{"llama.rope.scaling.type": "linear", "llama.rope.scaling.factor": float32(4)}, false},
		{"llama", map[string]string{"rope_scaling": `{"factor": 32.0, "high_freq_factor": 4.0, "low_freq_factor": ` +
			`1.0, "original_max_position_embeddings": 8192, "rope_type": "llama3"}`},
			map[string]any{"llama.rope.scaling.type": nil, "llama.rope.scaling.factor": nil}, true},
		{"llama", map[string]string{"rope_theta": "-", "rope_scaling": "-",
			"rope_parameters": `{"rope_type": "default", "rope_theta": 500000}`},
			map[string]any{"llama.rope.freq_base": float32(5e5), "llama.rope.scaling.type": nil}, false},
		{"mistral", nil, map[string]any{"llama.attention.sliding_window": u(4096),
			"llama.attention.sliding_window_pattern": nil, "llama.rope.dimension_count": u(128)}, false},
		{"mistral", map[string]string{"sliding_window": "null"},
			map[string]any{"llama.attention.sliding_window": nil}, false},
		{"qwen2", nil, map[string]any{"qwen2.rope.freq_base": float32(1e6), "qwen2.attention.sliding_window": nil,
			"qwen2.rope.dimension_count": u(128), "qwen2.attention.key_length": nil}, false},
		{"qwen2", map[string]string{"use_sliding_window": "true", "max_window_layers": "28", "sliding_window": "4096"},
			map[string]any{"qwen2.attention.sliding_window": nil}, false},
		{"qwen2", map[string]string{"use_sliding_window": "true", "max_window_layers": "0", "sliding_window": "4096"},
			map[string]any{"qwen2.attention.sliding_window": u(4096),
				"qwen2.attention.sliding_window_pattern": nil}, false},
		{"qwen2", map[string]string{"rope_scaling": `{"type": "yarn", "factor": ` +
			`4.0, "original_max_position_embeddings": 32768}`}, map[string]any{"qwen2.rope.scaling.type": "yarn",
			"qwen2.rope.scaling.factor": float32(4), "qwen2.rope.scaling.original_context_length": u(32768),
			"qwen2.rope.scaling.yarn_beta_fast": nil}, false},
		{"qwen3", nil,
			map[string]any{"qwen3.attention.key_length": u(128), "qwen3.attention.value_length": u(128)}, false},
		{"qwen3", map[string]string{
			"rope_scaling": `{"rope_type": "yarn", "type": "yarn", "factor": ` +
				`4.0, "original_max_position_embeddings": ` +
				`32768, "beta_fast": 32, "beta_slow": 1, "attention_factor": 1.138629436}`},
			map[string]any{"qwen3.rope.scaling.type": "yarn", "qwen3.rope.scaling.yarn_beta_fast": float32(32),
				"qwen3.rope.scaling.yarn_beta_slow": float32(1)}, false},
		{"phi3", nil, map[string]any{"phi3.rope.dimension_count": u(12), "phi3.rope.scaling.attn_factor": float32(
			math.Sqrt(1 + 5.0/12)), "phi3.rope.scaling.original_context_length": u(4096)}, true},
		{"phi3", map[string]string{"rope_scaling": "null", "partial_rotary_factor": "-"},
			map[string]any{"phi3.rope.dimension_count": u(16), "phi3.rope.scaling.attn_factor": nil}, false},
		{"phi3", map[string]string{"original_max_position_embeddings": "-", "rope_scaling": "-",
			"rope_parameters": `{` +
				`"rope_type": "longrope", "rope_theta": 10000, "original_max_position_embeddings": 4096, ` +
				`"short_factor": [1, 1, 1, 1, 1, 1], "long_factor": [2, 2, 2, 2, 2, 2]}`},
			map[string]any{"phi3.rope.scaling.original_context_length": u(4096)}, true},
		{"phi3", map[string]string{"rope_scaling": `{"type": "su", ` +
			`"short_factor": [1, 1, 1, 1, 1, 1], "long_factor": [2, 2, 2, 2, 2, 2]}`},
			map[string]any{"phi3.rope.scaling.original_context_length": u(4096)}, true},
		{"phi3", map[string]string{"rope_scaling": `{"type": "yarn", "factor": 4}`},
			map[string]any{"phi3.rope.scaling.original_context_length": u(4096)}, false},
		{"smollm3", nil, map[string]any{"smollm3.rope.freq_base": float32(5e6)}, false},
		{"granite", nil, map[string]any{"granite.embedding_scale": float32(12), "granite.logit_scale": float32(8),
			"granite.residual_scale": float32(0.22), "granite.attention.scale": float32(0.015625)}, false},
		{"olmo2", nil, map[string]any{"olmo2.attention.head_count_kv": u(16)}, false},
		{"olmo3", nil, map[string]any{"olmo2.attention.sliding_window": u(4096),
			"olmo2.rope.scaling.type": "yarn"}, false},
		{"exaone4", nil, map[string]any{"exaone4.attention.key_length": u(64), "exaone4.attention.sliding_window": nil},
			true},
		{"exaone4", map[string]string{"sliding_window": "65536", "sliding_window_pattern": `"LLLG"`,
			"layer_types": `["sliding_attention", "sliding_attention", "sliding_attention", "full_attention"]`},
			map[string]any{"exaone4.attention.sliding_window": u(65536)}, true},
		{"ernie4_5", nil, map[string]any{"ernie4_5.rope.freq_base": float32(5e5)}, false},
	} {
		s, _, err := readConfig("config.json", changed(t, c.modelType, c.fields))
		if err != nil {
			t.Errorf("%s %v: %v", c.modelType, c.fields, err)
			continue
		}
		got := metadataOf(s)
		for key, want := range c.want {
			if got[key] != want {
				t.Errorf("%s %v: %s is %v, want %v", c.modelType, c.fields, key, got[key], want)
			}
		}
		if (s.divisors != nil) != c.divisor {
			t.Errorf("%s %v: divisors %v", c.modelType, c.fields, s.divisors)
		}
	}
	some := map[string]string{"use_sliding_window": "true", "max_window_layers": "21", "sliding_window": "4096"}
	s, described, err := readConfig("config.json", changed(t, "qwen2", some))
	if err != nil {
		t.Fatal(err)
	}
	pattern, _ := metadataOf(s)["qwen2.attention.sliding_window_pattern"].([]bool)
	for i, slides := range pattern {
		if slides != (i >= 21) {
			t.Errorf("layer %d slides: %v", i, slides)
		}
	}
	if window := described.Layers[27].Mix.Window; len(pattern) != 28 || window != 4096 {
		t.Errorf("%d layers have a window of %d or none", len(pattern), window)
	}
}

// divisorsOf reads a tensor of divisors.
func divisorsOf(t testing.TB, d tensor) []float32 {
	t.Helper()
	raw, values := make([]byte, 4*d.dims[0]), make([]float32, d.dims[0])
	if err := d.data(raw, 0); err != nil {
		t.Fatal(err)
	}
	if err := quant.Dequantize(d.typ, raw, values); err != nil {
		t.Fatal(err)
	}
	return values
}

// TestLlama3Divisors computes them as transformers does, from wave lengths.
func TestLlama3Divisors(t *testing.T) {
	s, _, err := readConfig("config.json", changed(t, "llama", map[string]string{"rope_theta": "500000",
		"rope_scaling": `{"factor": 32.0, "high_freq_factor": 4.0, "low_freq_factor": 1.0, ` +
			`"original_max_position_embeddings": 8192, "rope_type": "llama3"}`}))
	if err != nil {
		t.Fatal(err)
	}
	got := divisorsOf(t, s.divisors[0])
	kept, blended, divided := 0, 0, 0
	for i, d := range got {
		freq := 1 / math.Pow(500000, float64(2*i)/64)
		wave := 2 * math.Pi / freq
		want := freq
		switch smooth := (8192/wave - 1) / (4 - 1); {
		case wave < 8192.0/4:
			kept++
		case wave > 8192.0/1:
			divided++
			want = freq / 32
		default:
			blended++
			want = (1-smooth)*freq/32 + smooth*freq
		}
		if math.Abs(freq/float64(d)-want) > 1e-6*want {
			t.Errorf("frequency %d is %g, want %g", i, freq/float64(d), want)
		}
	}
	if len(got) != 32 || kept == 0 || blended == 0 || divided == 0 {
		t.Errorf("%d divisors: %d kept, %d blended, %d divided", len(got), kept, blended, divided)
	}
}

// notUnderstood are fields that are refused, each by name.
var notUnderstood = []struct {
	modelType string
	fields    map[string]string
	want      string
}{
	{"llama", map[string]string{"model_type": `"gemma2"`, "architectures": "-"},
		`model_type is "gemma2": ernie4_5, exaone4, granite, llama, mistral, olmo2, olmo3, phi3, qwen2, qwen3 and ` +
			`smollm3`},
	{"olmo3", map[string]string{"layer_types": "-"}, "layer_types is missing"},
	{"ernie4_5", map[string]string{"use_bias": "true"}, "use_bias is true: biases cannot be run"},
	{"llama", map[string]string{"model_type": "-", "architectures": `["GPT2LMHeadModel"]`},
		`architectures is "GPT2LMHeadModel"`},
	{"llama", map[string]string{"architectures": `["MixtralForCausalLM"]`},
		`want LlamaForCausalLM for model_type llama`},
	{"llama", map[string]string{"architectures": `["LlamaForCausalLM", "X"]`}, "architectures"},
	{"llama", map[string]string{"architectures": `7`}, "architectures is 7"},
	{"llama", map[string]string{"model_type": "-", "architectures": "-"}, "model_type is missing"},
	{"llama", map[string]string{"model_type": `"gemma3_text"`, "architectures": `["X"]`}, "gemma3_text"},
	{"smollm3", map[string]string{"no_rope_layers": "[1, 1, 0, 1]"}, "no_rope_layers is [1,1,0,1]"},
	{"smollm3", map[string]string{"no_rope_layers": "[1, 0]"}, "no_rope_layers is [1,0]"},
	{"smollm3", map[string]string{"no_rope_layers": "-", "no_rope_layer_interval": "3"}, "no_rope_layer_interval is 3"},
	{"llama", map[string]string{"no_rope_layers": "[0]"}, "no_rope_layers is [0]"},
	{"granite", map[string]string{"logits_scaling": "-"}, "logits_scaling is missing"},
	{"granite", map[string]string{"residual_multiplier": "0"}, "residual_multiplier is 0"},
	{"phi3", map[string]string{"partial_rotary_factor": "1.5"}, "partial_rotary_factor is 1.5"},
	{"phi3", map[string]string{"original_max_position_embeddings": "-"},
		"original_max_position_embeddings is missing"},
	{"phi3", map[string]string{"rope_scaling": `{"type": "longrope", "short_factor": [1], "long_factor": [1]}`},
		"rope_scaling.short_factor is [1]: want 6 numbers above 0"},
	{"phi3", map[string]string{"rope_scaling": `{"type": "longrope", "short_factor": [1, 1, 1, 1, 1, 0]}`},
		"rope_scaling.short_factor is [1,1,1,1,1,0]"},
	{"llama", map[string]string{"hidden_size": "-"}, "hidden_size is missing"},
	{"llama", map[string]string{"num_hidden_layers": "-"}, "num_hidden_layers is missing"},
	{"llama", map[string]string{"intermediate_size": "-"}, "intermediate_size is missing"},
	{"llama", map[string]string{"num_attention_heads": "null"}, "num_attention_heads is missing"},
	{"llama", map[string]string{"vocab_size": "-"}, "vocab_size is missing"},
	{"llama", map[string]string{"max_position_embeddings": "-"}, "max_position_embeddings is missing"},
	{"llama", map[string]string{"rms_norm_eps": "-"}, "rms_norm_eps is missing"},
	{"llama", map[string]string{"hidden_act": "-"}, "hidden_act is missing"},
	{"mistral", map[string]string{"num_key_value_heads": "-"}, "num_key_value_heads is missing"},
	{"mistral", map[string]string{"sliding_window": "-"}, "sliding_window is missing"},
	{"qwen3", map[string]string{"head_dim": "-"}, "head_dim is missing"}, {"qwen2",
		map[string]string{"use_sliding_window": "true", "max_window_layers": "-"}, "max_window_layers is missing"},
	{"llama", map[string]string{"hidden_size": "-1"}, "hidden_size is -1: want a whole number"},
	{"llama", map[string]string{"hidden_size": "1e300"}, "hidden_size is 1e300"},
	{"llama", map[string]string{"hidden_size": "576.5"}, "hidden_size is 576.5"},
	{"llama", map[string]string{"hidden_size": `"576"`}, `hidden_size is "576": want a number`},
	{"llama", map[string]string{"hidden_size": "577"}, "hidden_size is 577, no multiple of num_attention_heads, 9"},
	{"llama", map[string]string{"num_key_value_heads": "2"},
		"num_attention_heads is 9, no multiple"},
	{"llama", map[string]string{"num_hidden_layers": "1000000"}, "num_hidden_layers is 1000000"},
	{"llama", map[string]string{"vocab_size": "0"}, "vocab_size is 0"},
	{"llama", map[string]string{"rms_norm_eps": "0"}, "rms_norm_eps is 0"}, {"llama", map[string]string{
		"rms_norm_eps": "1e-60"}, "rms_norm_eps is 1e-60"}, {"llama", map[string]string{"rms_norm_eps": "2"},
		"rms_norm_eps is 2"},
	{"llama", map[string]string{"hidden_act": `"gelu"`}, `hidden_act is "gelu": only "silu"`},
	{"llama", map[string]string{"head_dim": "65"}, "head_dim is 65"},
	{"llama", map[string]string{"attention_bias": "true"}, "attention_bias is true"},
	{"mistral", map[string]string{"attention_bias": "true"}, "attention_bias"},
	{"qwen3", map[string]string{"attention_bias": "true"}, "attention_bias"},
	{"llama", map[string]string{"attention_bias": "1"}, "attention_bias is 1: want true or false"},
	{"llama", map[string]string{"mlp_bias": "true"}, "mlp_bias is true"},
	{"llama", map[string]string{"is_causal": "false"}, "is_causal is false"},
	{"llama", map[string]string{"tie_word_embeddings": `"yes"`}, "tie_word_embeddings"},
	{"llama", map[string]string{"quantization_config": `{"quant_method": "gptq", "bits": 4}`},
		`quantization_config is {"quant_method":"gptq","bits":4}: the weights are stored`},
	{"qwen2", map[string]string{"num_experts": "60"}, "num_experts is 60: mixtures of experts"},
	{"mistral", map[string]string{"num_local_experts": "8"}, "num_local_experts is 8"},
	{"llama", map[string]string{"auto_map": `{"AutoModel": "x.Y"}`}, "auto_map"},
	{"llama", map[string]string{"rope_interleaved": "true"}, "rope_interleaved"},
	{"llama", map[string]string{"embedding_multiplier": "12.0"}, "embedding_multiplier is 12.0"},
	{"llama", map[string]string{"draft_vocab_size": "32000"}, "draft head"},
	{"llama", map[string]string{"text_config": `{"hidden_size": 3}`}, "text_config"},
	{"llama", map[string]string{"partial_rotary_factor": "0.5"}, "partial_rotary_factor is 0.5"},
	{"llama", map[string]string{"sliding_window": "4096"}, "sliding_window is 4096: llama models"},
	{"llama", map[string]string{"rope_theta": "0"}, "rope_theta is 0"},
	{"llama", map[string]string{"rope_theta": "1e300"}, "rope_theta is 1e300"},
	{"llama", map[string]string{"rope_theta": `"high"`}, "rope_theta"},
	{"llama", map[string]string{"rope_scaling": `{"type": "dynamic", "factor": 2}`},
		`rope_scaling.rope_type is "dynamic"`}, {"llama", map[string]string{"rope_scaling": `{"factor": 2}`},
		"rope_scaling.rope_type is missing"},
	{"llama", map[string]string{"rope_scaling": `{"type": "longrope", "long_factor": [1]}`}, "longrope"},
	{"llama", map[string]string{"rope_scaling": `"yarn"`}, `rope_scaling is "yarn": want an object`},
	{"llama", map[string]string{"rope_scaling": `{"type": "linear", "rope_type": "yarn", "factor": 2}`},
		`rope_scaling.type is "linear", but rope_type is "yarn"`},
	{"llama", map[string]string{"rope_scaling": `{"type": "linear"}`}, "rope_scaling.factor is missing"},
	{"llama", map[string]string{"rope_scaling": `{"type": "linear", "factor": 0.5}`},
		"rope_scaling.factor is 0.5"},
	{"llama", map[string]string{"rope_scaling": `{"type": "linear", "factor": 2, "mscale": 1}`},
		"rope_scaling.mscale is 1: it is not understood with rope_type \"linear\""},
	{"llama", map[string]string{"rope_scaling": `{"type": "llama3", "factor": 8, "low_freq_factor": ` +
		`1, "high_freq_factor": 4}`}, "rope_scaling.original_max_position_embeddings is missing"},
	{"llama", map[string]string{"rope_scaling": `{"type": "llama3", "factor": 8, "low_freq_factor": ` +
		`4, "high_freq_factor": 4, "original_max_position_embeddings": 8192}`}, "high_freq_factor is 4"},
	{"qwen2", map[string]string{"rope_scaling": `{"type": "yarn", "factor": 4}`},
		"rope_scaling.original_max_position_embeddings is missing"},
	{"qwen2", map[string]string{"rope_scaling": `{"type": "yarn", "factor": 4, "original_max_position_embeddings": ` +
		`32768, "attention_factor": 1}`}, "attention_factor is 1: only yarn's own, 1.13863"},
	{"qwen2", map[string]string{"rope_scaling": `{"type": "yarn", "factor": 4, "original_max_position_embeddings": ` +
		`32768, "mscale_all_dim": 1}`}, "mscale_all_dim"},
	{"qwen2", map[string]string{"rope_scaling": `{"type": "default", "mrope_section": [16, 24, 24]}`}, "mrope_section"},
	{"qwen2", map[string]string{"rope_scaling": `{"type": "default"}`, "rope_parameters": `{"rope_type": "default"}`},
		"rope_scaling and rope_parameters are both there"},
	{"qwen3", map[string]string{"layer_types": `["full_attention"]`}, "want 28 names"},
	{"qwen3", map[string]string{"layer_types": layers("linear_attention")}, `"linear_attention" for layer 0`},
	{"qwen3", map[string]string{"layer_types": layers("sliding_attention")}, "there is no sliding_window in use"},
	{"llama", map[string]string{"eos_token_id": `"</s>"`}, "eos_token_id"},
	{"llama", map[string]string{"layer_types": `["sliding_attention"]`}, "layer_types"},
	{"llama", map[string]string{"num_key_value_heads": "[3, 3]"}, "num_key_value_heads is [3,3]: want a number"},
	{"llama", map[string]string{"intermediate_size": "[1536]"}, "intermediate_size is [1536]: want a number"},
	{"llama", map[string]string{"use_qk_norm": "true"}, "use_qk_norm is true: the field is not known"},
	{"qwen2", map[string]string{"attn_logit_softcap": "50.0"}, "attn_logit_softcap is 50.0: the field is not known"},
	{"qwen3", map[string]string{"num_experts_per_layer": "[1, 2]"}, "num_experts_per_layer is [1,2]"},
	{"mistral", map[string]string{"sliding_window_pattern": "6"}, "sliding_window_pattern is 6"},
	{"llama", map[string]string{"scale_depth": "1.4"}, "scale_depth is 1.4"},
	{"llama", map[string]string{"query_pre_attn_scalar": "256"}, "query_pre_attn_scalar is 256"},
}

// notConfigs are no configurations at all.
var notConfigs = []string{"", "[]", "null", "{", "\xff", `{"model_type": "llama"} x`, strings.Repeat(`{"a":`, 20000)}

// TestConfigsThatAreNotUnderstood: each is refused, and the field is named.
func TestConfigsThatAreNotUnderstood(t *testing.T) {
	for _, c := range notUnderstood {
		_, _, err := readConfig("m/config.json", changed(t, c.modelType, c.fields))
		if err == nil {
			t.Errorf("%s %v is taken", c.modelType, c.fields)
			continue
		}
		refused(t, c.modelType, err, "m/config.json", c.want)
	}
	for _, text := range notConfigs {
		if _, _, err := readConfig("m/config.json", []byte(text)); err == nil {
			t.Errorf("%.20q is taken", text)
		} else {
			refused(t, text, err, "m/config.json")
		}
	}
}

func layers(kind string) string {
	return `["` + kind + strings.Repeat(`", "`+kind, 27) + `"]`
}

// TestLayerTypesCount: layer_types wins over the older fields.
func TestLayerTypesCount(t *testing.T) {
	_, m, err := readConfig("c", changed(t, "qwen2",
		map[string]string{"use_sliding_window": "true", "max_window_layers": "21", "sliding_window": "4096",
			"layer_types": layers("full_attention")}))
	if err != nil || m.Layers[27].Mix.Window != 0 {
		t.Errorf("%+v %v", m, err)
	}
	_, m, err = readConfig("c", changed(t, "qwen2",
		map[string]string{"use_sliding_window": "true", "max_window_layers": "21", "sliding_window": "4096",
			"layer_types": layers("sliding_attention")}))
	if err != nil || m.Layers[0].Mix.Window != 4096 || m.Layers[27].Mix.Window != 4096 {
		t.Errorf("%+v %v", m, err)
	}
}

func TestNeutralFieldsAreNoReasonToRefuse(t *testing.T) {
	fields := map[string]string{}
	for key := range changing {
		fields[key] = "null"
	}
	maps.Copy(fields, map[string]string{"num_experts": "0", "auto_map": "{}", "mlp_bias": "false",
		"embedding_multiplier": "1.0", "logit_scale": "1", "pruned_heads": "{}",
		"is_causal": "true", "partial_rotary_factor": "1.0", "use_qk_norm": "false", "attn_logit_softcap": "null",
		"attention_dropout": "0.1", "_attn_implementation_autoset": "true", "use_flash_attn": "true",
		"embd_pdrop":           "0.1",
		"output_router_logits": "true", "router_aux_loss_coef": "0.001", "initializer_range": "0.02",
		"use_cache":      "true",
		"pretraining_tp": "1", "torch_dtype": `"bfloat16"`, "unsloth_fixed": "true", "is_llama_config": "true",
		"transformers.js_config": `{"kv_cache_dtype": {"q4f16": "float16"}}`, "temperature": "0.6",
		"max_length": "4096"})
	if _, _, err := readConfig("c", changed(t, "llama", fields)); err != nil {
		t.Error(err)
	}
}
