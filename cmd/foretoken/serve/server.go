// Package serve answers OpenAI's API over HTTP, so that programs written for that API can be tried on this machine:
// /v1/chat/completions and /v1/completions, streamed or not, /v1/embeddings, /v1/models and /health. With the same seed
// the texts equal those of foretoken generate. Package openai translates requests and answers; this package has the
// connections, bodies, queues and streams.
//
// It is made for one person's machine. One request decodes at a time, the others wait in a bounded queue. A page that a
// browser shows cannot use it unless its origin was named, nor reach it under a name that it was not started for.
package serve

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"foretoken"
	"foretoken/internal/public"
	"foretoken/openai"
	"foretoken/webgpu"
)

// Config configures a server. Each field's comment gives the meaning of its zero value.
type Config struct {
	openai.Options
	Created time.Time // of the model, for /v1/models
	Key     string    // that requests have to bring; "": none
	Hosts   []string  // names accepted in the Host header besides loopback
	// Remote lets anyone ask who reaches the machine; the Host header may then hold addresses.
	Remote  bool
	Origins []string      // of pages that may ask; "*": any; nil: none
	Queue   int           // requests that may wait
	Timeout time.Duration // of a request, waiting included; 0: none
	MaxBody int64         // bytes of a request; 0: 4 MiB
	Log     func(Entry)   // receives every answered request; may be nil
	// ShareCache lets a request reuse what another user's request left in the KV cache. How fast the answer begins then
	// tells how the other prompt begins.
	ShareCache bool
}

