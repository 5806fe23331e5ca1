package convert

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"foretoken/internal/quote"
	"foretoken/internal/strictjson"
	"foretoken/models/arch"
	"foretoken/models/gguf"
	"foretoken/models/safetensors"
)

// shape holds a checkpoint's config.json.
type shape struct {
	name    string // the name it was saved under; may be empty
	family  string // config.json's model_type
	arch    string // general.architecture
	dim     int
	layers  int
	ffn     int
	heads   int
	kv      int
	headDim int
	vocab   int
	context int
	eps     float64
	tied    bool
	ownHead bool // head_dim is stated
	rope    rope
	window  int    // 0: every position is seen
	slides  []bool // by layer, where only some have the window
	bos     []int  // ids that config.json names
	eos     []int
	pad     []int
}

// rope holds the rotation of positions.
type rope struct {
	base     float64
	kind     string // "", linear, llama3, yarn
	factor   float64
	original int // positions before scaling
	low      float64
	high     float64
	fast     float64 // yarn's betas, 0 where they are not stated
	slow     float64
}

// families are the kinds of models that are understood, by model_type.
var families = map[string]struct{ class, arch string }{
	"llama":   {"LlamaForCausalLM", "llama"},
	"mistral": {"MistralForCausalLM", "llama"},
	"qwen2":   {"Qwen2ForCausalLM", "qwen2"},
	"qwen3":   {"Qwen3ForCausalLM", "qwen3"},
}

// interleaves reports whether llama.cpp's graph wants the rows of query and key with
// neighbouring elements rotated together.
func (s *shape) interleaves() bool { return s.arch == "llama" }

// changing lists fields that change the computation and that this package does not implement, with their meaning. A
// file that sets one to anything but null, false, 0 or empty is refused.
var changing = map[string]string{
	"quantization_config": "the weights are stored in a quantisation of their own: " +
		"take the unquantised checkpoint",
	"compression_config":       "the weights are stored in a compression of their own: take the original checkpoint",
	"auto_map":                 "the model runs code of its own",
	"text_config":              "this is a model of several media",
	"vision_config":            "this is a model of several media",
	"audio_config":             "this is a model of several media",
	"mlp_bias":                 "biases in the feed-forward layers cannot be run",
	"num_local_experts":        "mixtures of experts cannot be run",
	"num_experts":              "mixtures of experts cannot be run",
	"n_routed_experts":         "mixtures of experts cannot be run",
	"num_experts_per_tok":      "mixtures of experts cannot be run",
	"moe_intermediate_size":    "mixtures of experts cannot be run",
	"kv_lora_rank":             "latent attention cannot be run",
	"q_lora_rank":              "latent attention cannot be run",
	"draft_vocab_size":         "this is a draft head, not a model: give it with --eagle3",
	"attn_logit_softcapping":   "capped attention scores cannot be run",
	"final_logit_softcapping":  "capped logits cannot be run",
	"logit_scale":              "scaled logits cannot be run",
	"logits_scaling":           "scaled logits cannot be run",
	"embedding_multiplier":     "scaled embeddings cannot be run",
	"residual_multiplier":      "scaled residuals cannot be run",
	"attention_multiplier":     "scaled attention cannot be run",
	"clip_qkv":                 "clipped projections cannot be run",
	"alibi":                    "only rotary positions can be run",
	"use_alibi":                "only rotary positions can be run",
	"no_rope_layers":           "layers without rotary positions cannot be run",
	"no_rope_layer_interval":   "layers without rotary positions cannot be run",
	"rope_interleaved":         "the rows of query and key are in an unusual order",
	"rope_local_base_freq":     "rotary positions that differ among layers cannot be run",
	"attn_temperature_tuning":  "tempered attention cannot be run",
	"use_parallel_residual":    "parallel residuals cannot be run",
	"add_cross_attention":      "cross-attention cannot be run",
	"is_encoder_decoder":       "encoders cannot be run",
	"num_nextn_predict_layers": "layers that predict several tokens cannot be run",
	"pruned_heads":             "pruned heads cannot be run",
}

// read lists the fields that readConfig reads, and those whose effect others have.
var read = map[string]bool{"hidden_size": true, "num_hidden_layers": true, "intermediate_size": true,
	"num_attention_heads": true, "num_key_value_heads": true, "head_dim": true, "max_position_embeddings": true,
	"rms_norm_eps": true, "attention_bias": true, "rope_theta": true, "rope_scaling": true, "rope_parameters": true,
	"partial_rotary_factor": true, "sliding_window": true, "use_sliding_window": true, "max_window_layers": true,
	"layer_types": true, "hidden_act": true}

