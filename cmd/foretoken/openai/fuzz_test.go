//go:build !js

package openai

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"unicode"

	"foretoken"
	"foretoken/models/fuzztest"
	"foretoken/spec"
)

var bodies = []string{`{"model": "m", "messages": [{"role": "user", "content": [{"type": "text", "text": "a"}]}], ` +
	`"stop": ["a"], "seed": 18446744073709551615}`,
	`{"model": "m", "prompt": [[1, 2]], "n": 2, "logprobs": 3, "foretoken": {"policy": "none"}}`, `{"model": null}`,
	`{"": {}}`, `[`,
	`{"model": "m", "prompt": "a", "temperature": 1e400}`, `{"model": "m", "prompt": "\ud800", "logit_bias": ` +
		`{"-1": 3}}`, `{"model": "m", "prompt": "a", "max_tokens": 99999999999999999999}`}

// odd are bodies whose refusals quote values of any length, or of anything.
func odd() (all []string) {
	long, digits, strange := strings.Repeat("n", 3000), "1"+strings.Repeat("0", 3000),
		strings.Repeat(`\u001b\u009b\u2028\ufdd0`, 500)
	for _, name := range []string{long, strange} {
		for _, field := range []string{`"` + name + `": 1`, `"model": ["` + name + `"]`, `"seed": "` + name + `"`,
			`"grammar": "` + name + `"`, `"grammar": "root ::= ` + name + `"`, `"json_schema": {"` + name + `": 1}`,
			`"response_format": {"type": "` + name + `"}`,
			`"response_format": {"type": "json_schema", "json_schema": {"schema": {"type": "` + name + `"}}}`,
			`"stop": [["` + name + `"]]`, `"logit_bias": {"` + name + `": 1}`,
			`"foretoken": {"` + name + `": 1}`, `"foretoken": {"policy": "` + name + `"}`, `"foretoken": {"adapt": "` +
				name + `"}`, `"foretoken": {"source": "` + name + `"}`, `"foretoken": {"verifier": "` + name + `"}`,
			`"foretoken": {"mode": "` + name + `"}`, `"foretoken": {"variant": "` + name + `"}`,
			`"foretoken": {"schedule": "` + name + `"}`, `"foretoken": {"shape": "` + name + `"}`,
			`"functions": ["` + name + `"]`, `"suffix": "` + name + `"`,
			`"tools": ["` + name + `"]`, `"tool_choice": "` + name + `"`,
			`"tools": [{"type": "function", "function": ` +
				`{"name": "f", "parameters": "` + name + `"}}], "tool_choice": "required"`,
			`"tools": [{"type": "function", "function": {"name": "` + name +
				`"}}], "tool_choice": {"type": "function", "function": {"name": "` + name + `x"}}`} {
			all = append(all, `{"model": "m", "messages": [{"role": "user", "content": "a"}], `+field+`}`)
		}
		all = append(all, `{"model": "m", "messages": [{"role": "`+name+`", "content": "a"}]}`,
			`{"model": "m", "messages": [{"role": "user", "content": [{"type": "`+name+`"}]}]}`,
			`{"model": "m", "prompt": "a", "suffix": "`+name+`"}`,
			`{"model": "m", "messages": [{"role": "assistant", "tool_calls": `+
				`[{"id": "a", "function": {"name": ["`+name+`"]}}]}]}`, `{"model": "`+name+`", "prompt": "a"}`,
			`{"model": "m", "prompt": {"`+name+`": 1}}`)
	}
	for _, field := range []string{"n", "seed", "temperature", "top_k", "max_tokens", "logprobs", "logit_bias", "user",
		"stream", "foretoken"} {
		all = append(all, `{"model": "m", "prompt": "a", "`+field+`": `+digits+`}`)
	}
	return append(all, digits, `{"model": "m", "prompt": "a", "foretoken": {"depth": `+digits+`}}`,
		`{"model": "m", "prompt": "a", "foretoken": {"theta": 1e`+digits+`}}`,
		`{"model": "m", "prompt": "a", "logit_bias": {"1": `+digits+`}}`)
}

// told fails for a refusal that is longer than a line or that steers a terminal.
func told(t *testing.T, message string) {
	t.Helper()
	fuzztest.Refusal(t, errors.New(message), "")
	if message == "" || strings.ContainsFunc(message, func(r rune) bool { return !unicode.IsPrint(r) }) {
		t.Fatalf("%q", message)
	}
}

// FuzzParse holds that no body does more than be refused.
func FuzzParse(f *testing.F) {
	f.Attr("attack", "bodies of anything, with names and numbers of any length")
	f.Attr("bound", "taken, or refused with 400 and the field, in one printable line")
	for _, seed := range bodies {
		for wanted := range 3 {
			f.Add([]byte(seed), wanted)
		}
	}
	for _, seed := range odd() {
		wanted := forText
		if strings.Contains(seed, "messages") {
			wanted = forChat
		}
		f.Add([]byte(seed), int(wanted))
	}
	f.Add([]byte(`{"model": "demo", "input": ["a", "b"], "encoding_format": "base64", "foretoken": {"pooling": `+
		`"last"}}`), int(forEmbedding))
	defaults := foretoken.DefaultRequest()
	f.Fuzz(func(t *testing.T, body []byte, wanted int) {
		fuzztest.Bound(t, 16*len(body), func() {
			a, err := parse(body, purpose(uint(wanted)%3), &defaults)
			if err != nil {
				if err.Status != 400 || err.Code == "" {
					t.Fatalf("%+v", err)
				}
				told(t, err.Message)
				if err.Param != nil {
					told(t, *err.Param)
				}
				return
			}
			if err := a.compile(t.Context()); err != nil {
				told(t, err.Error())
				return
			}
			talks := len(a.messages) > 0
			if problem := a.settings.Validate(); problem != nil || a.n < 1 || (a.purpose == forChat) != talks {
				t.Fatalf("%v: %+v", problem, a)
			}
		})
	})
}

