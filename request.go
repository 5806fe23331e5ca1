package foretoken

import (
	"cmp"
	"math"
	"slices"

	"foretoken/models/constrain"
	"foretoken/models/tokenizer"
	"foretoken/spec"
	"foretoken/spec/adapt"
	"foretoken/spec/method"
)

// Request holds the settings of one generation.
type Request struct {
	MaxTokens   int      `json:"max_tokens"` // 0: until the context is full
	Temperature float64  `json:"temperature"`
	Seed        uint64   `json:"seed"`
	SampleTopK  int      `json:"top_k_sampling"`  // sampling's top-k, 0: off
	TopP        *float64 `json:"top_p,omitempty"` // nil or 1: off; 0: the likeliest token alone
	MinP        float64  `json:"min_p"`           // 0: off

	// Policy names a method of method.All, drafters among them. The following fields override the method's settings.
	Policy   string `json:"policy"`
	Adapt    string `json:"adapt,omitempty"`  // adapts the draft, see method.Config; "" is the method's
	Source   string `json:"source,omitempty"` // model or eagle3; "" is the method's
	Verifier string `json:"verifier"`         // "" is the method's, mostly match
	Depth    int    `json:"depth"`            // chain and n-grams: tokens a round; trees: levels after the first
	TopK     int    `json:"top_k"`            // trees: beams, and candidates of each
	Nodes    int    `json:"nodes"`            // eagle2: nodes verified, the root included
	// Shape is a static or sampled tree's, NgramMax and NgramMin the lookups' (method.Config).
	Shape    [][]int `json:"shape,omitempty"`
	NgramMax int     `json:"ngram_max,omitempty"`
	NgramMin int     `json:"ngram_min,omitempty"`
	// Coupled ranks drafted tokens with the target's own noise above temperature 0; on unless false.
	Coupled *bool `json:"coupled"`
	method.Settings
	// Fitted stands in for what the session has fitted, field by field: a benchmark compares calibrations and
	// classifiers with it.
	Fitted method.Fitted `json:"-"`

	Stop        []string `json:"stop"`                                 // the text ends before the first of these,
	IncludeStop bool     `json:"include_stop_str_in_output,omitempty"` // or after it
	// StopTokenIDs end the text like the model's own end-of-text tokens: the one that was drawn is part of the text.
	StopTokenIDs []int32 `json:"stop_token_ids,omitempty"`
	// Until, if not nil, gets the text of each token, and ends the answer after the token for which it returns true. It
	// does not get text that may still become a stop string.
	Until func(text string) bool `json:"-"`
	Echo  bool                   `json:"echo,omitempty"` // the text begins with the prompt's

	// LogProbs adds the log-probability of each token to events, TopLogProbs the log-probabilities of the likeliest
	// tokens at its position, at most Options.Candidates. They come from the target's softmax at temperature 1, after
	// the constraints changed the logits.
	LogProbs    bool `json:"logprobs,omitempty"`
	TopLogProbs int  `json:"top_logprobs,omitempty"`

	constrain.Constraints

	// NoReuse empties the KV caches first. Otherwise the models reuse the common prefix with earlier requests. The
	// text is the same either way, bit for bit; only the time to the first token differs.
	NoReuse bool `json:"no_reuse,omitempty"`
	// Owner names who asks. A request of another owner than the last one's finds nothing of it: neither the KV caches,
	// by which the time to the first token tells how a prompt of others begins, nor the thresholds of Carry.
	Owner string `json:"-"`
}

// Settings lists the settings of requests in the order of forms and help.
func Settings() []spec.Setting {
	return slices.Concat(method.Table(), spec.SamplingTable, outputTable, constrain.Table)
}

// outputTable has the settings that the session itself reads.
var outputTable = []spec.Setting{
	{Name: "max_tokens", Group: spec.GroupSampling, Help: "tokens to produce", Least: 1, Most: math.MaxInt32,
		Zero: "until the context is full", Label: "Max tokens"},
	{Name: "stop", Group: spec.GroupConstraints, Help: "end the text before this string"},
	{Name: "include_stop_str_in_output", Group: spec.GroupConstraints, Help: "end the text after the stop string"},
	{Name: "stop_token_ids", Group: spec.GroupConstraints, Help: "end the text after these tokens, such as 13,198"},
	{Name: "echo", Group: spec.GroupOutput, Flag: "-", Help: "begin the text with the prompt"},
	{Name: "logprobs", Group: spec.GroupOutput, Flag: "-", Help: "return the log-probability of each token"},
	{Name: "top_logprobs", Group: spec.GroupOutput, Flag: "-", Most: 20,
		Help: "with logprobs: return as many of the likeliest tokens at each position"},
	{Name: "no_reuse", Group: spec.GroupOutput, Object: true,
		Help: "prefill every prompt from its beginning, without reusing the cache of the one before; the text is " +
			"the same"},
}

