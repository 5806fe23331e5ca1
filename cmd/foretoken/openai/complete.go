package openai

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"foretoken"
	"foretoken/spec"
)

// statusGone is the log's status for clients that disconnected; no client receives it.
const statusGone = 499

// errGone says that an answer cannot be written any more.
var errGone = errors.New("the client went away")

// complete answers /v1/chat/completions and /v1/completions.
func (s *Server) complete(a *answer, r *http.Request, chat bool) {
	if err := s.completed(a, r, chat); err != nil {
		if e := s.problem(err); r.Context().Err() != nil || errors.Is(err, errGone) {
			a.entry.Status, a.entry.Code = statusGone, "client_gone"
		} else if a.entry.Status == 0 {
			a.refuse(e)
		} else {
			a.entry.Code = e.Code // the stream carried the error
		}
	}
}

func (s *Server) completed(a *answer, r *http.Request, chat bool) error {
	body, refusal := s.body(a, r)
	if refusal != nil {
		return refusal
	}
	defaults := s.config.Defaults
	if !chat && defaults.MaxTokens == 0 {
		defaults.MaxTokens = 16 // the API's own
	}
	q, refusal := parse(body, chat, &defaults)
	if refusal == nil {
		refusal = s.ready()
	}
	if refusal != nil {
		return refusal
	}
	engine := *s.engine.Load()
	if refusal := q.fits(engine.Info(), s.config.Model, s.config.Candidates); refusal != nil {
		return refusal
	}
	if !q.seeded && !s.config.Seeded {
		q.settings.Seed = drawSeed()
	}
	ctx, stop := s.limit(r.Context())
	defer stop()
	waiting := time.Now()
	leave, err := s.queue.enter(ctx, clientName(r, q.user))
	if err != nil {
		return err
	}
	defer leave()
	g := &generation{server: s, asked: q, engine: engine, answer: a, ctx: ctx, waited: time.Since(waiting)}
	a.entry.QueueMS = milliseconds(g.waited)
	return g.run()
}

// drawSeed draws a seed that a JavaScript number holds exactly, so that a client can repeat it.
func drawSeed() uint64 {
	var b [8]byte
	rand.Read(b[:])
	return binary.LittleEndian.Uint64(b[:]) >> 11
}

// clientName is whose turn a request counts as: an address, and the person it is made for.
func clientName(r *http.Request, user string) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		host = r.RemoteAddr
	}
	return host + " " + user
}

// limit ends a request with its client, with the server, or when its time is over.
func (s *Server) limit(parent context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(parent)
	unlink := context.AfterFunc(s.aborted, func() { cancel(context.Cause(s.aborted)) })
	timer := func() bool { return true }
	if s.config.Timeout > 0 {
		e := failed(http.StatusGatewayTimeout, "timeout",
			"the request took more than %v; the server was started so with --timeout", s.config.Timeout)
		timer = time.AfterFunc(s.config.Timeout, func() { cancel(e) }).Stop
	}
	return ctx, func() {
		timer()
		unlink()
		cancel(nil)
	}
}

// generation is a request whose turn it is.
type generation struct {
	*answer
	server     *Server
	asked      *parsedRequest
	engine     Engine
	ctx        context.Context
	waited     time.Duration
	clientWait time.Duration // spent on a client that did not take what was written

	head   completion // of the answer and of each piece
	stats  spec.Stats
	prompt int // tokens of the prompts, each counted once however many texts follow it
	cached int // prompt tokens reused from an earlier request
	all    []choice
}

// run decodes the texts one after the other.
func (g *generation) run() error {
	q := g.asked
	ids, err := g.prompts()
	if err != nil {
		return err
	}
	g.head = completion{ID: newID("cmpl-"), Object: "text_completion", Created: time.Now().Unix(),
		Model: g.server.config.Model, Fingerprint: *g.server.fingerprint.Load()}
	if q.chat {
		g.head.ID, g.head.Object = newID("chatcmpl-"), "chat.completion"
		if q.stream {
			g.head.Object += ".chunk"
		}
	}
	for i, prompt := range ids {
		for j := range q.n {
			settings := q.settings
			settings.Seed += uint64(j)
			if err := g.generateOne(prompt, settings, i*q.n+j, j == 0); err != nil {
				if g.entry.Status != 0 && !errors.Is(err, errGone) && !errors.Is(err, context.Canceled) {
					_ = g.send(struct { // the status is out: what is left is an event
						Error *Error `json:"error"`
					}{g.server.problem(err)})
				}
				return err
			}
		}
	}
	g.entry.Prompt, g.entry.Output, g.entry.Accept, g.entry.Finish = g.prompt, g.stats.OutputTokens,
		g.stats.AcceptedLength(), string(g.stats.Finish)
	if !q.stream {
		g.head.Choices = g.all
		if g.head.Usage, err = g.usage(); err == nil {
			writeJSON(g.answer, http.StatusOK, &g.head)
		}
		return err
	}
	if q.usage {
		last := g.head
		last.Choices = []choice{}
		if last.Usage, err = g.usage(); err != nil {
			return err
		}
		if err := g.send(&last); err != nil {
			return err
		}
	}
	return g.line([]byte("[DONE]"))
}

