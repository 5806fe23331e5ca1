package convert

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"foretoken/internal/quote"
	"foretoken/internal/strictjson"
	"foretoken/models/arch"
	"foretoken/models/gguf"
	"foretoken/models/safetensors"
)

// hparams holds the fields of a checkpoint's config.json.
type hparams struct {
	*fields
	arch.Checkpoint
	savedAs   string // may be empty
	modelType string // config.json's model_type
	kv        []gguf.KV
	dim       int
	layers    int
	headDim   int
	rotary    int
	vocab     int
	proposed  int    // of the vocabulary, by an EAGLE-3 head
	block     string // prefix of the tensors of a head's layer; "": namedBlock
	context   int
	tied      bool
	divisors  []tensor // of the rotary embedding's frequencies
	bos       []int    // ids that config.json names
	eos       []int
	pad       []int
}

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
	"use_bias":                 "biases cannot be run",
	"num_local_experts":        "mixtures of experts cannot be run",
	"num_experts":              "mixtures of experts cannot be run",
	"n_routed_experts":         "mixtures of experts cannot be run",
	"num_experts_per_tok":      "mixtures of experts cannot be run",
	"moe_intermediate_size":    "mixtures of experts cannot be run",
	"kv_lora_rank":             "latent attention cannot be run",
	"q_lora_rank":              "latent attention cannot be run",
	"fc_norm":                  "norms of single layers of the target cannot be run",
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
	"layer_types": true, "hidden_act": true, "no_rope_layers": true, "no_rope_layer_interval": true}

// readConfig reads a model's config.json.
func readConfig(name string, raw []byte) (*hparams, *arch.Model, error) {
	s, err := readFields(name, raw, (*hparams).findModelType)
	if err != nil {
		return nil, nil, err
	}
	given := []tensor{placeholder("token_embd.weight", s.dim, s.vocab)}
	if !s.tied {
		given = append(given, placeholder("output.weight", 1))
	}
	m, err := s.describe(name, given, func(f *gguf.File) (*arch.Model, error) { return arch.Read(f, 0) })
	return s, m, err
}

// placeholder returns a tensor of zeros.
func placeholder(name string, dims ...int) tensor {
	t := tensor{name: name, data: func(p []byte, _ int64) error { clear(p); return nil }}
	for _, n := range dims {
		t.dims = append(t.dims, uint64(n))
	}
	return t
}

// describe returns the model of a file with the checkpoint's metadata and the given tensors. Errors call it name.
func (s *hparams) describe(
	name string, given []tensor, read func(*gguf.File) (*arch.Model, error),
) (*arch.Model, error) {
	kv := append([]gguf.KV{{Key: "general.architecture", Value: s.Architecture}}, s.kv...)
	src, err := (&model{name: name, kv: kv, tensors: append(given, s.divisors...)}).source()
	if err != nil {
		return nil, err
	}
	f, err := gguf.Open(src)
	if err != nil {
		return nil, err
	}
	m, err := read(f)
	if err == nil {
		s.compare(m)
		err = s.err
	}
	return m, err
}

// compare refuses fields that the architecture does not follow.
func (s *hparams) compare(m *arch.Model) {
	if s.flag("attention_bias") && !m.Layers[0].Mix.Bias {
		s.fail("attention_bias", "is true: biases in the attention of %s cannot be run", s.modelType)
	}
	const list, interval = "no_rope_layers", "no_rope_layer_interval"
	var rotates []int // by layer, 1 or 0
	every := 0
	if !s.neutral(list) && strictjson.DecodeForeign(s.values[list], &rotates) != nil {
		s.fail(list, "is %s: want a list of 0 and 1", s.text(list))
	}
	if !s.neutral(interval) {
		every = s.count(interval, 1<<10)
	}
	for i, l := range m.Layers {
		has := l.Mix.Rope != nil
		if rotates != nil && (len(rotates) != len(m.Layers) || has != (rotates[i] == 1)) {
			s.fail(list, "is %s: the positions of %s cannot be run so", s.text(list), s.modelType)
		}
		if rotates == nil && every > 0 && has != ((i+1)%every != 0) {
			s.fail(interval, "is %d: the positions of %s cannot be run so", every, s.modelType)
		}
	}
}

func (s *hparams) add(key string, value any) {
	s.kv = append(s.kv, gguf.KV{Key: s.Architecture + "." + key, Value: value})
}

