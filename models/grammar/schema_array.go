package grammar

import (
	"fmt"
	"slices"
)

// longest returns the most items for which a tuple states separate goals.
func (f *form) longest() int {
	n := 0
	for _, t := range f.tuples {
		n = max(n, len(t.first))
	}
	return n
}

// itemGoal joins the goals of a form for the item at a place.
func (s *formMaker) itemGoal(f *form, i int) goal {
	goals := make([]goal, 0, len(f.tuples))
	for k := range f.tuples {
		goals = append(goals, f.tuples[k].goalAt(i))
	}
	s.b.spend(1 + len(goals))
	return s.both(goals...)
}

func (s *ruleWriter) writeArray(f *form) sequence {
	if f.many >= 0 && f.few > f.many {
		return nil
	}
	unique := f.unique != nil && (f.many < 0 || f.many > 1)
	if unique || len(f.counted) > 0 {
		return s.countedArray(f, unique)
	}
	b, first := s.b, f.longest()
	if first == 0 {
		item := s.itemGoal(f, 0)
		if f.many == 0 || f.few == 0 && s.isDead(item) {
			return b.listed("[", "]", nil, 0, 0)
		}
		return b.listed("[", "]", s.value(item), f.few, f.many)
	}
	// The items of the tuples one by one, from the last: each may be left out with all after it.
	comma := b.sign(",")
	var tail sequence
	rest := s.itemGoal(f, first)
	if (f.many < 0 || f.many > first) && !s.isDead(rest) {
		more := f.many
		if more > 0 {
			more -= first
		}
		tail = b.repeat(b.join(comma, s.value(rest)), max(f.few-first, 0), more)
	} else if f.few > first {
		return nil
	}
	last := first
	if f.many >= 0 {
		last = min(last, f.many)
	}
	for i := last - 1; i >= 0 && b.err == nil; i-- {
		tail = b.join(s.value(s.itemGoal(f, i)), tail)
		if i > 0 {
			tail = b.join(comma, tail)
		}
		if f.few <= i {
			tail = b.optional(tail)
		} else {
			tail = b.short("(…)", tail) // what comes before is a copy of it and more
		}
	}
	return b.join(b.text("["), b.blank(), tail, b.blank(), b.text("]"))
}

// arrayWriter makes the rules of an array whose items are counted or must differ: an automaton whose states are
// rules.
type arrayWriter struct {
	s      *ruleWriter
	f      *form
	last   int // the place from which on all are alike
	comma  sequence
	rules  map[string]int
	values []string // where items must differ: all that they can be, written
}

// mostUnique is the most values of items that must differ.
const mostUnique = 8

func (s *ruleWriter) countedArray(f *form, unique bool) sequence {
	w := &arrayWriter{s: s, f: f, comma: s.b.sign(","), rules: map[string]int{}}
	w.last = max(f.longest(), f.few, f.many+1, 1)
	for _, c := range f.counted {
		w.last = max(w.last, c.from)
	}
	if unique && !w.unique() {
		s.refuse(f.unique, "uniqueItems", "uniqueItems", "uniqueItems is held to where the items have at most %d "+
			"values, by enum or the like, or maxItems is 1; name such items, leave it out, or name it in unchecked",
			mostUnique)
		if s.b.err != nil {
			return nil
		}
		if w.values = nil; len(f.counted) == 0 {
			g := *f
			g.unique = nil
			return s.writeArray(&g)
		}
	}
	if len(f.counted) > 8 {
		s.b.fail("%scontains: more than 8 schemas count the items of an array; join them", place(s.b.where))
		return nil
	}
	return s.b.join(s.b.text("["), s.b.blank(), s.b.call(w.rule(0, make([]int, len(f.counted)), 0)))
}

// unique lists the values that the items can have, if they are few.
func (w *arrayWriter) unique() bool {
	seen := map[string]bool{}
	for i := range w.f.longest() + 1 {
		all, ok := w.s.few(w.s.itemGoal(w.f, i))
		if !ok {
			return false
		}
		for _, v := range all {
			if !seen[v] {
				seen[v], w.values = true, append(w.values, v)
			}
		}
	}
	return len(w.values) <= mostUnique
}

// few lists the values that pass a goal, written, if there are at most mostUnique and none is a list or an object.
func (s *formMaker) few(g goal) ([]string, bool) {
	if len(g) == 0 {
		return nil, false
	}
	var out []string
	for _, f := range s.formsOfGoal(g) {
		if f.kinds&(anArray|anObject) != 0 {
			return nil, false
		}
		for kind, text := range map[kinds]string{aNull: "null", aTrue: "true", aFalse: "false"} {
			if f.kinds&kind != 0 {
				out = append(out, text)
			}
		}
		if f.kinds&aNumber != 0 {
			all, ok := f.numbers.List(mostUnique)
			if !ok {
				return nil, false
			}
			for _, n := range all {
				out = append(out, n.String())
			}
		}
		if f.kinds&aString != 0 {
			all, ok := s.langOfForm(f).List(mostUnique)
			if !ok {
				return nil, false
			}
			for _, text := range all {
				out = append(out, Quoted(text))
			}
		}
	}
	slices.Sort(out)
	out = slices.Compact(out)
	return out, len(out) <= mostUnique
}

// rule is the rule of what follows i items, of which so many passed each of f.counted and used values are taken.
func (w *arrayWriter) rule(i int, counts []int, used uint) int {
	i = min(i, w.last)
	key := fmt.Sprint(i, used, counts)
	if r, ok := w.rules[key]; ok {
		return r
	}
	b := w.s.b
	r := b.anonymous("items")
	w.rules[key] = r
	if b.err != nil {
		return r
	}
	each := []sequence{}
	done := i >= w.f.few
	for k, c := range w.f.counted {
		done = done && counts[k] >= c.least
	}
	if done {
		each = append(each, closing(b, "]", i > 0))
	}
	if w.f.many < 0 || i < w.f.many {
		each = append(each, w.items(i, counts, used)...)
	}
	b.define(r, each...)
	return r
}

// items are the ways to go on with an item: for each set of f.counted, it passes those. Of the others it fails those
// that have an upper bound.
func (w *arrayWriter) items(i int, counts []int, used uint) []sequence {
	b, base := w.s.b, w.s.itemGoal(w.f, i)
	var out []sequence
	for set := range 1 << len(w.f.counted) {
		goals, next, ok := []goal{base}, slices.Clone(counts), true
		for k, c := range w.f.counted {
			open := i >= c.from && (c.most >= 0 || counts[k] < c.least)
			switch passes := set>>k&1 == 1; {
			case passes && !open:
				ok = false
			case passes:
				goals, next[k] = append(goals, c.of), counts[k]+1
				ok = ok && (c.most < 0 || next[k] <= c.most)
			case open && c.most >= 0:
				goals = append(goals, w.s.denied(c.of))
			}
		}
		if !ok || b.err != nil {
			continue
		}
		g := w.s.both(goals...)
		if w.values == nil {
			if !w.s.isDead(g) {
				out = append(out, w.item(i, w.s.value(g), next, used))
			}
			continue
		}
		all, _ := w.s.few(g)
		for _, text := range all {
			if at := slices.Index(w.values, text); used>>at&1 == 0 { // bound: mostUnique
				out = append(out, w.item(i, b.text(text), next, used|1<<at))
			}
		}
	}
	return out
}

func (w *arrayWriter) item(i int, value sequence, counts []int, used uint) sequence {
	b := w.s.b
	q := b.join(value, b.call(w.rule(i+1, counts, used)))
	if i > 0 {
		q = b.join(w.comma, q)
	}
	return q
}
