//go:build !js

package openai

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"foretoken"
	"foretoken/models/constrain"
	"foretoken/models/demo"
	"foretoken/openai/openaitest"
	"foretoken/spec/method"
)

import ()

// TestNeutralFieldsAreTaken sends what clients write although it asks for nothing.
func TestNeutralFieldsAreTaken(t *testing.T) {
	w := open(t, nil)
	w.complete(chatPath,
		`{"model": "demo", "messages": [{"role": "developer", "content": [{"type": "text", "text": "a"},
		{"type": "text", "text": "b"}]},
		{"role": "assistant", "content": null, "refusal": null, "annotations": [], "tool_calls": [{"id": "1",
		"type": "function", "function": {"name": "f", "arguments": "{}"}}]},
		{"role": "tool", "content": "x", "tool_call_id": "1"}], "max_completion_tokens": 1, "n": null,
		"stop": null, "frequency_penalty": 0.0, "presence_penalty": 0, "logit_bias": {},
		"response_format": { "type": "text" }, "logprobs": false, "stream": false, "stream_options": null,
		"user": "u", "metadata": {"a": "b"}, "store": false, "service_tier": "auto",
		"tools": [{"type": "function", "function": {"name": "f"}}], "tool_choice": "auto",
		"parallel_tool_calls": true, "seed": -1, "modalities": ["text"], "top_p": 1, "top_k": 0, "min_p": 0}`)
	w.complete(textPath, `{"model": "demo", "prompt": "func", "max_tokens": 1, "best_of": 1, "echo": false, "suffix": `+
		`null, "logprobs": null}`)
}

