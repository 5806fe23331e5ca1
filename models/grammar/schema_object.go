package grammar

import (
	"fmt"
	"slices"

	"foretoken/models/grammar/lang"
)

// objectForm has the parts of a form about objects.
type objectForm struct {
	parts    []*part
	required []string
	present  []string // required by what a schema denies, which does not name them for a closed object
	absent   []string
	denials  []member // what members must pass where they are present; these do not name them either
	names    []goal   // that each name passes
	some     []some
	least    int // members
	most     int // negative: no bound
}

// part holds the goals of one schema for the members of an object.
type part struct {
	named    map[string]goal
	order    []string // of the names
	patterns []patternGoal
	rest     goal
	ends     bool // rest was given
	looks    bool // unevaluatedProperties heeds it
}

type patternGoal struct {
	names *lang.Lang
	of    goal
}

type member struct {
	name string
	of   goal
}

// some asks for a member whose name is in a language, or passes a goal where there is none, and whose value passes a
// goal.
type some struct {
	names *lang.Lang
	named goal
	of    goal
}

// longestKey bounds the name of a property: the languages of other names have as many states.
const longestKey = 512

func (s *formMaker) andObjects(a, b *objectForm) objectForm {
	return objectForm{
		parts:    slices.Concat(a.parts, b.parts),
		required: slices.Concat(a.required, b.required),
		present:  slices.Concat(a.present, b.present),
		absent:   slices.Concat(a.absent, b.absent),
		denials:  slices.Concat(a.denials, b.denials),
		names:    slices.Concat(a.names, b.names),
		some:     slices.Concat(a.some, b.some),
		least:    max(a.least, b.least),
		most:     closer(a.most, b.most),
	}
}

// ownObject reads the keywords of objects.
func (s *formMaker) ownObject(n *node, f *form, wide bool) {
	o := &f.objectForm
	if p := s.partOf(n); p != nil {
		if wide {
			q := *p
			p = &q
			p.looks = true
		}
		o.parts = []*part{p}
	}
	o.least, o.most = s.count2(n, "minProperties", "maxProperties")
	names, named := n.has("propertyNames")
	if named {
		if g := s.want(s.sub(n, "propertyNames", names)); g != nil {
			o.names = []goal{g}
		}
	}
	if named || o.parts != nil || o.least > 0 || o.most >= 0 {
		f.used |= anObject
	}
}

// partOf reads properties, patternProperties and additionalProperties; nil without them.
func (s *formMaker) partOf(n *node) *part {
	if p, ok := s.parts[n]; ok {
		return p
	}
	p := &part{named: map[string]goal{}}
	any, unknown := false, false
	for _, key := range []string{"properties", "patternProperties"} {
		v, ok := n.has(key)
		if !ok {
			continue
		}
		all, ok := v.(*node)
		if !ok {
			s.fail(n, key, "want an object of schemas")
			return nil
		}
		any = true
		s.b.spend(16 * len(all.keys))
		for _, name := range all.keys {
			if len(name) > longestKey {
				s.fail(n, key, "a name of %d bytes; at most %d", len(name), longestKey)
			}
			of := s.want(s.sub(all, name, all.values[name]))
			if key == "properties" {
				p.named[name], p.order = of, append(p.order, name)
			} else if l := s.anywhere(all, name, name); l != nil {
				p.patterns = append(p.patterns, patternGoal{l, of})
			} else {
				unknown = true
			}
		}
	}
	if v, ok := n.has("additionalProperties"); ok {
		p.rest, p.ends, any = s.want(s.sub(n, "additionalProperties", v)), true, true
	}
	if unknown { // with an expression unchecked, which names are others is not known
		p.rest, p.ends = nil, true
	}
	if !any {
		p = nil
	}
	s.parts[n] = p
	return p
}

func (p *part) hasPatterns() bool { return len(p.patterns) > 0 }

// of returns the goal of a member in properties.
func (p *part) of(name string) (of goal, named bool) {
	if p != nil {
		of, named = p.named[name]
	}
	return of, named
}

// goalsOf returns the goals of a schema for the value of a member.
func (p *part) goalsOf(name string) []goal {
	of, named := p.named[name]
	goals := []goal{of}
	for _, q := range p.patterns {
		if q.names.Has(name) {
			named, goals = true, append(goals, q.of)
		}
	}
	if !named {
		return []goal{p.rest}
	}
	return goals
}

// memberGoal joins the goals of an object's form for the value of a named member.
func (s *formMaker) memberGoal(o *objectForm, name string) goal {
	var goals []goal
	for _, p := range o.parts {
		s.b.spend(2 + len(p.patterns)*(1+len(name)))
		goals = append(goals, p.goalsOf(name)...)
	}
	for _, d := range o.denials {
		if d.name == name {
			goals = append(goals, d.of)
		}
	}
	for _, g := range o.names {
		if l := s.stringsOf(g); l != nil && !l.Has(name) {
			goals = append(goals, s.avoid(nil))
		}
	}
	return s.both(goals...)
}

