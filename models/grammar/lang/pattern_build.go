package lang

import (
	"encoding/binary"
	"errors"
	"slices"
)

// Pattern is the language of the strings in which an expression of ECMA-262 (2025, section 22.2.1) matches somewhere,
// as JSON Schema reads it: with the flag u. Escapes of ASCII characters that are neither letters nor digits, and ], {
// and } by themselves, are taken too. Lookaheads, lookbehinds, ^, $ and \b may stand anywhere, in loops as well. It
// takes no references back to groups, and inside lookbehinds no lookaheads.
//
// An error names what is wrong or not supported, and what to write instead. Language and error are nil when no more
// may be spent.
func (m *Maker) Pattern(source string) (*Lang, error) {
	return m.PatternIn(m.All(), -1, source)
}

// PatternIn is the intersection of a language, of which the strings of at most longest code points are meant, and that
// of Pattern; longest < 0 is no bound. It may cost much less than making both and then And, since an expression is made
// of parts that the other language may imply.
func (m *Maker) PatternIn(a *Lang, longest int, source string) (*Lang, error) {
	if a == nil || !m.spend(16+2*len(source)) {
		return nil, nil
	}
	e, err := m.parse(source, longest)
	if errors.Is(err, errSpent) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	b := &builder{m: m, longest: longest, looks: e.looks, trackers: make([]*Lang, len(e.looks)), lists: newLists(m),
		duties: map[string]int32{}, ahead: map[[2]int32]int32{}}
	b.duty(nil)
	for i, l := range e.looks {
		if l.behind && !b.track(i) {
			return nil, nil
		}
	}
	return b.conjunction(a, e.root, b.beginning()), nil
}

// conjunction is the intersection of a language and an expression's. Each look ahead at the beginning of a text becomes
// a separate language, since products of small automata take less than one large automaton.
func (b *builder) conjunction(a *Lang, root *node, beginning int32) *Lang {
	rest := root.parts
	var ahead []int
	if root.op == opCat && len(rest) > 1 && b.isBeginning(rest[0]) {
		for rest = rest[1:]; len(rest) > 0 && rest[0].op == opLook && !b.looks[rest[0].look].behind; rest = rest[1:] {
			ahead = append(ahead, rest[0].look)
		}
		root = &node{op: opCat, parts: append([]*node{root.parts[0]}, rest...)}
	}
	all := b.m.and(a, b.m.settle(b.machine(root, true, true, beginning)), b.longest)
	for _, id := range ahead {
		duty := b.dutyOf(id, beginning)
		if duty < 0 {
			return nil
		}
		all = b.m.and(all, b.langs[duty], b.longest)
	}
	return b.m.settle(all)
}

// isBeginning reports whether a node is ^, without the flag m.
func (b *builder) isBeginning(n *node) bool {
	if n.op != opLook {
		return false
	}
	l := b.looks[n.look]
	return l.behind && l.not && l.body.op == opSet && slices.Equal(l.body.ranges, scalars)
}

// builder makes automata of expressions. A look at what is before a place is decided by trackers, automata that run
// along with the text from its beginning: their states together are a moment. A look at what follows becomes a duty,
// an automaton that runs along from there and must end well. So a state of the result is a moment, a place in the
// expression and a set of states of duties, all of which hold.
type builder struct {
	m        *Maker
	longest  int // of the strings that are meant
	looks    []look
	trackers []*Lang // of each look behind, deterministic: the texts after which it holds, without its not
	lists    *lists
	moments  map[string]int32
	states   [][]int32 // of each moment the trackers' states, -1 for one that no text leads on
	steps    [][]pair  // of each moment where it leads
	duties   map[string]int32
	dutySets [][]uint64 // keys of an index of langs and a state of it
	langs    []*Lang
	edges    [][][]pair // of langs
	ahead    map[[2]int32]int32
	key      []byte
}

// untracked is the moment of places from which nothing looks back.
const untracked = -1

// beginning is the moment before a text, the first that the trackers made so far have.
func (b *builder) beginning() int32 {
	b.steps, b.states, b.moments = nil, nil, map[string]int32{}
	states := make([]int32, len(b.looks))
	for i, t := range b.trackers {
		if t.Empty() {
			states[i] = -1
		}
	}
	return b.moment(states)
}

