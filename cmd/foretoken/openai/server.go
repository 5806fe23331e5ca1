// Package openai serves an open pair of models over HTTP in the shape of OpenAI's API, so that programs
// written for that one can be tried on this machine: /v1/chat/completions and /v1/completions, streamed or
// not, /v1/embeddings, /v1/models and /health. The texts are those of foretoken generate with the same seed.
//
// It is made for one person's machine. One request decodes at a time, the others wait in a bounded queue. A page that a
// browser shows cannot use it unless its origin was named, nor reach it under a name that it was not started for.
package openai

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"net"
	"net/http"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"foretoken"
	"foretoken/internal/public"
	"foretoken/models/graph"
	"foretoken/models/tokenizer"
	"foretoken/webgpu"
)

// Engine decodes for a server: a foretoken.Session. The server makes one call of GenerateIDs or EmbedIDs at a time.
// The other methods are called while it decodes, too.
type Engine interface {
	Info() foretoken.Info
	Files() map[string]string
	Tokenizer() *tokenizer.Tokenizer
	CanChat() error
	ChatIDs(o foretoken.ChatOptions, yield func() error) ([]int32, error)
	GenerateIDs(ctx context.Context, ids []int32, r foretoken.Request,
		emit func(*foretoken.Event) error) (*foretoken.Result, error)
	EmbedIDs(ctx context.Context, ids []int32, o foretoken.EmbedOptions) (*foretoken.Embedding, error)
}

var _ Engine = (*foretoken.Session)(nil)

// Config configures a server. Each field's comment gives the meaning of its zero value.
type Config struct {
	Model      string            // the name that requests give and /v1/models lists
	Created    time.Time         // of the model, for /v1/models
	Template   string            // chat template; "": the one in the target's file
	Defaults   foretoken.Request // values of fields that a request omits
	Seeded     bool              // Defaults.Seed is meant; otherwise each request draws a seed
	Candidates int               // likeliest tokens that the session reports per position; 0: none
	Key        string            // that requests have to bring; "": none
	Hosts      []string          // names accepted in the Host header besides loopback
	// whoever reaches the machine may ask; addresses in the Host header are then taken, too
	Remote  bool
	Origins []string      // of pages that may ask; "*": any; nil: none
	Queue   int           // requests that may wait
	Timeout time.Duration // of a request, waiting included; 0: none
	MaxBody int64         // bytes of a request; 0: 4 MiB
	Log     func(Entry)   // receives every answered request; may be nil
	// requests find in the KV cache what another user's left there, which tells them how that one's prompt begins
	ShareCache bool
}

// Entry is a line of the log. It holds no text of a prompt or reply.
type Entry struct {
	ID      string  `json:"id"`
	Method  string  `json:"method"`
	Path    string  `json:"path"`
	Status  int     `json:"status"`
	Code    string  `json:"code,omitempty"`  // of the error
	Error   string  `json:"error,omitempty"` // of one that is the server's, what its client is not told
	Prompt  int     `json:"prompt_tokens,omitempty"`
	Output  int     `json:"completion_tokens,omitempty"`
	Accept  float64 `json:"acceptance_length,omitempty"`
	Finish  string  `json:"finish,omitempty"` // of the last text
	QueueMS float64 `json:"queue_ms"`
	MS      float64 `json:"ms"`
}

// Server is an http.Handler.
type Server struct {
	config Config
	limits limits
	opened atomic.Pointer[opened] // nil while the models are loaded
	conns  *shares
	bodies *shares     // of those that are large, until they are tokenised
	large  *queue      // for reading requests of more than smallBody bytes
	small  *queue      // for reading the others, once that takes long
	queue  *queue      // for decoding
	lost   atomic.Bool // the last request that needed the device lost it
	// aborted is cancelled when answers have to end at once.
	aborted context.Context
	abort   context.CancelCauseFunc
}

// New makes a server. It answers that it is loading until Open was called.
func New(c Config) *Server {
	if c.MaxBody == 0 {
		c.MaxBody = 4 << 20
	}
	s := &Server{config: c, limits: defaultLimits, conns: newShares(maxConnections), bodies: newShares(maxBodies),
		large: newQueue(maxConnections, deskTime), small: newQueue(maxConnections, deskTime),
		queue: newQueue(c.Queue, turnTime)}
	s.aborted, s.abort = context.WithCancelCause(context.Background())
	return s
}

// opened is an engine with what requests need to know of it. The engine's own Info may change while it reopens a lost
// device.
type opened struct {
	Engine
	info        foretoken.Info
	fingerprint string
	files       map[string]string // what clients are told of them; errors name a file before a colon
}

// told is the text of an error for clients, without the names of packages and of the machine's files.
func (o *opened) told(err error) string {
	text := public.Message(err)
	if o == nil {
		return text
	}
	text = ": " + text
	for name, role := range o.files {
		text = strings.ReplaceAll(text, ": "+name+": ", ": "+role+": ")
	}
	return text[2:]
}

