//go:build !js

package serve

import (
	"net/http"
	"strings"
	"testing"

	"foretoken/openai"
)

const (
	chatPath  = "/v1/chat/completions"
	textPath  = "/v1/completions"
	embedPath = "/v1/embeddings"
)

func TestRefusals(t *testing.T) {
	w := serve(t, func(c *Config) { c.MaxBody = 2000; c.Candidates = 5; c.Origins = []string{"http://localhost:3000"} })
	talk := func(more string) string {
		return `{"model": "demo", "messages": [{"role": "user", "content": "hi"}]` + more + `}`
	}
	say := func(message string) string { return `{"model": "demo", "messages": [` + message + `]}` }
	write := func(more string) string { return `{"model": "demo", "prompt": "func"` + more + `}` }
	for _, c := range []struct {
		method, path, body string
		status             int
		code, param        string
		headers            []string
	}{
		{"GET", "/", "", 404, "unknown_url", "", nil},
		{"POST", "/v1/edits", "{}", 404, "unknown_url", "", nil},
		{"GET", embedPath, "", 405, "method_not_supported", "", nil},
		{"POST", "/v1/chat/completions/", "{}", 404, "unknown_url", "", nil},
		{"GET", chatPath, "", 405, "method_not_supported", "", nil},
		{"DELETE", "/v1/models", "", 405, "method_not_supported", "", nil},
		{"GET", "/v1/models/gpt", "", 404, "model_not_found", "model", nil},
		{"POST", chatPath, "x=1", 415, "unsupported_media_type", "",
			[]string{"Content-Type", "application/x-www-form-urlencoded"}},
		{"POST", chatPath, talk(""), 415, "unsupported_media_type", "", []string{"Content-Type", "text/plain"}},
		{"POST", chatPath, talk(""), 415, "unsupported_media_type", "", []string{"Content-Encoding", "gzip"}},
		{"POST", chatPath, say(`{"role": "user", "content": "` + strings.Repeat("x", 2000) + `"}`), 413,
			"request_too_large", "", nil},
		{"POST", chatPath, "", 415, "unsupported_media_type", "", nil},
		{"POST", chatPath, "", 400, "invalid_json", "", []string{"Content-Type", "application/json"}},
		{"GET", "/health", "", 403, "host_not_allowed", "", []string{"Host", "attacker.example"}},
		{"GET", "/health", "", 403, "host_not_allowed", "", []string{"Host", "127.0.0.1.attacker.example:8080"}},
		{"GET", "/health", "", 403, "host_not_allowed", "", []string{"Host", "192.168.0.9"}},
		{"POST", textPath, write(""), 403, "origin_not_allowed", "", []string{"Origin", "https://attacker.example"}},
		{"POST", textPath, write(""), 403, "origin_not_allowed", "", []string{"Origin", "null"}},
		{"OPTIONS", textPath, "", 403, "origin_not_allowed", "",
			[]string{"Origin", "https://attacker.example", "Access-Control-Request-Method", "POST"}},
		{"POST", chatPath, "{", 400, "invalid_json", "", nil},
		{"POST", chatPath, strings.Replace(talk(""), "demo", "gpt-4", 1), 404, "model_not_found", "model", nil},
		{"POST", chatPath, talk(`, "temprature": 1`), 400, "unknown_parameter", "temprature", nil},
	} {
		a := w.do(c.method, c.path, c.body, c.headers...)
		if code, param, message := a.refusal(t); a.status != c.status || code != c.code || param != c.param {
			t.Errorf("%s %s %s: %d %s %q (%s), want %d %s %q", c.method, c.path, openai.Brief([]byte(c.body)), a.status,
				code, param, message, c.status, c.code, c.param)
		}
		if kind := a.header.Get("Content-Type"); kind != "application/json" || a.header.Get("X-Request-Id") == "" {
			t.Errorf("%s %s: type %q, id %q", c.method, c.path, kind, a.header.Get("X-Request-Id"))
		}
		if (a.status == 405) != (a.header.Get("Allow") != "") {
			t.Errorf("%s %s: Allow is %q", c.method, c.path, a.header.Get("Allow"))
		}
		if a.header.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s %s: a page may read it", c.method, c.path)
		}
		if e := <-w.logged; e.Status != a.status || e.Code == "" || e.ID != a.header.Get("X-Request-Id") {
			t.Errorf("%s %s: logged as %+v", c.method, c.path, e)
		}
	}
}

