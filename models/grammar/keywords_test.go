package grammar

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
)

// draftsOf describes the drafts that have a keyword.
func draftsOf(k Keyword) string {
	switch {
	case k.First == k.Last:
		return k.First.String()
	case k.First == Draft4 && k.Last == Draft2020:
		return "all"
	case k.Last == Draft2020:
		return k.First.String() + " on"
	}
	return k.First.String() + " to " + k.Last.String()
}

// TestPageHasTheKeywords compares the table of docs/json-schema.md with Keywords.
func TestPageHasTheKeywords(t *testing.T) {
	want := "| keyword | drafts | | |\n|---|---|---|---|\n"
	for _, k := range Keywords {
		want += fmt.Sprintf("| `%s` | %s | %s | %s |\n", k.Name, draftsOf(k), k.Role, k.Note)
	}
	page, err := os.ReadFile("../../docs/json-schema.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(page), "\n\n"+want+"\n") {
		t.Errorf("docs/json-schema.md has another table than this:\n%s", want)
	}
}

// keywordCases hold, for each keyword that is held to, a schema with a value that it allows and one that it refuses.
// Without the keyword, one of the two is decided otherwise.
var keywordCases = map[string][3]string{
	"type":                  {`{"type":"integer"}`, `1`, `"a"`},
	"enum":                  {`{"enum":[1,"a"]}`, `"a"`, `"b"`},
	"const":                 {`{"const":[1]}`, `[1]`, `[2]`},
	"nullable":              {`{"type":"string","nullable":true}`, `null`, `1`},
	"multipleOf":            {`{"multipleOf":0.5}`, `1.5`, `0.3`},
	"minimum":               {`{"minimum":3}`, `3`, `2`},
	"maximum":               {`{"maximum":3}`, `3`, `3.5`},
	"exclusiveMinimum":      {`{"exclusiveMinimum":3}`, `4`, `3`},
	"exclusiveMaximum":      {`{"exclusiveMaximum":3}`, `2.9`, `3`},
	"minLength":             {`{"minLength":2}`, `"ab"`, `"a"`},
	"maxLength":             {`{"maxLength":1}`, `"a"`, `"ab"`},
	"pattern":               {`{"pattern":"^a"}`, `"ab"`, `"ba"`},
	"format":                {`{"format":"date"}`, `"2024-02-29"`, `"2023-02-29"`},
	"items":                 {`{"items":{"type":"integer"}}`, `[1]`, `["a"]`},
	"additionalItems":       {`{"items":[{}],"additionalItems":{"type":"null"}}`, `[1,null]`, `[1,2]`},
	"prefixItems":           {`{"prefixItems":[{"type":"integer"}]}`, `[1,"a"]`, `["a"]`},
	"minItems":              {`{"minItems":1}`, `[1]`, `[]`},
	"maxItems":              {`{"maxItems":1}`, `[1]`, `[1,2]`},
	"uniqueItems":           {`{"items":{"type":"boolean"},"uniqueItems":true}`, `[true,false]`, `[true,true]`},
	"contains":              {`{"contains":{"type":"integer"}}`, `["a",1]`, `["a"]`},
	"minContains":           {`{"contains":{"type":"integer"},"minContains":2}`, `[1,"a",2]`, `[1]`},
	"maxContains":           {`{"contains":{"type":"integer"},"maxContains":1}`, `[1,"a"]`, `[1,2]`},
	"properties":            {`{"properties":{"a":{"type":"integer"}}}`, `{"a":1}`, `{"a":"b"}`},
	"patternProperties":     {`{"patternProperties":{"^a":{"type":"integer"}}}`, `{"ab":1,"b":"c"}`, `{"ab":"c"}`},
	"additionalProperties":  {`{"properties":{"a":{}},"additionalProperties":false}`, `{"a":1}`, `{"b":1}`},
	"propertyNames":         {`{"propertyNames":{"maxLength":1}}`, `{"a":1}`, `{"ab":1}`},
	"required":              {`{"required":["a"]}`, `{"a":1}`, `{"b":1}`},
	"minProperties":         {`{"minProperties":1}`, `{"a":1}`, `{}`},
	"maxProperties":         {`{"maxProperties":1}`, `{"a":1}`, `{"a":1,"b":2}`},
	"dependencies":          {`{"dependencies":{"a":["b"]}}`, `{"b":1}`, `{"a":1}`},
	"dependentRequired":     {`{"dependentRequired":{"a":["b"]}}`, `{"b":1}`, `{"a":1}`},
	"dependentSchemas":      {`{"dependentSchemas":{"a":{"required":["b"]}}}`, `{"b":1}`, `{"a":1}`},
	"allOf":                 {`{"allOf":[{"minimum":1},{"maximum":2}]}`, `2`, `3`},
	"anyOf":                 {`{"anyOf":[{"type":"integer"},{"type":"null"}]}`, `null`, `"a"`},
	"oneOf":                 {`{"oneOf":[{"minimum":1,"type":"integer"},{"maximum":2,"type":"integer"}]}`, `3`, `2`},
	"not":                   {`{"not":{"type":"integer"}}`, `"a"`, `1`},
	"if":                    {`{"if":{"type":"integer"},"then":{"minimum":3}}`, `3`, `2`},
	"then":                  {`{"if":{"type":"integer"},"then":{"minimum":3}}`, `"a"`, `2`},
	"else":                  {`{"if":{"type":"integer"},"else":{"type":"null"}}`, `null`, `"a"`},
	"$ref":                  {`{"$ref":"#/$defs/a","$defs":{"a":{"type":"integer"}}}`, `1`, `"a"`},
	"unevaluatedItems":      {`{"allOf":[{"prefixItems":[{}]}],"unevaluatedItems":false}`, `[1]`, `[1,2]`},
	"unevaluatedProperties": {`{"properties":{"a":{}},"unevaluatedProperties":false}`, `{"a":1}`, `{"b":1}`},
}