// Open sets the server's engine; requests before it get 503.
func (s *Server) Open(e Engine) {
	o := &opened{Engine: e, info: e.Info(), files: e.Files()}
	info := &o.info
	info.Target.File = filepath.Base(info.Target.File) // clients need no folders
	for _, m := range []**graph.Info{&info.Draft, &info.EAGLE3} {
		if *m != nil {
			own := **m // the session keeps its own
			own.File = filepath.Base(own.File)
			*m = &own
		}
	}
	b, err := json.Marshal([]any{info.Target, info.Device.Backend, info.Device.Adapter, info.Device.Driver})
	if err != nil {
		panic(err) // they are strings and numbers
	}
	sum := sha256.Sum256(b)
	o.fingerprint = "fp_" + hex.EncodeToString(sum[:5])
	s.opened.Store(o)
}

// Drain rejects waiting and new requests and lets the running one finish. It may be called before Open.
func (s *Server) Drain() { s.queue.close() }

// Abort ends the current decoding within a round and sends its client an error.
func (s *Server) Abort() { s.abort(errStopping()) }

// Wait returns when nothing decodes.
func (s *Server) Wait() { s.queue.wait() }

// ServeHTTP answers a request and logs it.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	begun := time.Now()
	a := &answer{ResponseWriter: w, pause: s.limits.small, unread: r.ContentLength != 0,
		entry: Entry{ID: newID("req_"), Method: r.Method, Path: r.URL.Path}}
	h := w.Header()
	h.Set("X-Request-Id", a.entry.ID)
	h.Set("X-Content-Type-Options", "nosniff")
	// a browser must not render a model's text as a page
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	h.Set("Cache-Control", "no-store")
	if err := s.admit(a, r); err != nil {
		a.refuse(err)
	} else if r.Method == http.MethodOptions && r.Header.Get("Access-Control-Request-Method") != "" {
		a.WriteHeader(http.StatusNoContent) // a preflight: admit has answered it
	} else {
		s.route(a, r)
	}
	if s.config.Log != nil {
		a.entry.MS = milliseconds(time.Since(begun))
		s.config.Log(a.entry)
	}
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func newID(prefix string) string {
	var b [12]byte
	rand.Read(b[:])
	return prefix + hex.EncodeToString(b[:])
}

// admit refuses a request with a wrong Host, from an origin that was not allowed, or without the key.
func (s *Server) admit(w http.ResponseWriter, r *http.Request) *Error {
	if !s.knowsHost(r.Host) {
		// Otherwise a page could have its own name resolved to this machine and read the answers.
		return refused(http.StatusForbidden, "host_not_allowed",
			"this server was not started for the host %s; start it with --allow-host", brief([]byte(r.Host)))
	}
	if origin := r.Header.Get("Origin"); origin != "" {
		h := w.Header()
		h.Add("Vary", "Origin")
		if !slices.Contains(s.config.Origins, origin) && !slices.Contains(s.config.Origins, "*") {
			return refused(http.StatusForbidden, "origin_not_allowed",
				"pages of %s may not use this server; start it with --cors-origin", brief([]byte(origin)))
		}
		h.Set("Access-Control-Allow-Origin", origin)
		h.Set("Access-Control-Expose-Headers", "X-Request-Id, Retry-After")
		if r.Method == http.MethodOptions && r.Header.Get("Access-Control-Request-Method") != "" {
			h.Set("Access-Control-Allow-Methods", "GET, POST")
			h.Set("Access-Control-Max-Age", "600")
			if asked := r.Header.Get("Access-Control-Request-Headers"); asked != "" {
				h.Set("Access-Control-Allow-Headers", asked)
			}
			if r.Header.Get("Access-Control-Request-Private-Network") == "true" {
				h.Set("Access-Control-Allow-Private-Network", "true")
			}
			return nil // browsers send no key with it
		}
	}
	if s.config.Key == "" || r.URL.Path == "/health" {
		return nil
	}
	scheme, key, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	given, want := sha256.Sum256([]byte(key)), sha256.Sum256([]byte(s.config.Key))
	if !strings.EqualFold(scheme, "Bearer") || subtle.ConstantTimeCompare(given[:], want[:]) != 1 {
		return refused(http.StatusUnauthorized, "invalid_api_key",
			"this server asks for its key: Authorization: Bearer KEY")
	}
	return nil
}

// knowsHost reports whether a Host header names this server.
func (s *Server) knowsHost(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.TrimSuffix(strings.ToLower(strings.Trim(host, "[]")), ".")
	if ip, err := netip.ParseAddr(host); err == nil && (ip.Unmap().IsLoopback() || s.config.Remote) {
		return true // DNS cannot rebind a literal address
	}
	return host == "localhost" ||
		slices.ContainsFunc(s.config.Hosts, func(h string) bool { return strings.EqualFold(h, host) })
}

