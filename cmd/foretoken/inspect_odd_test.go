//go:build !js

package main

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"foretoken/models/gguf"
	"foretoken/models/modeltest"
)

// odd is a file that is made of a model's.
type odd struct {
	architecture string
	kv           []gguf.KV
	tensors      []gguf.WriteTensor
	types        map[string]uint32 // of tensors, where the writer has no such type
}

func (o *odd) drop(keys ...string) {
	o.kv = slices.DeleteFunc(o.kv, func(kv gguf.KV) bool { return slices.Contains(keys, kv.Key) })
}

func (o *odd) set(key string, value any) {
	o.drop(key)
	o.kv = append(o.kv, gguf.KV{Key: key, Value: value})
}

// is gives the file another architecture, whose fields keep their names.
func (o *odd) is(architecture string) {
	before := o.architecture + "."
	for i, kv := range o.kv {
		if rest, ok := strings.CutPrefix(kv.Key, before); ok {
			o.kv[i].Key = architecture + "." + rest
		}
	}
	o.set("general.architecture", architecture)
}

func (o *odd) tensor(name string) *gguf.WriteTensor {
	return &o.tensors[slices.IndexFunc(o.tensors, func(t gguf.WriteTensor) bool { return t.Name == name })]
}

func (o *odd) remove(name string) {
	o.tensors = slices.DeleteFunc(o.tensors, func(t gguf.WriteTensor) bool { return t.Name == name })
}

// add adds a tensor of zeros.
func (o *odd) add(name string, typ gguf.Type, dims ...uint64) {
	n, err := typ.RowBytes(dims[0])
	if err != nil {
		panic(err)
	}
	for _, d := range dims[1:] {
		n *= d
	}
	o.tensors = append(o.tensors, gguf.WriteTensor{Name: name, Dims: dims, Type: typ, Data: make([]byte, n)})
}

// stores stores the tensors whose names contain part in a type, as zeros.
func (o *odd) stores(part string, typ gguf.Type) {
	for _, t := range slices.Clone(o.tensors) {
		if strings.Contains(t.Name, part) {
			o.remove(t.Name)
			o.add(t.Name, typ, t.Dims...)
		}
	}
}

// becomes takes everything out and sets the metadata of a file of another kind.
func (o *odd) becomes(tensor string, kv ...any) {
	o.kv, o.tensors = nil, nil
	for i := 0; i < len(kv); i += 2 {
		o.set(kv[i].(string), kv[i+1])
	}
	if tensor != "" {
		o.add(tensor, gguf.F32, 32, 4)
	}
}

func (o *odd) bytes(t *testing.T) []byte {
	t.Helper()
	raw, err := gguf.Bytes(o.kv, o.tensors)
	if err != nil {
		t.Fatal(err)
	}
	for name, typ := range o.types {
		at := bytes.Index(raw, append(binary.LittleEndian.AppendUint64(nil, uint64(len(name))), name...))
		at += 8 + len(name)
		binary.LittleEndian.PutUint32(raw[at+4+8*int(binary.LittleEndian.Uint32(raw[at:])):], typ)
	}
	return raw
}

// oddModel returns one layer of a model of package modeltest with a network 256 wide.
func oddModel(t *testing.T, name string) *odd {
	t.Helper()
	src, _ := modeltest.Source(name)
	f, err := gguf.Open(src)
	if err != nil {
		t.Fatal(err)
	}
	architecture, err := f.String("general.architecture")
	if err != nil {
		t.Fatal(err)
	}
	o := &odd{architecture: architecture, kv: f.Metadata(), types: map[string]uint32{}}
	for i := range f.Tensors {
		info := &f.Tensors[i]
		if strings.HasPrefix(info.Name, "blk.") && !strings.HasPrefix(info.Name, "blk.0.") {
			continue
		}
		data := make([]byte, info.Size)
		if err := f.ReadTensor(info, data, 0); err != nil {
			t.Fatal(err)
		}
		o.tensors = append(o.tensors, gguf.WriteTensor{Name: info.Name, Dims: info.Dims, Type: info.Type, Data: data})
	}
	o.set(architecture+".block_count", uint32(1))
	o.set(architecture+".feed_forward_length", uint32(256))
	for _, name := range []string{"blk.0.ffn_gate.weight", "blk.0.ffn_up.weight", oddDown} {
		dims := []uint64{64, 256}
		if name == oddDown {
			slices.Reverse(dims)
		}
		o.remove(name)
		o.add(name, gguf.F32, dims...)
	}
	return o
}

const (
	oddDown     = "blk.0.ffn_down.weight"
	oddPre      = "tokenizer.ggml.pre"
	oddTemplate = "tokenizer.chat_template"
	oddAnswer   = "{% for m in messages %}{{ m.content }}{% endfor %}"
)

