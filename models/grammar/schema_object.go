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
	for _, key := range required {
		if _, ok := props.get(key); !ok {
			if additional == false {
				return s.fail(path+"/required", "%q is required and not allowed: name it in properties", key)
			}
			props.set(key, additional)
		}
	}
	comma := join(b.blank(), text(","), b.blank())
	// What may follow, from the last property on: as the first that is written, or after another.
	var first, after sequence
	if additional != false {
		member := b.call(b.anonymous("additional"))
		b.define(member[0].rule, b.member(s.otherKey(props.keys), s.convert(additional, path+"/additionalProperties")))
		after = b.repeat(join(comma, member), 0, -1)
		first = b.optional(join(member, after))
	}
	for _, key := range slices.Backward(props.keys) {
		member := b.member(text(literal(key)), s.convert(props.values[key], path+"/properties/"+key))
		if slices.Contains(required, key) {
			first, after = join(member, after), join(comma, member, after)
		} else {
			first, after = b.either(join(member, after), first), join(b.optional(join(comma, member)), after)
		}
		// Both hold what comes after: calls keep them short.
		first, after = b.short("(…)", first), b.short("(…)", after)
		if b.err != nil {
			return nil
		}
	}
	return join(text("{"), b.blank(), first, b.blank(), text("}"))
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
	var out []string
	for _, e := range list {
		key, isString := e.(string)
		ok = ok && isString
		if !slices.Contains(out, key) {
			out = append(out, key)
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
			each = append(each, join(text(string(r)), after(below[r])))
		}
		free := except(append(taken, except(plain...)...)...)
		each = append(each, join(b.class(free...), rest))
		return b.either(each...)
	}
	var runes [][]rune
	for _, k := range keys {
		if literal(k) == `"`+k+`"` { // a key that needs escapes is left out
			runes = append(runes, []rune(k))
		}
	}
	return b.quoted(after(runes))
}

// mergeAll puts the schemas of allOf into one.
func (s *schemaReader) mergeAll(n *node, path string) *node {
	v, _ := n.get("allOf")
	list, ok := v.([]any)
	if !ok || len(list) == 0 {
		s.fail(path+"/allOf", "want a list of schemas")
		return nil
	}
	out := without(n, "allOf")
	for _, e := range list {
		part, ok := e.(*node)
		if e == true {
			continue
		}
		if !ok {
			s.fail(path+"/allOf", "want schemas, not %s", rest(literal(e)))
			return nil
		}
		if out = s.merge(out, part, path+"/allOf"); out == nil {
			return nil
		}
	}
	return out
}

// merge is a schema that allows what both allow, or nil where that cannot be said.
func (s *schemaReader) merge(a, b *node, path string) *node {
	if s.depth++; s.depth > deepestSchema {
		s.fail(path, "nested deeper than %d", deepestSchema)
	}
	defer func() { s.depth-- }()
	if a == nil || b == nil || s.b.err != nil {
		return nil
	}
	for _, side := range []**node{&a, &b} {
		if !s.known(*side, path) {
			return nil
		}
		if ref, ok := (*side).get("$ref"); ok {
			if *side = s.merge(without(*side, "$ref"), s.resolve(ref, path), path); *side == nil {
				return nil
			}
		}
		if _, ok := (*side).get("allOf"); ok {
			if *side = s.mergeAll(*side, path); *side == nil {
				return nil
			}
		}
	}
	if s.closes(a, b) || s.closes(b, a) {
		s.fail(path,
			"additionalProperties beside properties of another schema is not supported; name all properties in one")
		return nil
	}
	out := newNode()
	for _, key := range a.keys {
		out.set(key, a.values[key])
	}
	for _, key := range b.keys {
		mine, both := out.get(key)
		theirs := b.values[key]
		if !both || slices.Contains(annotations, key) || literal(mine) == literal(theirs) {
			if !both {
				out.set(key, theirs)
			}
			continue
		}
		v, ok := s.mergeKey(key, mine, theirs)
		if !ok {
			s.fail(path, "two values of %q cannot be combined: %s and %s", key, rest(literal(mine)),
				rest(literal(theirs)))
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
		out := newNode()
		for _, k := range mine.keys {
			out.set(k, mine.values[k])
		}
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
		return slices.Concat(mine, theirs), ok && ok2
	case "enum":
		return common(a, b)
	case "type":
		return common(listOf(a), listOf(b))
	case "minLength", "minItems", "minProperties", "minimum", "exclusiveMinimum":
		return further(a, b, 1)
	case "maxLength", "maxItems", "maxProperties", "maximum", "exclusiveMaximum":
		return further(a, b, -1)
	}
	return nil, false
}

func listOf(v any) any {
	if _, ok := v.([]any); ok {
		return v
	}
	return []any{v}
}

// common returns the intersection of two type lists; an integer is a number too.
func common(a, b any) (any, bool) {
	x, ok := a.([]any)
	y, ok2 := b.([]any)
	out := []any{}
	for _, e := range x {
		if slices.ContainsFunc(y,
			func(f any) bool { return literal(e) == literal(f) || e == "integer" && f == "number" }) {
			out = append(out, e)
		} else if e == "number" && slices.Contains(y, any("integer")) {
			out = append(out, "integer")
		}
	}
	return out, ok && ok2 && len(out) > 0
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
