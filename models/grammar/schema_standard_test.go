package grammar

import (
	"context"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// standard holds schemas as the standard reads them, with texts that pass and texts that do not. JSON Schema 2020-12,
// core 7.6: each keyword asserts by itself, and a value must pass all of them.
var standard = []struct {
	schema  string
	yes, no []string
}{
	// Strings: pattern, format and lengths in every combination.
	{`{"type":"string","pattern":"^[a-z]+$","minLength":2,"maxLength":3}`, []string{`"ab"`, `"abc"`},
		[]string{`"a"`, `"abcd"`, `"A1"`}},
	{`{"type":"string","pattern":"q","maxLength":3}`, []string{`"q"`, `"aqb"`, `"é\nq"`}, []string{`"aqbc"`, `"abc"`}},
	{`{"format":"date","pattern":"^20","type":"string"}`, []string{`"2024-02-29"`}, []string{`"1999-01-01"`, `"20"`}},
	{`{"type":"string","format":"ipv4","maxLength":7}`, []string{`"1.2.3.4"`}, []string{`"1.2.3.45"`}},
	{`{"type":"string","format":"uuid","pattern":"^[0-9a-f-]*$"}`, []string{`"00000000-0000-4000-8000-0000000000ff"`},
		[]string{`"00000000-0000-4000-8000-0000000000FF"`}},
	{`{"type":"string","allOf":[{"pattern":"^a"},{"pattern":"b$"},{"minLength":3}]}`, []string{`"acb"`},
		[]string{`"ab"`, `"aab "`, `"bab"`}},
	{`{"type":"string","allOf":[{"format":"date-time"},{"format":"no format"},{"pattern":"Z$"}]}`,
		[]string{`"2026-01-31T23:59:59Z"`}, []string{`"2026-01-31T23:59:59+01:00"`, `"Z"`}},
	{`{"type":"string","minLength":1,"maxLength":1}`, []string{`"a"`, `"😀"`, `"\ud83d\ude00"`, `"\u00e9"`},
		[]string{`""`, `"\ud83d"`, `"\ud83d\ud83d"`, `"ab"`}},
	{`{"type":"string","maxLength":70000}`, []string{`""`, `"` + strings.Repeat("x", 1000) + `"`},
		[]string{`"` + strings.Repeat("x", 70001) + `"`}},
	{`{"type":"string","minLength":300,"maxLength":700}`,
		[]string{`"` + strings.Repeat("é", 300) + `"`, `"` + strings.Repeat("x", 555) + `"`,
			`"` + strings.Repeat("x", 700) + `"`},
		[]string{`"` + strings.Repeat("x", 299) + `"`, `"` + strings.Repeat("x", 701) + `"`}},
	{`{"type":"string","format":"uri","minLength":12,"maxLength":2048}`,
		[]string{`"http://a.bc/"`, `"http://a/` + strings.Repeat("b", 2039) + `"`},
		[]string{`"http://a.b/"`, `"http://a/` + strings.Repeat("b", 2040) + `"`, `"http//a.bc/d"`}},
	{`{"type":"string","format":"hostname","pattern":"^(?=.{1,253}\\.?$)[a-z](?:[a-z-]{0,61}[a-z])?` +
		`(?:\\.[a-z](?:[a-z-]{0,61}[a-z])?)*\\.?$"}`,
		[]string{`"a"`, `"a-b.cd"`, `"` + strings.Repeat("a.", 126) + `a"`},
		[]string{`"a."`, `"a1"`, `"` + strings.Repeat("a.", 126) + `aa"`, `"` + strings.Repeat("a", 64) + `"`}},
	{`{"type":"string","pattern":"^(aaaa)*b?$","minLength":6,"maxLength":12}`,
		[]string{`"aaaaaaaa"`, `"aaaaaaaab"`, `"aaaaaaaaaaaa"`}, []string{`"aaaa"`, `"aaaab"`, `"aaaaaaaaaaaab"`}},
	{`{"type":"string","pattern":"^(?:\\S+\\s+){0,49}\\S+$","maxLength":500}`,
		[]string{`"a"`, `"a b"`, `"` + strings.Repeat("ab ", 49) + `a"`},
		[]string{`" a"`, `"` + strings.Repeat("ab ", 50) + `a"`, `"` + strings.Repeat("a", 501) + `"`}},
	{`{"not":{"type":"string","pattern":"^a"},"type":"string"}`, []string{`"ba"`, `""`}, []string{`"a"`, `"ab"`}},
	{`{"type":"string","not":{"enum":["no","none"]}}`, []string{`"n"`, `"nonE"`, `"nones"`},
		[]string{`"no"`, `"none"`}},
	{`{"type":"string","not":{"minLength":3}}`, []string{`"ab"`}, []string{`"abc"`}},
	// Lists of values beside other keywords.
	{`{"type":"integer","enum":[1,"a",2.5,3.0]}`, []string{`1`, `3`}, []string{`"a"`, `2.5`}},
	{`{"enum":[1,5,9],"minimum":4,"multipleOf":3}`, []string{`9`}, []string{`1`, `5`}},
	{`{"enum":["ab","cd","abc"],"pattern":"^a","maxLength":2}`, []string{`"ab"`}, []string{`"cd"`, `"abc"`}},
	{`{"enum":["2024-01-01","x"],"format":"date"}`, []string{`"2024-01-01"`}, []string{`"x"`}},
	{`{"const":1,"enum":[1.0,2]}`, []string{`1`}, []string{`2`}},
	{`{"enum":[{"a":1},{"b":2},{"a":[],"c":0}],"required":["a"]}`, []string{`{"a":1}`, `{"a":[],"c":0}`},
		[]string{`{"b":2}`}},
	{`{"enum":[[1,2],[1],"x"],"maxItems":1}`, []string{`[1]`, `"x"`}, []string{`[1,2]`}},
	{`{"enum":[[1,"a"],[2]],"items":{"type":"integer"}}`, []string{`[2]`}, []string{`[1,"a"]`}},
	{`{"$defs":{"e":{"enum":[1,"a",null]}},"$ref":"#/$defs/e","type":["integer","null"]}`, []string{`1`, `null`},
		[]string{`"a"`}},
	{`{"anyOf":[{"type":"string","const":5},{"const":6}]}`, []string{`6`}, []string{`5`, `"5"`}},
	{`{"enum":[1,{"a":[1]},[],true],"not":{"enum":[{"a":[1.0]},[],1e0]}}`, []string{`true`},
		[]string{`1`, `{"a":[1]}`, `[]`}},
	{`{"type":"array","items":{"type":"integer"},"not":{"const":[1,2]}}`, []string{`[]`, `[1]`, `[1,3]`, `[1,2,3]`},
		[]string{`[1,2]`}},
	{`{"type":"object","additionalProperties":{"type":"integer"},"not":{"const":{"a":1}}}`,
		[]string{`{}`, `{"a":2}`, `{"a":1,"b":1}`}, []string{`{"a":1}`}},
	// Numbers by value.
	{`{"type":"integer","minimum":0,"maximum":1e2}`, []string{`0`, `100`}, []string{`101`, `-1`}},
	{`{"type":"number","minimum":15e-1,"exclusiveMaximum":2.50}`, []string{`1.5`, `2`, `2.4`}, []string{`1.4`, `2.5`}},
	{`{"enum":[1e2,70e-1,0.50,-0]}`, []string{`100`, `7`, `0.5`, `0`}, []string{`1`, `5`}},
	{`{"type":"number","minimum":-3.4028234663852886e38,"maximum":3.4028234663852886e38}`,
		[]string{`1.5`, `-2`, `123456789012345678901234567890`}, []string{`1` + strings.Repeat("0", 39)}},
	{`{"type":"integer","minimum":-9223372036854775808,"maximum":9223372036854775807}`,
		[]string{`9223372036854775807`, `-9223372036854775808`, `0`}, []string{`9223372036854775808`}},
	{`{"type":"number","multipleOf":0.01,"minimum":0}`, []string{`0`, `1.5`, `19.99`}, []string{`0.001`, `-1`}},
	{`{"type":"integer","multipleOf":3,"exclusiveMinimum":3,"maximum":12}`, []string{`6`, `9`, `12`},
		[]string{`3`, `4`, `15`}},
	{`{"allOf":[{"multipleOf":4},{"multipleOf":6}],"type":"integer"}`, []string{`12`, `0`, `-24`}, []string{`4`, `6`}},
	{`{"type":"number","not":{"multipleOf":2}}`, []string{`1`, `2.5`, `-3`}, []string{`2`, `-4`, `2.0`}},
	{`{"type":"number","not":{"type":"integer"},"minimum":0,"maximum":1}`, []string{`0.5`}, []string{`0`, `1`, `1.0`}},
	{`{"type":"number","not":{"minimum":3}}`, []string{`2.9`, `-7`}, []string{`3`, `4`}},
	{`{"$schema":"http://json-schema.org/draft-04/schema#","type":"integer","minimum":3,"exclusiveMinimum":true}`,
		[]string{`4`}, []string{`3`}},
	{`{"type":"string","minLength":2.0,"maxLength":1e1}`, []string{`"ab"`}, []string{`"a"`, `"abcdefghijk"`}},
	// References.
	{`{"$defs":{"a b":{"type":"integer"}},"$ref":"#/$defs/a%20b"}`, []string{`1`}, []string{`"x"`}},
	{`{"$defs":{"a b":{"type":"integer"}},"$ref":"#/$defs/a b"}`, []string{`1`}, []string{`"x"`}},
	{`{"$defs":{"a%b/~c":{"type":"integer"}},"$ref":"#/$defs/a%25b~1~0c"}`, []string{`1`}, []string{`"x"`}},
	{`{"$defs":{"é":{"type":"integer"}},"$ref":"#/$defs/%C3%A9"}`, []string{`1`}, []string{`"x"`}},
	{`{"$defs":{"a":{"$anchor":"num","type":"integer"}},"$ref":"#num"}`, []string{`1`}, []string{`"x"`}},
	{`{"$defs":{"a":{"$dynamicAnchor":"num","type":"integer"}},"$ref":"#num"}`, []string{`1`}, []string{`"x"`}},
	{`{"$id":"https://example.org/root.json","$defs":{"a":{"type":"integer"}},` +
		`"$ref":"https://example.org/root.json#/$defs/a"}`, []string{`1`}, []string{`"x"`}},
	{`{"$id":"https://example.org/dir/root.json","$defs":{"a":{"$id":"../num.json","$defs":{"b":{"$anchor":"x",` +
		`"type":"integer"}},"type":"array","items":{"$ref":"#x"}}},"anyOf":[{"$ref":"/num.json"},` +
		`{"$ref":"../num.json#/$defs/b"},{"$ref":"root.json#/anyOf/3/x"},{"x":{"type":"null"},"type":"boolean"}]}`,
		[]string{`1`, `[1]`, `null`, `true`}, []string{`"x"`, `["x"]`}},
	{`{"$schema":"http://json-schema.org/draft-07/schema#","definitions":{"a":{"$id":"#num","type":"integer"}},` +
		`"items":[{"$ref":"#num"},{"$ref":"#/definitions/a","type":"string"}],"type":"array"}`, []string{`[1,2]`},
		[]string{`["x"]`, `[1,"x"]`}},
	{`{"$defs":{"a":{"enum":[1,2]}},"$ref":"#/$defs/a","minimum":2}`, []string{`2`}, []string{`1`}},
	{`{"$schema":"http://json-schema.org/draft-04/schema#","id":"http://example.org/a","definitions":{"b":` +
		`{"type":"null"}},"properties":{"id":{"$ref":"a#/definitions/b"}},"additionalProperties":false}`,
		[]string{`{"id":null}`}, []string{`{"id":1}`}},
	// Arrays.
	{`{"allOf":[{"type":"array","prefixItems":[{"type":"integer"}]},{"type":"array","prefixItems":[{"minimum":3},` +
		`{"type":"string"}],"minItems":2}]}`, []string{`[3,"x"]`, `[3,"x",null]`}, []string{`[1,"x"]`, `[3]`, `[3,4]`}},
	{`{"allOf":[{"type":"array","items":{"type":"integer"},"minItems":1},{"prefixItems":[{"minimum":3}]}]}`,
		[]string{`[3]`, `[4,0]`}, []string{`[1]`, `[]`, `[3,"x"]`}},
	{`{"type":"array","items":[{"type":"integer"}],"additionalItems":{"type":"string"},"minItems":1}`,
		[]string{`[1]`, `[1,"a"]`}, []string{`[]`, `[1,2]`}},
	{`{"type":"array","items":[{"type":"integer"},true,false]}`, []string{`[]`, `[1]`, `[1,[]]`}, []string{`[1,2,3]`}},
	{`{"type":"array","contains":{"const":1},"items":{"type":"integer"},"maxItems":3}`,
		[]string{`[1]`, `[2,1]`, `[2,3,1]`, `[1,1,1]`}, []string{`[]`, `[2]`, `[2,3,4]`, `[2,3,4,1]`}},
	{`{"type":"array","contains":{"type":"null"},"minContains":2,"maxContains":3,"items":{"type":["null","integer"]}}`,
		[]string{`[null,null]`, `[1,null,2,null,null]`}, []string{`[null]`, `[null,null,null,null]`, `[1,2]`}},
	{`{"type":"array","contains":{"type":"null"},"minContains":0,"maxContains":1}`, []string{`[]`, `[1]`, `[1,null]`},
		[]string{`[null,null]`}},
	{`{"type":"array","not":{"contains":{"type":"null"}}}`, []string{`[]`, `[1]`}, []string{`[null]`, `[1,null]`}},
	{`{"type":"array","not":{"items":{"type":"null"}}}`, []string{`[1]`, `[null,1]`}, []string{`[]`, `[null]`}},
	{`{"type":"array","uniqueItems":true,"items":{"enum":["a","b",1.0,1]},"minItems":2}`,
		[]string{`["a","b"]`, `[1,"a","b"]`}, []string{`["a"]`, `["a","a"]`, `[1,1]`, `["a","b",1,"a"]`}},
	{`{"type":"array","uniqueItems":true,"items":{"type":"boolean"},"contains":{"const":true}}`,
		[]string{`[true]`, `[false,true]`}, []string{`[false]`, `[true,true]`}},
	{`{"type":"array","uniqueItems":true,"maxItems":1}`, []string{`[]`, `[{}]`}, []string{`[1,2]`}},
	{`{"type":"array","prefixItems":[{"type":"integer"}],"unevaluatedItems":false}`, []string{`[]`, `[1]`},
		[]string{`[1,2]`}},
	{`{"type":"array","if":{"enum":[[true]]},"unevaluatedItems":false}`, []string{`[]`}, []string{`[0]`, `[true]`}},
	{`{"type":"array","contains":{},"items":{"type":"integer"}}`, []string{`[1]`, `[1,2,3]`}, []string{`[]`}},
	{`{"type":"array","contains":false,"minContains":0}`, []string{`[]`, `[null,{}]`}, []string{`1`}},
	// Objects.
	{`{"type":"object","properties":{"a":{},"b":{}},"minProperties":1,"additionalProperties":false}`,
		[]string{`{"a":1}`, `{"b":1}`, `{"a":1,"b":2}`}, []string{`{}`}},
	{`{"type":"object","properties":{"a":{},"b":{},"c":{}},"required":["b"],"minProperties":2,"maxProperties":2,` +
		`"additionalProperties":false}`, []string{`{"a":1,"b":2}`, `{"b":1,"c":2}`},
		[]string{`{"b":1}`, `{"a":1,"c":2}`, `{"a":1,"b":2,"c":3}`}},
	{`{"type":"object","properties":{"a":{"type":"integer"}},"additionalProperties":{"type":"null"},"minProperties":2}`,
		[]string{`{"a":1,"b":null}`, `{"b":null,"c":null}`}, []string{`{"a":1}`, `{"b":null}`}},
	{`{"type":"object","propertyNames":{"pattern":"^x-","maxLength":3},"additionalProperties":{"type":"integer"}}`,
		[]string{`{}`, `{"x-a":1,"x-":2}`}, []string{`{"a":1}`, `{"x-ab":1}`, `{"x-a":null}`}},
	{`{"type":"object","propertyNames":{"enum":["a","b"]},"additionalProperties":{"type":"integer"}}`,
		[]string{`{"a":1}`, `{"b":1,"a":2}`}, []string{`{"c":1}`}},
	{`{"type":"array","minItems":1,"prefixItems":[{"type":"object","propertyNames":{"anyOf":[{"maxLength":2},` +
		`{"$ref":"#"}]},"required":["é"]}]}`, []string{`[{"é":false}]`}, []string{`[{}]`, `[{"é":1,"abc":1}]`}},
	{`{"type":"object","unevaluatedProperties":{"const":0},"if":{"if":{"additionalProperties":true},"then":` +
		`{"minProperties":3}}}`, []string{`{}`, `{"a":0}`}, []string{`{"ba":true}`}},
	{`{"type":"object","propertyNames":false}`, []string{`{}`}, []string{`{"a":1}`}},
	{`{"type":"object","properties":{"a1":{"minimum":3},"b":{}},"patternProperties":{"^a":{"type":"integer"},` +
		`"1$":{"maximum":5}},"additionalProperties":false}`,
		[]string{`{"a1":4,"b":""}`, `{"ax":9}`, `{"x1":"y"}`, `{"a21":5}`},
		[]string{`{"a1":2}`, `{"a1":6}`, `{"ax":"s"}`, `{"x1":6}`, `{"a21":6}`, `{"c":1}`}},
	{`{"type":"object","properties":{"a":{},"b":{}},"dependentRequired":{"a":["b"]},"additionalProperties":false}`,
		[]string{`{}`, `{"b":1}`, `{"a":1,"b":2}`}, []string{`{"a":1}`}},
	{`{"type":"object","properties":{"a":{},"b":{}},"dependencies":{"a":{"required":["b"],"properties":{"b":` +
		`{"type":"null"}}}},"additionalProperties":false}`,
		[]string{`{"b":1}`, `{"a":1,"b":null}`}, []string{`{"a":1}`, `{"a":1,"b":2}`}},
	{`{"type":"object","not":{"required":["a"]},"additionalProperties":{"type":"integer"}}`, []string{`{}`, `{"b":1}`},
		[]string{`{"a":1}`}},
	{`{"type":"object","properties":{"a":{"type":"integer"}},"additionalProperties":{"type":"integer"},` +
		`"not":{"properties":{"a":{"minimum":3}}}}`, []string{`{"a":2}`, `{"a":2,"b":9}`}, []string{`{}`, `{"a":3}`}},
	{`{"type":"object","additionalProperties":{"type":"integer"},"not":{"additionalProperties":{"maximum":9}}}`,
		[]string{`{"x":10}`, `{"x":1,"y":10}`}, []string{`{}`, `{"x":9}`}},
	{`{"type":"object","properties":{"a":{}},"unevaluatedProperties":false,"anyOf":[{"properties":{"b":{"type":` +
		`"null"}},"required":["b"]},{"properties":{"c":{"type":"null"}},"required":["c"]}]}`,
		[]string{`{"a":1,"b":null}`, `{"c":null}`, `{"b":null,"c":null}`}, []string{`{}`, `{"b":null,"d":1}`,
			`{"b":1}`}},
	{`{"allOf":[{"type":"object","properties":{"a":{"type":"integer"}},"additionalProperties":false},` +
		`{"properties":{"b":{}}}]}`, []string{`{}`, `{"a":1}`}, []string{`{"b":1}`}},
	{`{"type":"array","items":{"type":"object","not":{"dependentRequired":{"a":["a"]}}}}`, []string{`[]`},
		[]string{`[{}]`, `[{"a":1}]`}},
	{`{"allOf":[{"type":"object","properties":{"x":{"pattern":"a"}}},{"patternProperties":{":-1:a":{}},"properties":` +
		`{"x":{}},"additionalProperties":false}],"required":["x"]}`, []string{`{"x":"a"}`},
		[]string{`{"x":"a","a":1}`}},
	{`{"type":"object","propertyNames":{"$ref":"#/$defs/n"},"properties":{"a":{}},"$defs":{"n":{"not":` +
		`{"propertyNames":{"not":{"$ref":"#/$defs/n"}}}}}}`, []string{`{}`}, []string{`{"a":1}`}},
	{`{"type":"object","exclusiveMaximum":2,"propertyNames":{"oneOf":[{"pattern":"^a"},{"$ref":"#"}]}}`,
		[]string{`{}`, `{"a":2}`}, []string{`{"c":2}`}},
	// Alternatives.
	{`{"allOf":[{"anyOf":[{"type":"integer"},{"type":"string"}]},{"anyOf":[{"type":"integer"},{"type":"null"}]}]}`,
		[]string{`1`}, []string{`"x"`, `null`}},
	{`{"oneOf":[{"type":"number"},{"type":"integer"}]}`, []string{`1.5`}, []string{`1`, `2.0`}},
	{`{"type":"integer","oneOf":[{"multipleOf":3},{"multipleOf":5},{"minimum":100}]}`, []string{`3`, `5`, `101`},
		[]string{`15`, `102`, `1`}},
	{`{"type":"object","properties":{"a":{},"b":{}},"additionalProperties":false,"oneOf":[{"required":["a"]},` +
		`{"required":["b"]}]}`, []string{`{"a":1}`, `{"b":1}`}, []string{`{}`, `{"a":1,"b":2}`}},
	{`{"oneOf":[true,{"type":"string"}],"type":["string","null"]}`, []string{`null`}, []string{`"a"`}},
	{`{"type":"object","properties":{"k":{"enum":["a","b"]},"v":{}},"required":["k","v"],` +
		`"additionalProperties":false,"if":{"properties":{"k":{"const":"a"}}},"then":{"properties":{"v":` +
		`{"type":"integer"}}},` +
		`"else":{"properties":{"v":{"type":"string"}}}}`,
		[]string{`{"k":"a","v":1}`, `{"k":"b","v":"x"}`}, []string{`{"k":"a","v":"x"}`, `{"k":"b","v":1}`}},
	{`{"type":"integer","if":{"minimum":10},"then":{"multipleOf":10}}`, []string{`3`, `20`}, []string{`15`}},
	{`{"type":["integer","string","null"],"not":{"type":["string","null"]}}`, []string{`1`}, []string{`"a"`, `null`}},
	{`{"not":{"anyOf":[{"type":"object"},{"type":"array"},{"type":"string"},{"type":"number"}]}}`,
		[]string{`null`, `true`}, []string{`1`, `"a"`, `[]`, `{}`}},
	// Drafts, annotations and other spellings.
	{`{"type":"string","nullable":true,"enum":["a","b"]}`, []string{`"a"`, `null`}, []string{`1`, `"c"`}},
	{`{"nullable":true,"allOf":[{"$ref":"#/$defs/a"}],"$defs":{"a":{"type":"integer"}}}`, []string{`1`, `null`},
		[]string{`"a"`}},
	{`{"not":{"type":"string","nullable":true},"type":["string","null","integer"]}`, []string{`1`},
		[]string{`"a"`, `null`}},
	{`{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"string","nullable":true}`, []string{`"a"`},
		[]string{`null`}},
	{`{"$schema":"http://json-schema.org/draft-07/schema#","definitions":{"P":{"type":"object","properties":{"x":` +
		`{"allOf":[{"not":{"$ref":"#/definitions/B"}},false]}}},"B":{"not":{"allOf":[{"$ref":"#/definitions/P"}],` +
		`"required":["x"]}}},"anyOf":[{"allOf":[{"$ref":"#/definitions/P"}],"required":["x"]},{"not":{"$ref":` +
		`"#/definitions/B"}},{"not":{"$ref":"#/definitions/B"}},{"type":"string"}]}`, []string{`"a"`},
		[]string{`1`, `{"x":1}`}},
	{`{"$defs":{"u":{"x-old":{"$id":"http://l/e.json","type":"null"}},"s":{"$id":"http://l/e.json","type":"string"}},` +
		`"$ref":"http://l/e.json"}`, []string{`"a"`}, []string{`null`}},
	{`{"type":"integer","x-a":1,"example":2,"id":3,"links":[],"errorMessage":{},"contentMediaType":"a/b"}`,
		[]string{`1`}, []string{`"a"`}},
	{`{"$schema":"http://json-schema.org/draft-04/schema#","type":"integer","const":5}`, []string{`4`},
		[]string{`"a"`}},
	{`{"type":"integer","maximum":null,"pattern":null}`, []string{`4`}, []string{`"a"`}},
	{`{"items":{"type":"integer"},"minItems":1,"type":["array","null"]}`, []string{`null`, `[1]`}, []string{`[]`, `1`}},
}

func TestStandard(t *testing.T) {
	for _, c := range standard {
		g, err := FromSchema(context.Background(), []byte(c.schema), SchemaOptions{Open: true})
		if err != nil {
			t.Errorf("%s: %v", c.schema, err)
			continue
		}
		holds(t, c.schema, g, c.yes, c.no)
	}
}

// TestStandardTexts has another implementation read the table, and what walks through its grammars give. It reads null
// for a keyword and lookaheads as mistakes, nullable and draft 4's tuples in later drafts not at all.
func TestStandardTexts(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 10))
	for _, c := range standard {
		odd := regexp.MustCompile(`nullable|\(\?=|null,"pattern"`)
		older := strings.Contains(c.schema, `"items":[`) && !strings.Contains(c.schema, "$schema")
		if odd.MatchString(c.schema) || older {
			continue
		}
		valid := otherReader(t, c.schema)
		passes := func(text string) bool {
			v, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
			return err == nil && valid.Validate(v) == nil
		}
		for _, text := range c.yes {
			if !passes(text) {
				t.Errorf("%s: the other implementation refuses %.80s", c.schema, text)
			}
		}
		for _, text := range c.no {
			if !strings.Contains(text, `\ud83d`) && passes(text) {
				t.Errorf("%s: the other implementation allows %.80s", c.schema, text)
			}
		}
		g, err := FromSchema(context.Background(), []byte(c.schema), SchemaOptions{Open: true})
		if err != nil {
			t.Fatal(err)
		}
		for range rounds(10) {
			if text, ok := walk(g, rng); ok && !passes(text) {
				t.Errorf("%s gave %q", c.schema, text)
				break
			}
		}
	}
}