// prompts gives the tokens of each.
func (g *generation) prompts() ([][]int32, error) {
	q, info := g.asked, g.engine.Info()
	var all [][]int32
	name := "prompt"
	if q.chat {
		name = "messages"
		ids, err := g.engine.ChatIDs(foretoken.ChatOptions{Messages: q.messages, Template: g.server.config.Template,
			Tools: q.tools, Vars: q.vars})
		if errors.Is(err, foretoken.ErrNoChatTemplate) {
			return nil, err
		}
		if err != nil { // the template's word on the conversation
			return nil, invalid("messages", "%s", oneLine(err))
		}
		all = append(all, ids)
	}
	for i, p := range q.prompts {
		ids := p.ids
		if ids == nil {
			ids = g.engine.Tokenizer().Encode(p.text, true)
		}
		for _, id := range ids {
			if id < 0 || int(id) >= info.Target.Vocab {
				return nil, invalid("prompt", "prompt %d has the token %d; want 0 to %d", i, id, info.Target.Vocab-1)
			}
		}
		all = append(all, ids)
	}
	for _, ids := range all {
		if len(ids) == 0 {
			return nil, invalid(name, "%s is empty, and the model has no token to begin with", name)
		}
		if room := info.Target.Context; len(ids) >= room {
			return nil, wrong("context_length_exceeded", name, "%s has %d tokens, and the context holds %d with the "+
				"answer; shorten it, or start the server with a longer --context", name, len(ids), room)
		}
	}
	return all, nil
}

// generateOne decodes one text and, if the request streams, sends it as it grows. first marks a prompt's first text.
func (g *generation) generateOne(prompt []int32, settings foretoken.Request, index int, first bool) error {
	q := g.asked
	told := &likelihoods{tok: g.engine.Tokenizer(), top: q.top, chat: q.chat}
	settings.LogProbs, settings.TopLogProbs = q.top >= 0, max(q.top, 0)
	if !q.chat && q.top >= 0 {
		told.offset = utf8.RuneCountInString(told.tok.Decode(prompt))
	}
	var logprobs any
	begun := false
	result, err := g.engine.GenerateIDs(g.ctx, prompt, settings, func(e *foretoken.Event) error {
		if e.Round.Finish == spec.FinishAborted {
			return nil
		}
		more := told.of(e)
		if !q.stream {
			logprobs = add(logprobs, more)
			return nil
		}
		if !begun && q.chat {
			begun = true
			start := &delta{Role: foretoken.RoleAssistant}
			if q.call == nil {
				start.Content = new(string)
			}
			if err := g.piece(choice{Index: index, Delta: start}); err != nil {
				return err
			}
		}
		if e.Text == "" && more == nil {
			return nil
		}
		c := choice{Index: index, Logprobs: more, Text: &e.Text}
		if q.chat {
			c.Text, c.Delta = nil, &delta{Content: &e.Text}
		}
		if q.call != nil { // a call is sent once it is complete
			if c.Delta = new(delta); more == nil {
				return nil
			}
		}
		return g.piece(c)
	})
	if err != nil {
		return err
	}
	g.server.lost.Store(false)
	g.stats.Add(&result.Stats)
	if first {
		g.prompt += result.Stats.PromptTokens
		g.cached += result.Stats.Reused
	}
	if result.Finish == spec.FinishAborted {
		return context.Cause(g.ctx)
	}
	finish := finishes[result.Finish]
	c := choice{Index: index, Finish: &finish}
	var calls []toolCall
	if q.call != nil {
		if calls = callOf(result.Text); calls != nil {
			finish = "tool_calls"
		}
	}
	switch {
	case q.stream && q.chat:
		if c.Delta = new(delta); calls != nil {
			calls[0].Index = new(int)
			c.Delta.Calls = calls
		} else if q.call != nil {
			c.Delta.Content = &result.Text // the text so far
		}
	case q.stream:
		c.Text = new(string)
	case q.chat:
		c.Message, c.Logprobs = &reply{Role: foretoken.RoleAssistant, Calls: calls}, logprobs
		if calls == nil {
			c.Message.Content = &result.Text
		}
	default:
		c.Text, c.Logprobs = &result.Text, logprobs
	}
	if q.stream {
		return g.piece(c)
	}
	g.all = append(g.all, c)
	return nil
}

func (g *generation) usage() (json.RawMessage, error) {
	s := &g.stats
	u := usage{Prompt: g.prompt, Output: s.OutputTokens, Total: g.prompt + s.OutputTokens}
	u.Details.Cached = g.cached
	device := g.engine.Info().Device
	u.Foretoken = account{g.asked.settings.Policy, g.asked.settings.Seed,
		strings.TrimSpace(device.Backend + " " + device.Adapter), milliseconds(g.waited), g.stats}
	return encode(&u)
}

// piece sends a piece of a text.
func (g *generation) piece(c choice) error {
	p := g.head
	p.Choices = []choice{c}
	if g.asked.usage {
		p.Usage = json.RawMessage("null")
	}
	return g.send(&p)
}

// send streams a value as an event.
func (g *generation) send(v any) error {
	b, err := encode(v)
	if err != nil {
		return err
	}
	return g.line(b)
}

// line writes an event of one line. The headers go out with the first event, so that an earlier error still sets
// the status.
func (g *generation) line(b []byte) error {
	control := http.NewResponseController(g.answer)
	if g.entry.Status == 0 {
		h := g.Header()
		h.Set("Content-Type", "text/event-stream; charset=utf-8")
		h.Set("X-Accel-Buffering", "no") // proxies would hold it back
		g.WriteHeader(http.StatusOK)
	}
	// A client that stops reading, or reads a little now and then, must not keep the others waiting.
	begun := time.Now()
	defer func() { g.clientWait += time.Since(begun) }()
	_ = control.SetWriteDeadline(begun.Add(max(bodyTime-g.clientWait, 0))) // writers without deadlines need none
	if _, err := g.Write(append(append([]byte("data: "), b...), "\n\n"...)); err != nil {
		return errGone
	}
	if control.Flush() != nil {
		return errGone
	}
	return nil
}
