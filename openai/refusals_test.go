//go:build !js

package openai

import (
	"strings"
	"testing"

	"foretoken/openai/openaitest"
)

// TestRefusals sends what is wrong in every field and beyond every bound: the answer says which, and how.
func TestRefusals(t *testing.T) {
	w := open(t, func(o *Options) { o.Candidates = 5 })
	talk := func(more string) string {
		return `{"model": "demo", "messages": [{"role": "user", "content": "hi"}]` + more + `}`
	}
	say := func(message string) string { return `{"model": "demo", "messages": [` + message + `]}` }
	write := func(more string) string { return `{"model": "demo", "prompt": "func"` + more + `}` }
	for _, c := range []struct {
		path, body  string
		status      int
		code, param string
	}{
		{embedPath, `{"model": "demo"}`, 400, "missing_required_parameter", "input"},
		{embedPath, `{"model": "demo", "input": []}`, 400, "invalid_type", "input"},
		{embedPath, `{"model": "demo", "input": ["a", ""]}`, 400, "invalid_value", "input"},
		{embedPath, `{"model": "demo", "input": [99999]}`, 400, "invalid_value", "input"},
		{embedPath, `{"model": "demo", "input": "` + strings.Repeat("~^", 900) + `"}`, 400,
			"context_length_exceeded", "input"},
		{embedPath, `{"model": "demo", "input": "a", "dimensions": 64}`, 400, "unsupported_parameter",
			"dimensions"},
		{embedPath, `{"model": "demo", "input": "a", "encoding_format": "hex"}`, 400, "invalid_value",
			"encoding_format"},
		{embedPath, `{"model": "demo", "input": "a", "temperature": 1}`, 400, "unknown_parameter",
			"temperature"},
		{embedPath, `{"model": "demo", "input": "a", "foretoken": {"pooling": "max"}}`, 400, "invalid_value",
			"foretoken"},
		{chatPath, "{", 400, "invalid_json", ""},
		{chatPath, "[]", 400, "invalid_json", ""},
		{chatPath, "null", 400, "invalid_json", ""},
		{chatPath, talk("") + "{}", 400, "invalid_json", ""},
		{chatPath, strings.Repeat(`{"a":`, 300), 400, "invalid_json", ""},
		{chatPath, `{"messages": []}`, 400, "missing_required_parameter", "model"},
		{chatPath, `{"model": "demo"}`, 400, "missing_required_parameter", "messages"},
		{chatPath, `{"model": "demo", "messages": "hi"}`, 400, "invalid_type", "messages"},
		{chatPath, say(""), 400, "invalid_value", "messages"},
		{chatPath, say(`"hi"`), 400, "invalid_type", "messages[0]"},
		{chatPath, say(`{"content": "hi"}`), 400, "missing_required_parameter", "messages[0].role"},
		{chatPath, say(`{"role": "wizard", "content": "hi"}`), 400, "invalid_value", "messages[0].role"},
		{chatPath, say(`{"role": "user"}`), 400, "missing_required_parameter", "messages[0].content"},
		{chatPath, say(`{"role": "user", "content": 3}`), 400, "invalid_type", "messages[0].content"},
		{chatPath, say(`{"role": "user", "content": [{"type": "text"}]}`), 400, "missing_required_parameter",
			"messages[0].content[0].text"},
		{chatPath, say(`{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "image_url"}]}`),
			400, "unsupported_parameter", "messages[0].content[1].type"},
		{chatPath, say(`{"role": "user", "content": "a", "tool_calls": [{"id": "1"}]}`), 400, "invalid_value",
			"messages[0].tool_calls"},
		{chatPath, say(`{"role": "tool", "content": "a"}`), 400, "missing_required_parameter",
			"messages[0].tool_call_id"},
		{chatPath, strings.Replace(talk(""), "demo", "gpt-4", 1), 404, "model_not_found", "model"},
		{chatPath, talk(`, "chat_template": "x"`), 400, "unknown_parameter", "chat_template"},
		{chatPath, talk(`, "temprature": 1`), 400, "unknown_parameter", "temprature"},
		{chatPath, talk(`, "temperature": "hot"`), 400, "invalid_type", "temperature"},
		{chatPath, talk(`, "temperature": 2.5`), 400, "invalid_value", "temperature"},
		{chatPath, talk(`, "temperature": 0.0001`), 400, "invalid_value", "temperature"},
		{chatPath, talk(`, "top_p": -1`), 400, "invalid_value", "top_p"},
		{chatPath, talk(`, "max_tokens": 0`), 400, "invalid_value", "max_tokens"},
		{chatPath, talk(`, "max_tokens": 1.5`), 400, "invalid_type", "max_tokens"},
		{chatPath, talk(`, "max_tokens": 3, "max_completion_tokens": 4`), 400, "invalid_value",
			"max_tokens"},
		{chatPath, talk(`, "n": 17`), 400, "invalid_value", "n"},
		{chatPath, talk(`, "seed": 1.5`), 400, "invalid_type", "seed"},
		{chatPath, talk(`, "seed": "x"`), 400, "invalid_type", "seed"},
		{chatPath, talk(`, "stop": ""`), 400, "invalid_value", "stop"},
		{chatPath, talk(`, "stop": 3`), 400, "invalid_type", "stop"},
		{chatPath, talk(`, "stop": [` + strings.Repeat(`"a",`, 16) + `"a"]`), 400,
			"invalid_value", "stop"},
		{chatPath, talk(`, "stream_options": {"include_usage": true}`), 400, "invalid_value",
			"stream_options"},
		{chatPath, talk(`, "frequency_penalty": 2.5`), 400, "invalid_value", "frequency_penalty"},
		{chatPath, talk(`, "presence_penalty": -3`), 400, "invalid_value", "presence_penalty"},
		{chatPath, talk(`, "logit_bias": {"5": 101}`), 400, "invalid_value", "logit_bias"},
		{chatPath, talk(`, "logit_bias": {"99999": 1}`), 400, "invalid_value", "logit_bias"},
		{chatPath, talk(`, "logit_bias": {"x": 1}`), 400, "invalid_type", "logit_bias.x"},
		{chatPath, talk(`, "response_format": {"type": "yaml"}`), 400, "invalid_value",
			"response_format.type"},
		{chatPath, talk(`, "response_format": {"type": "json_schema"}`), 400, "missing_required_parameter",
			"response_format.json_schema.schema"},
		{chatPath, talk(`, "response_format": {"type": "json_schema", "json_schema": {"schema": ` +
			`{"$dynamicRef": "#x"}}}`), 400, "invalid_value", "response_format"},
		{chatPath, talk(`, "foretoken": {"json_open": 1}`), 400, "invalid_type", "foretoken.json_open"},
		{chatPath, talk(`, "foretoken": {"unchecked": "not"}`), 400, "invalid_type", "foretoken.unchecked"},
		{chatPath, talk(`, "foretoken": {"unchecked": ["items"]}`), 400, "invalid_value", "foretoken"},
		{chatPath, talk(`, "grammar": "root ::= ["`), 400, "invalid_value", "grammar"},
		{chatPath, talk(`, "grammar": "root ::="`), 400, "invalid_value", "grammar"},
		{chatPath, talk(`, "temperature": 99`), 400, "invalid_value", "temperature"},
		{chatPath, talk(`, "grammar": "root ::= [a]", "response_format": {"type": "json_object"}`), 400,
			"invalid_value", "grammar"},
		{chatPath, talk(`, "top_logprobs": 2`), 400, "invalid_value", "top_logprobs"},
		{chatPath, talk(`, "logprobs": true, "top_logprobs": 21`), 400, "invalid_value", "top_logprobs"},
		{chatPath, talk(`, "logprobs": true, "top_logprobs": 6`), 400, "unsupported_parameter",
			"top_logprobs"},
		{chatPath, talk(`, "logprobs": true, "temperature": 1, "foretoken": {"policy": "chain", "verifier": ` +
			`"rejection"}`), 400, "unsupported_parameter", "logprobs"},
		{chatPath, talk(`, "tools": [{"type": "retrieval"}]`), 400, "invalid_value", "tools[0]"},
		{chatPath, talk(`, "tool_choice": "required"`), 400, "invalid_value", "tool_choice"},
		{chatPath, talk(`, "tool_choice": "any", ` + openaitest.Tools), 400, "invalid_value", "tool_choice"},
		{chatPath, talk(`, "tool_choice": {"type": "function", "function": {"name": "delete"}}, ` + openaitest.Tools),
			400, "invalid_value", "tool_choice"},
		{chatPath, talk(`, "tool_choice": "required", "response_format": {"type": "json_object"}, ` +
			openaitest.Tools), 400, "invalid_value", "tool_choice"},
		{chatPath, talk(`, "modalities": ["audio"]`), 400, "unsupported_parameter", "modalities"},
		{chatPath, talk(`, "foretoken": {"policy": "magic"}`), 400, "invalid_value", "foretoken"},
		{chatPath, talk(`, "foretoken": {"speed": 9}`), 400, "unknown_parameter", "foretoken.speed"},
		{chatPath, talk(`, "foretoken": {"policy": "eagle3"}`), 400, "invalid_value", "foretoken"},
		{chatPath, say(`{"role": "user", "content": "` + strings.Repeat("~^", 900) + `"}`), 400,
			"context_length_exceeded", "messages"},
		{textPath, `{"model": "demo"}`, 400, "missing_required_parameter", "prompt"},
		{textPath, `{"model": "demo", "prompt": {"a": 1}}`, 400, "invalid_type", "prompt"},
		{textPath, `{"model": "demo", "prompt": ["a", ""]}`, 400, "invalid_value", "prompt"},
		{textPath, `{"model": "demo", "prompt": [5, 99999]}`, 400, "invalid_value", "prompt"},
		{textPath, `{"model": "demo", "prompt": [[5], [-1]]}`, 400, "invalid_value", "prompt"},
		{textPath, `{"model": "demo", "prompt": ["a", "b", "c", "d", "e"], "n": 4}`, 400,
			"invalid_value", "n"},
		{textPath, write(`, "echo": true, "logprobs": 1`), 400, "unsupported_parameter", "echo"},
		{textPath, write(`, "echo": "yes"`), 400, "invalid_type", "echo"},
		{textPath, write(`, "stop_token_ids": [99999]`), 400, "invalid_value", "stop_token_ids"},
		{textPath, write(`, "stop_token_ids": 3`), 400, "invalid_type", "stop_token_ids"},
		{textPath, write(`, "best_of": 3`), 400, "unsupported_parameter", "best_of"},
		{textPath, write(`, "suffix": "}"`), 400, "unsupported_parameter", "suffix"},
		{textPath, write(`, "logprobs": 6`), 400, "invalid_value", "logprobs"},
		{textPath, write(`, "messages": []`), 400, "unknown_parameter", "messages"},
	} {
		a := w.do(c.path, c.body)
		if code, param, message := a.refusal(t); a.status != c.status || code != c.code || param != c.param {
			t.Errorf("%s %s: %d %s %q (%s), want %d %s %q", c.path, Brief([]byte(c.body)), a.status, code, param,
				message, c.status, c.code, c.param)
		}
	}
}
