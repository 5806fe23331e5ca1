package grammar

import (
	"encoding/json"
	"slices"
)

func (s *schemaReader) object(n *node, path string) sequence {
	b := s.b
	props, additional, ok := s.properties(n, path)
	if !ok {
		return nil
	}
	least, most := s.counts(n, path, "minProperties", "maxProperties")
	required, ok := s.required(n, path)
	if !ok || b.err != nil {
		return nil
	}
	if len(props.keys) == 0 && len(required) == 0 {
		if additional == false {
			return b.listed("{", "}", nil, 0, 0)
		}
		return b.listed("{", "}", b.member(b.str(), s.convert(additional, path+"/additionalProperties")), least, most)
	}
	if least > len(required) || most >= 0 {
		return s.fail(path, "minProperties and maxProperties are not supported beside named properties; leave them out")
	}
	needed := make(map[string]bool, len(required))
	for _, key := range required {
		needed[key] = true
		if _, ok := props.get(key); !ok {
			if additional == false {
				return s.fail(path+"/required", "%q is required and not allowed: name it in properties", key)
			}
			props.set(key, additional)
		}
	}
	comma := b.sign(",")
	// What may follow, from the last property on: as the first that is written, or after another.
	var first, after sequence
	if additional != false {
		member := b.call(b.anonymous("additional"))
		b.define(member[0].rule, b.member(s.otherKey(props.keys), s.convert(additional, path+"/additionalProperties")))
		after = b.repeat(b.join(comma, member), 0, -1)
		first = b.optional(b.join(member, after))
	}
	for _, key := range slices.Backward(props.keys) {
		member := b.member(b.quoted(b.text(escaped(key))), s.convert(props.values[key], path+"/properties/"+key))
		if needed[key] {
			first, after = b.join(member, after), b.join(comma, member, after)
		} else {
			first, after = b.either(b.join(member, after), first), b.join(b.optional(b.join(comma, member)), after)
		}
		// Both hold what comes after: calls keep them short.
		first, after = b.short("(…)", first), b.short("(…)", after)
		if b.err != nil {
			return nil
		}
	}
	return b.join(b.text("{"), b.blank(), first, b.blank(), b.text("}"))
}

// longestKey bounds the name of a property: the rule of other names goes as deep.
const longestKey = 512

// properties are those named, and what others may be: false, true or a schema.
func (s *schemaReader) properties(n *node, path string) (*node, any, bool) {
	props := newNode()
	if v, ok := n.get("properties"); ok {
		named, isNode := v.(*node)
		if !isNode {
			s.fail(path+"/properties", "want an object of schemas")
			return nil, nil, false
		}
		for _, key := range named.keys { // required ones are added: not to the schema itself
			if len(key) > longestKey {
				s.fail(path+"/properties", "a name of %d bytes; at most %d", len(key), longestKey)
				return nil, nil, false
			}
			props.set(key, named.values[key])
		}
	}
	additional, ok := n.get("additionalProperties")
	switch additional.(type) {
	case bool, *node:
	default:
		if ok {
			s.fail(path+"/additionalProperties", "want true, false or a schema")
			return nil, nil, false
		}
		additional = len(props.keys) == 0
	}
	return props, additional, true
}

func (s *schemaReader) required(n *node, path string) ([]string, bool) {
	v, ok := n.get("required")
	if !ok {
		return nil, true
	}
	list, ok := v.([]any)
	s.b.spend(16 * len(list))
	var out []string
	seen := map[string]bool{}
	for _, e := range list {
		key, isString := e.(string)
		ok = ok && isString
		if !seen[key] {
			seen[key], out = true, append(out, key)
		}
	}
	if !ok {
		s.fail(path+"/required", "want a list of names")
	}
	return out, ok
}

// otherKey is a key that is none of those given. It is written without escapes, so that no
// key can be spelled in another way.
func (s *schemaReader) otherKey(keys []string) sequence {
	b := s.b
	plain := except(runeRange{0, 0x1f}, runeRange{0x7f, 0x7f}, runeRange{'"', '"'}, runeRange{'\\', '\\'})
	rest := b.repeat(b.class(plain...), 0, -1)
	var after func(keys [][]rune) sequence // what may follow the runes taken off the keys
	after = func(keys [][]rune) sequence {
		below := map[rune][][]rune{}
		var order []rune
		whole := false
		for _, k := range keys {
			if len(k) == 0 {
				whole = true
				continue
			}
			if _, ok := below[k[0]]; !ok {
				order = append(order, k[0])
			}
			below[k[0]] = append(below[k[0]], k[1:])
		}
		var each []sequence
		if !whole {
			each = append(each, sequence{})
		}
		var taken []runeRange
		for _, r := range order {
			taken = append(taken, runeRange{r, r})
			each = append(each, b.join(b.text(string(r)), after(below[r])))
		}
		free := except(append(taken, except(plain...)...)...)
		each = append(each, b.join(b.class(free...), rest))
		return b.either(each...)
	}
	var runes [][]rune
	for _, k := range keys {
		if escaped(k) == k && b.spend(8*len(k)) { // a key that needs escapes is left out
			runes = append(runes, []rune(k))
		}
	}
	return b.quoted(after(runes))
}

