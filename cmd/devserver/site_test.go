package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

var script = []byte(strings.Repeat("export const answer = 42; // forty-two\n", 200))

// build writes a small site and a model folder next to it and returns both paths.
func build(t *testing.T) (dir, models string) {
	t.Helper()
	base := t.TempDir()
	dir, models = filepath.Join(base, "dist"), filepath.Join(base, "models")
	files := map[string]string{
		"dist/index.html":            "<!doctype html><title>Foretoken</title>",
		"dist/page.js":               string(script),
		"dist/chunk-AB12CD34.js":     "export {};",
		"dist/foretoken.wasm":        "\x00asm\x01\x00\x00\x00" + strings.Repeat("code", 500),
		"dist/tool.mjs":              "export {};",
		"dist/models/demo/pair.gguf": "GGUF built in",
		"dist/docs/index.html":       "docs",
		"dist/empty/readme.txt":      "text",
		"dist/.env":                  "SECRET",
		"dist/.git/config":           "SECRET",
		"dist/docs/.hidden/x.txt":    "SECRET",
		"models/big.gguf":            strings.Repeat("0123456789", 1000),
		"models/sub/other.GGUF":      "GGUF other",
		"models/notes.txt":           "private notes",
		"secret.txt":                 "SECRET",
		"outside.gguf":               "SECRET",
	}
	for name, content := range files {
		path := filepath.Join(base, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	// The build compresses after it has written: the siblings are the younger ones.
	old := time.Now().Add(-2 * time.Hour)
	for i, suffix := range []string{"", ".gz", ".br"} {
		path := filepath.Join(dir, "page.js"+suffix)
		if suffix != "" {
			if err := os.WriteFile(path, []byte("packed "+suffix), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if at := old.Add(time.Duration(i) * time.Minute); os.Chtimes(path, at, at) != nil {
			t.Fatal("the time of a file cannot be set")
		}
	}
	return dir, models
}

func open(t *testing.T, dir, models string) *site {
	t.Helper()
	s, err := newSite(dir, models)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.close)
	return s
}

// ask sends one request; headers come as name, value pairs.
func ask(s http.Handler, method, target string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, "/", nil)
	r.Host = "127.0.0.1:8080"
	r.URL.Path, r.URL.RawQuery, _ = strings.Cut(target, "?")
	for i := 0; i+1 < len(headers); i += 2 {
		if headers[i] == "Host" {
			r.Host = headers[i+1]
		}
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w
}

func TestMIMETypesAndHeaders(t *testing.T) {
	s := open(t, first(build(t)), "")
	for path, want := range map[string]string{
		"/":                      "text/html; charset=utf-8",
		"/index.html":            "text/html; charset=utf-8",
		"/page.js":               "text/javascript; charset=utf-8",
		"/tool.mjs":              "text/javascript; charset=utf-8",
		"/foretoken.wasm":        "application/wasm",
		"/models/demo/pair.gguf": "application/octet-stream",
		"/empty/readme.txt":      "text/plain; charset=utf-8",
	} {
		w := ask(s, "GET", path)
		if w.Code != 200 || w.Header().Get("Content-Type") != want {
			t.Errorf("%s: %d %q, want 200 %q", path, w.Code, w.Header().Get("Content-Type"), want)
		}
		if w.Header().Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: nosniff is missing", path)
		}
		if tag := w.Header().Get("ETag"); !strings.HasPrefix(tag, `"`) || len(tag) < 10 {
			t.Errorf("%s: ETag %q is not a strong one", path, tag)
		}
	}
	if got := ask(s, "GET", "/page.js").Header().Get("Cache-Control"); got != "no-cache" {
		t.Errorf("page.js: Cache-Control %q", got)
	}
	if got := ask(s, "GET", "/chunk-AB12CD34.js").Header().Get("Cache-Control"); !strings.Contains(got, "immutable") {
		t.Errorf("a hashed chunk: Cache-Control %q", got)
	}
}

func first(dir, _ string) string { return dir }

func TestRanges(t *testing.T) {
	dir, models := build(t)
	s := open(t, dir, models)
	whole := ask(s, "GET", "/models/big.gguf")
	if whole.Code != 200 || whole.Header().Get("Accept-Ranges") != "bytes" || whole.Body.Len() != 10000 {
		t.Fatalf("whole: %d, Accept-Ranges %q, %d bytes", whole.Code, whole.Header().Get("Accept-Ranges"),
			whole.Body.Len())
	}
	etag := whole.Header().Get("ETag")
	tests := []struct {
		ranges, ifRange string
		code            int
		body, content   string
	}{
		{"bytes=0-3", "", 206, "0123", "bytes 0-3/10000"},
		{"bytes=9998-", "", 206, "89", "bytes 9998-9999/10000"},
		{"bytes=-3", "", 206, "789", "bytes 9997-9999/10000"},
		{"bytes=5-7", etag, 206, "567", "bytes 5-7/10000"},
		{"bytes=5-7", `"another"`, 200, strings.Repeat("0123456789", 1000), ""},
		{"bytes=10000-", "", 416, "", "bytes */10000"},
	}
	for _, test := range tests {
		// Asking for compression as well must not turn a range into an encoding.
		w := ask(s, "GET", "/models/big.gguf", "Range", test.ranges, "If-Range", test.ifRange,
			"Accept-Encoding", "gzip, br")
		if w.Code != test.code || w.Header().Get("Content-Range") != test.content {
			t.Errorf("%s (If-Range %q): %d %q, want %d %q", test.ranges, test.ifRange, w.Code,
				w.Header().Get("Content-Range"), test.code, test.content)
		}
		if test.body != "" && w.Body.String() != test.body {
			t.Errorf("%s (If-Range %q): wrong body of %d bytes", test.ranges, test.ifRange, w.Body.Len())
		}
		if w.Header().Get("Content-Encoding") != "" {
			t.Errorf("%s: a range came back encoded", test.ranges)
		}
	}
	if w := ask(s, "GET", "/page.js", "Range", "bytes=0-5", "Accept-Encoding", "br"); w.Body.String() != string(
		script[:6]) || w.Code != 206 {
		t.Errorf("a range of a compressible file: %d %q", w.Code, w.Body)
	}
}

func TestETagRevalidation(t *testing.T) {
	dir, _ := build(t)
	s := open(t, dir, "")
	for _, encoding := range []string{"", "gzip", "br"} {
		etag := ask(s, "GET", "/page.js", "Accept-Encoding", encoding).Header().Get("ETag")
		w := ask(s, "GET", "/page.js", "Accept-Encoding", encoding, "If-None-Match", etag)
		if w.Code != http.StatusNotModified || w.Body.Len() != 0 {
			t.Errorf("%q: %d with %d bytes, want 304 with none", encoding, w.Code, w.Body.Len())
		}
	}
	plain := ask(s, "GET", "/page.js").Header().Get("ETag")
	if packed := ask(s, "GET", "/page.js", "Accept-Encoding", "br").Header().Get("ETag"); packed == plain {
		t.Error("two different bodies share the ETag", plain)
	}
	if err := os.WriteFile(filepath.Join(dir, "page.js"), []byte("export const answer = 43;\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if w := ask(s, "GET", "/page.js", "If-None-Match", plain); w.Code != 200 || w.Header().Get("ETag") == plain {
		t.Errorf("after an edit: %d, ETag %s", w.Code, w.Header().Get("ETag"))
	}
	if w := ask(s, "GET", "/page.js", "Accept-Encoding", "br"); !strings.Contains(w.Body.String(), "43") {
		t.Error("after an edit the old compressed body is served")
	}
}

func TestCompression(t *testing.T) {
	dir, _ := build(t)
	s := open(t, dir, "")
	w := ask(s, "GET", "/page.js", "Accept-Encoding", "gzip")
	if w.Body.String() != "packed .gz" || w.Header().Get("Content-Encoding") != "gzip" {
		t.Fatalf("gzip: %q as %q", w.Body, w.Header().Get("Content-Encoding"))
	}
	if w.Header().Get("Vary") != "Accept-Encoding" {
		t.Error("Vary is missing")
	}
	w = ask(s, "GET", "/page.js", "Accept-Encoding", "gzip, deflate, br")
	if length := w.Header().Get("Content-Length"); length != fmt.Sprint(w.Body.Len()) {
		t.Errorf("Content-Length %s for %d bytes", length, w.Body.Len())
	}
	if w.Body.String() != "packed .br" {
		t.Errorf("brotli: %q", w.Body)
	}
	if w := ask(s, "HEAD", "/page.js", "Accept-Encoding", "br"); w.Body.Len() != 0 ||
		w.Header().Get("Content-Encoding") != "br" {
		t.Errorf("HEAD: %d bytes, encoding %q", w.Body.Len(), w.Header().Get("Content-Encoding"))
	}
	if w := ask(s, "GET", "/models/demo/pair.gguf", "Accept-Encoding", "br"); w.Header().Get("Content-Encoding") != "" {
		t.Error("a model was compressed")
	}

	// What the build did not compress is served as it is, and so is a file younger than its sibling.
	sibling := filepath.Join(dir, "tool.mjs.br")
	if err := os.WriteFile(sibling, []byte("stale"), 0o644); err != nil {
		t.Fatal(err)
	}
	old := time.Now().Add(-time.Hour)
	if err := os.Chtimes(sibling, old, old); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"/tool.mjs": "export {};", "/chunk-AB12CD34.js": "export {};"} {
		w := ask(s, "GET", name, "Accept-Encoding", "br")
		if w.Body.String() != want || w.Header().Get("Content-Encoding") != "" {
			t.Errorf("%s: %q as %q", name, w.Body, w.Header().Get("Content-Encoding"))
		}
	}
}

func TestNegotiate(t *testing.T) {
	for accept, want := range map[string]string{
		"":                        "",
		"gzip":                    "gzip",
		"gzip, deflate, br, zstd": "br",
		"br;q=0, gzip":            "gzip",
		"br;q=0.1, gzip;q=0.9":    "gzip",
		"*":                       "br",
		"*;q=0":                   "",
		"identity":                "",
		"identity;q=1, gzip;q=.5": "",
		"gzip;q=nonsense":         "",
		"GZIP; q=0.8":             "gzip",
	} {
		if got := negotiate(accept); got != want {
			t.Errorf("%q: %q, want %q", accept, got, want)
		}
	}
}

func TestRefusedPaths(t *testing.T) {
	dir, models := build(t)
	s := open(t, dir, models)
	for _, path := range []string{
		"/../secret.txt", "/..", "/docs/../../secret.txt", "/docs/..", "/./page.js", "/docs/./index.html",
		"/.env", "/.git/config", "/docs/.hidden/x.txt", "//secret.txt", "/docs//index.html", "//",
		`/..\secret.txt`, `/docs\index.html`, "/page.js\x00.txt", "/C:/secret.txt", "/page.js:stream",
		"/models/../secret.txt", "/models/../../outside.gguf", "/models/..%2foutside.gguf", "/models/notes.txt",
		"/models/", "/models", "/empty/", "/empty", "/page.js/", "/missing.js", "page.js", "",
	} {
		if w := ask(s, "GET", path); w.Code != http.StatusNotFound || strings.Contains(w.Body.String(), "SECRET") {
			t.Errorf("%q: %d %q, want 404", path, w.Code, w.Body)
		}
	}
}

// TestEncodedTraversal goes through a real server and socket: the client's
// percent-encoding is decoded by net/http before the handler sees the path.
func TestEncodedTraversal(t *testing.T) {
	dir, models := build(t)
	server := httptest.NewServer(open(t, dir, models))
	defer server.Close()
	for _, path := range []string{"/%2e%2e/secret.txt", "/..%2fsecret.txt", "/%2e%2e%2fsecret.txt",
		"/models/%2e%2e/outside.gguf", "/%5c..%5csecret.txt", "/%2eenv", "/%00"} {
		response, err := http.Get(server.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		data, _ := io.ReadAll(response.Body)
		response.Body.Close()
		if response.StatusCode != 404 || bytes.Contains(data, []byte("SECRET")) {
			t.Errorf("%s: %d %q", path, response.StatusCode, data)
		}
	}
}

func TestSymlinksStayInside(t *testing.T) {
	dir, models := build(t)
	links := map[string]string{
		filepath.Join(dir, "escape.txt"):     "../secret.txt",
		filepath.Join(dir, "absolute.txt"):   filepath.Join(filepath.Dir(dir), "secret.txt"),
		filepath.Join(dir, "up"):             "..",
		filepath.Join(models, "escape.gguf"): "../outside.gguf",
		filepath.Join(dir, "inside.js"):      "page.js",
	}
	for link, target := range links {
		if err := os.Symlink(target, link); err != nil {
			t.Skip("no symbolic links here:", err)
		}
	}
	s := open(t, dir, models)
	for _, path := range []string{"/escape.txt", "/absolute.txt", "/up/secret.txt", "/models/escape.gguf"} {
		if w := ask(s, "GET", path); w.Code != 404 || strings.Contains(w.Body.String(), "SECRET") {
			t.Errorf("%s: %d %q, want 404", path, w.Code, w.Body)
		}
	}
	if w := ask(s, "GET", "/inside.js"); w.Code != 200 {
		t.Errorf("a link that stays inside: %d", w.Code)
	}
}

func TestModelsFolderThenSite(t *testing.T) {
	dir, models := build(t)
	s := open(t, dir, models)
	for path, want := range map[string]string{
		"/models/sub/other.GGUF": "GGUF other",
		"/models/demo/pair.gguf": "GGUF built in",
	} {
		if w := ask(s, "GET", path); w.Code != 200 || w.Body.String() != want {
			t.Errorf("%s: %d %q", path, w.Code, w.Body)
		}
	}
}

func TestDirectoryRedirectKeepsQuery(t *testing.T) {
	s := open(t, first(build(t)), "")
	w := ask(s, "GET", "/docs?device=cpu")
	if w.Code != 301 || w.Header().Get("Location") != "/docs/?device=cpu" {
		t.Errorf("%d %q", w.Code, w.Header().Get("Location"))
	}
}

func TestHostHeader(t *testing.T) {
	s := open(t, first(build(t)), "")
	for _, host := range []string{"localhost", "localhost:8080", "LOCALHOST:1", "127.0.0.1", "127.0.0.9:80",
		"[::1]:8080", "[::1]"} {
		if w := ask(s, "GET", "/", "Host", host); w.Code != 200 {
			t.Errorf("%s: %d, want 200", host, w.Code)
		}
	}
	for _, host := range []string{"", "evil.example", "evil.example:8080", "localhost.evil.example", "192.168.1.4:8080",
		"127.0.0.1.evil.example", "0.0.0.0"} {
		if w := ask(s, "GET", "/", "Host", host); w.Code != http.StatusMisdirectedRequest {
			t.Errorf("%q: %d, want 421", host, w.Code)
		}
	}
}

// TestCORS lets pages of other ports read the module and the models, and no page of another host.
func TestCORS(t *testing.T) {
	dir, models := build(t)
	s := open(t, dir, models)
	s.cors = true
	for _, path := range []string{"/page.js", "/foretoken.wasm", "/models/big.gguf", "/missing"} {
		for origin, want := range map[string]string{
			"http://127.0.0.1:3000": "http://127.0.0.1:3000", "http://localhost:5173": "http://localhost:5173",
			"https://[::1]:8443": "https://[::1]:8443", "": "", "null": "", "https://evil.example": "",
			"http://localhost.evil.example": "", "http://evil.example#localhost": "",
			"http://127.0.0.1@evil.example": "",
		} {
			h := ask(s, "GET", path, "Origin", origin, "Range", "bytes=0-3").Header()
			if got := h.Get("Access-Control-Allow-Origin"); got != want {
				t.Errorf("%s for %q: allowed origin %q, want %q", path, origin, got, want)
			}
			if !slices.Contains(h.Values("Vary"), "Origin") {
				t.Errorf("%s: Vary is %q", path, h.Values("Vary"))
			}
			if h.Get("Cross-Origin-Resource-Policy") != "cross-origin" {
				t.Errorf("%s: resource policy %q", path, h.Get("Cross-Origin-Resource-Policy"))
			}
			if exposed := h.Get("Access-Control-Expose-Headers"); (exposed != "") != (want != "") {
				t.Errorf("%s for %q: exposed headers %q", path, origin, exposed)
			}
		}
	}
	if w := ask(s, "GET", "/", "Host", "evil.example", "Origin", "http://localhost"); w.Code != 421 {
		t.Errorf("another host: %d, want 421", w.Code)
	}
}

func TestMethods(t *testing.T) {
	s := open(t, first(build(t)), "")
	for _, method := range []string{"POST", "PUT", "DELETE", "OPTIONS", "TRACE"} {
		if w := ask(s, method, "/"); w.Code != http.StatusMethodNotAllowed || w.Header().Get("Allow") != "GET, HEAD" {
			t.Errorf("%s: %d", method, w.Code)
		}
	}
}
