package modeltest

import (
	"crypto/sha256"
	"encoding/hex"
	"flag"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the references in oracle/ with reference.py")

// referenced are the models that -update writes references for.
var referenced = []string{"tiny-f32", "tiny-q8_0", "tiny-q4_0", "llama-f32", "mistral3-f16", "qwen2-bf16", "qwen3-q8_0",
	"llama-q4_0", "mistral3-q4_1", "qwen2-q5_0", "qwen3-q5_1", "llama-iq4_nl", "mistral3-q2_k", "qwen2-q3_k",
	"qwen3-q4_k",
	"llama-q5_k", "qwen2-q6_k", "phi3-q8_0", "smollm3-q4_0", "granite-f32", "olmo2-f16"}

func bytesOf(t *testing.T, name string) []byte {
	t.Helper()
	src, ok := Source(name)
	if !ok {
		t.Fatalf("%s is no model", name)
	}
	b, err := io.ReadAll(io.NewSectionReader(src, 0, src.Size()))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestUpdate(t *testing.T) {
	if !*update {
		t.Skip("without -update")
	}
	dir, args := t.TempDir(), []string{"reference.py", "oracle"}
	for _, name := range referenced {
		path := filepath.Join(dir, name+".gguf")
		if err := os.WriteFile(path, bytesOf(t, name), 0o600); err != nil {
			t.Fatal(err)
		}
		args = append(args, path)
	}
	if out, err := exec.Command("/usr/bin/python3", args...).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

// TestModelsAreTheReferences holds the generator to the files that the references were made of, bit by bit.
func TestModelsAreTheReferences(t *testing.T) {
	if !slices.Equal(slices.Sorted(slices.Values(referenced)), Oracles()) {
		t.Errorf("references of %v, want %v", Oracles(), referenced)
	}
	for _, name := range Oracles() {
		reference, _ := Oracle(t, name)
		sum := sha256.Sum256(bytesOf(t, name))
		if got := hex.EncodeToString(sum[:]); got != reference.SHA256 {
			t.Errorf("%s is another file than its reference is of (%s, not %s): go test -update", name, got,
				reference.SHA256)
		}
		steps := 0
		for _, r := range reference.Results {
			steps += len(r.Top)
			if len(r.Top) != len(r.Cont) || len(r.IDs) == 0 {
				t.Errorf("%s: %d steps of %d tokens after %d", name, len(r.Top), len(r.Cont), len(r.IDs))
			}
		}
		if steps < 40 {
			t.Errorf("%s: a reference of %d steps", name, steps)
		}
	}
}

// TestEveryArchitectureAndTypeHasAReference: the oracles together have each of them at least once.
func TestEveryArchitectureAndTypeHasAReference(t *testing.T) {
	want := map[string]bool{}
	for _, s := range models {
		want[s.arch] = true
	}
	for _, name := range Types() {
		want[name] = true
	}
	for _, name := range Oracles() {
		of, typ, _ := strings.Cut(name, "-")
		delete(want, models[of].arch)
		delete(want, typ)
	}
	for name := range want {
		t.Errorf("%s has no reference", name)
	}
}

func TestPrompts(t *testing.T) {
	categories := map[string]int{}
	for _, p := range Prompts(t) {
		categories[p.Category]++
	}
	if len(categories) < 4 || len(Prompts(t)) != 80 {
		t.Errorf("%d prompts: %v", len(Prompts(t)), categories)
	}
}
