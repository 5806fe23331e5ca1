package chat

import (
	"bytes"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	"foretoken/models/chat/jinja"
	"foretoken/models/fuzztest"
	"foretoken/models/grammar"
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
		schema, told, err := ToolChoice(json.RawMessage(test.choice), callable, false)
		if told != test.told || !strings.Contains(string(schema), test.schema) ||
			(schema == nil) != (test.schema == "") {
			t.Errorf("%s: told %v, schema %s", test.choice, told, schema)
		}
		if test.err == "" && err != nil || test.err != "" && (err == nil || !strings.Contains(err.Error(), test.err)) {
			t.Errorf("%s: error %v, want one with %q", test.choice, err, test.err)
		}
	}
	if _, _, err := ToolChoice(json.RawMessage(`"required"`), nil, false); err == nil ||
		!strings.Contains(err.Error(), "there are no tools") {
		t.Errorf("a call of no tools: %v", err)
	}
	for tool, want := range map[string]string{
		`{"function": {"name": 1}}`:                    `tools[0] is {"function":{"name":1}}; want`,
		`{"function": {"name": "a", "parameters": 3}}`: "tools[0].function.parameters is 3; want a JSON Schema",
	} {
		_, _, err := ToolChoice(json.RawMessage(`"required"`), []json.RawMessage{json.RawMessage(tool)}, false)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", tool, err)
		}
	}
}

// TestCallSchema compiles the schemas of calls and follows texts with them. References within a tool's parameters begin
// at those parameters, whatever other tools define.
func TestCallSchema(t *testing.T) {
	var tools []json.RawMessage
	for _, tool := range []string{
		`"a", "parameters": {"properties": {"x": {"$ref": "#/$defs/v"}, "y": {"$ref": "#/definitions/w"}}, ` +
			`"required": ["x"], "$defs": {"v": {"type": "integer"}}, "definitions": {"w": {"$ref": "#/$defs/v"}}}`,
		`"b", "parameters": {"properties": {"x": {"$ref": "#/$defs/v"}}, "required": ["x"], ` +
			`"$defs": {"v": {"type": "array", "items": {"$ref": "#/$defs/v"}}}}`,
		`"c", "parameters": {"$id": "https://example.org/c", "properties": {"x": {"$ref": "#/properties/y"}, ` +
			`"y": {"const": 1}}, "required": ["x"]}`,
		`"d", "parameters": {"$id": "#d", "$ref": "#/$defs/v", "$defs": {"v": {"const": {"k": 1}}}}`,
		`"e", "parameters": {}`,
		`"f"`,
		`"g", "parameters": {"properties": {"next": {"$ref": "#"}}}`,
	} {
		tools = append(tools, json.RawMessage(`{"type": "function", "function": {"name": `+tool+`}}`))
	}
	bytes256 := grammar.NewVocab(257, func(id int32) []byte { return []byte{byte(id)} },
		func(id int32) bool { return id == 256 })
	allows := func(m *grammar.Matcher, text string) bool {
		s, ok := m.Start(), true
		for i := 0; i < len(text) && ok; i++ {
			s, ok = m.Accept(s, int32(text[i]))
		}
		return ok && s.CanEnd()
	}
	one := []string{`"a", {"x": 1}`, `"a", {"x":1,"y":2}`, `"b", {"x": [[], [[]]]}`, `"c", {"x": 1}`, `"d", {"k":1}`,
		`"e", {"z": null}`, `"f", {}`, `"g", {"next": {"next": {}}}`}
	none := []string{`"a", {"x": []}`, `"a", {"x": 1, "y": []}`, `"b", {"x": 1}`, `"c", {"x": 2}`, `"d", {}`,
		`"f", {"x": 1}`, `"g", {"next": 1}`, `"h", {}`, "\"f\",\n{}"}
	call := func(text string) string {
		name, arguments, _ := strings.Cut(text, ",")
		return `{"name": ` + name + `, "arguments":` + arguments + `}`
	}
	for _, several := range []bool{false, true} {
		schema, _, err := ToolChoice(json.RawMessage(`"required"`), tools, several)
		if err != nil {
			t.Fatal(err)
		}
		g, err := grammar.FromSchema(t.Context(), schema, grammar.SchemaOptions{Layout: grammar.Compact})
		if err != nil {
			t.Fatal(err)
		}
		m := grammar.NewMatcher(t.Context(), g, bytes256)
		for i, text := range append(one, none...) {
			if got, want := allows(m, call(text)), i < len(one); got != want {
				t.Errorf("several %v: %s is allowed: %v", several, call(text), got)
			}
		}
		list := "[" + call(one[0]) + "," + call(one[2]) + "]"
		for text, want := range map[string]bool{list: several, `[]`: false} {
			if got := allows(m, text); got != want {
				t.Errorf("several %v: %s is allowed: %v", several, text, got)
			}
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

// readAnswer reads an answer in pieces.
func readAnswer(pieces ...string) (content string, calls []ToolCall) {
	r := NewCallReader([]string{"open", "close", "f", "a\nb"}, false)
	for _, piece := range pieces {
		text, found := r.Push(piece)
		content, calls = content+text, append(calls, found...)
	}
	text, found := r.End()
	return content + text, append(calls, found...)
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
		`{"name": "f", "arguments": {}} {}`, `x <tool_call>{"name": "f"}</tool_call>`,
		"{\"name\":\n\"a\\nb\", \"arguments\": true}"} {
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
			schema, told, err := ToolChoice(json.RawMessage(choice), append(callable[:1:1], json.RawMessage(tool)),
				len(text)%2 > 0)
			switch {
			case err != nil:
				fuzztest.Refusal(t, err, "chat: ")
			case schema != nil && (!told || !json.Valid(schema)):
				t.Fatalf("told %v, schema %s", told, schema)
			}
			text = strings.ToValidUTF8(text, "\uFFFD") // a tokenizer yields valid UTF-8 only
			content, calls := readAnswer(text)
			said, found := readAnswer(split(text)...)
			same := func(a, b ToolCall) bool { return a.Name == b.Name && bytes.Equal(a.Arguments, b.Arguments) }
			if said != content || !slices.EqualFunc(calls, found, same) || calls == nil && content != text {
				t.Fatalf("%q is read as %q and %q, and byte by byte as %q and %q", text, content, calls, said, found)
			}
			whole := strings.TrimSpace(text)
			if len(calls) != 1 || !strings.HasPrefix(whole, "{") {
				return
			}
			name, arguments := calls[0].Name, string(calls[0].Arguments)
			if _, found := readAnswer(whole[:len(whole)-1-len(choice)%len(whole)]); found != nil {
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
			if _, err := jinja.FromJSON([]byte(arguments), new(1000)); err != nil { // which a template gets as text
				return
			}
			_, again := readAnswer(shown)
			var was, is any
			if json.Unmarshal([]byte(arguments), &was) != nil { // a number that no program could take
				return
			}
			if len(again) != 1 || json.Unmarshal(again[0].Arguments, &is) != nil || again[0].Name != name ||
				!reflect.DeepEqual(was, is) {
				t.Fatalf("%q is shown as %q: %q", text, shown, again)
			}
		})
	})
}
