package serve

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"foretoken/openai"
)

// statusGone is the log's status for clients that disconnected; no client receives it.
const statusGone = 499

// codeGone also answers clients that closed their side of the connection only: a server sees no difference.
const codeGone = "client_gone"

// errGone says that an answer cannot be written any more.
var errGone = errors.New("the client went away")

// complete answers what needs a model.
func (s *Server) complete(a *answer, r *http.Request, endpoint openai.Endpoint) {
	ctx, end := s.limit(r.Context())
	defer end(nil)
	err := s.completed(ctx, a, r, endpoint, end)
	if err == nil {
		return
	}
	e := s.problem(err)
	a.entry.Error = e.Detail
	// The server's own reason to end the request may have cut the connection's reads.
	_, own := errors.AsType[*openai.Error](err)
	if a.entry.Code = e.Code; a.entry.Status == 0 { // otherwise the stream carried the error
		a.refuse(e)
	}
	if errors.Is(err, errGone) || r.Context().Err() != nil && !own {
		a.entry.Status, a.entry.Code = statusGone, codeGone
	}
}

func (s *Server) completed(ctx context.Context, a *answer, r *http.Request, endpoint openai.Endpoint,
	end context.CancelCauseFunc) (err error) {
	q, ids, err := s.prepared(ctx, a, r, endpoint, end)
	if err != nil {
		return err
	}
	d := &delivery{answer: a, asked: q, longest: s.limits.answer, end: end}
	waiting := time.Now()
	turn, err := s.queue.enter(ctx, clientOf(r, q.User))
	if err != nil {
		return err
	}
	waited := time.Since(waiting)
	defer func() { err = d.finish(err) }()
	defer turn.leave()
	done, err := s.opened.Load().Answer(ctx, q, ids, openai.Host{Owner: s.ownerOf(q.User), Send: d.line,
		Waited: func() time.Duration { return waited },
		Yield: func() error {
			passed := time.Now()
			err := turn.yield(ctx)
			waited += time.Since(passed)
			return err
		}})
	turn.leave()
	a.entry.QueueMS = milliseconds(waited)
	if err != nil {
		if d.stream != nil && !errors.Is(err, errGone) {
			_ = d.line(s.problem(err).Body()) // the status is out: what is left is an event
		}
		return err
	}
	a.entry.Prompt, a.entry.Output = done.Prompt, done.Stats.OutputTokens
	a.entry.Accept, a.entry.Finish = done.Stats.AcceptedLength(), string(done.Stats.Finish)
	return d.deliver(done.Rest)
}

// prepared reads a request and tokenises its prompts.
func (s *Server) prepared(ctx context.Context, a *answer, r *http.Request, endpoint openai.Endpoint,
	end context.CancelCauseFunc) (*openai.Request, [][]int32, error) {
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
	q, refusal := openai.Parse(body, endpoint, &s.config.Options)
	if refusal == nil {
		refusal = s.ready()
	}
	if refusal != nil {
		return nil, nil, refusal
	}
	model := s.opened.Load()
	if refusal := model.Check(q); refusal != nil {
		return nil, nil, refusal
	}
	ids, err := model.Tokens(q, desk.yield)
	return q, ids, err
}

// limit ends a request with its client, with the server, or when its time is over.
func (s *Server) limit(parent context.Context) (context.Context, context.CancelCauseFunc) {
	ctx, cancel := context.WithCancelCause(parent)
	unlink := context.AfterFunc(s.aborted, func() { cancel(context.Cause(s.aborted)) })
	timer := func() bool { return true }
	if s.config.Timeout > 0 {
		e := failed(http.StatusGatewayTimeout, "timeout", fmt.Sprintf(
			"the request took more than %v; the server was started so with --timeout", s.config.Timeout))
		timer = time.AfterFunc(s.config.Timeout, func() { cancel(e) }).Stop
	}
	return ctx, func(cause error) {
		timer()
		unlink()
		cancel(cause)
	}
}

// delivery takes an answer to its client.
type delivery struct {
	*answer
	asked   *openai.Request
	longest time.Duration           // that the client may take to read a text
	end     context.CancelCauseFunc // of the request's context
	stream  *stream                 // nil until the first line
}

// line streams an event of one line. The headers go out with the first event, so that an earlier error still sets the
// status.
func (d *delivery) line(b []byte) error {
	if d.stream == nil {
		d.pause = d.longest
		d.stream = startStream(d.answer, func() { d.end(errGone) })
	}
	return d.stream.send(b)
}

// deliver sends what is left of the answer once the turn is over: a slow reader does not delay others.
func (d *delivery) deliver(rest [][]byte) error {
	if !d.asked.Streams() {
		if d.asked.Endpoint != openai.Embeddings {
			d.pause = d.longest
		}
		return d.writeBody(http.StatusOK, rest[0])
	}
	for _, b := range rest {
		if err := d.line(b); err != nil {
			return err
		}
	}
	return nil
}

// finish waits until the client has taken the stream, if there is one.
func (d *delivery) finish(err error) error {
	if d.stream == nil || d.stream.end() == nil {
		return err
	}
	return errGone
}
