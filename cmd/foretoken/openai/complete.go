package openai

import (
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"foretoken"
	"foretoken/internal/public"
	"foretoken/models/chat"
	"foretoken/models/gguf"
	"foretoken/models/tokenizer"
	"foretoken/spec"
)

// statusGone is the log's status for clients that disconnected; no client receives it.
const statusGone = 499

// codeGone also answers clients that closed their side of the connection only: a server sees no difference.
const codeGone = "client_gone"

// errGone says that an answer cannot be written any more.
var errGone = errors.New("the client went away")

// complete answers what needs a model.
func (s *Server) complete(a *answer, r *http.Request, wanted purpose) {
	ctx, end := s.limit(r.Context())
	defer end(nil)
	err := s.completed(ctx, a, r, wanted, end)
	if err == nil {
		return
	}
	e := s.problem(err)
	a.entry.Error = e.detail
	// The server's own reason to end the request may have cut the connection's reads.
	_, own := errors.AsType[*Error](err)
	if a.entry.Code = e.Code; a.entry.Status == 0 { // otherwise the stream carried the error
		a.refuse(e)
	}
	if errors.Is(err, errGone) || r.Context().Err() != nil && !own {
		a.entry.Status, a.entry.Code = statusGone, codeGone
	}
}

func (s *Server) completed(ctx context.Context, a *answer, r *http.Request, wanted purpose,
	end context.CancelCauseFunc) (err error) {
	q, ids, err := s.prepared(ctx, a, r, wanted, end)
	if err != nil {
		return err
	}
	waiting := time.Now()
	turn, err := s.queue.enter(ctx, clientOf(r, q.user))
	if err != nil {
		return err
	}
	g := &generation{answer: a, server: s, asked: q, engine: s.opened.Load(), ctx: ctx, end: end, turn: turn,
		waited: time.Since(waiting)}
	defer func() { err = g.finish(err) }()
	defer turn.leave()
	if wanted == forEmbedding {
		err = g.embed(ids)
	} else {
		err = g.decode(ids)
	}
	turn.leave()
	a.entry.QueueMS = milliseconds(g.waited)
	return g.deliver(err)
}

// prepared reads a request and tokenises its prompts.
func (s *Server) prepared(ctx context.Context, a *answer, r *http.Request, wanted purpose,
	end context.CancelCauseFunc) (*parsedRequest, [][]int32, error) {
	body, leave, refusal := s.body(a, r, end)
	defer func() { leave() }()
	if refusal != nil {
		if cause := context.Cause(ctx); cause != nil && r.Context().Err() == nil {
			return nil, nil, cause
		}
		return nil, nil, refusal
	}
	desk, err := s.deskFor(ctx, clientOf(r, ""), len(body))
	defer desk.leave()
	if err != nil {
		return nil, nil, err
	}
	defaults := s.config.Defaults
	if wanted == forText && defaults.MaxTokens == 0 {
		defaults.MaxTokens = 16 // the API's own
	}
	q, refusal := parse(body, wanted, &defaults)
	if refusal == nil {
		refusal = s.ready()
	}
	if refusal != nil {
		return nil, nil, refusal
	}
	o := s.opened.Load()
	if refusal := q.fits(o.info, s.config.Model, s.config.Candidates); refusal != nil {
		return nil, nil, refusal
	}
	if !q.seeded && !s.config.Seeded {
		q.settings.Seed = rand.Uint64() >> 11 // exact in a JavaScript number, so that a client can repeat it
	}
	ids, err := o.tokens(q, s.config.Template, desk.yield)
	q.messages, q.tools, q.vars, q.prompts = nil, nil, nil, nil // they may be megabytes, and the queue be long
	return q, ids, err
}

// limit ends a request with its client, with the server, or when its time is over.
func (s *Server) limit(parent context.Context) (context.Context, context.CancelCauseFunc) {
	ctx, cancel := context.WithCancelCause(parent)
	unlink := context.AfterFunc(s.aborted, func() { cancel(context.Cause(s.aborted)) })
	timer := func() bool { return true }
	if s.config.Timeout > 0 {
		e := failed(http.StatusGatewayTimeout, "timeout",
			"the request took more than %v; the server was started so with --timeout", s.config.Timeout)
		timer = time.AfterFunc(s.config.Timeout, func() { cancel(e) }).Stop
	}
	return ctx, func(cause error) {
		timer()
		unlink()
		cancel(cause)
	}
}

// generation is a request whose turn it is.
type generation struct {
	*answer
	server *Server
	asked  *parsedRequest
	engine *opened
	ctx    context.Context
	end    context.CancelCauseFunc // of ctx
	turn   *turn
	waited time.Duration // for its turns
	stream *stream       // nil until the first event

	head   completion // of the answer and of each piece
	stats  spec.Stats
	prompt int // tokens of the prompts, each counted once however many texts follow it
	cached int // prompt tokens reused from an earlier request
	all    []choice

	unchecked []string // keywords of the form that the texts are not held to

	embedded json.RawMessage // the answer of /v1/embeddings
}

