//go:build !js

package openai

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"foretoken"
	"foretoken/internal/quote"
	"foretoken/models/constrain"
	"foretoken/spec"
)

import ()

// TestBeyondTheModel asks for more than the models do: the refusal is the client's, names the bound, and is short.
func TestBeyondTheModel(t *testing.T) {
	t.Attr("attack", "settings beyond the models, names of a megabyte")
	t.Attr("bound", "400 with the bound, in one line of 2,000 bytes")
	longest := 0
	w := open(t, nil)
	long := strings.Repeat("n", 1<<20)
	for _, c := range []struct{ more, param, says string }{
		{`"foretoken": {"policy": "chain", "depth": 64}`, "foretoken", "64"},
		{`"foretoken": {"policy": "eagle2", "nodes": 4096}`, "foretoken", "64"},
		{`"foretoken": {"policy": "eagle2", "top_k": 64, "nodes": 64}`, "foretoken", "draft model keeps at most 16"},
		{`"foretoken": {"policy": "hetero", "alpha": 1000000}`, "foretoken", "alpha is 1000000, want -64 to 64"},
		{`"foretoken": {"policy": "eagle3"}`, "foretoken", "--eagle3"},
		{`"foretoken": []`, "foretoken", "want an object"},
		{`"foretoken": {"depth": "x"}`, "foretoken.depth", "depth is a string, want a whole number"},
		{`"foretoken": {"top_k_sampling": 2}`, "foretoken.top_k_sampling", "give top_k beside foretoken"},
		{`"foretoken": {"policy": "static", "shape": [[0]], "depth": null}`, "foretoken",
			"shape has no nodes at level 1"},
		{`"foretoken": {"` + long + `": 1}`, "foretoken." + quote.Name(long), "is unknown"},
		{`"foretoken": {"policy": "` + long + `"}`, "foretoken", "policy is"},
		{`"` + long + `": 1`, Brief([]byte(long)), "there is no parameter"},
	} {
		a := w.do(textPath, `{"model": "demo", "prompt": "a", "max_tokens": 4, `+c.more+`}`)
		longest = max(longest, len(a.body))
		code, param, message := a.refusal(t)
		if a.status != 400 || param != c.param || !strings.Contains(message, c.says) || len(a.body) > 2000 {
			t.Errorf("%s: %d %s %q: %.300s", Brief([]byte(c.more)), a.status, code, param, message)
		}
	}
	t.Attr("measured", fmt.Sprintf("answers of at most %d bytes", longest))
}

// TestLongPrompts sends more bytes than a context can hold: they are refused before they are tokenised.
func TestLongPrompts(t *testing.T) {
	t.Attr("attack", "a prompt of megabytes")
	t.Attr("bound",
		"the context times the bytes of the longest token, before it is tokenised, which has turns of its own")
	w := open(t, nil)
	long := strings.Repeat(" ", 4<<20-200)
	for path, body := range map[string]string{
		textPath: `{"model": "demo", "prompt": "` + long + `"}`,
		chatPath: `{"model": "demo", "messages": [{"role": "user", "content": "` + long + `"}]}`,
	} {
		a := w.do(path, body)
		if code, _, message := a.refusal(t); a.status != 400 || code != "context_length_exceeded" ||
			!strings.Contains(message, "bytes") {
			t.Errorf("%s: %d %s", path, a.status, a.body)
		}
	}
}

