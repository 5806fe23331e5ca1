package main

import (
	"bufio"
	"bytes"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"foretoken/models/fuzztest"
)

// TestPolicies checks that every answer has a content security policy, and that pages get the one they name.
func TestPolicies(t *testing.T) {
	dir, models := build(t)
	own := "default-src 'self'; script-src 'self' 'wasm-unsafe-eval'"
	page := "<!doctype html><html><head><meta charset=\"utf-8\" />\n<meta\n  http-equiv=\"Content-Security-Policy\"\n" +
		"  content=\"" + own + "\" /></head></html>"
	for _, name := range []string{"index.html", "embed.html", "docs/examples.html"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(page), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	s := open(t, dir, models)
	for path, want := range map[string]string{
		"/": own + "; frame-ancestors 'self'", "/index.html": own + "; frame-ancestors 'self'",
		"/docs/examples.html": own + "; frame-ancestors 'self'",
		"/embed.html":         own + "; frame-ancestors *", "/page.js": own + "; frame-ancestors 'self'",
		"/docs/":          "default-src 'self'; base-uri 'none'; object-src 'none'; frame-ancestors 'self'",
		"/foretoken.wasm": nothing, "/models/big.gguf": nothing, "/missing": nothing, "/../x": nothing,
		"/empty/readme.txt": nothing,
	} {
		w := ask(s, "GET", path)
		if got := w.Header().Get("Content-Security-Policy"); got != want {
			t.Errorf("%s: policy %q, want %q", path, got, want)
		}
		if w.Header().Get("Access-Control-Allow-Origin") != "" ||
			w.Header().Get("Cross-Origin-Resource-Policy") != "same-origin" {
			t.Errorf("%s: other origins may read it: %v", path, w.Header())
		}
	}
	for _, refused := range []*httptest.ResponseRecorder{ask(s, "GET", "/", "Host", "evil.example"),
		ask(s, "POST", "/")} {
		if h := refused.Header(); h.Get("Content-Security-Policy") != nothing ||
			h.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%d: %v", refused.Code, h)
		}
	}
}

// TestOwnPagesHavePolicies finds a policy without unsafe-inline and unsafe-eval in every page of the site.
func TestOwnPagesHavePolicies(t *testing.T) {
	pages, err := filepath.Glob("../../web/*.html")
	if err != nil || len(pages) < 2 {
		t.Fatal(pages, err)
	}
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		found := metaPolicy.FindSubmatch(text)
		if found == nil {
			t.Errorf("%s names no policy in the form that the server reads", page)
			continue
		}
		policy := string(found[1])
		if strings.Contains(policy, "unsafe-inline") || strings.Contains(policy, "'unsafe-eval'") ||
			!strings.Contains(policy, "object-src 'none'") || !strings.Contains(policy, "base-uri 'none'") {
			t.Errorf("%s: %s", page, policy)
		}
	}
}

