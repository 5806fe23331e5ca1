//go:build !js

package openai

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"foretoken"
	"foretoken/openai/openaitest"
)

// TestFieldValues gives every field values of every kind: what its type and its bounds do not allow is refused with
// 400, the field's name and what it wants; null counts as absent.
func TestFieldValues(t *testing.T) {
	const object, list = `{"policy": "none"}`, `[1]`
	values := []string{`0`, `1`, `-1`, `1.5`, `1e2`, `1.0`, `-0`, `1e400`, `-1e400`, `99999999999999999999`,
		`9007199254740993`, `18446744073709551615`, `"1"`, `"NaN"`, `true`, object, list, `[null]`, `{"1": null}`}
	taken := func(all ...string) func(string) bool { return func(v string) bool { return slices.Contains(all, v) } }
	zeroOne := []string{`0`, `1`, `1.0`, `-0`}
	signed := append(zeroOne, `-1`, `1.5`)
	fields := map[string]struct {
		in    string // t: completions, c: conversations, e: embeddings
		takes func(string) bool
		wants string // in the error, beside the field
	}{
		"temperature":       {"tc", taken(append(zeroOne, `1.5`)...), "a number, 0 (greedy) or 0.001 to 2"},
		"top_p":             {"tc", taken(zeroOne...), "a number, 0 to 1"},
		"min_p":             {"tc", taken(zeroOne...), "a number, 0 (off) to 1"},
		"top_k":             {"tc", taken(append(zeroOne, `1e2`)...), "a whole number, 0 (off) or 1 to 2147483647"},
		"frequency_penalty": {"tc", taken(signed...), "a number, -2 to 2"},
		"presence_penalty":  {"tc", taken(signed...), "a number, -2 to 2"},
		"max_tokens":        {"tc", taken(`1`, `1.0`, `1e2`), "a whole number, 1 to 2147483647"},
		"n":                 {"tc", taken(`1`, `1.0`), "a whole number, 1 to 16"},
		"logprobs":          {"t", taken(zeroOne...), "a whole number, 0 to 5"},
		"seed": {"tc", taken(append(zeroOne, `-1`, `1e2`, `9007199254740993`, `18446744073709551615`)...),
			"a whole number of 64 bits"},
		"dimensions":           {"e", taken(`1`, `1.0`, `1e2`), "a whole number, 1 to"},
		"stream":               {"tc", taken(`true`), "true or false"},
		"echo":                 {"t", taken(`true`), "true or false"},
		"parallel_tool_calls":  {"c", taken(`true`), "true or false"},
		"user":                 {"tce", taken(`"1"`, `"NaN"`), "a string"},
		"grammar":              {"tc", taken(`"1"`, `"NaN"`), "a grammar in GBNF"},
		"encoding_format":      {"e", taken(), "float or base64"},
		"stop":                 {"tc", taken(`"1"`, `"NaN"`), "a string"},
		"stop_token_ids":       {"tc", taken(list), ""},
		"logit_bias":           {"tc", taken(), ""},
		"response_format":      {"tc", taken(), ""},
		"stream_options":       {"tc", taken(), ""},
		"chat_template":        {"c", taken(`"1"`, `"NaN"`), "a chat template in Jinja"},
		"chat_template_kwargs": {"c", taken(object, `{"1": null}`), "an object"},
		"tools":                {"c", taken(), ""},
		"tool_choice":          {"c", taken(), "tool_choice is"},
		"foretoken":            {"tc", taken(object), ""},
		"messages":             {"c", taken(), ""},
		"prompt":               {"t", taken(`"1"`, `"NaN"`, list), ""},
		"input":                {"e", taken(`"1"`, `"NaN"`, list), ""},
		"model":                {"tce", taken(`"1"`, `"NaN"`), "the name of a model"},
		"foretoken.depth":      {"tc", taken(zeroOne...), "want"},
		"foretoken.threshold": {"tc", taken(append(zeroOne, `1.5`, `1e2`, `99999999999999999999`, `9007199254740993`,
			`18446744073709551615`)...), ""},
		"include_stop_str_in_output":    {"tc", taken(`true`), "true or false"},
		"foretoken.policy":              {"tc", taken(), ""},
		"foretoken.coupled":             {"tc", taken(`true`), "true or false"},
		"foretoken.json_open":           {"tc", taken(`true`), "true or false"},
		"foretoken.unchecked":           {"tc", taken(), "want"},
		"stream_options.include_usage":  {"tc", taken(`true`), "true or false"},
		"response_format.type":          {"tc", taken(), ""},
		"response_format.json_schema":   {"tc", taken(), ""},
		"messages[0].role":              {"c", taken(), ""},
		"messages[0].content":           {"c", taken(`"1"`, `"NaN"`), ""},
		"messages[0].content[0].text":   {"c", taken(`"1"`, `"NaN"`), ""},
		"messages[0].name":              {"c", taken(`"1"`, `"NaN"`), "a string"},
		"tools[0].function.name":        {"c", taken(`"1"`, `"NaN"`), ""},
		"tools[0].function.strict":      {"c", taken(`true`), "true or false"},
		"tools[0].function.description": {"c", taken(`"1"`, `"NaN"`), "a string"},
	}
	around := map[string]string{
		"foretoken":              `"foretoken": {"policy": "eagle2", "nodes": 8, %s}`,
		"stream_options":         `"stream": true, "stream_options": {%s}`,
		"response_format":        `"response_format": {"type": "json_object", %s}`,
		"messages[0]":            `"messages": [{"role": "user", "content": "a", %s}]`,
		"messages[0].content[0]": `"messages": [{"role": "user", "content": [{"type": "text", "text": "a", %s}]}]`,
		"tools[0].function":      `"tools": [{"type": "function", "function": {"name": "f", %s}}]`,
	}
	o := Options{Defaults: foretoken.DefaultRequest(), Templates: true}
	tried := 0
	for name, field := range fields {
		parent, member := "", name
		if at := strings.LastIndexByte(name, '.'); at >= 0 {
			parent, member = name[:at], name[at+1:]
		}
		for _, value := range append(values, "null") {
			given := fmt.Sprintf("%q: %s", member, value)
			top := member
			if parent != "" {
				given = fmt.Sprintf(strings.Replace(around[parent], fmt.Sprintf(`"%s": "a", `, member), "", 1), given)
				given = strings.Replace(given, fmt.Sprintf(`"%s": "user", `, member), "", 1)
				given = strings.Replace(given, fmt.Sprintf(`"%s": "text", `, member), "", 1)
				given = strings.Replace(given, fmt.Sprintf(`"%s": "f", `, member), "", 1)
				given = strings.Replace(given, fmt.Sprintf(`"%s": "eagle2", `, member), "", 1)
				given = strings.Replace(given, fmt.Sprintf(`"%s": "json_object", `, member), "", 1)
				top, _, _ = strings.Cut(strings.ReplaceAll(parent, "[", "."), ".")
			}
			for _, kind := range field.in {
				wanted := map[rune]Endpoint{'t': Completions, 'c': ChatCompletions, 'e': Embeddings}[kind]
				body := "{" + given
				for _, needed := range []string{`"model": "demo"`, map[Endpoint]string{Completions: `"prompt": "a"`,
					ChatCompletions: `"messages": [{"role": "user", "content": "a"}]`,
					Embeddings:      `"input": "a"`}[wanted]} {
					if !strings.HasPrefix(needed, `"`+top+`"`) {
						body += ", " + needed
					}
				}
				body += "}"
				tried++
				_, err := Parse([]byte(body), wanted, &o)
				required := slices.Contains([]string{"model", "prompt", "input", "messages", "messages[0].role",
					"messages[0].content", "messages[0].content[0].text", "tools[0].function.name",
					"response_format.type"}, name)
				switch {
				case value == "null" && !required || field.takes(value):
					if err != nil {
						t.Errorf("%s: %s", body, err.Message)
					}
				case err == nil:
					t.Errorf("%s: taken", body)
				case err.Status != 400 || err.Param == nil || !strings.HasPrefix(*err.Param, top) ||
					!strings.Contains(err.Message, member) && !strings.Contains(err.Message, top):
					t.Errorf("%s: %d %s %v: %s", body, err.Status, err.Code, err.Param, err.Message)
				case value != "null" && !strings.Contains(err.Message, field.wants):
					t.Errorf("%s: %s; want %q in it", body, err.Message, field.wants)
				case openaitest.Inside.MatchString(err.Message):
					t.Errorf("%s: a client is told %s", body, err.Message)
				}
			}
		}
	}
	if tried < 1000 {
		t.Errorf("%d bodies", tried)
	}
}
