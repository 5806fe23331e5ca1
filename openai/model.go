// Package openai translates OpenAI's API: a request's bytes into what the engine decodes, and what it decodes into the
// bytes of the answer. The server (cmd/foretoken/serve) and the page (wasm) answer with it. It knows nothing of HTTP,
// queues and connections: net/http alone would add a sixth to the page's program.
//
// A request takes four steps: Parse reads it, Model.Check compares it with what is loaded, Model.Tokens tokenises its
// texts, and Model.Answer decodes.
package openai

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"

	"foretoken"
	"foretoken/internal/public"
	"foretoken/models/graph"
	"foretoken/models/tokenizer"
)

// Engine decodes: a foretoken.Session. Its caller makes one call of GenerateIDs or EmbedIDs at a time. The other
// methods may be called while it decodes.
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

// Options say what a host makes of requests.
type Options struct {
	Model      string            // the name that requests give
	AnyModel   bool              // requests may name any model, or none
	Template   string            // chat template; "": the one in the target's file
	Templates  bool              // requests may bring their own chat template
	Defaults   foretoken.Request // values of fields that a request omits
	Seeded     bool              // Defaults.Seed is meant; otherwise each request draws a seed
	Candidates int               // likeliest tokens that the session reports per position; 0: none
}

// DefaultRequest returns the API's defaults.
func DefaultRequest() foretoken.Request {
	r := foretoken.DefaultRequest()
	r.Temperature, r.MaxTokens = 1, 0
	return r
}

// Model is an engine with what requests need to know of it. The engine's own Info may change while it reopens a lost
// device.
type Model struct {
	Options
	Info foretoken.Info // without the folders of files

	engine      Engine
	fingerprint string
	files       map[string]string // what clients are told of them; errors name a file before a colon
}

// NewModel returns the model that answers with an engine.
func NewModel(e Engine, o Options) *Model {
	m := &Model{engine: e, Options: o, Info: e.Info(), files: e.Files()}
	info := &m.Info
	info.Target.File = filepath.Base(info.Target.File) // clients need no folders
	for _, i := range []**graph.Info{&info.Draft, &info.EAGLE3} {
		if *i != nil {
			own := **i // the session keeps its own
			own.File = filepath.Base(own.File)
			*i = &own
		}
	}
	b, err := json.Marshal([]any{info.Target, info.Device.Backend, info.Device.Adapter, info.Device.Driver})
	if err != nil {
		panic(err) // they are strings and numbers
	}
	sum := sha256.Sum256(b)
	m.fingerprint = "fp_" + hex.EncodeToString(sum[:5])
	return m
}

// told is the text of an error for clients, without the names of packages and of the machine's files.
func (m *Model) told(err error) string {
	text := ": " + public.Message(err)
	for name, role := range m.files {
		text = strings.ReplaceAll(text, ": "+name+": ", ": "+role+": ")
	}
	return text[2:]
}

// NewID returns an id of 96 random bits behind a prefix, such as "chatcmpl-".
func NewID(prefix string) string {
	return fmt.Sprintf("%s%016x%08x", prefix, rand.Uint64(), rand.Uint32())
}

// Check refuses requests beyond the loaded models.
func (m *Model) Check(a *Request) *Error {
	info, candidates := &m.Info, m.Candidates
	if a.model != m.Model {
		return NoModel(a.model, m.Model)
	}
	name := "logprobs"
	if a.Endpoint == ChatCompletions && a.top > 0 {
		name = "top_logprobs"
	}
	s := &a.settings
	if width := info.Target.Width; a.width != 0 && a.width != width {
		return unsupported("dimensions", "dimensions is %d, and the model's embeddings have %d; leave it out", a.width,
			width)
	}
	for id := range s.LogitBias {
		if id < 0 || int(id) >= info.Target.Vocab {
			return invalid("logit_bias", "logit_bias names token %d; want 0 to %d", id, info.Target.Vocab-1)
		}
	}
	for _, id := range s.StopTokenIDs {
		if id < 0 || int(id) >= info.Target.Vocab {
			return invalid("stop_token_ids", "stop_token_ids names token %d; want 0 to %d", id, info.Target.Vocab-1)
		}
	}
	switch {
	case s.NeedsHead() && info.EAGLE3 == nil:
		return invalid("foretoken", "policy %s drafts with an EAGLE-3 head, and none is loaded; give one with "+
			"--eagle3, or in JavaScript eagle3", s.Policy)
	case s.NeedsDraft() && info.Draft == nil:
		return invalid("foretoken", "policy %s needs a draft model, and none is loaded; use none, auto or an n-gram "+
			"policy", s.Policy)
	case a.top > candidates:
		return unsupported(name, "%s is %d, and the models were loaded to tell %d; load them with --top-logprobs %d, "+
			"or in JavaScript candidates", name, a.top, candidates, a.top)
	case a.top >= 0 && candidates == 0:
		return unsupported(name, "the models were loaded to tell no likelihoods; load them with --top-logprobs")
	case a.top >= 0 && !s.TellsLogProbs():
		return unsupported(name, "verifier of policy %s leaves its distributions on the device; "+
			"use a method that verifies by match, or temperature 0", s.Policy)
	}
	return nil
}
