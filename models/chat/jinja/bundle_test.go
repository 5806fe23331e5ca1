package jinja

import (
	"crypto/sha256"
	_ "embed"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// bundle has hashes of what Python's jinja2 makes of llama.cpp's templates: see testdata/bundle.py.
//
//go:embed testdata/bundle.json
var bundle []byte

// unlike has the renderings that differ from jinja2's. functionary marks texts as safe to have others escaped, which
// Foretoken and llama.cpp do not do; DeepSeek R1's writes as JSON what Python makes lazily and then cannot write.
var unlike = map[string]int{"meetkai-functionary-medium-v3.1.jinja": 13, "llama-cpp-deepseek-r1.jinja": 16}

// TestBundledTemplates renders conversations by the templates that come with llama.cpp, where they are there.
func TestBundledTemplates(t *testing.T) {
	var b struct {
		Variables []json.RawMessage
		Templates map[string]string // hashes of the renderings, - for what is refused
	}
	if err := json.Unmarshal(bundle, &b); err != nil {
		t.Fatal(err)
	}
	folder := filepath.Join("..", "..", "..", "build", "llama", "templates")
	files, _ := filepath.Glob(filepath.Join(folder, "*.jinja")) // the only error is a bad pattern
	if len(files) == 0 {
		t.Skip("build/llama/templates is missing: make report REPORT=tokenizers fills it")
	}
	refused, same := 0, 0
	for _, file := range files {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Base(file)
		want := strings.Fields(b.Templates[name])
		if len(want) != len(b.Variables) {
			t.Errorf("%s: %d hashes of %d", name, len(want), len(b.Variables))
			continue
		}
		differ := 0
		for i, raw := range b.Variables {
			v, err := FromJSON(raw, new(MaxValues))
			if err != nil {
				t.Fatal(err)
			}
			text, err := render(string(source), v.(*Dict), Limits{})
			sum := sha256.Sum256([]byte(text))
			got := fmt.Sprintf("%x", sum[:4])
			if err != nil {
				checkError(t, err)
				got = "-"
				refused++
			}
			if got == want[i] {
				same++
				continue
			}
			if differ++; differ == 1 && unlike[name] == 0 {
				t.Errorf("%s differs for %s: %v %q", name, raw, err, text)
			}
		}
		if differ != unlike[name] {
			t.Errorf("%s differs in %d renderings, want %d", name, differ, unlike[name])
		}
	}
	t.Logf("%d renderings of %d templates are jinja2's, %d of them refused", same, len(files), refused)
}
