package grammar

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"foretoken/models/grammar/lang"
	"foretoken/models/grammar/number"
)

var (
	kindNames = map[string]kinds{"null": aNull, "boolean": aTrue | aFalse, "number": aNumber, "integer": aNumber,
		"string": aString, "array": anArray, "object": anObject}
	one = func() number.Decimal { d, _ := number.Parse("1"); return d }()
)

// own are the forms of the keywords that say something of a value by themselves.
func (s *schemaReader) own(n *node, wide bool) []*form {
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
func (s *schemaReader) withRequired(f *form, names []string) *form {
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

// valuesOf reads const or enum.
func (s *schemaReader) valuesOf(n *node, key string) ([]any, bool) {
	v, ok := n.has(key)
	switch {
	case !ok:
		return nil, false
	case key == "const":
		return []any{v}, true
	}
	all, ok := v.([]any)
	if !ok || len(all) == 0 {
		s.fail(n, key, "want a list of values")
	}
	return all, true
}

func (s *schemaReader) ownKinds(n *node, f *form) {
	k, integer, ok := s.types(n)
	if !ok {
		return
	}
	f.kinds, f.plain, f.stated = k, false, true
	if integer {
		f.numbers.Multiples = []number.Decimal{one}
	}
}

// types reads type: the kinds, and whether numbers are to be integers.
func (s *schemaReader) types(n *node) (k kinds, integer, ok bool) {
	v, ok := n.has("type")
	if !ok {
		return 0, false, false
	}
	list, isList := v.([]any)
	if !isList {
		list = []any{v}
	}
	s.b.spend(len(list))
	number := false
	for _, e := range list {
		name, _ := e.(string)
		if kindNames[name] == 0 {
			s.fail(n, "type", "%s is no type; want object, array, string, number, integer, boolean or null", brief(e))
			return 0, false, true
		}
		k |= kindNames[name]
		integer, number = integer || name == "integer", number || name == "number"
	}
	if len(list) == 0 {
		s.fail(n, "type", "an empty list allows nothing; name a type")
	}
	return k, integer && !number, true
}

// decimal reads a number.
func (s *schemaReader) decimal(n *node, key string, v any) (number.Decimal, bool) {
	text, ok := v.(json.Number)
	if !ok {
		s.fail(n, key, "want a number, not %s", brief(v))
		return number.Decimal{}, false
	}
	d, err := number.Parse(string(text))
	if err != nil {
		s.fail(n, key, "%s", err)
	}
	return d, err == nil
}

// bound is a bound of numbers: a keyword, and whether it is a lower one.
type bound struct {
	key   string
	lower bool
	value number.Bound
}

// bounds reads minimum, maximum and the exclusive ones, which are numbers, or draft 4's flags of the others.
func (s *schemaReader) bounds(n *node) []bound {
	var out []bound
	for _, b := range []bound{{key: "minimum", lower: true}, {key: "maximum"}, {key: "exclusiveMinimum", lower: true},
		{key: "exclusiveMaximum"}} {
		v, ok := n.has(b.key)
		if _, flag := v.(bool); !ok || flag && strings.HasPrefix(b.key, "exclusive") {
			continue
		}
		d, ok := s.decimal(n, b.key, v)
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

func (s *schemaReader) step(n *node) (number.Decimal, bool) {
	v, ok := n.has("multipleOf")
	if !ok {
		return number.Decimal{}, false
	}
	d, ok := s.decimal(n, "multipleOf", v)
	if ok && d.Cmp(number.Decimal{}) <= 0 {
		s.fail(n, "multipleOf", "want a number above 0, not %s", brief(v))
	}
	return d, ok
}

func (s *schemaReader) ownNumber(n *node, f *form) {
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

func (s *schemaReader) ownString(n *node, f *form) {
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

func (s *schemaReader) textOf(n *node, key string) (string, bool) {
	v, ok := n.has(key)
	text, isText := v.(string)
	if ok && !isText {
		s.fail(n, key, "want a string, not %s", brief(v))
	}
	return text, ok && isText
}

// format is the language of a format and its bound of length; nil without one, or for a name that is an annotation.
func (s *schemaReader) format(n *node) (*lang.Lang, int) {
	text, ok := s.textOf(n, "format")
	if !ok {
		return nil, -1
	}
	l, longest, _ := s.m.Format(text)
	return l, longest
}

// pattern is the language of an expression, which stands at a keyword, within another language and a bound of length;
// nil where it is left unchecked. key tells apart what it is made within.
func (s *schemaReader) pattern(n *node, at, text, key string, in *lang.Lang, longest int) *lang.Lang {
	return s.cached(key+text, func() *lang.Lang {
		l, err := s.m.PatternIn(in, longest, text)
		if err != nil {
			s.refuse(n, at, "pattern", "%s", err)
		}
		return l
	})
}

// anywhere is the language of an expression by itself.
func (s *schemaReader) anywhere(n *node, at, text string) *lang.Lang {
	return s.pattern(n, at, text, "p", s.m.All(), -1)
}

// cached makes a language once.
func (s *schemaReader) cached(key string, build func() *lang.Lang) *lang.Lang {
	if l, ok := s.langs[key]; ok {
		return l
	}
	l := build()
	s.langs[key] = l
	return l
}

// flag reads true or false.
func (s *schemaReader) flag(n *node, key string) bool {
	v, ok := n.has(key)
	yes, isBool := v.(bool)
	if ok && !isBool {
		s.fail(n, key, "want true or false, not %s", brief(v))
	}
	return yes
}

// countOf reads a keyword that counts something; missing is its default. A whole number may be written as 2.0. No
// answer is so long that an upper bound beyond maxOps says anything.
func (s *schemaReader) countOf(n *node, key string, missing int) int {
	v, ok := n.has(key)
	if !ok {
		return missing
	}
	text, _ := v.(json.Number)
	d, err := number.Parse(string(text))
	if err != nil || d.Cmp(number.Decimal{}) < 0 || !(number.Set{Multiples: []number.Decimal{one}}).Has(d) {
		s.fail(n, key, "want a whole number from 0, not %s", brief(v))
		return missing
	}
	switch c, ok := d.Int64(); {
	case ok && c <= maxOps:
		return int(c)
	case strings.HasPrefix(key, "max"):
		return -1
	}
	s.fail(n, key, "want a number from 0 to %d, not %s", maxOps, brief(v))
	return missing
}

// count2 reads a lower and an upper bound; the upper may be missing.
func (s *schemaReader) count2(n *node, least, most string) (int, int) {
	return s.countOf(n, least, 0), s.countOf(n, most, -1)
}

func (s *schemaReader) ownArray(n *node, f *form, wide bool) {
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
func (s *schemaReader) tupleOf(n *node) (tuple, bool) {
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
func (s *schemaReader) listed(values []any) []*form {
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

// point is a number of enum or const.
func (s *schemaReader) point(v json.Number) number.Decimal {
	d, err := number.Parse(string(v))
	if err != nil {
		s.b.fail("%s%s", place(s.b.where), err)
	}
	return d
}

func truth(v bool) kinds {
	if v {
		return aTrue
	}
	return aFalse
}

// composite is a schema that one list or object passes.
func (s *schemaReader) composite(v any) *node {
	constant := func(e any) any { return s.made(newNode().set("const", e)) }
	out := newNode()
	switch v := v.(type) {
	case []any:
		s.b.spend(32 * len(v))
		size := json.Number(strconv.Itoa(len(v)))
		all := make([]any, len(v))
		for i, e := range v {
			all[i] = constant(e)
		}
		out.set("type", "array").set("prefixItems", all).set("minItems", size).set("maxItems", size)
	case *node:
		s.b.spend(48 * len(v.keys))
		props, names := newNode(), make([]any, len(v.keys))
		for i, k := range v.keys {
			props.set(k, constant(v.values[k]))
			names[i] = k
		}
		out.set("type", "object").set("properties", props).set("required", names).set("additionalProperties", false)
	}
	return s.made(out)
}

// looksAtRest reports whether a schema has unevaluated…, which heeds the schemas next to it.
func (s *schemaReader) looksAtRest(n *node) bool {
	_, items := n.has("unevaluatedItems")
	_, members := n.has("unevaluatedProperties")
	return items || members
}

// rest is a form with what unevaluated… says of the items and members that no schema next to it looks at.
func (s *schemaReader) rest(n *node, of *form) *form {
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
