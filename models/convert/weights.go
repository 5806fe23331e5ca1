package convert

import (
	"fmt"
	"strings"

	"foretoken/internal/quote"
	"foretoken/models/gguf"
	"foretoken/models/quant"
	"foretoken/models/safetensors"
)

// storedTypes are the types of weights that are converted.
var storedTypes = map[safetensors.Dtype]gguf.Type{safetensors.F32: gguf.F32, safetensors.F16: gguf.F16,
	safetensors.BF16: gguf.BF16}

// weight says where a tensor of the GGUF file comes from.
type weight struct {
	name, from string
	shape      []uint64 // outermost first, as the checkpoint has it
	heads      int      // whose rows are interleaved; 0 for none
}

// weights lists the model's tensors in the order of the file.
func (s *shape) weights() []weight {
	n := func(x int) uint64 { return uint64(x) }
	query, keys := s.heads*s.headDim, s.kv*s.headDim
	qHeads, kvHeads := 0, 0
	if s.interleaves() {
		qHeads, kvHeads = s.heads, s.kv
	}
	all := []weight{{"token_embd.weight", "model.embed_tokens.weight", []uint64{n(s.vocab), n(s.dim)}, 0}}
	for l := range s.layers {
		add := func(name, from string, heads int, shape ...uint64) {
			all = append(all,
				weight{fmt.Sprintf("blk.%d.%s", l, name), fmt.Sprintf("model.layers.%d.%s", l, from), shape, heads})
		}
		add("attn_norm.weight", "input_layernorm.weight", 0, n(s.dim))
		add("attn_q.weight", "self_attn.q_proj.weight", qHeads, n(query), n(s.dim))
		add("attn_k.weight", "self_attn.k_proj.weight", kvHeads, n(keys), n(s.dim))
		add("attn_v.weight", "self_attn.v_proj.weight", 0, n(keys), n(s.dim))
		switch s.arch {
		case "qwen2":
			add("attn_q.bias", "self_attn.q_proj.bias", 0, n(query))
			add("attn_k.bias", "self_attn.k_proj.bias", 0, n(keys))
			add("attn_v.bias", "self_attn.v_proj.bias", 0, n(keys))
		case "qwen3":
			add("attn_q_norm.weight", "self_attn.q_norm.weight", 0, n(s.headDim))
			add("attn_k_norm.weight", "self_attn.k_norm.weight", 0, n(s.headDim))
		}
		add("attn_output.weight", "self_attn.o_proj.weight", 0, n(s.dim), n(query))
		add("ffn_norm.weight", "post_attention_layernorm.weight", 0, n(s.dim))
		add("ffn_gate.weight", "mlp.gate_proj.weight", 0, n(s.ffn), n(s.dim))
		add("ffn_up.weight", "mlp.up_proj.weight", 0, n(s.ffn), n(s.dim))
		add("ffn_down.weight", "mlp.down_proj.weight", 0, n(s.dim), n(s.ffn))
	}
	all = append(all, weight{"output_norm.weight", "model.norm.weight", []uint64{n(s.dim)}, 0})
	if !s.tied {
		all = append(all, weight{"output.weight", "lm_head.weight", []uint64{n(s.vocab), n(s.dim)}, 0})
	}
	return all
}

// derived reports whether a checkpoint's tensor repeats what the configuration determines: frequencies and masks
// saved by old versions, and an output matrix where the embedding is tied.
func (s *shape) derived(name string) bool {
	return strings.HasSuffix(name, ".rotary_emb.inv_freq") || strings.HasSuffix(name, ".self_attn.masked_bias") ||
		s.tied && name == "lm_head.weight"
}

// addWeights finds every tensor of the model in the checkpoint and refuses tensors that the model has no place for.
func (m *model) addWeights(f *safetensors.File, s *shape) error {
	used := map[string]bool{}
	if d := s.rope.divisors(s.headDim); d != nil {
		data := make([]byte, 4*len(d))
		if err := quant.Quantize(gguf.F32, d, data); err != nil {
			return fmt.Errorf("convert: %s: rope_freqs.weight: %w", m.name, err)
		}
		m.tensors = append(m.tensors, tensor{"rope_freqs.weight", []uint64{uint64(len(d))}, gguf.F32, memory(data)})
	}
	for _, w := range s.weights() {
		if w.from == "lm_head.weight" && !f.Has(w.from) {
			return fmt.Errorf("convert: %s: tensor lm_head.weight is missing, and tie_word_embeddings in config.json "+
				"is not true: one of the two files is of another model", f.Name())
		}
		t, err := f.Tensor(w.from, w.shape...)
		if err != nil {
			return err
		}
		used[w.from] = true
		typ, ok := storedTypes[t.Dtype]
		if !ok {
			return fmt.Errorf("convert: %s: tensor %s is %s: F32, F16 and BF16 can be converted", f.Name(),
				quote.Text(w.from), t.Dtype)
		}
		dims := make([]uint64, len(w.shape))
		for i, n := range w.shape {
			dims[len(dims)-1-i] = n
		}
		out := tensor{w.name, dims, typ, func(p []byte, off int64) error { return f.Read(t, p, off) }}
		if w.heads > 0 {
			rows := int64(w.shape[0])
			out.data = (&interleaved{from: out.data, rowBytes: t.Size / rows, headRows: rows / int64(w.heads)}).readAt
		}
		if len(dims) == 1 && typ != gguf.F32 {
			out.data, out.typ = (&recoded{from: out.data, stored: typ, to: gguf.F32}).readAt, gguf.F32
		}
		m.tensors = append(m.tensors, out)
	}
	for i := range f.Tensors {
		if name := f.Tensors[i].Name; !used[name] && !s.derived(name) {
			return fmt.Errorf("convert: %s: tensor %s has no place in a model of type %s with %d layers: "+
				"it cannot be run", f.Name(), quote.Text(name), s.family, s.layers)
		}
	}
	return nil
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
