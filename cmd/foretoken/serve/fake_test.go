//go:build !js

package serve

import (
	"context"
	"encoding/json"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"foretoken"
	"foretoken/openai"
	"foretoken/openai/openaitest"
	"foretoken/spec"
)

// site is a server under test.
type site struct {
	*httptest.Server
	t      *testing.T
	api    *Server
	engine *openaitest.Engine
	logged chan Entry
}

// serve starts a server that is ready; change is made to its settings first.
func serve(t *testing.T, change func(*Config)) *site {
	t.Helper()
	return serveWithin(t, defaultLimits, change)
}

// serveWithin is serve with other times for the phases of a connection.
func serveWithin(t *testing.T, l limits, change func(*Config)) *site {
	t.Helper()
	s, err := openaitest.Pair()
	if err != nil {
		t.Fatal(err)
	}
	w := &site{t: t, engine: &openaitest.Engine{Session: s}, logged: make(chan Entry, 100)}
	c := Config{Options: openai.Options{Model: "demo", Template: openaitest.Template,
		Defaults: openai.DefaultRequest(), Seeded: true,
		Candidates: int(spec.Named(foretoken.Settings(), "top_logprobs").Most)}, Queue: 4,
		Log: func(e Entry) { w.logged <- e }}
	c.Defaults.Temperature = 0
	if change != nil {
		change(&c)
	}
	w.api = New(c)
	w.api.limits = l
	w.api.Open(w.engine)
	w.Server = httptest.NewUnstartedServer(nil)
	w.Config, w.Listener = w.api.HTTP(log.New(io.Discard, "", 0)), w.api.Listen(tight{w.Listener})
	w.Start()
	t.Cleanup(w.Close)
	return w
}

// tight gives connections small buffers, so that an answer that its client does not read is not sent.
type tight struct{ net.Listener }

func (l tight) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err == nil {
		err = c.(*net.TCPConn).SetWriteBuffer(4096)
	}
	return c, err
}

// ask sends a request, JSON unless headers (name, value, …) say otherwise.
func (w *site) ask(ctx context.Context, method, path, body string, headers ...string) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, method, w.URL+path, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(headers); i += 2 {
		if r.Header.Set(headers[i], headers[i+1]); headers[i] == "Host" {
			r.Host = headers[i+1]
		}
	}
	return w.Client().Do(r)
}

// answered is a response that was read to its end.
type answered struct {
	status int
	header http.Header
	body   []byte
}

func (w *site) do(method, path, body string, headers ...string) answered {
	w.t.Helper()
	r, err := w.ask(context.Background(), method, path, body, headers...)
	if err != nil {
		w.t.Fatal(err)
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	return answered{r.StatusCode, r.Header, b}
}

func (a *answered) refusal(t *testing.T) (code, param, message string) {
	t.Helper()
	return openaitest.Refusal(t, a.status, a.body)
}

// complete asks for an answer that has to come.
func (w *site) complete(path, body string) openaitest.Text {
	w.t.Helper()
	a := w.do("POST", path, body)
	var v openaitest.Text
	if err := json.Unmarshal(a.body, &v); err != nil || a.status != 200 {
		w.t.Fatalf("status %d: %s", a.status, a.body)
	}
	return v
}
