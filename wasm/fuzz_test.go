package main

import (
	"bytes"
	"encoding/json"
	"io"
	"reflect"
	"strings"
	"testing"

	"foretoken"
	"foretoken/bench"
	"foretoken/models/fuzztest"
)

// FuzzMessages reads a page's messages: a request and a benchmark. Each is refused in one line, or valid as far as
// can be checked without models. The values equal an independent reading of the text, missing fields are the
// default's, and writing and reading again changes nothing.
func FuzzMessages(f *testing.F) {
	for _, text := range []string{`{"prompt": "x", "policy": "mars", "theta": 0.85, "temperature": 1}`,
		`{"policy": "eagle2", "shape": [[2],[1,1]], "logit_bias": {"3": -100}}`,
		`{"methods": "none,mars:theta=0.84", "prompts": [{"id": "go-1", "prompt": "x"}], "repeat": 2, "request": ` +
			`{"max_tokens": 8}}`,
		`{"prompt": "\ud800", "temperature": -1}`, `{"max_tokens": 1e308}`, `{"treshold": 1}`,
		`{"depth": 9223372036854775807}`, `{} {}`, `null`, ``, `{"` + strings.Repeat("é", 3000) + `": 1}`,
		`{"policy": "auto", "stop": ["\n", ""], "seed": 18446744073709551615, "top_k_sampling": 40, "top_p": ` +
			`0.9, "min_p": 0.05}`, `{"policy": 1}`, `{"policy": "chain", "depth": 4}}`, `{"policy": "mars"} x`,
		`{"Prompt": "a", "prompt": null}`,
		`{"coupled": false, "grammar": "root ::= \"a\"", "no_reuse": true, "logprobs": true, "top_logprobs": 2}`,
		`{"json_schema": {"type": "object", "properties": {"a": {"enum": ["<", 1e2]}}}}`,
		`{"methods": "chain,eagle2:coupled=false", "prompts": [{"id": "a-b-c", "prompt": "x"}, {"id": "-", "prompt": ` +
			`"y", "category": "z"}], "request": {"coupled": true, "stop": ["."]}, "no_score": true}`,
		`{"methods": "none", "prompts": [{"id": "a", "prompt": "x"}, {"id": "a", "prompt": "y"}]}`,
		`{"methods": "none", "prompts": [{"id": "a"}]}`, `{"methods": "none", "prompts": [null]}`,
		`{"methods": "none,none", "prompts": []}`, `{"methods": "none"} {}`,
		`{"methods": "none", "prompts": [{"id": "` + strings.Repeat("é", 2000) + `", "prompt": "x"}, {"id": "` +
			strings.Repeat("é", 2000) + `", "prompt": "x"}]}`} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		fuzztest.Bound(t, 32*len(body), func() {
			if r, err := readRequest(body); err != nil {
				fuzztest.Refusal(t, err, "foretoken: request: ")
			} else {
				requestIsRead(t, body, &r)
				if err := r.Validate(); err != nil {
					fuzztest.Refusal(t, err, "")
				}
			}
			if p, err := readMatrix(body); err != nil {
				fuzztest.Refusal(t, err, "foretoken: ")
			} else {
				matrixIsRead(t, body, &p)
			}
		})
	})
}

// object reads a text's fields untyped; nil where a field occurs twice, as Go matches names, or is misspelled.
func object(t *testing.T, body []byte) map[string]any {
	var o map[string]any
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	if err := d.Decode(&o); err != nil {
		t.Fatalf("%q is accepted: %v", body, err)
	}
	if _, err := d.Token(); err != io.EOF {
		t.Fatalf("%q is accepted, whatever its end says", body)
	}
	fields := 0
	for d, depth := json.NewDecoder(bytes.NewReader(body)), 0; ; {
		token, err := d.Token()
		if err != nil {
			break
		}
		switch token {
		case json.Delim('{'), json.Delim('['):
			if depth++; depth == 1 {
				continue
			}
		case json.Delim('}'), json.Delim(']'):
			if depth--; depth == 0 {
				continue
			}
		}
		if depth == 1 {
			fields++ // a name, or a value's end
		}
	}
	if fields != 2*len(o) {
		return nil
	}
	for name := range o {
		if strings.Trim(name, "abcdefghijklmnopqrstuvwxyz_") != "" {
			return nil
		}
	}
	return o
}

// plainJSON converts a value to JSON and back.
func plainJSON(t *testing.T, v any) any {
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	var back any
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	if err := d.Decode(&back); err != nil {
		t.Fatal(err)
	}
	return back
}

