package runner

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"foretoken/internal/files"
	"foretoken/models/arch"
	"foretoken/models/convert"
	"foretoken/models/gguf"
	"foretoken/models/graph"
	"foretoken/models/modeltest"
	"foretoken/models/safetensors"
	"foretoken/webgpu"
	"foretoken/webgpu/kernels/kerneltest"
)

// headSpec is a head of random weights for the target tiny-f32.
type headSpec struct {
	width                             int // of the head; other than the target's with an embedding and an output only
	embedding, output                 bool
	normSkip, normFused, normedOutput bool
	inputs, outputs                   []int32 // of the target's layers
}

// description returns the tensors of the head. Every second id of the target's is proposed.
func (h *headSpec) description(target *arch.Model) *arch.Model {
	f := &arch.Features{Dim: target.Dim, Embedding: h.embedding, Output: h.output, NormFused: h.normFused}
	for id := 0; id < target.Vocab; id++ {
		if !h.output || id%2 == 1 {
			f.Targets = append(f.Targets, int32(id))
		}
	}
	return &arch.Model{Dim: h.width, Vocab: target.Vocab, Features: f, Layers: []arch.Layer{{
		Norms: arch.Norms{Before: true}, Mix: &arch.Attention{Query: 6, KV: 2, Dim: 16}, FFN: &arch.Gated{Width: 160}}}}
}

// gguf returns the head as llama.cpp's converter writes it: neighbours rotate, and d2t holds the target's ids.
func (h *headSpec) gguf(t *testing.T, target *arch.Model) *gguf.File {
	t.Helper()
	m := h.description(target)
	key := func(name string, value any) gguf.KV { return gguf.KV{Key: "eagle3." + name, Value: value} }
	kv := []gguf.KV{{Key: "general.architecture", Value: "eagle3"}, key("block_count", uint32(1)),
		key("context_length", uint32(512)), key("embedding_length", uint32(h.width)),
		key("vocab_size", uint32(m.Vocab)),
		key("feed_forward_length", uint32(160)), key("attention.head_count", uint32(6)),
		key("attention.head_count_kv", uint32(2)), key("attention.key_length", uint32(16)),
		key("attention.value_length", uint32(16)), key("attention.layer_norm_rms_epsilon", float32(1e-5)),
		key("rope.freq_base", float32(5000)), key("target_hidden_size", uint32(target.Dim)),
		key("target_layers", h.inputs), key("norm_before_residual", h.normSkip), key("norm_before_fc", h.normFused)}
	var tensors []gguf.WriteTensor
	for _, x := range h.tensors(m) {
		dims := slices.Clone(x.Shape)
		slices.Reverse(dims)
		tensors = append(tensors, gguf.WriteTensor{Name: x.Name, Dims: dims, Type: gguf.F32, Data: x.Data})
	}
	if h.output {
		var ids []byte
		for _, id := range m.Features.Targets {
			ids = binary.LittleEndian.AppendUint64(ids, uint64(id))
		}
		tensors = append(tensors, gguf.WriteTensor{Name: "d2t", Dims: []uint64{uint64(len(m.Features.Targets))},
			Type: gguf.I64, Data: ids})
	}
	raw, err := gguf.Bytes(kv, tensors)
	if err != nil {
		t.Fatal(err)
	}
	return openHead(t, "head.gguf", raw, nil)
}

// speculators returns the head as the library of that name publishes it: halves rotate, d2t holds offsets, and the
// fields of the layer stand in an object of their own.
func (h *headSpec) speculators(t *testing.T, target *arch.Model) *gguf.File {
	t.Helper()
	m := h.description(target)
	config, err := json.Marshal(map[string]any{"architectures": []string{"Eagle3DraftModel"},
		"speculators_model_type": "eagle3", "model_type": "speculators", "draft_vocab_size": len(m.Features.Targets),
		"target_hidden_size": target.Dim, "norm_before_residual": h.normSkip, "norm_before_fc": h.normFused,
		"norm_output": h.normedOutput, "fc_norm": false, "eagle_aux_hidden_state_layer_ids": h.inputs,
		"eagle_config": map[string]any{"eagle_aux_hidden_state_layer_ids": h.outputs, "use_aux_hidden_state": true},
		"transformer_layer_config": map[string]any{"model_type": "llama", "hidden_size": h.width,
			"intermediate_size": 160, "num_attention_heads": 6, "num_key_value_heads": 2, "head_dim": 16,
			"vocab_size": target.Vocab, "rms_norm_eps": 1e-5, "rope_theta": 5000, "num_hidden_layers": 1,
			"hidden_act": "silu", "max_position_embeddings": 512, "layer_types": []string{"full_attention"}}})
	if err != nil {
		t.Fatal(err)
	}
	hf := map[string]string{}
	for w := range m.Tensors() {
		hf[w.GGUF] = w.HF
		if rest := len("midlayer."); len(w.HF) > rest && w.HF[:rest] == "midlayer." {
			hf[w.GGUF] = "layers.0." + w.HF[rest:]
		}
	}
	all := h.tensors(m)
	for i := range all {
		all[i].Name = hf[all[i].Name]
	}
	var offsets []byte
	for i, id := range m.Features.Targets {
		offsets = binary.LittleEndian.AppendUint64(offsets, uint64(int(id)-i))
	}
	all = append(all, safetensors.Tensor{Name: "d2t", Dtype: safetensors.I64,
		Shape: []uint64{uint64(len(m.Features.Targets))}, Data: offsets})
	var b bytes.Buffer
	if err := safetensors.Write(&b, nil, all...); err != nil {
		t.Fatal(err)
	}
	return openHead(t, "head.safetensors", b.Bytes(), files.FromBytes("config.json", config))
}

