//go:build !js

package openai

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"testing"

	"foretoken"
	"foretoken/models/constrain"
	"foretoken/models/demo"
	"foretoken/spec/method"
)

const (
	chatPath = "/v1/chat/completions"
	textPath = "/v1/completions"
)

func TestRefusals(t *testing.T) {
	w := serve(t, func(c *Config) { c.MaxBody = 2000; c.Candidates = 5; c.Origins = []string{"http://localhost:3000"} })
	talk := func(more string) string {
		return `{"model": "demo", "messages": [{"role": "user", "content": "hi"}]` + more + `}`
	}
	say := func(message string) string { return `{"model": "demo", "messages": [` + message + `]}` }
	write := func(more string) string { return `{"model": "demo", "prompt": "func"` + more + `}` }
	for _, c := range []struct {
		method, path, body string
		status             int
		code, param        string
		headers            []string
	}{
		{"GET", "/", "", 404, "unknown_url", "", nil},
		{"POST", "/v1/edits", "{}", 404, "unknown_url", "", nil},
		{"GET", embedPath, "", 405, "method_not_supported", "", nil},
		{"POST", embedPath, `{"model": "demo"}`, 400, "missing_required_parameter", "input", nil},
		{"POST", embedPath, `{"model": "demo", "input": []}`, 400, "invalid_type", "input", nil},
		{"POST", embedPath, `{"model": "demo", "input": ["a", ""]}`, 400, "invalid_value", "input", nil},
		{"POST", embedPath, `{"model": "demo", "input": [99999]}`, 400, "invalid_value", "input", nil},
		{"POST", embedPath, `{"model": "demo", "input": "` + strings.Repeat("~^", 900) + `"}`, 400,
			"context_length_exceeded", "input", nil},
		{"POST", embedPath, `{"model": "demo", "input": "a", "dimensions": 64}`, 400, "unsupported_parameter",
			"dimensions", nil},
		{"POST", embedPath, `{"model": "demo", "input": "a", "encoding_format": "hex"}`, 400, "invalid_value",
			"encoding_format", nil},
		{"POST", embedPath, `{"model": "demo", "input": "a", "temperature": 1}`, 400, "unknown_parameter",
			"temperature", nil},
		{"POST", embedPath, `{"model": "demo", "input": "a", "foretoken": {"pooling": "max"}}`, 400, "invalid_value",
			"foretoken", nil},
		{"POST", "/v1/chat/completions/", "{}", 404, "unknown_url", "", nil},
		{"GET", chatPath, "", 405, "method_not_supported", "", nil},
		{"DELETE", "/v1/models", "", 405, "method_not_supported", "", nil},
		{"GET", "/v1/models/gpt", "", 404, "model_not_found", "model", nil},
		{"POST", chatPath, "x=1", 415, "unsupported_media_type", "",
			[]string{"Content-Type", "application/x-www-form-urlencoded"}},
		{"POST", chatPath, talk(""), 415, "unsupported_media_type", "", []string{"Content-Type", "text/plain"}},
		{"POST", chatPath, talk(""), 415, "unsupported_media_type", "", []string{"Content-Encoding", "gzip"}},
		{"POST", chatPath, say(`{"role": "user", "content": "` + strings.Repeat("x", 2000) + `"}`), 413,
			"request_too_large", "", nil},
		{"POST", chatPath, "", 415, "unsupported_media_type", "", nil},
		{"POST", chatPath, "", 400, "invalid_json", "", []string{"Content-Type", "application/json"}},
		{"POST", chatPath, "{", 400, "invalid_json", "", nil},
		{"POST", chatPath, "[]", 400, "invalid_json", "", nil},
		{"POST", chatPath, "null", 400, "invalid_json", "", nil},
		{"POST", chatPath, talk("") + "{}", 400, "invalid_json", "", nil},
		{"POST", chatPath, strings.Repeat(`{"a":`, 300), 400, "invalid_json", "", nil},
		{"POST", chatPath, `{"messages": []}`, 400, "missing_required_parameter", "model", nil},
		{"POST", chatPath, `{"model": "demo"}`, 400, "missing_required_parameter", "messages", nil},
		{"POST", chatPath, `{"model": "demo", "messages": "hi"}`, 400, "invalid_type", "messages", nil},
		{"POST", chatPath, say(""), 400, "invalid_value", "messages", nil},
		{"POST", chatPath, say(`"hi"`), 400, "invalid_type", "messages[0]", nil},
		{"POST", chatPath, say(`{"content": "hi"}`), 400, "missing_required_parameter", "messages[0].role", nil},
		{"POST", chatPath, say(`{"role": "wizard", "content": "hi"}`), 400, "invalid_value", "messages[0].role", nil},
		{"POST", chatPath, say(`{"role": "user"}`), 400, "missing_required_parameter", "messages[0].content", nil},
		{"POST", chatPath, say(`{"role": "user", "content": 3}`), 400, "invalid_type", "messages[0].content", nil},
		{"POST", chatPath, say(`{"role": "user", "content": [{"type": "text"}]}`), 400, "missing_required_parameter",
			"messages[0].content[0].text", nil},
		{"POST", chatPath, say(`{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "image_url"}]}`),
			400, "unsupported_parameter", "messages[0].content[1].type", nil},
		{"POST", chatPath, say(`{"role": "user", "content": "a", "tool_calls": [{"id": "1"}]}`), 400, "invalid_value",
			"messages[0].tool_calls", nil},
		{"POST", chatPath, say(`{"role": "tool", "content": "a"}`), 400, "missing_required_parameter",
			"messages[0].tool_call_id", nil},
		{"POST", chatPath, strings.Replace(talk(""), "demo", "gpt-4", 1), 404, "model_not_found", "model", nil},
		{"POST", chatPath, talk(`, "temprature": 1`), 400, "unknown_parameter", "temprature", nil},
		{"POST", chatPath, talk(`, "temperature": "hot"`), 400, "invalid_type", "temperature", nil},
		{"POST", chatPath, talk(`, "temperature": 2.5`), 400, "invalid_value", "temperature", nil},
		{"POST", chatPath, talk(`, "temperature": 0.0001`), 400, "invalid_value", "temperature", nil},
		{"POST", chatPath, talk(`, "top_p": -1`), 400, "invalid_value", "top_p", nil},
		{"POST", chatPath, talk(`, "max_tokens": 0`), 400, "invalid_value", "max_tokens", nil},
		{"POST", chatPath, talk(`, "max_tokens": 1.5`), 400, "invalid_type", "max_tokens", nil},
		{"POST", chatPath, talk(`, "max_tokens": 3, "max_completion_tokens": 4`), 400, "invalid_value",
			"max_tokens", nil},
		{"POST", chatPath, talk(`, "n": 17`), 400, "invalid_value", "n", nil},
		{"POST", chatPath, talk(`, "seed": 1.5`), 400, "invalid_type", "seed", nil},
		{"POST", chatPath, talk(`, "seed": "x"`), 400, "invalid_type", "seed", nil},
		{"POST", chatPath, talk(`, "stop": ""`), 400, "invalid_value", "stop", nil},
		{"POST", chatPath, talk(`, "stop": 3`), 400, "invalid_type", "stop", nil},
		{"POST", chatPath, talk(`, "stop": [` + strings.Repeat(`"a",`, 16) + `"a"]`), 400,
			"invalid_value", "stop", nil},
		{"POST", chatPath, talk(`, "stream_options": {"include_usage": true}`), 400, "invalid_value",
			"stream_options", nil},
		{"POST", chatPath, talk(`, "frequency_penalty": 2.5`), 400, "invalid_value", "frequency_penalty", nil},
		{"POST", chatPath, talk(`, "presence_penalty": -3`), 400, "invalid_value", "presence_penalty", nil},
		{"POST", chatPath, talk(`, "logit_bias": {"5": 101}`), 400, "invalid_value", "logit_bias", nil},
		{"POST", chatPath, talk(`, "logit_bias": {"99999": 1}`), 400, "invalid_value", "logit_bias", nil},
		{"POST", chatPath, talk(`, "logit_bias": {"x": 1}`), 400, "invalid_type", "logit_bias.x", nil},
		{"POST", chatPath, talk(`, "response_format": {"type": "yaml"}`), 400, "invalid_value",
			"response_format.type", nil},
		{"POST", chatPath, talk(`, "response_format": {"type": "json_schema"}`), 400, "missing_required_parameter",
			"response_format.json_schema.schema", nil},
		{"POST", chatPath, talk(`, "response_format": {"type": "json_schema", "json_schema": {"schema": ` +
			`{"$dynamicRef": "#x"}}}`), 400, "invalid_value", "response_format", nil},
		{"POST", chatPath, talk(`, "foretoken": {"json_open": 1}`), 400, "invalid_type", "foretoken.json_open", nil},
		{"POST", chatPath, talk(`, "foretoken": {"unchecked": "not"}`), 400, "invalid_type", "foretoken.unchecked",
			nil},
		{"POST", chatPath, talk(`, "foretoken": {"unchecked": ["items"]}`), 400, "invalid_value", "foretoken", nil},
		{"POST", chatPath, talk(`, "grammar": "root ::= ["`), 400, "invalid_value", "grammar", nil},
		{"POST", chatPath, talk(`, "grammar": "root ::="`), 400, "invalid_value", "grammar", nil},
		{"POST", chatPath, talk(`, "temperature": 99`), 400, "invalid_value", "temperature", nil},
		{"POST", chatPath, talk(`, "grammar": "root ::= [a]", "response_format": {"type": "json_object"}`), 400,
			"invalid_value", "grammar", nil},
		{"POST", chatPath, talk(`, "top_logprobs": 2`), 400, "invalid_value", "top_logprobs", nil},
		{"POST", chatPath, talk(`, "logprobs": true, "top_logprobs": 21`), 400, "invalid_value", "top_logprobs", nil},
		{"POST", chatPath, talk(`, "logprobs": true, "top_logprobs": 6`), 400, "unsupported_parameter",
			"top_logprobs", nil},
		{"POST", chatPath, talk(`, "logprobs": true, "temperature": 1, "foretoken": {"policy": "chain", "verifier": ` +
			`"rejection"}`), 400, "unsupported_parameter", "logprobs", nil},
		{"POST", chatPath, talk(`, "tools": [{"type": "retrieval"}]`), 400, "invalid_value", "tools[0]", nil},
		{"POST", chatPath, talk(`, "tool_choice": "required"`), 400, "invalid_value", "tool_choice", nil},
		{"POST", chatPath, talk(`, "tool_choice": "any", ` + callTools), 400, "invalid_value", "tool_choice", nil},
		{"POST", chatPath, talk(`, "tool_choice": {"type": "function", "function": {"name": "delete"}}, ` + callTools),
			400, "invalid_value", "tool_choice", nil},
		{"POST", chatPath, talk(`, "tool_choice": "required", "response_format": {"type": "json_object"}, ` +
			callTools), 400, "invalid_value", "tool_choice", nil},
		{"POST", chatPath, talk(`, "modalities": ["audio"]`), 400, "unsupported_parameter", "modalities", nil},
		{"POST", chatPath, talk(`, "foretoken": {"policy": "magic"}`), 400, "invalid_value", "foretoken", nil},
		{"POST", chatPath, talk(`, "foretoken": {"speed": 9}`), 400, "unknown_parameter", "foretoken.speed", nil},
		{"POST", chatPath, talk(`, "foretoken": {"policy": "eagle3"}`), 400, "invalid_value", "foretoken", nil},
		{"POST", chatPath, say(`{"role": "user", "content": "` + strings.Repeat("~^", 900) + `"}`), 400,
			"context_length_exceeded", "messages", nil},
		{"POST", textPath, `{"model": "demo"}`, 400, "missing_required_parameter", "prompt", nil},
		{"POST", textPath, `{"model": "demo", "prompt": {"a": 1}}`, 400, "invalid_type", "prompt", nil},
		{"POST", textPath, `{"model": "demo", "prompt": ["a", ""]}`, 400, "invalid_value", "prompt", nil},
		{"POST", textPath, `{"model": "demo", "prompt": [5, 99999]}`, 400, "invalid_value", "prompt", nil},
		{"POST", textPath, `{"model": "demo", "prompt": [[5], [-1]]}`, 400, "invalid_value", "prompt", nil},
		{"POST", textPath, `{"model": "demo", "prompt": ["a", "b", "c", "d", "e"], "n": 4}`, 400,
			"invalid_value", "n", nil},
		{"POST", textPath, write(`, "echo": true, "logprobs": 1`), 400, "unsupported_parameter", "echo", nil},
		{"POST", textPath, write(`, "echo": "yes"`), 400, "invalid_type", "echo", nil},
		{"POST", textPath, write(`, "stop_token_ids": [99999]`), 400, "invalid_value", "stop_token_ids", nil},
		{"POST", textPath, write(`, "stop_token_ids": 3`), 400, "invalid_type", "stop_token_ids", nil},
		{"POST", textPath, write(`, "best_of": 3`), 400, "unsupported_parameter", "best_of", nil},
		{"POST", textPath, write(`, "suffix": "}"`), 400, "unsupported_parameter", "suffix", nil},
		{"POST", textPath, write(`, "logprobs": 6`), 400, "invalid_value", "logprobs", nil},
		{"POST", textPath, write(`, "messages": []`), 400, "unknown_parameter", "messages", nil},
		{"GET", "/health", "", 403, "host_not_allowed", "", []string{"Host", "attacker.example"}},
		{"GET", "/health", "", 403, "host_not_allowed", "", []string{"Host", "127.0.0.1.attacker.example:8080"}},
		{"GET", "/health", "", 403, "host_not_allowed", "", []string{"Host", "192.168.0.9"}},
		{"POST", textPath, write(""), 403, "origin_not_allowed", "", []string{"Origin", "https://attacker.example"}},
		{"POST", textPath, write(""), 403, "origin_not_allowed", "", []string{"Origin", "null"}},
		{"OPTIONS", textPath, "", 403, "origin_not_allowed", "",
			[]string{"Origin", "https://attacker.example", "Access-Control-Request-Method", "POST"}},
	} {
		a := w.do(c.method, c.path, c.body, c.headers...)
		if code, param, message := a.refusal(t); a.status != c.status || code != c.code || param != c.param {
			t.Errorf("%s %s %s: %d %s %q (%s), want %d %s %q", c.method, c.path, brief([]byte(c.body)), a.status, code,
				param, message, c.status, c.code, c.param)
		}
		if kind := a.header.Get("Content-Type"); kind != "application/json" || a.header.Get("X-Request-Id") == "" {
			t.Errorf("%s %s: type %q, id %q", c.method, c.path, kind, a.header.Get("X-Request-Id"))
		}
		if (a.status == 405) != (a.header.Get("Allow") != "") {
			t.Errorf("%s %s: Allow is %q", c.method, c.path, a.header.Get("Allow"))
		}
		if a.header.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s %s: a page may read it", c.method, c.path)
		}
		if e := <-w.logged; e.Status != a.status || e.Code == "" || e.ID != a.header.Get("X-Request-Id") {
			t.Errorf("%s %s: logged as %+v", c.method, c.path, e)
		}
	}
}

