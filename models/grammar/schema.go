package grammar

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// FromSchema is the grammar of the JSON values that a JSON Schema (2020-12) allows, each written in one way: properties
// in the schema's order, numbers without needless digits, strings free. Properties that the schema does not name are
// allowed where additionalProperties says so; left out, it means false for objects that name properties, as in
// llama.cpp. oneOf is read as anyOf. What cannot be held to is refused with its name. Compiling ends with ctx, and is
// refused where it takes more work than any schema should.
func FromSchema(ctx context.Context, schema []byte, o SchemaOptions) (*Grammar, error) {
	b := newBuilder(ctx)
	b.layout = o.Layout
	return b.schema(schema)
}

// SchemaOptions say how a schema is read.
type SchemaOptions struct {
	Layout Layout
	// Open reads what a schema leaves out as the standard does: objects may have properties that it does not name,
	// written after those that it names, and a schema without a type allows values of every type. Else an object has
	// the named properties alone, and the type is that of the keywords.
	Open bool
	// Unchecked names keywords that are left out where they cannot be held to; see [Grammar.Unchecked].
	Unchecked []string
}

func (b *builder) schema(schema []byte) (g *Grammar, err error) {
	defer func() { err = presentable(err) }()
	if err := sized(len(schema)); err != nil {
		return nil, err
	}
	b.where = "#"
	v, err := b.readValue(schema)
	if err != nil {
		return nil, err
	}
	rebase(v, v)
	s := &schemaReader{b: b, rules: map[*node]int{}, merged: map[*node]*node{}}
	root := b.anonymous("schema")
	b.define(root, s.convert(v, "#"))
	return b.grammar(root)
}

type schemaReader struct {
	b      *builder
	rules  map[*node]int   // of the schemas that several places may refer to
	merged map[*node]*node // of a schema with $ref or allOf, the one without; nil while it is made
	depth  int
}

func (s *schemaReader) fail(path, format string, args ...any) sequence {
	s.b.fail("schema at %s: %s", path, fmt.Sprintf(format, args...))
	return nil
}

// Keywords by their role. All others are refused.
var (
	annotations = words("title description default examples $schema $id $comment $anchor deprecated readOnly " +
		"writeOnly contentMediaType contentEncoding $defs definitions nullable")
	byType = map[string][]string{
		"object":  words("properties required additionalProperties minProperties maxProperties"),
		"array":   words("items prefixItems minItems maxItems"),
		"string":  words("minLength maxLength pattern format"),
		"number":  words("minimum maximum exclusiveMinimum exclusiveMaximum multipleOf"),
		"integer": nil,
		"boolean": nil,
		"null":    nil,
	}
	typeNames = words("object array string number integer boolean null")
	choosing  = words("type enum const $ref allOf anyOf oneOf")
)

func words(s string) []string { return strings.Fields(s) }

// convert returns the sequence of texts that a schema allows; path names the schema in messages.
func (s *schemaReader) convert(v any, path string) sequence {
	if s.depth++; s.depth > deepestSchema {
		return s.fail(path, "nested deeper than %d", deepestSchema)
	}
	defer func(was string) { s.depth, s.b.where = s.depth-1, was }(s.b.where)
	s.b.where = path
	if !s.b.spend(8 + len(path)/2) {
		return nil
	}
	switch v := v.(type) {
	case bool:
		if v {
			return s.b.value()
		}
		return s.fail(path, "false allows nothing")
	case *node:
		return s.convertNode(v, path)
	}
	return s.fail(path, "a schema is an object, true or false, not %s", brief(v))
}

func (s *schemaReader) convertNode(n *node, path string) sequence {
	if !s.known(n, path) {
		return nil
	}
	if ref, ok := n.get("$ref"); ok && s.only(n, "$ref") {
		return s.reference(n, ref, path)
	}
	if merged := s.flat(n, path); merged != n {
		return s.shared(merged, path)
	}
	for _, key := range []string{"anyOf", "oneOf"} {
		if all, ok := n.get(key); ok {
			return s.oneOf(without(n, key), all, path+"/"+key)
		}
	}
	if v, ok := n.get("const"); ok {
		s.b.where = path + "/const"
		return s.literal(v)
	}
	if v, ok := n.get("enum"); ok {
		all, ok := v.([]any)
		if !ok || len(all) == 0 {
			return s.fail(path+"/enum", "want a list of values")
		}
		s.b.where = path + "/enum"
		var each []sequence
		for _, e := range all {
			each = append(each, s.literal(e))
		}
		return s.b.either(each...)
	}
	return s.typed(n, path)
}

