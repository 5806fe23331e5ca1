package foretoken

import (
	"context"
	"fmt"
	"strings"

	"foretoken/models/llama"
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
		return nil, refused("foretoken: the prompt is empty and the model has no token to begin with")
	}
	return s.GenerateIDs(ctx, ids, r, emit)
}

// encode tokenises a text. One that cannot have as few tokens as the context holds is refused before that.
func (s *Session) encode(ctx context.Context, what, text string, o tokenizer.EncodeOptions) ([]int32, error) {
	if most, least := s.target.Limits().Context, s.tok.Least(len(text), o.Special); least > most {
		return nil, ofKind(ErrContextFull, fmt.Errorf("foretoken: the %s has %d bytes, which are at least %d tokens, "+
			"but the context holds %d; shorten it, or open the models with a longer context", what, len(text), least,
			most))
	}
	o.Yield = yieldOf(ctx)
	return s.tok.EncodeWith(text, o)
}

// GenerateIDs is Generate for a tokenised prompt.
func (s *Session) GenerateIDs(ctx context.Context, ids []int32, r Request, emit func(*Event) error) (*Result, error) {
	if most := s.target.Limits().Context; len(ids) > most {
		return nil, ofKind(ErrContextFull, fmt.Errorf("foretoken: the prompt has %d tokens, but the context holds %d; "+
			"shorten it, or open the models with a longer context", len(ids), most))
	}
	s.lock()
	defer s.mu.Unlock()
	return s.generate(ctx, ids, r, emit)
}

