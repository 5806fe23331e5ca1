package modeltest

import (
	"bufio"
	"bytes"
	"embed"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"foretoken/internal/files"
	"foretoken/models/gguf"
)

// NotRun ends a test whose data is not part of the repository and missing here. `make test` lists these tests at its
// end; FORETOKEN_REQUIRE_DATA=1 makes them fail.
func NotRun(t testing.TB, missing string) {
	t.Helper()
	if os.Getenv("FORETOKEN_REQUIRE_DATA") == "1" {
		t.Fatalf("%s is missing, and FORETOKEN_REQUIRE_DATA=1 asks for it", missing)
	}
	t.Skipf("NOT RUN: %s: %s is missing", t.Name(), missing)
}

// root is the folder of go.mod.
func root(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	for ; err == nil; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		if dir == filepath.Dir(dir) {
			break
		}
	}
	t.Fatalf("no go.mod above the test's folder: %v", err)
	return ""
}

// Shared is the path of third-party test data: a file in the folder that FORETOKEN_SHARED names, or in ../shared beside
// the repository. The test is not run where it is missing.
func Shared(t testing.TB, parts ...string) string {
	t.Helper()
	dir := os.Getenv("FORETOKEN_SHARED")
	if dir == "" {
		dir = filepath.Join(root(t), "..", "shared")
	}
	path := filepath.Join(append([]string{dir}, parts...)...)
	if _, err := os.Stat(path); err != nil {
		NotRun(t, filepath.ToSlash(filepath.Join(append([]string{"../shared"}, parts...)...)))
	}
	return path
}

// generated reads a file that `make testmodels` makes of stories260K, a third party's model.
func generated(t testing.TB, parts ...string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(append([]string{root(t), "build", "testmodels"}, parts...)...))
	if err == nil {
		return b
	}
	if !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	Shared(t, "testmodels", "weights", "stories260K.bin")
	NotRun(t, strings.Join(append([]string{"build/testmodels"}, parts...), "/")+" (make testmodels)")
	return nil
}

// File opens a model of Source, or one of those derived from stories260K, whose names begin with s260k and x3m.
func File(t testing.TB, name string) *gguf.File {
	t.Helper()
	src, ok := Source(name)
	if !ok {
		src = files.FromBytes(name+".gguf", generated(t, name+".gguf"))
	}
	f, err := gguf.Open(src)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// Reference holds the results of an independent implementation for a model.
type Reference struct {
	SHA256  string `json:"sha256"` // of the model's file
	Results []struct {
		Prompt string         `json:"prompt"`
		IDs    []int32        `json:"ids"`
		Cont   []int32        `json:"cont"`
		Top    [][][2]float64 `json:"top"` // per step: (id, log-probability), best first
	} `json:"results"`
}

//go:embed oracle/*.json
var oracles embed.FS

// Oracles are the models of Source that have a reference: together every architecture and every storage type.
// llamacpp.mjs made the references of Architectures, reference.py the others.
func Oracles() []string {
	entries, err := oracles.ReadDir("oracle")
	if err != nil {
		panic(err)
	}
	var all []string
	for _, e := range entries {
		all = append(all, strings.TrimSuffix(e.Name(), ".json"))
	}
	return all
}

// Oracle reads a model's reference; here are the same numbers as this machine's linear algebra rounds them. They differ
// from the reference for x3m models alone, whose weights are not the same on every machine.
func Oracle(t testing.TB, name string) (reference, here Reference) {
	t.Helper()
	b, err := oracles.ReadFile("oracle/" + name + ".json")
	if err != nil {
		if b, err = os.ReadFile(Shared(t, "testmodels", "oracle", name+".json")); err != nil {
			t.Fatal(err)
		}
	}
	decode := func(b []byte) (r Reference) {
		if err := json.Unmarshal(b, &r); err != nil {
			t.Fatalf("the oracle of %s: %v", name, err)
		}
		return r
	}
	reference = decode(b)
	if here = reference; strings.HasPrefix(name, "x3m-") {
		here = decode(generated(t, "oracle", name+".json"))
	}
	return reference, here
}

// Prompt is a Go fragment that the built-in pair was not trained on.
type Prompt struct {
	ID       string `json:"id"`
	Category string `json:"category"`
	Prompt   string `json:"prompt"`
}

// Prompts reads testdata/prompts-go.jsonl.
func Prompts(t testing.TB) (all []Prompt) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(root(t), "testdata", "prompts-go.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	for lines := bufio.NewScanner(bytes.NewReader(b)); lines.Scan(); {
		var p Prompt
		if err := json.Unmarshal(lines.Bytes(), &p); err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
	return all
}
