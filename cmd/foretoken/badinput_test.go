//go:build !js

package main

import (
	"bytes"
	"encoding/binary"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"foretoken/models/demo"
	"foretoken/models/gguf"
)

// demoBytes is one of the built-in files.
func demoBytes(t *testing.T, role string) []byte {
	t.Helper()
	src := demo.Target()
	if role == "draft" {
		src = demo.Draft()
	}
	b := make([]byte, src.Size())
	if _, err := src.ReadAt(b, 0); err != nil && err != io.EOF {
		t.Fatal(err)
	}
	return b
}

// content is a parsed GGUF file, to be written again with one change.
type content struct {
	kv      []gguf.KV
	tensors []gguf.WriteTensor
}

func (c *content) set(key string, value any) {
	for i := range c.kv {
		if c.kv[i].Key == key {
			c.kv[i].Value = value
		}
	}
}

func (c *content) drop(name string) {
	for i := range c.kv {
		if c.kv[i].Key == name {
			c.kv = append(c.kv[:i], c.kv[i+1:]...)
			return
		}
	}
	for i := range c.tensors {
		if c.tensors[i].Name == name {
			c.tensors = append(c.tensors[:i], c.tensors[i+1:]...)
			return
		}
	}
}

func (c *content) tensor(name string) *gguf.WriteTensor {
	for i := range c.tensors {
		if c.tensors[i].Name == name {
			return &c.tensors[i]
		}
	}
	return nil
}

