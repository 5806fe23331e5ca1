package arch

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"foretoken/internal/quote"
	"foretoken/models/gguf"
)

// fields reads the metadata fields of an architecture and remembers the first error.
type fields struct {
	f       *gguf.File
	arch    string
	context int             // as Read's
	read    map[string]bool // the fields read so far, without the architecture's name
	err     error
}

// unused are the fields that change no number.
var unused = map[string]bool{
	"attention.layer_norm_epsilon": true, // of norms with a mean, which no architecture has
	"vocab_size":                   true, // the embedding's rows give it
	"rope.scaling.finetuned":       true, // how the model was trained
	"tensor_data_layout":           true, // a note of the converter
	// Without experts and without state spaces, whose tensors would be unknown, these have no effect.
	"expert_used_count": true, "expert_shared_feed_forward_length": true, "ssm.conv_kernel": true,
	"ssm.inner_size": true, "ssm.state_size": true, "ssm.time_step_rank": true, "ssm.group_count": true,
	// Of other types of scaling than the file's.
	"rope.scaling.factor": true, "rope.scaling.low_freq_factor": true, "rope.scaling.high_freq_factor": true,
	"rope.scaling.yarn_log_multiplier": true, "rope.scaling.yarn_ext_factor": true,
	"rope.scaling.yarn_beta_fast": true, "rope.scaling.yarn_beta_slow": true, "rope.scale_linear": true,
}

// neutral are fields and the values at which they have no effect. An architecture that reads one allows others.
var neutral = map[string][]float64{
	"attention.causal":              {1},
	"attention.scale":               {0},
	"attention.clamp_kqv":           {0},
	"attention.max_alibi_bias":      {0},
	"attention.temperature_scale":   {0},
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

// meanings say what a field means that has no neutral value, and what to take instead.
var meanings = map[string]string{
	"attention.causal": "the model reads texts in both directions and writes none; " + take,
	"expert_count":     "mixtures of experts cannot be run yet; " + take,
	"nextn_predict_layers": "blocks that predict several tokens (MTP) cannot be run yet; take the file of the model " +
		"without them, which has no MTP in its name",
}

// checkUnread fails if the file has a field that was not read and whose value might change the output.
func (r *fields) checkUnread() {
	for _, key := range r.f.Keys() {
		field, ok := strings.CutPrefix(key, r.arch+".")
		if !ok || r.read[field] || r.err != nil {
			continue
		}
		allowed, ok := neutral[field]
		v, single := r.scalar(key)
		switch {
		case unused[field] && r.f.IsArray(key):
			r.fail(field, "is %s; want one value", r.f.Describe(key))
		case unused[field]:
		case !ok:
			r.fail(field, "is %s; the field is unknown for %s models, and ignoring it might change the output",
				r.f.Describe(key), r.arch)
		case !single || !slices.Contains(allowed, v): // bound: 2 values
			r.fail(field, "is %s, which is not supported: %s", r.f.Describe(key),
				cmp.Or(meanings[field], fmt.Sprintf("want %g", allowed[0])))
		}
	}
}

func (r *fields) fail(field, format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf("arch: %s: %s %s", r.f.Name(), quote.Name(r.arch+"."+field), fmt.Sprintf(format, args...))
	}
}

// has reports whether the file has a field of one value, which its caller reads.
func (r *fields) has(field string) bool {
	r.read[field] = true
	key := r.arch + "." + field
	if r.f.IsArray(key) {
		r.fail(field, "is %s; want one value", r.f.Describe(key))
	}
	return r.f.Has(key)
}

// scalar reads a number; a boolean reads as 1 or 0.
func (r *fields) scalar(key string) (float64, bool) {
	if b, err := r.f.Bool(key); err == nil {
		if b {
			return 1, true
		}
		return 0, true
	}
	if n, err := r.f.Uint32(key); err == nil {
		return float64(n), true
	}
	v, err := r.f.Float32(key)
	return float64(v), err == nil
}

// get reads a field, required ones included, with a getter of the file's.
func get[T any](r *fields, field string, read func(key string) (T, error)) (v T) {
	if r.read[field] = true; r.err == nil {
		v, r.err = read(r.arch + "." + field)
	}
	return v
}