func TestModelsAndHealth(t *testing.T) {
	w := serve(t, func(c *Config) { c.Key = "secret" })
	key := []string{"Authorization", "Bearer secret"}
	if a := w.do("GET", "/v1/models", "", key...); a.status != 200 ||
		!strings.Contains(string(a.body), `"id":"demo","object":"model"`) ||
		!strings.Contains(string(a.body), `"file":"`) || strings.Contains(string(a.body), "demo/") { // its folder
		t.Errorf("%d %s", a.status, a.body)
	}
	if a := w.do("GET", "/v1/models/demo", "", key...); a.status != 200 ||
		!strings.Contains(string(a.body), `"id":"demo"`) {
		t.Errorf("%d %s", a.status, a.body)
	}
	if a := w.do("HEAD", "/v1/models", "", key...); a.status != 200 || len(a.body) != 0 {
		t.Errorf("%d %s", a.status, a.body)
	}
	for _, wrong := range []string{"", "Bearer", "Bearer wrong", "secret", "Basic secret"} {
		a := w.do("GET", "/v1/models", "", "Authorization", wrong)
		if code, _, _ := a.refusal(t); a.status != 401 || code != "invalid_api_key" ||
			a.header.Get("WWW-Authenticate") == "" {
			t.Errorf("the key %q: %d %s", wrong, a.status, a.body)
		}
	}
	if a := w.do("GET", "/health", ""); a.status != 200 ||
		string(a.body) != `{"status":"ok","busy":false,"waiting":0}` {
		t.Errorf("%d %s", a.status, a.body)
	}
	w.api.opened.Store(nil)
	if a := w.do("GET", "/health", ""); a.status != 503 || !strings.Contains(string(a.body), "loading") {
		t.Errorf("while loading: %d %s", a.status, a.body)
	}
	if a := w.do("POST", textPath, `{"model": "demo", "prompt": "a"}`, key...); a.status != 503 ||
		a.header.Get("Retry-After") == "" {
		t.Errorf("while loading: %d %s", a.status, a.body)
	}
}

func TestNamesAndOrigins(t *testing.T) {
	w := serve(t, func(c *Config) {
		c.Hosts, c.Origins, c.Key = []string{"box.lan"}, []string{"http://localhost:3000"}, "secret"
	})
	for host, want := range map[string]int{"localhost": 200, "LOCALHOST:1": 200, "localhost.": 200, "[::1]:80": 200,
		"127.9.9.9": 200, "box.lan:80": 200, "box.lan.evil": 403, "10.0.0.1": 403, "::ffff:127.0.0.1": 200} {
		if a := w.do("GET", "/health", "", "Host", host); a.status != want {
			t.Errorf("host %s: %d, want %d", host, a.status, want)
		}
	}
	a := w.do("OPTIONS", chatPath, "", "Origin", "http://localhost:3000",
		"Access-Control-Request-Method", "POST", "Access-Control-Request-Headers", "authorization,x-stainless-os",
		"Access-Control-Request-Private-Network", "true")
	for name, want := range map[string]string{"Access-Control-Allow-Origin": "http://localhost:3000",
		"Access-Control-Allow-Methods": "GET, POST", "Access-Control-Allow-Headers": "authorization,x-stainless-os",
		"Access-Control-Allow-Private-Network": "true", "Vary": "Origin"} {
		if a.header.Get(name) != want {
			t.Errorf("preflight: %s is %q, want %q", name, a.header.Get(name), want)
		}
	}
	if a.status != http.StatusNoContent {
		t.Errorf("preflight: %d", a.status)
	}
	if a := w.do("GET", "/v1/models", "", "Origin", "http://localhost:3000"); a.status != 401 ||
		a.header.Get("Access-Control-Allow-Origin") == "" {
		t.Errorf("a page without the key: %d, %v", a.status, a.header)
	}
	if a := w.do("OPTIONS", "/v1/models", "", "Authorization", "Bearer secret"); a.status != 405 {
		t.Errorf("OPTIONS by itself: %d", a.status)
	}
	remote := serve(t, func(c *Config) { c.Remote = true })
	for host, want := range map[string]int{"10.0.0.1:80": 200, "[fe80::1]": 200, "evil.example": 403} {
		if a := remote.do("GET", "/health", "", "Host", host); a.status != want {
			t.Errorf("host %s of a server for others: %d, want %d", host, a.status, want)
		}
	}
	if a := serve(t, func(c *Config) { c.Origins = []string{"*"} }).do("GET", "/health", "", "Origin",
		"https://any.example"); a.header.Get("Access-Control-Allow-Origin") != "https://any.example" {
		t.Errorf("any origin: %v", a.header)
	}
}
