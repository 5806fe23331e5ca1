package grammar

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"

	"foretoken/models/grammar/lang"
	"foretoken/models/grammar/number"
)

// kinds is a set of types of values.
type kinds uint8

const (
	aNull kinds = 1 << iota
	aTrue
	aFalse
	aNumber
	aString
	anArray
	anObject

	allKinds = aNull | aTrue | aFalse | aNumber | aString | anArray | anObject
)

// form is a conjunction of what is asked of one value. What it says of a type bounds the values of that type alone.
// Forms share the lists in them, which nothing changes.
type form struct {
	kinds  kinds
	stated bool    // a type was asked for, or denied
	used   kinds   // the types of the keywords
	plain  bool    // nothing is asked for
	value  any     // the one value, if it is a list or an object that an enum or const names
	atoms  []int32 // the forms that it is the conjunction of, by number, in order

	numbers number.Set
	steps   *node // a schema whose multipleOf is among them, or nil

	langs       []*lang.Lang // the string is in each
	short, long int          // code points; long < 0: no bound

	tuples    []tuple
	few, many int // items; many < 0: no bound
	counted   []counted
	unique    *node // the schema that asks for it, or nil

	objectForm
}

// tuple gives goals to the items of a list by their places.
type tuple struct {
	first []goal
	rest  goal
	ends  bool // rest was given
	looks bool // unevaluatedItems heeds it: it is no part of what is denied, or of an enum
}

// goalAt is the goal of the item at a place.
func (t *tuple) goalAt(i int) goal {
	if i < len(t.first) {
		return t.first[i]
	}
	return t.rest
}

// counted asks that so many of the items, from a place on, pass a schema.
type counted struct {
	of          goal
	least, most int // most < 0: no bound
	from        int
}

var anything = form{kinds: allKinds, plain: true, long: -1, many: -1, objectForm: objectForm{most: -1}}

// only is a form that asks for values of some types and nothing else.
func only(k kinds) *form {
	f := anything
	f.kinds, f.plain, f.stated = k, false, true
	return &f
}

// and is the conjunction of two forms, made once; nil where no value passes it.
func (s *formMaker) and(a, b *form) *form {
	switch {
	case a.plain || a == b:
		return b
	case b.plain:
		return a
	case s.apart(a, b):
		return nil
	}
	s.b.spend(8 + len(a.atoms) + len(b.atoms))
	atoms := slices.Concat(s.atomsOf(a), s.atomsOf(b))
	slices.Sort(atoms)
	atoms = slices.Compact(atoms)
	if len(atoms) == len(a.atoms) {
		return a
	}
	var key []byte
	for _, n := range atoms {
		key = binary.AppendUvarint(key, uint64(n))
	}
	f, ok := s.joins[string(key)]
	if !ok {
		unsure := s.unsure
		if f = s.join(a, b); !s.settle(f) {
			f = nil
		} else {
			f.atoms = atoms
		}
		if s.unsure == unsure {
			s.joins[string(key)] = f
		}
	}
	return f
}

// apart reports whether two forms have no type in common, or one value each, which differ. It costs next to nothing.
func (s *formMaker) apart(a, b *form) bool {
	switch a.kinds & b.kinds {
	case 0:
		s.why[s.b.where] = "the types leave none"
		return true
	case aString:
		if len(a.langs) != 1 || len(b.langs) != 1 {
			return false
		}
		p, one := s.only[a.langs[0]]
		q, other := s.only[b.langs[0]]
		return one && other && p != q
	case aNumber:
		p, q := a.numbers.Points, b.numbers.Points
		return len(p) == 1 && len(q) == 1 && p[0] != q[0]
	}
	return false
}

