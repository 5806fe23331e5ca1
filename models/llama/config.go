// Package llama runs models of the Llama architecture on a webgpu.Device: it
// reads their configuration from GGUF, repacks their weights onto the device,
// records the forward passes and keeps the KV cache with its slot table. A
// Model is a spec.RejectionTarget and a spec.SamplingDraft.
package llama

import (
	"fmt"
	"math"

	"foretoken/models/gguf"
	"foretoken/webgpu/kernels"
)

// Config is the shape of a model, as its file gives it.
type Config struct {
	Name         string
	Architecture string
	Dim          int // of the residual stream
	Layers       int
	FFN          int // of the gated feed-forward layer
	Heads, KV    int // query heads, and key and value heads
	HeadDim      int
	Rotary       int // leading elements of a head that are rotated
	Context      int // positions the model was trained for
	Vocab        int // rows of the embedding
	Eps          float64
	// Inverse frequencies of the rotary embedding, radians a position, scaling
	// applied: (Rotary/2).
	Inverse []float64
	Tied    bool // the output matrix is the embedding
}

// ReadConfig reads the configuration of a llama-architecture file. Errors name
// the file and the field.
func ReadConfig(f *gguf.File) (*Config, error) {
	arch, err := f.String("general.architecture")
	if err != nil {
		return nil, err
	}
	if arch != "llama" {
		return nil, fmt.Errorf("llama: %s: general.architecture is %q; only \"llama\" can be run", f.Name(), arch)
	}
	r := reader{f: f, arch: arch}
	c := &Config{Architecture: arch}
	c.Name, _ = f.StringOr("general.name", f.Name())
	c.Dim = r.count("embedding_length", 1<<16)
	c.Layers = r.count("block_count", 1<<10)
	c.FFN = r.count("feed_forward_length", 1<<20)
	c.Heads = r.count("attention.head_count", 1<<10)
	c.KV = r.countOr("attention.head_count_kv", c.Heads, 1<<10)
	c.Context = r.count("context_length", 1<<24)
	c.Eps = r.float("attention.layer_norm_rms_epsilon")
	if r.err != nil {
		return nil, r.err
	}
	c.HeadDim = r.countOr("attention.key_length", c.Dim/c.Heads, 1<<10)
	value := r.countOr("attention.value_length", c.HeadDim, 1<<10)
	c.Rotary = r.countOr("rope.dimension_count", c.HeadDim, 1<<10)
	experts := r.zeroOr("expert_count")
	if r.err != nil {
		return nil, r.err
	}
	refuse := func(field, format string, args ...any) error {
		return fmt.Errorf("llama: %s: %s.%s %s", f.Name(), arch, field, fmt.Sprintf(format, args...))
	}
	switch {
	case c.Heads%c.KV != 0:
		return nil, refuse("attention.head_count", "is %d, not a multiple of head_count_kv, %d", c.Heads, c.KV)
	case c.HeadDim%8 != 0 || c.HeadDim < 8 || c.HeadDim > 256:
		return nil, refuse("attention.key_length", "is %d; heads of 8 to 256 elements in steps of 8 can be run", c.HeadDim)
	case value != c.HeadDim:
		return nil, refuse("attention.value_length", "is %d but key_length is %d; only equal lengths can be run", value, c.HeadDim)
	case c.Rotary%4 != 0 || c.Rotary > c.HeadDim:
		return nil, refuse("rope.dimension_count", "is %d; want a multiple of 4 up to the head's %d", c.Rotary, c.HeadDim)
	case c.Dim%4 != 0:
		return nil, refuse("embedding_length", "is %d; want a multiple of 4", c.Dim)
	case experts > 0:
		return nil, refuse("expert_count", "is %d; mixtures of experts cannot be run", experts)
	case !(c.Eps > 0 && c.Eps < 1):
		return nil, refuse("attention.layer_norm_rms_epsilon", "is %g; want a number between 0 and 1", c.Eps)
	}
	if c.Inverse, err = frequencies(f, arch, c.Rotary); err != nil {
		return nil, err
	}
	embed, err := f.Tensor("token_embd.weight")
	if err != nil {
		return nil, err
	}
	if len(embed.Dims) != 2 || embed.Dims[0] != uint64(c.Dim) || embed.Dims[1] == 0 || embed.Dims[1] > 1<<24 {
		return nil, fmt.Errorf("llama: %s: tensor token_embd.weight has dimensions %v, want %d by the vocabulary", f.Name(), embed.Dims, c.Dim)
	}
	c.Vocab = int(embed.Dims[1])
	c.Tied = !f.HasTensor("output.weight")
	return c, nil
}

