//go:build !js

package openai

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"testing"

	"foretoken"
	"foretoken/internal/files"
	"foretoken/internal/public"
	"foretoken/models/demo"
	"foretoken/spec"
	"foretoken/webgpu/simd"
)

// pair is the built-in pair on the cpu device, opened once.
var pair = sync.OnceValues(func() (*foretoken.Session, error) { return open(demo.Target(), demo.Draft()) })

func open(target, draft files.Source) (*foretoken.Session, error) {
	dev, err := simd.Open(simd.Options{})
	if err != nil {
		return nil, err
	}
	return foretoken.Open(context.Background(), dev, target, draft,
		foretoken.Options{Candidates: int(spec.LimitTopLogProbs.Most)})
}

const talkTemplate = "{% if tools %}tools {{ tools | length }}\n{% endif %}{% for m in messages %}// {{ m.role }}: " +
	"{{ m.content }}\n{% endfor %}"

// engine is the built-in pair, or a test's replacement for decoding and embedding.
type engine struct {
	*foretoken.Session
	generate func(ctx context.Context, ids []int32, r foretoken.Request,
		emit func(*foretoken.Event) error) (*foretoken.Result, error)
	embed func(ctx context.Context, ids []int32) (*foretoken.Embedding, error)
}

func (e *engine) EmbedIDs(ctx context.Context, ids []int32, o foretoken.EmbedOptions) (*foretoken.Embedding, error) {
	if e.embed != nil {
		return e.embed(ctx, ids)
	}
	return e.Session.EmbedIDs(ctx, ids, o)
}

func (e *engine) GenerateIDs(ctx context.Context, ids []int32, r foretoken.Request,
	emit func(*foretoken.Event) error) (*foretoken.Result, error) {
	if e.generate != nil {
		return e.generate(ctx, ids, r, emit)
	}
	return e.Session.GenerateIDs(ctx, ids, r, emit)
}

// site is a server under test.
type site struct {
	*httptest.Server
	t      *testing.T
	api    *Server
	engine *engine
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
	s, err := pair()
	if err != nil {
		t.Fatal(err)
	}
	w := &site{t: t, engine: &engine{Session: s}, logged: make(chan Entry, 100)}
	c := Config{Model: "demo", Template: talkTemplate, Defaults: foretoken.DefaultRequest(), Seeded: true,
		Candidates: int(spec.LimitTopLogProbs.Most), Queue: 4, Log: func(e Entry) { w.logged <- e }}
	c.Defaults.MaxTokens = 0
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

// inside finds what only the log may say: Go's types and packages, and files.
var inside = regexp.MustCompile(`json:|\bGo \w+|unmarshal|strconv|RawMessage|map\[|\bu?int(32|64)\b|float(32|64)|` +
	`struct|interface|\*[a-z]+\.|\.gguf|\.go\b|/(tmp|home|root|usr|etc)/|goroutine|nil\b`)

// refusal is an error as a client reads it.
type refusal struct {
	Error *struct {
		Message, Type, Code string
		Param               *string
	}
}

func (a *answered) refusal(t *testing.T) (code, param, message string) {
	t.Helper()
	var e refusal
	if err := json.Unmarshal(a.body, &e); err != nil || e.Error == nil {
		t.Fatalf("status %d, not an error: %s", a.status, a.body)
	}
	if e.Error.Type == "" || e.Error.Message == "" || strings.Contains(e.Error.Message, "\n") ||
		!bytes.Contains(a.body, []byte(`"param":`)) {
		t.Errorf("an error of another shape: %s", a.body)
	}
	if e.Error.Param != nil {
		param = *e.Error.Param
	}
	if word := inside.FindString(e.Error.Message); word != "" || public.Plain(e.Error.Message) != e.Error.Message {
		t.Errorf("a client is told %q: %s", word, e.Error.Message)
	}
	return e.Error.Code, param, e.Error.Message
}

// said is a message of an answer, or a piece of it.
type said struct {
	Role, Content string
	Calls         []toolCall `json:"tool_calls"`
}

// text is an answer, or a piece of one, as a client reads it.
type text struct {
	ID, Object, Model string
	Choices           []struct {
		Index    int
		Message  *said
		Delta    *said
		Text     *string
		Finish   *string `json:"finish_reason"`
		Logprobs *struct {
			Content []struct {
				Token   string
				Logprob float64
				Bytes   []int
				Top     []struct {
					Token   string
					Logprob float64
				} `json:"top_logprobs"`
			}
			Tokens []string
			Own    []float64            `json:"token_logprobs"`
			Top    []map[string]float64 `json:"top_logprobs"`
			Offset []int                `json:"text_offset"`
		}
	}
	Usage *struct {
		Prompt  int `json:"prompt_tokens"`
		Output  int `json:"completion_tokens"`
		Total   int `json:"total_tokens"`
		Details struct {
			Cached int `json:"cached_tokens"`
		} `json:"prompt_tokens_details"`
		Foretoken struct {
			Policy    string
			Seed      uint64
			Unchecked []string
			Stats     struct {
				Accepted float64 `json:"acceptance_length"`
			}
		}
	}
}

// complete asks for an answer that has to come.
func (w *site) complete(path, body string) text {
	w.t.Helper()
	a := w.do("POST", path, body)
	var v text
	if err := json.Unmarshal(a.body, &v); err != nil || a.status != 200 {
		w.t.Fatalf("status %d: %s", a.status, a.body)
	}
	return v
}

// events reads the lines of a stream; done reports a proper end.
func events(t *testing.T, body []byte) (pieces []text, done bool) {
	t.Helper()
	for line := range strings.SplitSeq(strings.TrimSuffix(string(body), "\n\n"), "\n\n") {
		data, ok := strings.CutPrefix(line, "data: ")
		if !ok || done {
			t.Fatalf("an event %q after %d", line, len(pieces))
		}
		if data == "[DONE]" {
			done = true
			continue
		}
		var v text
		if err := json.Unmarshal([]byte(data), &v); err != nil {
			t.Fatalf("%v in %q", err, data)
		}
		pieces = append(pieces, v)
	}
	return pieces, done
}
