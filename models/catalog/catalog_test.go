package catalog

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"foretoken/internal/files"
	"foretoken/models/chat"
	"foretoken/models/gguf"
	"foretoken/webgpu"
	"foretoken/webgpu/simd"
)

// published is the catalog of the repository.
func published(t *testing.T) (string, *Catalog) {
	t.Helper()
	body, err := os.ReadFile(filepath.Join("..", "catalog.json"))
	if err != nil {
		t.Fatal(err)
	}
	c, err := Read(body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body), c
}

func builtin(name string) (files.Source, error) { return files.Open(filepath.Join("..", "demo", name)) }

const file = "models/catalog.json: "

// TestBadEntriesAreRefused changes one field of the published catalog at a time; the error begins with its name.
func TestBadEntriesAreRefused(t *testing.T) {
	text, _ := published(t)
	for _, c := range []struct{ old, new, want string }{
		{`"version": 2`, `"version": 1`, file + "version: "},
		{`"models": [`, `"models": [null, `, file + "models: the first one is not built in"},
		{`"repository": "models/demo",`, `"repository": "a/b", "revision": "main",`, file + "models: the first one"},
		{`"id": "smollm2-360m"`, `"id": "builtin"`, file + "models[3]: id: "},
		{`"id": "smollm2-360m"`, `"id": "SmolLM2"`, file + "models[3]: id: "},
		{`"id": "tinyllama"`, `"id": "tinyllama", "stars": 5`, "stars"},
		{`"title": "Qwen3 4B"`, `"title": ""`, file + "qwen3-4b: title: "},
		{`"family": "TinyLlama"`, `"family": ""`, file + "llama-68m: family: "},
		{`"kind": "code"`, `"kind": "poetry"`, file + "builtin: kind: "},
		{`"template": "zephyr"`, `"template": "none"`, file + "tinyllama: template: "},
		{`"template": "zephyr"`, `"template": ""`, file + "tinyllama: template: "},
		{`"device": "desktop"`, `"device": "toaster"`, ": device: "},
		{`"quant": "Q4_K_M"`, `"quant": "Q5_0"`, file + "smollm2-135m: quant: "},
		{`"drafters": []`, `"drafters": null`, file + "builtin-draft: drafters: "},
		{`"model": "builtin-draft"`, `"model": "builtin"`, file + "builtin: drafters[0]: model: "},
		{`"model": "llama-68m"`, `"model": "llama-69m"`, file + "tinyllama: drafters[0]: model: "},
		{`"kind": "eagle3"`, `"kind": "medusa"`, file + "builtin: drafters[1]: kind: "},
		{`"config": "eagle3.json"`, `"config": "../eagle3.json"`, file + "builtin: drafters[1]: config: "},
		{`"file": "eagle3.safetensors"`, `"file": "eagle3.gguf"`, file + "builtin: drafters[1]: file: "},
		{`"repository": "Qwen/Qwen3-4B-GGUF"`, `"repository": "Qwen3-4B-GGUF"`, file + "qwen3-4b: repository: "},
		{`"repository": "Qwen/Qwen3-4B-GGUF"`, `"repository": "../.."`, file + "qwen3-4b: repository: "},
		{`"revision": "bc640142c66e1fdd12af0bd68f40445458f3869b"`, `"revision": ""`, file + "qwen3-4b: revision: "},
		{`"repository": "models/demo",`, `"repository": "models/demo", "revision": "main",`,
			file + "builtin: revision: "},
		{`"file": "Qwen3-4B-Q4_K_M.gguf"`, `"file": "Q4_K_M.bin"`, file + "qwen3-4b: file: "},
		{`"file": "Qwen3-4B-Q4_K_M.gguf"`, `"file": "a/Q4_K_M.gguf"`, file + "qwen3-4b: file: "},
		{`"bytes": 2497280256`, `"bytes": -1`, file + "qwen3-4b: bytes: "},
		{`"bytes": 2497280256`, `"bytes": "2 GB"`, "bytes"},
		{`"sha256": "unchecked"`, `"sha256": ""`, file + "smollm2-360m: sha256: "},
		{`"sha256": "unchecked"`, `"sha256": "` + strings.Repeat("x", 64) + `"`, file + "smollm2-360m: sha256: "},
		{`"licence": "Qwen Research"`, `"licence": ""`, file + "qwen2.5-3b: licence: "},
		{`"licence_url": "https://go.dev/LICENSE"`, `"licence_url": "javascript:alert()"`,
			file + "builtin: licence_url: "},
		{`"gpu": `, `"gpu": -`, file + "builtin: memory: "},
		{`"architecture": "qwen3"`, `"architecture": "qwen9"`, file + "qwen3-0.6b: hparams: architecture: "},
		{`"layers": 32`, `"layers": 0`, file + "smollm2-360m: hparams: "},
	} {
		bad := strings.Replace(text, c.old, c.new, 1)
		if bad == text {
			t.Errorf("the catalog does not contain %s", c.old)
		}
		if _, err := Read([]byte(bad)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s for %s: %v, want %s", c.new, c.old, err, c.want)
		}
	}
}

