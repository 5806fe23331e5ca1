package runner

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"foretoken/models/arch"
	"foretoken/models/gguf"
	"foretoken/models/graph"
	"foretoken/spec"
	"foretoken/webgpu"
	"foretoken/webgpu/kernels"
)

// kvOf prefixes a file's fields with an architecture's name.
func kvOf(arch string, pairs ...any) []gguf.KV {
	var out []gguf.KV
	for i := 0; i < len(pairs); i += 2 {
		out = append(out, gguf.KV{Key: arch + "." + pairs[i].(string), Value: pairs[i+1]})
	}
	return out
}

// toys cover features that the oracle's models lack.
func toys() map[string]*toy {
	yarn := kvOf("llama", "rope.scaling.type", "yarn", "rope.scaling.factor", float32(4),
		"rope.scaling.original_context_length", uint32(16))
	return map[string]*toy{
		"linear": newToy(func(t *toy) {
			t.linear, t.fields = 4, kvOf("llama", "rope.scaling.type", "linear", "rope.scaling.factor", float32(4))
		}),
		"linear by its old name": newToy(func(t *toy) {
			t.linear, t.fields = 2, kvOf("llama", "rope.scale_linear", float32(2))
		}),
		"llama3 divisors": newToy(func(t *toy) {
			t.llama3, t.freqs, t.untied = &[4]float64{8, 1, 4, 16}, true, true
		}),
		"llama3 fields": newToy(func(t *toy) {
			t.llama3 = &[4]float64{8, 1, 4, 16}
			t.fields = kvOf("llama", "rope.scaling.type", "llama3", "rope.scaling.factor", float32(8),
				"rope.scaling.low_freq_factor", float32(1),
				"rope.scaling.high_freq_factor", float32(4), "rope.scaling.original_context_length", uint32(16))
		}),
		"yarn": newToy(func(t *toy) { t.yarn, t.fields = &toyYarn{4, 16, 32, 1, 1 + 0.1*math.Log(4)}, yarn }),
		"yarn, all settings": newToy(func(t *toy) {
			t.base = 500
			t.yarn = &toyYarn{4, 16, 2, 0.25, 1.5 * (1 + 0.1*math.Log(4)) / (1 + 0.05*math.Log(4))}
			t.fields = append(kvOf("llama", "rope.scaling.yarn_beta_fast", float32(2), "rope.scaling.yarn_beta_slow",
				float32(0.25), "rope.scaling.attn_factor", float32(1.5),
				"rope.scaling.yarn_log_multiplier", float32(0.5), "rope.scaling.yarn_ext_factor", float32(1)), yarn...)
		}),
		"mistral3": newToy(func(t *toy) { // the magnitude is 1
			t.arch, t.untied, t.yarn = "mistral3", true, &toyYarn{4, 16, 32, 1, 1}
			t.fields = kvOf("mistral3", "rope.scaling.type", "yarn", "rope.scaling.factor", float32(4),
				"rope.scaling.original_context_length", uint32(16), "rope.scaling.yarn_log_multiplier", float32(1))
		}),
		"qwen2 with yarn": newToy(func(t *toy) {
			t.arch, t.bias, t.halfSplit, t.base = "qwen2", true, true, 1e6
			t.yarn = &toyYarn{2, 16, 32, 1, 1 + 0.1*math.Log(2)}
			t.fields = kvOf("qwen2", "rope.scaling.type", "yarn", "rope.scaling.factor", float32(2),
				"rope.scaling.original_context_length", uint32(16))
		}),
		"qwen3, heads wider than the stream": newToy(func(t *toy) {
			t.arch, t.norms, t.halfSplit, t.head, t.untied = "qwen3", true, true, 40, true
		}),
		"qwen3 in a window": newToy(func(t *toy) {
			t.arch, t.norms, t.halfSplit, t.window = "qwen3", true, true, 6
		}),
		"window in some layers": newToy(func(t *toy) {
			t.arch, t.bias, t.halfSplit, t.layers, t.window = "qwen2", true, true, 3, 6
			t.slides = []bool{false, true, false}
		}),
		"window":                      newToy(func(t *toy) { t.window = 5 }),
		"q8 cache":                    newToy(func(t *toy) { t.cache, t.head, t.rotary = kernels.KVQ8, 48, 48 }),
		"window of one":               newToy(func(t *toy) { t.window = 1 }),
		"biases, half a head rotated": newToy(func(t *toy) { t.bias, t.rotary, t.heads, t.kv = true, 8, 6, 3 }),
	}
}