// route finds the handler of a path.
func (s *Server) route(a *answer, r *http.Request) {
	read, write := []string{http.MethodGet, http.MethodHead}, []string{http.MethodPost}
	path, model := r.URL.Path, ""
	if rest, ok := strings.CutPrefix(path, "/v1/models/"); ok && rest != "" {
		path, model = "/v1/models/{model}", rest
	}
	does, ok := map[string]struct {
		methods []string
		answer  func()
	}{
		"/health":              {read, func() { s.health(a) }},
		"/v1/models":           {read, func() { s.models(a) }},
		"/v1/models/{model}":   {read, func() { s.model(a, model) }},
		"/v1/chat/completions": {write, func() { s.complete(a, r, forChat) }},
		"/v1/completions":      {write, func() { s.complete(a, r, forText) }},
		"/v1/embeddings":       {write, func() { s.complete(a, r, forEmbedding) }},
	}[path]
	switch {
	case !ok:
		a.refuse(refused(http.StatusNotFound, "unknown_url",
			"there is nothing at %s %s; there are /v1/chat/completions, /v1/completions, "+
				"/v1/embeddings, /v1/models and /health",
			brief([]byte(r.Method)), brief([]byte(r.URL.Path))))
	case !slices.Contains(does.methods, r.Method):
		e := refused(http.StatusMethodNotAllowed, "method_not_supported", "%s takes %s, not %s",
			brief([]byte(r.URL.Path)), strings.Join(does.methods, " and "), brief([]byte(r.Method)))
		e.allow = strings.Join(does.methods, ", ")
		a.refuse(e)
	default:
		does.answer()
	}
}

// health reports whether the server would answer requests.
func (s *Server) health(a *answer) {
	busy, waiting, _ := s.queue.state()
	state := struct {
		Status  string `json:"status"`
		Busy    bool   `json:"busy"`
		Waiting int    `json:"waiting"`
	}{"ok", busy, waiting}
	status := http.StatusOK
	if err := s.ready(); err != nil {
		status, state.Status = err.Status, err.Code
	} else if s.lost.Load() {
		status, state.Status = http.StatusServiceUnavailable, codeLost
	}
	_ = writeJSON(a, status, state)
}

// codeLost marks requests whose device was lost for good. The next request, after lostPause at the earliest, tries
// to reopen it.
const (
	codeLost  = "device_lost"
	lostPause = 5 * time.Second
)

// ready returns why no request can be answered, or nil.
func (s *Server) ready() *Error {
	switch _, _, closed := s.queue.state(); {
	case closed:
		return errStopping()
	case s.opened.Load() == nil:
		e := failed(http.StatusServiceUnavailable, "loading", "the models are being loaded")
		e.retry = time.Second
		return e
	}
	return nil
}

// listed is a model as /v1/models shows it.
type listed struct {
	ID      string          `json:"id"`
	Object  string          `json:"object"`
	Created int64           `json:"created"`
	OwnedBy string          `json:"owned_by"`
	Info    *foretoken.Info `json:"foretoken,omitempty"` // once it is loaded
}

func (s *Server) served() listed {
	m := listed{ID: s.config.Model, Object: "model", Created: s.config.Created.Unix(), OwnedBy: "foretoken"}
	if o := s.opened.Load(); o != nil {
		m.Info = &o.info
	}
	return m
}

func (s *Server) models(a *answer) {
	_ = writeJSON(a, http.StatusOK, struct {
		Object string   `json:"object"`
		Data   []listed `json:"data"`
	}{"list", []listed{s.served()}})
}

// noModel refuses a request for another model than the served one.
func noModel(name, served string) *Error {
	e := wrong("model_not_found", "model", "there is no model %s; this server has %s", brief([]byte(name)), served)
	e.Status = http.StatusNotFound
	return e
}

func (s *Server) model(a *answer, name string) {
	if name != s.config.Model {
		a.refuse(noModel(name, s.config.Model))
		return
	}
	_ = writeJSON(a, http.StatusOK, s.served())
}

// problem is the error of a request that could not be carried out.
func (s *Server) problem(err error) *Error {
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	detail := public.Message(err)
	told := s.opened.Load().told(err)
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, errGone):
		return refused(http.StatusBadRequest, codeGone, "the client closed its side of the connection before the "+
			"answer, which ends the request; keep it open until the answer has come")
	case errors.Is(err, webgpu.ErrDeviceLost):
		s.lost.Store(true)
		e := failed(http.StatusServiceUnavailable, codeLost, "the device was lost and cannot be opened again yet")
		e.retry, e.detail = lostPause, detail
		return e
	case unforeseen(err):
	case errors.Is(err, foretoken.ErrContextFull):
		return wrong("context_length_exceeded", "prompt", "%s", told)
	case errors.Is(err, foretoken.ErrRequest):
		return invalid("foretoken", "%s", told)
	}
	e := failed(http.StatusInternalServerError, "engine_error", "the request could not be carried out; the server's "+
		"log has the reason under the id that X-Request-Id gives")
	e.detail = detail
	return e
}

func noTemplate() *Error {
	return wrong("no_chat_template", "messages",
		"the model has no chat template that can be used; start the server with --chat-template, or use "+
			"/v1/completions")
}

// unforeseen reports errors of the machine, which may name its files and its devices.
func unforeseen(err error) bool {
	_, file := errors.AsType[*fs.PathError](err)
	return file || errors.Is(err, webgpu.ErrNoMemory) || errors.Is(err, webgpu.ErrTimeout) ||
		errors.Is(err, webgpu.ErrUnavailable) || errors.Is(err, foretoken.ErrModel)
}
