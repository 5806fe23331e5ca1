//go:build !js

package serve

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"foretoken"
	"foretoken/models/fuzztest"
	"foretoken/openai"
	"foretoken/openai/openaitest"
	"foretoken/spec"
)

// FuzzRequest gives the server requests of any kind: each is answered as the API answers, and what is refused never
// reaches the engine.
func FuzzRequest(f *testing.F) {
	s, err := openaitest.Pair()
	if err != nil {
		f.Fatal(err)
	}
	begun := 0
	e := &openaitest.Engine{Session: s, OnGenerate: func(_ context.Context, ids []int32, r foretoken.Request,
		emit func(*foretoken.Event) error) (*foretoken.Result, error) {
		begun++
		if err := emit(&foretoken.Event{Text: "x", Round: &spec.Event{}}); err != nil {
			return nil, err
		}
		return &foretoken.Result{Text: "x", Finish: spec.FinishLength}, nil
	}}
	c := Config{Options: openai.Options{Model: "m", Template: openaitest.Template, Defaults: openai.DefaultRequest(),
		Candidates: 2}, Queue: 1,
		MaxBody: 1 << 16, Key: "k", Origins: []string{"http://localhost:3000"}}
	api := New(c)
	api.Open(e)
	const kind, key = "application/json", "Bearer k"
	for _, body := range openaitest.Bodies {
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
		f.Add("POST", chatPath, "localhost", "", path, key, []byte(openaitest.Bodies[0]))
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
				var e openaitest.Error
				if path == "/health" && w.Code == http.StatusServiceUnavailable {
					return
				}
				if err := json.Unmarshal(w.Body.Bytes(), &e); err != nil || e.Error == nil || e.Error.Code == "" ||
					e.Error.Type == "" {
					t.Fatalf("%d %s", w.Code, w.Body)
				}
				openaitest.Told(t, e.Error.Message)
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
