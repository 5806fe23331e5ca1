// Package chat writes a conversation as the text that a model was trained on. How is said by the model's own chat
// template, a Jinja text in its file, which package jinja runs with what Transformers gives to templates: the
// messages, the tools, the texts of BOS and EOS, raise_exception and strftime_now.
//
// Errors are one line and start with "chat:".
package chat

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"foretoken/internal/quote"
	"foretoken/internal/strictjson"
	"foretoken/models/chat/jinja"
	"foretoken/models/gguf"
)

const keyTemplate = "tokenizer.chat_template" // of GGUF files

// ErrNoTemplate is wrapped by ForFile's error where the file has no template: the model was not trained on
// conversations.
var ErrNoTemplate = errors.New("there is no chat template: the model continues texts only")

// Message is one turn.
type Message struct {
	Role       string     `json:"role"` // system, user, assistant or tool
	Content    string     `json:"content"`
	Parts      []string   `json:"parts,omitempty"`             // the content where it came as a list, see SetParts
	Reasoning  string     `json:"reasoning_content,omitempty"` // the assistant's reasoning, for templates that take it
	Name       string     `json:"name,omitempty"`              // of a tool, in its answer
	ToolCalls  []ToolCall `json:"tool_calls,omitempty"`        // of the assistant
	ToolCallID string     `json:"tool_call_id,omitempty"`      // which call a tool answers
}

// SetParts gives the message a content that came as a list of texts. A template that takes lists gets it as one;
// Content, for all others, has a line for each part.
func (m *Message) SetParts(parts []string) {
	m.Parts, m.Content = parts, strings.Join(parts, "\n")
}

// ToolCall is a call that the assistant made. Arguments are a JSON object, or
// text where the model wrote something else.
type ToolCall struct {
	ID        string
	Name      string
	Arguments json.RawMessage
}

// UnmarshalJSON reads a call as the usual interfaces write it: with or without a "function" around name and
// arguments, and with these as an object or as a string of JSON.
func (c *ToolCall) UnmarshalJSON(data []byte) error {
	type plain struct {
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
	}
	var v struct {
		ID string `json:"id"`
		plain
		Function *plain `json:"function"`
	}
	if err := strictjson.DecodeForeign(data, &v); err != nil {
		return fmt.Errorf("chat: tool call: %w", err)
	}
	place := "arguments"
	if v.Function != nil {
		v.plain, place = *v.Function, "function.arguments"
	}
	if a := v.Arguments; len(a) > 0 && a[0] != '{' && a[0] != '"' && string(a) != "null" {
		return fmt.Errorf("chat: tool call: %w", &strictjson.FieldError{Field: place,
			Reason: "is " + quoted(a) + ", want a text of JSON or an object"})
	}
	var text string
	var compact bytes.Buffer
	if strictjson.Decode(v.Arguments, &text) == nil {
		v.Arguments = json.RawMessage(text)
	} else if json.Compact(&compact, v.Arguments) == nil {
		v.Arguments = compact.Bytes()
	}
	*c = ToolCall{v.ID, v.Name, v.Arguments}
	return nil
}

// MarshalJSON writes what UnmarshalJSON reads, which takes a string for the arguments' text, and null for none.
func (c ToolCall) MarshalJSON() ([]byte, error) {
	args := c.Arguments
	var text string
	if strictjson.Check(args) != nil || strictjson.Decode(args, &text) == nil { // a model may write anything
		args, _ = json.Marshal(string(args))
	}
	return json.Marshal(
		map[string]any{"id": c.ID, "type": "function", "function": map[string]any{"name": c.Name, "arguments": args}})
}

// Options hold a template's inputs besides the messages.
type Options struct {
	BOS, EOS string            // texts of the tokens, empty without one
	Named    map[string]string // further templates by name; "tool_use" is for conversations with tools
	Now      func() time.Time  // for strftime_now; time.Now without it
}

// Guard keeps control tokens that people, models and tools spelled out from steering the model: a tokenizer.Guard.
type Guard interface {
	// Mark returns a text that none of the texts contains.
	Mark(texts iter.Seq[string]) string
	// Ends returns the beginnings of control tokens that the texts of a template end with.
	Ends(texts []string) []string
	// Protector returns a function that puts the mark into every control token that a text spells, alone or with what
	// is before or behind it. It calls yield about every millisecond and returns its error.
	Protector(mark string, ends []string, yield func() error) func(text string) (string, error)
}

