//go:build !js

package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"foretoken/models/catalog"
)

// hub answers as Hugging Face does: a redirect with the checksum and the revision, to a store that sends ranges.
func hub(t *testing.T, files map[string]hubFile) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for name := range r.Header {
			if name != "Range" {
				t.Errorf("%s: the header %s is sent", r.URL.Path, name)
			}
		}
		f, ok := files[strings.TrimPrefix(r.URL.Path, "/store")]
		switch {
		case !ok:
			http.NotFound(w, r)
		case !strings.HasPrefix(r.URL.Path, "/store"):
			w.Header().Set("X-Linked-Etag", `"`+f.sum+`"`)
			w.Header().Set("X-Repo-Commit", f.revision)
			http.Redirect(w, r, "/store"+r.URL.Path, http.StatusFound)
		case f.whole:
			fmt.Fprint(w, "everything")
		default:
			w.Header().Set("Content-Range", fmt.Sprintf("bytes 0-0/%d", f.size))
			w.WriteHeader(http.StatusPartialContent)
			fmt.Fprint(w, "G")
		}
	}))
	t.Cleanup(server.Close)
	return server
}

type hubFile struct {
	size          int64
	sum, revision string
	whole         bool // the host ignores ranges
}

// TestCatalogCheck asks a hub for the files of a small catalog: the catalog gets what the hub says, and what differs
// from the catalog, is missing or cannot be read in parts is a problem.
func TestCatalogCheck(t *testing.T) {
	published, err := os.ReadFile(filepath.Join("..", "..", "models", "catalog.json"))
	if err != nil {
		t.Fatal(err)
	}
	list, err := catalog.Read(published)
	if err != nil {
		t.Fatal(err)
	}
	list.Models = slices.DeleteFunc(list.Models, func(m *catalog.Model) bool {
		return !slices.Contains([]string{"builtin", "builtin-draft", "qwen2.5-0.5b", "qwen3-0.6b", "llama-68m",
			"tinyllama", "llama-3.2-1b"}, m.ID)
	})
	text, err := list.Text()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "catalog.json")
	write := func() {
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write()
	o := call(t, "", "catalog", "check", "--offline", "--hub", "http://127.0.0.1:1", path)
	if o.code != exitOK || !strings.Contains(o.out, "7 models, 0 of them coming; 0 of 0 files confirmed") {
		t.Errorf("offline: %+v", o)
	}

	byID, files := map[string]*catalog.Model{}, map[string]hubFile{}
	for _, m := range list.Models {
		byID[m.ID] = m
		f := hubFile{m.Bytes, m.SHA256, "0123456789012345678901234567890123456789", false}
		switch m.ID {
		case "qwen2.5-0.5b":
			f.size, f.sum = 675710817, strings.Repeat("a", 64)
		case "qwen3-0.6b":
			f.sum = strings.Repeat("b", 64)
		case "llama-3.2-1b":
			f.whole = true
		case "tinyllama":
			continue // gone
		case "llama-68m":
			f.size = 70_000_000
		}
		files[fmt.Sprintf("/%s/resolve/%s/%s", m.Repository, m.Revision, m.Name)] = f
	}
	server := hub(t, files)
	o = call(t, "", "catalog", "check", "--hub", server.URL, "--json", path)
	var result catalogChecked
	if err := json.Unmarshal([]byte(o.out), &result); err != nil {
		t.Fatalf("%v: %+v", err, o)
	}
	if o.code != exitError || result.Asked != 5 || result.Confirmed != 2 || result.Unchecked != 1 ||
		len(result.Problems) != 3 {
		t.Errorf("code %d, %+v", o.code, result)
	}
	for _, want := range []string{"qwen3-0.6b: Qwen3-0.6B-Q8_0.gguf: the host has", "llama-3.2-1b: ", "answers 200 OK",
		"tinyllama: ", "answers 404"} {
		if !strings.Contains(strings.Join(result.Problems, "\n"), want) {
			t.Errorf("no %q in %q", want, result.Problems)
		}
	}
	body, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	after, err := catalog.Read(body)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range after.Models {
		want := byID[m.ID].File
		switch m.ID {
		case "qwen2.5-0.5b":
			want.Bytes, want.SHA256 = 675710817, strings.Repeat("a", 64)
			want.Revision = "0123456789012345678901234567890123456789"
		case "llama-68m":
			want.Bytes, want.Revision = 70_000_000, "0123456789012345678901234567890123456789"
		}
		if m.File != want {
			t.Errorf("%s is %+v, want %+v", m.ID, m.File, want)
		}
	}
	text = []byte(strings.Replace(string(text), `"licence": "Apache-2.0"`, `"licence": ""`, 1))
	write()
	if o := call(t, "", "catalog", "check", "--offline", path); o.code != exitError ||
		!strings.Contains(o.err, "licence: is empty") {
		t.Errorf("a bad entry: %+v", o)
	}
}
