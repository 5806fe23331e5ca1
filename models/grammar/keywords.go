package grammar

import (
	"slices"
	"strings"
)

// Draft is a version of JSON Schema.
type Draft int

// The drafts, in order.
const (
	Draft4 Draft = iota
	Draft6
	Draft7
	Draft2019
	Draft2020
)

var draftNames = [...]string{"draft 4", "draft 6", "draft 7", "2019-09", "2020-12"}

func (d Draft) String() string { return draftNames[d] }

// Role says how a grammar treats a keyword.
type Role int

const (
	Held      Role = iota // each value passes it
	Partly                // held to where the note says; elsewhere the schema is refused
	Refused               // the schema is refused
	Structure             // asserts nothing itself: names schemas, or holds them
)

var roleNames = [...]string{"held to", "held to in part", "refused", "names and places"}

func (r Role) String() string { return roleNames[r] }

// Keyword is a row of the table of keywords. In a schema whose $schema names a draft that lacks the keyword it is an
// annotation, as the standard says. A schema that names no draft may use the keywords of all.
type Keyword struct {
	Name        string
	First, Last Draft
	Role        Role
	Note        string
}

// Keywords are all those that an implementation of some draft must not ignore. Every other member of a schema is an
// annotation (JSON Schema 2020-12, core, 6.5). Source: core 8 to 11 and validation 6 of 2020-12 and 2019-09, core and
// validation of the drafts before; nullable is OpenAPI 3.0's (Schema Object).
var Keywords = []Keyword{
	{"type", Draft4, Draft2020, Held, ""},
	{"enum", Draft4, Draft2020, Held, "numbers are compared by value"},
	{"const", Draft6, Draft2020, Held, "numbers are compared by value"},
	{"nullable", Draft4, Draft2020, Held, "OpenAPI 3.0: true allows null too; an annotation with $schema"},
	{"multipleOf", Draft4, Draft2020, Partly, "up to some thousand remainders"},
	{"minimum", Draft4, Draft2020, Held, ""},
	{"maximum", Draft4, Draft2020, Held, ""},
	{"exclusiveMinimum", Draft4, Draft2020, Held, "a number, or draft 4's flag"},
	{"exclusiveMaximum", Draft4, Draft2020, Held, "a number, or draft 4's flag"},
	{"minLength", Draft4, Draft2020, Held, "in code points"},
	{"maxLength", Draft4, Draft2020, Held, "in code points"},
	{"pattern", Draft4, Draft2020, Partly, "ECMA-262 with the flag u, without references back to a group"},
	{"format", Draft4, Draft2020, Held, "the standard's formats; other names are annotations"},
	{"items", Draft4, Draft2020, Held, "one schema, or a list for the first items"},
	{"additionalItems", Draft4, Draft2019, Held, ""},
	{"prefixItems", Draft2020, Draft2020, Held, ""},
	{"minItems", Draft4, Draft2020, Held, ""},
	{"maxItems", Draft4, Draft2020, Held, ""},
	{"uniqueItems", Draft4, Draft2020, Partly, "where items have at most eight values, or an array at most one item"},
	{"contains", Draft6, Draft2020, Held, ""},
	{"minContains", Draft2019, Draft2020, Held, ""},
	{"maxContains", Draft2019, Draft2020, Held, ""},
	{"properties", Draft4, Draft2020, Held, "written in the schema's order"},
	{"patternProperties", Draft4, Draft2020, Held, "written after the named properties"},
	{"additionalProperties", Draft4, Draft2020, Held, "written after the named properties"},
	{"propertyNames", Draft6, Draft2020, Held, ""},
	{"required", Draft4, Draft2020, Held, ""},
	{"minProperties", Draft4, Draft2020, Held, ""},
	{"maxProperties", Draft4, Draft2020, Held, ""},
	{"dependencies", Draft4, Draft7, Held, ""},
	{"dependentRequired", Draft2019, Draft2020, Held, ""},
	{"dependentSchemas", Draft2019, Draft2020, Held, ""},
	{"allOf", Draft4, Draft2020, Held, ""},
	{"anyOf", Draft4, Draft2020, Held, ""},
	{"oneOf", Draft4, Draft2020, Partly, "exactly one; as not, where two overlap"},
	{"not", Draft4, Draft2020, Partly, "of all but uniqueItems and unevaluated…"},
	{"if", Draft7, Draft2020, Partly, "as not"},
	{"then", Draft7, Draft2020, Held, ""},
	{"else", Draft7, Draft2020, Held, ""},
	{"$ref", Draft4, Draft2020, Held, "within the schema; other keywords next to it assert from 2019-09 on"},
	{"unevaluatedItems", Draft2019, Draft2020, Partly, "where the schemas next to it say which items they look at"},
	{"unevaluatedProperties", Draft2019, Draft2020, Partly, "where the schemas next to it name their properties"},
	{"$dynamicRef", Draft2020, Draft2020, Refused, "write $ref"},
	{"$recursiveRef", Draft2019, Draft2019, Refused, "write $ref"},
	{"$schema", Draft4, Draft2020, Structure, "names the draft"},
	{"id", Draft4, Draft4, Structure, ""},
	{"$id", Draft6, Draft2020, Structure, ""},
	{"$anchor", Draft2019, Draft2020, Structure, ""},
	{"$dynamicAnchor", Draft2020, Draft2020, Structure, "as $anchor"},
	{"definitions", Draft4, Draft2020, Structure, ""},
	{"$defs", Draft4, Draft2020, Structure, ""},
}

// keywordNames finds a row of the table.
var keywordNames = func() map[string]Keyword {
	all := make(map[string]Keyword, len(Keywords))
	for _, k := range Keywords {
		all[k.Name] = k
	}
	return all
}()

// Unheld returns the names of the keywords that a schema may be refused for, in order.
func Unheld() []string {
	var names []string
	for _, k := range Keywords {
		if k.Role == Partly || k.Role == Refused {
			names = append(names, k.Name)
		}
	}
	slices.Sort(names)
	return names
}

// draftOf returns the draft that a $schema names, and whether it names one. Its fragment and scheme do not matter.
func draftOf(schema string) (Draft, bool) {
	_, name, _ := strings.Cut(strings.TrimSuffix(schema, "#"), "://json-schema.org/")
	switch name {
	case "draft-04/schema":
		return Draft4, true
	case "draft-06/schema":
		return Draft6, true
	case "draft-07/schema":
		return Draft7, true
	case "draft/2019-09/schema":
		return Draft2019, true
	case "draft/2020-12/schema":
		return Draft2020, true
	}
	return 0, false
}
