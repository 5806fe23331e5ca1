// Package lang computes with regular languages of Unicode strings. A JSON Schema constrains one string by patterns,
// formats, lengths and lists at once; as automata these join by intersection, union and complement.
package lang

import (
	"slices"
	"unicode/utf8"
)

// Range is the code points from Lo to Hi, both included.
type Range struct{ Lo, Hi rune }

// Edge leads to the state To on any code point of Ranges, which are sorted and disjoint and hold no surrogate.
type Edge struct {
	Ranges []Range
	To     int32
}

// State is a state of an automaton. A text may end in it if it is Final. No two edges lead to the same state.
type State struct {
	Edges []Edge
	Final bool
}

// Lang is a regular set of strings of Unicode scalar values: an automaton without empty moves. State 0 is the start;
// every state can be reached and can reach a final one; the empty set has no states. A Lang is immutable. Its methods
// take nil for the empty set.
type Lang struct {
	states []State
	single bool // every state has at most one edge for a code point
}

// Maker makes languages. Every method returns nil once Spend has returned false, and for an argument of nil.
type Maker struct {
	// Spend counts work before it is done, in units of about 16 bytes or some tens of nanoseconds. False ends it.
	// Without Spend work is not counted.
	Spend func(units int) bool
}

// spend counts work. Inlined, its many calls would take some kilobytes of the program.
//
//go:noinline
func (m *Maker) spend(units int) bool { return m.Spend == nil || m.Spend(units) }

// scalars are all code points that a text can have.
var scalars = []Range{{0, 0xD7FF}, {0xE000, utf8.MaxRune}}

// States are the states of l. They must not be changed.
func (l *Lang) States() []State {
	if l == nil {
		return nil
	}
	return l.states
}

// Empty reports whether l has no string.
func (l *Lang) Empty() bool { return len(l.States()) == 0 }

// isAll reports whether l is the language of all strings, in its smallest form.
func (l *Lang) isAll() bool {
	return len(l.states) == 1 && l.states[0].Final && len(l.states[0].Edges) == 1 &&
		slices.Equal(l.states[0].Edges[0].Ranges, scalars)
}

// Has reports whether s is in l. Text that is not UTF-8 is in no language.
func (l *Lang) Has(s string) bool {
	if l.Empty() || !utf8.ValidString(s) {
		return false
	}
	now, next := []int32{0}, []int32(nil)
	for _, c := range s {
		next = next[:0]
		for _, at := range now {
			for _, e := range l.states[at].Edges {
				if holds(e.Ranges, c) {
					next = append(next, e.To)
				}
			}
		}
		now, next = distinct(next), now
	}
	return slices.ContainsFunc(now, func(at int32) bool { return l.states[at].Final })
}

// List returns the strings of l in order of their code points. It is false if there are more than most.
func (l *Lang) List(most int) (all []string, finite bool) {
	if l.Empty() {
		return nil, true
	}
	if _, longest := l.lengths(); longest < 0 {
		return nil, false
	}
	w := lister{l: l, most: most}
	w.walk([]int32{0}, nil)
	if len(w.all) > most {
		return nil, false
	}
	return w.all, true
}

// lister walks sets of states: the paths of an ambiguous automaton can be far more than its strings.
type lister struct {
	l    *Lang
	most int
	all  []string
}

func (w *lister) walk(set []int32, text []byte) {
	var edges []Edge
	final := false
	for _, at := range set {
		edges = append(edges, w.l.states[at].Edges...)
		final = final || w.l.states[at].Final
	}
	if final {
		w.all = append(w.all, string(text))
	}
	at := rune(-1)
	for len(w.all) <= w.most {
		next, found := rune(utf8.MaxRune), false
		for _, e := range edges {
			if c, ok := after(e.Ranges, at); ok && c <= next {
				next, found = c, true
			}
		}
		if !found {
			return
		}
		at = next
		var to []int32
		for _, e := range edges {
			if holds(e.Ranges, at) {
				to = append(to, e.To)
			}
		}
		w.walk(distinct(to), utf8.AppendRune(text, at))
	}
}

// lengths are the code points of the shortest and the longest string of a language that is not empty; longest is -1
// if there is no bound.
func (l *Lang) lengths() (shortest, longest int) {
	near, far := l.Ends()
	return near[0], far[0]
}

// Ends returns the code points from each state to the nearest and to the farthest end; far is -1 where there is no
// bound.
func (l *Lang) Ends() (near, far []int) {
	edges := 0
	for _, s := range l.states {
		edges += len(s.Edges)
	}
	first, from := predecessors(l.states, edges)
	near, far = make([]int, len(l.states)), make([]int, len(l.states))
	left := make([]int, len(l.states)) // edges of a state to states whose far is not known
	longest := make([]int, len(l.states))
	var ends, known []int32
	for i, s := range l.states {
		near[i], far[i], left[i] = -1, -1, len(s.Edges)
		if s.Final {
			near[i], ends = 0, append(ends, int32(i))
		}
		if left[i] == 0 {
			known = append(known, int32(i))
		}
	}
	for done := 0; done < len(ends); done++ {
		at := ends[done]
		for _, p := range from[first[at]:first[at+1]] {
			if near[p] < 0 {
				near[p], ends = near[at]+1, append(ends, p)
			}
		}
	}
	for done := 0; done < len(known); done++ { // states that lead to a circle are never known
		at := known[done]
		far[at] = longest[at]
		for _, p := range from[first[at]:first[at+1]] {
			longest[p] = max(longest[p], far[at]+1)
			if left[p]--; left[p] == 0 {
				known = append(known, p)
			}
		}
	}
	return near, far
}

// distinct sorts a set of states in place.
func distinct(set []int32) []int32 {
	slices.Sort(set)
	return slices.Compact(set)
}
