// Package converttest takes GGUF files apart for tests: into the checkpoint that Hugging Face's libraries would
// have saved of the model, and into the parts of a split file. Package convert puts both together again.
package converttest

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/x448/float16"

	"foretoken/models/arch"
	"foretoken/models/gguf"
	"foretoken/models/quant"
	"foretoken/models/safetensors"
)

// Files are contents by file name.
type Files map[string][]byte

// Write writes the files to a folder.
func (f Files) Write(folder string) error {
	for name, b := range f {
		if err := os.WriteFile(filepath.Join(folder, name), b, 0o600); err != nil {
			return err
		}
	}
	return nil
}

func marshal(v any) []byte {
	b, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		panic(err)
	}
	return b
}

// Checkpoint gives the files of the model in f: model.safetensors with matrices of the
// type, config.json, tokenizer.json and tokenizer_config.json.
func Checkpoint(f *gguf.File, dtype safetensors.Dtype) (Files, error) {
	name, err := f.String("general.architecture")
	if err != nil {
		return nil, err
	}
	tensors, err := Tensors(f, dtype)
	if err != nil {
		return nil, err
	}
	tokens, config, err := Tokenizer(f)
	if err != nil {
		return nil, err
	}
	files := Files{"config.json": marshal(configOf(f, name)), "tokenizer.json": tokens, "tokenizer_config.json": config}
	return files, files.SetWeights(tensors, 1)
}

// SetWeights writes the tensors to one file, or to several with an index.
func (f Files) SetWeights(tensors []safetensors.Tensor, shards int) error {
	for name := range f {
		if strings.HasSuffix(name, ".safetensors") || strings.HasSuffix(name, ".index.json") {
			delete(f, name)
		}
	}
	where := map[string]string{}
	for n := range shards {
		name := "model.safetensors"
		if shards > 1 {
			name = fmt.Sprintf("model-%05d-of-%05d.safetensors", n+1, shards)
		}
		part := tensors[n*len(tensors)/shards : (n+1)*len(tensors)/shards]
		for _, t := range part {
			where[t.Name] = name
		}
		var b bytes.Buffer
		if err := safetensors.Write(&b, map[string]string{"format": "pt"}, part...); err != nil {
			return err
		}
		f[name] = b.Bytes()
	}
	if shards > 1 {
		f["model.safetensors.index.json"] = marshal(
			map[string]any{"metadata": map[string]any{"total_size": 1}, "weight_map": where})
	}
	return nil
}

func configOf(f *gguf.File, name string) map[string]any {
	n := func(key string) uint32 { v, _ := f.Uint32(name + "." + key); return v }
	x := func(key string) float32 { v, _ := f.Float32(name + "." + key); return v }
	embed, _ := f.Tensor("token_embd.weight")
	c := map[string]any{
		"architectures":           []string{arch.Checkpoints[name].Class},
		"model_type":              name,
		"hidden_size":             n("embedding_length"),
		"num_hidden_layers":       n("block_count"),
		"intermediate_size":       n("feed_forward_length"),
		"num_attention_heads":     n("attention.head_count"),
		"num_key_value_heads":     n("attention.head_count_kv"),
		"max_position_embeddings": n("context_length"),
		"rms_norm_eps":            x("attention.layer_norm_rms_epsilon"),
		"rope_theta":              x("rope.freq_base"),
		"vocab_size":              embed.Dims[1],
		"hidden_act":              "silu",
		"tie_word_embeddings":     !f.HasTensor("output.weight"),
		"rope_scaling":            nil,
		"attention_dropout":       0.0,
		"initializer_range":       0.02,
		"torch_dtype":             "float32",
		"use_cache":               true,
	}
	if f.Has(name + ".attention.key_length") {
		c["head_dim"] = n("attention.key_length")
	}
	of := arch.Checkpoints[name]
	for field, key := range of.Numbers {
		c[field] = x(key)
	}
	if of.Window == arch.StatedWindow {
		c["sliding_window"] = n("attention.sliding_window")
	}
	if of.PartialRope {
		c["partial_rotary_factor"] = float64(n("rope.dimension_count")) / float64(n("attention.key_length"))
	}
	if of.LongRope {
		c["original_max_position_embeddings"] = n("rope.scaling.original_context_length")
		c["rope_scaling"] = map[string]any{"type": "longrope", "short_factor": floats(f, "rope_factors_short.weight"),
			"long_factor": floats(f, "rope_factors_long.weight")}
	}
	return c
}