// TestForward compares complete forward passes with float64: a prompt in chunks, then a tree whose nodes are
// compared with the plain pass over their path.
func TestForward(t *testing.T) {
	onDevices(t, func(t *testing.T, dev webgpu.Device) {
		for name, model := range toys() {
			if testing.Short() && name != "qwen2 with yarn" && name != "qwen3 in a window" {
				continue // in a browser the tests of the kernels cover the others
			}
			t.Run(name, func(t *testing.T) {
				f := model.file(t)
				m, err := LoadTarget(background, dev, f,
					graph.Options{MaxRows: 8, KV: model.cache, Tuning: untimed(t, f)})
				if err != nil {
					t.Fatal(err)
				}
				defer m.Close()
				var prompt []int32
				for i := range 37 {
					prompt = append(prompt, int32(i*i*7%model.vocab))
				}
				restart(t, m, prompt)
				tree := &spec.Tree{Tokens: []int32{3, 50, 51, 52, 60, 61, 62, 63},
					Parents: []int32{-1, 0, 0, 1, 3, 4, 5, 2}, Depths: []int32{0, 1, 1, 2, 3, 4, 5, 2},
					Scores: make([]float32, 8)}
				if _, err := verify(m, tree, spec.Sampling{}); err != nil {
					t.Fatal(err)
				}
				worst := 0.0
				for node := range tree.Tokens {
					var path []int32
					for i := int32(node); i >= 0; i = tree.Parents[i] {
						path = append([]int32{tree.Tokens[i]}, path...)
					}
					all := model.forward(append(append([]int32{}, prompt...), path...))
					want, got := all[len(all)-1], m.logitsOf(t, node)
					for id := range want {
						worst = math.Max(worst, math.Abs(want[id]-float64(got[id])))
					}
				}
				tolerance := 5e-4
				if model.cache == kernels.KVQ8 { // an element halfway between two steps may round either way
					tolerance = 5e-3
				}
				if !(worst < tolerance) {
					t.Errorf("a logit is off by %.3g", worst)
				}
				t.Logf("worst difference of a logit %.2g", worst)
			})
		}
	})
}

// TestForwardIsSensitive checks that each feature changes the reference by more than the tolerance, so that a
// device that ignores it fails.
func TestForwardIsSensitive(t *testing.T) {
	tokens := []int32{1, 5, 9, 2, 8, 3, 3, 7, 90, 11, 40, 41, 42, 43, 44, 45, 46, 47, 48, 49}
	for name, model := range toys() {
		want := model.forward(tokens)
		for what, change := range map[string]func(t *toy){
			"linear":        func(t *toy) { t.linear = 1 },
			"llama3":        func(t *toy) { t.llama3 = nil },
			"yarn":          func(t *toy) { t.yarn = nil },
			"window":        func(t *toy) { t.window = 0 },
			"window by one": func(t *toy) { t.window = max(t.window, min(t.window, 1)*(t.window+1)) },
			"magnitude": func(t *toy) {
				if t.yarn != nil {
					y := *t.yarn
					y.attention = 1
					t.yarn = &y
				}
			},
			"layers of the window": func(t *toy) { t.slides = nil },
			"rounding":             func(t *toy) { t.cache = kernels.KVF32 },
			"layout":               func(t *toy) { t.halfSplit = !t.halfSplit },
		} {
			other := *model
			change(&other)
			before, after := *model, other
			before.weights, after.weights = nil, nil
			if fmt.Sprintf("%+v", after) == fmt.Sprintf("%+v", before) ||
				what == "magnitude" && model.yarn.attention == 1 || what == "layout" && model.window == 1 {
				continue // the feature has no effect at a token that attends only to itself
			}
			got, worst := other.forward(tokens), 0.0
			for id := range got[len(tokens)-1] {
				worst = math.Max(worst, math.Abs(got[len(tokens)-1][id]-want[len(tokens)-1][id]))
			}
			if worst < 5e-3 {
				t.Errorf("%s without %s differs by %.2g only", name, what, worst)
			}
		}
	}
}

