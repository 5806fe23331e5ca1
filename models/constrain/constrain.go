// Package constrain restricts the draws of a request: grammars and JSON Schemas as masks, penalties, biases and the
// caller's own function as what is added to logits. A Constraint applies the Constraints of a request while it runs.
package constrain

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"foretoken/internal/hint"
	"foretoken/models/grammar"
	"foretoken/spec"
)

// Constraints restrict the draws of a request. They change the target's distribution, for plain decoding and
// speculation alike, so both still give the same text.
type Constraints struct {
	// Grammar is GBNF, JSONSchema a JSON Schema, JSONObject any JSON object: at most one of them. The
	// text ends where nothing can follow.
	Grammar    string          `json:"grammar,omitempty"`
	JSONSchema json.RawMessage `json:"json_schema,omitempty"`
	JSONObject bool            `json:"json_object,omitempty"`
	// JSONCompact leaves out the white space of JSON, but for one space after a colon or a comma: a model spends
	// tokens on indents otherwise.
	JSONCompact bool `json:"json_compact,omitempty"`
	// JSONOpen reads what a JSON Schema leaves out as the standard does: an object may have properties that the schema
	// does not name, after those that it names, and a schema without a type allows values of every type. Otherwise an
	// object has the named properties only.
	JSONOpen bool `json:"json_open,omitempty"`
	// Unchecked names keywords of a JSON Schema, of [grammar.Unheld], that are left out where the text cannot be held
	// to them; otherwise the schema is refused. Result.Unchecked says which were left out.
	Unchecked []string `json:"unchecked,omitempty"`
	// FrequencyPenalty is taken off a token's logit as often as the text holds it, PresencePenalty once if it
	// does; both from -2 to 2. The prompt does not count.
	FrequencyPenalty float64 `json:"frequency_penalty,omitempty"`
	PresencePenalty  float64 `json:"presence_penalty,omitempty"`
	// LogitBias is added to the logits of tokens, from -100, which rules a token out, to 100.
	LogitBias map[int32]float32 `json:"logit_bias,omitempty"`

	LogitsProcessor LogitsProcessor `json:"-"`

	compiled *compiled // by Compile; nil before
}

// Table has the settings of Constraints. The bounds of logit_bias are each token's.
var Table = []spec.Setting{
	{Name: "grammar", Group: spec.GroupConstraints,
		Help: "constrain the text to a grammar in GBNF, the notation of llama.cpp"},
	{Name: "json_schema", Group: spec.GroupConstraints, Help: "constrain the text to a JSON Schema"},
	{Name: "json_object", Group: spec.GroupConstraints, API: "response_format",
		Help: "constrain the text to a JSON object"},
	{Name: "json_compact", Group: spec.GroupConstraints, Object: true,
		Help: "with a JSON Schema or object: no white space but one space after a colon or a comma"},
	{Name: "json_open", Group: spec.GroupConstraints, Object: true,
		Help: "with a JSON Schema: allow what it leaves out, such as properties that it does not name, as the " +
			"standard does"},
	{Name: "unchecked", Group: spec.GroupConstraints, Object: true, Choices: grammar.Unheld(),
		Help: "keywords of a JSON Schema to leave out where the text cannot be held to them, such as uniqueItems"},
	{Name: "frequency_penalty", Group: spec.GroupConstraints, Least: -2, Most: 2,
		Help: "subtract this from a token's logit each time the token occurs in the text"},
	{Name: "presence_penalty", Group: spec.GroupConstraints, Least: -2, Most: 2,
		Help: "subtract this once from the logit of a token that occurs in the text"},
	{Name: "logit_bias", Group: spec.GroupConstraints, Least: -100, Most: 100,
		Help: "add this to the logit of a token; -100: never"},
}

var biasLimit = spec.Named(Table, "logit_bias")

// LogitsProcessor changes the logits by the text so far. It is asked once a pass, with the tokens after the prompt at
// each node of the tree, which hold until it returns; its answer has, for each node, what is added to the logits of at
// most 1024 tokens, from -100, which rules a token out, to 100. A text's answer must depend on its tokens alone: then
// every method gives the text of plain decoding.
type LogitsProcessor func(texts [][]int32) ([][]spec.Bias, error)

// compiled is a grammar and what it was compiled from: fields of Constraints, which may have changed since.
type compiled struct {
	gbnf, schema string
	object       bool
	options      grammar.SchemaOptions
	grammar      *grammar.Grammar
}