// says reports whether a value equals the text's: numbers in any notation; null and absence equal the empty value.
func says(text, got any) bool {
	switch text := text.(type) {
	case json.Number:
		a, err := text.Float64()
		if got == nil {
			return a == 0
		}
		g, ok := got.(json.Number)
		if !ok || err != nil {
			return false
		}
		b, _ := g.Float64()
		return a == b
	case []any:
		list, _ := got.([]any)
		if len(list) != len(text) {
			return false
		}
		for i := range text {
			if !says(text[i], list[i]) {
				return false
			}
		}
		return true
	case map[string]any:
		fields, _ := got.(map[string]any)
		if len(fields) != len(text) {
			return false
		}
		for k, v := range text {
			if other, ok := fields[k]; !ok || !says(v, other) {
				return false
			}
		}
		return true
	case nil:
		return got == nil || reflect.ValueOf(got).IsZero() || got == json.Number("0")
	}
	return text == got || got == nil && reflect.ValueOf(text).IsZero()
}

func requestIsRead(t *testing.T, body []byte, r *request) {
	written, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	again, err := readRequest(written)
	if err != nil {
		t.Fatalf("%s is written and not read: %v", written, err)
	}
	if twice, _ := json.Marshal(&again); !bytes.Equal(twice, written) {
		t.Fatalf("%s is read as %s", written, twice)
	}
	o := object(t, body)
	got := plainJSON(t, r).(map[string]any)
	d := request{Request: foretoken.DefaultRequest()}
	d.Policy = r.Policy // a request holds no settings of the default's method
	defaults := plainJSON(t, &d).(map[string]any)
	for name, value := range o {
		switch {
		case name == "logit_bias" ||
			name == "json_schema": // ids may be written in two ways, and a schema is kept as it is
		case value == nil:
			if !reflect.DeepEqual(got[name], defaults[name]) && !says(nil, got[name]) {
				t.Fatalf("%q has %s=%v", body, name, got[name])
			}
		case !says(value, got[name]):
			t.Fatalf("%q has %s=%v in its request", body, name, got[name])
		}
	}
	for name, value := range got {
		if _, set := o[name]; o != nil && !set && !reflect.DeepEqual(value, defaults[name]) {
			t.Fatalf("%q has %s=%v, which it does not set", body, name, value)
		}
	}
}

func matrixIsRead(t *testing.T, body []byte, p *bench.Matrix) {
	o := object(t, body)
	if o == nil {
		return
	}
	seen := map[string]bool{}
	prompts, _ := o["prompts"].([]any)
	if len(prompts) != len(p.Prompts) {
		t.Fatalf("%q has %d prompts", body, len(p.Prompts))
	}
	for _, one := range p.Prompts {
		if one.ID == "" || one.Prompt == "" || one.Category == "" || seen[one.ID] {
			t.Fatalf("%+v after %v", one, seen)
		}
		seen[one.ID] = true
	}
	if !says(o["repeat"], plainJSON(t, p.Repeat)) || o["no_score"] == true != p.NoScore {
		t.Fatalf("%q is repeated %d times, %v", body, p.Repeat, p.NoScore)
	}
	// The page's messages omit what equals this request, except settings that their methods set.
	d := foretoken.DefaultRequest()
	typed := matrix{Request: foretoken.Request{MaxTokens: d.MaxTokens, Seed: d.Seed}}
	if err := json.Unmarshal(body, &typed); err != nil {
		t.Fatalf("%q is accepted: %v", body, err)
	}
	for i := range p.Methods {
		m := &p.Methods[i]
		if err := m.Request.Validate(); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(typed.Methods, "seed") && m.Request.Seed != typed.Request.Seed ||
			!strings.Contains(typed.Methods, "max") && m.Request.MaxTokens != typed.Request.MaxTokens ||
			!reflect.DeepEqual(m.Request.Stop, typed.Request.Stop) || !strings.Contains(typed.Methods, "coupled") &&
			!reflect.DeepEqual(m.Request.Coupled, typed.Request.Coupled) {
			t.Fatalf("%q: %q runs %+v", body, m.Name, m.Request)
		}
	}
	typed.Prompts = p.Prompts // each with its category
	written, err := json.Marshal(&typed)
	if err != nil {
		t.Fatal(err)
	}
	again, err := readMatrix(written)
	if err != nil || !reflect.DeepEqual(plainJSON(t, &again.Prompts), plainJSON(t, &p.Prompts)) ||
		!reflect.DeepEqual(plainJSON(t, again.Methods), plainJSON(t, p.Methods)) {
		t.Fatalf("%s is read as %+v and was %+v: %v", written, again, p, err)
	}
}