// join is the conjunction of two forms.
func (s *formMaker) join(a, b *form) *form {
	s.b.spend(32 + a.size() + b.size())
	f := &form{kinds: a.kinds & b.kinds, stated: a.stated || b.stated, used: a.used | b.used}
	f.numbers, f.steps = a.numbers.And(b.numbers), cmp.Or(a.steps, b.steps)
	f.langs = slices.Clip(a.langs)
	for _, l := range b.langs {
		if !slices.Contains(f.langs, l) { // bound: keywords of a few schemas
			f.langs = append(f.langs, l)
		}
	}
	f.short, f.long = max(a.short, b.short), closer(a.long, b.long)
	f.tuples = slices.Concat(a.tuples, b.tuples)
	f.few, f.many = max(a.few, b.few), closer(a.many, b.many)
	f.counted = slices.Concat(a.counted, b.counted)
	f.unique = cmp.Or(a.unique, b.unique)
	f.objectForm = s.andObjects(&a.objectForm, &b.objectForm)
	return f
}

func (f *form) size() int {
	return len(f.langs) + len(f.tuples) + len(f.counted) + len(f.parts) + len(f.required) + len(f.absent) +
		len(f.denials) + len(f.names) + len(f.some) + len(f.numbers.Points) + len(f.numbers.Except)
}

// closer is the lower of two upper bounds, of which negative ones are none.
func closer(a, b int) int {
	if a < 0 || b >= 0 && b < a {
		return b
	}
	return a
}

// product joins each form of one list with each of another. Those that no value takes are left out.
func (s *formMaker) product(a, b []*form) []*form {
	if len(a) == 1 && a[0].plain {
		return b
	}
	if len(b) == 1 && b[0].plain {
		return a
	}
	var out []*form
	seen := map[*form]bool{}
	for _, x := range a {
		for _, y := range b {
			if s.b.err != nil {
				return nil
			}
			if f := s.and(x, y); f != nil && !seen[f] {
				seen[f], out = true, append(out, f)
			}
		}
	}
	return s.weakest(out)
}

// atomsOf numbers a form that is no conjunction.
func (s *formMaker) atomsOf(f *form) []int32 {
	if f.atoms == nil {
		s.atoms++
		f.atoms = []int32{s.atoms}
	}
	return f.atoms
}

// weakest leaves out the forms that ask for all that another does and more. Where unevaluated… is to be held to, it
// matters which other schemas a value passes.
func (s *formMaker) weakest(all []*form) []*form {
	const most = 256 // forms: each is compared with each
	if len(all) < 2 || len(all) > most || s.heeds > 0 || !s.b.spend(len(all)*len(all)/4) {
		return all
	}
	return slices.DeleteFunc(all, func(f *form) bool {
		return slices.ContainsFunc(all, func(g *form) bool { // bound: most
			return g != nil && g != f && len(g.atoms) > 0 && len(g.atoms) < len(f.atoms) &&
				subset(g.atoms, f.atoms) && (s.o.Open || f.namesNoMore(g))
		})
	})
}

// namesNoMore reports whether a form that asks for all that another does allows no more for what it names: where
// objects are closed, a name is allowed because a schema names it, and a type because a keyword is about it.
func (f *form) namesNoMore(g *form) bool {
	if len(f.parts) > len(g.parts) || f.used != g.used || f.stated != g.stated {
		return false
	}
	for _, name := range f.required {
		named := slices.ContainsFunc(g.parts, func(p *part) bool { _, ok := p.named[name]; return ok }) // bound: parts
		if !named && !slices.Contains(g.required, name) {                                               // bound: names
			return false
		}
	}
	return true
}

// subset reports whether one ordered list holds all of another.
func subset(part, all []int32) bool {
	for _, n := range all {
		if len(part) > 0 && part[0] == n {
			part = part[1:]
		}
	}
	return len(part) == 0
}

// settle takes away the types of which no value is left, as far as that can be told, and reports whether some remain.
func (s *formMaker) settle(f *form) bool {
	if f.kinds == 0 {
		s.why[s.b.where] = "the types leave none"
		return false
	}
	for _, of := range []struct {
		kind   kinds
		reason func(*form) string
	}{{aNumber, noNumber}, {aString, s.noString}, {anArray, s.noArray}, {anObject, s.noObject}} {
		if f.kinds&of.kind == 0 {
			continue
		}
		if reason := of.reason(f); reason != "" {
			f.kinds &^= of.kind
			s.why[s.b.where] = reason
		}
	}
	return f.kinds != 0
}

