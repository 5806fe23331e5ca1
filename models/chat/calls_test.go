package chat

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"foretoken/models/chat/jinja"
	"foretoken/models/fuzztest"
)

var callable = []json.RawMessage{
	json.RawMessage(
		`{"type": "function", "function": {"name": "open", "parameters": {"type": "object", "properties": ` +
			`{"path": {"$ref": "#/$defs/path"}}, "required": ["path"], "$defs": {"path": {"type": "string"}}}}}`),
	json.RawMessage(`{"type": "function", "function": {"name": "close"}}`),
}

func TestToolChoice(t *testing.T) {
	for _, test := range []struct {
		choice, schema, err string
		told                bool
	}{
		{choice: ``, told: true},
		{choice: `null`, told: true},
		{choice: `"auto"`, told: true},
		{choice: `"none"`},
		{choice: `"required"`, told: true, schema: `"close"`},
		{choice: `{"type": "function", "function": {"name": "open"}}`, told: true, schema: `"open"`},
		{choice: `{"type": "function", "function": {"name": "delete"}}`, told: true,
			err: `"delete", which is none of the tools`},
		{choice: `"any"`, err: `tool_choice is "any"`},
		{choice: "\"require\x7f\"", err: `tool_choice is "\"require\x7f\""; want`},
		{choice: `{"type": "allowed_tools"}`, err: "tool_choice is"},
		{choice: "{\n\"type\": 1}", err: `tool_choice is {"type":1}; want`},
	} {
		schema, told, err := ToolChoice(json.RawMessage(test.choice), callable)
		if told != test.told || !strings.Contains(string(schema), test.schema) ||
			(schema == nil) != (test.schema == "") {
			t.Errorf("%s: told %v, schema %s", test.choice, told, schema)
		}
		if test.err == "" && err != nil || test.err != "" && (err == nil || !strings.Contains(err.Error(), test.err)) {
			t.Errorf("%s: error %v, want one with %q", test.choice, err, test.err)
		}
	}
	schema, _, _ := ToolChoice(json.RawMessage(`"required"`), callable)
	want := `{"$defs":{"path":{"type":"string"}},"anyOf":[{"type":"object","properties":{"name":{"const":"open"},` +
		`"arguments":`
	if !strings.HasPrefix(string(schema), want) {
		t.Errorf("schema %s", schema)
	}
	if _, _, err := ToolChoice(json.RawMessage(`"required"`), nil); err == nil ||
		!strings.Contains(err.Error(), "there are no tools") {
		t.Errorf("a call of no tools: %v", err)
	}
	twice := append(callable[:1:1], json.RawMessage(
		`{"type": "function", "function": {"name": "b", "parameters": {"$defs": {"path": {"type": "null"}}}}}`))
	if _, _, err := ToolChoice(json.RawMessage(`"required"`), twice); err == nil ||
		!strings.Contains(err.Error(), `define "path"`) {
		t.Errorf("definitions that differ: %v", err)
	}
}

func TestReadCall(t *testing.T) {
	name, arguments, ok := ReadCall(` {"name": "open", "arguments": {"path": "a b"}}`)
	if name != "open" || arguments != `{"path":"a b"}` || !ok {
		t.Errorf("%q %q %v", name, arguments, ok)
	}
	for _, text := range []string{"", `{"name": "open", "arguments": {"pa`, `{"name": "open"}`, `[]`} {
		if _, _, ok := ReadCall(text); ok {
			t.Errorf("%q was read as a call", text)
		}
	}
}

// decoded decodes a JSON text and keeps its numbers as written.
func decoded(text []byte) (v any) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		return err
	}
	return v
}

