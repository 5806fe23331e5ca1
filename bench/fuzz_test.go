package bench

import (
	"bytes"
	"encoding/json"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"foretoken"
	"foretoken/models/constrain"
	"foretoken/models/fuzztest"
	"foretoken/spec/method"
)

// FuzzMethods reads lists of methods with settings, for the default request and for one with a value behind every
// pointer. Every setting of a list must be in the request, methods must not share what they set, and requests
// written as lists must be read back equal.
func FuzzMethods(f *testing.F) {
	for _, list := range []string{"none,eagle2:depth=4,mars:theta=0.84", `static:shape=[[4],[2,1]],name=x`,
		"none:temperature=NaN", "none:max-tokens=-1", "none:temperature=1e309", ":", "a=1", "none:stop=1",
		strings.Repeat("\x8d", 3000), strings.Repeat("x", 3000), "none:name=a\nb", "none:a\x1b=1",
		"chain:coupled=false,eagle2,eagle2:coupled=true,nodes=9",
		"static,static:shape=[[2],[1,1]],sampled:temperature=1",
		`chain:logit-bias={"3":-100,"4":1.5},chain:logit_bias={"5":1},none`,
		"none:depth=null", "none:depth=2.5", "none:seed=-1", "none:seed=18446744073709551615", "none:temperature=x",
		"none:coupled=maybe", "none:logit-bias=3", "none:json-schema={", "none:shape=4", "none:depth",
		"none:depth=",
		"none,none", "none,,none", "none:temperature=-1", "none:max-tokens=7 , min-p=0.05,top-p=0.9, top-k-sampling=40",
		"chain:depth=100", "magic",
		`none:json-schema={"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"string"}}}`,
		`none:grammar=root ::= [a-c,]{1,2} "x"`,
		"none:json-object=true,presence-penalty=-0.5,frequency-penalty=1e-3",
		"c2t:one-pruning=true,hetero:no-extension=true,no-pruning=true,no-adaptation=true," +
			"adaedl:lambda=0.3,threshold=0.2",
		"assisted:schedule=constant,mars:mode=sampled,gap=2,adasd:variant=a,carry=true",
		"ngram:ngram-max=4,ngram-min=2,depth=5", "eagle3,eagle2:source=eagle3,verifier=match,adapt=fixed",
		"none:logprobs=true,top-logprobs=3,no-reuse=true", "none:name=],chain:name=[,x"} {
		f.Add(list)
	}
	off := false
	full := foretoken.Request{MaxTokens: 9, Temperature: 0.5, Seed: 3, Policy: method.DrafterChain,
		Shape: [][]int{{3}, {1, 1, 1}}, Coupled: &off,
		Constraints: constrain.Constraints{LogitBias: map[int32]float32{7: 1}}}
	full.Theta, full.Lambda = 0.8, 0.1
	f.Fuzz(func(t *testing.T, list string) {
		for _, common := range []foretoken.Request{foretoken.DefaultRequest(), full} {
			before := requestText(t, &common)
			var methods []Method
			var err error
			// Each grammar in a list counts as one more input.
			more := max(strings.Count(list, "grammar")+strings.Count(list, "json")-1, 0) * fuzztest.Overhead
			fuzztest.Bound(t, 32*len(list)+more, func() { methods, err = ParseMethods(list, common) })
			if now := requestText(t, &common); now != before {
				t.Fatalf("%q made the common request %s of %s", list, now, before)
			}
			if err != nil {
				fuzztest.Refusal(t, err, "foretoken: ")
				continue
			}
			readMethods(t, list, methods, common)
		}
	})
}