// decode decodes the texts one after the other. Others may have their turns between them.
func (g *generation) decode(ids [][]int32) error {
	q := g.asked
	if err := q.compile(g.ctx); err != nil {
		return err
	}
	g.pause = g.server.limits.answer
	g.head = completion{ID: newID("cmpl-"), Object: "text_completion", Created: time.Now().Unix(),
		Model: g.server.config.Model, Fingerprint: g.engine.fingerprint}
	if q.purpose == forChat {
		g.head.ID, g.head.Object = newID("chatcmpl-"), "chat.completion"
		if q.stream {
			g.head.Object += ".chunk"
		}
	}
	for i, prompt := range ids {
		for j := range q.n {
			index := i*q.n + j
			if index > 0 {
				if err := g.yield(); err != nil {
					return err
				}
			}
			settings := q.settings
			settings.Seed += uint64(j)
			settings.Owner = g.server.ownerOf(q.user)
			if err := g.generateOne(prompt, settings, index, j == 0); err != nil {
				return q.blame(err)
			}
		}
	}
	g.entry.Prompt, g.entry.Output, g.entry.Accept, g.entry.Finish = g.prompt, g.stats.OutputTokens,
		g.stats.AcceptedLength(), string(g.stats.Finish)
	return nil
}

// yield gives other clients their turns between two texts.
func (g *generation) yield() error {
	passed := time.Now()
	err := g.turn.yield(g.ctx)
	g.waited += time.Since(passed)
	return err
}

// deliver sends what is left of the answer once the turn is over: a slow reader does not delay others.
func (g *generation) deliver(err error) error {
	q := g.asked
	if err != nil {
		if g.stream != nil && !errors.Is(err, errGone) {
			_ = g.send(struct { // the status is out: what is left is an event
				Error *Error `json:"error"`
			}{g.server.problem(err)})
		}
		return err
	}
	if g.embedded != nil {
		return writeJSON(g.answer, http.StatusOK, g.embedded)
	}
	usage, err := g.usage()
	if err != nil {
		return err
	}
	if !q.stream {
		g.head.Choices, g.head.Usage = g.all, usage
		return writeJSON(g.answer, http.StatusOK, &g.head)
	}
	if q.usage || len(g.unchecked) > 0 {
		last := g.head
		last.Choices, last.Usage = []choice{}, usage
		if err := g.send(&last); err != nil {
			return err
		}
	}
	return g.line([]byte("[DONE]"))
}

// finish waits until the client has taken the stream, if there is one.
func (g *generation) finish(err error) error {
	if g.stream == nil || g.stream.end() == nil {
		return err
	}
	return errGone
}

// generateOne decodes one text and, if the request streams, sends it as it grows. first marks a prompt's first text.
func (g *generation) generateOne(prompt []int32, settings foretoken.Request, index int, first bool) error {
	q := g.asked
	told := &likelihoods{tok: g.engine.Tokenizer(), top: q.top, chat: q.purpose == forChat}
	settings.LogProbs, settings.TopLogProbs = q.top >= 0, max(q.top, 0)
	if q.purpose == forText && q.top >= 0 {
		told.offset = utf8.RuneCountInString(told.tok.Decode(prompt))
	}
	var said utterance
	if len(q.callable) > 0 {
		said.calls = chat.NewCallReader(q.callable, q.single)
	}
	if said.calls != nil && q.single {
		reader := chat.NewCallReader(q.callable, true)
		settings.Until = func(text string) bool {
			_, calls := reader.Push(text)
			return len(calls) > 0
		}
	}
	begun := false
	result, err := g.engine.GenerateIDs(g.ctx, prompt, settings, func(e *foretoken.Event) error {
		if e.Round.Finish == spec.FinishAborted {
			return nil
		}
		told.note(e)
		if !q.stream {
			return nil
		}
		if !begun && q.purpose == forChat {
			begun = true
			start := &delta{Role: foretoken.RoleAssistant}
			if q.call == nil {
				start.Content = new(string)
			}
			if err := g.piece(choice{Index: index, Delta: start}); err != nil {
				return err
			}
		}
		return g.grow(&said, e.Text, false, told.take(), index)
	})
	if err != nil {
		return err
	}
	g.server.lost.Store(false)
	g.stats.Add(&result.Stats)
	g.unchecked = result.Unchecked
	if first {
		g.prompt += result.Stats.PromptTokens
		g.cached += result.Stats.Reused
	}
	if result.Finish == spec.FinishAborted {
		return context.Cause(g.ctx)
	}
	finish := finishes[result.Finish]
	c := choice{Index: index, Finish: &finish}
	switch {
	case q.stream:
		if err := g.grow(&said, "", true, nil, index); err != nil {
			return err
		}
		if c.Delta = new(delta); q.purpose != forChat {
			c.Delta, c.Text = nil, new(string)
		}
	case q.purpose == forChat:
		content, calls := said.read(result.Text, true)
		for i := range calls {
			calls[i].Index = nil
		}
		c.Message, c.Logprobs = &reply{Role: foretoken.RoleAssistant, Calls: calls}, told.take()
		if content != "" || calls == nil {
			c.Message.Content = &content
		}
	default:
		c.Text, c.Logprobs = &result.Text, told.take()
	}
	if said.found > 0 && finish == "stop" {
		finish = "tool_calls"
	}
	if q.stream {
		return g.piece(c)
	}
	g.all = append(g.all, c)
	return nil
}