// FuzzCall reads the tools of a request and a model's call. A choice is refused in one line or gives a schema. A
// call survives the way through the API and through a template unchanged, and half a call is refused.
func FuzzCall(f *testing.F) {
	const choice = `{"type": "function", "function": {"name": "open"}}`
	open := string(callable[0])
	for _, text := range []string{` {"name": "open", "arguments": {"path": "a b"}}`,
		`{"name": "open", "arguments": {"pa`, `{"name": "open"}`, `[]`, `{"arguments": null, "name": "é\ud800"}`,
		`{"name": "f", "arguments": "text"}`, `{"name": "f", "arguments": "{\"a\": 1}"}`,
		`{"name": "f", "arguments": {"a": [1.50, -0, 1e400, 123456789012345678901], "a": "<\u2028&>"}}`,
		`{"name": "f", "arguments": {}} {}`, "{\"name\":\n\"a\\nb\", \"arguments\": true}"} {
		f.Add(text, choice, open)
		f.Add(text, `"required"`, `{"function": {"name": "close"}}`)
	}
	f.Add("", "{\n}", "")
	f.Add("", `{"type": "function", "function": {"name": "`+strings.Repeat("n", 3000)+`\n"}}`, open)
	f.Add("", `"required"`,
		`{"type": "function", "function": {"name": "b", "parameters": {"$defs": {"path": {"type": "null"}}}}}`)
	f.Add("", `"required"`, `{"function": {"name": 1, "parameters": {"$defs": 3, "definitions": {"a": {}}}}}`)
	f.Add("", `"none"`, `{"function": {"name": "a", "parameters": {"definitions": {"\n": {}}}}}`)
	template, err := New(`{% for m in messages %}{% for c in m.tool_calls %}{"arguments": {{ c.function.arguments | `+
		`tojson }}, "name": {{ c.function.name | tojson }}}{% endfor %}{% endfor %}`, Options{})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text, choice, tool string) {
		fuzztest.Bound(t, 64*(len(text)+len(choice)+len(tool)), func() {
			schema, told, err := ToolChoice(json.RawMessage(choice), append(callable[:1:1], json.RawMessage(tool)))
			switch {
			case err != nil:
				fuzztest.Refusal(t, err, "chat: ")
			case schema != nil && (!told || !json.Valid(schema)):
				t.Fatalf("told %v, schema %s", told, schema)
			}
			text = strings.ToValidUTF8(text, "\uFFFD") // a tokenizer yields valid UTF-8 only
			name, arguments, ok := ReadCall(text)
			if !ok {
				return
			}
			whole := strings.TrimSpace(text)
			if _, _, ok := ReadCall(whole[:len(whole)-1-len(choice)%len(whole)]); ok {
				t.Fatalf("a beginning of %q is read as a call", whole)
			}
			out, err := json.Marshal(
				map[string]any{"type": "function", "function": map[string]string{"name": name, "arguments": arguments}})
			if err != nil {
				t.Fatal(err)
			}
			for i := range 2 { // as the API has it, letter by letter, and as it is written here
				var c ToolCall
				if err := json.Unmarshal(out, &c); err != nil || c.Name != name || i == 0 && string(
					c.Arguments) != arguments || !reflect.DeepEqual(decoded(c.Arguments), decoded([]byte(arguments))) {
					t.Fatalf("%q came back as %q %q, %v; want %q %q", text, c.Name, c.Arguments, err, name, arguments)
				}
				if out, err = json.Marshal(&c); err != nil {
					t.Fatal(err)
				}
			}
			shown, err := template.Render([]Message{{Role: "assistant",
				ToolCalls: []ToolCall{{Name: name, Arguments: json.RawMessage(arguments)}}}}, RenderOptions{})
			if err != nil {
				fuzztest.Refusal(t, err, "chat: ")
				return
			}
			if _, err := jinja.FromJSON([]byte(arguments)); err != nil { // which a template gets as text
				return
			}
			again, back, ok := ReadCall(shown)
			var was, is any
			if json.Unmarshal([]byte(arguments), &was) != nil { // a number that no program could take
				return
			}
			if err := json.Unmarshal([]byte(back), &is); err != nil || !ok || again != name ||
				!reflect.DeepEqual(was, is) {
				t.Fatalf("%q is shown as %q: %q %q, %v", text, shown, again, back, err)
			}
		})
	})
}
