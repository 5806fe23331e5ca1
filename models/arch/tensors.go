package arch

import (
	"fmt"
	"iter"
	"slices"
)

// Tensor is one tensor of a model's file.
type Tensor struct {
	GGUF     string
	HF       string // its name in Hugging Face's files
	Layer    int    // 0 for those of no layer
	Kind     Kind
	Shape    []int // (outputs, inputs) of a matrix
	Heads    int   // heads whose rows GGUF stores as rotated pairs and Hugging Face's files as halves; 0: none
	Optional bool
}

// Kind is the part of the model that a tensor belongs to. Consecutive tensors of one kind and layer form one matrix or
// vector, in the order of their rows.
type Kind int

const (
	Embedding Kind = iota
	MixNorm
	QKV
	MixOut
	QKVBias
	QKNorm
	FFNNorm
	Gates
	Down
	OutputNorm
	Output
	RopeDivisors // of the rotary embedding's frequencies, (Rotary/2), which Read has applied
)

// Tensors lists the tensors of the model's file.
func (m *Model) Tensors() iter.Seq[Tensor] {
	var all []Tensor
	prefix, hf, layer := "", "", 0
	add := func(k Kind, name, from string, shape ...int) int {
		all = append(all, Tensor{GGUF: prefix + name, HF: hf + from, Layer: layer, Kind: k, Shape: shape})
		return len(all) - 1
	}
	all[add(RopeDivisors, ropeFreqs, "", m.Layers[0].Mix.Rotary/2)].Optional = true
	add(Embedding, "token_embd.weight", "model.embed_tokens.weight", m.Vocab, m.Dim)
	for i, l := range m.Layers {
		prefix, hf, layer = fmt.Sprintf("blk.%d.", i), fmt.Sprintf("model.layers.%d.", i), i
		a, q, kv := l.Mix, l.Mix.Query*l.Mix.Dim, l.Mix.KV*l.Mix.Dim
		projections := func(k Kind, of string, inputs ...int) {
			query := add(k, "attn_q."+of, "self_attn.q_proj."+of, append([]int{q}, inputs...)...)
			key := add(k, "attn_k."+of, "self_attn.k_proj."+of, append([]int{kv}, inputs...)...)
			add(k, "attn_v."+of, "self_attn.v_proj."+of, append([]int{kv}, inputs...)...)
			if !a.HalfSplit {
				all[query].Heads, all[key].Heads = a.Query, a.KV
			}
		}
		add(MixNorm, "attn_norm.weight", "input_layernorm.weight", m.Dim)
		projections(QKV, "weight", m.Dim)
		add(MixOut, "attn_output.weight", "self_attn.o_proj.weight", m.Dim, q)
		if a.Bias {
			projections(QKVBias, "bias")
		}
		if a.QKNorm == Head {
			add(QKNorm, "attn_q_norm.weight", "self_attn.q_norm.weight", a.Dim)
			add(QKNorm, "attn_k_norm.weight", "self_attn.k_norm.weight", a.Dim)
		}
		add(FFNNorm, "ffn_norm.weight", "post_attention_layernorm.weight", m.Dim)
		add(Gates, "ffn_gate.weight", "mlp.gate_proj.weight", l.FFN.Width, m.Dim)
		add(Gates, "ffn_up.weight", "mlp.up_proj.weight", l.FFN.Width, m.Dim)
		add(Down, "ffn_down.weight", "mlp.down_proj.weight", m.Dim, l.FFN.Width)
	}
	prefix, hf, layer = "", "", 0
	add(OutputNorm, "output_norm.weight", "model.norm.weight", m.Dim)
	if !m.Tied {
		add(Output, "output.weight", "lm_head.weight", m.Vocab, m.Dim)
	}
	return slices.Values(all)
}