// Variables returns a JSON object as variables of a template, with the digits of its numbers and the order of its keys
// at every depth.
func Variables(from map[string]json.RawMessage) map[string]any {
	vars := make(map[string]any, len(from))
	for name, value := range from {
		vars[name] = value
	}
	return vars
}

// CheckVariables refuses variables that the conversation itself sets. Others may be given, documents among them.
func CheckVariables(vars map[string]any) error {
	for _, name := range []string{"messages", "tools", "bos_token", "eos_token", "add_generation_prompt"} {
		if _, ok := vars[name]; ok {
			return fmt.Errorf("chat: the variable %s cannot be given: the conversation sets it", name)
		}
	}
	return nil
}

// RenderOptions say what is rendered.
type RenderOptions struct {
	AddGenerationPrompt bool              // end with the header of the assistant's answer
	Tools               []json.RawMessage // functions the model may call: {"type": "function", "function": {…}}
	Vars                map[string]any    // further variables, such as enable_thinking: what encoding/json can write
	// Limits bound the work. Those of package jinja, the default, are for the user of the model.
	Limits jinja.Limits
	// Yield, if not nil, is called about every millisecond. An error of it ends the rendering.
	Yield func() error
}

// Template is a chat template. It is safe for concurrent use.
type Template struct {
	o     Options
	texts map[string]*variant // by name; the default one has none
}

// variant is one of a model's templates. Its forms are found when it is used first.
type variant struct {
	*jinja.Template
	forms func() forms
	ends  atomic.Pointer[guardEnds] // of the guard that was used last
}

type guardEnds struct {
	guard Guard
	ends  []string
}

// endsFor returns the guard's Ends of the template.
func (v *variant) endsFor(g Guard) []string {
	last := v.ends.Load()
	if last == nil || last.guard != g {
		last = &guardEnds{g, g.Ends(v.Texts())}
		v.ends.Store(last)
	}
	return last.ends
}

// newVariant prepares trials with the variables that every rendering has.
func newVariant(source string, parsed *jinja.Template, o *Options) *variant {
	return &variant{Template: parsed, forms: sync.OnceValue(func() forms {
		return formsOf(source, func(messages []jinja.Value, tools bool) string {
			all := jinja.Value(nil)
			if tools {
				all = trialTools()
			}
			vars := o.variables(jinja.NewList(messages...), all, true)
			out, _ := parsed.Render(vars, jinja.Options{Limits: trialLimits, Now: o.Now})
			return out
		})
	})}
}

// variables are those that every template gets.
func (o *Options) variables(messages, tools jinja.Value, prompt bool) *jinja.Dict {
	return jinja.NewDict().Set("messages", messages).Set("tools", tools).Set("documents", nil).
		Set("add_generation_prompt", prompt).Set("bos_token", o.BOS).Set("eos_token", o.EOS)
}

// RequestLimits bound the work for a request of others.
func RequestLimits() jinja.Limits {
	return jinja.Limits{Work: 4_000_000, Memory: 48 << 20, Time: 10 * time.Second}
}

// trialLimits bounds each of the ten renderings that try out what a template takes.
var trialLimits = jinja.Limits{Work: 40_000, Memory: 4 << 20, Output: 1 << 20, Time: 5 * time.Second}

