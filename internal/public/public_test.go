package public

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func TestPlain(t *testing.T) {
	for text, want := range map[string]string{
		"spec: top_p is 2, want 0 to 1":                         "top_p is 2, want 0 to 1",
		"foretoken: chat: the chat template: jinja: line 1: no": "the chat template: line 1: no",
		"spec: spec: a":        "a",
		"foretoken: a\n  b":    "a b",
		"line 3: chat is open": "line 3: chat is open",
		"spectest: x":          "spectest: x",
	} {
		if got := Message(errors.New(text)); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// TestPackages looks for packages whose errors begin with their name and that Plain does not know.
func TestPackages(t *testing.T) {
	own := regexp.MustCompile(`(?m)^package (\w+)`)
	n := 0
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && (d.Name() == "node_modules" || d.Name() == "build" || d.Name() == "shared") {
			return filepath.SkipDir
		}
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name := string(own.FindSubmatch(text)[1])
		if strings.HasSuffix(name, "test") { // of tests
			return nil
		}
		for _, call := range []string{`Errorf("`, `errors.New("`} {
			if bytes.Contains(text, []byte(call+name+": ")) {
				if n++; Plain(name+": x") != "x" {
					t.Errorf("%s: errors begin with %s:, which clients are told", path, name)
				}
			}
		}
		return nil
	})
	if err != nil || n < 50 {
		t.Errorf("%d files, %v", n, err)
	}
}
