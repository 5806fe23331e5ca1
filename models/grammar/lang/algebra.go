package lang

import (
	"encoding/binary"
	"slices"
	"strings"
)

// Of is the language of an automaton whose start is state 0. Its ranges may come in any order, and edges may lead to
// the same state.
func (m *Maker) Of(states []State) *Lang {
	l := m.of(states, false)
	if l != nil {
		l.single = !slices.ContainsFunc(l.states, State.ambiguous) // bound: each state once
	}
	return l
}

// of is Of for an automaton that is known to be deterministic or not.
func (m *Maker) of(states []State, single bool) *Lang {
	trimmed, ok := m.trim(states)
	if !ok {
		return nil
	}
	if trimmed, ok = m.reduce(trimmed); !ok {
		return nil
	}
	return &Lang{states: trimmed, single: single}
}

// ambiguous reports whether two edges have a code point in common.
func (s State) ambiguous() bool {
	if len(s.Edges) < 2 {
		return false
	}
	var all []uint64
	for _, e := range s.Edges {
		for _, r := range e.Ranges {
			all = append(all, key(r.Lo, r.Hi))
		}
	}
	slices.Sort(all)
	for i := 1; i < len(all); i++ {
		if rune(all[i]>>32) <= rune(all[i-1]) {
			return true
		}
	}
	return false
}

// None is the empty language.
func (m *Maker) None() *Lang {
	if !m.spend(1) {
		return nil
	}
	return &Lang{single: true}
}

// All is the language of all strings.
func (m *Maker) All() *Lang {
	if !m.spend(4) {
		return nil
	}
	return &Lang{states: []State{{Edges: []Edge{{scalars, 0}}, Final: true}}, single: true}
}

// Texts is the language of some strings. Bytes that are not UTF-8 are read as U+FFFD.
func (m *Maker) Texts(s ...string) *Lang {
	size := 8
	for _, t := range s {
		size += 2 + 6*len(t)
	}
	if !m.spend(size) {
		return nil
	}
	sorted := make([]string, len(s))
	for i, t := range s {
		sorted[i] = strings.ToValidUTF8(t, "\uFFFD")
	}
	slices.Sort(sorted)
	states := make([]State, 1, size/6+1)
	var path []int32 // the states along the text before
	before := []rune{}
	for _, t := range sorted {
		text := []rune(t)
		same := 0
		for same < min(len(before), len(text)) && before[same] == text[same] {
			same++
		}
		path = append(path[:0:0], path[:min(same, len(path))]...)
		at := int32(0)
		if same > 0 {
			at = path[same-1]
		}
		for _, c := range text[same:] {
			next := int32(len(states))
			states = append(states, State{})
			states[at].Edges = append(states[at].Edges, Edge{[]Range{{c, c}}, next})
			at, path = next, append(path, next)
		}
		states[at].Final, before = true, text
	}
	if len(s) == 0 {
		states = nil
	}
	return m.Of(states)
}

// Or is the union of languages.
func (m *Maker) Or(a ...*Lang) *Lang {
	size := 1
	var all *Lang
	var some []*Lang
	for _, l := range a {
		switch {
		case l == nil:
			return nil
		case l.isAll():
			all = l
		case !l.Empty():
			some = append(some, l)
			size += len(l.states)
		}
	}
	switch {
	case all != nil:
		return all
	case len(some) == 0:
		return m.None()
	case len(some) == 1:
		return some[0]
	}
	if !m.spend(4 * size) {
		return nil
	}
	states := make([]State, 1, size)
	for _, l := range some {
		base := int32(len(states))
		if states = m.append(states, l.states); states == nil {
			return nil
		}
		start := states[base]
		states[0].Final = states[0].Final || start.Final
		states[0].Edges = append(states[0].Edges, start.Edges...)
	}
	return m.settle(m.Of(states))
}

// append adds copies of the states of an automaton to others.
func (m *Maker) append(states, more []State) []State {
	base := int32(len(states))
	for _, s := range more {
		if !m.spend(2 + 2*len(s.Edges)) {
			return nil
		}
		edges := make([]Edge, len(s.Edges))
		for i, e := range s.Edges {
			edges[i] = Edge{e.Ranges, e.To + base}
		}
		states = append(states, State{edges, s.Final})
	}
	return states
}

// numbered has the edges of an automaton with the numbers of their lists, by state.
func numbered(l *lists, a *Lang) [][]pair {
	if !l.m.spend(2 * len(a.states)) {
		return nil
	}
	out := make([][]pair, len(a.states))
	for i, s := range a.states {
		if !l.m.spend(len(s.Edges)) {
			return nil
		}
		out[i] = make([]pair, len(s.Edges))
		for j, e := range s.Edges {
			id := l.id(e.Ranges)
			if id < 0 {
				return nil
			}
			out[i][j] = pair{e.To, id}
		}
	}
	return out
}

