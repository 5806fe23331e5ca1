package foretoken

import (
	"context"
	"fmt"
	"strings"

	"foretoken/models/llama"
	"foretoken/spec"
)

// Request is what to generate and how.
type Request struct {
	MaxTokens   int     `json:"max_tokens"` // 0: until the context is full
	Temperature float64 `json:"temperature"`
	Seed        uint64  `json:"seed"`
	SampleTopK  int     `json:"top_k_sampling"` // sampling's top-k, 0: off
	TopP        float64 `json:"top_p"`          // 0 or 1: off
	MinP        float64 `json:"min_p"`          // 0: off

	Policy   string `json:"policy"`   // none, chain, eagle2, ngram or ngram-simple
	Depth    int    `json:"depth"`    // chain and n-grams: tokens a round; eagle2: levels after the first
	TopK     int    `json:"top_k"`    // eagle2: beams, and candidates of each
	Nodes    int    `json:"nodes"`    // eagle2: nodes verified, the root included
	Verifier string `json:"verifier"` // match or rejection; "" is match
	// Coupled ranks drafted tokens with the target's own noise above temperature 0; on unless false.
	Coupled *bool `json:"coupled"`

	Stop []string `json:"stop"` // the text ends before the first of these
}

// DefaultRequest is the page's and the command line's: a tree of 16 nodes, greedy.
func DefaultRequest() Request {
	return Request{MaxTokens: 64, Seed: 1, Policy: spec.DrafterEAGLE2, Depth: 4, TopK: 4, Nodes: 16, Verifier: spec.VerifierMatch}
}

// config is the request's as package spec names it.
func (r *Request) config() spec.Config {
	c := spec.DefaultConfig(r.Policy)
	c.Verifier = r.Verifier
	if r.Depth != 0 {
		c.Depth = r.Depth
	}
	if r.TopK != 0 {
		c.TopK = r.TopK
	}
	if r.Nodes != 0 {
		c.Nodes = r.Nodes
	}
	c.Uncoupled = r.Coupled != nil && !*r.Coupled
	return c
}

// Token is one committed token of an event.
type Token struct {
	ID    int32       `json:"id"`
	Text  string      `json:"text"` // what became certain with it; all of them joined are the text
	Kind  spec.Origin `json:"kind"`
	Depth int         `json:"depth"` // in the tree; 0 for tokens that were not drafted
}

// Event is one round. Round is valid until the function that receives it returns.
type Event struct {
	Tokens []Token
	Text   string
	Round  *spec.Event
}

// Result is a finished request.
type Result struct {
	Text      string      `json:"text"`
	PromptIDs []int32     `json:"prompt_ids"`
	TokenIDs  []int32     `json:"token_ids"`
	Finish    spec.Finish `json:"finish"`
	Stats     spec.Stats  `json:"stats"`
}

// Generate continues a prompt and calls emit, which may be nil, once a round.
// Cancelling ctx ends it within one round; the result then says "aborted" and
// holds what there is.
func (s *Session) Generate(ctx context.Context, prompt string, r Request, emit func(*Event) error) (*Result, error) {
	ids := s.tok.Encode(prompt, true)
	if len(ids) == 0 {
		return nil, fmt.Errorf("foretoken: the prompt is empty and the model has no token to begin with")
	}
	return s.GenerateIDs(ctx, ids, r, emit)
}

// GenerateIDs is Generate for a prompt that is tokens already.
func (s *Session) GenerateIDs(ctx context.Context, ids []int32, r Request, emit func(*Event) error) (*Result, error) {
	g, err := s.generator(&r)
	if err != nil {
		return nil, err
	}
	for i, stop := range r.Stop {
		if stop == "" {
			return nil, fmt.Errorf("foretoken: stop string %d is empty", i)
		}
	}
	text := newWriter(s.tok.NewStream(ids), r.Stop)
	out := &Result{PromptIDs: ids, TokenIDs: []int32{}}
	var all strings.Builder
	options := spec.Options{Sampling: spec.Sampling{Temperature: r.Temperature, TopK: r.SampleTopK, TopP: r.TopP, MinP: r.MinP, Seed: r.Seed},
		MaxTokens: r.MaxTokens, EOS: s.endIDs(), Cut: text.cut}
	var event Event
	out.Stats, err = g.Generate(ctx, ids, options, func(e *spec.Event) error {
		pieces := text.take(e.Finish != "" && e.Finish != spec.FinishStop)
		event = Event{Tokens: event.Tokens[:0], Round: e}
		for i, id := range e.Tokens {
			depth := 0
			if e.Origins[i] == spec.Accepted || e.Origins[i] == spec.Relaxed {
				depth = i + 1
			}
			event.Tokens = append(event.Tokens, Token{ID: id, Text: pieces[i], Kind: e.Origins[i], Depth: depth})
			event.Text += pieces[i]
		}
		if len(e.Tokens) == 0 && len(pieces) > 0 { // a closing event: what was held back
			event.Text = pieces[len(pieces)-1]
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
	out.Text = all.String()
	return out, nil
}

// generator builds the round loop of a request.
func (s *Session) generator(r *Request) (*spec.Generator, error) {
	c := r.config()
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if c.UsesDraftModel() && s.draft == nil {
		return nil, errNoDraft
	}
	if rows := c.Budget().Nodes; rows > 0 && rows <= s.target.Limits().MaxRows { // spec says what is wrong with more
		if err := s.target.Prepare(rows); err != nil {
			return nil, err
		}
	}
	if s.draft == nil {
		return spec.New(s.target, nil, c)
	}
	if b := c.Budget(); c.UsesDraftModel() && c.Verifier != spec.VerifierRejection && b.Levels > 0 {
		if err := s.draft.Prepare(b.Levels-1, b.Width); err != nil {
			return nil, err
		}
	}
	return spec.New(s.target, s.draft, c)
}

// endIDs are the ids that end a text.
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
