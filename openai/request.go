package openai

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"

	"foretoken"
	"foretoken/internal/public"
	"foretoken/internal/strictjson"
	"foretoken/models/constrain"
	"foretoken/spec"
)

// Bounds of what one request may ask for, besides package spec's. Config.MaxBody bounds the bytes of a body.
const (
	maxMessages = 4096
	maxTools    = 128
)

// limitLogprobs is the API's, of /v1/completions.
var limitLogprobs = spec.Setting{Name: "logprobs", Most: 5}

// limitN bounds the texts of one request.
var limitN = spec.Setting{Name: "n", Least: 1, Most: 16}

// Request is a request parsed from its body.
type Request struct {
	Endpoint Endpoint
	User     string // who asks, as the request says; "" if it does not

	model    string
	settings foretoken.Request
	n        int // texts of each prompt
	stream   bool
	usage    bool // the stream is to end with one
	top      int  // likeliest tokens to report per position; -1: no log-probabilities

	messages []foretoken.Message
	tools    []json.RawMessage
	callable []string        // names of the functions that the answer may call
	single   bool            // at most one call
	call     json.RawMessage // the schema of the call that the answer has to be; nil for any answer
	form     string          // the field that holds the text to a form; "" for the host's own
	compact  *bool           // the request's own json_compact
	vars     map[string]any  // of the chat template
	template string          // the request's own chat template

	prompts []prompt // of /v1/completions and /v1/embeddings

	pooling foretoken.EmbedOptions
	width   int  // that embeddings are to have; 0: the model's
	base64  bool // embeddings as bytes
}

// Endpoint is one of the API's ways to ask.
type Endpoint int

// The endpoints that take a request's body.
const (
	Completions Endpoint = iota
	ChatCompletions
	Embeddings
)

// EndpointOf returns the endpoint of a path, if there is one.
func EndpointOf(path string) (e Endpoint, ok bool) {
	switch path {
	case "/v1/completions":
		return Completions, true
	case "/v1/chat/completions":
		return ChatCompletions, true
	case "/v1/embeddings":
		return Embeddings, true
	}
	return 0, false
}

// field names the member with a request's texts.
func (e Endpoint) field() string { return [...]string{"prompt", "messages", "input"}[e] }

// prompt is a text, or tokens.
type prompt struct {
	text string
	ids  []int32
}

// Parse reads the body of a request.
func Parse(body []byte, e Endpoint, o *Options) (*Request, *Error) {
	f, err := parseFields(body)
	if err != nil {
		return nil, err
	}
	a := &Request{Endpoint: e, settings: o.Defaults, n: 1, top: -1}
	switch named := f.into("model", &a.model, "the name of a model, as /v1/models lists it"); {
	case o.AnyModel:
		a.model = o.Model
	case !named:
		f.fail(missing("model", "model is missing; /v1/models lists the name"))
	}
	f.into("user", &a.User, "a string")
	switch e {
	case Embeddings:
		a.embedding(f)
		return a, f.end()
	case ChatCompletions:
		a.conversation(f)
		if o.Templates {
			f.into("chat_template", &a.template, "a chat template in Jinja")
		}
	default:
		if a.settings.MaxTokens == 0 {
			a.settings.MaxTokens = 16 // the API's own
		}
		a.texts(f)
	}
	if !o.Seeded {
		a.settings.Seed = rand.Uint64() >> 11 // exact in a JavaScript number, so that a client can repeat it
	}
	a.sampling(f)
	a.likelihoods(f)
	if a.settings.Echo && a.top >= 0 {
		f.fail(unsupported("echo", "echo is given with logprobs, and there are none of the prompt's tokens"))
	}
	a.object(f)
	within(f, "n", &a.n, limitN)
	if n := max(len(a.prompts), 1) * a.n; !limitN.Holds(float64(n)) {
		f.fail(invalid("n", "%d texts are asked for; want at most %v in one request", n, limitN.Most))
	}
	a.stream = f.flag("stream")
	a.streamOptions(f)
	a.constraints(f)
	a.validate(f)
	return a, f.end()
}

// sampling reads what both endpoints take.
func (a *Request) sampling(f *fields) {
	s := &a.settings
	for _, row := range foretoken.Settings() {
		name := cmp.Or(row.API, row.Name)
		if !row.Bounded() || row.InObject() || name == "max_tokens" || name == "top_logprobs" { // the endpoints differ
			continue
		}
		switch to := row.In(s).Addr().Interface().(type) {
		case *int:
			within(f, name, to, row)
		case *float64:
			within(f, name, to, row)
		case **float64:
			if v := 0.0; within(f, name, &v, row) {
				*to = &v // a new value: the default's is shared by all requests
			}
		}
	}
	if raw, ok := f.take("seed"); ok {
		if negative := int64(0); strictjson.Decode(raw, &negative) == nil {
			s.Seed = uint64(negative)
		} else if strictjson.Decode(raw, &s.Seed) != nil {
			f.fail(wrongType("seed", "seed is %s; want a whole number of 64 bits", Brief(raw)))
		}
	}
	if stops := f.stops("stop"); stops != nil {
		s.Stop = stops
	}
	f.into("include_stop_str_in_output", &s.IncludeStop, "true or false")
	ids := []int32{} // a new list: the default's is shared by all requests
	if f.into("stop_token_ids", &ids, "a list of token ids") {
		s.StopTokenIDs = ids
	}
}

