package foretoken

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"foretoken/internal/kind"
	"foretoken/models/constrain"
	"foretoken/models/tokenizer"
	"foretoken/spec"
	"foretoken/spec/adapt"
)

// Generate continues a prompt and calls emit, which may be nil, once per round. Cancelling ctx ends it within one
// round; the result then has the finish "aborted" and the text so far.
func (s *Session) Generate(ctx context.Context, prompt string, r Request, emit func(*Event) error) (*Result, error) {
	ids, err := s.encode(ctx, "prompt", prompt, tokenizer.EncodeOptions{Begin: true})
	switch {
	case err != nil && ctx.Err() != nil: // before there was a prompt
		return aborted([]int32{}, emit)
	case err != nil:
		return nil, err
	case len(ids) == 0:
		return nil, kind.Refuse("foretoken: the prompt is empty and the model has no token to begin with")
	}
	return s.GenerateIDs(ctx, ids, r, emit)
}

// encode tokenises a text. One that cannot have as few tokens as the context holds is refused before that.
func (s *Session) encode(ctx context.Context, what, text string, o tokenizer.EncodeOptions) ([]int32, error) {
	if most, least := s.limits.Context, s.tok.Least(len(text), o.Special); least > most {
		return nil, kind.Of(ErrContextFull, fmt.Errorf("foretoken: the %s has %d bytes, which are at least %d tokens, "+
			"but the context holds %d; shorten it, or open the models with a longer context", what, len(text), least,
			most))
	}
	o.Yield = yieldOf(ctx)
	return s.tok.EncodeWith(text, o)
}

// GenerateIDs is Generate for a tokenised prompt.
func (s *Session) GenerateIDs(ctx context.Context, ids []int32, r Request, emit func(*Event) error) (*Result, error) {
	if most := s.limits.Context; len(ids) > most {
		return nil, kind.Of(ErrContextFull, fmt.Errorf("foretoken: the prompt has %d tokens, but the context holds "+
			"%d; shorten it, or open the models with a longer context", len(ids), most))
	}
	s.turn.Lock()
	defer s.turn.Unlock()
	return s.generate(ctx, ids, r, emit)
}

// generate is GenerateIDs for a prompt that the context holds. The caller has the session's turn.
func (s *Session) generate(ctx context.Context, ids []int32, r Request, emit func(*Event) error) (*Result, error) {
	j, err := s.newJob(ctx, &r)
	switch {
	case err != nil && spec.Cancelled(ctx, err):
		return aborted(ids, emit)
	case err != nil:
		return nil, err
	}
	if r.NoReuse || r.Owner != s.owner {
		s.pair.Reset()
	}
	if r.Owner != s.owner {
		s.owner, s.adasd = r.Owner, adapt.AdaSDRecords{}
		clear(s.times[:])
	}
	text := s.tok.NewWriter(ids, tokenizer.Ends{Stops: r.Stop, Include: r.IncludeStop, Until: r.Until})
	options := spec.Options{Sampling: r.Sampling(), MaxTokens: r.MaxTokens,
		EOS: append(s.tok.EndIDs(), r.StopTokenIDs...), LogProbs: r.LogProbs,
		Recover: func(ctx context.Context, cause error) error { return s.recover(ctx, cause, j) }}
	options.Cut = func(tokens []int32) (n int, stop bool) {
		n, complete := j.constraint.Complete(tokens)
		n, stop = text.Write(tokens[:n])
		return n, stop || complete
	}
	if j.constraint != nil {
		options.Constraint = j.constraint
	}
	out := &Result{PromptIDs: ids, TokenIDs: []int32{}}
	var all strings.Builder
	var event Event
	before := ""
	if r.Echo {
		before = s.tok.Decode(ids)
	}
	out.Stats, err = j.generator.Generate(ctx, ids, options, func(e *spec.Event) error {
		e.Stats.Guessed = j.guessed
		describe(&event, e, text, &r, s.tok)
		event.Text, before = before+event.Text, ""
		if len(e.Tokens) > 0 {
			s.pair.Progressed()
		}
		all.WriteString(event.Text)
		out.TokenIDs = append(out.TokenIDs, e.Tokens...)
		out.Finish = e.Finish
		if emit == nil {
			return nil
		}
		return emit(&event)
	})
	if refusal := (*constrain.Error)(nil); errors.As(err, &refusal) {
		err = kind.Of(ErrRequest, err)
	}
	if err != nil {
		return nil, err
	}
	out.Text, out.Unchecked = all.String(), j.constraint.Unchecked()
	return out, nil
}

// aborted returns the result of a request that was cancelled before its first round.
func aborted(ids []int32, emit func(*Event) error) (*Result, error) {
	stats := spec.Stats{Requests: 1, PromptTokens: len(ids), Finish: spec.FinishAborted}
	out := &Result{PromptIDs: ids, TokenIDs: []int32{}, Finish: stats.Finish, Stats: stats}
	if emit == nil {
		return out, nil
	}
	if err := emit(&Event{Round: &spec.Event{Finish: out.Finish, Stats: &out.Stats}}); err != nil {
		return nil, err
	}
	return out, nil
}

// describe fills event with the round e: its tokens, their text and, if the request asks for them, log-probabilities.
func describe(event *Event, e *spec.Event, text *tokenizer.Writer, r *Request, tok *tokenizer.Tokenizer) {
	pieces := text.Take(e.Finish != "")
	*event = Event{Tokens: event.Tokens[:0], Round: e}
	for i, id := range e.Tokens {
		depth := 0
		if e.Origins[i] == spec.Accepted || e.Origins[i] == spec.Relaxed {
			depth = i + 1
		}
		token := Token{ID: id, Text: pieces[i], Kind: e.Origins[i], Depth: depth}
		if r.LogProbs {
			token.addLogProbs(e, i, r.TopLogProbs, tok)
		}
		event.Tokens = append(event.Tokens, token)
		event.Text += pieces[i]
	}
	if len(e.Tokens) == 0 && len(pieces) > 0 { // a closing event: the text that was held back
		event.Text = pieces[len(pieces)-1]
	}
}

// addLogProbs adds the log-probabilities of the i-th token of a round and of the n likeliest tokens at its position.
func (t *Token) addLogProbs(e *spec.Event, i, n int, tok *tokenizer.Tokenizer) {
	text := func(id int32) string {
		if tok.Special(id) {
			return tok.TokenText(id)
		}
		return strings.ToValidUTF8(string(tok.Piece(id)), "\ufffd")
	}
	p, out := e.LogProbs[i], &e.Outputs[e.Path[i]]
	t.LogProb, t.Piece = &p, text(t.ID)
	for k := range n {
		t.Top = append(t.Top, TokenProb{out.TopIDs[k], text(out.TopIDs[k]), out.TopLogits[k] - out.LogSumExp})
	}
}