// known refuses keywords that would not be held to.
func (s *schemaReader) known(n *node, path string) bool {
	for _, key := range n.keys {
		known := slices.Contains(annotations, key) || slices.Contains(choosing, key)
		for _, words := range byType {
			known = known || slices.Contains(words, key) // bound: written out
		}
		if known {
			continue
		}
		if v := n.values[key]; v == false && key == "uniqueItems" || v == nil {
			continue
		}
		s.fail(path+"/"+key, "the keyword %q is not supported; leave it out", key)
		return false
	}
	if v, _ := n.get("nullable"); v == true {
		s.fail(path+"/nullable", "write the type as a list with \"null\"")
		return false
	}
	return true
}

// only reports whether a keyword stands alone, but for annotations.
func (s *schemaReader) only(n *node, keyword string) bool {
	for _, key := range n.keys {
		if key != keyword && !slices.Contains(annotations, key) {
			return false
		}
	}
	return true
}

func without(n *node, keys ...string) *node {
	out := newNode()
	for _, k := range n.keys {
		if !slices.Contains(keys, k) { // bound: keywords written out
			out.set(k, n.values[k])
		}
	}
	return out
}

// oneOf returns the alternatives, each combined with the keywords next to them.
func (s *schemaReader) oneOf(beside *node, v any, path string) sequence {
	all, ok := v.([]any)
	if !ok || len(all) == 0 {
		return s.fail(path, "want a list of schemas")
	}
	s.b.where = path
	plain := s.only(beside, "")
	var each []sequence
	for i, one := range all {
		at := fmt.Sprintf("%s/%d", path, i)
		if plain {
			each = append(each, s.convert(one, at))
			continue
		}
		n, ok := one.(*node)
		if !ok {
			return s.fail(at, "want an object beside other keywords")
		}
		merged := s.merge(beside, n, at)
		if merged == nil {
			return nil
		}
		each = append(each, s.convertNode(merged, at))
	}
	return s.b.either(each...)
}

// reference returns the rule of the target of n's $ref.
func (s *schemaReader) reference(n *node, ref any, path string) sequence {
	name, _ := ref.(string)
	v, ok := s.find(n.base, name)
	if !ok {
		return s.fail(path+"/$ref", "%s points at nothing; want #/… within the schema", brief(ref))
	}
	if n, ok := v.(*node); ok {
		return s.shared(n, name)
	}
	return s.convert(v, name)
}

// shared returns a call of the rule of a schema, which it makes the first time.
func (s *schemaReader) shared(n *node, path string) sequence {
	if n == nil { // an error is set
		return nil
	}
	r, ok := s.rules[n]
	if !ok {
		r = s.b.anonymous(path)
		s.b.rules[r].home, s.rules[n] = path, r
		if found := s.convert(n, path); s.b.err == nil {
			s.b.define(r, found)
		}
	}
	return s.b.call(r)
}

var unescaped = strings.NewReplacer("~1", "/", "~0", "~")

// find follows a JSON pointer from the base of a schema.
func (s *schemaReader) find(v any, ref string) (any, bool) {
	rest, ok := strings.CutPrefix(ref, "#")
	if !ok || rest == "" {
		return v, ok
	}
	if rest[0] != '/' || !s.b.spend(len(ref)) {
		return nil, false
	}
	for key := range strings.SplitSeq(rest[1:], "/") {
		key = unescaped.Replace(key)
		n, ok := v.(*node)
		if !ok {
			return nil, false
		}
		if v, ok = n.get(key); !ok {
			return nil, false
		}
	}
	return v, true
}

// resolve is the object that the $ref of a schema points at in the end.
func (s *schemaReader) resolve(n *node, ref any, path string) *node {
	for range deepestSchema {
		name, _ := ref.(string)
		v, ok := s.find(n.base, name)
		isNode := false
		n, isNode = v.(*node)
		if !ok || !isNode {
			s.fail(path+"/$ref", "%s points at no object within the schema", brief(ref))
			return nil
		}
		next, more := n.get("$ref")
		if !more || !s.only(n, "$ref") {
			return n
		}
		ref = next
	}
	s.fail(path+"/$ref", "refers to itself")
	return nil
}