func readConfig(name string, raw []byte) (*shape, error) {
	c := &fields{name: name}
	if err := safetensors.DecodeConfig(raw, &c.values); err != nil {
		return nil, fmt.Errorf("convert: %s: not a JSON object: %s", name, quote.Error(err))
	}
	s := &shape{}
	c.family(s)
	for _, key := range slices.Sorted(maps.Keys(changing)) {
		if !c.neutral(key) {
			c.fail(key, "is %s: %s", c.text(key), changing[key])
		}
	}
	s.dim = c.count("hidden_size", 1<<16)
	s.layers = c.count("num_hidden_layers", 1<<10)
	s.ffn = c.count("intermediate_size", 1<<20)
	s.heads = c.count("num_attention_heads", 1<<10)
	s.vocab = c.count("vocab_size", 1<<22)
	s.context = c.count("max_position_embeddings", 1<<24)
	s.eps = c.positive("rms_norm_eps")
	if c.err == nil && s.eps >= 1 {
		c.fail("rms_norm_eps", "is %g: want less than 1", s.eps)
	}
	if act := c.word("hidden_act"); c.err == nil && act != "silu" {
		c.fail("hidden_act", "is %s: only \"silu\" can be run", quote.Text(act))
	}
	s.kv = s.heads
	if c.has("num_key_value_heads") || s.family != "llama" { // the llama family's own default
		s.kv = c.count("num_key_value_heads", 1<<10)
	}
	c.head(s)
	if c.flag("attention_bias") && s.arch != "qwen2" { // whose biases are part of it
		c.fail("attention_bias", "is true: biases in the attention of %s cannot be run", s.family)
	}
	if c.has("is_causal") && !c.flag("is_causal") {
		c.fail("is_causal", "is false: the model is no decoder")
	}
	s.tied = c.flag("tie_word_embeddings")
	c.rope(s)
	c.window(s)
	if c.err == nil && c.has("_name_or_path") {
		s.name = c.word("_name_or_path")
	}
	known := func(key string) bool { return read[key] || changing[key] != "" }
	if key := safetensors.UnknownField(c.values, known); key != "" {
		c.fail(key, "is %s: the field is not known, and ignoring it might change the output; take it out "+
			"if it does not", c.text(key))
	}
	s.bos, s.eos, s.pad = c.ids("bos_token_id"), c.ids("eos_token_id"), c.ids("pad_token_id")
	return s, c.err
}

// family finds out what kind of model it is.
func (c *fields) family(s *shape) {
	var classes []string
	if c.has("architectures") {
		if strictjson.DecodeForeign(c.values["architectures"], &classes) != nil || len(classes) != 1 {
			c.fail("architectures", "is %s: want a list of one name", c.text("architectures"))
			return
		}
	}
	known := "llama, mistral, qwen2 and qwen3 can be converted"
	switch {
	case c.has("model_type"):
		s.family = c.word("model_type")
	case classes != nil:
		for name, f := range families {
			if f.class == classes[0] {
				s.family = name
			}
		}
		if s.family == "" {
			c.fail("architectures", "is %s: %s", quote.Text(classes[0]), known)
		}
	default:
		c.fail("model_type", "is missing: it says what kind of model this is")
	}
	if c.err != nil {
		return
	}
	f, ok := families[s.family]
	if !ok {
		c.fail("model_type", "is %s: %s", quote.Text(s.family), known)
		return
	}
	if classes != nil && classes[0] != f.class {
		c.fail("architectures", "is %s: want %s for model_type %s", quote.Text(classes[0]), f.class, s.family)
	}
	s.arch = f.arch
}

// head reads how long a head is.
func (c *fields) head(s *shape) {
	if c.err != nil {
		return
	}
	if s.heads%s.kv != 0 {
		c.fail("num_attention_heads", "is %d, no multiple of num_key_value_heads, %d", s.heads, s.kv)
		return
	}
	switch {
	case c.has("head_dim"):
		s.headDim, s.ownHead = c.count("head_dim", 1<<12), true
	case s.family == "qwen3":
		c.fail("head_dim", "is missing: qwen3 needs it")
	case s.dim%s.heads != 0:
		c.fail("hidden_size", "is %d, no multiple of num_attention_heads, %d, and head_dim is missing", s.dim, s.heads)
	default:
		s.headDim = s.dim / s.heads
	}
	if c.err == nil && s.headDim%2 != 0 {
		c.fail("head_dim", "is %d: want an even number", s.headDim)
	}
}