// New reads a template. A blank one is ErrNoTemplate, and a blank one among o.Named is left out. At most
// gguf.MaxTemplates of gguf.MaxTemplateBytes are read.
func New(template string, o Options) (*Template, error) {
	t := &Template{o: o, texts: map[string]*variant{}}
	if gguf.Blank(template) {
		return nil, fmt.Errorf("chat: %w", ErrNoTemplate)
	}
	all := map[string]string{"": template}
	for name, text := range o.Named {
		if name != "" && name != "default" && !gguf.Blank(text) {
			all[name] = text
		}
	}
	if len(all) > gguf.MaxTemplates {
		return nil, fmt.Errorf("chat: there are %d templates; at most %d are read", len(all), gguf.MaxTemplates)
	}
	for name, text := range all {
		if len(text) > gguf.MaxTemplateBytes {
			return nil, fmt.Errorf("chat: the template %s has %d bytes; at most %d are read", quote.Text(name),
				len(text), gguf.MaxTemplateBytes)
		}
		parsed, err := jinja.Parse(text)
		if err != nil && name == "" {
			return nil, fmt.Errorf("chat: the template cannot be read: %w", err)
		}
		// One of the others may need what is not supported and never be asked for.
		if err == nil {
			t.texts[name] = newVariant(text, parsed, &t.o)
		}
	}
	return t, nil
}

// embeds refuses the template of an embedding model, which was not trained to answer. It is ErrNoTemplate for callers.
type embeds struct{ name string }

func (e embeds) Error() string {
	return "chat: " + e.name + ": this is an embedding model (pooling_type), which turns texts into vectors: take " +
		"another model for conversations"
}

func (e embeds) Is(err error) bool { return err == ErrNoTemplate }

// ForFile reads the templates of a model file, tokenizer.chat_template and those named
// tokenizer.chat_template.<name>, which become o.Named.
func ForFile(f *gguf.File, o Options) (*Template, error) {
	architecture, _ := f.StringOr("general.architecture", "")
	if pooling, _ := f.Uint32Or(architecture+".pooling_type", 0); pooling != 0 {
		return nil, embeds{f.Name()}
	}
	text, err := f.StringOr(keyTemplate, "")
	if err != nil {
		return nil, fmt.Errorf("chat: %w", err)
	}
	o.Named = map[string]string{}
	for _, key := range f.Keys() {
		name, ok := strings.CutPrefix(key, keyTemplate+".")
		if !ok {
			continue
		}
		if o.Named[name], err = f.String(key); err != nil {
			return nil, fmt.Errorf("chat: %w", err)
		}
	}
	t, err := New(text, o)
	if errors.Is(err, ErrNoTemplate) {
		return nil, fmt.Errorf("chat: %s: %s is missing or blank: %w", f.Name(), keyTemplate, ErrNoTemplate)
	}
	if err != nil {
		return nil, fmt.Errorf("chat: %s: %w", f.Name(), err)
	}
	return t, nil
}

// Render writes the conversation. The text spells special tokens, BOS among them where the template writes it, so it is
// read with EncodeSpecial. It is an error if the template refuses the messages, for their order or their roles.
func (t *Template) Render(messages []Message, o RenderOptions) (string, error) {
	text, _, err := t.RenderGuarded(messages, o, nil)
	return text, err
}

// RenderGuarded is Render with a mark in every control token that does not come from the template: in messages, calls,
// tools and variables, at every depth, in keys as in values. A nil guard marks none.
func (t *Template) RenderGuarded(messages []Message, o RenderOptions, g Guard) (text, mark string, err error) {
	variant := t.texts[""]
	if tool := t.texts["tool_use"]; tool != nil && len(o.Tools) > 0 {
		variant = tool
	}
	given, err := given(messages, &o, variant.forms())
	if err != nil {
		return "", "", err
	}
	if g != nil {
		mark = g.Mark(jinja.Strings(given))
		protect := g.Protector(mark, variant.endsFor(g), o.Yield)
		given = jinja.MapStrings(given, func(s string) string {
			s, err = protect(s)
			return s
		}).(*jinja.Dict)
		if err != nil {
			return "", "", fmt.Errorf("chat: %w", err)
		}
		list, _ := given.Get("messages")
		for i, m := range list.(*jinja.List).Items {
			// Templates spell control tokens with roles, which are no free texts.
			if slices.Contains([]string{"system", "user", "assistant", "tool", "developer"}, messages[i].Role) {
				m.(*jinja.Dict).Set("role", messages[i].Role)
			}
		}
	}
	vars := t.o.variables(nil, nil, o.AddGenerationPrompt)
	given.Each(func(name string, v jinja.Value) { vars.Set(name, v) })
	text, err = variant.Render(vars, jinja.Options{Limits: o.Limits, Now: t.o.Now, Yield: o.Yield, Mark: mark})
	if err != nil {
		return "", "", fmt.Errorf("chat: the chat template: %w", err)
	}
	return text, mark, nil
}

