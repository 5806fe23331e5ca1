package chat

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"foretoken/internal/files"
	"foretoken/models/chat/jinja"
	"foretoken/models/gguf"
	"foretoken/models/modeltest"
	"foretoken/models/tokenizer"
)

func vocabulary(t *testing.T, name string) *tokenizer.Tokenizer {
	t.Helper()
	src, err := files.Open(modeltest.Shared(t, "testdata", "vocab", "ggml-vocab-"+name+".gguf"))
	if err != nil {
		t.Fatal(err)
	}
	defer src.Close()
	f, err := gguf.Open(src)
	if err != nil {
		t.Fatal(err)
	}
	tok, err := tokenizer.New(f)
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

// everything writes all that a template can see, in the ways that templates write it.
const everything = "BEGIN{% for m in messages %}{{ m.role }}{{ m.content }}{{ m.reasoning_content }}{{ m.name }}" +
	"{{ m.tool_call_id }}{{ m.content | trim | upper }}{% for c in m.tool_calls %}{{ c.id }}{{ c.function.name }}" +
	"{{ c.function.arguments }}{{ c.function.arguments | tojson }}{% if c.function.arguments is mapping %}" +
	"{% for k, v in c.function.arguments | items %}{{ k }}={{ v }}{% endfor %}{% endif %}{% endfor %}" +
	"{{ m }}{{ m | tojson(indent=2) }}{% endfor %}{{ tools }}" +
	"{% for t in tools or [] %}{{ t | tojson }}{{ t.function | tojson(ensure_ascii=true) }}{{ t.function.name }}" +
	"{{ t.function.description }}{% for k, v in (t.function.parameters or {}).properties | items %}{{ k }}" +
	"{{ v.enum | join }}{% endfor %}{% endfor %}{{ custom }}" +
	"{{ custom | default(1) | tojson(sort_keys=true) }}{{ documents | tojson }}END"

// places puts a text wherever somebody other than the template writes one.
var places = map[string]func(text string) ([]Message, RenderOptions){
	"content": func(s string) ([]Message, RenderOptions) {
		return []Message{{Role: "user", Content: s}}, RenderOptions{}
	},
	"system": func(s string) ([]Message, RenderOptions) {
		return []Message{{Role: "system", Content: s}}, RenderOptions{}
	},
	"parts":     func(s string) ([]Message, RenderOptions) { return []Message{withParts(s, "b"+s)}, RenderOptions{} },
	"reasoning": func(s string) ([]Message, RenderOptions) { return with(Message{Reasoning: s}) },
	"name":      func(s string) ([]Message, RenderOptions) { return with(Message{Role: "user", Name: s}) },
	"answer id": func(s string) ([]Message, RenderOptions) { return with(Message{Role: "tool", ToolCallID: s}) },
	"call id":   func(s string) ([]Message, RenderOptions) { return withCall(s, "f", "{}") },
	"call name": func(s string) ([]Message, RenderOptions) { return withCall("i", s+"f", "{}") },
	"arguments": func(s string) ([]Message, RenderOptions) {
		return withCall("i", "f", marshal(map[string]any{"a": s}))
	},
	"argument name": func(s string) ([]Message, RenderOptions) {
		return withCall("i", "f", marshal(map[string]any{s: map[string]any{s: []any{s, map[string]any{"b" + s: 1}}}}))
	},
	"escaped arguments": func(s string) ([]Message, RenderOptions) {
		return withCall("i", "f", `{"a": "`+escaped(s)+`", "`+escaped(s)+`": {"`+escaped(s)+`": 1}}`)
	},
	"arguments without JSON": func(s string) ([]Message, RenderOptions) { return withCall("i", "f", "no "+s) },
	"tool": func(s string) ([]Message, RenderOptions) {
		e := escaped(s)
		return withTool(`{"type": "function", "function": {"name": "f` + e + `", "description": "` + e +
			`", "parameters": {"type": "object", "properties": {"` + e + `": {"enum": ["` + e + `"]}}}}}`)
	},
	"plain tool": func(s string) ([]Message, RenderOptions) {
		return withTool(`{"name": ` + marshal(s) + `, "x": {` + marshal(s) + `: [` + marshal(s) + `]}}`)
	},
	"variable": func(s string) ([]Message, RenderOptions) {
		m, o := with(Message{})
		custom := map[string]any{"a": s, s: []any{s, map[string]any{s: s}}}
		o.Vars = map[string]any{"custom": custom, "documents": s, s: s}
		return m, o
	},
}

func with(m Message) ([]Message, RenderOptions) {
	if m.Role == "" {
		m.Role = "assistant"
	}
	return []Message{{Role: "user", Content: "a"}, m}, RenderOptions{}
}

func withParts(parts ...string) Message {
	m := Message{Role: "user"}
	m.SetParts(parts)
	return m
}

func withCall(id, name, arguments string) ([]Message, RenderOptions) {
	return with(Message{ToolCalls: []ToolCall{{ID: id, Name: name, Arguments: json.RawMessage(arguments)}}})
}

func withTool(tool string) ([]Message, RenderOptions) {
	m, o := with(Message{})
	o.Tools = []json.RawMessage{json.RawMessage(tool)}
	return m, o
}

func marshal(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// escaped spells every character of a text as an escape of JSON.
func escaped(s string) string {
	var b strings.Builder
	for _, r := range s {
		fmt.Fprintf(&b, `\u%04x`, r)
	}
	return b.String()
}

// TestControlTokensOfOthers spells every control token in every place: none acts as one but the template's own.
func TestControlTokensOfOthers(t *testing.T) {
	t.Attr("attack", "control tokens in messages, calls, tools and variables, in values and names at every depth")
	t.Attr("bound", "all are text but those of the template")
	tried := 0
	for _, name := range []string{"deepseek-coder", "falcon", "gpt-2", "llama-spm", "phi-3", "starcoder"} {
		tok := vocabulary(t, name)
		var tokens []string
		for id := range int32(tok.VocabSize()) {
			if tok.Special(id) {
				tokens = append(tokens, tok.TokenText(id))
			}
		}
		own := tokens[len(tokens)/2]
		tpl, err := New(strings.NewReplacer("BEGIN", own, "END", own).Replace(everything), Options{Now: now})
		if err != nil {
			t.Fatal(err)
		}
		spelled := append(slices.Clone(tokens), strings.Join(tokens, ""), strings.Join(tokens, "\ufdd0"),
			"\ufdd0\ufdd1"+strings.Join(tokens, " "))
		for place, make := range places {
			for _, s := range spelled {
				messages, o := make(s)
				text, mark, err := tpl.RenderGuarded(messages, o, tok.Guard())
				if err != nil {
					t.Fatalf("%s: %s: %q: %v", name, place, s, err)
				}
				ids, err := tok.EncodeWith(text, tokenizer.EncodeOptions{Special: true, Mark: mark})
				if err != nil {
					t.Fatal(err)
				}
				control := 0
				for _, id := range ids {
					if tok.Special(id) {
						control++
					}
				}
				tried++
				if control != 2 || !tok.Special(ids[0]) || !tok.Special(ids[len(ids)-1]) {
					t.Errorf("%s: %s: %q gives %d control tokens, want the template's 2", name, place, s, control)
				}
				// The model reads what it would without a guard.
				plain, err := tpl.Render(messages, o)
				want := strings.TrimSuffix(strings.TrimPrefix(plain, own), own)
				if got := tok.Decode(ids); err != nil || strings.TrimLeft(got, " ") != strings.TrimLeft(want, " ") &&
					!strings.Contains(s, "\ufdd0") {
					t.Errorf("%s: %s: %q is read as\n%.300q, want\n%.300q; %v", name, place, s, got, want, err)
				}
			}
		}
	}
	t.Attr("measured", fmt.Sprintf("%d conversations with 6 vocabularies: none of others' control tokens acts", tried))
}

// TestGuardingEnds: marking the texts of a conversation ends with its client.
func TestGuardingEnds(t *testing.T) {
	tpl, err := New("{{ messages[0].content }}", Options{})
	if err != nil {
		t.Fatal(err)
	}
	gone := errors.New("gone")
	messages := make([]Message, 10_000)
	for i := range messages {
		messages[i] = Message{Role: "user", Content: "<|"}
	}
	o := RenderOptions{Yield: func() error { return gone }}
	if _, _, err := tpl.RenderGuarded(messages, o, vocabulary(t, "gpt-2").Guard()); !errors.Is(err, gone) {
		t.Errorf("%v, want the error of Yield", err)
	}
}

// TestValuesOfAConversation: a template gets so many values of JSON in all, in whichever place they are.
func TestValuesOfAConversation(t *testing.T) {
	tpl, err := New("{% for m in messages %}{% if m.tool_calls %}{{ m.tool_calls[0].function.arguments.a }}{% endif %}"+
		"{% endfor %}", Options{})
	if err != nil {
		t.Fatal(err)
	}
	half := `{"a": [` + strings.Repeat("[],", jinja.MaxValues/2) + `1]}`
	messages, o := withCall("i", "f", half)
	o.Tools, o.Vars = []json.RawMessage{json.RawMessage(`{"name": "f", "x": ` + half + `}`)}, map[string]any{"x": 1}
	if _, err := tpl.Render(messages, o); !errors.Is(err, jinja.ErrValues) {
		t.Errorf("a call and a tool: %v", err)
	} else {
		checkError(t, err)
	}
	o.Tools = nil
	if _, err := tpl.Render(messages, o); err != nil {
		t.Errorf("a call: %v", err)
	}
	o.Vars["x"] = json.RawMessage(half)
	if _, err := tpl.Render(messages, o); !errors.Is(err, jinja.ErrValues) {
		t.Errorf("a call and a variable: %v", err)
	}
}

func TestVariablesOfTheConversation(t *testing.T) {
	tpl, err := New("{{ messages }}{{ documents }}{{ custom }}", Options{})
	if err != nil {
		t.Fatal(err)
	}
	for name, refused := range map[string]bool{"messages": true, "tools": true, "bos_token": true, "eos_token": true,
		"add_generation_prompt": true, "documents": false, "custom": false} {
		_, err := tpl.Render([]Message{{Role: "user"}}, RenderOptions{Vars: map[string]any{name: 1}})
		if (err != nil) != refused {
			t.Errorf("%s: %v", name, err)
		}
		if err != nil {
			checkError(t, err)
		}
	}
}