// rope reads rope_theta and rope_scaling, or rope_parameters, which newer files have in
// their place. A base of 10000 for files that name none is the format's own default.
func (c *fields) rope(s *shape) {
	if c.err != nil {
		return
	}
	s.rope.base = 10000
	if c.has("rope_theta") {
		s.rope.base = c.positive("rope_theta")
	}
	for _, key := range []string{"partial_rotary_factor", "rotary_pct"} {
		if c.has(key) && c.positive(key) != 1 {
			c.fail(key, "is %s: only heads rotated whole can be run", c.text(key))
		}
	}
	key := "rope_scaling"
	if c.has("rope_parameters") {
		if c.has(key) {
			c.fail(key, "and rope_parameters are both there: take one of them out")
			return
		}
		key = "rope_parameters"
	}
	if !c.has(key) || c.err != nil {
		return
	}
	in := &fields{name: c.name, within: key + "."}
	if strictjson.DecodeForeign(c.values[key], &in.values) != nil {
		c.fail(key, "is %s: want an object", c.text(key))
		return
	}
	in.ropeScaling(s)
	c.err = in.err
}

// ropeScaling reads the object that rope_scaling or rope_parameters is.
func (c *fields) ropeScaling(s *shape) {
	r := &s.rope
	if c.has("rope_theta") {
		r.base = c.positive("rope_theta")
	}
	kind := ""
	for _, key := range []string{"rope_type", "type"} {
		if !c.has(key) {
			continue
		}
		if next := c.word(key); kind != "" && next != kind {
			c.fail(key, "is %s, but rope_type is %s", quote.Text(next), quote.Text(kind))
		} else {
			kind = next
		}
	}
	if c.has("partial_rotary_factor") && c.positive("partial_rotary_factor") != 1 {
		c.fail("partial_rotary_factor", "is %s: only heads rotated whole can be run", c.text("partial_rotary_factor"))
	}
	allowed := []string{"rope_theta", "rope_type", "type", "partial_rotary_factor"}
	switch kind {
	case "default":
	case "linear":
		allowed = append(allowed, "factor")
		r.factor = c.atLeastOne("factor")
	case "llama3":
		allowed = append(allowed, "factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings")
		r.factor = c.atLeastOne("factor")
		r.low, r.high = c.positive("low_freq_factor"), c.positive("high_freq_factor")
		r.original = c.count("original_max_position_embeddings", 1<<24)
		if c.err == nil && r.high <= r.low {
			c.fail("high_freq_factor", "is %g: want more than low_freq_factor, %g", r.high, r.low)
		}
	case "yarn":
		allowed = append(allowed, "factor", "original_max_position_embeddings", "beta_fast", "beta_slow",
			"attention_factor", "finetuned")
		r.factor = c.atLeastOne("factor")
		r.original = c.count("original_max_position_embeddings", 1<<24)
		if c.has("beta_fast") {
			r.fast = c.positive("beta_fast")
		}
		if c.has("beta_slow") {
			r.slow = c.positive("beta_slow")
		}
		// The engine runs only YaRN's own attention factor (arXiv:2309.00071, section 3.4).
		if own := 0.1*math.Log(r.factor) + 1; c.err == nil && c.has("attention_factor") &&
			math.Abs(c.positive("attention_factor")-own) > 1e-4*own {
			c.fail("attention_factor", "is %s: only yarn's own, %.6g for this factor, can be run",
				c.text("attention_factor"), own)
		}
	case "":
		c.fail("rope_type", "is missing: it says how positions are scaled")
	default:
		c.fail("rope_type", "is %s: default, linear, llama3 and yarn can be converted", quote.Text(kind))
	}
	if kind != "default" {
		r.kind = kind
	}
	for _, key := range slices.Sorted(maps.Keys(c.values)) {
		if c.has(key) && !slices.Contains(allowed, key) { // bound: 10 names
			c.fail(key, "is %s: it is not understood with rope_type %s", c.text(key), quote.Text(kind))
		}
	}
}

