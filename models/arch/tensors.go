package arch

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
)

// Tensor is one tensor of a model's file, or some columns of one.
type Tensor struct {
	GGUF     string
	HF       string // its name in Hugging Face's files
	Layer    int    // 0 outside layers
	Kind     Kind
	Shape    []int // (outputs, inputs) of a matrix
	From     int   // first input of this entry
	Cols     int   // number of inputs of this entry
	Heads    int   // heads whose rows GGUF stores as rotated pairs and Hugging Face's files as halves; 0: none
	Optional bool
}

// Kind is the part of the model that a tensor belongs to. Consecutive tensors of one kind, layer and range of columns
// form one matrix or vector, in the order of their rows.
type Kind int

const (
	Embedding Kind = iota
	MixNorm        // of the mix's input
	QKV
	MixInnerNorm // of the input of MixOut
	MixOut
	QKVBias
	QKNorm
	MixPostNorm // of the mix's output
	FFNNorm     // of the network's input
	Gates
	FFNInnerNorm // of the input of Down
	Down
	FFNPostNorm // of the network's output
	OutputNorm
	Output
	Header // data of the description; Read has read it

	// Of an EAGLE-3 head.
	Fuse        // one matrix a tap
	FeatureNorm // of the feature; MixNorm belongs to the embedding
	FeatureQKV  // QKV multiplies the embedding
	FuseNorm    // of the features, before they are fused
)

// scalable reports whether a matrix of a kind may have a factor.
func (k Kind) scalable() bool {
	return k == QKV || k == MixOut || k == Gates || k == Down || k == Output
}

// scaleOf returns the name of the tensor with the factor of a matrix.
func scaleOf(matrix string) string { return strings.TrimSuffix(matrix, "weight") + "scale" }

// Tensors lists the tensors of the model's file.
func (m *Model) Tensors() iter.Seq[Tensor] {
	var all []Tensor
	prefix, hf, layer := "", "", 0
	add := func(k Kind, name, from string, shape ...int) *Tensor {
		all = append(all, Tensor{GGUF: prefix + name, HF: hf + from, Layer: layer, Kind: k, Shape: shape,
			Cols: shape[len(shape)-1]})
		return &all[len(all)-1] // until the next call
	}
	outer, blocks, inputs, outputs := "model.", "model.layers.%d.", m.Dim, m.Vocab
	divisors := []string{ropeFreqs}
	if rope := m.Layers[0].Mix.Rope; rope != nil && rope.Long {
		divisors = []string{ropeShort, ropeLong}
	}
	for _, name := range divisors {
		add(Header, name, "", m.Layers[0].Mix.Rotary/2).Optional = true
	}
	if f := m.Features; f != nil {
		outer, blocks, inputs, outputs = "", "midlayer.", 2*m.Dim, len(f.Targets)
		add(Header, draftIDs, draftIDs, outputs).Optional = true
		if f.NormFused {
			add(FuseNorm, "enc.output_norm.weight", "input_norm.weight", Taps*f.Dim)
		}
		for i := range Taps {
			t := add(Fuse, "fc.weight", "fc.weight", m.Dim, Taps*f.Dim)
			t.From, t.Cols = i*f.Dim, f.Dim
		}
	}
	if m.Features == nil || m.Features.Embedding {
		add(Embedding, "token_embd.weight", outer+"embed_tokens.weight", m.Vocab, m.Dim)
	}
	for i, l := range m.Layers {
		prefix, layer = fmt.Sprintf("blk.%d.", i), i
		if hf = blocks; m.Features == nil {
			hf = fmt.Sprintf(blocks, i)
		}
		a := l.Mix
		projections := func(k Kind, of string, from int, shape ...int) {
			for _, p := range []struct {
				name, hf string
				heads    int
				rotates  bool
			}{{"attn_q.", "self_attn.q_proj.", a.Query, true}, {"attn_k.", "self_attn.k_proj.", a.KV, true},
				{"attn_v.", "self_attn.v_proj.", a.KV, false}} {
				if a.Shares > 0 && p.name != "attn_q." {
					break
				}
				t := add(k, p.name+of, p.hf+of, append([]int{p.heads * a.Dim}, shape...)...)
				if t.From, t.Cols = from, m.Dim; p.rotates && !a.HalfSplit {
					t.Heads = p.heads
				}
			}
		}
		if l.Norms.Before {
			add(MixNorm, "attn_norm.weight", "input_layernorm.weight", m.Dim)
		}
		if a.Fused {
			add(QKV, "attn_qkv.weight", "self_attn.qkv_proj.weight", (a.Query+2*a.KV)*a.Dim, inputs)
		} else {
			projections(QKV, "weight", 0, inputs)
		}
		if m.Features != nil {
			add(FeatureNorm, "attn_norm_2.weight", "hidden_norm.weight", m.Dim)
			projections(FeatureQKV, "weight", m.Dim, inputs)
		}
		if l.Norms.Inner {
			add(MixInnerNorm, "attn_sub_norm.weight", "self_attn.attn_sub_norm.weight", a.Query*a.Dim)
		}
		add(MixOut, "attn_output.weight", "self_attn.o_proj.weight", m.Dim, a.Query*a.Dim)
		switch {
		case a.Bias && a.Fused:
			add(QKVBias, "attn_qkv.bias", "self_attn.qkv_proj.bias", (a.Query+2*a.KV)*a.Dim)
		case a.Bias:
			projections(QKVBias, "bias", 0)
		}
		if a.QKNorm != None {
			queries, keys := 1, 1
			if a.QKNorm == Row {
				queries, keys = a.Query, a.KV
			}
			add(QKNorm, "attn_q_norm.weight", "self_attn.q_norm.weight", queries*a.Dim)
			if a.Shares == 0 {
				add(QKNorm, "attn_k_norm.weight", "self_attn.k_norm.weight", keys*a.Dim)
			}
		}
		between := "post_attention_layernorm.weight"
		if l.Norms.After {
			add(MixPostNorm, "post_attention_norm.weight", between, m.Dim)
			between = "pre_feedforward_layernorm.weight"
		}
		if l.Norms.Before {
			add(FFNNorm, "ffn_norm.weight", between, m.Dim)
		}
		if l.FFN.Fused {
			add(Gates, "ffn_up.weight", "mlp.gate_up_proj.weight", 2*l.FFN.Width, m.Dim)
		} else {
			add(Gates, "ffn_gate.weight", "mlp.gate_proj.weight", l.FFN.Width, m.Dim)
			add(Gates, "ffn_up.weight", "mlp.up_proj.weight", l.FFN.Width, m.Dim)
		}
		if l.Norms.Inner {
			add(FFNInnerNorm, "ffn_sub_norm.weight", "mlp.ffn_sub_norm.weight", l.FFN.Width)
		}
		add(Down, "ffn_down.weight", "mlp.down_proj.weight", m.Dim, l.FFN.Width)
		if l.Norms.After {
			add(FFNPostNorm, "post_ffw_norm.weight", "post_feedforward_layernorm.weight", m.Dim)
		}
	}
	prefix, hf, layer = "", outer, 0
	add(OutputNorm, "output_norm.weight", "norm.weight", m.Dim)
	if !m.Tied && (m.Features == nil || m.Features.Output) {
		hf = ""
		add(Output, "output.weight", "lm_head.weight", outputs, m.Dim)
	}
	prefix, hf = "", ""
	for _, name := range slices.Sorted(maps.Keys(m.Scales)) {
		add(Header, scaleOf(name), "", 1)
	}
	return slices.Values(all)
}