// noNumber says why a form allows no number; "" where it may. The functions of the other types do the same.
func noNumber(f *form) string {
	if _, finite := f.numbers.List(0); finite {
		return "no number is within the bounds, of the multiples and in the list"
	}
	return ""
}

func (s *formMaker) noArray(f *form) string {
	if f.many >= 0 && f.few > f.many {
		return fmt.Sprintf("minItems %d is more than maxItems %d", f.few, f.many)
	}
	for _, c := range f.counted {
		if c.most >= 0 && c.least > c.most || f.many >= 0 && c.least > f.many-c.from {
			return fmt.Sprintf("contains asks for %d items and allows fewer", c.least)
		}
	}
	for i := range min(f.few, f.longest()+1) {
		if s.isDead(s.itemGoal(f, i)) {
			return fmt.Sprintf("item %d must be there, and no value passes what is asked of it", i)
		}
	}
	return ""
}

// assert are the forms of a schema.
func (s *formMaker) assert(n *node, wide bool) []*form {
	if ref, ok := n.has("$ref"); ok && n.onlyRefers() {
		return s.refer(n, ref, literal{wide: wide})
	}
	for _, word := range []string{"$dynamicRef", "$recursiveRef"} {
		if _, ok := n.has(word); ok {
			s.refuse(n, word, word, "%s is not held to; write $ref", word)
		}
	}
	open := s.looksAtRest(n)
	if wide = wide || open; wide {
		s.heeds++
		defer func() { s.heeds-- }()
	}
	out := s.own(n, wide)
	join := func(more []*form) { out = s.product(out, more) }
	if ref, ok := n.has("$ref"); ok {
		join(s.refer(n, ref, literal{wide: wide}))
	}
	for _, sub := range s.list(n, "allOf") {
		join(s.formsOf(literal{of: sub, wide: wide}))
	}
	if n.values["anyOf"] != nil {
		join(s.anyOf(s.list(n, "anyOf"), wide))
	}
	if v, ok := n.has("not"); ok {
		join(s.formsOfGoal(s.avoid(s.sub(n, "not", v))))
	}
	if v, ok := n.has("if"); ok {
		join(s.conditional(n, s.sub(n, "if", v), wide, false))
	}
	for _, d := range s.dependents(n) {
		join(s.dependent(d, wide))
	}
	if n.values["oneOf"] != nil {
		out = s.oneOf(out, s.list(n, "oneOf"), wide)
	}
	if open {
		out = slices.Clone(out)
		for i, f := range out {
			out[i] = s.rest(n, f)
		}
		out = slices.DeleteFunc(out, func(f *form) bool { return !s.settle(f) })
	}
	return out
}

// refer are the forms of the schema that a $ref names; l says how they are wanted.
func (s *formMaker) refer(n *node, ref any, l literal) []*form {
	name, _ := ref.(string)
	v, ok := s.find(n, name)
	if !ok {
		s.fail(n, "$ref", "%s points at nothing in this schema; want #/… within it, an $anchor or an $id", brief(ref))
		return nil
	}
	l.of = s.sub(n, "$ref", v)
	if l.of != nil && l.of.id == 0 && l.of != s.never { // it stands among data
		l.of.inherit(n, "$ref")
		s.place(l.of, false)
	}
	switch {
	case l.of == nil && l.not:
		l = literal{of: s.never}
	case l.of == nil:
		return []*form{&anything}
	}
	return s.formsOf(l)
}

// anyOf are the forms of alternatives. Where it matters which of them a value passes, each set of them is one.
func (s *formMaker) anyOf(all []*node, wide bool) []*form {
	var out []*form
	if !wide {
		for _, sub := range all {
			if s.b.spend(4) {
				out = append(out, s.formsOf(literal{of: sub})...)
			}
		}
		return s.distinct(out)
	}
	if len(all) > 8 {
		s.b.fail("%sunevaluated… with an anyOf of more than 8 is not held to; name the properties in one schema",
			place(s.b.where))
		return nil
	}
	for set := 1; set < 1<<len(all); set++ {
		each := []*form{&anything}
		for i, sub := range all {
			if set>>i&1 == 1 {
				each = s.product(each, s.formsOf(literal{of: sub, wide: true}))
			}
		}
		out = append(out, each...)
	}
	return s.distinct(out)
}