// window reads how far back a position sees. Qwen's layers from max_window_layers on slide, and
// only if use_sliding_window says so; layer_types says it layer by layer.
func (c *fields) window(s *shape) {
	if c.err != nil {
		return
	}
	const key = "sliding_window"
	from, stated := 0, false // the first layer that slides
	switch s.family {
	case "llama":
		if c.has(key) && c.count(key, 1<<24) < s.context {
			c.fail(key, "is %s: the llama family has no sliding window", c.text(key))
		}
	case "mistral":
		if _, there := c.values[key]; !there {
			c.fail(key, "is missing: want a number of positions, or null for none")
		}
		stated = c.has(key)
	default:
		stated = c.flag("use_sliding_window") && c.has(key)
		if stated {
			from = c.whole("max_window_layers", 1<<10)
		}
	}
	if c.err != nil || !stated {
		c.layerTypes(s, nil)
		return
	}
	s.window = c.count(key, 1<<24)
	slides := make([]bool, s.layers)
	for i := range slides {
		slides[i] = i >= from
	}
	c.layerTypes(s, slides)
	switch {
	case s.window >= s.context || !slices.Contains(slides, true): // bound: once a file
		s.window = 0
	case slices.Contains(slides, false): // bound: once a file
		s.slides = slides
	}
}

// layerTypes compares the layer list of newer files with the older fields. The list wins.
func (c *fields) layerTypes(s *shape, slides []bool) {
	const key = "layer_types"
	if !c.has(key) || c.err != nil {
		return
	}
	var kinds []string
	if strictjson.DecodeForeign(c.values[key], &kinds) != nil || len(kinds) != s.layers {
		c.fail(key, "is %s: want %d names, one a layer", c.text(key), s.layers)
		return
	}
	for i, kind := range kinds {
		switch {
		case kind == "full_attention" && slides != nil:
			slides[i] = false
		case kind == "full_attention":
		case kind == "sliding_attention" && slides != nil:
			slides[i] = true
		case kind == "sliding_attention":
			c.fail(key, "has sliding_attention for layer %d, but there is no sliding_window in use", i)
		default:
			c.fail(key, "has %s for layer %d: full_attention and sliding_attention can be converted",
				quote.Text(kind), i)
		}
	}
}

// metadata returns the keys that llama.cpp's converter writes for the configuration.
func (s *shape) metadata() []gguf.KV {
	var kv []gguf.KV
	add := func(key string, value any) { kv = append(kv, gguf.KV{Key: s.arch + "." + key, Value: value}) }
	add("block_count", uint32(s.layers))
	add("context_length", uint32(s.context))
	add("embedding_length", uint32(s.dim))
	add("feed_forward_length", uint32(s.ffn))
	add("attention.head_count", uint32(s.heads))
	add("attention.head_count_kv", uint32(s.kv))
	add("attention.layer_norm_rms_epsilon", float32(s.eps))
	if s.ownHead {
		add("attention.key_length", uint32(s.headDim))
		add("attention.value_length", uint32(s.headDim))
	}
	if s.arch == "llama" {
		add("rope.dimension_count", uint32(s.headDim))
	}
	add("vocab_size", uint32(s.vocab))
	add("rope.freq_base", float32(s.rope.base))
	if s.window > 0 {
		add("attention.sliding_window", uint32(s.window))
		if s.slides != nil {
			add("attention.sliding_window_pattern", s.slides)
		}
	}
	r := s.rope
	if r.kind == "linear" || r.kind == "yarn" {
		add("rope.scaling.type", r.kind)
		add("rope.scaling.factor", float32(r.factor))
	}
	if r.kind == "yarn" {
		add("rope.scaling.original_context_length", uint32(r.original))
		if r.fast > 0 {
			add("rope.scaling.yarn_beta_fast", float32(r.fast))
		}
		if r.slow > 0 {
			add("rope.scaling.yarn_beta_slow", float32(r.slow))
		}
	}
	return kv
}

// divisors are the values of rope_freqs.weight; nil for other scalings than Llama 3's.
func (r *rope) divisors(headDim int) []float32 {
	if r.kind != "llama3" {
		return nil
	}
	scaling := arch.Llama3{Factor: r.factor, Low: r.low, High: r.high, Original: float64(r.original)}
	out := make([]float32, headDim/2)
	for i, d := range scaling.Divisors(arch.NewRope(r.base, headDim).Inverse) {
		out[i] = float32(d)
	}
	return out
}