// oddFiles are files of llama's architecture, or of Qwen2-VL's, whose tokenizer is another, in a way that real ones are
// odd.
var oddFiles = map[string]func(o *odd){
	// What runs.
	"as-it-is": func(*odd) {},
	"notes": func(o *odd) {
		o.set("quantize.imatrix.file", "x.dat")
		o.set("general.sampling.temp", float32(0.7))
		o.set("general.tags", []string{"a", "b"})
		o.set("general.base_model.count", uint32(1))
	},
	"norms-F16":  func(o *odd) { o.stores("_norm", gguf.F16) },
	"norms-BF16": func(o *odd) { o.stores("_norm", gguf.BF16) },
	"mixed-BF16": func(o *odd) { o.stores("ffn_", gguf.BF16) },
	"fused-qkv": func(o *odd) {
		var rows uint64
		for _, c := range []string{"q", "k", "v"} {
			rows += o.tensor("blk.0.attn_" + c + ".weight").Dims[1]
			o.remove("blk.0.attn_" + c + ".weight")
		}
		o.add("blk.0.attn_qkv.weight", gguf.F32, 64, rows)
	},
	"qwen2vl":        func(*odd) {},
	"qwen2vl-nopre":  func(o *odd) { o.drop(oddPre) },
	"no-token-types": func(o *odd) { o.drop("tokenizer.ggml.token_type") },
	"named-templates": func(o *odd) {
		o.set(oddTemplate, oddAnswer)
		o.set(oddTemplate+".tool_use", "X{{ tools }}")
	},
	"template-no-default": func(o *odd) { o.set(oddTemplate+".tool_use", "X{{ tools }}") },
	"suppressed-tokens":   func(o *odd) { o.set("tokenizer.ggml.suppress_tokens", []int32{5, 6}) },
	"embedding-model": func(o *odd) {
		o.set("llama.pooling_type", uint32(3))
		o.set(oddTemplate, oddAnswer)
	},

	// Storage types.
	"type-F64":        func(o *odd) { o.stores(oddDown, gguf.F64) },
	"type-I8":         func(o *odd) { o.stores(oddDown, gguf.I8) },
	"type-I32":        func(o *odd) { o.stores(oddDown, gguf.I32) },
	"type-I64":        func(o *odd) { o.stores(oddDown, gguf.I64) },
	"type-Q8_K":       func(o *odd) { o.stores(oddDown, gguf.Q8_K) },
	"type-Q8_1":       func(o *odd) { o.stores(oddDown, gguf.Q8_1) },
	"type-IQ1_S":      func(o *odd) { o.stores(oddDown, gguf.IQ1S) },
	"type-IQ1_M":      func(o *odd) { o.stores(oddDown, gguf.IQ1M) },
	"type-NVFP4":      func(o *odd) { o.stores(oddDown, gguf.NVFP4) },
	"type-Q4_2":       func(o *odd) { o.types[oddDown] = 4 },
	"type-Q4_0_4_4":   func(o *odd) { o.types[oddDown] = 31 },
	"type-IQ4_NL_4_4": func(o *odd) { o.types[oddDown] = 36 },
	"type-43":         func(o *odd) { o.types[oddDown] = 43 },

	// Files beside models, and models of other kinds.
	"lora": func(o *odd) {
		o.becomes("blk.0.attn_q.weight.lora_a", "general.architecture", "llama", "general.type", "adapter",
			"adapter.type", "lora", "adapter.lora.alpha", float32(16))
	},
	"mmproj": func(o *odd) {
		o.becomes("v.blk.0.attn_q.weight", "general.architecture", "clip", "general.type", "mmproj",
			"clip.has_vision_encoder", true, "clip.projector_type", "gemma3")
	},
	"mmproj-type-43": func(o *odd) {
		o.becomes("v.blk.0.attn_q.weight", "general.architecture", "clip", "clip.has_vision_encoder", true)
		o.types["v.blk.0.attn_q.weight"] = 43
	},
	"imatrix": func(o *odd) {
		o.becomes("blk.0.attn_q.weight.in_sum2", "general.type", "imatrix", "imatrix.chunk_count", uint32(1))
	},
	"control-vector": func(o *odd) {
		o.becomes("direction.1", "general.architecture", "controlvector", "controlvector.layer_count", uint32(2))
	},
	"vocabulary":       func(o *odd) { o.tensors = nil },
	"eagle3":           func(o *odd) { o.is("eagle3") },
	"gemma4-assistant": func(o *odd) { o.is("gemma4-assistant") },
	"dflash":           func(o *odd) { o.is("dflash") },
	"mtp": func(o *odd) {
		o.set("llama.nextn_predict_layers", uint32(1))
		o.add("blk.1.nextn.eh_proj.weight", gguf.F32, 128, 64)
	},
	"bert":        func(o *odd) { o.is("neo-bert") },
	"t5":          func(o *odd) { o.is("t5") },
	"diffusion":   func(o *odd) { o.is("llada") },
	"images":      func(o *odd) { o.is("flux") },
	"speech":      func(o *odd) { o.is("wavtokenizer-dec") },
	"vision":      func(o *odd) { o.is("mllama") },
	"recurrent":   func(o *odd) { o.is("rwkv7") },
	"unknown":     func(o *odd) { o.is("qwen9") },
	"experts":     func(o *odd) { o.set("llama.expert_count", uint32(4)) },
	"non-causal":  func(o *odd) { o.set("llama.attention.causal", false) },
	"new-field":   func(o *odd) { o.set("llama.attention.sparse_blocks", uint32(4)) },
	"no-arch":     func(o *odd) { o.drop("general.architecture") },
	"no-vocab":    func(o *odd) { o.set("tokenizer.ggml.model", "none"); o.drop("tokenizer.ggml.tokens") },
	"qwen2vl-pre": func(o *odd) { o.set(oddPre, "qwen3.5") },
	"tokenizer":   func(o *odd) { o.set("tokenizer.ggml.model", "plamo2") },

	// Damage.
	"weight-scale":   func(o *odd) { o.add("blk.0.attn_q.scale", gguf.F32, 1) },
	"no-output-norm": func(o *odd) { o.remove("output_norm.weight") },
	"no-embedding":   func(o *odd) { o.remove("token_embd.weight") },
	"wrong-shape":    func(o *odd) { o.tensor("blk.0.attn_q.weight").Dims = []uint64{32, 128} },
	"no-heads":       func(o *odd) { o.set("llama.attention.head_count", uint32(0)) },
	"text-for-heads": func(o *odd) { o.set("llama.attention.head_count", "eight") },
	"many-tokens": func(o *odd) {
		o.remove("token_embd.weight")
		o.add("token_embd.weight", gguf.F32, 64, 300)
	},
	"one-part": func(o *odd) { o.set("split.count", uint16(3)) },
}