// track makes the tracker of a look behind. Looks inside it have theirs already.
func (b *builder) track(i int) bool {
	l := b.machine(b.looks[i].body, true, false, b.beginning())
	if l == nil {
		return false
	}
	l, _ = b.m.determine(l, -1)
	b.trackers[i] = l
	return l != nil
}

// moment is the number of some states of trackers.
func (b *builder) moment(states []int32) int32 {
	b.key = appendKey(b.key[:0], states)
	id, ok := b.moments[string(b.key)]
	if !ok {
		id = int32(len(b.states))
		b.moments[string(b.key)] = id
		b.states, b.steps = append(b.states, states), append(b.steps, nil)
	}
	return id
}

// step lists the moments that may follow one, with the number of their ranges.
func (b *builder) step(moment int32) ([]pair, bool) {
	if moment == untracked {
		return []pair{{untracked, allScalars}}, true
	}
	if b.steps[moment] != nil {
		return b.steps[moment], true
	}
	type half struct {
		states []int32
		list   int32
	}
	all := []half{{make([]int32, len(b.looks)), allScalars}}
	for i, t := range b.trackers {
		at := b.states[moment][i]
		var edges []Edge
		if t != nil && at >= 0 {
			edges = t.states[at].Edges
		}
		var more []half
		var used []Range
		add := func(ranges []Range, to int32) bool {
			id := b.lists.id(ranges)
			for _, h := range all {
				list := int32(-1)
				if id >= 0 && b.m.spend(4+len(h.states)/2) {
					list = b.lists.meet(h.list, id)
				}
				if list < 0 {
					return false
				}
				if list > 0 {
					states := slices.Clone(h.states)
					states[i] = to
					more = append(more, half{states, list})
				}
			}
			return true
		}
		for _, e := range edges {
			used = append(used, e.Ranges...)
			if !add(e.Ranges, e.To) {
				return nil, false
			}
		}
		if !add(except(normal(used)), -1) {
			return nil, false
		}
		all = more
	}
	next := make([]pair, len(all))
	for i, h := range all {
		next[i] = pair{b.moment(h.states), h.list}
	}
	b.steps[moment] = next
	return next, true
}

// duty is the number of a set of states of duties; -1 when no more may be spent.
func (b *builder) duty(set []uint64) int32 {
	b.key = b.key[:0]
	for _, d := range set {
		b.key = binary.LittleEndian.AppendUint64(b.key, d)
	}
	id, ok := b.duties[string(b.key)]
	if !ok {
		if !b.m.spend(8 + len(set)) {
			return -1
		}
		id = int32(len(b.dutySets))
		b.duties[string(b.key)] = id
		b.dutySets = append(b.dutySets, set)
	}
	return id
}

// with adds a state of a duty to a set. A state from which every text ends well is no duty.
func (b *builder) with(set []uint64, lang, state int32) []uint64 {
	s := b.langs[lang].states[state]
	if s.Final && len(s.Edges) == 1 && s.Edges[0].To == state && slices.Equal(s.Edges[0].Ranges, scalars) {
		return set
	}
	d := key(lang, state)
	if slices.Contains(set, d) { // bound: duties at a place, few
		return set
	}
	set = append(append([]uint64(nil), set...), d)
	slices.Sort(set)
	return set
}

// dutyOf is the index of the language of what may follow a place where a look ahead holds; -1 when no more may be
// spent.
func (b *builder) dutyOf(id int, moment int32) int32 {
	l := b.looks[id]
	if !l.looksBehind {
		moment = untracked
	}
	key := [2]int32{int32(id), moment}
	lang, ok := b.ahead[key]
	if ok {
		return lang
	}
	rest := b.m.settle(b.machine(l.body, false, true, moment))
	if l.not {
		rest = b.m.Not(rest)
	}
	if rest == nil {
		return -1
	}
	edges := numbered(b.lists, rest)
	if edges == nil {
		return -1
	}
	lang = int32(len(b.langs))
	b.langs, b.edges, b.ahead[key] = append(b.langs, rest), append(b.edges, edges), lang
	return lang
}
