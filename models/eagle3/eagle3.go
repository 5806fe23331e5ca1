// Package eagle3 reads EAGLE-3 heads in the layout in which they are published: a
// safetensors file of the weights and a config.json (Li et al., "EAGLE-3: Scaling up
// Inference Acceleration of Large Language Models via Training-Time Test", 2025).
//
// A head drafts for one target. It fuses the target's residual stream after three of its layers into a feature
// (fc), runs one decoder layer over [norm(embedding of the next token), norm(feature)] and predicts the token after
// that one over a vocabulary of its own. Package llama runs it.
package eagle3

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"

	"foretoken/internal/files"
	"foretoken/internal/quote"
	"foretoken/internal/strictjson"
	"foretoken/models/arch"
	"foretoken/models/safetensors"
)

// maxConfig is the most bytes of a config.json that are read.
const maxConfig = 1 << 20

// Config is the shape of a head, as its config.json gives it.
type Config struct {
	Name         string // of the file, for messages
	Hidden       int    // width of the head's residual stream
	TargetHidden int    // width of the target's, three of which fc reads
	FFN          int
	Heads, KV    int // query heads, and key and value heads
	HeadDim      int
	Vocab        int // of the target
	DraftVocab   int // ids that the head proposes
	Eps          float64
	Rope         *arch.Rope
	// Taps are the target's layers, counted from 0, after which its residual stream is
	// read, in fc's order. Nil: where the authors' code taps, see TapsOf.
	Taps []int
}

// Taps is the number of the target's layers that a head reads.
const Taps = 3

// TapsOf returns the target layers that the head reads, for a target with the given number of layers: those of its
// config or, as in the authors' code, the outputs of layers 1, n/2-1 and n-4 (the inputs of 2, n/2 and n-3).
func (c *Config) TapsOf(layers int) ([]int, error) {
	taps := c.Taps
	if taps == nil {
		taps = []int{1, layers/2 - 1, layers - 4}
	}
	for i, l := range taps {
		if l < 0 || l >= layers || i > 0 && l <= taps[i-1] {
			if c.Taps == nil {
				return nil, fmt.Errorf("eagle3: %s: eagle_config.eagle_aux_hidden_state_layer_ids is missing, "+
					"and a target of %d layers is too small for the usual ones", c.Name, layers)
			}
			return nil, fmt.Errorf("eagle3: %s: eagle_config.eagle_aux_hidden_state_layer_ids is %v; "+
				"a target of %d layers has 0 to %d, ascending", c.Name, taps, layers, layers-1)
		}
	}
	return taps, nil
}

// known lists the fields of a head's config.json that are read, or that change nothing in one layer without a window.
var known = map[string]bool{"hidden_size": true, "target_hidden_size": true, "intermediate_size": true,
	"num_hidden_layers": true, "num_attention_heads": true, "num_key_value_heads": true, "head_dim": true,
	"hidden_act": true, "rms_norm_eps": true, "rope_theta": true, "rope_scaling": true, "attention_bias": true,
	"max_position_embeddings": true, "max_window_layers": true}

var fullAttention = []string{"full_attention"} // layer_types of one layer without a window