// TestNeutralFieldsAreTaken sends what clients write although it asks for nothing.
func TestNeutralFieldsAreTaken(t *testing.T) {
	w := serve(t, nil)
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
	w := serve(t, nil)
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
	talkIDs, err := s.ChatIDs(foretoken.ChatOptions{Template: talkTemplate,
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
		a := w.do("POST", c.path, c.body+`, "stream": true, "stream_options": {"include_usage": true}}`)
		pieces, done := events(t, a.body)
		last := pieces[len(pieces)-1]
		if !done || a.header.Get("Content-Type") != "text/event-stream; charset=utf-8" || len(last.Choices) != 0 ||
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
	w := serve(t, nil)
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
	w := serve(t, nil)
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
	pieces, _ := events(t, w.do("POST", textPath, body+`, "stream": true}`).body)
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
	w := serve(t, nil)
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

// TestEchoAndStopTokens compares texts with those of the same request without the two fields.
func TestEchoAndStopTokens(t *testing.T) {
	w := serve(t, nil)
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
		var streamed strings.Builder
		pieces, done := events(t, w.do("POST", textPath, request+`, "echo": true, "stream": true}`).body)
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
	w := serve(t, func(c *Config) {
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
	if bias := w.api.config.Defaults.LogitBias; len(bias) != 1 || bias[40] != 1 {
		t.Errorf("a request changed the server's biases: %v", bias)
	}
}

func TestModelsAndHealth(t *testing.T) {
	w := serve(t, func(c *Config) { c.Key = "secret" })
	key := []string{"Authorization", "Bearer secret"}
	if a := w.do("GET", "/v1/models", "", key...); a.status != 200 ||
		!strings.Contains(string(a.body), `"id":"demo","object":"model"`) ||
		!strings.Contains(string(a.body), `"file":"`) || strings.Contains(string(a.body), "demo/") { // its folder
		t.Errorf("%d %s", a.status, a.body)
	}
	if a := w.do("GET", "/v1/models/demo", "", key...); a.status != 200 ||
		!strings.Contains(string(a.body), `"id":"demo"`) {
		t.Errorf("%d %s", a.status, a.body)
	}
	if a := w.do("HEAD", "/v1/models", "", key...); a.status != 200 || len(a.body) != 0 {
		t.Errorf("%d %s", a.status, a.body)
	}
	for _, wrong := range []string{"", "Bearer", "Bearer wrong", "secret", "Basic secret"} {
		a := w.do("GET", "/v1/models", "", "Authorization", wrong)
		if code, _, _ := a.refusal(t); a.status != 401 || code != "invalid_api_key" ||
			a.header.Get("WWW-Authenticate") == "" {
			t.Errorf("the key %q: %d %s", wrong, a.status, a.body)
		}
	}
	if a := w.do("GET", "/health", ""); a.status != 200 ||
		string(a.body) != `{"status":"ok","busy":false,"waiting":0}` {
		t.Errorf("%d %s", a.status, a.body)
	}
	w.api.opened.Store(nil)
	if a := w.do("GET", "/health", ""); a.status != 503 || !strings.Contains(string(a.body), "loading") {
		t.Errorf("while loading: %d %s", a.status, a.body)
	}
	if a := w.do("POST", textPath, `{"model": "demo", "prompt": "a"}`, key...); a.status != 503 ||
		a.header.Get("Retry-After") == "" {
		t.Errorf("while loading: %d %s", a.status, a.body)
	}
}

func TestNoChatTemplate(t *testing.T) {
	w := serve(t, func(c *Config) { c.Template = "" })
	bare, err := open(demo.Draft(), nil) // whose file has no template
	if err != nil {
		t.Fatal(err)
	}
	defer bare.Close()
	w.api.Open(&engine{Session: bare})
	a := w.do("POST", chatPath, `{"model": "demo", "messages": [{"role": "user", "content": "hi"}]}`)
	if code, param, message := a.refusal(t); a.status != 400 || code != "no_chat_template" || param != "messages" ||
		!strings.Contains(message, "--chat-template") {
		t.Errorf("%d %s", a.status, a.body)
	}
	w = serve(t, func(c *Config) { c.Template = "{{ raise_exception('roles must alternate') }}" })
	a = w.do("POST", chatPath, `{"model": "demo", "messages": [{"role": "user", "content": "hi"}]}`)
	if code, _, message := a.refusal(t); a.status != 400 || code != "invalid_value" ||
		!strings.Contains(message, "roles must alternate") {
		t.Errorf("%d %s", a.status, a.body)
	}
}

func TestNamesAndOrigins(t *testing.T) {
	w := serve(t, func(c *Config) {
		c.Hosts, c.Origins, c.Key = []string{"box.lan"}, []string{"http://localhost:3000"}, "secret"
	})
	for host, want := range map[string]int{"localhost": 200, "LOCALHOST:1": 200, "localhost.": 200, "[::1]:80": 200,
		"127.9.9.9": 200, "box.lan:80": 200, "box.lan.evil": 403, "10.0.0.1": 403, "::ffff:127.0.0.1": 200} {
		if a := w.do("GET", "/health", "", "Host", host); a.status != want {
			t.Errorf("host %s: %d, want %d", host, a.status, want)
		}
	}
	a := w.do("OPTIONS", chatPath, "", "Origin", "http://localhost:3000",
		"Access-Control-Request-Method", "POST", "Access-Control-Request-Headers", "authorization,x-stainless-os",
		"Access-Control-Request-Private-Network", "true")
	for name, want := range map[string]string{"Access-Control-Allow-Origin": "http://localhost:3000",
		"Access-Control-Allow-Methods": "GET, POST", "Access-Control-Allow-Headers": "authorization,x-stainless-os",
		"Access-Control-Allow-Private-Network": "true", "Vary": "Origin"} {
		if a.header.Get(name) != want {
			t.Errorf("preflight: %s is %q, want %q", name, a.header.Get(name), want)
		}
	}
	if a.status != http.StatusNoContent {
		t.Errorf("preflight: %d", a.status)
	}
	if a := w.do("GET", "/v1/models", "", "Origin", "http://localhost:3000"); a.status != 401 ||
		a.header.Get("Access-Control-Allow-Origin") == "" {
		t.Errorf("a page without the key: %d, %v", a.status, a.header)
	}
	if a := w.do("OPTIONS", "/v1/models", "", "Authorization", "Bearer secret"); a.status != 405 {
		t.Errorf("OPTIONS by itself: %d", a.status)
	}
	remote := serve(t, func(c *Config) { c.Remote = true })
	for host, want := range map[string]int{"10.0.0.1:80": 200, "[fe80::1]": 200, "evil.example": 403} {
		if a := remote.do("GET", "/health", "", "Host", host); a.status != want {
			t.Errorf("host %s of a server for others: %d, want %d", host, a.status, want)
		}
	}
	if a := serve(t, func(c *Config) { c.Origins = []string{"*"} }).do("GET", "/health", "", "Origin",
		"https://any.example"); a.header.Get("Access-Control-Allow-Origin") != "https://any.example" {
		t.Errorf("any origin: %v", a.header)
	}
}