// readFields reads a config.json as the metadata that llama.cpp's converter writes for it. find sets the checkpoint's
// kind.
func readFields(name string, raw []byte, find func(*hparams)) (*hparams, error) {
	s := &hparams{fields: &fields{name: name}}
	if err := safetensors.DecodeConfig(raw, &s.values); err != nil {
		return nil, fmt.Errorf("convert: %s: not a JSON object: %s", name, quote.Error(err))
	}
	find(s)
	for key, value := range s.Defaults {
		if !s.has(key) {
			s.values[key] = json.RawMessage(value)
		}
	}
	refused := func(key string) bool {
		return changing[key] != "" && s.Numbers[key] == "" && !slices.Contains(s.Ignored, key) // bound: 7 names
	}
	for _, key := range slices.Sorted(maps.Keys(changing)) {
		if refused(key) && !s.neutral(key) {
			s.fail(key, "is %s: %s", s.text(key), changing[key])
		}
	}
	s.dim = s.count("hidden_size", 1<<16)
	s.layers = s.count("num_hidden_layers", 1<<10)
	s.vocab = s.count("vocab_size", 1<<22)
	s.context = s.count("max_position_embeddings", 1<<24)
	eps := s.positive("rms_norm_eps")
	if eps >= 1 {
		s.fail("rms_norm_eps", "is %g: want less than 1", eps)
	}
	if act := s.word("hidden_act"); act != "silu" {
		s.fail("hidden_act", "is %s: only \"silu\" can be run", quote.Text(act))
	}
	s.add("block_count", uint32(s.layers))
	s.add("context_length", uint32(s.context))
	s.add("embedding_length", uint32(s.dim))
	s.add("feed_forward_length", uint32(s.count("intermediate_size", 1<<20)))
	s.add("vocab_size", uint32(s.vocab))
	s.add("attention.layer_norm_rms_epsilon", float32(eps))
	for _, key := range slices.Sorted(maps.Keys(s.Numbers)) {
		s.add(s.Numbers[key], float32(s.positive(key)))
	}
	s.readHeads()
	if s.has("is_causal") && !s.flag("is_causal") {
		s.fail("is_causal", "is false: the model is no decoder")
	}
	s.tied = s.flag("tie_word_embeddings")
	s.readRope()
	s.readWindow()
	if s.err == nil && s.has("_name_or_path") {
		s.savedAs = s.word("_name_or_path")
	}
	known := func(key string) bool {
		return read[key] || changing[key] != "" || slices.Contains(s.Ignored, key) // bound: 7 names
	}
	if key := safetensors.UnknownField(s.values, known); key != "" {
		s.fail(key, "is %s: the field is not known, and ignoring it might change the output; take it out "+
			"if it does not", s.text(key))
	}
	s.bos, s.eos, s.pad = s.ids("bos_token_id"), s.ids("eos_token_id"), s.ids("pad_token_id")
	return s, s.err
}

// class reads the one name in architectures; "" where there is none.
func (s *hparams) class() string {
	if !s.has("architectures") {
		return ""
	}
	var classes []string
	if strictjson.DecodeForeign(s.values["architectures"], &classes) != nil || len(classes) != 1 {
		s.fail("architectures", "is %s: want a list of one name", s.text("architectures"))
		return ""
	}
	return classes[0]
}

// findModelType finds out what kind of model it is.
func (s *hparams) findModelType() {
	class, checkpoints := s.class(), arch.Checkpoints
	types := slices.Sorted(maps.Keys(checkpoints))
	last := len(types) - 1
	known := fmt.Sprintf("%s and %s can be converted", strings.Join(types[:last], ", "), types[last])
	switch {
	case s.err != nil:
	case s.has("model_type"):
		s.modelType = s.word("model_type")
	case class != "":
		for name, f := range checkpoints {
			if f.Class == class {
				s.modelType = name
			}
		}
		if s.modelType == "" {
			s.fail("architectures", "is %s: %s", quote.Text(class), known)
		}
	default:
		s.fail("model_type", "is missing: it says what kind of model this is")
	}
	if s.err != nil {
		return
	}
	f, ok := checkpoints[s.modelType]
	if !ok {
		s.fail("model_type", "is %s: %s", quote.Text(s.modelType), known)
		return
	}
	if class != "" && class != f.Class {
		s.fail("architectures", "is %s: want %s for model_type %s", quote.Text(class), f.Class, s.modelType)
	}
	s.Checkpoint = f
}