// likelihoods reads logprobs, which is a flag in conversations and a number elsewhere.
func (a *Request) likelihoods(f *fields) {
	if a.Endpoint != ChatCompletions {
		within(f, "logprobs", &a.top, limitLogprobs)
		return
	}
	wanted, top := f.flag("logprobs"), 0
	given := within(f, "top_logprobs", &top, *spec.Named(foretoken.Settings(), "top_logprobs"))
	switch {
	case given && !wanted:
		f.fail(invalid("top_logprobs", "top_logprobs is given without logprobs; set logprobs to true"))
	case wanted:
		a.top = top
	}
}

// constraints reads what restricts a text.
func (a *Request) constraints(f *fields) {
	c := &a.settings.Constraints
	bias := map[int32]float32{} // a new map: the default's is shared by all requests
	if f.into("logit_bias", &bias, "an object of token ids and numbers from -100 to 100") {
		c.LogitBias = bias
	}
	// The last two are llama.cpp's.
	for _, name := range []string{"response_format", "grammar", "json_schema"} {
		switch had := a.form; {
		case !a.format(f, name, c):
		case had != "":
			f.fail(invalid(name, "of response_format, grammar and json_schema only one can be given"))
		default:
			a.form = name
		}
	}
	if a.compact != nil {
		c.JSONCompact = *a.compact
	}
	if a.call == nil {
		return
	}
	if a.form == "" { // a client's form replaces the host's
		c.Grammar, c.JSONSchema, c.JSONObject = "", nil, false
	}
	if c.Grammar != "" || len(c.JSONSchema) > 0 || c.JSONObject {
		f.fail(invalid("tool_choice", "tool_choice requires a call, but the request already constrains the text; "+
			"remove one of the two"))
	}
	c.JSONSchema, a.form = a.call, "tool_choice"
	c.JSONCompact = a.compact == nil || *a.compact // programs read it
}

// compile compiles the form, once for all texts, or refuses it. That may take long, so it is done in the client's turn.
func (a *Request) compile(ctx context.Context) error {
	if a.form == "" {
		return nil
	}
	err := a.settings.Constraints.Compile(ctx)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return a.blame(err)
}

// blame names the field of an error of the form.
func (a *Request) blame(err error) error {
	field, ok := errors.AsType[*spec.FieldError](err)
	if ok && a.form != "" && slices.Contains([]string{"grammar", "json_schema", "json_object"}, field.Field) {
		return invalid(a.form, "%s %s", a.form, field.Reason)
	}
	return err
}

// format reads one of the ways to hold a text to a form, in place of the host's own, and reports whether
// it was there.
func (a *Request) format(f *fields, name string, c *constrain.Constraints) bool {
	only := constrain.Constraints{}
	switch name {
	case "grammar":
		if !f.into(name, &only.Grammar, "a grammar in GBNF") {
			return false
		}
	case "json_schema":
		if !f.into(name, &only.JSONSchema, "a JSON Schema") {
			return false
		}
	default:
		only.JSONCompact = true // programs read it
		var v responseFormat
		if !f.into(name, &v, `an object such as {"type": "json_object"}`) {
			return false
		}
		schema := v.Schema
		if v.Type == "json_schema" {
			schema = v.JSONSchema.Schema
		}
		switch {
		case v.Type != "text" && v.Type != "json_object" && v.Type != "json_schema":
			f.fail(invalid(name+".type", "%s has the type %s; want text, json_object or json_schema", name,
				Brief([]byte(v.Type))))
		case given(v.Schema) && v.Type != "json_object":
			f.fail(invalid(name+".schema", "%s.schema is for the type json_object; this is %s", name, v.Type))
		case given(v.JSONSchema.Schema) && v.Type != "json_schema":
			f.fail(invalid(name+".json_schema", "%s.json_schema is for the type json_schema; this is %s", name, v.Type))
		case given(schema):
			only.JSONSchema = schema
		case v.Type == "json_schema":
			f.fail(missing(name+".json_schema.schema", "%s has no schema", name))
		}
		only.JSONObject = v.Type == "json_object" && !given(schema)
	}
	c.Grammar, c.JSONSchema, c.JSONObject = only.Grammar, only.JSONSchema, only.JSONObject
	c.JSONCompact = c.JSONCompact || only.JSONCompact
	return true
}