// TestOpen compares the two readings of what a schema leaves out.
func TestOpen(t *testing.T) {
	for _, c := range []struct {
		schema       string
		always       []string
		open, closed []string
	}{
		{`{"type":"object","properties":{"a":{"type":"integer"}}}`, []string{`{}`, `{"a":1}`},
			[]string{`{"a":1,"b":[]}`, `{"b":1}`}, nil},
		{`{"properties":{"a":{}},"required":["b"]}`, []string{`{"b":1}`, `{"a":1,"b":2}`},
			[]string{`1`, `"x"`, `{"b":1,"c":1}`}, nil},
		{`{"minimum":3}`, []string{`3`}, []string{`"x"`, `{}`, `null`}, nil},
		{`{"minLength":1,"minimum":3}`, []string{`3`, `"x"`}, []string{`null`}, nil},
		{`{"allOf":[{"properties":{"a":{}}},{"properties":{"b":{}}}]}`, []string{`{"a":1,"b":1}`},
			[]string{`{"c":1}`, `[]`}, nil},
		{`{"type":"object"}`, []string{`{}`, `{"a":1}`}, nil, nil},
		{`{"type":"object","patternProperties":{"^a":{"type":"null"}}}`, []string{`{"a":null,"b":1}`}, nil, nil},
		{`{"type":"object","properties":{"a":{}},"additionalProperties":true}`, []string{`{"b":1}`}, nil, nil},
	} {
		for _, open := range []bool{false, true} {
			g, err := FromSchema(context.Background(), []byte(c.schema), SchemaOptions{Open: open})
			if err != nil {
				t.Fatalf("%s: %v", c.schema, err)
			}
			for _, text := range c.always {
				if !allows(g, text) {
					t.Errorf("%s, open %t, does not allow %s", c.schema, open, text)
				}
			}
			for _, text := range c.open {
				if allows(g, text) != open {
					t.Errorf("%s, open %t: %s", c.schema, open, text)
				}
			}
		}
	}
}