// grow streams what a piece of a text adds to the answer, if anything.
func (g *generation) grow(said *utterance, text string, end bool, logprobs any, index int) error {
	text, calls := said.read(text, end)
	if text == "" && calls == nil && logprobs == nil {
		return nil
	}
	c := choice{Index: index, Logprobs: logprobs, Text: &text}
	if g.asked.purpose == forChat {
		c.Text, c.Delta = nil, &delta{Calls: calls}
		if text != "" || said.calls == nil {
			c.Delta.Content = &text
		}
	}
	return g.piece(c)
}

func (g *generation) usage() (json.RawMessage, error) {
	s := &g.stats
	u := usage{Prompt: g.prompt, Output: s.OutputTokens, Total: g.prompt + s.OutputTokens}
	u.Details.Cached = g.cached
	device := g.engine.info.Device
	u.Foretoken = account{g.asked.settings.Policy, g.asked.settings.Seed,
		strings.TrimSpace(device.Backend + " " + device.Adapter), milliseconds(g.waited), g.stats, g.unchecked}
	return encode(&u)
}

func (g *generation) piece(c choice) error {
	p := g.head
	p.Choices = []choice{c}
	if g.asked.usage {
		p.Usage = json.RawMessage("null")
	}
	return g.send(&p)
}

func (g *generation) send(v any) error {
	b, err := encode(v)
	if err != nil {
		return err
	}
	return g.line(b)
}

// line streams an event of one line. The headers go out with the first event, so that an earlier error still sets the
// status.
func (g *generation) line(b []byte) error {
	if g.stream == nil {
		g.stream = startStream(g.answer, func() { g.end(errGone) })
	}
	return g.stream.send(b)
}

// tokens returns the tokens of each prompt. A prompt that cannot have as few tokens as the context holds is refused
// before it is tokenised. yield is called between slices of the work.
func (o *opened) tokens(q *parsedRequest, template string, yield func() error) ([][]int32, error) {
	var all [][]int32
	name, room, with := q.field(), o.info.Target.Context, " with the answer"
	if q.purpose == forEmbedding {
		room, with = room+1, ""
	}
	if q.purpose == forChat {
		if err := o.CanChat(); err != nil && gguf.Blank(template) {
			e := noTemplate()
			e.detail = public.Message(err)
			return nil, e
		}
		if err := yield(); err != nil {
			return nil, err
		}
		var ended error
		ids, err := o.ChatIDs(foretoken.ChatOptions{Messages: q.messages, Template: template, Tools: q.tools,
			Vars: q.vars}, func() error { ended = yield(); return ended })
		if ended != nil {
			return nil, ended
		}
		if errors.Is(err, foretoken.ErrContextFull) {
			return nil, wrong("context_length_exceeded", name, "%s", o.told(err))
		}
		if err != nil { // the template's word on the conversation
			return nil, invalid("messages", "%s", o.told(err))
		}
		all = append(all, ids)
	}
	work := 0
	for i, p := range q.prompts {
		if work += len(p.text) + len(p.ids); work > slice { // longer texts are cut into slices of their own
			work = 0
			if err := yield(); err != nil {
				return nil, err
			}
		}
		ids := p.ids
		if ids == nil {
			if least := o.Tokenizer().Least(len(p.text), false); least >= room {
				return nil, wrong("context_length_exceeded", name, "%s has %d bytes, which are at least %d tokens, "+
					"and the context holds %d%s; shorten it, or start the server with a longer --context", name,
					len(p.text), least, o.info.Target.Context, with)
			}
			var err error
			ids, err = o.Tokenizer().EncodeWith(p.text, tokenizer.EncodeOptions{Begin: true,
				Complete: q.purpose == forEmbedding, Yield: yield})
			if err != nil {
				return nil, err
			}
		}
		for _, id := range ids {
			if id < 0 || int(id) >= o.info.Target.Vocab {
				return nil, invalid(name, "%s %d has the token %d; want 0 to %d", name, i, id, o.info.Target.Vocab-1)
			}
		}
		all = append(all, ids)
	}
	for _, ids := range all {
		if len(ids) == 0 {
			return nil, invalid(name, "%s is empty, and the model has no token to begin with", name)
		}
		if len(ids) >= room {
			return nil, wrong("context_length_exceeded", name, "%s has %d tokens, and the context holds %d%s; "+
				"shorten it, or start the server with a longer --context", name, len(ids), o.info.Target.Context, with)
		}
	}
	return all, nil
}