// number reads a field from least to most, which converters write as a float or as an integer.
func (r *fields) number(field string, missing, least, most float64) float64 {
	if !r.has(field) || r.err != nil {
		return missing
	}
	x, ok := r.scalar(r.arch + "." + field)
	if !ok || !(x >= least && x <= most) {
		r.fail(field, "is %s; want %g to %g", r.f.Describe(r.arch+"."+field), least, most)
	}
	return x
}

// count reads a number of 1 to most.
func (r *fields) count(field string, most int) int {
	r.has(field)
	return r.bounded(field, get(r, field, r.f.Uint32), most)
}

func (r *fields) bounded(field string, v uint32, most int) int {
	if r.err == nil && (v == 0 || int64(v) > int64(most)) {
		r.fail(field, "is %d; want 1 to %d", v, most)
	}
	if r.err != nil {
		return 1
	}
	return int(v)
}

// ofLayers reads a number of 1 to most that some converters write as a list of one number a layer. All must be the
// same: layers of different shapes are not supported.
func (r *fields) ofLayers(field string, layers, most int) int {
	if !r.f.IsArray(r.arch + "." + field) {
		return r.count(field, most)
	}
	all := get(r, field, r.f.Int32s)
	if len(all) != layers {
		r.fail(field, "is a list of %d numbers; want one, or one for each of %d layers", len(all), layers)
		return 1
	}
	for i, v := range all {
		if v != all[0] || v < 0 {
			r.fail(field, "is %d for layer %d and %d for layer 0; layers of different shapes are not supported", v, i,
				all[0])
		}
	}
	return r.bounded(field, uint32(all[0]), most)
}

func (r *fields) ofLayersOr(field string, missing, layers, most int) int {
	if !r.f.Has(r.arch + "." + field) {
		return missing
	}
	return r.ofLayers(field, layers, most)
}

// decoder reads a model that has an embedding.
func (r *fields) decoder() *Model {
	m := r.model()
	m.Vocab = r.vocab(m.Dim)
	m.Tied = !r.f.HasTensor("output.weight")
	for _, l := range m.Layers {
		l.Mix.Fused = r.f.HasTensor("blk.0.attn_qkv.weight")
	}
	return m
}

// model reads the fields that the architectures share. All layers of the result are equal, but for their windows.
func (r *fields) model() *Model {
	m := &Model{Architecture: r.arch, Embed: 1, Residual: 1, Logit: 1}
	m.Name, _ = r.f.StringOr("general.name", r.f.Name())
	m.Dim = r.count("embedding_length", 1<<16)
	m.Context = r.count("context_length", 1<<24)
	m.Layers = make([]Layer, r.count("block_count", 1<<10))
	n := len(m.Layers)
	width := r.ofLayers("feed_forward_length", n, 1<<20)
	a := Attention{Query: r.ofLayers("attention.head_count", n, 1<<10)}
	a.KV = r.ofLayersOr("attention.head_count_kv", a.Query, n, 1<<10)
	a.Dim = r.ofLayersOr("attention.key_length", m.Dim/a.Query, n, 1<<10)
	value := r.ofLayersOr("attention.value_length", a.Dim, n, 1<<10)
	a.Rotary = r.ofLayersOr("rope.dimension_count", a.Dim, n, 1<<10)
	m.Eps = float64(get(r, "attention.layer_norm_rms_epsilon", r.f.Float32))
	switch {
	case a.Query%a.KV != 0:
		r.fail("attention.head_count", "is %d, not a multiple of head_count_kv, %d", a.Query, a.KV)
	case a.Dim%8 != 0 || a.Dim < 8 || a.Dim > 256:
		r.fail("attention.key_length", "is %d; want a multiple of 8 up to 256", a.Dim)
	case value != a.Dim:
		r.fail("attention.value_length", "is %d; want key_length, %d", value, a.Dim)
	case a.Rotary%4 != 0 || a.Rotary > a.Dim:
		r.fail("rope.dimension_count", "is %d; want a multiple of 4 up to the head's %d", a.Rotary, a.Dim)
	case m.Dim%4 != 0:
		r.fail("embedding_length", "is %d; want a multiple of 4", m.Dim)
	case !(m.Eps > 0 && m.Eps < 1):
		r.fail("attention.layer_norm_rms_epsilon", "is %g; want a number between 0 and 1", m.Eps)
	}
	a.Rope = r.rope(a.Rotary, m.Context)
	windows := r.windows(n)
	for i := range m.Layers {
		layer := a
		layer.Window = windows[i]
		m.Layers[i] = Layer{Mix: &layer, FFN: &Gated{Width: width}, Norms: Norms{Before: true}}
	}
	m.Pooling = r.pooling()
	return m
}

