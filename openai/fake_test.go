//go:build !js

package openai

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"foretoken"
	"foretoken/openai/openaitest"
	"foretoken/spec"
)

const (
	chatPath  = "/v1/chat/completions"
	textPath  = "/v1/completions"
	embedPath = "/v1/embeddings"
)

// host answers requests one after the other.
type host struct {
	t       *testing.T
	engine  *openaitest.Engine
	options Options
	model   *Model
}

// open returns a host with the built-in pair; change is made to its options first.
func open(t *testing.T, change func(*Options)) *host {
	t.Helper()
	s, err := openaitest.Pair()
	if err != nil {
		t.Fatal(err)
	}
	w := &host{t: t, engine: &openaitest.Engine{Session: s}, options: Options{Model: "demo",
		Template: openaitest.Template, Defaults: DefaultRequest(), Seeded: true,
		Candidates: int(spec.Named(foretoken.Settings(), "top_logprobs").Most)}}
	w.options.Defaults.Temperature = 0
	if change != nil {
		change(&w.options)
	}
	w.model = NewModel(w.engine, w.options)
	return w
}

// answered is an answer; a stream has its lines as a server sends them.
type answered struct {
	status int
	body   []byte
}

func (a *answered) refusal(t *testing.T) (code, param, message string) {
	t.Helper()
	return openaitest.Refusal(t, a.status, a.body)
}

// do answers a request.
func (w *host) do(path, body string) answered {
	w.t.Helper()
	var lines []byte
	send := func(line []byte) error {
		lines = fmt.Appendf(lines, "data: %s\n\n", line)
		return nil
	}
	streams, rest, err := w.answer(path, body, send)
	if err != nil {
		e := w.model.Refusal(err)
		if e == nil {
			w.t.Fatal(err)
		}
		return answered{e.Status, e.Body()}
	}
	if !streams {
		return answered{StatusOK, rest[0]}
	}
	for _, line := range rest {
		_ = send(line)
	}
	return answered{StatusOK, lines}
}

func (w *host) answer(path, body string, send func([]byte) error) (streams bool, rest [][]byte, err error) {
	yield := func() error { return nil }
	endpoint, _ := EndpointOf(path)
	q, e := Parse([]byte(body), endpoint, &w.options)
	if e == nil {
		e = w.model.Check(q)
	}
	if e != nil {
		return false, nil, e
	}
	ids, err := w.model.Tokens(q, yield)
	if err != nil {
		return false, nil, err
	}
	a, err := w.model.Answer(w.t.Context(), q, ids, Host{Yield: yield, Send: send,
		Waited: func() time.Duration { return 0 }})
	if err != nil {
		return false, nil, err
	}
	return q.Streams(), a.Rest, nil
}

// complete answers a request that has to succeed.
func (w *host) complete(path, body string) openaitest.Text {
	w.t.Helper()
	a := w.do(path, body)
	var v openaitest.Text
	if err := json.Unmarshal(a.body, &v); err != nil || a.status != StatusOK {
		w.t.Fatalf("status %d: %s", a.status, a.body)
	}
	return v
}
