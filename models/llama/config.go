// Package llama runs models of the Llama family on a webgpu.Device: it reads their configuration from GGUF, repacks
// the weights for the device, records the forward passes and manages the KV cache through a slot table. Target
// implements spec.Target, Draft implements spec.DraftModel, and EAGLE3 drafts with an EAGLE-3 head.
package llama

import (
	"fmt"
	"slices"

	"foretoken/internal/quote"
	"foretoken/models/gguf"
	"foretoken/webgpu/kernels"
)

// Config is the shape of a model, read from its file.
type Config struct {
	Name         string
	Architecture string
	Dim          int // width of the residual stream
	Layers       int
	FFN          int // width of the gated feed-forward layer
	Heads, KV    int // query heads, key/value heads
	HeadDim      int
	Rotary       int    // leading elements of a head that rotate
	HalfSplit    bool   // element i rotates with i+Rotary/2 (NeoX layout); otherwise with its neighbour
	Window       int    // positions a token attends to, itself included; 0: all
	Slides       []bool // per layer, whether the window applies; nil: to every layer
	Bias         bool   // queries, keys and values have a bias
	HeadNorm     bool   // queries and keys are normalised per head before the rotation
	Context      int    // positions the model was trained for
	Unscaled     int    // first position whose query would need scaling, which is not implemented; 0: none
	Vocab        int    // rows of the embedding
	Eps          float64
	// Inverse frequencies of the rotary embedding in radians per position, scaling applied: (Rotary/2).
	Inverse   []float64
	Magnitude float64 // factor of rotated queries and keys; 1 except with YaRN
	Tied      bool    // the output matrix is the embedding
	Pooling   string  // how embeddings are made of the positions: "mean", "last", or "" where the file says nothing
}

// ReadConfig reads the configuration of a file. It returns an error that names the file and the field if the
// architecture or a field is not supported.
func ReadConfig(f *gguf.File) (*Config, error) {
	arch, err := f.String("general.architecture")
	if err != nil {
		return nil, err
	}
	family, ok := families[arch]
	if !ok {
		return nil, fmt.Errorf("llama: %s: general.architecture is %s; supported: %s", f.Name(), quote.Text(arch),
			familyNames())
	}
	if err := checkFields(f, arch); err != nil {
		return nil, err
	}
	r := reader{f: f, arch: arch}
	c := &Config{Architecture: arch, HalfSplit: family.halfSplit, HeadNorm: family.headNorm}
	c.Name, _ = f.StringOr("general.name", f.Name())
	c.Dim = r.count("embedding_length", 1<<16)
	c.Layers = r.count("block_count", 1<<10)
	c.FFN = r.count("feed_forward_length", 1<<20)
	c.Heads = r.count("attention.head_count", 1<<10)
	c.KV = r.countOr("attention.head_count_kv", c.Heads, 1<<10)
	c.Context = r.count("context_length", 1<<24)
	if r.err != nil {
		return nil, r.err
	}
	eps, err := f.Float32(arch + ".attention.layer_norm_rms_epsilon")
	if err != nil {
		return nil, err
	}
	c.Eps = float64(eps)
	c.HeadDim = r.countOr("attention.key_length", c.Dim/c.Heads, 1<<10)
	value := r.countOr("attention.value_length", c.HeadDim, 1<<10)
	c.Rotary = r.countOr("rope.dimension_count", c.HeadDim, 1<<10)
	if r.err != nil {
		return nil, r.err
	}
	window, err := f.Uint32Or(arch+".attention.sliding_window", 0)
	if err != nil {
		return nil, err
	}
	c.Window = int(window)
	refuse := func(field, format string, args ...any) error {
		return fmt.Errorf("llama: %s: %s.%s %s", f.Name(), arch, field, fmt.Sprintf(format, args...))
	}
	switch {
	case c.Heads%c.KV != 0:
		return nil, refuse("attention.head_count", "is %d, not a multiple of head_count_kv, %d", c.Heads, c.KV)
	case c.HeadDim%8 != 0 || c.HeadDim < 8 || c.HeadDim > 256:
		return nil, refuse("attention.key_length", "is %d; want a multiple of 8 up to 256", c.HeadDim)
	case value != c.HeadDim:
		return nil, refuse("attention.value_length", "is %d; want key_length, %d", value, c.HeadDim)
	case c.Rotary%4 != 0 || c.Rotary > c.HeadDim:
		return nil, refuse("rope.dimension_count", "is %d; want a multiple of 4 up to the head's %d", c.Rotary,
			c.HeadDim)
	case c.Dim%4 != 0:
		return nil, refuse("embedding_length", "is %d; want a multiple of 4", c.Dim)
	case !(c.Eps > 0 && c.Eps < 1):
		return nil, refuse("attention.layer_norm_rms_epsilon", "is %g; want a number between 0 and 1", c.Eps)
	}
	if err := c.readSlides(f); err != nil {
		return nil, err
	}
	if c.Pooling, err = readPooling(f, arch); err != nil {
		return nil, err
	}
	if err := c.readRope(f); err != nil {
		return nil, err
	}
	embed, err := f.Tensor("token_embd.weight")
	if err != nil {
		return nil, err
	}
	if len(embed.Dims) != 2 || embed.Dims[0] != uint64(c.Dim) || embed.Dims[1] == 0 || embed.Dims[1] > 1<<24 {
		return nil, fmt.Errorf("llama: %s: tensor token_embd.weight has dimensions %v, want %d by the vocabulary",
			f.Name(), embed.Dims, c.Dim)
	}
	c.Vocab = int(embed.Dims[1])
	c.Tied = !f.HasTensor("output.weight")
	c.Bias = family.bias == required || family.bias == optional && f.HasTensor("blk.0.attn_q.bias")
	return c, nil
}