// TestConversationsBeyondTheContext: whatever makes a conversation long, it is refused by its bytes before it is
// tokenised, and what takes a template too long by its steps.
func TestConversationsBeyondTheContext(t *testing.T) {
	t.Attr("attack", "megabytes in a conversation's tools, names, calls and variables; variables in place of messages")
	t.Attr("bound", "4 million steps and 48 MiB for the template; the context times the bytes of the longest token")
	w := open(t, func(c *Options) {
		c.Template = "{% for m in messages %}{{ m.content }}{{ m.name }}{{ m.reasoning_content }}" +
			"{% for c in m.tool_calls or [] %}{{ c | tojson(indent=4) }}{% endfor %}{% endfor %}{{ tools }}" +
			"{% if loops %}{% for i in range(loops) %}{% for j in range(loops) %}{% endfor %}{% endfor %}{% endif %}" +
			"{% if doubles %}{% set ns = namespace(s=doubles) %}{% for i in range(30) %}{% set ns.s = ns.s ~ ns.s %}" +
			"{% endfor %}{% endif %}"
	})
	long := strings.Repeat("<|", 1<<20)
	call := `{"id": "a", "type": "function", "function": {"name": "f", "arguments": {"a": ` +
		strings.Repeat("[", 40) + strings.Repeat("[],", 30000) + "[]" + strings.Repeat("]", 40) + `}}}`
	for _, c := range []struct{ body, code, param, message string }{
		{`"messages": [{"role": "user", "content": "a", "name": "` + long + `"}]`, "context_length_exceeded",
			"messages",
			"bytes"},
		{`"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "a", "reasoning_content": "` +
			long + `"}]`, "context_length_exceeded", "messages", "bytes"},
		{`"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "tool_calls": [` + call + `]}]`,
			"context_length_exceeded", "messages", "bytes"},
		{`"messages": [{"role": "user", "content": "a"}], "tools": [{"type": "function", "function": {"name": "f", ` +
			`"description": "` + long + `"}}]`, "context_length_exceeded", "messages", "bytes"},
		{`"messages": [{"role": "user", "content": "a"}], "chat_template_kwargs": {"loops": 30000}`, "invalid_value",
			"messages", "4000000 steps"},
		{`"messages": [{"role": "user", "content": "a"}], "chat_template_kwargs": {"doubles": "abcd"}`, "invalid_value",
			"messages", "50331648 bytes"},
		{`"messages": [{"role": "user", "content": "a"}], "chat_template_kwargs": {"messages": []}`, "invalid_value",
			"chat_template_kwargs", "messages"},
	} {
		a := w.do(chatPath, `{"model": "demo", `+c.body+`}`)
		if code, param, message := a.refusal(t); a.status != 400 || code != c.code || param != c.param ||
			!strings.Contains(message, c.message) {
			t.Errorf("%.200s…\n%d %s", c.body, a.status, a.body)
		}
	}
}

// TestFormsAreCompiledInTheTurn reads a request whose grammar is wrong: its turn tells, and ends with the client.
func TestFormsAreCompiledInTheTurn(t *testing.T) {
	t.Attr("attack", "a schema or grammar that compiles for long")
	t.Attr("bound", "compiled in the request's own turn, which ends with its client")
	o := Options{Defaults: DefaultRequest()}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	for name, form := range map[string]string{"grammar": `"root ::= ["`, "json_schema": `{"not": {}}`} {
		q, err := Parse([]byte(`{"model": "demo", "prompt": "a", "`+name+`": `+form+`}`), Completions, &o)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if err := q.compile(gone); err != context.Canceled {
			t.Errorf("%s of a client that left: %v", name, err)
		}
		if err, ok := q.compile(t.Context()).(*Error); !ok || err.Status != 400 || *err.Param != name {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestFormsAreCompiledOnce asks for several texts of one form: all get the grammar that the request compiled.
func TestFormsAreCompiledOnce(t *testing.T) {
	t.Attr("attack", "many texts of one schema or grammar")
	t.Attr("bound", fmt.Sprintf("%v texts a request, and the form is compiled once", limitN.Most))
	large := `root ::= [` + strings.Repeat("a-z", 100000) + `]`
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if err := (&constrain.Constraints{Grammar: large}).Compile(gone); !errors.Is(err, context.Canceled) {
		t.Fatalf("a grammar compiles in no time: %v", err)
	}
	w := open(t, nil)
	texts := 0
	w.engine.OnGenerate = func(_ context.Context, _ []int32, r foretoken.Request,
		_ func(*foretoken.Event) error) (*foretoken.Result, error) {
		texts++
		if err := r.Compile(gone); err != nil || r.Grammar != large {
			t.Errorf("text %d of %.30s: %v", texts, r.Grammar, err)
		}
		r.Grammar += " "
		if err := r.Compile(gone); !errors.Is(err, context.Canceled) {
			t.Errorf("another grammar is taken for the same: %v", err)
		}
		return &foretoken.Result{Text: "x", Finish: spec.FinishLength}, nil
	}
	a := w.do(textPath, `{"model": "demo", "prompt": ["a", "b"], "n": 3, "grammar": "`+large+`"}`)
	if a.status != 200 || texts != 6 {
		t.Errorf("%d texts: %d %s", texts, a.status, a.body)
	}
	t.Attr("measured", fmt.Sprintf("%d texts of one compilation", texts))
}