// Not is the complement of a language.
func (m *Maker) Not(a *Lang) *Lang {
	if a == nil {
		return nil
	}
	if a.Empty() {
		return m.All()
	}
	if a, _ = m.determine(a, -1); a == nil {
		return nil
	}
	sink := int32(len(a.states))
	if !m.spend(4 * (len(a.states) + 1)) {
		return nil
	}
	states := make([]State, 0, sink+1)
	for _, s := range a.states {
		var all []Range
		for _, e := range s.Edges {
			if !m.spend(2 + 2*len(e.Ranges)) {
				return nil
			}
			all = append(all, e.Ranges...)
		}
		edges := append(make([]Edge, 0, len(s.Edges)+1), s.Edges...)
		if rest := except(normal(all)); len(rest) > 0 {
			edges = append(edges, Edge{rest, sink})
		}
		states = append(states, State{edges, !s.Final})
	}
	return m.of(append(states, State{[]Edge{{scalars, sink}}, true}), true)
}

// settle makes an automaton deterministic if that does not make it much larger: readers follow one state then.
func (m *Maker) settle(a *Lang) *Lang {
	if a == nil || a.single {
		return a
	}
	d, over := m.determine(a, 4*len(a.states)+64)
	switch {
	case over || d != nil && len(d.states) > 2*len(a.states)+16:
		return a
	case d == nil:
		return nil
	}
	return d
}

// determine is a with at most one edge of a state for a code point: a state for each set of states that some text
// leads to. It gives up, and over is true, when that takes more than most states; most < 0 is no bound.
func (m *Maker) determine(a *Lang, most int) (d *Lang, over bool) {
	if a.single {
		return a, false
	}
	lists := newLists(m)
	edges := numbered(lists, a)
	if edges == nil {
		return nil, false
	}
	abc := m.alphabet(lists.all)
	if abc == nil {
		return nil, false
	}
	u := &subsets{m: m, abc: abc, edges: edges, known: map[string]int32{}, to: make([][]int32, len(abc.parts)),
		ranges: map[string][]Range{}}
	u.id([]int32{0})
	var states []State
	for done := 0; done < len(u.sets); done++ {
		if most >= 0 && len(u.sets) > most {
			return nil, true
		}
		s, ok := u.state(u.sets[done])
		if !ok {
			return nil, false
		}
		final := func(at int32) bool { return a.states[at].Final }
		s.Final = slices.ContainsFunc(u.sets[done], final) // bound: each set once
		states = append(states, s)
	}
	return m.of(states, true), false
}

// subsets finds the sets of states that texts lead to.
type subsets struct {
	m      *Maker
	abc    *alphabet
	edges  [][]pair
	sets   [][]int32
	known  map[string]int32
	to     [][]int32 // by part, where the set at hand leads
	ranges map[string][]Range
	key    []byte
}

// appendKey appends numbers to the key of a map.
func appendKey(key []byte, numbers []int32) []byte {
	for _, n := range numbers {
		key = binary.LittleEndian.AppendUint32(key, uint32(n))
	}
	return key
}

// id is the number of a set, which is sorted; -1 when no more may be spent.
func (u *subsets) id(set []int32) int32 {
	u.key = appendKey(u.key[:0], set)
	id, ok := u.known[string(u.key)]
	if !ok {
		if !u.m.spend(8 + len(set)/2) {
			return -1
		}
		id = int32(len(u.sets))
		u.known[string(u.key)] = id
		u.sets = append(u.sets, slices.Clone(set))
	}
	return id
}

// state has the edges of a set.
func (u *subsets) state(set []int32) (s State, ok bool) {
	var parts []int32
	for _, at := range set {
		for _, e := range u.edges[at] {
			if !u.m.spend(1 + len(u.abc.of[e.list])) {
				return s, false
			}
			for _, p := range u.abc.of[e.list] {
				if len(u.to[p]) == 0 {
					parts = append(parts, p)
				}
				u.to[p] = append(u.to[p], e.to)
			}
		}
	}
	slices.Sort(parts)
	var order []int32
	by := map[int32][]int32{} // the parts that lead to a set
	for _, p := range parts {
		id := u.id(distinct(u.to[p]))
		if id < 0 {
			return s, false
		}
		u.to[p] = u.to[p][:0]
		if by[id] == nil {
			order = append(order, id)
		}
		by[id] = append(by[id], p)
	}
	for _, id := range order {
		ranges := u.union(by[id])
		if ranges == nil {
			return s, false
		}
		s.Edges = append(s.Edges, Edge{ranges, id})
	}
	return s, true
}

// union has the code points of some parts; nil when no more may be spent.
func (u *subsets) union(parts []int32) []Range {
	if len(parts) == 1 {
		return u.abc.parts[parts[0]]
	}
	u.key = appendKey(u.key[:0], parts)
	ranges, ok := u.ranges[string(u.key)]
	if !ok {
		var all []Range
		for _, p := range parts {
			if !u.m.spend(2 + 2*len(u.abc.parts[p])) {
				return nil
			}
			all = append(all, u.abc.parts[p]...)
		}
		ranges = normal(all)
		u.ranges[string(u.key)] = ranges
	}
	return ranges
}