// TestRefusedFiles loads files that are broken or would run wrongly.
func TestRefusedFiles(t *testing.T) {
	with := func(arch string, pairs ...any) *toy {
		return newToy(func(t *toy) { t.arch, t.fields = arch, kvOf(arch, pairs...) })
	}
	for _, c := range []struct {
		want string
		f    *gguf.File
	}{
		{`general.architecture is "qwen9", which cannot be run; the nearest of `, with("qwen9").file(t)},
		{"Gemma cannot be run yet", with("gemma3").file(t)},
		{"llama.embedding_length is missing", with("llama").file(t, "llama.embedding_length")},
		{"llama.block_count is missing", with("llama").file(t, "llama.block_count")},
		{"llama.context_length is missing", with("llama").file(t, "llama.context_length")},
		{"llama.attention.layer_norm_rms_epsilon is missing",
			with("llama").file(t, "llama.attention.layer_norm_rms_epsilon")},
		{"llama.logit_scale is 0.25, which is not supported", with("llama", "logit_scale", float32(0.25)).file(t)},
		{"llama.attention.scale is 0.1, which is not supported",
			with("llama", "attention.scale", float32(0.1)).file(t)},
		{"llama.expert_count is 8, which is not supported", with("llama", "expert_count", uint32(8)).file(t)},
		{"llama.attention.causal is false, which is not supported", with("llama", "attention.causal", false).file(t)},
		{"llama.final_logit_softcapping is 30", with("llama", "final_logit_softcapping", float32(30)).file(t)},
		{"llama.attention.sliding_window_pattern has 3 layers; the model has 2",
			newToy(func(t *toy) { t.window, t.slides = 5, []bool{true, false, true} }).file(t)},
		{"llama.attention.sliding_window_pattern has layers with a window, but attention.sliding_window is missing",
			with("llama", "attention.sliding_window_pattern", uint32(6)).file(t)},
		{"llama.rope.scaling.alpha is 1000; the field is unknown for llama models",
			with("llama", "rope.scaling.alpha", float32(1000)).file(t)},
		{"llama.attention.temperature_scale is 0.1, which is not supported",
			with("llama", "attention.temperature_scale", float32(0.1)).file(t)},
		{`llama.rope.scaling.type is "dynamic"; supported: none, linear, llama3, yarn, longrope`,
			with("llama", "rope.scaling.type", "dynamic").file(t)},
		{"tensor \"rope_factors_short.weight\" is missing",
			with("llama", "rope.scaling.type", "longrope").file(t)},
		{`llama.rope.scaling.factor is missing; rope.scaling.type "yarn" needs it`,
			with("llama", "rope.scaling.type", "yarn").file(t)},
		{"llama.rope.scaling.low_freq_factor is missing",
			with("llama", "rope.scaling.type", "llama3", "rope.scaling.factor", float32(8)).file(t)},
		{"llama.rope.scaling.attn_factor is 2 with scaling",
			with("llama", "rope.scaling.attn_factor", float32(2)).file(t)},
		{"llama.rope.scaling.factor is 0.5",
			with("llama", "rope.scaling.type", "yarn", "rope.scaling.factor", float32(0.5)).file(t)},
		{`blk.0.attn_q.bias`, with("qwen2").file(t)},
		{`blk.0.attn_q_norm.weight`, with("qwen3").file(t)},
		{".bias is unknown in a qwen3 model",
			newToy(func(t *toy) { t.arch, t.bias, t.norms = "qwen3", true, true }).file(t)},
		{"_norm.weight is unknown in a llama model", newToy(func(t *toy) { t.norms = true }).file(t)},
		{`blk.1.attn_k.bias`, newToy(func(t *toy) { t.bias = true }).file(t, "blk.1.attn_k.bias")},
		{"tensor blk.1.attn_v.bias is unknown in a llama model",
			newToy(func(t *toy) { t.bias = true }).file(t, "blk.0.attn_q.bias", "blk.0.attn_k.bias",
				"blk.0.attn_v.bias", "blk.1.attn_q.bias", "blk.1.attn_k.bias")},
		{"tensor rope_freqs.weight[", newToy(func(t *toy) {
			t.llama3, t.freqs = &[4]float64{8, 1, 4, 16}, true
			t.fields = kvOf("llama", "rope.scaling.type", "llama3", "rope.scaling.factor", float32(4),
				"rope.scaling.low_freq_factor", float32(1),
				"rope.scaling.high_freq_factor", float32(4), "rope.scaling.original_context_length", uint32(16))
		}).file(t)},
		{"llama.attention.head_count_kv is 1 for layer 1 and 2 for layer 0",
			with("llama", "attention.head_count_kv", []int32{2, 1}).file(t)},
		{"llama.attention.head_count_kv is a list of 3 numbers",
			with("llama", "attention.head_count_kv", []int32{2, 2, 2}).file(t)},
		{"llama.feed_forward_length is -96 for layer 1",
			with("llama", "feed_forward_length", []int32{96, -96}).file(t)},
		{"llama.attention.key_length is of type array of float32",
			with("llama", "attention.key_length", []float32{16, 16}).file(t)},
		{"llama.embedding_length is 2 × int32; want one value",
			with("llama", "embedding_length", []int32{32, 32}).file(t)},
		{"llama.rope.scaling.yarn_ext_factor is 2 × float32; want one value",
			with("llama", "rope.scaling.yarn_ext_factor", []float32{1, 1}).file(t)},
		{"llama.expert_count is 2 × int32, which is not supported",
			with("llama", "expert_count", []int32{0, 8}).file(t)},
		{"llama.attn_logit_softcapping is 1 × float32, which is not supported",
			with("llama", "attn_logit_softcapping", []float32{0}).file(t)},
		{"llama.attention.sliding_window_pattern has layers with a window, but attention.sliding_window is missing",
			with("llama", "attention.sliding_window_pattern", []bool{true, false}).file(t)},
		{"llama.attention.sliding_window_pattern is of type array of int32",
			with("llama", "attention.sliding_window_pattern", []int32{1, 0}).file(t)},
		{"llama.pooling_type is 2; supported", with("llama", "pooling_type", uint32(2)).file(t)},
	} {
		_, err := Plan(c.f, graph.Options{}, webgpu.DefaultLimits())
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "toy.gguf") ||
			strings.Contains(err.Error(), "\n") {
			t.Errorf("the error is %v; want it to say %q of toy.gguf", err, c.want)
		}
	}
}