// Entry is a line of the log. It holds no text of a prompt or reply.
type Entry struct {
	ID      string  `json:"id"`
	Method  string  `json:"method"`
	Path    string  `json:"path"`
	Status  int     `json:"status"`
	Code    string  `json:"code,omitempty"`  // of the error
	Error   string  `json:"error,omitempty"` // an internal error, which the client is not told
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
	opened atomic.Pointer[openai.Model] // nil while the models are loaded
	conns  *shares
	bodies *shares     // of those that are large, until they are tokenised
	large  *queue      // for reading requests of more than smallBody bytes
	small  *queue      // for reading the others, once that takes long
	queue  *queue      // for decoding
	lost   atomic.Bool // the last call of the engine lost the device
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

// Open sets the server's engine; requests before it get 503.
func (s *Server) Open(e openai.Engine) {
	s.opened.Store(openai.NewModel(&watched{e, &s.lost}, s.config.Options))
}

// watched is an engine that notes whether its device is lost.
type watched struct {
	openai.Engine
	lost *atomic.Bool
}

func (w *watched) note(err error) {
	if err == nil || errors.Is(err, webgpu.ErrDeviceLost) {
		w.lost.Store(err != nil)
	}
}

func (w *watched) GenerateIDs(ctx context.Context, ids []int32, r foretoken.Request,
	emit func(*foretoken.Event) error) (*foretoken.Result, error) {
	result, err := w.Engine.GenerateIDs(ctx, ids, r, emit)
	w.note(err)
	return result, err
}

func (w *watched) EmbedIDs(ctx context.Context, ids []int32, o foretoken.EmbedOptions) (*foretoken.Embedding, error) {
	e, err := w.Engine.EmbedIDs(ctx, ids, o)
	w.note(err)
	return e, err
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
		entry: Entry{ID: openai.NewID("req_"), Method: r.Method, Path: r.URL.Path}}
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

// admit refuses a request with a wrong Host, from an origin that was not allowed, or without the key.
func (s *Server) admit(w http.ResponseWriter, r *http.Request) *openai.Error {
	if !s.knowsHost(r.Host) {
		// Otherwise a page could have its own name resolved to this machine and read the answers.
		return openai.Refused(http.StatusForbidden, "host_not_allowed",
			"this server was not started for the host %s; start it with --allow-host", openai.Brief([]byte(r.Host)))
	}
	if origin := r.Header.Get("Origin"); origin != "" {
		h := w.Header()
		h.Add("Vary", "Origin")
		if !slices.Contains(s.config.Origins, origin) && !slices.Contains(s.config.Origins, "*") {
			return openai.Refused(http.StatusForbidden, "origin_not_allowed",
				"pages of %s may not use this server; start it with --cors-origin", openai.Brief([]byte(origin)))
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
		return openai.Refused(http.StatusUnauthorized, "invalid_api_key",
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
		"/health":            {read, func() { s.health(a) }},
		"/v1/models":         {read, func() { s.models(a) }},
		"/v1/models/{model}": {read, func() { s.model(a, model) }},
	}[path]
	if endpoint, found := openai.EndpointOf(path); found {
		does.methods, does.answer, ok = write, func() { s.complete(a, r, endpoint) }, true
	}
	switch {
	case !ok:
		a.refuse(openai.Refused(http.StatusNotFound, "unknown_url",
			"there is nothing at %s %s; there are /v1/chat/completions, /v1/completions, "+
				"/v1/embeddings, /v1/models and /health",
			openai.Brief([]byte(r.Method)), openai.Brief([]byte(r.URL.Path))))
	case !slices.Contains(does.methods, r.Method):
		e := openai.Refused(http.StatusMethodNotAllowed, "method_not_supported", "%s takes %s, not %s",
			openai.Brief([]byte(r.URL.Path)), strings.Join(does.methods, " and "), openai.Brief([]byte(r.Method)))
		a.Header().Set("Allow", strings.Join(does.methods, ", "))
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
	a.writeJSON(status, state)
}

// codeLost marks requests whose device was lost for good. The next request, after lostPause at the earliest, tries
// to reopen it.
const (
	codeLost  = "device_lost"
	lostPause = 5 * time.Second
)

// ready returns why no request can be answered, or nil.
func (s *Server) ready() *openai.Error {
	switch _, _, closed := s.queue.state(); {
	case closed:
		return errStopping()
	case s.opened.Load() == nil:
		e := failed(http.StatusServiceUnavailable, "loading", "the models are being loaded")
		e.Retry = time.Second
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
		m.Info = &o.Info
	}
	return m
}

func (s *Server) models(a *answer) {
	a.writeJSON(http.StatusOK, struct {
		Object string   `json:"object"`
		Data   []listed `json:"data"`
	}{"list", []listed{s.served()}})
}

func (s *Server) model(a *answer, name string) {
	if name != s.config.Model {
		a.refuse(openai.NoModel(name, s.config.Model))
		return
	}
	a.writeJSON(http.StatusOK, s.served())
}

// failed is a request that the server could not carry out.
func failed(status int, code, message string) *openai.Error {
	return &openai.Error{Status: status, Type: openai.TypeServer, Code: code, Message: message}
}

// errStopping rejects requests while the server shuts down.
func errStopping() *openai.Error {
	e := failed(http.StatusServiceUnavailable, "shutting_down", "the server is shutting down")
	e.Retry = 5 * time.Second
	return e
}

// problem is the error of a request that could not be carried out.
func (s *Server) problem(err error) *openai.Error {
	if errors.Is(err, context.Canceled) || errors.Is(err, errGone) {
		return openai.Refused(http.StatusBadRequest, codeGone, "the client closed its side of the connection before "+
			"the answer, which ends the request; keep it open until the answer has come")
	}
	if e := s.opened.Load().Refusal(err); e != nil {
		return e
	}
	e := failed(http.StatusInternalServerError, "engine_error", "the request could not be carried out; the server's "+
		"log has the reason under the id that X-Request-Id gives")
	if errors.Is(err, webgpu.ErrDeviceLost) {
		e = failed(http.StatusServiceUnavailable, codeLost, "the device was lost and cannot be opened again yet")
		e.Retry = lostPause
	}
	e.Detail = public.Message(err)
	return e
}