// distinct leaves out forms that stand before.
func (s *formMaker) distinct(all []*form) []*form {
	s.b.spend(2 * len(all))
	seen := make(map[*form]bool, len(all))
	return s.weakest(slices.DeleteFunc(slices.Clone(all), func(f *form) bool {
		was := seen[f]
		seen[f] = true
		return was
	}))
}

// oneOf are the forms of a value that passes exactly one of some schemas, and one of the forms of the other keywords.
// Where two of the schemas overlap, each denies the other.
func (s *formMaker) oneOf(others []*form, all []*node, wide bool) []*form {
	each := make([][]*form, len(all))
	for i, sub := range all {
		each[i] = s.product(others, s.formsOf(literal{of: sub, wide: wide}))
	}
	var out []*form
	for i := range all {
		mine := each[i]
		for j := range all {
			if !s.b.spend(4) {
				return nil
			}
			if i != j && s.overlap(each[i], each[j]) {
				mine = s.product(mine, s.formsOfGoal(s.avoid(all[j])))
			}
		}
		out = append(out, mine...)
	}
	return out
}

// overlap reports whether a value may pass a form of each of two lists.
func (s *formMaker) overlap(a, b []*form) bool {
	for _, x := range a {
		for _, y := range b {
			if s.and(x, y) != nil {
				return true
			}
		}
	}
	return false
}

// conditional are the forms of if, then and else, or of their denial.
func (s *formMaker) conditional(n, cond *node, wide, not bool) []*form {
	branch := func(key string) []*form {
		v, ok := n.has(key)
		var sub *node
		if ok {
			sub = s.sub(n, key, v)
		}
		if not {
			return s.formsOfGoal(s.avoid(sub))
		}
		if sub == nil {
			return []*form{&anything}
		}
		return s.formsOf(literal{of: sub, wide: wide})
	}
	then, other := branch("then"), branch("else")
	if _, ok := n.has("then"); !ok && !wide && !not {
		if _, ok := n.has("else"); !ok {
			return []*form{&anything}
		}
	}
	yes := []*form{&anything}
	if cond != nil {
		yes = s.formsOf(literal{of: cond, wide: wide})
	}
	return slices.Concat(s.product(yes, then), s.product(s.formsOfGoal(s.avoid(cond)), other))
}

// dependency has the members, or the schema, that a member asks for by its presence.
type dependency struct {
	name  string
	names []string
	of    *node // nil: a list of names, or true
}

// dependent are the forms of one dependency: the member is absent, or what it asks for is there.
func (s *formMaker) dependent(d dependency, wide bool) []*form {
	without := s.lacking(d.name)
	if d.of == nil {
		with := []*form{&anything}
		for _, name := range d.names {
			with = s.product(with, []*form{s.needing(name)})
		}
		return append(with, without)
	}
	with := s.formsOf(literal{of: d.of, wide: wide})
	if wide {
		present := only(anObject)
		present.present = []string{d.name}
		with = s.product([]*form{present}, with)
	}
	return append(slices.Clip(with), without)
}

// needing is the form of objects with a member, and of all that is no object; it is made once.
func (s *formMaker) needing(name string) *form {
	return s.aboutMember("+"+name, func(f *form) { f.required = []string{name} })
}

// lacking is the form of objects without a member.
func (s *formMaker) lacking(name string) *form {
	return s.aboutMember("-"+name, func(f *form) { f.absent = []string{name} })
}

func (s *formMaker) aboutMember(key string, change func(f *form)) *form {
	f, ok := s.members[key]
	if !ok {
		s.b.spend(32)
		f = only(allKinds)
		f.stated, f.used = false, anObject
		change(f)
		s.atomsOf(f)
		s.members[key] = f
	}
	return f
}