// TestFieldsThatChangeNothing loads files with known fields that have no effect.
func TestFieldsThatChangeNothing(t *testing.T) {
	f := newToy(func(t *toy) {
		t.fields = kvOf("llama", "vocab_size", uint32(96), "rope.scaling.finetuned", false, "attention.causal", true,
			"expert_count", uint32(0), "logit_scale", float32(1),
			"rope.scaling.type", "none", "tensor_data_layout", "Meta AI original pth",
			"attention.head_count_kv", []int32{2, 2}, "pooling_type", uint32(3))
	}).file(t)
	c, err := arch.Read(f, 0)
	if err != nil {
		t.Fatal(err)
	}
	a := c.Layers[0].Mix
	if a.KV != 2 || c.Pooling != "last" {
		t.Errorf("%d heads of keys, embeddings of the %q position", a.KV, c.Pooling)
	}
	if a.Rope.Magnitude != 1 || a.Window != 0 || a.Rope.Inverse[0] != 1 {
		t.Errorf("%+v", a)
	}
}

// TestTemperature checks the context limit of models that scale their queries from a position on.
func TestTemperature(t *testing.T) {
	f := newToy(func(t *toy) {
		t.arch = "mistral3"
		t.fields = kvOf("mistral3", "attention.temperature_scale", float32(0.1), "rope.scaling.type", "yarn",
			"rope.scaling.factor", float32(4), "rope.scaling.original_context_length", uint32(16))
	}).file(t)
	if m, err := Plan(f, graph.Options{}, webgpu.DefaultLimits()); err != nil || m.Context != 15 {
		t.Errorf("%+v, %v", m, err)
	}
	if _, err := Plan(f, graph.Options{Context: 16}, webgpu.DefaultLimits()); err == nil ||
		!strings.Contains(err.Error(), "mistral3.attention.temperature_scale") {
		t.Error(err)
	}
}

// TestKVFormatNames parses the output of String.
func TestKVFormatNames(t *testing.T) {
	for _, f := range []kernels.KVFormat{kernels.KVF32, kernels.KVF16, kernels.KVQ8} {
		if got, err := kernels.ParseKVFormat(f.String()); err != nil || got != f {
			t.Errorf("%s is parsed as %v, %v", f, got, err)
		}
	}
	if _, err := kernels.ParseKVFormat("q4"); err == nil || !strings.Contains(err.Error(), `"q4"`) {
		t.Error(err)
	}
}
