//go:build !js

package openai

import (
	"strings"
	"testing"

	"foretoken"
	"foretoken/models/fuzztest"
	"foretoken/openai/openaitest"
)

import ()

// odd are bodies whose refusals quote values of any length, or of anything.
func odd() (all []string) {
	long, digits, strange := strings.Repeat("n", 3000), "1"+strings.Repeat("0", 3000),
		strings.Repeat(`\u001b\u009b\u2028\ufdd0`, 500)
	for _, name := range []string{long, strange} {
		for _, field := range []string{`"` + name + `": 1`, `"model": ["` + name + `"]`, `"seed": "` + name + `"`,
			`"grammar": "` + name + `"`, `"grammar": "root ::= ` + name + `"`, `"json_schema": {"` + name + `": 1}`,
			`"response_format": {"type": "` + name + `"}`,
			`"response_format": {"type": "json_schema", "json_schema": {"schema": {"type": "` + name + `"}}}`,
			`"stop": [["` + name + `"]]`, `"logit_bias": {"` + name + `": 1}`,
			`"foretoken": {"` + name + `": 1}`, `"foretoken": {"policy": "` + name + `"}`, `"foretoken": {"adapt": "` +
				name + `"}`, `"foretoken": {"source": "` + name + `"}`, `"foretoken": {"verifier": "` + name + `"}`,
			`"foretoken": {"mode": "` + name + `"}`, `"foretoken": {"variant": "` + name + `"}`,
			`"foretoken": {"schedule": "` + name + `"}`, `"foretoken": {"shape": "` + name + `"}`,
			`"functions": ["` + name + `"]`, `"suffix": "` + name + `"`,
			`"tools": ["` + name + `"]`, `"tool_choice": "` + name + `"`,
			`"tools": [{"type": "function", "function": ` +
				`{"name": "f", "parameters": "` + name + `"}}], "tool_choice": "required"`,
			`"tools": [{"type": "function", "function": {"name": "` + name +
				`"}}], "tool_choice": {"type": "function", "function": {"name": "` + name + `x"}}`} {
			all = append(all, `{"model": "m", "messages": [{"role": "user", "content": "a"}], `+field+`}`)
		}
		all = append(all, `{"model": "m", "messages": [{"role": "`+name+`", "content": "a"}]}`,
			`{"model": "m", "messages": [{"role": "user", "content": [{"type": "`+name+`"}]}]}`,
			`{"model": "m", "prompt": "a", "suffix": "`+name+`"}`,
			`{"model": "m", "messages": [{"role": "assistant", "tool_calls": `+
				`[{"id": "a", "function": {"name": ["`+name+`"]}}]}]}`, `{"model": "`+name+`", "prompt": "a"}`,
			`{"model": "m", "prompt": {"`+name+`": 1}}`)
	}
	for _, field := range []string{"n", "seed", "temperature", "top_k", "max_tokens", "logprobs", "logit_bias", "user",
		"stream", "foretoken"} {
		all = append(all, `{"model": "m", "prompt": "a", "`+field+`": `+digits+`}`)
	}
	return append(all, digits, `{"model": "m", "prompt": "a", "foretoken": {"depth": `+digits+`}}`,
		`{"model": "m", "prompt": "a", "foretoken": {"theta": 1e`+digits+`}}`,
		`{"model": "m", "prompt": "a", "logit_bias": {"1": `+digits+`}}`)
}

// FuzzParse holds that no body does more than be refused.
func FuzzParse(f *testing.F) {
	f.Attr("attack", "bodies of anything, with names and numbers of any length")
	f.Attr("bound", "taken, or refused with 400 and the field, in one printable line")
	for _, seed := range openaitest.Bodies {
		for wanted := range 3 {
			f.Add([]byte(seed), wanted)
		}
	}
	for _, seed := range odd() {
		wanted := Completions
		if strings.Contains(seed, "messages") {
			wanted = ChatCompletions
		}
		f.Add([]byte(seed), int(wanted))
	}
	f.Add([]byte(`{"model": "demo", "input": ["a", "b"], "encoding_format": "base64", "foretoken": {"pooling": `+
		`"last"}}`), int(Embeddings))
	o := Options{Defaults: foretoken.DefaultRequest(), Templates: true}
	f.Fuzz(func(t *testing.T, body []byte, wanted int) {
		fuzztest.Bound(t, 16*len(body), func() {
			a, err := Parse(body, Endpoint(uint(wanted)%3), &o)
			if err != nil {
				if err.Status != 400 || err.Code == "" {
					t.Fatalf("%+v", err)
				}
				openaitest.Told(t, err.Message)
				if err.Param != nil {
					openaitest.Told(t, *err.Param)
				}
				return
			}
			if err := a.compile(t.Context()); err != nil {
				openaitest.Told(t, err.Error())
				return
			}
			talks := len(a.messages) > 0
			if problem := a.settings.Validate(); problem != nil || a.n < 1 || (a.Endpoint == ChatCompletions) != talks {
				t.Fatalf("%v: %+v", problem, a)
			}
		})
	})
}