// Validate refuses what does not go together or is out of its range, and grammars that cannot be read.
func (c *Constraints) Validate() error {
	own := *c // Compile keeps the grammar
	return own.Compile(context.Background())
}

// Compile is Validate, and keeps the grammar: requests with a copy of the constraints share it instead of compiling it
// again. Compiling ends with ctx.
func (c *Constraints) Compile(ctx context.Context) error {
	if err := c.check(); err != nil {
		return err
	}
	g, err := c.grammar(ctx)
	if err != nil {
		return err
	}
	o := c.schemaOptions()
	o.Unchecked = slices.Clone(o.Unchecked)
	c.compiled = &compiled{c.Grammar, string(c.JSONSchema), c.JSONObject, o, g}
	return nil
}

// check is Validate but for reading the grammar.
func (c *Constraints) check() error {
	grammars := 0
	for _, set := range []bool{c.Grammar != "", len(c.JSONSchema) > 0, c.JSONObject} {
		if set {
			grammars++
		}
	}
	if grammars > 1 {
		return fmt.Errorf("constrain: of grammar, json_schema and json_object only one can be asked for")
	}
	if n := len(c.Unchecked); n > mostUnchecked {
		return spec.Refuse("unchecked", "has %d names, want at most %d", n, mostUnchecked)
	}
	may := grammar.Unheld()
	for _, name := range c.Unchecked {
		if !slices.Contains(may, name) { // bound: the table of keywords
			return spec.Refuse("unchecked", "names %.80q, want keywords among %s%s", name, strings.Join(may, ", "),
				hint.DidYouMean(name, may))
		}
	}
	for id, b := range c.LogitBias {
		if !biasLimit.Holds(float64(b)) {
			return spec.Refuse("logit_bias", "of token %d is %v, want %s", id, b, biasLimit.Want())
		}
	}
	if len(c.LogitBias) > mostBiases {
		return spec.Refuse("logit_bias", "names %d tokens, want at most %d", len(c.LogitBias), mostBiases)
	}
	return spec.CheckSettings(Table, c)
}

// mostUnchecked is the most names of keywords that may be left unchecked.
const mostUnchecked = 64

// mostBiases is the most tokens with a bias, as in OpenAI's API, rounded up, and of a node's by a LogitsProcessor.
const mostBiases = 1024

// grammar returns the grammar, nil without one. It is compiled unless Compile did so.
func (c *Constraints) grammar(ctx context.Context) (*grammar.Grammar, error) {
	k, o := c.compiled, c.schemaOptions()
	if k != nil && k.gbnf == c.Grammar && k.schema == string(c.JSONSchema) && k.object == c.JSONObject &&
		k.options.Layout == o.Layout && k.options.Open == o.Open &&
		slices.Equal(k.options.Unchecked, o.Unchecked) {
		return k.grammar, nil
	}
	switch {
	case c.Grammar != "":
		g, err := grammar.ParseGBNF(ctx, c.Grammar)
		return g, ofField("grammar", err)
	case len(c.JSONSchema) > 0:
		g, err := grammar.FromSchema(ctx, c.JSONSchema, o)
		return g, ofField("json_schema", err)
	case c.JSONObject:
		return grammar.FromSchema(ctx, []byte(`{"type":"object"}`), o)
	}
	return nil, nil
}

func (c *Constraints) schemaOptions() grammar.SchemaOptions {
	o := grammar.SchemaOptions{Open: c.JSONOpen, Unchecked: c.Unchecked}
	if c.JSONCompact {
		o.Layout = grammar.Compact
	}
	return o
}

// ofField names the field of an error of package grammar; nil stays nil.
func ofField(field string, err error) error {
	if err == nil {
		return nil
	}
	reason := "cannot be used: " + strings.TrimPrefix(err.Error(), "grammar: ")
	return fmt.Errorf("constrain: %w", &spec.FieldError{Field: field, Reason: reason, Err: err})
}

// needs returns how the constraints change a pass: grammars need masks, what is added to logits biases.
func (c *Constraints) needs() spec.AdjustmentKinds {
	n := spec.AdjustmentKinds{Masks: c.Grammar != "" || len(c.JSONSchema) > 0 || c.JSONObject,
		Biases: c.penalises() || len(c.LogitBias) > 0 || c.LogitsProcessor != nil}
	if c.LogitsProcessor != nil {
		n.Own = mostBiases
	}
	return n
}

func (c *Constraints) penalises() bool { return c.FrequencyPenalty != 0 || c.PresencePenalty != 0 }
