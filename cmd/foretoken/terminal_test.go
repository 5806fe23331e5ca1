//go:build unix

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"foretoken/models/gguf"
	"foretoken/models/safetensors"
)

// steering is a text that sets a terminal's title, rings, clears, turns the line around and breaks it.
const steering = "\x1b]0;owned\x07\x1b[2J\u009b1m\u202e\u2066\u2028\u2029\x7f\r\n\xff"

// longestLine bounds the lines of standard output and error.
const longestLine = 4000

// plain fails if standard output or error has a character that a terminal does not print, or a line of more than
// longestLine bytes. It returns the length of the longest one.
func plain(t *testing.T, name string, o outcome) (longest int) {
	t.Helper()
	for line := range strings.SplitSeq(o.out+o.err, "\n") {
		if longest = max(longest, len(line)); len(line) > longestLine {
			t.Errorf("%s: a line of %d bytes: %.200q", name, len(line), line)
		}
		for _, r := range line {
			if !strconv.IsPrint(r) && r != '\t' {
				t.Errorf("%s: %q in %.300q", name, r, line)
				break
			}
		}
	}
	return longest
}

// TestForeignTextDoesNotSteer puts texts that steer a terminal, and very long ones, in every place of a model where a
// file has text. What inspect and generate print of it is printable, and no line is long.
func TestForeignTextDoesNotSteer(t *testing.T) {
	t.Attr("attack",
		"texts in a model that steer a terminal or are of 60,000 bytes, shown by inspect, generate and chat")
	t.Attr("bound", fmt.Sprintf("printable characters alone, lines of %d bytes", longestLine))
	files, most := 0, 0
	for what, text := range map[string]string{"steering": strings.ToValidUTF8(steering, ""), "raw": steering,
		"long": strings.Repeat("k\u202e", 60006/4), "long and plain": strings.Repeat("k", 60006)} {
		valid := strings.ToValidUTF8(text, "")
		name := valid[:min(len(valid), 240)]
		for place, change := range map[string]func(*content){
			"a key": func(c *content) { c.add(valid, "x") },
			"a field of the architecture": func(c *content) {
				c.add("llama."+valid[:min(len(valid), 60000)], uint32(7))
			},
			"a value":        func(c *content) { c.set("general.name", text) },
			"architecture":   func(c *content) { c.set("general.architecture", text) },
			"tokenizer":      func(c *content) { c.set("tokenizer.ggml.model", text) },
			"pre-tokenizer":  func(c *content) { c.set("tokenizer.ggml.pre", text) },
			"scaling":        func(c *content) { c.add("llama.rope.scaling.type", text) },
			"template":       func(c *content) { c.add("tokenizer.chat_template", "{% "+text) },
			"another tensor": func(c *content) { c.tensors = append(c.tensors, vector(name)) },
			"tokens": func(c *content) {
				tokens := valueOf(t, openDraft(t), "tokenizer.ggml.tokens").([]string)
				tokens[1000], tokens[1001] = text, text
				c.set("tokenizer.ggml.tokens", tokens)
			},
			"a merge": func(c *content) { c.set("tokenizer.ggml.merges", []string{text}) },
			"another type": func(c *content) {
				c.drop("llama.block_count")
				c.add("llama.block_count", text)
			},
		} {
			path := write(t, "odd.gguf", wrong(t, change))
			at := what + " in " + place
			files++
			most = max(most, plain(t, at+", inspected", call(t, "", "inspect", path)),
				plain(t, at, generate(t, "", "--target", path, "--prompt", "x", "--max-tokens", "1")))
			if place == "template" {
				most = max(most, plain(t, at+", chat", call(t, "hello\n", "chat", "--device", "cpu", "--target", path)))
			}
		}
	}
	t.Attr("measured", fmt.Sprintf("%d files; lines of at most %d bytes", files, most))
}

func (c *content) add(key string, value any) { c.kv = append(c.kv, gguf.KV{Key: key, Value: value}) }

func vector(name string) gguf.WriteTensor {
	return gguf.WriteTensor{Name: name, Dims: []uint64{8}, Type: gguf.F32, Data: make([]byte, 32)}
}