// readHeads reads the number of heads and how long one is.
func (s *hparams) readHeads() {
	heads := s.count("num_attention_heads", 1<<10)
	kv := heads
	if s.has("num_key_value_heads") || s.StatesKV {
		kv = s.count("num_key_value_heads", 1<<10)
	}
	s.add("attention.head_count", uint32(heads))
	s.add("attention.head_count_kv", uint32(kv))
	switch {
	case s.err != nil:
		return
	case heads%kv != 0:
		s.fail("num_attention_heads", "is %d, no multiple of num_key_value_heads, %d", heads, kv)
	case s.has("head_dim"):
		s.headDim = s.count("head_dim", 1<<12)
		s.add("attention.key_length", uint32(s.headDim))
		s.add("attention.value_length", uint32(s.headDim))
	case s.StatesHead:
		s.fail("head_dim", "is missing: %s needs it", s.modelType)
	case s.dim%heads != 0:
		s.fail("hidden_size", "is %d, no multiple of num_attention_heads, %d, and head_dim is missing", s.dim, heads)
	default:
		s.headDim = s.dim / heads
	}
	if s.headDim%2 != 0 {
		s.fail("head_dim", "is %d: want an even number", s.headDim)
	}
}

// readRope reads rope_theta and rope_scaling, or rope_parameters, which newer files have in their place. A base of
// 10000 for files that name none is the format's own default.
func (s *hparams) readRope() {
	base := 10000.0
	if s.has("rope_theta") {
		base = s.positive("rope_theta")
	}
	key := "rope_scaling"
	if s.has("rope_parameters") {
		if s.has(key) {
			s.fail(key, "and rope_parameters are both there: take one of them out")
		}
		key = "rope_parameters"
	}
	part := 1.0
	in := &fields{name: s.name, within: key + "."}
	if s.has(key) && s.err == nil && strictjson.DecodeForeign(s.values[key], &in.values) != nil {
		s.fail(key, "is %s: want an object", s.text(key))
	}
	for _, of := range []*fields{s.fields, in} {
		if of.has("partial_rotary_factor") {
			part = of.positive("partial_rotary_factor")
			if part != 1 && !s.PartialRope || part > 1 {
				of.fail("partial_rotary_factor", "is %s: only heads rotated whole can be run",
					of.text("partial_rotary_factor"))
			}
		}
	}
	if s.has("rotary_pct") && s.positive("rotary_pct") != 1 {
		s.fail("rotary_pct", "is %s: only heads rotated whole can be run", s.text("rotary_pct"))
	}
	if in.has("rope_theta") {
		base = in.positive("rope_theta")
	}
	s.rotary = int(part * float64(s.headDim))
	s.add("rope.freq_base", float32(base))
	s.add("rope.dimension_count", uint32(s.rotary))
	if s.LongRope {
		s.add("rope.scaling.original_context_length", uint32(s.original(in)))
	}
	if s.err == nil && in.values != nil {
		s.ropeScaling(in, base)
	}
	if s.err == nil {
		s.err = in.err
	}
}

const original = "original_max_position_embeddings"

// original reads the context length before the scaling, which models with LongRoPE may state beside rope_scaling.
func (s *hparams) original(c *fields) int {
	if s.LongRope && !c.has(original) {
		c = s.fields
	}
	return c.count(original, 1<<24)
}