// typed gives the types that a schema allows.
func (s *schemaReader) typed(n *node, path string) sequence {
	types, ok := s.types(n, path)
	if !ok {
		return nil
	}
	if types == nil {
		return s.b.value()
	}
	var each []sequence
	for _, t := range types {
		switch t {
		case "object":
			each = append(each, s.object(n, path))
		case "array":
			each = append(each, s.array(n, path))
		case "string":
			each = append(each, s.str(n, path))
		case "number", "integer":
			each = append(each, s.number(n, path, t == "integer"))
		case "boolean":
			each = append(each, s.b.text("true"), s.b.text("false"))
		case "null":
			each = append(each, s.b.text("null"))
		}
	}
	return s.b.either(each...)
}

// types are those named, or the one whose keywords are used; nil where any value is allowed.
func (s *schemaReader) types(n *node, path string) ([]string, bool) {
	v, ok := n.get("type")
	if !ok {
		for _, t := range typeNames {
			for _, key := range byType[t] {
				if _, ok := n.get(key); ok {
					return []string{t}, true
				}
			}
		}
		return nil, true
	}
	var out []string
	for _, e := range listOf(v) {
		t, _ := e.(string)
		if !slices.Contains(typeNames, t) {
			s.fail(path+"/type", "%s is no type; want %s", brief(e), strings.Join(typeNames, ", "))
			return nil, false
		}
		if !slices.Contains(out, t) { // bound: typeNames
			out = append(out, t)
		}
	}
	if i := slices.Index(out, "integer"); i >= 0 && slices.Contains(out, "number") { // bound: typeNames
		out = slices.Delete(out, i, i+1)
	}
	if len(out) == 0 {
		s.fail(path+"/type", "an empty list allows nothing")
		return nil, false
	}
	return out, true
}

// count reads a keyword that counts something; missing is its default.
func (s *schemaReader) count(n *node, path, key string, missing int) int {
	v, ok := n.get(key)
	if !ok {
		return missing
	}
	num, _ := v.(json.Number)
	c, err := num.Int64()
	if err != nil || c < 0 || c > maxOps {
		s.fail(path+"/"+key, "want a number from 0 to %d, not %s", maxOps, brief(v))
		return missing
	}
	return int(c)
}

// counts are two such keywords, the second of which may be without a bound.
func (s *schemaReader) counts(n *node, path, least, most string) (int, int) {
	lo, hi := s.count(n, path, least, 0), s.count(n, path, most, -1)
	if hi >= 0 && lo > hi {
		s.fail(path, "%s %d is more than %s %d", least, lo, most, hi)
	}
	return lo, hi
}

func (s *schemaReader) array(n *node, path string) sequence {
	least, most := s.counts(n, path, "minItems", "maxItems")
	var first []any
	if v, ok := n.get("prefixItems"); ok {
		if first, ok = v.([]any); !ok {
			return s.fail(path+"/prefixItems", "want a list of schemas")
		}
	}
	items, ok := n.get("items")
	if !ok {
		items = true
		if len(first) > 0 && most < 0 {
			most = max(least, len(first))
		}
	}
	if items == false {
		if most < 0 || most > len(first) {
			most = len(first)
		}
		items = true
	}
	if least > most && most >= 0 {
		return s.fail(path, "minItems %d is more than the %d items that are allowed", least, most)
	}
	if s.b.err != nil {
		return nil
	}
	if len(first) == 0 {
		if most == 0 {
			return s.b.listed("[", "]", nil, 0, 0)
		}
		return s.b.listed("[", "]", s.convert(items, path+"/items"), least, most)
	}
	// The items of the prefix one by one, from the last: each may be left out with all after it.
	comma := s.b.sign(",")
	var tail sequence
	if most < 0 || most > len(first) {
		more := most
		if most > 0 {
			more = most - len(first)
		}
		tail = s.b.repeat(s.b.join(comma, s.convert(items, path+"/items")), max(least-len(first), 0), more)
	}
	last := len(first)
	if most >= 0 {
		last = min(last, most)
	}
	for i := last - 1; i >= 0; i-- {
		tail = s.b.join(s.convert(first[i], fmt.Sprintf("%s/prefixItems/%d", path, i)), tail)
		if i > 0 {
			tail = s.b.join(comma, tail)
		}
		if least <= i {
			tail = s.b.optional(tail)
		} else {
			tail = s.b.short("(…)", tail) // what comes before is a copy of it and more
		}
	}
	return s.b.join(s.b.text("["), s.b.blank(), tail, s.b.blank(), s.b.text("]"))
}