// ReadConfig reads a head's config.json.
func ReadConfig(src files.Source) (*Config, error) {
	c := &Config{Name: src.Name()}
	fail := func(field, format string, args ...any) (*Config, error) {
		const most = 400 // bytes: it quotes the file, whose values may be of any length
		return nil, fmt.Errorf("eagle3: %s: %s %s", c.Name, field, quote.Escape(fmt.Sprintf(format, args...), most))
	}
	if src.Size() < 2 || src.Size() > maxConfig {
		return nil, fmt.Errorf("eagle3: %s: %d bytes; a config.json has 2 to %d", c.Name, src.Size(), maxConfig)
	}
	raw := make([]byte, src.Size())
	if err := files.ReadFull(src, raw, 0); err != nil {
		return nil, fmt.Errorf("eagle3: %s: %w", c.Name, err)
	}
	var j struct {
		Architectures []string        `json:"architectures"`
		HiddenAct     *string         `json:"hidden_act"`
		Hidden        *float64        `json:"hidden_size"`
		TargetHidden  *float64        `json:"target_hidden_size"`
		FFN           *float64        `json:"intermediate_size"`
		Layers        *float64        `json:"num_hidden_layers"`
		Heads         *float64        `json:"num_attention_heads"`
		KV            *float64        `json:"num_key_value_heads"`
		HeadDim       *float64        `json:"head_dim"`
		Vocab         *float64        `json:"vocab_size"`
		DraftVocab    *float64        `json:"draft_vocab_size"`
		Eps           *float64        `json:"rms_norm_eps"`
		Theta         *float64        `json:"rope_theta"`
		Scaling       json.RawMessage `json:"rope_scaling"`
		Bias          bool            `json:"attention_bias"`
		Eagle         struct {
			Taps []int `json:"eagle_aux_hidden_state_layer_ids"`
			Aux  *bool `json:"use_aux_hidden_state"`
		} `json:"eagle_config"`
	}
	if err := safetensors.DecodeConfig(raw, &j); err != nil {
		return nil, fmt.Errorf("eagle3: %s: not a configuration in JSON: %w", c.Name, quote.Error(err))
	}
	var all map[string]json.RawMessage
	if err := safetensors.DecodeConfig(raw, &all); err != nil {
		return nil, fmt.Errorf("eagle3: %s: not a configuration in JSON: %w", c.Name, quote.Error(err))
	}
	var kinds []string
	if strictjson.DecodeForeign(all["layer_types"], &kinds) == nil && slices.Equal(kinds, fullAttention) {
		delete(all, "layer_types")
	}
	if field := safetensors.UnknownField(all, func(name string) bool { return known[name] }); field != "" {
		return fail(quote.Name(field), "is %.200s: the field is not known, and ignoring it might change the drafts; "+
			"take it out if it does not", all[field])
	}
	if !slices.Equal(j.Architectures, []string{"LlamaForCausalLMEagle3"}) &&
		!(slices.Equal(j.Architectures, []string{"LlamaForCausalLM"}) && j.DraftVocab != nil) {
		return fail("architectures", "is %q; only LlamaForCausalLMEagle3 can be run", j.Architectures)
	}
	var err error // the first of whole's
	whole := func(field string, v *float64, missing, most int) int {
		switch {
		case err != nil:
		case v == nil && missing > 0:
			return missing
		case v == nil:
			_, err = fail(field, "is missing")
		case *v != math.Trunc(*v) || *v < 1 || *v > float64(most):
			_, err = fail(field, "is %v; want a whole number from 1 to %d", *v, most)
		default:
			return int(*v)
		}
		return 1
	}
	c.Hidden = whole("hidden_size", j.Hidden, 0, 1<<16)
	c.TargetHidden = whole("target_hidden_size", j.TargetHidden, c.Hidden, 1<<16)
	c.FFN = whole("intermediate_size", j.FFN, 0, 1<<20)
	layers := whole("num_hidden_layers", j.Layers, 1, 1<<10)
	c.Heads = whole("num_attention_heads", j.Heads, 0, 1<<10)
	c.KV = whole("num_key_value_heads", j.KV, c.Heads, 1<<10)
	c.HeadDim = whole("head_dim", j.HeadDim, max(c.Hidden/c.Heads, 1), 1<<10)
	c.Vocab = whole("vocab_size", j.Vocab, 0, 1<<24)
	c.DraftVocab = whole("draft_vocab_size", j.DraftVocab, c.Vocab, 1<<24)
	if err != nil {
		return nil, err
	}
	switch {
	case layers != 1:
		return fail("num_hidden_layers", "is %d; heads of one layer can be run", layers)
	case j.HiddenAct != nil && *j.HiddenAct != "silu":
		return fail("hidden_act", "is %q; only silu can be run", *j.HiddenAct)
	case j.Bias:
		return fail("attention_bias", "is true; heads without biases can be run")
	case j.Eagle.Aux != nil && !*j.Eagle.Aux:
		return fail("eagle_config.use_aux_hidden_state",
			"is false; only heads over three of the target's layers can be run")
	case c.Heads%c.KV != 0:
		return fail("num_attention_heads", "is %d, not a multiple of num_key_value_heads, %d", c.Heads, c.KV)
	case c.HeadDim%8 != 0 || c.HeadDim > 256:
		return fail("head_dim", "is %d; heads of 8 to 256 elements in steps of 8 can be run", c.HeadDim)
	case c.Hidden%4 != 0 || c.TargetHidden%4 != 0 || c.FFN%4 != 0:
		return fail("hidden_size", "is %d, target_hidden_size %d and intermediate_size %d; want multiples of 4",
			c.Hidden, c.TargetHidden, c.FFN)
	case c.DraftVocab > c.Vocab:
		return fail("draft_vocab_size", "is %d, more than vocab_size, %d", c.DraftVocab, c.Vocab)
	case j.Eps == nil || !(*j.Eps > 0 && *j.Eps < 1):
		return fail("rms_norm_eps", "is missing or not between 0 and 1")
	case j.Eagle.Taps != nil && len(j.Eagle.Taps) != Taps:
		return fail("eagle_config.eagle_aux_hidden_state_layer_ids", "names %d layers; want %d",
			len(j.Eagle.Taps), Taps)
	}
	c.Eps, c.Taps = *j.Eps, j.Eagle.Taps
	theta := 10000.0 // LlamaConfig's own default, which the authors' heads rely on
	if j.Theta != nil {
		theta = *j.Theta
	}
	if !(theta > 1 && theta < 1e12) {
		return fail("rope_theta", "is %v; want a number above 1", theta)
	}
	c.Rope = arch.NewRope(theta, c.HeadDim)
	return c, c.scale(j.Scaling)
}

