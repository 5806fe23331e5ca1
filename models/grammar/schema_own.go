package grammar

import (
	"encoding/json"
	"fmt"
	"slices"

	"foretoken/models/grammar/lang"
	"foretoken/models/grammar/number"
)

var (
	kindNames = map[string]kinds{"null": aNull, "boolean": aTrue | aFalse, "number": aNumber, "integer": aNumber,
		"string": aString, "array": anArray, "object": anObject}
	one = func() number.Decimal { d, _ := number.Parse("1"); return d }()
)

// own are the forms of the keywords that say something of a value by themselves.
func (s *formMaker) own(n *node, wide bool) []*form {
	f := anything
	s.ownKinds(n, &f)
	s.ownNumber(n, &f)
	s.ownString(n, &f)
	s.ownArray(n, &f, wide)
	s.ownObject(n, &f, wide)
	f.plain = f.plain && f.used == 0
	out := []*form{s.withRequired(&f, s.required(n))}
	if !out[0].plain && !s.settle(out[0]) {
		out = nil
	}
	for _, key := range []string{"const", "enum"} {
		if values, ok := s.valuesOf(n, key); ok {
			out = s.product(out, s.listed(values))
		}
	}
	return out
}

// withRequired is a form that asks for members too. It is the conjunction of the forms of each, so that alternatives
// that ask for some of the same are told to be weaker or stronger.
func (s *formMaker) withRequired(f *form, names []string) *form {
	if len(names) == 0 {
		return f
	}
	if len(names) == 1 && f.plain {
		return s.needing(names[0])
	}
	g := *f
	g.required, g.used, g.plain, g.atoms = names, g.used|anObject, false, nil
	if !f.plain {
		g.atoms = slices.Clone(s.atomsOf(f))
	}
	for _, name := range names {
		g.atoms = append(g.atoms, s.needing(name).atoms...)
	}
	slices.Sort(g.atoms)
	return &g
}

func (s *formMaker) ownKinds(n *node, f *form) {
	k, integer, ok := s.types(n)
	if !ok {
		return
	}
	f.kinds, f.plain, f.stated = k, false, true
	if integer {
		f.numbers.Multiples = []number.Decimal{one}
	}
}

// bound is a bound of numbers: a keyword, and whether it is a lower one.
type bound struct {
	key   string
	lower bool
	value number.Bound
}

func (s *formMaker) ownNumber(n *node, f *form) {
	for _, b := range s.bounds(n) {
		set := number.Set{Least: &b.value}
		if !b.lower {
			set = number.Set{Most: &b.value}
		}
		f.numbers, f.used = f.numbers.And(set), f.used|aNumber
	}
	if d, ok := s.step(n); ok {
		f.numbers, f.used, f.steps = f.numbers.And(number.Set{Multiples: []number.Decimal{d}}), f.used|aNumber, n
	}
}

func (s *formMaker) ownString(n *node, f *form) {
	f.short, f.long = s.count2(n, "minLength", "maxLength")
	l, longest := s.format(n)
	f.long = closer(f.long, longest)
	if text, ok := s.textOf(n, "pattern"); ok {
		in, key := s.m.All(), ""
		if l != nil {
			in, key = l, fmt.Sprint(s.nameOf(l))
		}
		if p := s.pattern(n, "pattern", text, fmt.Sprint("P", key, ":", f.long, ":"), in, f.long); p != nil {
			l = p
		}
	}
	if l != nil {
		f.langs = []*lang.Lang{l}
	}
	if f.short > 0 || f.long >= 0 || l != nil {
		f.used |= aString
	}
}

func (s *formMaker) ownArray(n *node, f *form, wide bool) {
	f.few, f.many = s.count2(n, "minItems", "maxItems")
	t, ok := s.tupleOf(n)
	if ok {
		t.looks = wide
		f.tuples = []tuple{t}
	}
	if v, ok := n.has("contains"); ok {
		c := counted{of: s.want(s.sub(n, "contains", v))}
		c.least, c.most = s.countOf(n, "minContains", 1), s.countOf(n, "maxContains", -1)
		f.counted = []counted{c}
	}
	if s.flag(n, "uniqueItems") {
		f.unique = n
	}
	if ok || f.few > 0 || f.many >= 0 || f.counted != nil || f.unique != nil {
		f.used |= anArray
	}
}

// tupleOf reads items, prefixItems and additionalItems. A list under items was the prefix before 2020.
func (s *formMaker) tupleOf(n *node) (tuple, bool) {
	var t tuple
	items, hasItems := n.has("items")
	first, _ := n.has("prefixItems")
	restKey := "items"
	if list, ok := items.([]any); ok && first == nil {
		first, restKey = list, "additionalItems"
		items, hasItems = n.has("additionalItems")
	}
	if first != nil {
		list, ok := first.([]any)
		if !ok {
			s.fail(n, "prefixItems", "want a list of schemas")
		}
		s.b.spend(4 * len(list))
		for _, e := range list {
			t.first = append(t.first, s.want(s.sub(n, "prefixItems", e)))
		}
	}
	if hasItems {
		t.rest, t.ends = s.want(s.sub(n, restKey, items)), true
	}
	return t, t.ends || t.first != nil
}

// listed are the forms of some values.
func (s *formMaker) listed(values []any) []*form {
	simple := only(0)
	simple.numbers.Points = []number.Decimal{}
	var texts []string
	out := make([]*form, 0, 1)
	for _, v := range values {
		if !s.b.spend(4) {
			return nil
		}
		switch v := v.(type) {
		case nil:
			simple.kinds |= aNull
		case bool:
			simple.kinds |= truth(v)
		case json.Number:
			simple.kinds |= aNumber
			simple.numbers.Points = append(simple.numbers.Points, s.point(v))
		case string:
			simple.kinds |= aString
			texts = append(texts, v)
		default:
			for _, f := range s.formsOf(literal{of: s.composite(v)}) {
				f.value = v
				out = append(out, f)
			}
		}
	}
	if texts != nil {
		l := s.m.Texts(texts...)
		if simple.langs = []*lang.Lang{l}; len(texts) == 1 {
			s.only[l] = texts[0]
		}
	}
	if simple.kinds != 0 {
		out = append(out, simple)
	}
	return out
}

func truth(v bool) kinds {
	if v {
		return aTrue
	}
	return aFalse
}

// rest is a form with what unevaluated… says of the items and members that no schema next to it looks at.
func (s *formMaker) rest(n *node, of *form) *form {
	f := *of
	f.atoms = nil
	if v, ok := n.has("unevaluatedItems"); ok {
		of := s.want(s.sub(n, "unevaluatedItems", v))
		if len(f.counted) > 0 {
			s.refuse(n, "unevaluatedItems", "unevaluatedItems", "unevaluatedItems is not held to with "+
				"contains; write items")
		}
		t, all := tuple{rest: of, ends: true, looks: true}, false
		for _, other := range f.tuples {
			all = all || other.looks && other.ends
			if other.looks && len(other.first) > len(t.first) {
				t.first = make([]goal, len(other.first)) // any value
			}
		}
		if !all {
			f.tuples, f.used = slices.Concat(f.tuples, []tuple{t}), f.used|anArray
		}
	}
	if v, ok := n.has("unevaluatedProperties"); ok {
		s.restOfObject(&f, s.want(s.sub(n, "unevaluatedProperties", v)))
	}
	f.plain = false
	return &f
}
