package grammar

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"foretoken/models/grammar/number"
)

// keywordReader reads the keywords of schemas, finds schemas by their names, and says what is wrong with them.
type keywordReader struct {
	b         *builder
	o         SchemaOptions
	root      *node
	never     *node            // passes nothing
	any       *node            // what every value passes, in a list
	count     int32            // of nodes
	places    map[string]*node // by their URIs
	unchecked []string         // JSON Pointers
}

func newKeywordReader(b *builder, o SchemaOptions) *keywordReader {
	r := &keywordReader{b: b, o: o, places: map[string]*node{}}
	r.never, r.any = r.made(newNode()), r.made(newNode())
	return r
}

// made gives a place to a schema that the text does not hold.
func (r *keywordReader) made(n *node) *node {
	r.b.spend(16)
	n.id = r.count
	r.count++
	return n
}

func (r *keywordReader) rootOf(v any) (*node, error) {
	switch v := v.(type) {
	case bool:
		if !v {
			return nil, fmt.Errorf("grammar: schema at #: false allows nothing")
		}
		return newNode(), nil
	case *node:
		r.place(v, false)
		return v, r.b.err
	}
	return nil, fmt.Errorf("grammar: schema at #: a schema is an object, true or false, not %s", brief(v))
}

// fail sets the error of a keyword of a schema.
func (r *keywordReader) fail(n *node, keyword, format string, args ...any) {
	if r.b.err == nil {
		path := n.path()
		if keyword != "" {
			path += "/" + toPointer.Replace(keyword)
		}
		r.b.fail("schema at %s: %s", path, fmt.Sprintf(format, args...))
	}
}

// refuse is for a keyword that cannot be held to, at a member of a schema: an error, unless the request leaves it
// unchecked.
func (r *keywordReader) refuse(n *node, member, keyword, format string, args ...any) {
	if !slices.Contains(r.o.Unchecked, keyword) { // bound: names of keywords
		r.fail(n, member, format, args...)
		return
	}
	at := n.path() + "/" + toPointer.Replace(member)
	if r.b.spend(len(at)) && !slices.Contains(r.unchecked, at[1:]) { // bound: places in the text
		r.unchecked = append(r.unchecked, at[1:])
	}
}

// sub is the schema that stands at a place of another. false is never.
func (r *keywordReader) sub(n *node, key string, v any) *node {
	switch v := v.(type) {
	case *node:
		return v
	case bool:
		if v {
			return nil
		}
		return r.never
	}
	r.fail(n, key, "a schema is an object, true or false, not %s", brief(v))
	return r.never
}

// valuesOf reads const or enum.
func (r *keywordReader) valuesOf(n *node, key string) ([]any, bool) {
	v, ok := n.has(key)
	switch {
	case !ok:
		return nil, false
	case key == "const":
		return []any{v}, true
	}
	all, ok := v.([]any)
	if !ok || len(all) == 0 {
		r.fail(n, key, "want a list of values")
	}
	return all, true
}

// types reads type: the kinds, and whether numbers are to be integers.
func (r *keywordReader) types(n *node) (k kinds, integer, ok bool) {
	v, ok := n.has("type")
	if !ok {
		return 0, false, false
	}
	list, isList := v.([]any)
	if !isList {
		list = []any{v}
	}
	r.b.spend(len(list))
	number := false
	for _, e := range list {
		name, _ := e.(string)
		if kindNames[name] == 0 {
			r.fail(n, "type", "%s is no type; want object, array, string, number, integer, boolean or null", brief(e))
			return 0, false, true
		}
		k |= kindNames[name]
		integer, number = integer || name == "integer", number || name == "number"
	}
	if len(list) == 0 {
		r.fail(n, "type", "an empty list allows nothing; name a type")
	}
	return k, integer && !number, true
}

// decimal reads a number.
func (r *keywordReader) decimal(n *node, key string, v any) (number.Decimal, bool) {
	text, ok := v.(json.Number)
	if !ok {
		r.fail(n, key, "want a number, not %s", brief(v))
		return number.Decimal{}, false
	}
	d, err := number.Parse(string(text))
	if err != nil {
		r.fail(n, key, "%s", err)
	}
	return d, err == nil
}

// bounds reads minimum, maximum and the exclusive ones, which are numbers, or draft 4's flags of the others.
func (r *keywordReader) bounds(n *node) []bound {
	var out []bound
	for _, b := range []bound{{key: "minimum", lower: true}, {key: "maximum"}, {key: "exclusiveMinimum", lower: true},
		{key: "exclusiveMaximum"}} {
		v, ok := n.has(b.key)
		if _, flag := v.(bool); !ok || flag && strings.HasPrefix(b.key, "exclusive") {
			continue
		}
		d, ok := r.decimal(n, b.key, v)
		if !ok {
			return nil
		}
		b.value = number.Bound{Value: d, Open: strings.HasPrefix(b.key, "exclusive")}
		if flag, _ := n.has("exclusiveM" + strings.TrimPrefix(b.key, "m")); flag == true {
			b.value.Open = true
		}
		out = append(out, b)
	}
	return out
}

func (r *keywordReader) step(n *node) (number.Decimal, bool) {
	v, ok := n.has("multipleOf")
	if !ok {
		return number.Decimal{}, false
	}
	d, ok := r.decimal(n, "multipleOf", v)
	if ok && d.Cmp(number.Decimal{}) <= 0 {
		r.fail(n, "multipleOf", "want a number above 0, not %s", brief(v))
	}
	return d, ok
}

