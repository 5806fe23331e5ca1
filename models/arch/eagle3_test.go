package arch

import (
	"encoding/binary"
	"slices"
	"strings"
	"testing"

	"foretoken/internal/files"
	"foretoken/models/gguf"
)

// ggufHead returns a head of width 32 in GGUF with further metadata, which nil takes out, and d2t for ids.
func ggufHead(t *testing.T, fields map[string]any, tensors []string, ids ...uint64) *gguf.File {
	t.Helper()
	all := map[string]any{"context_length": uint32(8192), "embedding_length": uint32(32), "block_count": uint32(1),
		"feed_forward_length": uint32(48), "attention.head_count": uint32(2), "vocab_size": uint32(8),
		"attention.layer_norm_rms_epsilon": float32(1e-5), "target_layers": []int32{0, 1, 2}}
	for key, value := range fields {
		if all[key] = value; value == nil {
			delete(all, key)
		}
	}
	kv := []gguf.KV{{Key: "general.architecture", Value: "eagle3"}}
	for key, value := range all {
		if !strings.HasPrefix(key, "tokenizer.") {
			key = "eagle3." + key
		}
		kv = append(kv, gguf.KV{Key: key, Value: value})
	}
	var written []gguf.WriteTensor
	for _, name := range tensors {
		written = append(written, gguf.WriteTensor{Name: name, Dims: []uint64{32, 8}, Data: make([]byte, 4*32*8)})
	}
	if len(ids) > 0 {
		var data []byte
		for _, id := range ids {
			data = binary.LittleEndian.AppendUint64(data, id)
		}
		written = append(written, gguf.WriteTensor{Name: "d2t", Dims: []uint64{uint64(len(ids))}, Type: gguf.I64,
			Data: data})
	}
	raw, err := gguf.Bytes(kv, written)
	if err != nil {
		t.Fatal(err)
	}
	f, err := gguf.Open(files.FromBytes("head.gguf", raw))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// TestHeadInGGUF reads the fields that llama.cpp's converter writes, and refuses those that contradict each other.
func TestHeadInGGUF(t *testing.T) {
	const embedding, output = "token_embd.weight", "output.weight"
	tokens := []string{"a", "b", "c", "d", "e", "f", "g", "h"}
	m, err := ReadHead(ggufHead(t, map[string]any{"vocab_size": nil, "tokenizer.ggml.tokens": tokens,
		"target_layers": []int32{2, 0, 3}, "norm_before_residual": true, "norm_before_fc": true,
		"target_hidden_size": uint32(64)}, []string{embedding, output}, 1, 7, 4))
	if err != nil {
		t.Fatal(err)
	}
	f := m.Features
	if m.Vocab != 8 || f.Dim != 64 || !f.NormFused || !f.NormedSkip || f.NormedNext || !f.Embedding || !f.Output ||
		m.Layers[0].Mix.HalfSplit || !slices.Equal(f.Targets, []int32{1, 7, 4}) {
		t.Errorf("read %+v of %+v", f, m)
	}
	if taps, err := f.TapsOf("x", 4); err != nil || !slices.Equal(taps, []int{1, -1, 2}) {
		t.Errorf("taps %v, %v", taps, err)
	}
	if _, err := f.TapsOf("x", 3); err == nil || !strings.Contains(err.Error(), "a target of 3 layers has 0 to 2") {
		t.Errorf("a layer that the target lacks: %v", err)
	}
	if m, err = ReadHead(ggufHead(t, map[string]any{"vocab_size": nil}, []string{embedding})); err != nil ||
		m.Vocab != 8 || m.Features.Output || len(m.Features.Targets) != 8 {
		t.Errorf("the target's output matrix: %+v, %v", m, err)
	}
	for name, c := range map[string]struct {
		fields  map[string]any
		tensors []string
		ids     []uint64
		want    string
	}{
		"no vocabulary":  {map[string]any{"vocab_size": nil}, []string{output}, nil, "eagle3.vocab_size"},
		"four layers":    {map[string]any{"target_layers": []int32{0, 1, 2, 3}}, nil, nil, "names 4 layers; want 3"},
		"both lists":     {map[string]any{"target_outputs": []int32{0, 1, 2}}, nil, nil, "are both there"},
		"offsets":        {nil, []string{output}, []uint64{0, 0, 3}, "two draft ids stand for token 0"},
		"past the end":   {nil, []string{output}, []uint64{0, 8}, "draft id 1 stands for token 8 of 8"},
		"ids, no matrix": {nil, nil, []uint64{0, 1}, "d2t has 2 ids, and output.weight is missing"},
		"other embedding": {map[string]any{"target_hidden_size": uint32(64)}, []string{output}, nil,
			"token_embd.weight is missing"},
		"other output": {map[string]any{"target_hidden_size": uint32(64)}, []string{embedding}, nil,
			"output.weight is missing"},
		"two layers":   {map[string]any{"block_count": uint32(2)}, []string{output}, nil, "heads of one layer"},
		"unknown norm": {map[string]any{"norm_after_fc": true}, []string{output}, nil, "the field is unknown"},
	} {
		if _, err := ReadHead(ggufHead(t, c.fields, c.tensors, c.ids...)); err == nil ||
			!strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "arch: head.gguf: ") &&
			!strings.HasPrefix(err.Error(), "gguf: head.gguf: ") {
			t.Errorf("%s: %v; want %q", name, err, c.want)
		}
	}
}

// TestOthers finds no architecture that can be run among those that cannot, and refuses a model given as a head.
func TestOthers(t *testing.T) {
	for _, name := range Names() {
		for _, o := range others {
			if in(o.names, name) {
				t.Errorf("%s is said to be no model that can be run: %s", name, o.says)
			}
		}
	}
	_, err := ReadHead(small(t, "llama", nil, nil))
	if err == nil || !strings.Contains(err.Error(), "this is a model and no EAGLE-3 head") {
		t.Errorf("a model as a head: %v", err)
	}
	if _, err = ReadHead(small(t, "controlvector", nil, nil)); err == nil ||
		!strings.Contains(err.Error(), "control vector") {
		t.Errorf("a control vector as a head: %v", err)
	}
}