func (s *formMaker) noObject(f *form) string {
	o := &f.objectForm
	if o.most >= 0 && o.least > o.most {
		return fmt.Sprintf("minProperties %d is more than maxProperties %d", o.least, o.most)
	}
	gone := make(map[string]bool, len(o.absent))
	for _, name := range o.absent {
		gone[name] = true
	}
	needed := make(map[string]bool, len(o.required)+len(o.present))
	for _, names := range [][]string{o.required, o.present} {
		for _, name := range names {
			if needed[name] {
				continue
			}
			if needed[name] = true; gone[name] || s.isDead(s.memberGoal(o, name)) {
				return fmt.Sprintf("%q is required, and no value of it passes what is asked", rest(name))
			}
		}
	}
	if o.most >= 0 && len(needed) > o.most {
		return fmt.Sprintf("%d properties are required, and maxProperties is %d", len(needed), o.most)
	}
	return ""
}

// stringsOf is the language of the strings that pass a goal; nil while the goal's own forms are being made.
func (s *formMaker) stringsOf(g goal) *lang.Lang {
	f := s.known(g)
	if f.strings != nil {
		return f.strings
	}
	unsure := s.unsure
	s.unsure = false
	s.level++
	var all []*lang.Lang
	for _, form := range s.formsOfGoal(g) {
		if form.kinds&aString != 0 {
			all = append(all, s.langOfForm(form))
		}
	}
	s.level--
	if !s.unsure {
		f.strings = s.m.Or(all...)
	}
	s.unsure = unsure
	return f.strings
}

// restOfObject adds what unevaluatedProperties says.
func (s *formMaker) restOfObject(f *form, of goal) {
	p := &part{named: map[string]goal{}, rest: of, ends: true, looks: true}
	for _, q := range f.parts {
		if !q.looks {
			continue
		}
		if q.ends {
			return
		}
		for _, name := range q.order {
			if _, ok := p.named[name]; !ok {
				p.named[name], p.order = nil, append(p.order, name)
			}
		}
		for _, pattern := range q.patterns {
			p.patterns = append(p.patterns, patternGoal{names: pattern.names})
		}
	}
	f.parts = slices.Concat(f.parts, []*part{p})
	f.used |= anObject
}

// denyObject are the forms of objects that fail a keyword of a schema.
func (s *formMaker) denyObject(n *node) []*form {
	var out []*form
	object := func(change func(f *form)) {
		f := only(anObject)
		change(f)
		out = append(out, f)
	}
	p := s.partOf(n)
	required := map[string]bool{}
	for _, name := range s.required(n) {
		required[name] = true
		if of, named := p.of(name); named { // it is absent, or its value fails
			object(func(f *form) { f.denials = []member{{name, s.denied(of)}} })
		} else {
			object(func(f *form) { f.absent = []string{name} })
		}
	}
	least, most := s.count2(n, "minProperties", "maxProperties")
	if least > 0 {
		object(func(f *form) { f.most = least - 1 })
	}
	if most >= 0 {
		object(func(f *form) { f.least = most + 1 })
	}
	if p != nil {
		for _, name := range p.order {
			if !required[name] {
				object(func(f *form) {
					f.present, f.denials = []string{name}, []member{{name, s.denied(p.named[name])}}
				})
			}
		}
		for _, q := range p.patterns {
			object(func(f *form) { f.some = []some{{names: q.names, of: s.denied(q.of)}} })
		}
		if p.ends {
			object(func(f *form) { f.some = []some{{names: s.othersOf(p), of: s.denied(p.rest)}} })
		}
	}
	if v, ok := n.has("propertyNames"); ok {
		object(func(f *form) { f.some = []some{{named: s.avoid(s.sub(n, "propertyNames", v))}} })
	}
	for _, d := range s.dependents(n) {
		for _, name := range d.names {
			object(func(f *form) { f.present, f.absent = []string{d.name}, []string{name} })
		}
		if d.of != nil {
			with := only(anObject)
			with.present = []string{d.name}
			out = append(out, s.product([]*form{with}, s.formsOfGoal(s.avoid(d.of)))...)
		}
	}
	return out
}

// othersOf are the names that a schema's properties and patterns leave.
func (s *formMaker) othersOf(p *part) *lang.Lang {
	l := s.m.Not(s.m.Texts(p.order...))
	for _, q := range p.patterns {
		l = s.m.And(l, s.m.Not(q.names))
	}
	return l
}
