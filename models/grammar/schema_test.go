package grammar

import (
	"bytes"
	"context"
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"

	"foretoken/models/fuzztest"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

func schemaGrammar(t testing.TB, schema string, layout Layout) *Grammar {
	t.Helper()
	g, err := FromSchema(context.Background(), []byte(schema), SchemaOptions{Layout: layout})
	if err != nil {
		t.Fatalf("%s: %v", schema, err)
	}
	return g
}

// schemas holds the schemas that the tests match texts against.
var schemas = []struct {
	schema string
	yes    []string
	no     []string
}{
	{`{}`, []string{`{"a":[1,-2.5e3,"x\n\u00e9",true,null]}`, `"a"`, `0`},
		[]string{`01`, `{a:1}`, `[1,]`, `"a`, `tru`, "\"\n\""}},
	{`true`, []string{`1`}, []string{``}},
	{`{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"integer"}},"required":["a"]}`,
		[]string{`{"a":"x"}`, `{"a":"x","b":12}`, `{ "a" : "" , "b" : 0 }`},
		[]string{`{}`, `{"b":1}`, `{"a":1}`, `{"a":"x","c":1}`, `{"a":"x","b":1.5}`, `{"a":"x",}`}},
	{`{"type":"object","properties":{"a":{},"b":{},"c":{}}}`,
		[]string{`{}`, `{"a":1}`, `{"b":1}`, `{"c":1}`, `{"a":1,"c":1}`, `{"a":1,"b":2,"c":3}`, `{"b":1,"c":1}`},
		[]string{`{"a":1,"a":1}`, `{,"b":1}`, `{"d":1}`}},
	{`{"type":"object","properties":{"ab":{"type":"integer"},"ac":{"type":"integer"}},` +
		`"additionalProperties":{"type":"string"}}`,
		[]string{`{}`, `{"ab":1}`, `{"x":"y"}`, `{"ac":1,"a":"y","abc":"z","é":"w"}`, `{"ab":1,"ac":2,"":""}`},
		[]string{`{"ab":"y"}`, `{"x":1}`, `{"x":"y","ab":1}`, `{"x":"y","ac":"z"}`}},
	{`{"type":"object","additionalProperties":{"type":"boolean"},"minProperties":1,"maxProperties":2}`,
		[]string{`{"a":true}`, `{"a":true,"b":false}`}, []string{`{}`, `{"a":1}`, `{"a":true,"b":true,"c":true}`}},
	{`{"type":"object","required":["x"]}`, []string{`{"x":1}`, `{"x":[],"y":2}`}, []string{`{}`, `{"y":1}`}},
	{`{"type":"object","properties":{},"additionalProperties":false}`, []string{`{}`, `{ }`}, []string{`{"a":1}`}},
	{`{"type":"array","items":{"type":"integer"},"minItems":1,"maxItems":3}`, []string{`[1]`, `[1, 2]`, `[1,2,3]`},
		[]string{`[]`, `[1,2,3,4]`, `["a"]`}},
	{`{"type":"array","prefixItems":[{"type":"integer"},{"type":"string"}],"items":{"type":"null"},"minItems":1,` +
		`"maxItems":4}`,
		[]string{`[1]`, `[1,"a"]`, `[1,"a",null,null]`},
		[]string{`[]`, `["a"]`, `[1,null]`, `[1,"a",null,null,null]`, `[1,"a",1]`}},
	{`{"type":"array","prefixItems":[{"type":"integer"}],"items":false}`, []string{`[]`, `[1]`}, []string{`[1,2]`}},
	{`{"type":"array","items":false}`, []string{`[]`}, []string{`[1]`}},
	{`{"type":"string","minLength":2,"maxLength":3}`, []string{`"ab"`, `"é漢\n"`}, []string{`"a"`, `"abcd"`}},
	{`{"type":"string","pattern":"^a+[0-9\"]{2}$"}`, []string{`"a12"`, `"aa\"1"`},
		[]string{`"a1"`, `"a12 "`, `"1"`, `"a""1"`}},
	{`{"type":"string","pattern":"x|^y"}`, []string{`"axb"`, `"ya"`, `"x"`}, []string{`"ay"`, `""`}},
	{`{"type":"string","pattern":"^[^a-z]\\S.\\w$"}`, []string{`"A1 x"`, `"\\é_0"`, `"\tyyy"`},
		[]string{`"aAAA"`, `"A   "`, `"A1\nx"`}},
	{`{"type":"string","format":"date"}`, []string{`"2026-01-31"`, `"2024-02-29"`, `"2000-02-29"`},
		[]string{`"2026-02-29"`, `"1900-02-29"`, `"2026-04-31"`, `"2026-13-01"`, `"26-01-01"`, `""`}},
	{`{"type":"string","format":"date-time"}`, []string{`"2026-01-31T23:59:59Z"`, `"2026-01-31T00:00:00.5+02:00"`},
		[]string{`"2026-01-31"`, `"2026-01-31T24:00:00Z"`}},
	{`{"type":"string","format":"uuid"}`, []string{`"123e4567-e89b-12d3-a456-426614174000"`}, []string{`"123e4567"`}},
	{`{"type":"string","format":"ipv4"}`, []string{`"0.0.0.0"`, `"255.10.1.99"`},
		[]string{`"256.0.0.1"`, `"1.2.3"`, `"01.2.3.4"`}},
	{`{"type":"string","format":"email"}`, []string{`"a.b@example.org"`}, []string{`"a@"`, `"@b"`, `".a@b"`}},
	{`{"type":"string","format":"duration"}`, []string{`"P1D"`, `"PT1H2M"`, `"P2W"`}, []string{`"P"`, `"PT"`}},
	{`{"type":"integer"}`, []string{`0`, `-12`, `1234567890123456`}, []string{`1.0`, `01`, `12345678901234567`}},
	{`{"type":"integer","minimum":-5,"exclusiveMaximum":100}`, []string{`-5`, `0`, `99`}, []string{`-6`, `100`, `-0`}},
	{`{"type":"integer","minimum":9999999999999998,"exclusiveMaximum":123456789012345678901234567890}`,
		[]string{`9999999999999998`, `10000000000000000`}, []string{`9999999999999997`}},
	{`{"type":"number","exclusiveMinimum":-10000000000000000.5,"maximum":-9999999999999999}`,
		[]string{`-9999999999999999`, `-9999999999999999.5`, `-10000000000000000`},
		[]string{`-9999999999999998`, `-10000000000000001`}},
	{`{"type":"number","minimum":0.25,"maximum":1.5}`, []string{`0.25`, `0.3`, `1`, `1.5`, `1.50`, `0.9999`},
		[]string{`0`, `0.2`, `1.51`, `-1`, `1.501`, `1e0`}},
	{`{"type":"number"}`, []string{`1`, `-0.5`, `1e9`, `2.5E-3`}, []string{`.5`, `1.`, `+1`, `1e1234`}},
	{`{"type":["string","null"]}`, []string{`"a"`, `null`}, []string{`1`}},
	{`{"type":["integer","number"]}`, []string{`1.5`, `1`}, []string{`"1"`}},
	{`{"type":"boolean"}`, []string{`true`, `false`}, []string{`null`, `1`}},
	{`{"enum":["a\"b",1,null,{"k":[1,2]}]}`, []string{`"a\"b"`, `1`, `null`, `{"k":[1,2]}`}, []string{`"a"`, `2`}},
	{`{"const":"x"}`, []string{`"x"`}, []string{`"y"`}},
	{`{"anyOf":[{"type":"integer"},{"type":"string"}]}`, []string{`1`, `"a"`}, []string{`null`}},
	{`{"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"integer"}},"oneOf":[{"required":["a"]},` +
		`{"required":["b"]}]}`,
		[]string{`{"a":1}`, `{"b":1}`}, []string{`{}`}},
	{`{"allOf":[{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"]},` +
		`{"properties":{"b":{"type":"string"}},"required":["b"]}]}`,
		[]string{`{"a":1,"b":"x"}`}, []string{`{"a":1}`, `{"b":"x"}`}},
	{`{"allOf":[{"type":["integer","string"],"minimum":3},{"type":"number","minimum":5,"maximum":9}]}`,
		[]string{`5`, `9`}, []string{`4`, `10`, `"a"`}},
	{`{"$defs":{"tree":{"type":"object","properties":{"v":{"type":"integer"},"c":{"type":"array",` +
		`"items":{"$ref":"#/$defs/tree"}}},"required":["v"]}},"$ref":"#/$defs/tree"}`,
		[]string{`{"v":1}`, `{"v":1,"c":[{"v":2,"c":[]},{"v":3}]}`}, []string{`{"c":[]}`, `{"v":1,"c":[1]}`}},
	{`{"type":"array","items":{"$ref":"#"}}`, []string{`[]`, `[[],[[]]]`}, []string{`[1]`}},
	{`{"$defs":{"a/b":{"type":"null"}},"properties":{"x":{"$ref":"#/$defs/a~1b","title":"t"}},"required":["x"]}`,
		[]string{`{"x":null}`}, []string{`{"x":1}`}},
	// References begin at the nearest $id that is no fragment.
	{`{"$id":"all","$defs":{"x":{"type":"integer"}},"items":{"$ref":"#/$defs/x"},"prefixItems":[` +
		`{"$defs":{"x":{"const":"a"}},"$ref":"#/$defs/x","$id":"first"},` +
		`{"$defs":{"x":{"const":"b"},"y":{"$id":"deep","$defs":{"x":{"const":"c"}},` +
		`"type":"array","items":{"title":"t","$ref":"#/$defs/x"}}},"$id":"next",` +
		`"anyOf":[{"$ref":"#/$defs/x"},{"$ref":"#/$defs/y"}]},` +
		`{"$ref":"#/$defs/x"},{"properties":{"$id":{"$ref":"#/$defs/x"}},"required":["$id"]}]}`,
		[]string{`["a"]`, `["a","b",1]`, `["a",["c"],2,{"$id":3}]`, `["a","b",1,{"$id":1},4]`},
		[]string{`[1]`, `["b"]`, `["a","a"]`, `["a",["b"]]`, `["a",1]`, `["a","b","a"]`}},
}

func TestSchema(t *testing.T) {
	for _, c := range schemas {
		holds(t, c.schema, schemaGrammar(t, c.schema, Free), c.yes, c.no)
	}
}

// holds compares the texts that a schema's grammar allows with those that it should.
func holds(t *testing.T, schema string, g *Grammar, yes, no []string) {
	t.Helper()
	for _, text := range yes {
		if !allows(g, text) {
			t.Errorf("%s does not allow %.80s", schema, text)
		}
	}
	for _, text := range no {
		if allows(g, text) {
			t.Errorf("%s allows %.80s", schema, text)
		}
	}
}

// TestCompactLayout takes every text of the table without white space and with one space after colons and commas, and
// none with lines and indents.
func TestCompactLayout(t *testing.T) {
	for _, c := range schemas {
		g := schemaGrammar(t, c.schema, Compact)
		for _, text := range c.yes {
			var compact, lines bytes.Buffer
			if json.Compact(&compact, []byte(text)) != nil || json.Indent(&lines, []byte(text), "", "\t") != nil {
				t.Fatalf("%s is no JSON", text)
			}
			if !allows(g, compact.String()) {
				t.Errorf("%s: %s is refused", c.schema, compact.String())
			}
			if bytes.ContainsRune(lines.Bytes(), '\n') && allows(g, lines.String()) {
				t.Errorf("%s: %q is allowed", c.schema, lines.String())
			}
		}
	}
	object := schemaGrammar(t, `{"type":"object"}`, Compact)
	for text, want := range map[string]bool{`{"a": 1, "b": [true, null]}`: true, `{"a":1,"b":[]}`: true, `{}`: true,
		`{ "a":1}`: false, `{"a" :1}`: false, `{"a":  1}`: false, "{\n}": false,
		`{"a":1 }`: false, `{"a":[1 ,2]}`: false,
		`{"a":"x \u0009  y"}`: true} {
		if got := allows(object, text); got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
}

func TestSchemaMistakes(t *testing.T) {
	for schema, want := range map[string]string{
		``:                                    "not JSON",
		`{"type":`:                            "not JSON",
		`{} {}`:                               "there is more after",
		`1`:                                   "a schema is an object",
		`{"items":1}`:                         "at #/items: a schema is an object, true or false, not 1",
		`false`:                               "allows nothing",
		`{"type":"text"}`:                     `at #/type: "text" is no type`,
		`{"type":[]}`:                         "at #/type: an empty list allows nothing",
		`{"not":{}}`:                          "at #: allows nothing",
		`{"type":"array","uniqueItems":true}`: "at #/uniqueItems: uniqueItems is held to where the items",
		`{"not":{"uniqueItems":true}}`:        "at #/not/uniqueItems: uniqueItems cannot be denied",
		`{"$dynamicRef":"#a"}`:                "at #/$dynamicRef: $dynamicRef is not held to; write $ref",
		`{"contains":{},"unevaluatedItems":false}`:                           "at #/unevaluatedItems: uneval",
		`{"type":"integer","multipleOf":0}`:                                  "at #/multipleOf: want a number above 0",
		`{"multipleOf":1.234567}`:                                            "at #/multipleOf: multiples",
		`{"type":"string","pattern":"(?<a>b)\\k<a>"}`:                        "at #/pattern: ",
		`{"type":"string","pattern":"\\uD83D"}`:                              "half of a character",
		`{"type":"string","pattern":"[\\uDE00\\uD83D]"}`:                     "half of a character",
		`{"type":"string","pattern":"\\u12"}`:                                "hexadecimal",
		`{"type":"string","pattern":"a","maxLength":0}`:                      "allows nothing: no string passes",
		`{"type":"string","minLength":3,"maxLength":2}`:                      "minLength 3 is more than maxLength 2",
		`{"type":"string","maxLength":-1}`:                                   "want a whole number from 0",
		`{"type":"string","minLength":1.5}`:                                  "want a whole number from 0",
		`{"type":"string","minLength":300000}`:                               "want a number from 0 to 262144",
		`{"type":"integer","minimum":5,"maximum":4}`:                         "allows nothing: no number is within",
		`{"type":"integer","exclusiveMinimum":4,"exclusiveMaximum":5}`:       "no number is within the bounds",
		`{"type":"number","minimum":1.5,"maximum":1.25}`:                     "no number is within the bounds",
		`{"type":"integer","minimum":"5"}`:                                   "at #/minimum: want a number",
		`{"$ref":"#/$defs/x"}`:                                               "points at nothing",
		`{"$defs":{"x":{}},"items":{"$id":"a","$ref":"#/$defs/x"}}`:          "points at nothing",
		`{"$ref":"http://example.org"}`:                                      "at #/$ref: leads out of the schema",
		`{"anyOf":[{"$id":"a"},{"$id":"a"}],"$ref":"a"}`:                     "at #/$ref: is the name of two schemas",
		`{"type":"object","properties":{"a":{"$ref":"#"}},"required":["a"]}`: "another one within",
		`{"properties":{"a":{}},"not":{"properties":{"z":{"type":"null"}}}}`: "json_open",
		`{"uniqueItems":"true"}`:                                             "at #/uniqueItems: want true or false",
		`{"$ref":"#"}`:                                                       "leads back to itself",
		`{"$ref":"#","type":"object"}`:                                       "leads back to itself",
		`{"allOf":[{"$ref":"#"}]}`:                                           "leads back to itself",
		`{"anyOf":[]}`:                                                       "at #/anyOf: want a list of schemas",
		`{"enum":[]}`:                                                        "at #/enum: want a list of values",
		`{"required":"a"}`:                                                   "at #/required: want a list of names",
		`{"dependentRequired":{"a":1}}`:                                      "at #/dependentRequired/a: want a list",
		`{"required":["a"],"additionalProperties":false}`:                    `"a" is required, and no value of it`,
		`{"allOf":[{"type":"string"},{"type":"integer"}]}`:                   "allows nothing: the types leave none",
		`{"properties":{"a":{"items":{"minItems":2,"maxItems":1}}},` +
			`"required":["a"],"minProperties":2,"maxProperties":1}`: "minProperties 2 is more than maxProperties 1",
		`{"properties":{"a":{"minItems":2,"maxItems":1}},"required":["a"]}`:        "at #/properties/a: allows nothing",
		strings.Repeat(`{"items":`, 300) + `{}` + strings.Repeat(`}`, 300):         "deeper than",
		`{"type":"string","allOf":[` + many(60, `{"pattern":"a.{%d}b.*c"}`) + `]}`: "compiling takes more than",
	} {
		_, err := FromSchema(context.Background(), []byte(schema), SchemaOptions{})
		if err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "grammar: ") {
			t.Errorf("%.80s: %v, want %q", schema, err, want)
		}
	}
}

// TestCodePoints: escapes of ECMAScript that Go's expressions, and so the other implementation, do not have.
func TestCodePoints(t *testing.T) {
	g := schemaGrammar(t, `{"type":"string","pattern":"^\\uD83D\\uDE00[\\u00e9\\u{1F601}-\\uD83D\\uDE02]$"}`, Free)
	for text, want := range map[string]bool{`"😀é"`: true, `"😀😂"`: true, `"😀"`: false, `"😀😃"`: false,
		"\"\ufffd\ufffdé\"": false} {
		if allows(g, text) != want {
			t.Errorf("%s: want %t", text, want)
		}
	}
}

// otherReader is a schema as another implementation reads it.
func otherReader(t *testing.T, schema string) *jsonschema.Schema {
	t.Helper()
	compiler := jsonschema.NewCompiler()
	compiler.AssertFormat()
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(schema))
	if err != nil {
		t.Fatal(err)
	}
	if err := compiler.AddResource("schema.json", doc); err != nil {
		t.Fatal(err)
	}
	valid, err := compiler.Compile("schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return valid
}

// TestSchemaTexts walks through each grammar at random and has another implementation of JSON
// Schema validate what came out.
func TestSchemaTexts(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for _, c := range schemas {
		valid := otherReader(t, c.schema)
		g := schemaGrammar(t, c.schema, Free)
		whole := 0
		for range rounds(60) {
			text, ok := walk(g, rng)
			if !ok {
				continue
			}
			whole++
			v, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
			if err != nil {
				t.Fatalf("%s gave %q: %v", c.schema, text, err)
			}
			if err := valid.Validate(v); err != nil {
				t.Fatalf("%s gave %q: %v", c.schema, text, err)
			}
		}
		if whole < rounds(60)/12 {
			t.Errorf("%s: only %d of the walks came to an end", c.schema, whole)
		}
	}
}

// rounds is fewer in a short run.
func rounds(n int) int {
	if testing.Short() {
		return n / 5
	}
	return n
}

// walk is a random text of a grammar, and whether it came to an end.
func walk(g *Grammar, rng *rand.Rand) (string, bool) {
	m := NewMatcher(context.Background(), g, bytesVocab())
	s := m.Start()
	var out []byte
	for range 400 {
		if s.CanEnd() && (s.MustEnd() || rng.IntN(3) == 0) {
			return string(out), true
		}
		mask := m.Mask(s)
		var can []byte
		for b := range 256 {
			if mask[b/32]>>(b%32)&1 == 1 {
				can = append(can, byte(b))
			}
		}
		b := can[rng.IntN(len(can))]
		// What closes something is preferred, so that walks end.
		if rng.IntN(3) > 0 {
			for _, c := range can {
				if c == '}' || c == ']' || c == '"' {
					b = c
				}
			}
		}
		out = append(out, b)
		s, _ = m.Accept(s, int32(b))
	}
	return "", false
}

func FuzzSchema(f *testing.F) {
	for _, c := range schemas {
		f.Add([]byte(c.schema), "{\"a\":1}")
	}
	f.Add([]byte(`{"type":"string","no\nword":1}`), "")
	f.Add([]byte(`{"properties":{"`+strings.Repeat("n", 5000)+`":{"pattern":"("}}}`), "")
	f.Fuzz(func(t *testing.T, schema []byte, text string) {
		var g *Grammar
		var err error
		fuzztest.Bound(t, len(schema), func() { g, err = FromSchema(context.Background(), schema, SchemaOptions{}) })
		if err != nil {
			fuzztest.Refusal(t, err, "grammar: ")
			return
		}
		if len(g.ops) < 1<<12 {
			fuzztest.Bound(t, len(schema), func() {
				if text = text[:min(len(text), 200)]; allows(g, text) && !json.Valid([]byte(text)) {
					t.Fatalf("%s allows %q, which is not JSON", schema, text)
				}
			})
		}
	})
}