// responseFormat is the API's. A schema beside the type json_object is llama.cpp's way of a JSON Schema.
type responseFormat struct {
	Type       string          `json:"type"`
	Schema     json.RawMessage `json:"schema"`
	JSONSchema struct {
		Name        string          `json:"name"`
		Description string          `json:"description"`
		Schema      json.RawMessage `json:"schema"`
		Strict      bool            `json:"strict"` // ignored: texts are always held to their schema
	} `json:"json_schema"`
}

// given reports whether a member is there and not null.
func given(raw json.RawMessage) bool { return len(raw) > 0 && string(raw) != "null" }

// object reads the extension object that chooses how to draft and verify. Members that are null count as absent.
func (a *Request) object(f *fields) {
	raw, ok := f.take("foretoken")
	if !ok {
		return
	}
	s, own, members := &a.settings, foretoken.Request{}, map[string]json.RawMessage{}
	if err := cmp.Or(strictjson.Decode(raw, &own), strictjson.Decode(raw, &members)); err != nil {
		f.fail(wrongIn("foretoken", err, "foretoken is %s; want an object", Brief(raw)))
		return
	}
	if given(members["policy"]) {
		s.SetPolicy(own.Policy)
	}
	for _, row := range foretoken.Settings() {
		switch {
		case !given(members[row.Name]):
		case !row.InObject():
			f.fail(wrong("unknown_parameter", "foretoken."+row.Name,
				"foretoken.%s is unknown; give %s beside foretoken", row.Name, cmp.Or(row.API, row.Name)))
		case row.Name == "json_compact":
			a.compact = &own.JSONCompact
		default:
			row.In(s).Set(row.In(&own))
		}
	}
}

// validate refuses what no single field is wrong by, and the settings of methods. The form is compiled in the client's
// turn.
func (a *Request) validate(f *fields) {
	s := a.settings
	s.Grammar, s.JSONSchema, s.JSONObject = "", nil, false
	err := s.Validate()
	if err == nil {
		return
	}
	param := "foretoken"
	field, ok := errors.AsType[*spec.FieldError](err)
	if ok && slices.Contains([]string{"stop", "stop_token_ids", "logit_bias"}, field.Field) {
		param = field.Field
	}
	f.fail(invalid(param, "%s", public.Message(err)))
}

func (a *Request) streamOptions(f *fields) {
	var o struct {
		IncludeUsage bool  `json:"include_usage"`
		Obfuscation  *bool `json:"include_obfuscation"` // ignored: streams are never obfuscated
	}
	if !f.into("stream_options", &o, "an object such as {\"include_usage\": true}") {
		return
	}
	if !a.stream {
		f.fail(invalid("stream_options", "stream_options is given without stream; set stream to true"))
	}
	a.usage = o.IncludeUsage
}

// length reads how many tokens may be produced: the members' names mean the same.
func (a *Request) length(f *fields, names ...string) {
	first, limit := "", *spec.Named(foretoken.Settings(), "max_tokens")
	limit.Zero = "" // in this API it is no tokens
	for _, name := range names {
		n := 0
		switch {
		case !within(f, name, &n, limit):
		case first != "" && n != a.settings.MaxTokens:
			f.fail(invalid(name, "%s is %d and %s is %d; give one of them", name, n, first, a.settings.MaxTokens))
		default:
			first, a.settings.MaxTokens = name, n
		}
	}
}

// texts reads what only /v1/completions takes.
func (a *Request) texts(f *fields) {
	a.length(f, "max_tokens")
	a.textList(f, "prompt", "the text to continue")
	f.into("echo", &a.settings.Echo, "true or false")
	f.neutral("each text is decoded once, from its beginning", decodedOnce)
}

var decodedOnce = []neutral{{"best_of", []string{"1"}}, {"suffix", []string{`""`}}}

// prompts reads the four forms of a prompt, which their first bytes tell apart; none where it is an empty list.
func prompts(raw json.RawMessage) (all []prompt, err error) {
	var text string
	var texts []string
	var ids []int32
	var lists [][]int32
	switch first := bytes.TrimLeft(raw, "[ \t\r\n"); {
	case raw[0] != '[':
		err = strictjson.Decode(raw, &text)
		all = []prompt{{text: text}}
	case first[0] == '"':
		err = strictjson.Decode(raw, &texts)
		for _, text := range texts {
			all = append(all, prompt{text: text})
		}
	case len(bytes.Trim(raw[:len(raw)-len(first)], " \t\r\n")) > 1:
		err = strictjson.Decode(raw, &lists)
		for _, ids := range lists {
			all = append(all, prompt{ids: ids})
		}
	case first[0] != ']':
		err = strictjson.Decode(raw, &ids)
		all = []prompt{{ids: ids}}
	}
	return all, err
}

// at names a place in a list, as error messages of the API do.
func at(name string, i int) string { return fmt.Sprintf("%s[%d]", name, i) }