func openDraft(t *testing.T) *gguf.File {
	t.Helper()
	f, err := gguf.Open(demo.Draft())
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// takeApart reads the built-in draft.
func takeApart(t *testing.T) *content {
	t.Helper()
	f := openDraft(t)
	c := &content{}
	for _, key := range f.Keys() {
		c.kv = append(c.kv, gguf.KV{Key: key, Value: valueOf(t, f, key)})
	}
	for i := range f.Tensors {
		info := &f.Tensors[i]
		b := make([]byte, info.Size)
		if err := f.ReadTensor(info, b, 0); err != nil {
			t.Fatal(err)
		}
		c.tensors = append(c.tensors,
			gguf.WriteTensor{Name: info.Name, Dims: info.Dims, Type: info.Type, Data: b})
	}
	return c
}

func valueOf(t *testing.T, f *gguf.File, key string) any {
	t.Helper()
	if f.IsArray(key) {
		if v, err := f.Strings(key); err == nil {
			return v
		}
		if v, err := f.Int32s(key); err == nil {
			return v
		}
	} else {
		if v, err := f.String(key); err == nil {
			return v
		}
		if v, err := f.Bool(key); err == nil {
			return v
		}
		if v, err := f.Uint32(key); err == nil {
			return v
		}
		if v, err := f.Float32(key); err == nil {
			return v
		}
	}
	t.Fatalf("%s is of a type this test does not know", key)
	return nil
}

// wrong writes the built-in draft with one thing changed.
func wrong(t *testing.T, change func(*content)) []byte {
	t.Helper()
	c := takeApart(t)
	change(c)
	b, err := gguf.Bytes(c.kv, c.tensors)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// patch changes the bytes behind the only occurrence of a tensor's name in a
// header: its number of dimensions, two dimensions, its type and its offset.
func patch(t *testing.T, name string, at int, value []byte) []byte {
	t.Helper()
	b := demoBytes(t, "draft")
	entry := append(binary.LittleEndian.AppendUint64(nil, uint64(len(name))), name...)
	i := bytes.Index(b, entry)
	if i < 0 {
		t.Fatalf("no %s", name)
	}
	copy(b[i+len(entry)+at:], value)
	return b
}

// oneError checks the exit code and that the error is one line with all of want.
func oneError(t *testing.T, name string, o outcome, code int, want ...string) {
	t.Helper()
	if o.code != code {
		t.Errorf("%s: exit code %d, want %d: %s", name, o.code, code, o.err)
	}
	if strings.Count(o.err, "\n") != 1 || !strings.HasPrefix(o.err, "foretoken: ") ||
		strings.HasPrefix(o.err, "foretoken: foretoken") {
		t.Errorf("%s: not one line of error: %q", name, o.err)
	}
	for _, w := range want {
		if !strings.Contains(o.err, w) {
			t.Errorf("%s: no %q in %q", name, w, o.err)
		}
	}
	if o.out != "" {
		t.Errorf("%s: standard output %q", name, o.out)
	}
}

func TestBadModelsAreRefusedInOneLine(t *testing.T) {
	good := demoBytes(t, "draft")
	le := binary.LittleEndian
	renamed := func(c *content) {
		tokens := valueOf(t, openDraft(t), "tokenizer.ggml.tokens").([]string)
		tokens[1000] += "x"
		c.set("tokenizer.ggml.tokens", tokens)
		c.drop("tokenizer.ggml.merges")
		c.kv = append(c.kv, gguf.KV{Key: "tokenizer.ggml.merges", Value: []string{}})
	}
	for _, bad := range []struct {
		name   string
		file   []byte
		want   []string // in addition to the file's name
		header bool     // inspect refuses it too
	}{
		{"no bytes", nil, []string{"too few"}, true},
		{"truncated header", good[:2000], []string{"truncated"}, false},
		{"truncated data", good[:len(good)-40000], []string{"tensor", "truncated"}, false},
		{"wrong magic", append([]byte("GGUX"), good[4:]...), []string{"magic", "GGUX"}, true},
		{"wrong version", append([]byte("GGUF\x09\x00\x00\x00"), good[8:]...), []string{"version 9"}, true},
		{"absurd number of tensors", append(le.AppendUint64([]byte("GGUF\x03\x00\x00\x00"), 1<<60), good[16:]...),
			[]string{"tensors", "1152921504606846976"}, false},
		{"absurd number of entries", append(le.AppendUint64(bytes.Clone(good[:16]), 1<<40), good[24:]...),
			[]string{"metadata entries", "1099511627776"}, false},
		{"absurd dimension", patch(t, "blk.0.attn_q.weight", 4, le.AppendUint64(nil, 1<<62)),
			[]string{"blk.0.attn_q.weight"}, false},
		{"unknown tensor type", patch(t, "blk.0.attn_q.weight", 20, le.AppendUint32(nil, 77)),
			[]string{"blk.0.attn_q.weight", "type 77 is not known"}, false},
		{"type without kernels", wrong(t, func(c *content) {
			q := c.tensor("blk.0.attn_q.weight")
			q.Type, q.Data = gguf.Q8_1, make([]byte, 36*3*96)
		}), []string{"blk.0.attn_q.weight", "Q8_1"}, false},
		{"missing tensor", wrong(t, func(c *content) { c.drop("blk.1.ffn_up.weight") }),
			[]string{"blk.1.ffn_up.weight", "missing"}, false},
		{"tensor of another shape", wrong(t, func(c *content) {
			c.tensor("blk.1.ffn_up.weight").Dims = []uint64{192, 128}
		}), []string{"blk.1.ffn_up.weight", "[192 128]"}, false},
		{"tensor without a place", wrong(t, func(c *content) {
			c.tensors = append(c.tensors, gguf.WriteTensor{Name: "blk.0.ffn_norm.bias", Dims: []uint64{96},
				Type: gguf.F32, Data: make([]byte, 4*96)})
		}), []string{"blk.0.ffn_norm.bias"}, false},
		{"missing field", wrong(t, func(c *content) { c.drop("llama.attention.head_count") }),
			[]string{"llama.attention.head_count", "missing"}, false},
		{"field of another type", wrong(t, func(c *content) { c.set("llama.block_count", "two") }),
			[]string{"llama.block_count", "string"}, false},
		{"absurd field", wrong(t, func(c *content) { c.set("llama.block_count", uint32(1<<31)) }),
			[]string{"llama.block_count", "2147483648"}, false},
		{"field that contradicts a tensor", wrong(t, func(c *content) { c.set("llama.embedding_length", uint32(192)) }),
			[]string{"token_embd.weight"}, false},
		{"no architecture", wrong(t, func(c *content) { c.drop("general.architecture") }),
			[]string{"general.architecture", "missing"}, false},
		{"another architecture", wrong(t, func(c *content) { c.set("general.architecture", "mumba\nx") }),
			[]string{"general.architecture", `mumba\nx`}, false},
		{"another tokenizer", wrong(t, func(c *content) { c.set("tokenizer.ggml.model", "plamo2") }),
			[]string{"tokenizer.ggml.model", "plamo2"}, false},
		{"no tokens", wrong(t, func(c *content) { c.drop("tokenizer.ggml.tokens") }),
			[]string{"tokenizer.ggml.tokens", "missing"}, false},
		{"another vocabulary", wrong(t, renamed), []string{"token 1000", "target-q8_0.gguf"}, false},
	} {
		path := write(t, "bad.gguf", bad.file)
		want := append(bad.want, path)
		oneError(t, bad.name, generate(t, "", "--draft", path, "--prompt", "x", "--max-tokens", "1"),
			exitError, want...)
		if bad.header {
			oneError(t, bad.name+", inspected", call(t, "", "inspect", path), exitError, want...)
			continue
		}
		if o := call(t, "", "inspect", path); o.code != exitOK || o.err != "" {
			t.Errorf("%s: inspect: code %d: %s", bad.name, o.code, o.err)
		}
	}
}

func TestInspectSaysWhyAFileCannotBeRun(t *testing.T) {
	for name, bad := range map[string]struct {
		file []byte
		want string
	}{
		"architecture": {wrong(t, func(c *content) { c.set("general.architecture", "mumba") }), "general.architecture"},
		"type": {wrong(t, func(c *content) {
			q := c.tensor("blk.0.attn_q.weight")
			q.Type, q.Data = gguf.Q8_1, make([]byte, 36*3*96)
		}), "Q8_1"},
		"tokenizer": {wrong(t, func(c *content) { c.set("tokenizer.ggml.model", "plamo2") }), "tokenizer.ggml.model"},
	} {
		o := call(t, "", "inspect", write(t, "bad.gguf", bad.file))
		if _, reason, ok := strings.Cut(o.out, "can be run: no: "); o.code != exitOK || !ok ||
			!strings.Contains(reason, bad.want) {
			t.Errorf("%s: %s%s", name, o.out, o.err)
		}
	}
}

func TestBadPromptFilesAreRefusedInOneLine(t *testing.T) {
	for name, bad := range map[string]struct {
		file string
		want string
	}{
		"no JSON":        {"{\"id\": \"a\", \"prompt\": \"x\"}\nfunc main", "line 2"},
		"no object":      {`["a"]`, "line 1: the JSON value is a list"},
		"no id":          {`{"prompt": "x"}`, "id is missing"},
		"no prompt":      {`{"id": "x"}`, "prompt is missing"},
		"a number as id": {`{"id": 1, "prompt": "x"}`, "id is 1, want a string"},
		"a name twice":   {`{"id": "a", "prompt": "x", "id": "b"}`, "line 1: id is given twice, at bytes 2 and 28"},
		"another case":   {`{"id": "a", "Prompt": "x"}`, "Prompt is unknown; did you mean prompt?"},
		"half a pair":    {`{"id": "a", "prompt": "x\ud800"}`, `prompt holds \ud800 at byte 25, half of a pair`},
		"no UTF-8":       {"{\"id\": \"a\", \"prompt\": \"\xff\"}", "prompt holds the byte 0xff at byte 24"},
		"nothing":        {"\n\n", "no prompts"},
	} {
		path := write(t, "prompts.jsonl", []byte(bad.file))
		oneError(t, name, generate(t, "", "--prompt-file", path), exitError, path, bad.want)
	}
	long := write(t, "prompts.jsonl", []byte(`{"id": "long one", "prompt": "`+strings.Repeat("x y ", 4000)+`"}`))
	o := generate(t, "", "--prompt-file", long, "--json")
	oneError(t, "longer than the context", o, exitError, long, "long one", "context")
}

func TestMissingFilesAreNamed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "nowhere.gguf")
	for _, args := range [][]string{
		{"generate", "--device", "cpu", "--prompt", "x", "--target", path, "--draft", "none"},
		{"generate", "--device", "cpu", "--prompt", "x", "--draft", path},
		{"generate", "--device", "cpu", "--prompt-file", path},
		{"inspect", path},
		{"inspect", filepath.Dir(path)},
	} {
		oneError(t, strings.Join(args, " "), call(t, "", args...), exitError, filepath.Dir(path))
	}
}

