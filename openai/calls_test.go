//go:build !js

package openai

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"foretoken"
	"foretoken/openai/openaitest"
	"foretoken/spec"
)

import ()

// TestCalls forces calls: the answer is one, and nothing else, streamed or not.
func TestCalls(t *testing.T) {
	w := open(t, nil)
	body := func(more string) string {
		return `{"model": "demo", "messages": [{"role": "user", "content": "open a file"}], "temperature": ` +
			`0, "max_tokens": 60, ` + openaitest.Tools + more + `}`
	}
	type message struct {
		Role    string
		Content *string
		Calls   []openaitest.ToolCall `json:"tool_calls"`
	}
	type answer struct {
		Choices []struct {
			Message, Delta *message
			Finish         *string `json:"finish_reason"`
		}
	}
	fits := func(c openaitest.ToolCall, names string) {
		t.Helper()
		var arguments struct {
			Path *string
			Mode string
		}
		if err := json.Unmarshal([]byte(c.Function.Arguments), &arguments); err != nil || c.Type != "function" ||
			len(c.ID) != 9 || !strings.Contains(names, c.Function.Name) {
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
		if a := w.do(chatPath, body(asked)); json.Unmarshal(a.body, &whole) != nil || len(whole.Choices) != 1 {
			t.Fatalf("%s: %s", choice, a.body)
		}
		one := whole.Choices[0]
		if one.Message.Content != nil || len(one.Message.Calls) != 1 || *one.Finish != "tool_calls" {
			t.Fatalf("%s: %+v", choice, one.Message)
		}
		fits(one.Message.Calls[0], names)
		var calls []openaitest.ToolCall
		finish := ""
		for _, line := range strings.Split(string(w.do(chatPath, body(asked+`, "stream": true`)).body), "\n") {
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
	if a := w.do(chatPath, strings.Replace(body(`, "tool_choice": "required"`), `"max_tokens": 60`,
		`"max_tokens": 3`, 1)); json.Unmarshal(a.body, &cut) != nil {
		t.Fatalf("%s", a.body)
	}
	if c := cut.Choices[0]; c.Message.Content == nil || c.Message.Calls != nil || *c.Finish != "length" {
		t.Errorf("cut short: %+v", c.Message)
	}
}

// TestCallsByChoice lets the model choose: calls in its answer come as calls, streamed or not, and all else as text.
func TestCallsByChoice(t *testing.T) {
	w := open(t, nil)
	indexed := func(c openaitest.ToolCall) bool { return c.Index != nil }
	for _, row := range []struct {
		more, answer, content string
		calls                 string // each call's name and arguments
	}{
		{``, `<tool_call>|{"name": "open", "arguments": {"path": |9007199254740993, "mode": 1.0}}</tool|_call>`, ``,
			`open{"path":9007199254740993,"mode":1.0}`},
		{`, "tool_choice": "auto"`, `{"name": |"open", "parameters": {}}`, ``, `open{}`},
		{`, "n": 3`, `I look: |<tool_call>{"name": "close"}</tool_call>|<tool_call>{"name": "open"}</tool_call>`,
			`I look: `, `close{} open{}`},
		{`, "n": 2, "parallel_tool_calls": true`, `[{"name": "close"}, |{"name": "open"}]`, ``, `close{} open{}`},
		{`, "parallel_tool_calls": false`, `<tool_call>{"name": "close"}|</tool_call>{"name": "open"} x`, ``,
			`close{}`},
		{`, "max_tokens": 9, "parallel_tool_calls": false`, `<tool_call>{"name": "close"}</tool|_call>|never| decoded`,
			``, `close{}`},
		{`, "parallel_tool_calls": null`, `<tool_call>|{"name": "delete"}</tool_call>`,
			`<tool_call>{"name": "delete"}</tool_call>`, ``},
		{`, "max_tokens": 9`, `<tool_call>{"name": "close"}</tool_call>|<tool_call>{"na`, `<tool_call>{"na`,
			`close{}`},
		{`, "tool_choice": "none"`, `{"name": "close"}`, `{"name": "close"}`, ``},
		{`, "logprobs": true`, `{"name"|: "close"}`, ``, `close{}`},
		{``, `a <|b`, `a <b`, ``},
		{``, ` `, ` `, ``},
	} {
		pieces := strings.Split(row.answer, "|")
		w.engine.OnGenerate = func(_ context.Context, _ []int32, r foretoken.Request,
			emit func(*foretoken.Event) error) (*foretoken.Result, error) {
			text := ""
			for i, piece := range pieces {
				if text += piece; piece == "never" {
					t.Errorf("%s: decoded on", row.answer)
				}
				e := &foretoken.Event{Text: piece, Round: &spec.Event{}}
				if r.LogProbs {
					e.Tokens = []foretoken.Token{{ID: int32(i + 65), LogProb: new(float32)}}
				}
				if err := emit(e); err != nil {
					return nil, err
				}
				if r.Until != nil && r.Until(piece) {
					return &foretoken.Result{Text: text, Finish: spec.FinishStop}, nil
				}
			}
			result := &foretoken.Result{Text: text, Finish: spec.FinishEOS}
			if r.MaxTokens == 9 {
				result.Finish = spec.FinishLength
			}
			return result, nil
		}
		body := `{"model": "demo", "messages": [{"role": "user", "content": "x"}], ` + openaitest.Tools + row.more
		whole := w.complete(chatPath, body+"}")
		streamed, _ := openaitest.Events(t, w.do(chatPath, body+`, "stream": true}`).body)
		n, finish := 1, "stop"
		if _, err := fmt.Sscanf(row.more, `, "n": %d`, &n); err != nil {
			n = 1
		}
		if row.calls != "" {
			finish = "tool_calls"
		}
		// it ended within another call
		if strings.Contains(row.more, "max_tokens") && !strings.Contains(row.more, "false") {
			finish = "length"
		}
		for i := range n {
			var got openaitest.Said
			ended, logprobs := "", 0
			for _, p := range streamed {
				if c := p.Choices[0]; c.Index == i {
					got.Content += c.Delta.Content
					for _, call := range c.Delta.Calls {
						if call.Index == nil || *call.Index != len(got.Calls) {
							t.Errorf("%s: call %d has the index %v", row.answer, len(got.Calls), call.Index)
						}
						got.Calls = append(got.Calls, call)
					}
					if c.Finish != nil {
						ended += *c.Finish
					}
					if c.Logprobs != nil {
						logprobs += len(c.Logprobs.Content)
					}
				}
			}
			one := whole.Choices[i]
			if one.Logprobs != nil && (logprobs != len(pieces) || len(one.Logprobs.Content) != logprobs) {
				t.Errorf("%s: %d log-probabilities streamed, %d at once", row.answer, logprobs,
					len(one.Logprobs.Content))
			}
			for how, is := range map[string]openaitest.Said{"streamed": got, "at once": *one.Message} {
				var calls []string
				for _, c := range is.Calls {
					calls = append(calls, c.Function.Name+c.Function.Arguments)
				}
				if is.Content != row.content || strings.Join(calls, " ") != row.calls || ended != finish ||
					*one.Finish != finish || how == "at once" && slices.ContainsFunc(is.Calls, indexed) {
					t.Errorf("%s, text %d %s: %q, calls %q, finish %s and %s", row.answer, i, how, is.Content, calls,
						ended, *one.Finish)
				}
			}
		}
	}
	// A list of calls is allowed where several are asked for, and the layout is compact unless asked otherwise.
	for more, want := range map[string]string{
		`"required"`: `true anyOf`,
		`"required", "parallel_tool_calls": true`:                                         `true $defs`,
		`{"type": "function", "function": {"name": "open"}}, "parallel_tool_calls": true`: `true anyOf`,
		`"required", "foretoken": {"json_compact": false}`:                                `false anyOf`,
	} {
		w.engine.OnGenerate = func(_ context.Context, _ []int32, r foretoken.Request, _ func(*foretoken.Event) error) (
			*foretoken.Result, error) {
			return &foretoken.Result{Text: fmt.Sprintf("%v %.5s", r.JSONCompact, r.JSONSchema[2:])}, nil
		}
		body := `{"model": "demo", "messages": [{"role": "user", "content": "x"}], "tool_choice": ` + more +
			", " + openaitest.Tools
		if got := w.complete(chatPath, body+"}").Choices[0].Message.Content; got != want {
			t.Errorf("%s: layout and schema %s, want %s", more, got, want)
		}
	}
}

// TestOpenAndUnchecked asks for open schemas and for keywords that need not be held to, in every form and way: the
// engine gets both settings, and each answer names the keywords that were left out.
func TestOpenAndUnchecked(t *testing.T) {
	w := open(t, func(c *Options) { c.Defaults.Unchecked = []string{"not"} })
	const schema = `{"type": "object"}`
	const settings = `, "n": 2, "foretoken": {"json_open": true, "unchecked": ["uniqueItems"]}`
	left := []string{"/properties/a/uniqueItems"}
	w.engine.OnGenerate = func(_ context.Context, _ []int32, r foretoken.Request, _ func(*foretoken.Event) error) (
		*foretoken.Result, error) {
		result := &foretoken.Result{Text: fmt.Sprint(r.JSONOpen, r.Unchecked), Finish: spec.FinishEOS}
		if r.JSONOpen {
			result.Unchecked = left
		}
		return result, nil
	}
	for _, form := range []string{`"json_schema": ` + schema, `"response_format": {"type": "json_object"}`,
		`"response_format": {"type": "json_schema", "json_schema": {"schema": ` + schema + `}}`,
		`"tool_choice": "required", ` + openaitest.Tools} {
		for path, asked := range map[string]string{
			textPath: `{"model": "demo", "prompt": "x", `,
			chatPath: `{"model": "demo", "messages": [{"role": "user", "content": "x"}], `,
		} {
			if path == textPath && strings.Contains(form, "tool") {
				continue
			}
			asked += form
			whole := w.complete(path, asked+settings+"}")
			pieces, _ := openaitest.Events(t, w.do(path, asked+settings+`, "stream": true}`).body)
			last := pieces[len(pieces)-1]
			if !slices.Equal(whole.Usage.Foretoken.Unchecked, left) || len(last.Choices) > 0 || last.Usage == nil ||
				!slices.Equal(last.Usage.Foretoken.Unchecked, left) {
				t.Errorf("%s: unchecked %v, streamed %+v", asked, whole.Usage.Foretoken.Unchecked, last)
			}
			if whole := w.complete(path, asked+"}"); whole.Usage.Foretoken.Unchecked != nil {
				t.Errorf("%s: without settings unchecked %v", asked, whole.Usage.Foretoken.Unchecked)
			}
			if path == textPath && (*whole.Choices[1].Text != "true [uniqueItems]" ||
				*w.complete(path, asked+"}").Choices[0].Text != "false [not]") {
				t.Errorf("%s: the engine got %s", asked, *whole.Choices[1].Text)
			}
			if path == chatPath && whole.Choices[0].Message.Content != "true [uniqueItems]" {
				t.Errorf("%s: the engine got %s", asked, whole.Choices[0].Message.Content)
			}
			pieces, _ = openaitest.Events(t, w.do(path, asked+`, "stream": true}`).body)
			if last := pieces[len(pieces)-1]; last.Usage != nil {
				t.Errorf("%s: usage that nobody asked for: %+v", asked, last.Usage)
			}
		}
	}
}