// TestClosedAlternatives: a form that names more properties is not implied by one that asks for less.
func TestClosedAlternatives(t *testing.T) {
	for _, c := range []struct{ schema, yes, no string }{
		{`{"anyOf":[{"$ref":"#/$defs/a"},{"$ref":"#/$defs/b"}],"$defs":{"a":{"type":"object","properties":{"n":{}},` +
			`"required":["n"]},"b":{"allOf":[{"$ref":"#/$defs/a"},{"properties":{"m":{}},"required":["m"]}]}}}`,
			`{"n":1,"m":2}`, `{"m":2}`},
		{`{"properties":{"a":{}},"anyOf":[{"required":["a"]},{"required":["a","b"]}]}`, `{"a":1,"b":2}`, `{"b":1}`},
	} {
		g := schemaGrammar(t, c.schema, Free)
		if !allows(g, c.yes) || allows(g, c.no) {
			t.Errorf("%s: %s %v, %s %v", c.schema, c.yes, allows(g, c.yes), c.no, allows(g, c.no))
		}
	}
}

// TestUnchecked leaves keywords out where the request says so, and only there.
func TestUnchecked(t *testing.T) {
	const schema = `{"type":"object","properties":{"a":{"type":"array","uniqueItems":true},"b":{"type":"array",` +
		`"uniqueItems":true,"items":{"type":"boolean"}},"c":{"$dynamicRef":"#x"}},"required":["a","b"]}`
	read := func(unchecked ...string) (*Grammar, error) {
		return FromSchema(context.Background(), []byte(schema), SchemaOptions{Unchecked: unchecked})
	}
	if _, err := read("uniqueItems"); err == nil || !strings.Contains(err.Error(), "#/properties/c/$dynamicRef") {
		t.Error(err)
	}
	g, err := read("uniqueItems", "$dynamicRef")
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"/properties/a/uniqueItems", "/properties/c/$dynamicRef"}
	if got := slices.Sorted(slices.Values(g.Unchecked())); !slices.Equal(got, want) {
		t.Errorf("unchecked: %q, want %q", got, want)
	}
	for _, schema := range []string{`{"type":"array","not":{"uniqueItems":true}}`,
		`{"type":"array","contains":{"patternProperties":{"(a)\\1":{}},"additionalProperties":false}}`} {
		g, err := FromSchema(context.Background(), []byte(schema),
			SchemaOptions{Unchecked: []string{"uniqueItems", "pattern"}})
		if err != nil || !allows(g, `[{"b":1}]`) || len(g.Unchecked()) != 1 {
			t.Errorf("%s: %v", schema, err)
		}
	}
	if !allows(g, `{"a":[1,1],"b":[true,false],"c":1}`) || allows(g, `{"a":[],"b":[true,true]}`) {
		t.Error("what can be held to is not")
	}
}
