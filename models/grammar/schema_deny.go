package grammar

import (
	"encoding/json"
	"slices"

	"foretoken/models/grammar/lang"
	"foretoken/models/grammar/number"
)

// deny are the forms of the values that do not pass a schema: those that fail one of its keywords.
func (s *formMaker) deny(n *node) []*form {
	if ref, ok := n.has("$ref"); ok && n.onlyRefers() {
		return s.refer(n, ref, literal{not: true})
	}
	var out []*form
	for _, word := range []string{"$dynamicRef", "$recursiveRef", "unevaluatedItems", "unevaluatedProperties"} {
		if _, ok := n.has(word); ok {
			s.refuse(n, word, word, "%s cannot be denied: not, oneOf or if asks for what does not pass it", word)
			out = append(out, only(allKinds)) // unchecked: any value may fail it
		}
	}
	out = slices.Concat(out, s.denyKinds(n), s.denyNumber(n), s.denyString(n), s.denyArray(n), s.denyObject(n))
	for _, key := range []string{"const", "enum"} {
		if values, ok := s.valuesOf(n, key); ok {
			out = append(out, s.unlisted(values)...)
		}
	}
	return append(out, s.denyJoins(n)...)
}

// denyJoins denies the keywords that hold schemas of the same value.
func (s *formMaker) denyJoins(n *node) []*form {
	var out []*form
	if ref, ok := n.has("$ref"); ok {
		out = append(out, s.refer(n, ref, literal{not: true})...)
	}
	for _, sub := range s.list(n, "allOf") {
		out = append(out, s.formsOfGoal(s.avoid(sub))...)
	}
	none := func(all []*node) []*form {
		each := []*form{&anything}
		for _, sub := range all {
			each = s.product(each, s.formsOfGoal(s.avoid(sub)))
		}
		return each
	}
	if n.values["anyOf"] != nil {
		out = append(out, none(s.list(n, "anyOf"))...)
	}
	if all := s.list(n, "oneOf"); all != nil {
		out = append(out, none(all)...)
		for i := range all {
			for j := range i {
				out = append(out, s.formsOfGoal(s.both(s.want(all[i]), s.want(all[j])))...)
			}
		}
	}
	if v, ok := n.has("not"); ok {
		out = append(out, s.formsOfGoal(s.want(s.sub(n, "not", v)))...)
	}
	if v, ok := n.has("if"); ok {
		out = append(out, s.conditional(n, s.sub(n, "if", v), false, true)...)
	}
	return out
}

func (s *formMaker) denyKinds(n *node) []*form {
	k, integer, ok := s.types(n)
	if !ok {
		return nil
	}
	var out []*form
	if k != allKinds {
		out = append(out, only(allKinds&^k))
	}
	if integer {
		f := only(aNumber)
		f.numbers.NotMultiples = []number.Decimal{one}
		out = append(out, f)
	}
	return out
}

func (s *formMaker) denyNumber(n *node) []*form {
	var out []*form
	for _, b := range s.bounds(n) {
		f := only(aNumber)
		other := &number.Bound{Value: b.value.Value, Open: !b.value.Open}
		if b.lower {
			f.numbers.Most = other
		} else {
			f.numbers.Least = other
		}
		out = append(out, f)
	}
	if d, ok := s.step(n); ok {
		f := only(aNumber)
		f.numbers.NotMultiples, f.steps = []number.Decimal{d}, n
		out = append(out, f)
	}
	return out
}

func (s *formMaker) denyString(n *node) []*form {
	var out []*form
	least, most := s.count2(n, "minLength", "maxLength")
	if least > 0 {
		f := only(aString)
		f.long = least - 1
		out = append(out, f)
	}
	if most >= 0 {
		f := only(aString)
		f.short = most + 1
		out = append(out, f)
	}
	l, longest := s.format(n)
	if l != nil {
		out = append(out, s.outside(l))
	}
	if longest >= 0 {
		f := only(aString)
		f.short = longest + 1
		out = append(out, f)
	}
	if text, ok := s.textOf(n, "pattern"); ok {
		if l := s.anywhere(n, "pattern", text); l != nil {
			out = append(out, s.outside(l))
		} else {
			out = append(out, only(aString))
		}
	}
	return out
}

// outside is the form of the strings that are not in a language.
func (s *formMaker) outside(l *lang.Lang) *form {
	f := only(aString)
	f.langs = []*lang.Lang{s.cachedNot(l)}
	return f
}

func (s *formMaker) denyArray(n *node) []*form {
	var out []*form
	array := func(change func(f *form)) {
		f := only(anArray)
		change(f)
		out = append(out, f)
	}
	least, most := s.count2(n, "minItems", "maxItems")
	if least > 0 {
		array(func(f *form) { f.many = least - 1 })
	}
	if most >= 0 {
		array(func(f *form) { f.few = most + 1 })
	}
	t, _ := s.tupleOf(n)
	for i, g := range t.first {
		array(func(f *form) {
			first := make([]goal, i+1)
			first[i] = s.denied(g)
			f.few, f.tuples = i+1, []tuple{{first: first}}
		})
	}
	if t.ends {
		array(func(f *form) { f.counted = []counted{{of: s.denied(t.rest), least: 1, most: -1, from: len(t.first)}} })
	}
	if v, ok := n.has("contains"); ok {
		of := s.want(s.sub(n, "contains", v))
		least, most := s.countOf(n, "minContains", 1), s.countOf(n, "maxContains", -1)
		if least > 0 {
			array(func(f *form) { f.counted = []counted{{of: of, most: least - 1}} })
		}
		if most >= 0 {
			array(func(f *form) { f.counted = []counted{{of: of, least: most + 1, most: -1}} })
		}
	}
	if s.flag(n, "uniqueItems") {
		s.refuse(n, "uniqueItems", "uniqueItems", "uniqueItems cannot be denied: not, oneOf or if asks for what does "+
			"not pass it")
		array(func(*form) {})
	}
	return out
}

// denied is the goal not to pass a goal of at most one schema.
func (s *formMaker) denied(g goal) goal {
	if len(g) == 0 {
		return s.avoid(nil)
	}
	if len(g) != 1 || g[0].not {
		panic("grammar: a keyword's goal is one schema")
	}
	return s.avoid(g[0].of)
}

// unlisted are the forms of all values but some.
func (s *formMaker) unlisted(values []any) []*form {
	simple := only(allKinds)
	var texts []string
	var composites []*node
	for _, v := range values {
		if !s.b.spend(4) {
			return nil
		}
		switch v := v.(type) {
		case nil:
			simple.kinds &^= aNull
		case bool:
			simple.kinds &^= truth(v)
		case json.Number:
			simple.numbers.Except = append(simple.numbers.Except, s.point(v))
		case string:
			texts = append(texts, v)
		default:
			composites = append(composites, s.composite(v))
		}
	}
	if texts != nil {
		simple.langs = []*lang.Lang{s.m.Not(s.m.Texts(texts...))}
	}
	out := []*form{simple}
	for _, n := range composites {
		out = s.product(out, s.formsOfGoal(s.avoid(n)))
	}
	return out
}