// floats reads a tensor, as numbers of JSON.
func floats(f *gguf.File, name string) []float32 {
	t, err := f.Tensor(name)
	if err != nil {
		panic(err) // a test model has it
	}
	raw, x := make([]byte, t.Size), make([]float32, t.Elements())
	if err := errors.Join(f.ReadTensor(t, raw, 0), quant.Dequantize(t.Type, raw, x)); err != nil {
		panic(err)
	}
	return x
}

// Tensors gives the model's tensors under the names, in the types and with the order of
// rows of a checkpoint. Vectors stay as wide as they are.
func Tensors(f *gguf.File, dtype safetensors.Dtype) ([]safetensors.Tensor, error) {
	m, err := arch.Read(f, 0)
	if err != nil {
		return nil, err
	}
	var all []safetensors.Tensor
	for listed := range m.Tensors() {
		t, err := f.Tensor(listed.GGUF)
		if err != nil || listed.Kind == arch.Header {
			continue // the configuration gives it
		}
		x := floats(f, listed.GGUF)
		if listed.Heads > 0 && !arch.Checkpoints[m.Architecture].Paired {
			x = halfSplit(x, int(t.Dims[0]), listed.Heads)
		}
		out := safetensors.Tensor{Name: listed.HF, Dtype: dtype, Shape: slices.Clone(t.Dims)}
		slices.Reverse(out.Shape)
		if len(t.Dims) == 1 {
			out.Dtype = safetensors.F32
		}
		out.Data = Encode(out.Dtype, x)
		all = append(all, out)
	}
	slices.SortFunc(all, func(a, b safetensors.Tensor) int { return cmp.Compare(a.Name, b.Name) })
	return all, nil
}

// halfSplit undoes the interleaving of rows: row 2j+i of a head goes to place i·half+j.
func halfSplit(x []float32, cols, heads int) []float32 {
	out := make([]float32, len(x))
	rows := len(x) / cols / heads // of a head
	for h := range heads {
		for r := range rows {
			to := h*rows + r%2*rows/2 + r/2
			copy(out[to*cols:][:cols], x[(h*rows+r)*cols:][:cols])
		}
	}
	return out
}

// Encode stores numbers as a type of F32, F16 and BF16.
func Encode(dtype safetensors.Dtype, x []float32) []byte {
	var b []byte
	for _, v := range x {
		switch dtype {
		case safetensors.F32:
			b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
		case safetensors.F16:
			b = binary.LittleEndian.AppendUint16(b, float16.Fromfloat32(v).Bits())
		case safetensors.BF16:
			b = binary.LittleEndian.AppendUint16(b, uint16(math.Float32bits(v)>>16))
		}
	}
	return b
}

// Parts splits a file into n, as llama.cpp does: metadata in the first part only. With bare, the
// first part has no tensors.
func Parts(f *gguf.File, stem string, n int, bare bool) (Files, error) {
	files := Files{}
	total := len(f.Tensors)
	for i := range n {
		var kv []gguf.KV
		from, to := i*total/n, (i+1)*total/n
		if bare {
			from, to = max(0, i-1)*total/max(1, n-1), i*total/max(1, n-1)
		}
		if i == 0 {
			kv = f.Metadata()
		}
		kv = append(kv, gguf.KV{Key: "split.no", Value: uint16(i)}, gguf.KV{Key: "split.count", Value: uint16(n)},
			gguf.KV{Key: "split.tensors.count", Value: int32(total)})
		b, err := Rewrite(f, kv, from, to)
		if err != nil {
			return nil, err
		}
		files[fmt.Sprintf("%s-%05d-of-%05d.gguf", stem, i+1, n)] = b
	}
	return files, nil
}

// Rewrite returns a file with the given metadata and tensors from to to of another one.
func Rewrite(f *gguf.File, kv []gguf.KV, from, to int) ([]byte, error) {
	var all []gguf.WriteTensor
	for i := range f.Tensors[from:to] {
		t := &f.Tensors[from+i]
		data := make([]byte, t.Size)
		if err := f.ReadTensor(t, data, 0); err != nil {
			return nil, err
		}
		all = append(all, gguf.WriteTensor{Name: t.Name, Dims: t.Dims, Type: t.Type, Data: data})
	}
	return gguf.Bytes(kv, all)
}