// FuzzRequest gives the server requests of any kind: each is answered in the API's shape, and what is refused never
// reaches the engine.
func FuzzRequest(f *testing.F) {
	s, err := pair()
	if err != nil {
		f.Fatal(err)
	}
	begun := 0
	e := &engine{Session: s, generate: func(_ context.Context, ids []int32, r foretoken.Request,
		emit func(*foretoken.Event) error) (*foretoken.Result, error) {
		begun++
		if err := emit(&foretoken.Event{Text: "x", Round: &spec.Event{}}); err != nil {
			return nil, err
		}
		return &foretoken.Result{Text: "x", Finish: spec.FinishLength}, nil
	}}
	c := Config{Model: "m", Template: talkTemplate, Defaults: foretoken.DefaultRequest(), Candidates: 2, Queue: 1,
		MaxBody: 1 << 16, Key: "k", Origins: []string{"http://localhost:3000"}}
	c.Defaults.MaxTokens = 0
	api := New(c)
	api.Open(e)
	const kind, key = "application/json", "Bearer k"
	for _, body := range bodies {
		f.Add("POST", textPath, "localhost", "", kind, key, []byte(body))
		f.Add("POST", chatPath, "127.0.0.1:80", "http://localhost:3000", kind+"; charset=utf-8", key, []byte(body))
	}
	f.Add("GET", "/v1/models/m", "[::1]", "", "", key, []byte{})
	f.Add("OPTIONS", chatPath, "localhost", "http://evil.example", "", "", []byte{})
	f.Add("POST", textPath, "evil.example", "", "text/plain", "",
		[]byte(`{"model": "m", "prompt": "a", "stream": true}`))
	const strange = "\x1b[2J\r\u009b\u2028\xff"
	for _, path := range []string{"/v1/models/" + strings.Repeat("n", 3000), "/" + strings.Repeat(strange, 300)} {
		for _, method := range []string{"GET", strings.Repeat("N", 3000), strange} {
			f.Add(method, path, "localhost", "", "", key, []byte{})
			f.Add(method, "/v1/models", path, path, "", key, []byte{})
			f.Add(method, "/v1/models"+path, "localhost", "", "", key, []byte{})
		}
		f.Add("POST", chatPath, "localhost", "", path, key, []byte(bodies[0]))
	}
	f.Fuzz(func(t *testing.T, method, path, host, origin, kind, key string, body []byte) {
		fuzztest.Bound(t, 16*len(body), func() {
			r := &http.Request{Method: method, URL: &url.URL{Path: path}, Host: host, Header: http.Header{},
				Body: http.NoBody, RemoteAddr: "127.0.0.1:9", Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1}
			for name, value := range map[string]string{"Origin": origin, "Content-Type": kind, "Authorization": key} {
				if value != "" {
					r.Header.Set(name, value)
				}
			}
			if len(body) > 0 {
				r = r.WithContext(context.Background())
				r.Body = http.MaxBytesReader(nil, nopCloser{bytes.NewReader(body)}, 1<<30)
			}
			before := begun
			w := httptest.NewRecorder()
			api.ServeHTTP(w, r)
			if w.Code >= 400 || w.Code < 200 {
				var e refusal
				if path == "/health" && w.Code == http.StatusServiceUnavailable {
					return
				}
				if err := json.Unmarshal(w.Body.Bytes(), &e); err != nil || e.Error == nil || e.Error.Code == "" ||
					e.Error.Type == "" {
					t.Fatalf("%d %s", w.Code, w.Body)
				}
				told(t, e.Error.Message)
				if begun != before {
					t.Fatalf("%d %s, and the engine was asked", w.Code, w.Body)
				}
			}
			allowed := w.Header().Get("Access-Control-Allow-Origin")
			if allowed != "" && allowed != "http://localhost:3000" ||
				allowed == "" && origin == "http://localhost:3000" && api.knowsHost(host) {
				t.Fatalf("the origin %q is answered %q", origin, allowed)
			}
			if begun != before && (!api.knowsHost(host) ||
				key != "Bearer k" && !strings.EqualFold(strings.TrimSuffix(key, "k"), "bearer ") || method != "POST") {
				t.Fatalf("%s %s of host %q with key %q reached the engine", method, path, host, key)
			}
			if busy, waiting, _ := api.queue.state(); busy || waiting != 0 {
				t.Fatalf("busy %v, %d waiting", busy, waiting)
			}
		})
	})
}

type nopCloser struct{ *bytes.Reader }

func (nopCloser) Close() error { return nil }