// generate is GenerateIDs for a prompt that the context holds. The caller holds s.mu.
func (s *Session) generate(ctx context.Context, ids []int32, r Request, emit func(*Event) error) (*Result, error) {
	j, err := s.newJob(ctx, &r)
	switch {
	case err != nil && spec.Cancelled(ctx, err):
		return aborted(ids, emit)
	case err != nil:
		return nil, err
	}
	if r.NoReuse || r.Owner != s.owner {
		s.models().Reset()
	}
	if r.Owner != s.owner {
		s.owner, s.adasd = r.Owner, adapt.AdaSDRecords{}
	}
	text := &writer{stream: s.tok.NewStream(ids), stops: r.Stop, until: r.Until, guide: j.guide}
	options := spec.Options{Sampling: r.Sampling(), MaxTokens: r.MaxTokens,
		EOS: append(s.endIDs(), r.StopTokenIDs...), Cut: text.cut, LogProbs: r.LogProbs,
		Recover: j.recover}
	if j.guide != nil {
		options.Guide = j.guide
	}
	out := &Result{PromptIDs: ids, TokenIDs: []int32{}}
	var all strings.Builder
	var event Event
	before := ""
	if r.Echo {
		before = s.tok.Decode(ids)
	}
	out.Stats, err = j.generator.Generate(ctx, ids, options, func(e *spec.Event) error {
		e.Stats.Guessed = j.guesses
		s.describe(&event, e, text, &r)
		event.Text, before = before+event.Text, ""
		if len(e.Tokens) > 0 {
			s.losses = 0
		}
		all.WriteString(event.Text)
		out.TokenIDs = append(out.TokenIDs, e.Tokens...)
		out.Finish = e.Finish
		if emit == nil {
			return nil
		}
		return emit(&event)
	})
	if err != nil {
		return nil, err
	}
	out.Text, out.Unchecked = all.String(), j.guide.unchecked()
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
func (s *Session) describe(event *Event, e *spec.Event, text *writer, r *Request) {
	pieces := text.take(e.Finish != "" && (e.Finish != spec.FinishStop || text.complete))
	*event = Event{Tokens: event.Tokens[:0], Round: e}
	for i, id := range e.Tokens {
		depth := 0
		if e.Origins[i] == spec.Accepted || e.Origins[i] == spec.Relaxed {
			depth = i + 1
		}
		token := Token{ID: id, Text: pieces[i], Kind: e.Origins[i], Depth: depth}
		if r.LogProbs {
			s.addLogProbs(&token, e, i, r.TopLogProbs)
		}
		event.Tokens = append(event.Tokens, token)
		event.Text += pieces[i]
	}
	if len(e.Tokens) == 0 && len(pieces) > 0 { // a closing event: the text that was held back
		event.Text = pieces[len(pieces)-1]
	}
}

// addLogProbs adds the log-probabilities of the i-th token of a round and of the n likeliest tokens at its position.
func (s *Session) addLogProbs(t *Token, e *spec.Event, i, n int) {
	text := func(id int32) string {
		if s.tok.Special(id) {
			return s.tok.TokenText(id)
		}
		return strings.ToValidUTF8(string(s.tok.Piece(id)), "\ufffd")
	}
	p, out := e.LogProbs[i], &e.Outputs[e.Path[i]]
	t.LogProb, t.Piece = &p, text(t.ID)
	for k := range n {
		t.Top = append(t.Top, TokenProb{out.TopIDs[k], text(out.TopIDs[k]), out.TopLogits[k] - out.LogSumExp})
	}
}

func (s *Session) endIDs() []int32 {
	var ids []int32
	for id := range int32(s.tok.VocabSize()) {
		if s.tok.EOG(id) {
			ids = append(ids, id)
		}
	}
	return ids
}

var _ spec.DraftModel = (*llama.Draft)(nil)

// writer turns committed tokens into text: complete characters only, and no text from the start of a stop string on. It
// holds text back that may still become a stop string.
type writer struct {
	stream   *tokenizer.Stream
	stops    []string
	until    func(text string) bool // nil without
	guide    *guide                 // nil without constraints
	complete bool                   // the text ended because its grammar allows no continuation
	held     string                 // may still become a stop string
	pieces   []string               // of the tokens since take
}

// cut is the callback for spec.Options.Cut: it writes the tokens up to the one that completes a stop string, after
// which the grammar allows no continuation, or that ends the text.
func (w *writer) cut(tokens []int32) (n int, stop bool) {
	end := w.guide.complete(tokens)
	if end > 0 {
		tokens = tokens[:end]
	}
	n, stop = w.write(tokens)
	if w.complete = end > 0 && !stop; w.complete {
		return end, true
	}
	return n, stop
}

func (w *writer) write(tokens []int32) (n int, stop bool) {
	w.pieces = w.pieces[:0]
	for i, id := range tokens {
		w.held += w.stream.Push(id)
		if at := w.find(); at >= 0 {
			w.pieces = append(w.pieces, w.held[:at])
			w.held = ""
			return i + 1, true
		}
		safe := len(w.held) - w.partial()
		w.pieces = append(w.pieces, w.held[:safe])
		w.held = w.held[safe:]
		if w.until != nil && w.until(w.pieces[i]) {
			w.held = ""
			return i + 1, true
		}
	}
	return len(tokens), false
}

// find returns the position of the first stop string in the held text, or -1.
func (w *writer) find() int {
	first := -1
	for _, s := range w.stops {
		if at := strings.Index(w.held, s); at >= 0 && (first < 0 || at < first) {
			first = at
		}
	}
	return first
}

// partial returns the length of the longest suffix of the held text that begins a stop string.
func (w *writer) partial() int {
	longest := 0
	for _, s := range w.stops {
		for n := min(len(s)-1, len(w.held)); n > longest; n-- {
			if strings.HasSuffix(w.held, s[:n]) {
				longest = n
			}
		}
	}
	return longest
}

// take returns the pieces of the tokens last written. At the end of the text the held text joins the last one.
func (w *writer) take(end bool) []string {
	pieces := w.pieces
	w.pieces = w.pieces[len(w.pieces):]
	if end {
		if len(pieces) == 0 {
			pieces = append(pieces, "")
		}
		pieces[len(pieces)-1] += w.held + w.stream.Flush()
		w.held = ""
	}
	return pieces
}