// scale applies rope_scaling: linear, or Llama 3's.
func (c *Config) scale(raw json.RawMessage) error {
	if len(raw) == 0 || string(raw) == "null" {
		return nil
	}
	var s struct {
		Type   string  `json:"rope_type"`
		Old    string  `json:"type"` // the field's former name
		Factor float64 `json:"factor"`
		Low    float64 `json:"low_freq_factor"`
		High   float64 `json:"high_freq_factor"`
		Before float64 `json:"original_max_position_embeddings"`
	}
	if err := strictjson.DecodeForeign(raw, &s); err != nil {
		return fmt.Errorf("eagle3: %s: rope_scaling: %w", c.Name, quote.Error(err))
	}
	s.Type = cmp.Or(s.Type, s.Old)
	switch {
	case s.Type == "default":
	case s.Type != "linear" && s.Type != "llama3":
		return fmt.Errorf("eagle3: %s: rope_scaling.rope_type is %s; default, linear and llama3 can be run",
			c.Name, quote.Text(s.Type))
	case !(s.Factor >= 1 && s.Factor < 1e4):
		return fmt.Errorf("eagle3: %s: rope_scaling.factor is %v; want 1 or more", c.Name, s.Factor)
	case s.Type == "linear":
		c.Rope.Stretch(s.Factor)
	case !(s.Low > 0 && s.High > s.Low && s.Before >= 1):
		return fmt.Errorf("eagle3: %s: rope_scaling has low_freq_factor %v, high_freq_factor %v and "+
			"original_max_position_embeddings %v", c.Name, s.Low, s.High, s.Before)
	default:
		scaling := arch.Llama3{Factor: s.Factor, Low: s.Low, High: s.High, Original: s.Before}
		c.Rope.Divide(scaling.Divisors(c.Rope.Inverse))
	}
	return nil
}

// Weights is an opened head: its tensors are read by package llama.
type Weights struct {
	*Config
	File *safetensors.File
	// Targets is the target's id of each of the head's: (DraftVocab).
	Targets []int32
	// Embedding reports whether the head has an embedding of its own, (Vocab, Hidden); otherwise it uses the target's.
	Embedding bool
}

// The names of the tensors, as published. All are matrices (outputs, inputs) but the
// norms. The query, key and value projections read the embedding's half first.
const (
	FC            = "fc.weight"                                // (Hidden, 3·TargetHidden)
	Query         = "midlayer.self_attn.q_proj.weight"         // (Heads·HeadDim, 2·Hidden)
	Key           = "midlayer.self_attn.k_proj.weight"         // (KV·HeadDim, 2·Hidden)
	Value         = "midlayer.self_attn.v_proj.weight"         // (KV·HeadDim, 2·Hidden)
	Out           = "midlayer.self_attn.o_proj.weight"         // (Hidden, Heads·HeadDim)
	Gate          = "midlayer.mlp.gate_proj.weight"            // (FFN, Hidden)
	Up            = "midlayer.mlp.up_proj.weight"              // (FFN, Hidden)
	Down          = "midlayer.mlp.down_proj.weight"            // (Hidden, FFN)
	FeatureNorm   = "midlayer.hidden_norm.weight"              // (Hidden), of the feature
	EmbeddingNorm = "midlayer.input_layernorm.weight"          // (Hidden), of the embedding
	FFNNorm       = "midlayer.post_attention_layernorm.weight" // (Hidden)
	OutNorm       = "norm.weight"                              // (Hidden)
	LMHead        = "lm_head.weight"                           // (DraftVocab, Hidden)
	Embedding     = "embed_tokens.weight"                      // (Vocab, Hidden), optional
	DraftToTarget = "d2t"                                      // (DraftVocab): target id minus draft id
	TargetToDraft = "t2d"                                      // (Vocab): whether the head proposes the id
)