// given returns the variables that people, models and tools wrote.
func given(messages []Message, o *RenderOptions, f forms) (*jinja.Dict, error) {
	vars, left := jinja.NewDict(), jinja.MaxValues
	list := jinja.NewList()
	for i := range messages {
		m, err := messages[i].value(&f, &left)
		if err != nil {
			return nil, fmt.Errorf("chat: message %d: %w", i+1, err)
		}
		list.Items = append(list.Items, m)
	}
	vars.Set("messages", list)
	if len(o.Tools) > 0 { // else it is None
		all := jinja.NewList()
		for i, raw := range o.Tools {
			tool, err := toolValue(raw, &left)
			if err != nil {
				return nil, fmt.Errorf("chat: tool %d: %w", i+1, err)
			}
			all.Items = append(all.Items, tool)
		}
		vars.Set("tools", all)
	}
	if err := CheckVariables(o.Vars); err != nil {
		return nil, err
	}
	for name, v := range o.Vars {
		raw, err := json.Marshal(v)
		if err != nil {
			return nil, fmt.Errorf("chat: the variable %s: %w", quote.Text(name), err)
		}
		value, err := jinja.FromJSON(raw, &left)
		if err != nil {
			return nil, fmt.Errorf("chat: the variable %s: %w", quote.Text(name), err)
		}
		vars.Set(name, value)
	}
	return vars, nil
}

// value is the message as templates see it. Fields that are not set are not there, because templates ask for that.
func (m *Message) value(f *forms, left *int) (jinja.Value, error) {
	if m.Role == "" {
		return nil, fmt.Errorf("the role is missing: it is system, user, assistant or tool")
	}
	d := jinja.NewDict().Set("role", m.Role).Set("content", m.content(f.content[m.Role]))
	if m.Reasoning != "" {
		d.Set("reasoning_content", m.Reasoning)
	}
	if m.Name != "" {
		d.Set("name", m.Name)
	}
	if len(m.ToolCalls) > 0 {
		calls := jinja.NewList()
		for i, c := range m.ToolCalls {
			if c.Name == "" {
				return nil, fmt.Errorf("tool call %d has no name", i+1)
			}
			raw := c.Arguments
			if len(bytes.TrimSpace(raw)) == 0 {
				raw = []byte("{}")
			}
			args := jinja.Value(string(raw))
			if !f.arguments {
				read, err := jinja.FromJSON(raw, left)
				if errors.Is(err, jinja.ErrValues) {
					return nil, err
				}
				if err == nil { // else the model wrote something else
					args = read
				}
			}
			call := jinja.NewDict()
			if c.ID != "" {
				call.Set("id", c.ID)
			}
			call.Set("type", "function")
			call.Set("function", jinja.NewDict().Set("name", c.Name).Set("arguments", args))
			calls.Items = append(calls.Items, call)
		}
		d.Set("tool_calls", calls)
	}
	if m.ToolCallID != "" {
		d.Set("tool_call_id", m.ToolCallID)
	}
	return d, nil
}

// content is the content in the form that the template takes. Without any, a message with calls has no parts.
func (m *Message) content(form contentForm) jinja.Value {
	if !form.parts || form.text && m.Parts == nil {
		return m.Content
	}
	parts := m.Parts
	if parts == nil && (m.Content != "" || len(m.ToolCalls) == 0) {
		parts = []string{m.Content}
	}
	return partsValue(parts)
}

// toolValue reads a tool; a function by itself is put into one.
func toolValue(raw json.RawMessage, left *int) (jinja.Value, error) {
	v, err := jinja.FromJSON(raw, left)
	if err != nil {
		return nil, err
	}
	d, ok := v.(*jinja.Dict)
	if !ok {
		return nil, fmt.Errorf("want a JSON object with a function")
	}
	if _, ok := d.Get("function"); ok {
		return d, nil
	}
	if _, ok := d.Get("name"); !ok {
		return nil, fmt.Errorf("neither a function nor a name is in it")
	}
	return jinja.NewDict().Set("type", "function").Set("function", d), nil
}