func TestWrongUseIsToldApart(t *testing.T) {
	for _, bad := range []struct{ args, want string }{
		{"generate --temperature NaN", "temperature is NaN"},
		{"generate --temperature -1", "temperature is -1"},
		{"generate --temperature warm", "--temperature is \"warm\", want a number"},
		{"generate --temperature 99", "--temperature is 99, want 0 (greedy) or 0.001 to 2"},
		{"generate --depth 1.5", "--depth is \"1.5\", want a whole number"},
		{"generate --grammar root::=", "--grammar cannot be used: "},
		{"generate --policy egale2", "did you mean eagle2?"},
		{"generate -promt x", "did you mean --prompt?"},
		{"generate --top-p 1.5", "top-p is 1.5"},
		{"generate --top-p NaN", "top-p is NaN"},
		{"generate --min-p -0.1", "min-p is -0.1"},
		{"generate --sample-top-k -1", "--sample-top-k is -1, want 0 (off) or 1 to"},
		{"generate --depth -1", "--depth is -1"},
		{"generate --depth 0", "--depth is 0"},
		{"generate --depth 1000", "depth is 1000"},
		{"generate --top-k 1000", "top-k is 1000"},
		{"generate --nodes 1", "--nodes is 1"},
		{"generate --max-tokens -5", "--max-tokens is -5"},
		{"generate --context -5", "--context is -5"},
		{"generate --stop-token-ids a", "--stop-token-ids is \"a\", want whole numbers"},
		{"generate --seed -1", "--seed is \"-1\", want a whole number of 0 or more"},
		{"generate --policy magic", "--policy is \"magic\", want none, auto, chain"},
		{"generate --verifier hope", "--verifier is \"hope\""},
		{"generate --verifier rejection", "rejection verifier needs tokens sampled"},
		{"generate --verifier rejection --policy ngram", "rejection verifier"},
		{"generate --device abacus", "--device is \"abacus\", want auto, native, cpu or reference"},
		{"generate --kv f8", "--kv is \"f8\""},
		{"generate --quantise q9", "--quantise is \"q9\", want f32, f16, bf16, q8_0 or q4_0"},
		{"generate --draft none --policy eagle2", "--draft"},
		{"generate --stop=", "--stop has an empty string"},
		{"generate --prompt-file x", "exclude"},
		{"generate --prompt-file=", "exclude"},
		{"generate --nonsense", "--nonsense"},
		{"generate stray", "takes flags only, and \"stray\" is none"},
		{"inspect", "needs a model"},
		{"inspect a b", "takes 1 model, not 2"},
		{"train c3t", "unknown command \"c3t\" for \"foretoken train\"; did you mean c2t?"},
		{"devices x", "x"},
		{"decode", "decode"},
		{"genrate", "did you mean generate?"},
		{"train c2t --promts x", "did you mean --prompts?"},
		{"generate --max-token 3", "did you mean --max-tokens?"},
	} {
		args := strings.Fields(bad.args)
		if args[0] == "generate" {
			args = append(args, "--prompt", "x")
		}
		oneError(t, bad.args, call(t, "", args...), exitUsage, bad.want)
	}
	var out, errs bytes.Buffer
	code := run(t.Context(), &console{in: strings.NewReader(""), out: &out, err: &errs, inTerminal: true},
		[]string{"generate"})
	oneError(t, "no prompt at a terminal", outcome{code, out.String(), errs.String()}, exitUsage, "no prompt")
	oneError(t, "a context beyond the model's", generate(t, "", "--context", "100000", "--prompt", "x"), exitError,
		"100000", "target-q8_0.gguf")
	oneError(t, "more nodes than a pass holds", generate(t, "", "--nodes", "1000", "--prompt", "x"), exitError, "nodes")
	oneError(t, "nothing on standard input", generate(t, ""), exitUsage, "standard input is empty")
	if o := call(t, ""); o.code != exitOK || !strings.Contains(o.out, "generate") {
		t.Errorf("no arguments: %+v", o)
	}
}