// TestSlowClients cuts off a client that sends its request a byte at a time and one that sends endless headers.
func TestSlowClients(t *testing.T) {
	server := httptest.NewUnstartedServer(open(t, first(build(t)), ""))
	server.Config = newServer(server.Config.Handler)
	if server.Config.ReadHeaderTimeout == 0 || server.Config.ReadTimeout == 0 || server.Config.IdleTimeout == 0 {
		t.Fatal("a client may take as long as it likes")
	}
	server.Config.ReadHeaderTimeout, server.Config.ReadTimeout = 300*time.Millisecond, 300*time.Millisecond
	server.Start()
	defer server.Close()
	dial := func() net.Conn {
		conn, err := net.Dial("tcp", server.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		conn.SetDeadline(time.Now().Add(5 * time.Minute))
		return conn
	}
	t.Run("unfinished", func(t *testing.T) {
		t.Attr("attack", "a request to the development server that does not end")
		t.Attr("bound", requestTime.String())
		slow := dial()
		fmt.Fprint(slow, "GET / HTTP/1.1\r\nHost: localhost\r\n")
		if line, err := bufio.NewReader(slow).ReadString('\n'); err == nil && !strings.Contains(line, "408") {
			t.Errorf("a request without end is answered %q", line)
		} else if ne, ok := err.(net.Error); ok && ne.Timeout() {
			t.Error("a request without end is waited for")
		}
	})
	t.Run("headers", func(t *testing.T) {
		t.Attr("attack", "headers without end to the development server")
		t.Attr("bound", fmt.Sprintf("%d KiB", server.Config.MaxHeaderBytes>>10))
		endless := dial()
		go func() {
			fmt.Fprint(endless, "GET / HTTP/1.1\r\nHost: localhost\r\n")
			for i := 0; ; i++ {
				if _, err := fmt.Fprintf(endless, "X-%d: %s\r\n", i, strings.Repeat("x", 1000)); err != nil {
					return
				}
			}
		}()
		if line, err := bufio.NewReader(endless).ReadString('\n'); err == nil && !strings.Contains(line, "431") &&
			!strings.Contains(line, "408") {
			t.Errorf("headers without end are answered %q", line)
		} else if ne, ok := err.(net.Error); ok && ne.Timeout() {
			t.Error("headers without end are waited for")
		}
	})
}

// FuzzRequest gives the site requests of any bytes: nothing outside the served folders is shown, and every answer
// has the headers that keep a browser from misusing it.
func FuzzRequest(f *testing.F) {
	base := f.TempDir()
	for name, content := range map[string]string{"dist/index.html": "<!doctype html>", "dist/page.js": "export {};",
		"dist/docs/index.html": "docs", "dist/.env": "SECRET", "secret.txt": "SECRET",
		"models/a.gguf": "GGUF a", "models/notes.txt": "SECRET", "outside.gguf": "SECRET"} {
		path := filepath.Join(base, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			f.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			f.Fatal(err)
		}
	}
	_ = os.Symlink("../secret.txt", filepath.Join(base, "dist", "link.txt"))
	s, err := newSite(filepath.Join(base, "dist"), filepath.Join(base, "models"))
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(s.close)
	for _, seed := range []string{
		"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
		"GET /docs?x=1 HTTP/1.1\r\nHost: 127.0.0.1:80\r\nAccept-Encoding: br;q=0.5, gzip\r\n\r\n",
		"GET /page.js HTTP/1.1\r\nHost: [::1]:1\r\nRange: bytes=0-3,5-\r\nIf-None-Match: \"x\"\r\n\r\n",
		"GET /%2e%2e/secret.txt HTTP/1.1\r\nHost: localhost\r\n\r\n",
		"HEAD /models/a.gguf HTTP/1.0\r\nHost: localhost\r\n\r\n", "GET /models/notes.txt HTTP/1.1\r\n" +
			"Host: localhost\r\n\r\n", "GET /link.txt HTTP/1.1\r\nHost: localhost\r\n\r\n",
		"GET http://evil.example/ HTTP/1.1\r\nHost: localhost\r\n\r\n", "POST / HTTP/1.1\r\nHost: localhost\r\n" +
			"Content-Length: 3\r\n\r\nabc", "GET //secret.txt HTTP/1.1\r\nHost: localhost\r\n\r\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		r, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(raw)))
		if err != nil {
			return
		}
		fuzztest.Bound(t, len(raw), func() {
			w := httptest.NewRecorder()
			s.ServeHTTP(w, r)
			h := w.Header()
			if bytes.Contains(w.Body.Bytes(), []byte("SECRET")) {
				t.Fatalf("%q shows what is not served", raw)
			}
			if h.Get("X-Content-Type-Options") != "nosniff" || h.Get("Content-Security-Policy") == "" ||
				h.Get("Cross-Origin-Resource-Policy") != "same-origin" || h.Get("Access-Control-Allow-Origin") != "" {
				t.Fatalf("%q is answered %d with %v", raw, w.Code, h)
			}
			if !loopbackHost(r.Host) && w.Code != http.StatusMisdirectedRequest {
				t.Fatalf("the host %q is answered %d", r.Host, w.Code)
			}
			if to := h.Get("Location"); to != "" &&
				(!strings.HasPrefix(to, "/") || strings.HasPrefix(to, "//") || strings.HasPrefix(to, `/\`)) {
				t.Fatalf("%q is sent to %q", raw, to)
			}
		})
	})
}