// Shapes returns the required shapes of the head's tensors, without d2t and t2d.
func (c *Config) Shapes() map[string][]uint64 {
	h, t, f := uint64(c.Hidden), uint64(c.TargetHidden), uint64(c.FFN)
	q, kv := uint64(c.Heads*c.HeadDim), uint64(c.KV*c.HeadDim)
	return map[string][]uint64{
		FC: {h, Taps * t}, Query: {q, 2 * h}, Key: {kv, 2 * h}, Value: {kv, 2 * h}, Out: {h, q}, Gate: {f, h},
		Up: {f, h}, Down: {h, f}, FeatureNorm: {h}, EmbeddingNorm: {h}, FFNNorm: {h}, OutNorm: {h},
		LMHead: {uint64(c.DraftVocab), h}, Embedding: {uint64(c.Vocab), h},
	}
}

// Open reads a head's configuration and its file's header, and checks that every tensor is
// there and of the right shape. The weights themselves stay in the file.
func Open(src, config files.Source) (*Weights, error) {
	c, err := ReadConfig(config)
	if err != nil {
		return nil, err
	}
	f, err := safetensors.Open(src)
	if err != nil {
		return nil, err
	}
	w := &Weights{Config: c, File: f, Embedding: f.Has(Embedding)}
	shapes := c.Shapes()
	for name, shape := range shapes {
		if name == Embedding && !w.Embedding {
			continue
		}
		t, err := f.Tensor(name, shape...)
		if err != nil {
			return nil, err
		}
		switch t.Dtype {
		case safetensors.F32, safetensors.F16, safetensors.BF16:
		default:
			return nil, fmt.Errorf("eagle3: %s: tensor %s is %s; F32, F16 and BF16 can be run", f.Name(),
				quote.Name(name), t.Dtype)
		}
	}
	for i := range f.Tensors {
		name := f.Tensors[i].Name
		if _, ok := shapes[name]; !ok && name != DraftToTarget && name != TargetToDraft &&
			!strings.HasSuffix(name, ".rotary_emb.inv_freq") {
			return nil, fmt.Errorf("eagle3: %s: tensor %s has no place in an EAGLE-3 head", f.Name(), quote.Name(name))
		}
	}
	if !w.Embedding && c.Hidden != c.TargetHidden {
		return nil, fmt.Errorf("eagle3: %s: tensor %s is missing; a head of width %d cannot take the embedding of a "+
			"target of width %d", f.Name(), Embedding, c.Hidden, c.TargetHidden)
	}
	return w, w.readVocabulary()
}

// readVocabulary reads d2t, and holds t2d against it.
func (w *Weights) readVocabulary() error {
	f := w.File
	w.Targets = make([]int32, w.DraftVocab)
	if !f.Has(DraftToTarget) {
		if w.DraftVocab != w.Vocab {
			return fmt.Errorf("eagle3: %s: tensor d2t is missing; without it draft_vocab_size, %d, "+
				"must be vocab_size, %d", f.Name(), w.DraftVocab, w.Vocab)
		}
		for i := range w.Targets {
			w.Targets[i] = int32(i)
		}
		return nil
	}
	t, err := f.Tensor(DraftToTarget, uint64(w.DraftVocab))
	if err != nil {
		return err
	}
	offsets, err := f.Ints(t)
	if err != nil {
		return err
	}
	used := make([]bool, w.Vocab)
	for i, o := range offsets {
		id := int64(i) + o
		if o < -int64(w.Vocab) || o > int64(w.Vocab) || id < 0 || id >= int64(w.Vocab) {
			return fmt.Errorf("eagle3: %s: tensor d2t: draft id %d has the offset %d, outside the vocabulary of %d",
				f.Name(), i, o, w.Vocab)
		}
		if used[id] {
			return fmt.Errorf("eagle3: %s: tensor d2t: two draft ids stand for token %d", f.Name(), id)
		}
		used[id], w.Targets[i] = true, int32(id)
	}
	if !f.Has(TargetToDraft) {
		return nil
	}
	if t, err = f.Tensor(TargetToDraft, uint64(w.Vocab)); err != nil {
		return err
	}
	mask, err := f.Bools(t)
	if err != nil {
		return err
	}
	for id, m := range mask {
		if m != used[id] {
			return fmt.Errorf("eagle3: %s: tensors d2t and t2d disagree on token %d", f.Name(), id)
		}
	}
	return nil
}