// draftURLs are the $schema of each draft.
var draftURLs = [...]string{"http://json-schema.org/draft-04/schema#", "http://json-schema.org/draft-06/schema#",
	"http://json-schema.org/draft-07/schema#", "https://json-schema.org/draft/2019-09/schema",
	"https://json-schema.org/draft/2020-12/schema"}

// TestKeywordsAreHeldTo holds every keyword of the table to its role, and to be an annotation in drafts that lack it.
func TestKeywordsAreHeldTo(t *testing.T) {
	can := func(schema, text string) bool {
		g, err := FromSchema(t.Context(), []byte(schema), SchemaOptions{Open: true})
		if err != nil {
			t.Errorf("%s: %v", schema, err)
			return false
		}
		return allows(g, text)
	}
	for _, k := range Keywords {
		c, ok := keywordCases[k.Name]
		if ok != (k.Role == Held || k.Role == Partly) {
			t.Errorf("%s is %s, and has a case: %v", k.Name, k.Role, ok)
		}
		if !ok {
			continue
		}
		schema, yes, no := c[0], c[1], c[2]
		if !can(schema, yes) || can(schema, no) {
			t.Errorf("%s allows %s: %v, and %s: %v", schema, yes, can(schema, yes), no, can(schema, no))
		}
		var members map[string]json.RawMessage
		if err := json.Unmarshal([]byte(schema), &members); err != nil || members[k.Name] == nil {
			t.Fatalf("%s: %v", schema, err)
		}
		delete(members, k.Name)
		without, err := json.Marshal(members)
		if err != nil {
			t.Fatal(err)
		}
		if can(string(without), yes) && !can(string(without), no) {
			t.Errorf("%s is decided without %s", schema, k.Name)
		}
		for d, url := range draftURLs {
			known := k.First <= Draft(d) && Draft(d) <= k.Last
			if of := fmt.Sprintf(`{"$schema":%q,%s`, url, schema[1:]); can(of, no) == known {
				t.Errorf("%s allows %s: %v", of, no, !known)
			}
		}
	}
}
