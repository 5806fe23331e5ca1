//go:build !js

package openai

import (
	"encoding/json"
	"strings"
	"testing"
)

const callTools = `"tools": [
	{"type": "function", "function": {"name": "open", "parameters": {"type": "object", "properties":
		{"path": {"type": "string", "maxLength": 6}, "mode": {"enum": ["r", "w"]}}, "required": ["path", "mode"],
		"additionalProperties": false}}},
	{"type": "function", "function": {"name": "close"}}]`

// TestCalls forces calls: the answer is one, and nothing else, streamed or not.
func TestCalls(t *testing.T) {
	w := serve(t, nil)
	body := func(more string) string {
		return `{"model": "demo", "messages": [{"role": "user", "content": "open a file"}], "temperature": ` +
			`0, "max_tokens": 60, ` + callTools + more + `}`
	}
	type message struct {
		Role    string
		Content *string
		Calls   []toolCall `json:"tool_calls"`
	}
	type answer struct {
		Choices []struct {
			Message, Delta *message
			Finish         *string `json:"finish_reason"`
		}
	}
	fits := func(c toolCall, names string) {
		t.Helper()
		var arguments struct {
			Path *string
			Mode string
		}
		if err := json.Unmarshal([]byte(c.Function.Arguments), &arguments); err != nil || c.Type != "function" ||
			!strings.HasPrefix(c.ID, "call_") || !strings.Contains(names, c.Function.Name) {
			t.Errorf("call %+v: %v", c, err)
		}
		if c.Function.Name == "open" && (arguments.Path == nil || len([]rune(*arguments.Path)) > 6 ||
			arguments.Mode != "r" && arguments.Mode != "w") || c.Function.Name == "close" &&
			c.Function.Arguments != "{}" {
			t.Errorf("arguments %s", c.Function.Arguments)
		}
	}
	for choice, names := range map[string]string{
		`"required"`: "open close",
		`{"type": "function", "function": {"name": "open"}}`:  "open",
		`{"type": "function", "function": {"name": "close"}}`: "close",
	} {
		asked := `, "tool_choice": ` + choice
		var whole answer
		if a := w.do("POST", chatPath, body(asked)); json.Unmarshal(a.body, &whole) != nil || len(whole.Choices) != 1 {
			t.Fatalf("%s: %s", choice, a.body)
		}
		one := whole.Choices[0]
		if one.Message.Content != nil || len(one.Message.Calls) != 1 || *one.Finish != "tool_calls" {
			t.Fatalf("%s: %+v", choice, one.Message)
		}
		fits(one.Message.Calls[0], names)
		var calls []toolCall
		finish := ""
		for _, line := range strings.Split(string(w.do("POST", chatPath, body(asked+`, "stream": true`)).body), "\n") {
			data, ok := strings.CutPrefix(line, "data: {")
			if !ok {
				continue
			}
			var p answer
			if err := json.Unmarshal([]byte("{"+data), &p); err != nil {
				t.Fatal(err)
			}
			if d := p.Choices[0].Delta; d.Content != nil {
				t.Errorf("%s: a piece of text %q", choice, *d.Content)
			} else {
				calls = append(calls, d.Calls...)
			}
			if f := p.Choices[0].Finish; f != nil {
				finish += *f
			}
		}
		if len(calls) != 1 || finish != "tool_calls" || calls[0].Index == nil ||
			calls[0].Function != one.Message.Calls[0].Function {
			t.Errorf("%s: streamed %+v (%s), want %+v", choice, calls, finish, one.Message.Calls)
		}
	}
	// A call that was cut short is returned as text.
	var cut answer
	if a := w.do("POST", chatPath, strings.Replace(body(`, "tool_choice": "required"`), `"max_tokens": 60`,
		`"max_tokens": 3`, 1)); json.Unmarshal(a.body, &cut) != nil {
		t.Fatalf("%s", a.body)
	}
	if c := cut.Choices[0]; c.Message.Content == nil || c.Message.Calls != nil || *c.Finish != "length" {
		t.Errorf("cut short: %+v", c.Message)
	}
}