func (r *keywordReader) textOf(n *node, key string) (string, bool) {
	v, ok := n.has(key)
	text, isText := v.(string)
	if ok && !isText {
		r.fail(n, key, "want a string, not %s", brief(v))
	}
	return text, ok && isText
}

// flag reads true or false.
func (r *keywordReader) flag(n *node, key string) bool {
	v, ok := n.has(key)
	yes, isBool := v.(bool)
	if ok && !isBool {
		r.fail(n, key, "want true or false, not %s", brief(v))
	}
	return yes
}

// countOf reads a keyword that counts something; missing is its default. A whole number may be written as 2.0. No
// answer is so long that an upper bound beyond maxOps says anything.
func (r *keywordReader) countOf(n *node, key string, missing int) int {
	v, ok := n.has(key)
	if !ok {
		return missing
	}
	text, _ := v.(json.Number)
	d, err := number.Parse(string(text))
	if err != nil || d.Cmp(number.Decimal{}) < 0 || !(number.Set{Multiples: []number.Decimal{one}}).Has(d) {
		r.fail(n, key, "want a whole number from 0, not %s", brief(v))
		return missing
	}
	switch c, ok := d.Int64(); {
	case ok && c <= maxOps:
		return int(c)
	case strings.HasPrefix(key, "max"):
		return -1
	}
	r.fail(n, key, "want a number from 0 to %d, not %s", maxOps, brief(v))
	return missing
}

// count2 reads a lower and an upper bound; the upper may be missing.
func (r *keywordReader) count2(n *node, least, most string) (int, int) {
	return r.countOf(n, least, 0), r.countOf(n, most, -1)
}

// strings reads a list of names.
func (r *keywordReader) strings(n *node, key string, list []any) []string {
	r.b.spend(8 * len(list))
	out := make([]string, 0, len(list))
	seen := make(map[string]bool, len(list))
	for _, e := range list {
		name, ok := e.(string)
		if !ok {
			r.fail(n, key, "want a list of names")
			return nil
		}
		if !seen[name] {
			seen[name], out = true, append(out, name)
		}
	}
	return out
}

// list are the schemas of allOf, anyOf or oneOf.
func (r *keywordReader) list(n *node, key string) []*node {
	v, ok := n.has(key)
	if !ok {
		return nil
	}
	all, ok := v.([]any)
	if !ok || len(all) == 0 {
		r.fail(n, key, "want a list of schemas")
		return nil
	}
	out := make([]*node, len(all))
	r.b.spend(4 * len(all))
	for i, e := range all {
		if out[i] = r.sub(n, key, e); out[i] == nil {
			out[i] = r.any
		}
	}
	return out
}

// dependents reads dependentRequired, dependentSchemas and dependencies, which was both.
func (r *keywordReader) dependents(n *node) []dependency {
	var out []dependency
	for _, key := range []string{"dependencies", "dependentRequired", "dependentSchemas"} {
		v, ok := n.has(key)
		if !ok {
			continue
		}
		all, ok := v.(*node)
		if !ok {
			r.fail(n, key, "want an object")
			return nil
		}
		for _, name := range all.keys {
			v, d := all.values[name], dependency{name: name}
			list, isList := v.([]any)
			if one, ok := v.(string); ok && key == "dependencies" {
				list, isList = []any{one}, true
			}
			if isList == (key == "dependentSchemas") && (isList || key == "dependentRequired") {
				r.fail(all, name, "want %s", map[bool]string{true: "a schema", false: "a list of names"}[isList])
				return nil
			}
			if isList {
				d.names = r.strings(all, name, list)
			} else {
				d.of = r.sub(all, name, v)
			}
			out = append(out, d)
		}
	}
	return out
}

// required reads the list of names; draft 3's flag, which stood at the property, is none.
func (r *keywordReader) required(n *node) []string {
	v, ok := n.has("required")
	if !ok {
		return nil
	}
	list, ok := v.([]any)
	if !ok {
		r.fail(n, "required", "want a list of names, in the schema of the object")
		return nil
	}
	return r.strings(n, "required", list)
}

// point is a number of enum or const.
func (r *keywordReader) point(v json.Number) number.Decimal {
	d, err := number.Parse(string(v))
	if err != nil {
		r.b.fail("%s%s", place(r.b.where), err)
	}
	return d
}

// composite is a schema that one list or object passes.
func (r *keywordReader) composite(v any) *node {
	constant := func(e any) any { return r.made(newNode().set("const", e)) }
	out := newNode()
	switch v := v.(type) {
	case []any:
		r.b.spend(32 * len(v))
		size := json.Number(strconv.Itoa(len(v)))
		all := make([]any, len(v))
		for i, e := range v {
			all[i] = constant(e)
		}
		out.set("type", "array").set("prefixItems", all).set("minItems", size).set("maxItems", size)
	case *node:
		r.b.spend(48 * len(v.keys))
		props, names := newNode(), make([]any, len(v.keys))
		for i, k := range v.keys {
			props.set(k, constant(v.values[k]))
			names[i] = k
		}
		out.set("type", "object").set("properties", props).set("required", names).set("additionalProperties", false)
	}
	return r.made(out)
}

// looksAtRest reports whether a schema has unevaluated…, which heeds the schemas next to it.
func (r *keywordReader) looksAtRest(n *node) bool {
	_, items := n.has("unevaluatedItems")
	_, members := n.has("unevaluatedProperties")
	return items || members
}