// tensors returns random weights under their names in GGUF.
func (h *headSpec) tensors(m *arch.Model) (all []safetensors.Tensor) {
	rng, seen := rand.New(rand.NewPCG(5, uint64(h.width))), map[string]bool{}
	for w := range m.Tensors() {
		if w.Kind == arch.Header || seen[w.GGUF] {
			continue
		}
		seen[w.GGUF] = true
		x := safetensors.Tensor{Name: w.GGUF, Dtype: safetensors.F32}
		n, mean, spread := 1, 1.0, 0.3
		for _, side := range w.Shape {
			n *= side
			x.Shape = append(x.Shape, uint64(side))
		}
		if len(w.Shape) == 2 {
			mean, spread = 0, 1/math.Sqrt(float64(w.Shape[1]))
		}
		if w.Kind == arch.Embedding {
			spread = 1
		}
		for range n {
			x.Data = binary.LittleEndian.AppendUint32(x.Data, math.Float32bits(float32(mean+spread*rng.NormFloat64())))
		}
		all = append(all, x)
	}
	return all
}

func openHead(t *testing.T, name string, raw []byte, config files.Source) *gguf.File {
	t.Helper()
	f, err := convert.Head(files.FromBytes(name, raw), config)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// TestEAGLE3Dialects drafts with a head of each dialect and compares the target's features and the head's
// log-probabilities with a forward pass of both in float64. A GPU, which may be an emulated one, takes the cases that
// record all steps.
func TestEAGLE3Dialects(t *testing.T) {
	file := testModel(t, "tiny-f32")
	m, err := arch.Read(file, 0)
	if err != nil {
		t.Fatal(err)
	}
	weights := modeltest.Weights{}
	for w := range m.Tensors() {
		if file.HasTensor(w.GGUF) && w.Kind != arch.Header {
			for _, x := range hostMatrix(t, file, w.GGUF) {
				weights[w.GGUF] = append(weights[w.GGUF], float32(x))
			}
		}
	}
	last := int32(len(m.Layers) - 1)
	for name, c := range map[string]struct {
		headSpec
		open func(*headSpec, *testing.T, *arch.Model) *gguf.File
		taps []int // of the target's residual stream: 0 is the embedding
	}{
		"gguf": {headSpec{m.Dim, false, true, false, false, false, []int32{0, 1, 2}, nil}, (*headSpec).gguf,
			[]int{0, 1, 2}},
		"gguf, residual": {headSpec{96, true, true, true, false, false, []int32{2, 0, 1}, nil}, (*headSpec).gguf,
			[]int{2, 0, 1}},
		"gguf, fused": {headSpec{m.Dim, false, false, false, true, false, []int32{1, 2, 2}, nil}, (*headSpec).gguf,
			[]int{1, 2, 2}},
		"gguf, both": {headSpec{96, true, true, true, true, false, []int32{0, 2, last}, nil}, (*headSpec).gguf,
			[]int{0, 2, int(last)}},
		"speculators, inputs": {headSpec{96, true, true, true, true, true, []int32{1, 2, last}, nil},
			(*headSpec).speculators, []int{1, 2, int(last)}},
		"speculators, outputs": {headSpec{m.Dim, false, true, true, false, false, nil, []int32{0, 2, last}},
			(*headSpec).speculators, []int{1, 3, int(last) + 1}},
	} {
		t.Run(name, func(t *testing.T) {
			onDevices(t, func(t *testing.T, dev webgpu.Device) {
				if dev.Info().Backend != "cpu" && !kerneltest.Full() && !c.normedOutput && c.outputs == nil {
					return
				}
				target, err := LoadTarget(background, dev, file, graph.Options{Context: 96, TopK: 4, MaxRows: 32})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(target.Close)
				f := c.open(&c.headSpec, t, m)
				head, err := LoadEAGLE3(background, dev, target, f, graph.Options{})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(head.Close)
				testReference(t, target, head, newRefHead(t, file, f), func(tokens []int32) [][]float64 {
					var all [][]float64
					for p, inputs := range modeltest.Evaluate(m, weights, tokens, 0, nil).Inputs {
						all = append(all, nil)
						for _, tap := range c.taps {
							all[p] = append(all[p], inputs[tap]...)
						}
					}
					return all
				})
			})
		})
	}
}

// TestEAGLE3Quantised stores a head in fewer bits, and compares what it drafts with a forward pass in float64 over the
// dequantised weights.
func TestEAGLE3Quantised(t *testing.T) {
	for _, quantise := range convert.HeadTypes() {
		t.Run(quantise, func(t *testing.T) {
			onDevices(t, func(t *testing.T, dev webgpu.Device) {
				if dev.Info().Backend != "cpu" && !kerneltest.Full() && quantise == "q8_0" {
					return
				}
				file := testModel(t, "tiny-f32")
				target, err := LoadTarget(background, dev, file, graph.Options{Context: 96, TopK: 4, MaxRows: 32})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(target.Close)
				h := headSpec{width: 256, embedding: true, output: true, inputs: []int32{0, 1, 2}}
				f, err := convert.QuantiseHead(h.gguf(t, target.Graph.Arch), quantise)
				if err != nil {
					t.Fatal(err)
				}
				head, err := LoadEAGLE3(background, dev, target, f, graph.Options{})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(head.Close)
				if got := fmt.Sprint(head.Graph.Info().Quant); got != map[string]string{"q8_0": "Q8_0",
					"q4_k": "Q4_K"}[quantise] {
					t.Errorf("stored as %s", got)
				}
				ref := newRefHead(t, file, f)
				if dev.Info().Backend == "cpu" { // rounds activations
					ref.tol = 5e-3
				}
				testReference(t, target, head, ref, nil)
			})
		})
	}
}
