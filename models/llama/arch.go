package llama

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"foretoken/internal/quote"
	"foretoken/models/gguf"
)

// presence says whether the files of a family contain a kind of tensor.
type presence int

const (
	never    presence = iota // the tensor is refused, as an unknown one is
	optional                 // in all layers or in none
	required
)

// family holds the differences between architectures, named as in GGUF. The graphs follow llama.cpp's.
type family struct {
	halfSplit bool     // layout of the rotary embedding
	bias      presence // of queries, keys and values
	headNorm  bool     // queries and keys are normalised per head
}

// families are the supported architectures. SmolLM2 and Mistral files say "llama", but Mistral files since
// Ministral 3 say "mistral3".
var families = map[string]family{
	"llama":    {bias: optional},
	"mistral3": {bias: optional},
	"qwen2":    {halfSplit: true, bias: required},
	"qwen3":    {halfSplit: true, headNorm: true},
}

func familyNames() string { return strings.Join(slices.Sorted(maps.Keys(families)), ", ") }

// knownFields are the metadata fields, after the architecture's name and a dot, that ReadConfig reads or that
// change no number.
var knownFields = map[string]bool{
	"embedding_length": true, "block_count": true, "feed_forward_length": true, "context_length": true,
	"attention.head_count": true, "attention.head_count_kv": true, "attention.key_length": true,
	"attention.value_length": true, "attention.layer_norm_rms_epsilon": true, "attention.sliding_window": true,
	"attention.sliding_window_pattern": true, "rope.dimension_count": true, "rope.freq_base": true,
	"rope.scale_linear": true, "rope.scaling.type": true, "rope.scaling.factor": true,
	"rope.scaling.original_context_length": true, "rope.scaling.attn_factor": true,
	"rope.scaling.yarn_log_multiplier": true, "rope.scaling.yarn_ext_factor": true,
	"rope.scaling.yarn_beta_fast": true, "rope.scaling.yarn_beta_slow": true,
	"rope.scaling.low_freq_factor": true, "rope.scaling.high_freq_factor": true,

	"attention.temperature_scale":  true, // ReadConfig bounds the context by it
	"attention.layer_norm_epsilon": true, // of norms with a mean, which no family has
	"vocab_size":                   true, // the embedding's rows give it
	"rope.scaling.finetuned":       true, // how the model was trained
	"tensor_data_layout":           true, // a note of the converter
	"pooling_type":                 true,
	"expert_used_count":            true, // without experts it has no effect
}

// neutralFields are unsupported fields and the values at which they have no effect.
var neutralFields = map[string][]float64{
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

// perLayer are the known fields that may be lists of one value a layer. Any other list is refused.
var perLayer = map[string]bool{"feed_forward_length": true, "attention.head_count": true,
	"attention.head_count_kv": true, "attention.key_length": true, "attention.value_length": true,
	"rope.dimension_count": true, "attention.sliding_window_pattern": true}

// checkFields returns an error if a file has an unknown field, or an unsupported one with a value that matters: the
// output might differ from the model's.
func checkFields(f *gguf.File, arch string) error {
	for _, key := range f.Keys() {
		field, ok := strings.CutPrefix(key, arch+".")
		if !ok {
			continue
		}
		if knownFields[field] {
			if f.IsArray(key) && !perLayer[field] {
				return fmt.Errorf("llama: %s: %s is %s; want one value", f.Name(), quote.Name(key), f.Describe(key))
			}
			continue
		}
		allowed, ok := neutralFields[field]
		if !ok {
			return fmt.Errorf("llama: %s: %s is %s; the field is unknown for %s models, "+
				"and ignoring it might change the output", f.Name(), quote.Name(key), f.Describe(key), arch)
		}
		if v, ok := scalar(f, key); !ok || !slices.Contains(allowed, v) { // bound: 2 values
			return fmt.Errorf("llama: %s: %s is %s, which is not supported; want %g", f.Name(), quote.Name(key),
				f.Describe(key), allowed[0])
		}
	}
	return nil
}

// scalar reads a number; a boolean reads as 1 or 0.
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