// TestForeignCheckpointDoesNotSteer does the same with the names of safetensors and the values of config.json.
func TestForeignCheckpointDoesNotSteer(t *testing.T) {
	t.Attr("attack", "the same texts in the names of safetensors and in config.json")
	t.Attr("bound", fmt.Sprintf("refused in printable characters, lines of %d bytes", longestLine))
	folders, most := 0, 0
	for what, text := range map[string]string{"steering": strings.ToValidUTF8(steering, ""),
		"long": strings.Repeat("k\u202e", 60006/4)} {
		quoted, _ := json.Marshal(text)
		raw := strings.NewReplacer(`\u2028`, "\u2028", `\u2029`, "\u2029").Replace(string(quoted)) // legal in JSON
		index := func(name, file string) string { return `{"weight_map":{` + name + `:` + file + `}}` }
		for place, files := range map[string]map[string]string{
			"model_type":  {"config.json": `{"model_type":` + raw + `}`},
			"class":       {"config.json": `{"architectures":[` + raw + `]}`},
			"a value":     {"config.json": `{"model_type":"llama","hidden_size":` + raw + `}`},
			"a field":     {"config.json": `{"model_type":"llama",` + raw + `:1}`},
			"no JSON":     {"config.json": text},
			"of weights":  {"config.json": `{}`, "model.safetensors.index.json": index(`"x"`, raw)},
			"of a tensor": {"config.json": `{}`, "model.safetensors.index.json": index(raw, `"x.safetensors"`)},
			"tokenizer":   {"config.json": `{}`, "tokenizer.json": `{"model":{"type":` + raw + `}}`},
			"a number":    {"config.json": `{"model_type":"llama","hidden_size":` + strings.Repeat("1", 70000) + `}`},
		} {
			dir := t.TempDir()
			var b bytes.Buffer
			odd := safetensors.Tensor{Name: text[:min(len(text), 999)], Dtype: safetensors.F32, Shape: []uint64{1},
				Data: make([]byte, 4)}
			if err := safetensors.Write(&b, map[string]string{"k": text}, odd); err != nil {
				t.Fatal(err)
			}
			files["x.safetensors"] = b.String()
			for name, data := range files {
				if err := os.WriteFile(filepath.Join(dir, name), []byte(data), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			o := call(t, "", "inspect", dir)
			folders, most = folders+1, max(most, plain(t, what+" in "+place, o))
			if o.code != exitError {
				t.Errorf("%s in %s: code %d", what, place, o.code)
			}
		}
	}
	t.Attr("measured", fmt.Sprintf("%d folders; lines of at most %d bytes", folders, most))
}

// TestOnlyRegularFiles gives a named pipe, which would wait for a writer, a device without an end and a folder to
// every flag that reads a file. Each is refused at once.
func TestOnlyRegularFiles(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Skip(err)
	}
	t.Attr("attack",
		"a named pipe, a device or a folder as a model, prompt, calibration, template, report, journal or "+
			"tuning cache")
	t.Attr("bound", fmt.Sprintf("refused before it is opened; small files are read up to %d MiB, heads up to %d GiB",
		maxInput>>20, maxHead>>30))
	refused := 0
	folder := t.TempDir()
	prompts := write(t, "prompts.jsonl", []byte(`{"id":"a","prompt":"x"}`))
	one := func(args ...string) []string { return append([]string{"generate", "--prompt", "x"}, args...) }
	for _, args := range [][]string{
		one("--target"), one("--draft"), one("--calibration"), one("--eagle3"), one("--grammar-file"),
		one("--json-schema-file"), {"generate", "--prompt-file"}, {"chat", "--chat-template"},
		{"serve", "--addr", "127.0.0.1:0", "--chat-template"}, {"inspect"},
		{"convert", "-o", filepath.Join(folder, "x.gguf")}, {"bench", "--prompts"},
		{"bench", "--prompts", prompts, "--resume"},
	} {
		for kind, path := range map[string]string{"a named pipe": pipe, "a device": "/dev/zero", "a folder": folder} {
			last := args[len(args)-1]
			if kind == "a folder" && (slices.Contains([]string{"--target", "--draft", "inspect"}, last) ||
				args[0] == "convert") {
				continue // of safetensors
			}
			want := "is not a regular file but " + kind
			if kind == "a named pipe" && strings.HasPrefix(last, "--prompt") { // as a shell's <(command) is
				want = "has no prompts"
			}
			done := make(chan outcome, 1)
			go func() { done <- call(t, "", append(args, path)...) }()
			select {
			case o := <-done:
				refused++
				if o.code == exitOK || !strings.Contains(o.err, path) || strings.Count(o.err, want) != 1 {
					t.Errorf("%v %s: code %d: %s", args, path, o.code, o.err)
				}
			case <-time.After(20 * time.Second):
				t.Errorf("%v %s is still read", args, path)
			}
		}
	}
	if _, err := readTuning(pipe); err == nil || !strings.Contains(err.Error(), "a named pipe") {
		t.Errorf("the tuning cache: %v", err)
	}
	t.Attr("measured", fmt.Sprintf("%d commands refused", refused+1))
}

// TestTokensWithoutTextAreRefused checks that inspect and generate refuse a vocabulary that can write nothing.
func TestTokensWithoutTextAreRefused(t *testing.T) {
	t.Attr("attack", "a vocabulary whose tokens are all empty or unused")
	t.Attr("bound", "refused by generate, and inspect says so")
	for name, change := range map[string]func(*content, int){
		"empty": func(c *content, n int) { c.set("tokenizer.ggml.tokens", make([]string, n)) },
		"unused": func(c *content, n int) {
			types := make([]int32, n)
			for i := range types {
				types[i] = 5
			}
			c.set("tokenizer.ggml.token_type", types)
		},
	} {
		path := write(t, "bad.gguf", wrong(t, func(c *content) {
			change(c, len(valueOf(t, openDraft(t), "tokenizer.ggml.tokens").([]string)))
		}))
		oneError(t, name, generate(t, "", "--policy", "none", "--target", path, "--prompt", "x"), exitError,
			"empty or unused", path)
		if o := call(t, "", "inspect", path); o.code != exitOK ||
			!strings.Contains(o.out, "can be run: no") || !strings.Contains(o.out, "empty or unused") {
			t.Errorf("%s: code %d: %s%s", name, o.code, o.out, o.err)
		}
	}
}