// oddBytes are files whose bytes are changed, or that are no GGUF files.
var oddBytes = map[string]func(model []byte) []byte{
	"cut-data":     func(b []byte) []byte { return b[:len(b)*2/3] },
	"cut-header":   func(b []byte) []byte { return b[:3000] },
	"version-1":    func(b []byte) []byte { b[4] = 1; return b },
	"version-4":    func(b []byte) []byte { b[4] = 4; return b },
	"big-endian":   func(b []byte) []byte { copy(b[4:], []byte{0, 0, 0, 3}); return b },
	"many-tensors": func(b []byte) []byte { b[15] = 1; return b },
	"lfs-pointer":  func([]byte) []byte { return []byte("version https://git-lfs.github.com/spec/v1\noid sha256:a") },
	"web-page":     func([]byte) []byte { return []byte("<!doctype html><html>404") },
	"pytorch":      func([]byte) []byte { return []byte("PK\x03\x04 and a checkpoint") },
	"safetensors":  func([]byte) []byte { return []byte("\x40\x00\x00\x00\x00\x00\x00\x00{\"a\":{}}") },
	"before-gguf":  func([]byte) []byte { return []byte("tjgg\x03\x00\x00\x00") },
	"empty":        func([]byte) []byte { return nil },
}

// TestOddFiles inspects files that people have and this program does not run, and compares what it says with the report
// that docs/models.md quotes. FORETOKEN_REPORT=1 leaves the comparison out, to make the report again.
func TestOddFiles(t *testing.T) {
	files := map[string][]byte{}
	for name, change := range oddFiles {
		model := "tiny-f32"
		if strings.HasPrefix(name, "qwen2vl") {
			model = "qwen2vl-f32"
		}
		o := oddModel(t, model)
		change(o)
		files[name] = o.bytes(t)
	}
	for name, change := range oddBytes {
		files[name] = change(bytes.Clone(files["as-it-is"]))
	}
	want := map[string]any{}
	if os.Getenv("FORETOKEN_REPORT") == "" {
		var report struct {
			Data struct{ TestOddFiles map[string]any }
		}
		raw, err := os.ReadFile(filepath.Join("..", "..", "docs", "reports", "odd-files.json"))
		if err == nil {
			err = json.Unmarshal(raw, &report)
		}
		if err != nil {
			t.Fatal(err)
		}
		want = report.Data.TestOddFiles
		if len(want) != len(files) {
			t.Errorf("the report has %d files; there are %d", len(want), len(files))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		got := inspected(t, name, files[name])
		if len(got) > 300 || strings.Contains(got, "\n") {
			t.Errorf("%s: %d bytes: %s", name, len(got), got)
		}
		t.Attr(name+"/message", got)
		if len(want) > 0 && got != want[name+"/message"] {
			t.Errorf("%s: %s\nthe report says %v", name, got, want[name+"/message"])
		}
	}
}

// inspected returns what inspect says of a file, after the name of the file.
func inspected(t *testing.T, name string, data []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name+".gguf")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	reason := func(message string) string {
		_, rest, ok := strings.Cut(message, path)
		if !ok {
			t.Errorf("%s: %s does not name the file", name, message)
		}
		return strings.TrimPrefix(strings.Trim(rest, ": \n"), "header: ")
	}
	o := call(t, "", "inspect", "--json", path)
	if o.code != exitOK {
		return reason(o.err)
	}
	var i inspection
	if err := json.Unmarshal([]byte(o.out), &i); err != nil {
		t.Fatal(err)
	}
	switch {
	case !i.Runnable:
		return reason(i.Reason)
	case strings.Contains(i.Chat.Reason, "embedding model"):
		return "runs; in conversations: " + reason(i.Chat.Reason)
	}
	return "runs"
}