// readSlides reads which layers use the window.
func (c *Config) readSlides(f *gguf.File) error {
	key := c.Architecture + ".attention.sliding_window_pattern"
	if f.Has(key) && !f.IsArray(key) {
		if v, ok := scalar(f, key); !ok || v != 0 {
			return fmt.Errorf("llama: %s: %s is %s; want a list of one boolean per layer", f.Name(), key,
				f.Describe(key))
		}
	} else if f.Has(key) {
		slides, err := f.Bools(key)
		if err != nil {
			return err
		}
		if len(slides) != c.Layers {
			return fmt.Errorf("llama: %s: %s has %d layers; the model has %d", f.Name(), key, len(slides), c.Layers)
		}
		switch {
		case slices.Contains(slides, true) && !f.Has(c.Architecture+".attention.sliding_window"):
			return fmt.Errorf("llama: %s: %s has layers with a window, but attention.sliding_window is missing",
				f.Name(), key)
		case !slices.Contains(slides, true):
			c.Window = 0
		case slices.Contains(slides, false):
			c.Slides = slides
		}
	}
	if c.Window >= c.Context {
		c.Window = 0 // no token has as many positions before it
	}
	if c.Window == 0 {
		c.Slides = nil
	}
	return nil
}

// poolings are the values of pooling_type, in llama.cpp's numbering. A decoder has no first position that saw the
// whole text (cls), and no scores of pairs (rank).
var poolings = map[uint32]string{0: "", 1: "mean", 3: "last"}

func readPooling(f *gguf.File, arch string) (string, error) {
	key := arch + ".pooling_type"
	n, err := f.Uint32Or(key, 0)
	if err != nil {
		return "", err
	}
	pooling, ok := poolings[n]
	if !ok {
		return "", fmt.Errorf("llama: %s: %s is %d; supported: 0 (none), 1 (mean) and 3 (last)", f.Name(), key, n)
	}
	return pooling, nil
}

// CheckVocab refuses a tokenizer of more tokens than the embedding has rows.
func (c *Config) CheckVocab(file string, tokens uint64) error {
	if tokens > uint64(c.Vocab) {
		return fmt.Errorf("llama: %s: the tokenizer has %d tokens but token_embd.weight only %d rows", file, tokens,
			c.Vocab)
	}
	return nil
}

// Usable returns the longest context that the model can run with.
func (c *Config) Usable() int {
	if c.Unscaled > 0 {
		return min(c.Context, c.Unscaled-1)
	}
	return c.Context
}

// heads returns the attention shape for the kernels.
func (c *Config) heads(kv kernels.KVFormat) kernels.Heads {
	return kernels.Heads{Query: c.Heads, KV: c.KV, Dim: c.HeadDim, Rotary: c.Rotary, HalfSplit: c.HalfSplit,
		Window: c.Window, Format: kv}
}

// reader reads counts from the metadata and remembers the first error.
type reader struct {
	f    *gguf.File
	arch string
	err  error
}

func (r *reader) countOr(field string, missing, most int) int {
	if !r.f.Has(r.arch + "." + field) {
		return missing
	}
	return r.count(field, most)
}

// count reads a number of 1 to most. A list, which some converters write for one number a layer, must say the same for
// all layers: layers of different shapes are not supported.
func (r *reader) count(field string, most int) int {
	if r.err != nil {
		return 1
	}
	key := r.arch + "." + field
	var v uint32
	if r.f.IsArray(key) {
		v, r.err = r.same(key)
	} else {
		v, r.err = r.f.Uint32(key)
	}
	if r.err == nil && (v == 0 || int64(v) > int64(most)) {
		r.err = fmt.Errorf("llama: %s: %s is %d; want 1 to %d", r.f.Name(), key, v, most)
	}
	if r.err != nil {
		return 1
	}
	return int(v)
}

func (r *reader) same(key string) (uint32, error) {
	all, err := r.f.Int32s(key)
	if err != nil {
		return 0, err
	}
	layers, err := r.f.Uint32(r.arch + ".block_count")
	if err != nil {
		return 0, err
	}
	if len(all) == 0 || uint32(len(all)) != layers {
		return 0, fmt.Errorf("llama: %s: %s is a list of %d numbers; want one, or one for each of %d layers",
			r.f.Name(), key, len(all), layers)
	}
	for i, v := range all {
		if v != all[0] || v < 0 {
			return 0, fmt.Errorf("llama: %s: %s is %d for layer %d and %d for layer 0; layers of different shapes are "+
				"not supported", r.f.Name(), key, v, i, all[0])
		}
	}
	return uint32(all[0]), nil
}