// TestTextsAreThoseOfTheSession compares every way to ask with the session's own text.
func TestTextsAreThoseOfTheSession(t *testing.T) {
	w := open(t, nil)
	s, ctx := w.engine.Session, context.Background()
	want := func(ids []int32, seed uint64) *foretoken.Result {
		r := foretoken.DefaultRequest()
		r.MaxTokens, r.Temperature, r.Seed, r.Policy = 10, 0.9, seed, "none"
		got, err := s.GenerateIDs(ctx, ids, r, nil)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	talkIDs, err := s.ChatIDs(foretoken.ChatOptions{Template: openaitest.Template,
		Messages: []foretoken.Message{{Role: "system", Content: "go"}, {Role: "user", Content: "close a file"}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	textIDs := s.Tokenizer().Encode("func main() {", true)
	const settings = `, "model": "demo", "max_tokens": 10, "temperature": 0.9, "seed": 7`
	for _, c := range []struct {
		path, body string
		ids        []int32
		texts      int
	}{
		{textPath, `{"prompt": "func main() {"` + settings, textIDs, 1},
		{textPath, `{"prompt": "func main() {", "n": 2` + settings, textIDs, 2},
		{textPath, `{"prompt": [` + strings.Trim(strings.Join(strings.Fields(fmt.Sprint(textIDs)), ","), "[]") + `]` +
			settings, textIDs, 1},
		{chatPath, `{"messages": [{"role": "system", "content": "go"}, {"role": "user", "content": "close a file"}]` +
			settings, talkIDs, 1},
	} {
		whole := w.complete(c.path, c.body+"}")
		if len(whole.Choices) != c.texts || whole.Usage == nil || whole.Usage.Prompt != len(c.ids) ||
			whole.Usage.Foretoken.Seed != 7 || whole.Usage.Foretoken.Stats.Accepted < 1 {
			t.Fatalf("%s: %+v", c.body, whole)
		}
		a := w.do(c.path, c.body+`, "stream": true, "stream_options": {"include_usage": true}}`)
		pieces, done := openaitest.Events(t, a.body)
		last := pieces[len(pieces)-1]
		if !done || len(last.Choices) != 0 ||
			last.Usage == nil || last.Usage.Output != whole.Usage.Output {
			t.Errorf("%s: the stream is %s", c.body, a.body)
		}
		if last.Usage.Details.Cached != len(c.ids)-1 {
			t.Errorf("%s: asked again, %d of %d prompt tokens were held", c.body, last.Usage.Details.Cached, len(c.ids))
		}
		tokens := 0
		for i := range c.texts {
			reference := want(c.ids, 7+uint64(i))
			tokens += len(reference.TokenIDs)
			streamed, finish := "", ""
			for _, p := range pieces[:len(pieces)-1] {
				if p.ID != pieces[0].ID || p.Usage != nil || len(p.Choices) != 1 {
					t.Fatalf("a piece %+v", p)
				}
				if p.Choices[0].Index != i {
					continue
				}
				if p.Choices[0].Delta != nil {
					streamed += p.Choices[0].Delta.Content
				} else {
					streamed += *p.Choices[0].Text
				}
				if p.Choices[0].Finish != nil {
					finish += *p.Choices[0].Finish
				}
			}
			got := ""
			if m := whole.Choices[i].Message; m != nil {
				got = m.Content
			} else {
				got = *whole.Choices[i].Text
			}
			if got != reference.Text || streamed != reference.Text || finish != "length" ||
				*whole.Choices[i].Finish != "length" {
				t.Errorf("%s: text %d is %q, streamed %q (%s), want %q", c.body, i, got, streamed, finish,
					reference.Text)
			}
		}
		if whole.Usage.Output != tokens || whole.Usage.Total != tokens+len(c.ids) {
			t.Errorf("%s: %d tokens counted, want %d", c.body, whole.Usage.Output, tokens)
		}
	}
	// A method that a request names changes how it is decoded, and not what.
	plain := w.complete(textPath, `{"prompt": "func main() {"`+settings+`, "foretoken": {"policy": "none"}}`)
	if *plain.Choices[0].Text != want(textIDs, 7).Text || plain.Usage.Foretoken.Policy != "none" ||
		plain.Usage.Foretoken.Stats.Accepted != 1 {
		t.Errorf("plain decoding: %+v", plain)
	}
}

func TestStopStrings(t *testing.T) {
	w := open(t, nil)
	whole := *w.complete(textPath,
		`{"model": "demo", "prompt": "func main() {", "max_tokens": 12, "temperature": 0}`).Choices[0].Text
	stop := strings.TrimSpace(whole)[3:6]
	want, _, _ := strings.Cut(whole, stop)
	for _, value := range []string{fmt.Sprintf("%q", stop), fmt.Sprintf(`["never, this", %q]`, stop)} {
		got := w.complete(textPath,
			`{"model": "demo", "prompt": "func main() {", "max_tokens": 12, "temperature": 0, "stop": `+value+`}`)
		if *got.Choices[0].Text != want || *got.Choices[0].Finish != "stop" {
			t.Errorf("stopping at %s: %q (%s), want %q", value, *got.Choices[0].Text, *got.Choices[0].Finish, want)
		}
	}
}

// TestLogprobs compares with the session's scores of the complete text.
func TestLogprobs(t *testing.T) {
	w := open(t, nil)
	s := w.engine.Session
	prompt := s.Tokenizer().Encode("func main() {", true)
	r := foretoken.DefaultRequest()
	r.MaxTokens, r.Temperature, r.Seed = 8, 0.5, 3
	reference, err := s.GenerateIDs(context.Background(), prompt, r, nil)
	if err != nil {
		t.Fatal(err)
	}
	scores, err := s.Score(context.Background(), append(slices.Clone(prompt), reference.TokenIDs...))
	if err != nil {
		t.Fatal(err)
	}
	scores = scores[len(prompt)-1:]
	body := `{"model": "demo", "prompt": "func main() {", "max_tokens": 8, "temperature": 0.5, "seed": 3, "logprobs": 2`
	got := w.complete(textPath, body+"}").Choices[0].Logprobs
	if got == nil || strings.Join(got.Tokens, "") != reference.Text || len(got.Own) != len(scores) ||
		len(got.Top) != len(scores) {
		t.Fatalf("%+v, want %d tokens of %q", got, len(scores), reference.Text)
	}
	for i, p := range got.Own {
		if math.Abs(p-float64(scores[i])) > 1e-4 {
			t.Errorf("token %d: %v, scored %v", i, p, scores[i])
		}
		if len(got.Top[i]) != 2 || i > 0 && got.Offset[i] != got.Offset[i-1]+len(got.Tokens[i-1]) ||
			got.Offset[0] != len("func main() {") {
			t.Errorf("token %d: %v at %v", i, got.Top[i], got.Offset)
		}
	}
	pieces, _ := openaitest.Events(t, w.do(textPath, body+`, "stream": true}`).body)
	var streamed []float64
	for _, p := range pieces {
		if l := p.Choices[0].Logprobs; l != nil {
			streamed = append(streamed, l.Own...)
		}
	}
	if !slices.Equal(streamed, got.Own) {
		t.Errorf("streamed %v, whole %v", streamed, got.Own)
	}
	talk := w.complete(chatPath, `{"model": "demo", "messages": [{"role": "user", "content": "hi"}], "max_tokens": `+
		`4, "temperature": 0, "logprobs": true, "top_logprobs": 3}`)
	for i, c := range talk.Choices[0].Logprobs.Content {
		total := 0.0
		for _, top := range c.Top {
			total += math.Exp(top.Logprob)
		}
		if len(c.Top) != 3 || c.Top[0].Token != c.Token || c.Top[0].Logprob != c.Logprob || total > 1.0001 ||
			len(c.Bytes) != len(c.Token) {
			t.Errorf("token %d of a greedy text: %+v", i, c)
		}
	}
}

// TestConstrained checks texts against the requested form and against the session's text under the same
// constraints.
func TestConstrained(t *testing.T) {
	w := open(t, nil)
	r := foretoken.DefaultRequest()
	r.MaxTokens, r.Policy = 80, method.DrafterNone
	prompt := w.engine.Tokenizer().Encode("func", true)
	const schema = `{"type":"object","properties":{"ok":{"type":"boolean"},"n":{"type":"integer","minimum":3,` +
		`"maximum":12}},"required":["ok","n"]}`
	for field, c := range map[string]constrain.Constraints{
		`"response_format": {"type": "json_schema", "json_schema": {"name": "x", "strict": true, "schema": ` + schema +
			`}}`: {JSONSchema: json.RawMessage(schema), JSONCompact: true},
		`"json_schema": ` + schema:                       {JSONSchema: json.RawMessage(schema)},
		`"response_format": {"type": "json_object"}`:     {JSONObject: true, JSONCompact: true},
		`"grammar": "root ::= \"a\" [b-d]{3}"`:           {Grammar: `root ::= "a" [b-d]{3}`},
		`"frequency_penalty": 1, "presence_penalty": -1`: {FrequencyPenalty: 1, PresencePenalty: -1},
		`"logit_bias": {"40": -100, "41": 5}`:            {LogitBias: map[int32]float32{40: -100, 41: 5}},
	} {
		r.Constraints = c
		want, err := w.engine.Session.GenerateIDs(context.Background(), prompt, r, nil)
		if err != nil {
			t.Fatal(err)
		}
		got := w.complete(textPath, `{"model": "demo", "prompt": "func", "max_tokens": 80, "temperature": `+
			`0, "foretoken": {"policy": "eagle2", "depth": 2, "top_k": 2, "nodes": 5}, `+field+`}`)
		if text := *got.Choices[0].Text; text != want.Text || len(c.JSONSchema) > 0 && !json.Valid([]byte(text)) ||
			c.Grammar != "" && len(text) != 4 || c.JSONCompact && strings.ContainsAny(text, "\t\n") {
			t.Errorf("%s: %q, the session decodes %q", field, text, want.Text)
		}
	}
}

// TestEchoAndStopTokens compares texts with those of the same request without the fields.
func TestEchoAndStopTokens(t *testing.T) {
	w := open(t, nil)
	const prompt = "func main() {"
	for _, policy := range []string{"none", "eagle2", "auto"} {
		request := `{"model": "demo", "prompt": "` + prompt + `", "max_tokens": 12, "temperature": 0, "foretoken": ` +
			`{"policy": "` + policy + `"}`
		plain := *w.complete(textPath, request+`}`).Choices[0].Text
		ids := w.engine.Tokenizer().Encode(plain, false)
		if got := *w.complete(textPath, request+`, "echo": true}`).Choices[0].Text; got != prompt+plain {
			t.Errorf("%s: echo: %q, want %q", policy, got, prompt+plain)
		}
		stop := ids[3]
		want := w.engine.Tokenizer().Decode(ids[:slices.Index(ids, stop)+1])
		c := w.complete(textPath, fmt.Sprintf(`%s, "stop_token_ids": [%d]}`, request, stop)).Choices[0]
		if *c.Text != want || *c.Finish != "stop" {
			t.Errorf("%s: until token %d: %q, %s, want %q, stop", policy, stop, *c.Text, *c.Finish, want)
		}
		word := w.engine.Tokenizer().Decode(ids[3:4])
		want = plain[:strings.Index(plain, word)+len(word)]
		c = w.complete(textPath, fmt.Sprintf(`%s, "stop": %q, "include_stop_str_in_output": true}`, request,
			word)).Choices[0]
		if *c.Text != want || *c.Finish != "stop" {
			t.Errorf("%s: to the end of %q: %q, %s, want %q, stop", policy, word, *c.Text, *c.Finish, want)
		}
		var streamed strings.Builder
		pieces, done := openaitest.Events(t, w.do(textPath, request+`, "echo": true, "stream": true}`).body)
		for _, p := range pieces {
			streamed.WriteString(*p.Choices[0].Text)
		}
		if streamed.String() != prompt+plain || !done {
			t.Errorf("%s: streamed: %q, want %q", policy, streamed.String(), prompt+plain)
		}
	}
}

// TestServersConstraintsAreDefaults replaces them for a request, and for that request only.
func TestServersConstraintsAreDefaults(t *testing.T) {
	w := open(t, func(c *Options) {
		c.Defaults.Constraints = constrain.Constraints{Grammar: `root ::= "a" [b-d]{3}`,
			LogitBias: map[int32]float32{40: 1}}
	})
	ask := func(more string) string {
		return *w.complete(textPath, `{"model": "demo", "prompt": "func", "max_tokens": 8, "temperature": `+
			`0, "foretoken": {"policy": "none"}`+more+`}`).Choices[0].Text
	}
	held := ask("")
	if len(held) != 4 || held[0] != 'a' {
		t.Errorf("by the server's grammar: %q", held)
	}
	if got := ask(`, "grammar": "root ::= \"x\"", "logit_bias": {"41": 2}`); got != "x" {
		t.Errorf("by the request's own: %q", got)
	}
	if got := ask(`, "response_format": {"type": "text"}`); len(got) > 0 && got[0] == 'a' && len(got) == 4 {
		t.Errorf("as text: %q", got)
	}
	if got := ask(""); got != held {
		t.Errorf("afterwards: %q, before %q", got, held)
	}
	if bias := w.options.Defaults.LogitBias; len(bias) != 1 || bias[40] != 1 {
		t.Errorf("a request changed the server's biases: %v", bias)
	}
}

func TestNoChatTemplate(t *testing.T) {
	w := open(t, func(c *Options) { c.Template = "" })
	bare, err := openaitest.Open(demo.Draft(), nil) // whose file has no template
	if err != nil {
		t.Fatal(err)
	}
	defer bare.Close()
	w.model = NewModel(&openaitest.Engine{Session: bare}, w.options)
	a := w.do(chatPath, `{"model": "demo", "messages": [{"role": "user", "content": "hi"}]}`)
	if code, param, message := a.refusal(t); a.status != 400 || code != "no_chat_template" || param != "messages" ||
		!strings.Contains(message, "--chat-template") {
		t.Errorf("%d %s", a.status, a.body)
	}
	w = open(t, func(c *Options) { c.Template = "{{ raise_exception('roles must alternate') }}" })
	a = w.do(chatPath, `{"model": "demo", "messages": [{"role": "user", "content": "hi"}]}`)
	if code, _, message := a.refusal(t); a.status != 400 || code != "invalid_value" ||
		!strings.Contains(message, "roles must alternate") {
		t.Errorf("%d %s", a.status, a.body)
	}
}

// TestPagesOptions answers whatever model is named, with the template that a request brings.
func TestPagesOptions(t *testing.T) {
	w := open(t, func(o *Options) { o.AnyModel, o.Templates, o.Template = true, true, "" })
	for _, model := range []string{"", `"model": "gpt-4o", `} {
		asked := `{` + model + `"chat_template": "{{ messages[0].content }}", "messages": [{"role": "user", ` +
			`"content": "func main() {"}], "max_tokens": 4}`
		got := w.complete(chatPath, asked)
		text := w.complete(textPath, `{`+model+`"prompt": "func main() {", "max_tokens": 4}`)
		if got.Model != "demo" || got.Choices[0].Message.Content != *text.Choices[0].Text {
			t.Errorf("%s: %+v, as a text %+v", asked, got, text)
		}
	}
}