func readMethods(t *testing.T, list string, methods []Method, common foretoken.Request) {
	named := strings.Contains(list, "name")
	var names []string
	for i := range methods {
		m := &methods[i]
		if err := m.check(); err != nil {
			t.Fatal(err)
		}
		if m.Name == "" || slices.Contains(names, m.Name) {
			t.Fatalf("%q has %q after %q", list, m.Name, names)
		}
		names = append(names, m.Name)
		if plain := plainRequest(m.Request); plain.Temperature != m.Request.Temperature ||
			!reflect.DeepEqual(plain.Constraints, m.Request.Constraints) {
			t.Fatalf("%q is compared with plain decoding of %s", m.Name, requestText(t, &plain))
		}
		text := requestFields(t, &m.Request)
		if !named && !strings.ContainsAny(m.Name, "[]{}") {
			settled(t, m.Name, text)
		}
		// The name is the list's text of the method unless the list sets it.
		if !named {
			alone, err := ParseMethods(m.Name, common)
			if err != nil || len(alone) != 1 || !reflect.DeepEqual(alone[0], *m) {
				t.Fatalf("%q is read as %+v alone, as %+v in %q: %v", m.Name, alone, *m, list, err)
			}
		}
		if balanced(m) {
			again, err := ParseMethods(canonical(t, m.Request.Policy, text), foretoken.Request{})
			if err != nil || len(again) != 1 || requestText(t, &again[0].Request) != requestText(t, &m.Request) {
				t.Fatalf("%s of %q is written as %q and read as %+v, %v", requestText(t, &m.Request), list,
					canonical(t, m.Request.Policy, text), again, err)
			}
		}
	}
	if !named {
		if again, err := ParseMethods(strings.Join(names, ","), common); err != nil ||
			!reflect.DeepEqual(again, methods) {
			t.Fatalf("%q is written as %q and read as %+v, %v", list, names, again, err)
		}
	}
}

// settled fails if a setting in a method's name is not in the request. Of duplicates the last counts.
func settled(t *testing.T, name string, text map[string]json.RawMessage) {
	policy, settings, _ := strings.Cut(name, ":")
	if got := string(text["policy"]); got != strconv.Quote(policy) {
		t.Fatalf("%q decodes by %s", name, got)
	}
	last := map[string]string{}
	for _, s := range strings.Split(settings, ",") {
		if key, value, ok := strings.Cut(s, "="); ok {
			last[strings.ReplaceAll(key, "-", "_")] = value
		}
	}
	for key, value := range last {
		var got any
		if text[key] != nil {
			d := json.NewDecoder(bytes.NewReader(text[key]))
			d.UseNumber()
			if err := d.Decode(&got); err != nil {
				t.Fatal(err)
			}
		}
		ok := false
		switch got := got.(type) {
		case nil: // JSON omits it
			n, err := strconv.ParseFloat(value, 64)
			ok = err == nil && n == 0 || value == "false"
		case string:
			ok = got == value
		case bool:
			ok = strconv.FormatBool(got) == value
		case json.Number:
			a, _ := got.Float64()
			b, err := strconv.ParseFloat(value, 64)
			ok = err == nil && a == b && (strings.ContainsAny(value, ".eE-") || got.String() == value)
		}
		if !ok {
			t.Fatalf("%q has %s=%v in its request", name, key, got)
		}
	}
}

// requestText returns a request's JSON without optional escapes.
func requestText(t *testing.T, r *foretoken.Request) string {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(r); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func requestFields(t *testing.T, r *foretoken.Request) map[string]json.RawMessage {
	var text map[string]json.RawMessage
	if err := json.Unmarshal([]byte(requestText(t, r)), &text); err != nil {
		t.Fatal(err)
	}
	return text
}

// canonical writes one request as a method list with every field.
func canonical(t *testing.T, policy string, text map[string]json.RawMessage) string {
	keys := make([]string, 0, len(text))
	for key := range text {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	list := policy + ":name=x"
	for _, key := range keys {
		value := string(text[key])
		if key == "policy" || key == "stop" || value == "null" || value == `""` {
			continue
		}
		if value[0] == '"' {
			if err := json.Unmarshal(text[key], &value); err != nil {
				t.Fatal(err)
			}
		}
		list += "," + key + "=" + value
	}
	return list
}

// balanced reports whether brackets in a method's texts match, as in JSON.
func balanced(m *Method) bool {
	open := 0
	for _, c := range m.Request.Grammar + string(m.Request.JSONSchema) {
		switch c {
		case '[', '{':
			open++
		case ']', '}':
			open--
		}
		if open < 0 {
			return false
		}
	}
	return open == 0
}
