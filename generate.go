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

	// Policy names a drafter (none, chain, eagle2, static, sampled, ngram, ngram-simple,
	// ngram-map, auto) or a method of Methods, which is a drafter with what adapts and
	// verifies it. The fields after it override a method's own.
	Policy   string `json:"policy"`
	Adapt    string `json:"adapt,omitempty"`  // what adapts the draft, see spec.Config; "" is the method's
	Source   string `json:"source,omitempty"` // model or eagle3; "" is the method's
	Verifier string `json:"verifier"`         // "" is the method's, mostly match
	Depth    int    `json:"depth"`            // chain and n-grams: tokens a round; trees: levels after the first
	TopK     int    `json:"top_k"`            // trees: beams, and candidates of each
	Nodes    int    `json:"nodes"`            // eagle2: nodes verified, the root included
	// Shape is a static or sampled tree's, NgramMax and NgramMin the lookups' (spec.Config).
	Shape    [][]int `json:"shape,omitempty"`
	NgramMax int     `json:"ngram_max,omitempty"`
	NgramMin int     `json:"ngram_min,omitempty"`
	// Coupled ranks drafted tokens with the target's own noise above temperature 0; on unless false.
	Coupled *bool `json:"coupled"`
	spec.Knobs
	// Aids stand in for those of the session where they are set: a benchmark compares
	// calibrations and classifiers with them.
	Aids spec.Aids `json:"-"`

	Stop []string `json:"stop"` // the text ends before the first of these

	// LogProbs has events tell the log-probability of each token, TopLogProbs those of the likeliest ones beside
	// it, at most Options.Candidates. They are of the target's softmax at temperature 1, of
	// the logits as the constraints changed them.
	LogProbs    bool `json:"logprobs,omitempty"`
	TopLogProbs int  `json:"top_logprobs,omitempty"`

	Constraints

	// NoReuse has the models begin anew. Otherwise they keep what their caches hold of earlier
	// requests, as far as this prompt begins alike. The text is the same either way, bit for
	// bit; what differs is the time to the first token.
	NoReuse bool `json:"no_reuse,omitempty"`
}

// DefaultRequest is the page's and the command line's: whatever pays, greedy.
func DefaultRequest() Request {
	return Request{MaxTokens: 64, Seed: 1, Policy: spec.DrafterAuto}
}

// config is the request's as package spec names it.
func (r *Request) config() spec.Config {
	c := methodConfig(r.Policy)
	for _, f := range []struct {
		to    *string
		value string
	}{{&c.Adapt, r.Adapt}, {&c.Source, r.Source}, {&c.Verifier, r.Verifier}} {
		if f.value != "" {
			*f.to = f.value
		}
	}
	for _, f := range []struct {
		to    *int
		value int
	}{{&c.Depth, r.Depth}, {&c.TopK, r.TopK}, {&c.Nodes, r.Nodes}, {&c.NgramMax, r.NgramMax}, {&c.NgramMin, r.NgramMin}} {
		if f.value != 0 {
			*f.to = f.value
		}
	}
	if len(r.Shape) > 0 {
		c.Shape = r.Shape
	}
	c.Uncoupled = r.Coupled != nil && !*r.Coupled
	c.Knobs = r.Knobs
	return c
}

// Validate refuses a request whose settings do not go together, as far as that can be
// told without the models and what was fitted to them.
func (r *Request) Validate() error {
	c := r.config()
	c.Aids = anyAids
	if err := c.Validate(); err != nil {
		return err
	}
	if r.TopLogProbs < 0 || r.TopLogProbs > 0 && !r.LogProbs {
		return fmt.Errorf("foretoken: top_logprobs is %d; it needs logprobs and cannot be negative", r.TopLogProbs)
	}
	return r.Constraints.Validate()
}

// anyAids are there for checks that do not know the models yet.
var anyAids = spec.Aids{Hetero: &spec.HeteroCalibration{}, C2T: &spec.C2TClassifier{}, Head: true}

// NeedsDraft tells whether a session without a draft has to refuse the request.
func (r *Request) NeedsDraft() bool {
	c := r.config()
	return c.UsesDraftModel() && c.Source != spec.SourceEAGLE3
}

// NeedsHead tells whether a session without an EAGLE-3 head has to refuse the request.
func (r *Request) NeedsHead() bool {
	c := r.config()
	return c.UsesDraftModel() && c.Source == spec.SourceEAGLE3
}

// TellsLogProbs tells whether the verifier of a request of valid settings knows log-probabilities: rejection and
// without-replacement sampling keep their distributions on the device above temperature 0.
func (r *Request) TellsLogProbs() bool {
	c := r.config()
	return r.Temperature == 0 || c.Verifier != spec.VerifierRejection && c.Verifier != spec.VerifierWithoutReplacement
}

// Token is one committed token of an event.
type Token struct {
	ID    int32       `json:"id"`
	Text  string      `json:"text"` // what became certain with it; all of them joined are the text
	Kind  spec.Origin `json:"kind"`
	Depth int         `json:"depth"` // in the tree; 0 for tokens that were not drafted
	// Piece, the token's own text, LogProb and Top are there where the request asked for log-probabilities. Top
	// has the likeliest first.
	Piece   string      `json:"piece,omitempty"`
	LogProb *float32    `json:"logprob,omitempty"`
	Top     []TokenProb `json:"top,omitempty"`
}

// TokenProb is a token that might have come.
type TokenProb struct {
	ID      int32   `json:"id"`
	Text    string  `json:"text"` // bytes that are no UTF-8 by themselves are U+FFFD
	LogProb float32 `json:"logprob"`
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
		return nil, ofKind(ErrRequest, fmt.Errorf("foretoken: the prompt is empty and the model has no token to begin with"))
	}
	return s.GenerateIDs(ctx, ids, r, emit)
}