// vocab returns the rows of the embedding.
func (r *fields) vocab(dim int) int {
	if r.err != nil {
		return 1
	}
	embed, err := r.f.Tensor("token_embd.weight")
	if err != nil {
		r.err = err
		return 1
	}
	if len(embed.Dims) != 2 || embed.Dims[0] != uint64(dim) || embed.Dims[1] == 0 || embed.Dims[1] > 1<<24 {
		r.err = fmt.Errorf("arch: %s: tensor token_embd.weight has dimensions %v, want %d by the vocabulary",
			r.f.Name(), embed.Dims, dim)
		return 1
	}
	return int(embed.Dims[1])
}

const (
	windowSize    = "attention.sliding_window"
	windowPattern = "attention.sliding_window_pattern"
)

// windows reads the window of each layer. A pattern is a list, or a number n: every n-th layer then has no window.
func (r *fields) windows(layers int) []int {
	window := 0
	if r.has(windowSize) {
		window = int(get(r, windowSize, r.f.Uint32))
	}
	all, slides := slices.Repeat([]int{window}, layers), slices.Repeat([]bool{r.has(windowSize)}, layers)
	key := r.arch + "." + windowPattern
	switch {
	case r.f.IsArray(key):
		slides = get(r, windowPattern, r.f.Bools)
	case r.f.Has(key):
		if every := get(r, windowPattern, r.f.Uint32); every > 0 {
			for i := range slides {
				slides[i] = uint32(i)%every != every-1
			}
		}
	}
	switch {
	case r.err != nil:
	case len(slides) != layers:
		r.fail(windowPattern, "has %d layers; the model has %d", len(slides), layers)
	case slices.Contains(slides, true) && !r.has(windowSize):
		r.fail(windowPattern, "has layers with a window, but attention.sliding_window is missing")
	default:
		for i, slide := range slides {
			if !slide {
				all[i] = 0
			}
		}
	}
	return all
}

// sections reads how many pairs of a head rotate by the time, the row and the column of a token. A fourth number counts
// the pairs of a position that text does not have.
func (r *fields) sections(pairs int) {
	const field = "rope.dimension_sections"
	sizes, sum := get(r, field, r.f.Int32s), int64(0)
	for i, n := range sizes {
		if sum += int64(n); n < 0 || i > 2 && n > 0 {
			sum = -1
			break
		}
	}
	if r.err == nil && sum != int64(pairs) {
		r.fail(field, "is %s; want three numbers that add up to the %d pairs of a head", r.f.Describe(r.arch+"."+field),
			pairs)
	}
}

// scales reads the factors of the matrices that have one, as files of BitNet may.
func (r *fields) scales(m *Model) map[string]float64 {
	all := map[string]float64{}
	for t := range m.Tensors() {
		if name := scaleOf(t.GGUF); t.Kind.scalable() && r.f.HasTensor(name) {
			if x := r.positives(name, 1); r.err == nil {
				all[t.GGUF] = x[0]
			}
		}
	}
	return all
}

// poolings are the values of pooling_type, in llama.cpp's numbering. A decoder has no first position that saw the
// whole text (cls), and no scores of pairs (rank).
var poolings = map[uint32]string{0: "", 1: "mean", 3: "last"}

func (r *fields) pooling() string {
	const field = "pooling_type"
	if !r.has(field) {
		return ""
	}
	n := get(r, field, r.f.Uint32)
	pooling, ok := poolings[n]
	if !ok {
		r.fail(field, "is %d; supported: 0 (none), 1 (mean) and 3 (last)", n)
	}
	return pooling
}
