package convert

import (
	"fmt"
	"strings"

	"foretoken/internal/quote"
	"foretoken/models/arch"
	"foretoken/models/gguf"
	"foretoken/models/safetensors"
)

// storedTypes are the types of weights that are converted.
var storedTypes = map[safetensors.Dtype]gguf.Type{safetensors.F32: gguf.F32, safetensors.F16: gguf.F16,
	safetensors.BF16: gguf.BF16}

// derived reports whether a checkpoint's tensor repeats what the configuration or d2t determines: frequencies and masks
// saved by old versions, and an output matrix where the embedding is tied.
func (s *hparams) derived(name string) bool {
	return strings.HasSuffix(name, ".rotary_emb.inv_freq") || strings.HasSuffix(name, ".self_attn.masked_bias") ||
		s.tied && name == "lm_head.weight" || name == targetToDraft
}

// addWeights finds every tensor of the described model in the checkpoint and refuses tensors that the model has no
// place for.
func (m *model) addWeights(f *safetensors.File, s *hparams, described *arch.Model) error {
	used := map[string]bool{}
	m.tensors = append(m.tensors, s.divisors...)
	for w := range described.Tensors() {
		name := s.published(w.HF)
		again := used[name]
		used[name] = true
		if again || w.Kind == arch.Header { // other columns of the same tensor, or one that was converted before
			continue
		}
		if w.Kind == arch.Output && !f.Has(name) {
			return fmt.Errorf("convert: %s: tensor %s is missing, and tie_word_embeddings in config.json "+
				"is not true: one of the two files is of another model", f.Name(), name)
		}
		shape, dims := make([]uint64, len(w.Shape)), make([]uint64, len(w.Shape))
		for i, n := range w.Shape {
			shape[i], dims[len(dims)-1-i] = uint64(n), uint64(n)
		}
		t, err := f.Tensor(name, shape...)
		if err != nil {
			return err
		}
		typ, ok := storedTypes[t.Dtype]
		if !ok {
			return fmt.Errorf("convert: %s: tensor %s is %s: F32, F16 and BF16 can be converted", f.Name(),
				quote.Text(name), t.Dtype)
		}
		out := tensor{w.GGUF, dims, typ, func(p []byte, off int64) error { return f.Read(t, p, off) }}
		if w.Heads > 0 && !s.Paired {
			rows := int64(w.Shape[0])
			out.data = (&interleaved{from: out.data, rowBytes: t.Size / rows, headRows: rows / int64(w.Heads)}).readAt
		}
		if len(dims) == 1 {
			out.store(gguf.F32, 0)
		}
		m.tensors = append(m.tensors, out)
	}
	for i := range f.Tensors {
		if name := f.Tensors[i].Name; !used[name] && !s.derived(name) {
			return fmt.Errorf("convert: %s: tensor %s has no place in a model of type %s with %d layers: "+
				"it cannot be run", f.Name(), quote.Text(name), s.modelType, s.layers)
		}
	}
	return nil
}

// store changes the type of a tensor, and multiplies its elements by times unless that is 0.
func (t *tensor) store(typ gguf.Type, times float32) {
	if t.typ != typ {
		t.data, t.typ = (&recoded{from: t.data, stored: t.typ, to: typ, times: times}).readAt, typ
	}
}

// fileType is general.file_type for the type that most of the weights have.
func (m *model) fileType() uint32 {
	count := map[gguf.Type]uint64{}
	most := gguf.F32
	for _, t := range m.tensors {
		n := uint64(1)
		for _, d := range t.dims {
			n *= d
		}
		if count[t.typ] += n; count[t.typ] > count[most] {
			most = t.typ
		}
	}
	return fileTypes[most]
}
