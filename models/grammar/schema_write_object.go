package grammar

import (
	"fmt"
	"maps"
	"slices"

	"foretoken/models/grammar/lang"
)

// objectWriter makes the rules of an object: an automaton that goes through the named members in order, then takes
// further ones. Its states are rules.
type objectWriter struct {
	s      *ruleWriter
	o      *objectForm
	named  []slot
	others []class
	counts bool   // members are counted
	top    int    // that a count need not go beyond
	some   []some // o.some, each with its language
	comma  sequence
	rules  map[spot]int
}

// slot is a named member.
type slot struct {
	key    sequence
	of     goal
	needed bool
	meets  uint32 // of some, those that its name is for
}

// class is the further members that are asked for alike.
type class struct {
	key   sequence
	of    goal
	meets uint32
}

// spot is a state: the next named member, whether one was written, how many, and which of some are met.
type spot struct {
	next  int
	begun bool
	count int
	met   uint32
}

func (s *ruleWriter) writeObject(f *form) sequence {
	b := s.b
	o := &f.objectForm
	w := &objectWriter{s: s, o: o, comma: b.sign(","), rules: map[spot]int{}}
	if len(o.some) > 16 {
		b.fail("%snot: more than 16 schemas that are denied ask for a member; name the members", place(b.where))
		return nil
	}
	for _, g := range o.names {
		w.strings(g)
	}
	w.some = slices.Clone(o.some)
	for i, one := range w.some {
		if one.names == nil {
			w.some[i].names = w.strings(one.named)
		}
	}
	w.slots()
	w.classes()
	if b.err != nil {
		return nil
	}
	if len(w.named) == 0 && len(w.some) == 0 && len(w.others) <= 1 {
		if len(w.others) == 0 {
			if o.least > 0 {
				return nil
			}
			return b.listed("{", "}", nil, 0, 0)
		}
		return b.listed("{", "}", w.member(w.others[0].key, w.others[0].of), o.least, o.most)
	}
	needed := 0
	for _, n := range w.named {
		if n.needed {
			needed++
		}
	}
	w.top = max(o.least, o.most+1)
	w.counts = o.least > needed || o.most >= 0 && (o.most < len(w.named) || len(w.others) > 0)
	return b.join(b.text("{"), b.blank(), b.call(w.rule(spot{})))
}

// strings is the language of the names that pass a goal.
func (w *objectWriter) strings(g goal) *lang.Lang {
	l := w.s.m.All()
	if len(g) > 0 {
		l = w.s.stringsOf(g)
	}
	if l == nil && w.s.b.err == nil {
		w.s.fail(g[0].of, "", "leads back to itself by propertyNames; have it refer to another schema")
	}
	return l
}

func (w *objectWriter) member(key sequence, of goal) sequence {
	return w.s.b.short("member", w.s.b.member(key, w.s.value(of)))
}

// closed reports whether an object has the named members alone, since no schema says what others may be.
func (w *objectWriter) closed() bool {
	names := false
	for _, p := range w.o.parts {
		if p.ends {
			return false
		}
		names = names || len(p.order) > 0
	}
	return names && !w.s.o.Open
}

// slots puts the named members in order: the schemas' own, then further required ones.
func (w *objectWriter) slots() {
	s, o := w.s, w.o
	needed, gone, seen := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, name := range o.absent {
		gone[name] = true
	}
	for _, name := range slices.Concat(o.required, o.present) {
		needed[name] = true
	}
	add := func(name string) {
		if seen[name] || s.b.err != nil {
			return
		}
		if seen[name] = true; gone[name] {
			return
		}
		if len(name) > longestKey {
			s.b.fail("%sa name of %d bytes; at most %d", place(s.b.where), len(name), longestKey)
		}
		slot := slot{of: s.memberGoal(o, name), needed: needed[name]}
		if !slot.needed && s.isDead(slot.of) {
			return
		}
		slot.key = s.b.quoted(s.b.text(escaped(name)))
		for i, one := range w.some {
			if one.names.Has(name) {
				slot.meets |= 1 << i
			}
		}
		w.named = append(w.named, slot)
	}
	for _, p := range o.parts {
		for _, name := range p.order {
			add(name)
		}
	}
	for _, name := range o.required {
		add(name)
	}
	closed := w.closed()
	for _, name := range o.present {
		if !closed {
			add(name)
		} else if !seen[name] { // nothing is left to write
			s.why[s.b.where] = fmt.Sprintf("%q must be there and is not in properties; name it, or set json_open",
				rest(name))
			w.named = append(w.named, slot{of: s.avoid(nil), needed: true})
			seen[name] = true
		}
	}
	if !closed {
		for _, d := range o.denials {
			add(d.name)
		}
	}
}