// GenerateIDs is Generate for a prompt that is tokens already.
func (s *Session) GenerateIDs(ctx context.Context, ids []int32, r Request, emit func(*Event) error) (*Result, error) {
	if most := s.target.Limits().Context; len(ids) > most {
		return nil, ofKind(ErrContextFull, fmt.Errorf("foretoken: the prompt has %d tokens, but the context holds %d; shorten it, or open the models with a longer context", len(ids), most))
	}
	s.warming.mu.Lock()
	defer s.warming.mu.Unlock()
	g, guide, wait, err := s.prepareLasting(ctx, &r)
	if err != nil && spec.Cancelled(ctx, err) { // while it waited for what it needs
		out := &Result{PromptIDs: ids, TokenIDs: []int32{}, Finish: spec.FinishAborted, Stats: spec.Stats{Requests: 1, PromptTokens: len(ids), Finish: spec.FinishAborted}}
		if emit != nil {
			if err := emit(&Event{Round: &spec.Event{Finish: out.Finish, Stats: &out.Stats}}); err != nil {
				return nil, err
			}
		}
		return out, nil
	}
	if err != nil {
		return nil, err
	}
	if r.NoReuse {
		s.forget()
	}
	text := newWriter(s.tok.NewStream(ids), r.Stop)
	text.guide = guide
	out := &Result{PromptIDs: ids, TokenIDs: []int32{}}
	var all strings.Builder
	options := spec.Options{Sampling: spec.Sampling{Temperature: r.Temperature, TopK: r.SampleTopK, TopP: r.TopP, MinP: r.MinP, Seed: r.Seed},
		MaxTokens: r.MaxTokens, EOS: s.endIDs(), Cut: text.cut, LogProbs: r.LogProbs, Ready: wait.asked(), Recover: s.recovery(&r, wait)}
	if guide != nil {
		options.Guide = guide
	}
	var event Event
	out.Stats, err = g.Generate(ctx, ids, options, func(e *spec.Event) error {
		pieces := text.take(e.Finish != "" && (e.Finish != spec.FinishStop || text.whole))
		event = Event{Tokens: event.Tokens[:0], Round: e}
		for i, id := range e.Tokens {
			depth := 0
			if e.Origins[i] == spec.Accepted || e.Origins[i] == spec.Relaxed {
				depth = i + 1
			}
			token := Token{ID: id, Text: pieces[i], Kind: e.Origins[i], Depth: depth}
			if r.LogProbs {
				s.tell(&token, e, i, r.TopLogProbs)
			}
			event.Tokens = append(event.Tokens, token)
			event.Text += pieces[i]
		}
		if len(e.Tokens) == 0 && len(pieces) > 0 { // a closing event: what was held back
			event.Text = pieces[len(pieces)-1]
		}
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
	out.Text = all.String()
	return out, nil
}

// prepareLasting is prepare on a device that may be lost meanwhile.
func (s *Session) prepareLasting(ctx context.Context, r *Request) (g *spec.Generator, guide *guide, wait *wait, err error) {
	if err := s.whole(ctx); err != nil {
		return nil, nil, nil, err
	}
	asked := *r
	work := func() (err error) {
		*r = asked
		if g, guide, wait, err = s.prepare(ctx, r); err != nil && !s.lostBy(err) {
			err = ofKind(ErrRequest, err)
		}
		return err
	}
	return g, guide, wait, s.lasting(ctx, work(), work)
}

// prepare makes what a request runs with, or refuses it.
func (s *Session) prepare(ctx context.Context, r *Request) (g *spec.Generator, guide *guide, wait *wait, err error) {
	if g, wait, err = s.assemble(ctx, r); err != nil {
		return nil, nil, nil, err
	}
	if r.MaxTokens < 0 {
		return nil, nil, nil, fmt.Errorf("foretoken: max_tokens is %d, want 0 (no limit) or more", r.MaxTokens)
	}
	for i, stop := range r.Stop {
		if stop == "" {
			return nil, nil, nil, fmt.Errorf("foretoken: stop string %d is empty", i)
		}
	}
	if r.LogProbs && !r.TellsLogProbs() {
		return nil, nil, nil, fmt.Errorf("foretoken: the verifier of policy %s leaves its distributions on the device; for log-probabilities use a method that verifies by match, or temperature 0", r.Policy)
	}
	if most := s.target.Limits().TopK; r.TopLogProbs > most {
		return nil, nil, nil, fmt.Errorf("foretoken: top_logprobs is %d, and the session was opened with %d candidates a position", r.TopLogProbs, most)
	}
	guide, err = s.newGuide(r.Constraints)
	return g, guide, wait, err
}

// tell adds the log-probabilities of a round's ith token and of the n likeliest ones in its place.
func (s *Session) tell(t *Token, e *spec.Event, i, n int) {
	text := func(id int32) string {
		if s.tok.Special(id) {
			return s.tok.TokenText(id)
		}
		return strings.ToValidUTF8(string(s.tok.Piece(id)), "\ufffd")
	}
	p, said := e.LogProbs[i], &e.Outputs[e.Path[i]]
	t.LogProb, t.Piece = &p, text(t.ID)
	for k := range n {
		t.Top = append(t.Top, TokenProb{said.TopIDs[k], text(said.TopIDs[k]), said.TopLogits[k] - said.LogSumExp})
	}
}

// forget has the next request find nothing of earlier ones.
func (s *Session) forget() {
	s.target.Reset()
	if s.draft != nil {
		s.draft.Reset()
	}
	if s.head != nil {
		s.head.Reset()
	}
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