// DefaultRequest is the page's and the command line's: whatever pays, greedy. It sets nothing of its method, because
// a request of the page that names another method keeps what it does not name.
func DefaultRequest() Request {
	return Request{MaxTokens: 64, Seed: 1, Policy: method.DrafterAuto}
}

// SetPolicy names another method, in its own settings.
func (r *Request) SetPolicy(name string) {
	for _, s := range method.Table() {
		if s.Unset == method.Own {
			s.In(r).SetZero()
		}
	}
	r.Policy = name
}

// Config returns the request's method and settings as package method names them.
func (r *Request) Config() method.Config {
	c := method.ByName(r.Policy)
	c.Adapt, c.Source, c.Verifier = cmp.Or(r.Adapt, c.Adapt), cmp.Or(r.Source, c.Source), cmp.Or(r.Verifier, c.Verifier)
	c.Depth, c.TopK, c.Nodes = cmp.Or(r.Depth, c.Depth), cmp.Or(r.TopK, c.TopK), cmp.Or(r.Nodes, c.Nodes)
	c.NgramMax, c.NgramMin = cmp.Or(r.NgramMax, c.NgramMax), cmp.Or(r.NgramMin, c.NgramMin)
	if len(r.Shape) > 0 {
		c.Shape = r.Shape
	}
	c.Uncoupled = r.Coupled != nil && !*r.Coupled
	c.Settings = r.Settings
	return c
}

// Validate refuses settings beyond their limits and settings that do not go together, as far as it can without the
// models and their calibrations. JavaScript, the command line and the endpoint call it.
func (r *Request) Validate() error {
	if err := r.validateNumbers(); err != nil {
		return err
	}
	return r.Constraints.Validate()
}

// validateNumbers is Validate without the constraints, whose grammar may take long to read.
func (r *Request) validateNumbers() error {
	c := r.Config()
	c.Fitted = anyFitted
	if err := cmp.Or(spec.CheckName("policy", r.Policy, method.Names()), c.Validate(),
		spec.CheckSettings(spec.SamplingTable, r), spec.CheckSettings(outputTable, r)); err != nil {
		return err
	}
	if r.TopLogProbs > 0 && !r.LogProbs {
		return spec.Refuse("top_logprobs", "is given without logprobs; set logprobs to true")
	}
	if len(r.Stop) > tokenizer.MaxStops {
		return spec.Refuse("stop", "has %d strings, want at most %d", len(r.Stop), tokenizer.MaxStops)
	}
	if n := len(r.StopTokenIDs); n > mostStopIDs {
		return spec.Refuse("stop_token_ids", "has %d tokens, want at most %d", n, mostStopIDs)
	}
	for i, stop := range r.Stop {
		if stop == "" {
			return spec.Refuse("stop", "has an empty string at %d: every text would end at once", i)
		}
		if len(stop) > tokenizer.MaxStopBytes {
			return spec.Refuse("stop", "has a string of %d bytes at %d, want at most %d", len(stop), i,
				tokenizer.MaxStopBytes)
		}
	}
	return nil
}

// mostStopIDs bounds the tokens that every token is compared with.
const mostStopIDs = 1024

// anyFitted passes checks that run before the models are loaded.
var anyFitted = method.Fitted{Hetero: &adapt.HeteroCalibration{}, C2T: &adapt.C2TClassifier{},
	Head: &adapt.AcceptanceHead{}}

// Sampling returns the settings that tokens are drawn with. A top_p of 0 is greedy: the likeliest token is the smallest
// set that has any probability.
func (r *Request) Sampling() spec.Sampling {
	s := spec.Sampling{Temperature: r.Temperature, TopK: r.SampleTopK, MinP: r.MinP, Seed: r.Seed}
	if r.TopP != nil {
		if s.TopP = *r.TopP; s.TopP == 0 {
			s.Temperature = 0
		}
	}
	return s
}

// NeedsDraft reports whether a session without a draft refuses the request.
func (r *Request) NeedsDraft() bool {
	c := r.Config()
	return c.UsesDraftModel() && c.Source != method.SourceEAGLE3
}

// NeedsHead reports whether a session without an EAGLE-3 head refuses the request.
func (r *Request) NeedsHead() bool { return r.Config().Source == method.SourceEAGLE3 }

// TellsLogProbs reports whether the verifier of a valid request knows log-probabilities. Rejection sampling and
// sampling without replacement keep their distributions on the device above temperature 0.
func (r *Request) TellsLogProbs() bool {
	return r.Sampling().Temperature == 0 || r.Config().Exactness() != method.ExactDistribution
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
	// Unchecked has the keywords of the request's JSON Schema that the text is not held to, as JSON Pointers (RFC 6901)
	// into the schema, such as /properties/tags/uniqueItems. constrain.Constraints.Unchecked allowed it.
	Unchecked []string `json:"unchecked,omitempty"`
}
