package modeltest

import (
	"crypto/sha256"
	"encoding/hex"
	"flag"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"foretoken/models/arch"
	"foretoken/webgpu"
)

var update = flag.Bool("update", false, "write the references in oracle/ with reference.py and llamacpp.mjs")

var only = flag.String("only", "", "of -update: the one model to write the reference of")

// decoded are the models of reference.py: together every storage type.
var decoded = []string{"tiny-f32", "tiny-q8_0", "tiny-q4_0", "mistral3-f16", "qwen2-bf16", "qwen3-q8_0", "llama-q4_0",
	"mistral3-q4_1", "qwen2-q5_0", "qwen3-q5_1", "llama-iq4_nl", "mistral3-q2_k", "qwen2-q3_k", "qwen3-q4_k",
	"llama-q5_k", "qwen2-q6_k"}

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
	run := func(program string, args []string, models []string) {
		dir := t.TempDir()
		for _, name := range models {
			if *only != "" && name != *only {
				continue
			}
			path := filepath.Join(dir, name+".gguf")
			if err := os.WriteFile(path, bytesOf(t, name), 0o600); err != nil {
				t.Fatal(err)
			}
			args = append(args, path)
		}
		if out, err := exec.Command(program, args...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	run("/usr/bin/python3", []string{"reference.py", "oracle"}, decoded)
	run("node", []string{"llamacpp.mjs", filepath.Join(root(t), "build", "llama", "node_modules"), "oracle"},
		Architectures())
}

// TestModelsAreTheReferences holds the generator to the files that the references were made of, bit by bit.
func TestModelsAreTheReferences(t *testing.T) {
	if want := slices.Sorted(slices.Values(slices.Concat(decoded, Architectures()))); !slices.Equal(want, Oracles()) {
		t.Errorf("references of %v, want %v", Oracles(), want)
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

// TestEveryTypeHasAReference: the oracles together have each storage type, and each architecture.
func TestEveryTypeHasAReference(t *testing.T) {
	missing := map[string]bool{}
	for _, name := range slices.Concat(Types(), arch.Names()) {
		missing[name] = true
	}
	for _, name := range Oracles() {
		of, typ, _ := strings.Cut(name, "-")
		delete(missing, models[of].arch)
		delete(missing, typ)
	}
	for name := range missing {
		t.Errorf("%s has no reference", name)
	}
}

// TestArchitecturesAreLlamaCpps compares the pass in float64, of each architecture as package arch describes it, with
// llama.cpp's.
func TestArchitecturesAreLlamaCpps(t *testing.T) {
	for _, name := range Architectures() {
		f := File(t, name)
		m, err := arch.Read(f, 0)
		if err != nil {
			t.Fatal(err)
		}
		w, worst := Weights{}, 0.0
		for i := range f.Tensors {
			tensor := &f.Tensors[i]
			x := make([]float32, tensor.Elements())
			if err := f.ReadTensor(tensor, webgpu.F32Bytes(x), 0); err != nil {
				t.Fatal(err)
			}
			w[tensor.Name] = x
		}
		theirs, _ := Oracle(t, name)
		for i, r := range theirs.Results {
			if i > 1 && m.Dim > 128 && os.Getenv("FORETOKEN_FULL") != "1" {
				break // one line and one token; the passes of wide models take long
			}
			ours := Evaluate(m, w, slices.Concat(r.IDs, r.Cont[:len(r.Cont)-1]), 0, nil).Logits
			for step, best := range r.Top {
				row := ours[len(r.IDs)-1+step]
				most, sum := slices.Max(row), 0.0
				for _, x := range row {
					sum += math.Exp(x - most)
				}
				of := func(id float64) float64 { return row[int(id)] - most - math.Log(sum) }
				if first := best[0][0]; best[0][1]-best[1][1] > 0.001 && row[int(first)] != most {
					t.Errorf("%s, %q step %d: only llama.cpp draws %g", name, r.Prompt, step, first)
				}
				for _, b := range best {
					worst = max(worst, math.Abs(b[1]-of(b[0])))
				}
			}
		}
		if t.Logf("%s: %.1e nats", name, worst); !(worst < 1e-4) {
			t.Errorf("%s: a log-probability is off by %.2g nats", name, worst)
		}
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
