//go:build !js

package foretoken

import (
	"context"
	"encoding/binary"
	"math"
	"slices"
	"testing"

	"foretoken/internal/files"
	"foretoken/models/gguf"
	"foretoken/models/modeltest"
	"foretoken/webgpu"
	"foretoken/webgpu/kernels/kerneltest"
	"foretoken/webgpu/open"
)

// edited returns a model of random weights after change has edited it.
func edited(t testing.TB, name string, change func(m *modelEditor)) files.Source {
	t.Helper()
	src, ok := modeltest.Source(name)
	if !ok {
		t.Fatalf("there is no model %s", name)
	}
	f, err := gguf.Open(src)
	if err != nil {
		t.Fatal(err)
	}
	if change == nil {
		return src
	}
	m := &modelEditor{t: t, file: f, kv: f.Metadata(), data: map[string][]byte{}}
	for i := range f.Tensors {
		tensor := &f.Tensors[i]
		data := make([]byte, tensor.Size)
		if err := f.ReadTensor(tensor, data, 0); err != nil {
			t.Fatal(err)
		}
		m.tensors = append(m.tensors, gguf.WriteTensor{Name: tensor.Name, Dims: tensor.Dims, Type: tensor.Type})
		m.data[tensor.Name] = data
	}
	change(m)
	for i := range m.tensors {
		m.tensors[i].Data = m.data[m.tensors[i].Name]
	}
	out, err := gguf.Bytes(m.kv, m.tensors)
	if err != nil {
		t.Fatal(err)
	}
	return files.FromBytes(name+".gguf", out)
}

// modelEditor holds a model file between reading and writing it.
type modelEditor struct {
	t       testing.TB
	file    *gguf.File
	kv      []gguf.KV
	tensors []gguf.WriteTensor
	data    map[string][]byte
}

// set replaces or adds a metadata field.
func (m *modelEditor) set(key string, v any) {
	m.kv = append(slices.DeleteFunc(m.kv, func(e gguf.KV) bool { return e.Key == key }), gguf.KV{Key: key, Value: v})
}

// tokens passes the vocabulary's texts, types and scores to change and stores the result.
func (m *modelEditor) tokens(change func(texts *[]string, kinds *[]int32, scores *[]float32)) {
	texts, err := m.file.Strings("tokenizer.ggml.tokens")
	if err != nil {
		m.t.Fatal(err)
	}
	kinds, err := m.file.Int32s("tokenizer.ggml.token_type")
	if err != nil {
		m.t.Fatal(err)
	}
	scores, err := m.file.Float32s("tokenizer.ggml.scores")
	if err != nil {
		m.t.Fatal(err)
	}
	change(&texts, &kinds, &scores)
	m.set("tokenizer.ggml.tokens", texts)
	m.set("tokenizer.ggml.token_type", kinds)
	m.set("tokenizer.ggml.scores", scores)
}

// GGUF's token types.
const (
	controlToken = 3
	unusedToken  = 5
)

// talking makes the last two tokens control tokens and adds a chat template.
func talking(m *modelEditor) {
	m.tokens(func(texts *[]string, kinds *[]int32, _ *[]float32) {
		for i, text := range []string{"<|im_start|>", "<|im_end|>"} {
			at := len(*texts) - 2 + i
			(*texts)[at], (*kinds)[at] = text, controlToken
		}
	})
	m.set("tokenizer.chat_template", "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content | trim "+
		"}}<|im_end|>\n{% endfor %}"+
		"{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}")
}

// padded adds rows with very large logits to the vocabulary's matrices, and tokens for them if named is set.
func padded(rows int, named bool) func(m *modelEditor) {
	return func(m *modelEditor) {
		for i := range m.tensors {
			tensor := &m.tensors[i]
			if tensor.Name != "token_embd.weight" && tensor.Name != "output.weight" {
				continue
			}
			if tensor.Type != gguf.F32 {
				m.t.Fatalf("%s is of type %s", tensor.Name, tensor.Type)
			}
			width, data := int(tensor.Dims[0]), m.data[tensor.Name]
			for r := range rows { // scaled copies of tokens, every second one negated since logits may be negative
				from := data[4*width*(300+r):][:4*width]
				for c := range width {
					x := math.Float32frombits(binary.LittleEndian.Uint32(from[4*c:])) * float32(30-60*(r%2))
					data = binary.LittleEndian.AppendUint32(data, math.Float32bits(x))
				}
			}
			m.data[tensor.Name] = data
			tensor.Dims = []uint64{tensor.Dims[0], tensor.Dims[1] + uint64(rows)}
			m.set("llama.vocab_size", uint32(tensor.Dims[1]))
		}
		if !named {
			return
		}
		m.tokens(func(texts *[]string, kinds *[]int32, scores *[]float32) {
			for r := range rows {
				*texts, *kinds, *scores = append(*texts, "[PAD"+string(rune('a'+r/26))+string(rune('a'+r%26))+"]"),
					append(*kinds, unusedToken), append(*scores, 0)
			}
		})
	}
}

// opened opens a session on a kind of device, or skips the test.
func opened(t testing.TB, kind string, target, draft files.Source, o Options) *Session {
	t.Helper()
	s, err := Open(context.Background(), deviceOf(t, kind), target, draft, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// deviceOf returns a device of a kind, or skips the test.
func deviceOf(t testing.TB, kind string) webgpu.Device {
	t.Helper()
	switch kind {
	case "cpu":
		return kerneltest.CPU(t)
	case open.Accelerator:
		return kerneltest.Accelerator(t)
	}
	t.Fatalf("no device for tests is named %q", kind)
	return nil
}

// deviceKinds are the devices that tests of this file's models run on.
var deviceKinds = []string{"cpu", open.Accelerator}