// TestMemoryIsComputed: the file holds what command plan writes.
func TestMemoryIsComputed(t *testing.T) {
	text, c := published(t)
	for _, m := range c.Models {
		m.Memory, m.Device, m.Needs = Memory{}, "", ""
	}
	cpu, err := simd.Open(simd.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer cpu.Destroy()
	if err := c.Fill(webgpu.DefaultLimits(), cpu.Info().Limits, builtin); err != nil {
		t.Fatal(err)
	}
	if got, err := c.Text(); err != nil || !bytes.Equal(got, []byte(text)) {
		t.Errorf("%v: models/catalog.json is not what this command writes: go run ./models/catalog/plan", err)
	}
}

// TestHParamsFitTheFiles: what a file has beside the tensors of its hparams is its header, some dozen bytes a token.
func TestHParamsFitTheFiles(t *testing.T) {
	_, c := published(t)
	for _, m := range c.Models {
		if m.HParams == nil || m.Bytes == 0 {
			continue
		}
		f, err := m.open(builtin)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(f.needs, "the architecture") {
			continue // an estimate
		}
		data := f.more
		for _, tensor := range f.Tensors {
			data += tensor.Size
		}
		if header := (m.Bytes - data) / int64(m.HParams.Vocab); header < 20 || header > 80 {
			t.Errorf("%s: %d bytes beside tensors of %d, %d a token", m.ID, m.Bytes-data, data, header)
		}
	}
}

// TestBuiltinFiles compares the entries with the files of the repository.
func TestBuiltinFiles(t *testing.T) {
	_, c := published(t)
	compare := func(of *File) {
		body, err := os.ReadFile(filepath.Join("..", "demo", of.Name))
		if err != nil {
			t.Fatal(err)
		}
		if sum := sha256.Sum256(body); int64(len(body)) != of.Bytes || hex.EncodeToString(sum[:]) != of.SHA256 {
			t.Errorf("%s has %d bytes and SHA-256 %x; the catalog says %d and %s", of.Name, len(body), sum, of.Bytes,
				of.SHA256)
		}
	}
	for _, m := range c.Models {
		if m.Repository != Builtin {
			continue
		}
		compare(&m.File)
		for _, d := range m.Drafters {
			if d.Head != nil {
				compare(&d.Head.File)
			}
		}
		src, err := builtin(m.Name)
		if err != nil {
			t.Fatal(err)
		}
		f, err := gguf.Open(src)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := chat.ForFile(f, chat.Options{}); (err == nil) != (m.Template != "none") {
			t.Errorf("%s: the template is %s, but the file says: %v", m.ID, m.Template, err)
		}
	}
}