// names returns the names of the members that have a place in the order.
func (w *objectWriter) names() []string {
	var all []string
	for _, p := range w.o.parts {
		all = append(all, p.order...)
	}
	for _, d := range w.o.denials {
		all = append(all, d.name)
	}
	all = slices.Concat(all, w.o.required, w.o.present, w.o.absent)
	slices.Sort(all)
	return slices.Compact(all)
}

// piece is the names that match some languages and no others.
type piece struct {
	names   *lang.Lang
	matched map[*lang.Lang]bool
}

// split divides pieces by a language.
func (s *formMaker) split(all []piece, by *lang.Lang) []piece {
	var out []piece
	for _, p := range all {
		if _, done := p.matched[by]; done {
			out = append(out, p)
			continue
		}
		for i, part := range []*lang.Lang{by, s.cachedNot(by)} {
			if l := s.m.And(p.names, part); !l.Empty() {
				matched := maps.Clone(p.matched)
				matched[by] = i == 0
				out = append(out, piece{l, matched})
			}
		}
	}
	return out
}

// pieces are the names of further members by what they match.
func (w *objectWriter) pieces(names []string) []piece {
	m := w.s.m
	base := m.Not(m.Texts(names...))
	for _, g := range w.o.names {
		base = m.And(base, w.s.stringsOf(g))
	}
	all := []piece{{base, map[*lang.Lang]bool{}}}
	for _, p := range w.o.parts {
		for _, q := range p.patterns {
			all = w.s.split(all, q.names)
		}
	}
	for _, one := range w.some {
		all = w.s.split(all, one.names)
	}
	return all
}

// classes divide the further members by what is asked of them.
func (w *objectWriter) classes() {
	s, o := w.s, w.o
	names := w.names()
	all := w.pieces(names)
	free := len(names)+len(o.names)+len(w.some) == 0 && !slices.ContainsFunc(o.parts, (*part).hasPatterns)
	closed := w.closed()
	for _, piece := range all {
		var goals []goal
		known := false
		for _, p := range o.parts {
			matched := false
			for _, q := range p.patterns {
				if piece.matched[q.names] {
					matched, goals = true, append(goals, q.of)
				}
			}
			if known = known || matched; !matched {
				goals = append(goals, p.rest)
			}
		}
		c := class{of: s.both(goals...)}
		if closed && !known || piece.names.Empty() || s.isDead(c.of) {
			continue
		}
		if c.key = s.b.str(); !free { // any name, in any spelling
			c.key = s.quotedLang(piece.names)
		}
		for i, one := range w.some {
			if piece.matched[one.names] {
				c.meets |= 1 << i
			}
		}
		w.others = append(w.others, c)
	}
}

// rule is the rule of what may follow in a state, up to the closing bracket.
func (w *objectWriter) rule(at spot) int {
	if !w.counts {
		at.count = 0
	}
	if r, ok := w.rules[at]; ok {
		return r
	}
	b := w.s.b
	r := b.anonymous("members")
	w.rules[at] = r
	if b.err != nil {
		return r
	}
	each := []sequence{}
	if at.next < len(w.named) {
		n := w.named[at.next]
		if !n.needed {
			each = append(each, b.call(w.rule(spot{at.next + 1, at.begun, at.count, at.met})))
		}
		each = append(each, w.take(at, at.next+1, n.key, n.of, n.meets)...)
	} else {
		for _, c := range w.others {
			each = append(each, w.take(at, at.next, c.key, c.of, c.meets)...)
		}
		if at.met == 1<<len(w.some)-1 && (!w.counts || at.count >= w.o.least) {
			each = append(each, closing(b, "}", at.begun))
		}
	}
	b.define(r, each...)
	return r
}

// closing is the bracket at the end. Behind the opening one, the blanks before it were read.
func closing(b *builder, bracket string, begun bool) sequence {
	if begun {
		return b.join(b.blank(), b.text(bracket))
	}
	return b.text(bracket)
}

// take writes a member and what follows: for each set of w.some that the member may meet and that are not met yet.
func (w *objectWriter) take(at spot, next int, key sequence, of goal, meets uint32) []sequence {
	if w.counts && w.o.most >= 0 && at.count >= w.o.most || key == nil {
		return nil
	}
	b := w.s.b
	to := spot{next, true, min(at.count+1, w.top), at.met}
	var out []sequence
	open := meets &^ at.met
	for set := open; ; set = (set - 1) & open {
		goals := []goal{of}
		for i, one := range w.some {
			if set>>i&1 == 1 {
				goals = append(goals, one.of)
			}
		}
		to.met = at.met | set
		s := b.join(w.member(key, w.s.both(goals...)), b.call(w.rule(to)))
		if at.begun {
			s = b.join(w.comma, s)
		}
		if out = append(out, s); set == 0 {
			return out
		}
	}
}