// frequencies gives the rotary embedding's inverse frequencies. The base of 10000
// for files that do not name one is GGUF's own default.
func frequencies(f *gguf.File, arch string, rotary int) ([]float64, error) {
	base, err := f.Float32Or(arch+".rope.freq_base", 10000)
	if err != nil {
		return nil, err
	}
	if !(base > 1 && base < 1e12) {
		return nil, fmt.Errorf("llama: %s: %s.rope.freq_base is %g; want a number above 1", f.Name(), arch, base)
	}
	kind, err := f.StringOr(arch+".rope.scaling.type", "none")
	if err != nil {
		return nil, err
	}
	scale := float32(1)
	switch kind {
	case "none":
	case "linear":
		if scale, err = f.Float32(arch + ".rope.scaling.factor"); err != nil {
			return nil, err
		}
		if !(scale >= 1 && scale < 1e4) {
			return nil, fmt.Errorf("llama: %s: %s.rope.scaling.factor is %g; want 1 or more", f.Name(), arch, scale)
		}
	default:
		return nil, fmt.Errorf("llama: %s: %s.rope.scaling.type is %q; none and linear can be run", f.Name(), arch, kind)
	}
	inverse := make([]float64, rotary/2)
	for i := range inverse {
		inverse[i] = math.Pow(float64(base), -2*float64(i)/float64(rotary)) / float64(scale)
	}
	if !f.HasTensor("rope_freqs.weight") { // Llama 3 files carry one divisor a frequency
		return inverse, nil
	}
	factors, err := readVector(f, "rope_freqs.weight", rotary/2)
	if err != nil {
		return nil, err
	}
	for i, d := range factors {
		if !(d > 0) {
			return nil, fmt.Errorf("llama: %s: tensor rope_freqs.weight[%d] is %g; want a positive divisor", f.Name(), i, d)
		}
		inverse[i] /= float64(d)
	}
	return inverse, nil
}

// heads is the attention shape for the kernels.
func (c *Config) heads(kv kernels.KVFormat) kernels.Heads {
	return kernels.Heads{Query: c.Heads, KV: c.KV, Dim: c.HeadDim, Rotary: c.Rotary, Format: kv}
}

// reader reads metadata fields and keeps the first error.
type reader struct {
	f    *gguf.File
	arch string
	err  error
}

func (r *reader) count(field string, most int) int { return r.read(field, 0, false, most) }

func (r *reader) countOr(field string, missing, most int) int {
	return r.read(field, missing, true, most)
}

func (r *reader) read(field string, missing int, optional bool, most int) int {
	key := r.arch + "." + field
	if r.err != nil || optional && !r.f.Has(key) {
		return missing
	}
	v, err := r.f.Uint32(key)
	if err == nil && (v == 0 || int64(v) > int64(most)) {
		err = fmt.Errorf("llama: %s: %s is %d; want 1 to %d", r.f.Name(), key, v, most)
	}
	if err != nil {
		r.err = err
		return 1
	}
	return int(v)
}

func (r *reader) zeroOr(field string) uint32 {
	if r.err != nil {
		return 0
	}
	v, err := r.f.Uint32Or(r.arch+"."+field, 0)
	r.err = err
	return v
}

func (r *reader) float(field string) float64 {
	if r.err != nil {
		return 0
	}
	v, err := r.f.Float32(r.arch + "." + field)
	r.err = err
	return float64(v)
}