// ropeScaling reads the object rope_scaling or rope_parameters.
func (s *hparams) ropeScaling(c *fields, base float64) {
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
	allowed := []string{"rope_theta", "rope_type", "type", "partial_rotary_factor"}
	if s.LongRope {
		allowed = append(allowed, original)
	}
	switch {
	case kind == "default":
	case kind == "linear":
		allowed = append(allowed, "factor")
		s.add("rope.scaling.type", kind)
		s.add("rope.scaling.factor", float32(c.atLeastOne("factor")))
	case kind == "llama3":
		allowed = append(allowed, "factor", "low_freq_factor", "high_freq_factor", original)
		scaling := arch.Llama3{Factor: c.atLeastOne("factor"), Low: c.positive("low_freq_factor"),
			High: c.positive("high_freq_factor"), Original: float64(c.count(original, 1<<24))}
		if scaling.High <= scaling.Low {
			c.fail("high_freq_factor", "is %g: want more than low_freq_factor, %g", scaling.High, scaling.Low)
		}
		s.addDivisors("rope_freqs.weight", scaling.Divisors(arch.NewRope(base, s.rotary).Inverse))
	case kind == "yarn":
		allowed = append(allowed, "factor", original, "beta_fast", "beta_slow", "attention_factor", "finetuned")
		factor := c.atLeastOne("factor")
		s.add("rope.scaling.type", kind)
		s.add("rope.scaling.factor", float32(factor))
		if !s.LongRope {
			s.add("rope.scaling.original_context_length", uint32(s.original(c)))
		}
		for _, beta := range []string{"beta_fast", "beta_slow"} {
			if c.has(beta) {
				s.add("rope.scaling.yarn_"+beta, float32(c.positive(beta)))
			}
		}
		// The engine runs only YaRN's own attention factor (arXiv:2309.00071, section 3.4).
		if own := 0.1*math.Log(factor) + 1; c.err == nil && c.has("attention_factor") &&
			math.Abs(c.positive("attention_factor")-own) > 1e-4*own {
			c.fail("attention_factor", "is %s: only yarn's own, %.6g for this factor, can be run",
				c.text("attention_factor"), own)
		}
	case (kind == "longrope" || kind == "su") && s.LongRope: // su in early files
		allowed = append(allowed, "short_factor", "long_factor")
		s.addDivisors("rope_factors_short.weight", c.list("short_factor", s.rotary/2))
		s.addDivisors("rope_factors_long.weight", c.list("long_factor", s.rotary/2))
		s.add("rope.scaling.attn_factor",
			float32(arch.LongMagnitude(float64(s.context), float64(s.original(c)))))
	case kind == "":
		c.fail("rope_type", "is missing: it says how positions are scaled")
	default:
		c.fail("rope_type", "is %s: default, linear, llama3 and yarn can be converted", quote.Text(kind))
	}
	for _, key := range slices.Sorted(maps.Keys(c.values)) {
		if c.has(key) && !slices.Contains(allowed, key) { // bound: 10 names
			c.fail(key, "is %s: it is not understood with rope_type %s", c.text(key), quote.Text(kind))
		}
	}
}

func (s *hparams) addDivisors(name string, values []float64) {
	var data []byte
	for _, v := range values {
		data = binary.LittleEndian.AppendUint32(data, math.Float32bits(float32(v)))
	}
	s.divisors = append(s.divisors, tensor{name, []uint64{uint64(len(values))}, gguf.F32, memory(data)})
}

// readWindow reads how far back a position sees. Of arch.UsedWindow, layers from max_window_layers on slide, and only
// if use_sliding_window says so; layer_types says it layer by layer.
func (s *hparams) readWindow() {
	if s.err != nil {
		return
	}
	const key = "sliding_window"
	from, stated := 0, false // the first layer that slides
	switch s.Window {
	case arch.NoWindow:
		if s.has(key) && s.count(key, 1<<24) < s.context {
			s.fail(key, "is %s: %s models have no sliding window", s.text(key), s.modelType)
		}
	case arch.StatedWindow:
		if _, there := s.values[key]; !there {
			s.fail(key, "is missing: want a number of positions, or null for none")
		}
		stated = s.has(key)
	case arch.ListedWindow:
		if stated = s.has(key); stated && !s.has("layer_types") {
			s.fail("layer_types", "is missing: it says which layers have the sliding_window")
		}
	case arch.UsedWindow:
		if stated = s.flag("use_sliding_window") && s.has(key); stated {
			from = s.whole("max_window_layers", 1<<10)
		}
	}
	if s.err != nil || !stated {
		s.layerTypes(nil)
		return
	}
	window := s.count(key, 1<<24)
	slides := make([]bool, s.layers)
	for i := range slides {
		slides[i] = i >= from
	}
	s.layerTypes(slides)
	if (window < s.context || s.Window == arch.ListedWindow) && slices.Contains(slides, true) { // bound: once a file
		s.add("attention.sliding_window", uint32(window))
		if slices.Contains(slides, false) { // bound: once a file
			s.add("attention.sliding_window_pattern", slides)
		}
	}
}

// layerTypes compares the layer list of newer files with the older fields. The list wins.
func (s *hparams) layerTypes(slides []bool) {
	const key = "layer_types"
	if !s.has(key) || s.err != nil {
		return
	}
	var kinds []string
	if strictjson.DecodeForeign(s.values[key], &kinds) != nil || len(kinds) != s.layers {
		s.fail(key, "is %s: want %d names, one a layer", s.text(key), s.layers)
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
			s.fail(key, "has sliding_attention for layer %d, but there is no sliding_window in use", i)
		default:
			s.fail(key, "has %s for layer %d: full_attention and sliding_attention can be converted",
				quote.Text(kind), i)
		}
	}
}
