package chat

import (
	"encoding/json"
	"strings"
	"testing"
)

var callable = []json.RawMessage{
	json.RawMessage(`{"type": "function", "function": {"name": "open", "parameters": {"type": "object", "properties": {"path": {"$ref": "#/$defs/path"}}, "required": ["path"], "$defs": {"path": {"type": "string"}}}}}`),
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
		{choice: `{"type": "function", "function": {"name": "delete"}}`, told: true, err: `"delete", which is none of the tools`},
		{choice: `"any"`, err: `tool_choice is "any"`},
		{choice: `{"type": "allowed_tools"}`, err: "tool_choice is"},
	} {
		schema, told, err := ToolChoice(json.RawMessage(test.choice), callable)
		if told != test.told || !strings.Contains(string(schema), test.schema) || (schema == nil) != (test.schema == "") {
			t.Errorf("%s: told %v, schema %s", test.choice, told, schema)
		}
		if test.err == "" && err != nil || test.err != "" && (err == nil || !strings.Contains(err.Error(), test.err)) {
			t.Errorf("%s: error %v, want one with %q", test.choice, err, test.err)
		}
	}
	schema, _, _ := ToolChoice(json.RawMessage(`"required"`), callable)
	want := `{"$defs":{"path":{"type":"string"}},"anyOf":[{"type":"object","properties":{"name":{"const":"open"},"arguments":`
	if !strings.HasPrefix(string(schema), want) {
		t.Errorf("schema %s", schema)
	}
	if _, _, err := ToolChoice(json.RawMessage(`"required"`), nil); err == nil || !strings.Contains(err.Error(), "there are no tools") {
		t.Errorf("a call of no tools: %v", err)
	}
	twice := append(callable[:1:1], json.RawMessage(`{"type": "function", "function": {"name": "b", "parameters": {"$defs": {"path": {"type": "null"}}}}}`))
	if _, _, err := ToolChoice(json.RawMessage(`"required"`), twice); err == nil || !strings.Contains(err.Error(), `define "path"`) {
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