// flat returns a schema that allows the same without $ref and allOf: itself if it has neither, or nil with an error.
// It makes the schema once, so that references to references to … take no more work than there are of them.
func (s *schemaReader) flat(n *node, path string) *node {
	ref, refers := n.get("$ref")
	v, joins := n.get("allOf")
	if !refers && !joins {
		return n
	}
	out, ok := s.merged[n]
	if ok {
		if out == nil {
			s.fail(path, "$ref or allOf leads back to itself; have it refer to another schema")
		}
		return out
	}
	s.merged[n] = nil
	if !s.b.spend(16 * len(n.keys)) {
		return nil
	}
	out = without(n, "$ref", "allOf")
	if refers {
		out = s.merge(out, s.resolve(n, ref, path), path)
	}
	if joins {
		path += "/allOf"
		list, ok := v.([]any)
		if !ok || len(list) == 0 {
			s.fail(path, "want a list of schemas")
			return nil
		}
		for _, e := range list {
			part, ok := e.(*node)
			if e == true {
				continue
			}
			if !ok {
				s.fail(path, "want schemas, not %s", brief(e))
				return nil
			}
			out = s.merge(out, part, path)
		}
	}
	s.merged[n] = out
	return out
}

// merge is a schema that allows what both allow, or nil where that cannot be said.
func (s *schemaReader) merge(a, b *node, path string) *node {
	if s.depth++; s.depth > deepestSchema {
		s.fail(path, "nested deeper than %d", deepestSchema)
	}
	defer func(was string) { s.depth, s.b.where = s.depth-1, was }(s.b.where)
	s.b.where = path
	if a == nil || b == nil || !s.b.spend(16*(len(a.keys)+len(b.keys))+len(path)/2) ||
		!s.known(a, path) || !s.known(b, path) {
		return nil
	}
	if a, b = s.flat(a, path), s.flat(b, path); a == nil || b == nil || s.b.err != nil {
		return nil
	}
	if s.closes(a, b) || s.closes(b, a) {
		s.fail(path,
			"additionalProperties beside properties of another schema is not supported; name all properties in one")
		return nil
	}
	out := without(a)
	for _, key := range b.keys {
		mine, both := out.get(key)
		theirs := b.values[key]
		if !both || slices.Contains(annotations, key) || s.same(mine, theirs) {
			if !both {
				out.set(key, theirs)
			}
			continue
		}
		v, ok := s.mergeKey(key, mine, theirs)
		if !ok {
			s.fail(path, "two values of %q cannot be combined: %s and %s", key, brief(mine), brief(theirs))
			return nil
		}
		out.set(key, v)
	}
	return out
}

// closes reports whether a says something of the properties that b names and a does not.
func (s *schemaReader) closes(a, b *node) bool {
	additional, ok := a.get("additionalProperties")
	if !ok || additional == true {
		return false
	}
	mine, _ := a.get("properties")
	theirs, _ := b.get("properties")
	named, _ := mine.(*node)
	other, _ := theirs.(*node)
	if other == nil {
		return false
	}
	s.b.spend(len(other.keys))
	for _, key := range other.keys {
		if named == nil {
			return true
		}
		if _, ok := named.get(key); !ok {
			return true
		}
	}
	return false
}

func (s *schemaReader) mergeKey(key string, a, b any) (any, bool) {
	switch key {
	case "properties":
		mine, ok := a.(*node)
		theirs, ok2 := b.(*node)
		if !ok || !ok2 {
			return nil, false
		}
		s.b.spend(16 * (len(mine.keys) + len(theirs.keys)))
		out := without(mine)
		for _, k := range theirs.keys {
			v := theirs.values[k]
			if before, both := out.get(k); both {
				all := newNode()
				all.set("allOf", []any{before, v})
				v = all
			}
			out.set(k, v)
		}
		return out, true
	case "required":
		mine, ok := a.([]any)
		theirs, ok2 := b.([]any)
		s.b.spend(len(mine) + len(theirs))
		return slices.Concat(mine, theirs), ok && ok2
	case "enum":
		return s.common(a, b)
	case "type":
		return s.common(listOf(a), listOf(b))
	case "minLength", "minItems", "minProperties", "minimum", "exclusiveMinimum":
		return further(a, b, 1)
	case "maxLength", "maxItems", "maxProperties", "maximum", "exclusiveMaximum":
		return further(a, b, -1)
	}
	return nil, false
}

func listOf(v any) []any {
	if list, ok := v.([]any); ok {
		return list
	}
	return []any{v}
}

// common returns the intersection of two lists of values or types; an integer is a number too.
func (s *schemaReader) common(a, b any) (any, bool) {
	x, ok := a.([]any)
	y, ok2 := b.([]any)
	within := map[string]bool{}
	for _, e := range y {
		within[s.written(e)] = true
	}
	out := []any{}
	for _, e := range x {
		if within[s.written(e)] || e == "integer" && within[`"number"`] {
			out = append(out, e)
		} else if e == "number" && within[`"integer"`] {
			out = append(out, "integer")
		}
	}
	return out, ok && ok2 && len(out) > 0
}

// same reports whether two values are written alike.
func (s *schemaReader) same(a, b any) bool {
	if !s.b.spend(1) {
		return false
	}
	switch a := a.(type) {
	case *node:
		b, ok := b.(*node)
		return ok && (a == b || slices.EqualFunc(a.keys, b.keys, func(k, l string) bool {
			return k == l && s.same(a.values[k], b.values[k])
		}))
	case []any:
		b, ok := b.([]any)
		return ok && slices.EqualFunc(a, b, s.same)
	}
	switch b.(type) {
	case *node, []any:
		return false
	}
	return a == b
}

// further is the greater of two numbers, or the smaller for a sign of -1.
func further(a, b any, sign float64) (any, bool) {
	x, ok := a.(json.Number)
	y, ok2 := b.(json.Number)
	p, err := x.Float64()
	q, err2 := y.Float64()
	if !ok || !ok2 || err != nil || err2 != nil {
		return nil, false
	}
	if sign*q > sign*p {
		return y, true
	}
	return x, true
}
