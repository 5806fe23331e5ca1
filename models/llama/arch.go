package llama

import (
	"fmt"
	"slices"
	"strings"

	"foretoken/models/gguf"
)

// presence says whether a family's files have a kind of tensor.
type presence int

const (
	never    presence = iota // one that is there is refused, like any tensor without a place
	optional                 // all layers have it, or none
	required
)

// family is how an architecture differs from the others: by GGUF's names for them, as llama.cpp
// builds their graphs.
type family struct {
	halfSplit bool     // the rotary embedding's layout
	bias      presence // of queries, keys and values
	headNorm  bool     // queries and keys are normalised head by head
}

// families are the architectures that can be run. SmolLM2 and Mistral files say "llama", but for
// Mistral's since Ministral 3, which say "mistral3".
var families = map[string]family{
	"llama":    {bias: optional},
	"mistral3": {bias: optional},
	"qwen2":    {halfSplit: true, bias: required},
	"qwen3":    {halfSplit: true, headNorm: true},
}

func familyNames() string {
	var names []string
	for name := range families {
		names = append(names, name)
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// known are the fields that ReadConfig reads, and those that change no number: after the architecture's name and a dot.
var known = map[string]bool{
	"embedding_length": true, "block_count": true, "feed_forward_length": true, "context_length": true,
	"attention.head_count": true, "attention.head_count_kv": true, "attention.key_length": true, "attention.value_length": true,
	"attention.layer_norm_rms_epsilon": true, "attention.sliding_window": true, "attention.sliding_window_pattern": true,
	"rope.dimension_count": true, "rope.freq_base": true, "rope.scale_linear": true, "rope.scaling.type": true, "rope.scaling.factor": true,
	"rope.scaling.original_context_length": true, "rope.scaling.attn_factor": true, "rope.scaling.yarn_log_multiplier": true,
	"rope.scaling.yarn_ext_factor": true, "rope.scaling.yarn_beta_fast": true, "rope.scaling.yarn_beta_slow": true,
	"rope.scaling.low_freq_factor": true, "rope.scaling.high_freq_factor": true,

	"attention.temperature_scale":  true, // ReadConfig bounds the context by it
	"attention.layer_norm_epsilon": true, // of norms with a mean, which none of the families has
	"vocab_size":                   true, // the embedding's rows say how many there are
	"rope.scaling.finetuned":       true, // how the scaling came about
	"tensor_data_layout":           true, // what the converter did
	"pooling_type":                 true, // of embeddings, which are not made
	"expert_used_count":            true, // means nothing without experts, of which there are none
}

// neutral are fields that are not implemented, with the values that change nothing.
var neutral = map[string][]float64{
	"attention.causal":              {1},
	"attention.scale":               {0},
	"attention.clamp_kqv":           {0},
	"attention.max_alibi_bias":      {0},
	"attn_logit_softcapping":        {0},
	"final_logit_softcapping":       {0},
	"logit_scale":                   {0, 1},
	"residual_scale":                {0, 1},
	"embedding_scale":               {0, 1},
	"use_parallel_residual":         {0},
	"expert_count":                  {0},
	"nextn_predict_layers":          {0},
	"rope.scaling.yarn_attn_factor": {1},
}

// checkFields refuses a file with a field that is not known here, or known and not implemented: without it the
// numbers might be others than the model's.
func checkFields(f *gguf.File, arch string) error {
	for _, key := range f.Keys() {
		field, ok := strings.CutPrefix(key, arch+".")
		if !ok || known[field] {
			continue
		}
		allowed, ok := neutral[field]
		if !ok {
			return fmt.Errorf("llama: %s: %s is %s; the field is not known for %s models, and running without it might change the text", f.Name(), key, f.Describe(key), arch)
		}
		if v, ok := scalar(f, key); !ok || !slices.Contains(allowed, v) {
			return fmt.Errorf("llama: %s: %s is %s, which cannot be run; models without it, or with %g, can", f.Name(), key, f.Describe(key), allowed[0])
		}
	}
	return nil
}

// scalar is a number, or 1 or 0 for a truth value.
func scalar(f *gguf.File, key string) (float64, bool) {
	if b, err := f.Bool(key); err == nil {
		if b {
			return 1, true
		}
		return 0, true
	}
	if n, err := f.Uint32(key); err == nil {
		return float64(n), true
	}
	v, err := f.Float32(key)
	return float64(v), err == nil
}
