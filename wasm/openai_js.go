package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"foretoken"
	"foretoken/internal/quote"
	"foretoken/openai"
	"foretoken/spec"
	"foretoken/spec/method"

	"github.com/hack-pad/safejs"
)

// answered is the answer to a request of OpenAI's API.
type answered struct {
	Status int         `json:"status"`
	Body   string      `json:"body"`   // JSON; "" of a stream, whose lines were sent
	Policy string      `json:"policy"` // how it was drafted; "" of embeddings and errors
	Stats  *spec.Stats `json:"stats,omitempty"`
}

// newModel returns the model that answers such requests with a session that reports candidates tokens a position.
func newModel(s *foretoken.Session, candidates int) *openai.Model {
	info := s.Info()
	o := openai.Options{Model: quote.Escape(info.Target.Name, 200), AnyModel: true, Templates: true,
		Defaults: openai.DefaultRequest(), Candidates: cmp.Or(candidates, 2)} // what decoding needs
	if info.Draft == nil && o.Defaults.NeedsDraft() {
		o.Defaults.Policy = method.DrafterNone
	}
	return openai.NewModel(s, o)
}

// answer answers a request of OpenAI's API: (body JSON, path, onLine) → answered. What the request does wrong is an
// answer; an error of the machine rejects.
func (e *engine) answer(ctx context.Context, body []byte, args []safejs.Value) (any, error) {
	path, err := text(args, 1)
	if err != nil {
		return nil, err
	}
	if len(args) < 3 {
		return nil, errors.New("foretoken: openai: argument 3 must be a function")
	}
	endpoint, ok := openai.EndpointOf(path)
	if !ok {
		return nil, withCode("bad_option", fmt.Errorf("foretoken: openai: there is nothing at %s", quote.Name(path)))
	}
	done, streams, err := e.answerTo(ctx, endpoint, body, func(line []byte) error {
		_, err := args[2].Invoke(string(line))
		return err
	})
	if err != nil {
		if refusal := e.model.Refusal(err); refusal != nil {
			return answered{Status: refusal.Status, Body: string(refusal.Body())}, nil
		}
		return nil, err
	}
	e.keepCosts()
	out := answered{Status: openai.StatusOK, Policy: done.Policy}
	if endpoint != openai.Embeddings {
		out.Stats = &done.Stats
	}
	if !streams {
		out.Body = string(done.Rest[0])
	}
	return out, nil
}

func (e *engine) answerTo(ctx context.Context, endpoint openai.Endpoint, body []byte, send func(line []byte) error) (
	done *openai.Answer, streams bool, err error) {
	q, refusal := openai.Parse(body, endpoint, &e.model.Options)
	if refusal == nil {
		refusal = e.model.Check(q)
	}
	if refusal != nil {
		return nil, false, refusal
	}
	alone := func() error { return context.Cause(ctx) } // the page gives one request at a time its turn
	ids, err := e.model.Tokens(q, alone)
	if err != nil {
		return nil, false, err
	}
	done, err = e.model.Answer(ctx, q, ids, openai.Host{Yield: alone, Send: send,
		Waited: func() time.Duration { return 0 }})
	if err != nil {
		return nil, false, err
	}
	if q.Streams() {
		for _, line := range done.Rest {
			if err := send(line); err != nil {
				return nil, true, err
			}
		}
	}
	return done, q.Streams(), nil
}
