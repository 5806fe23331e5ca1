package lang

import "slices"

// And is the intersection of two languages.
func (m *Maker) And(a, b *Lang) *Lang { return m.and(a, b, -1) }

// and is And where strings of at most longest code points are meant; longest < 0 is no bound.
func (m *Maker) and(a, b *Lang, longest int) *Lang {
	switch {
	case a == nil || b == nil || !m.spend(8):
		return nil
	case a == b || a.Empty() || b.isAll():
		return a
	case b.Empty() || a.isAll():
		return b
	}
	lists := newLists(m)
	left, right := numbered(lists, a), numbered(lists, b)
	if left == nil || right == nil {
		return nil
	}
	if b.coversLengths(lists, right, a, longest) {
		return a
	}
	if a.coversLengths(lists, left, b, longest) {
		return b
	}
	p := &product{m: m, lists: lists, width: len(b.states)}
	if size := len(a.states) * len(b.states); size <= densePairs && m.spend(size/4) {
		p.dense = make([]int32, size)
	} else {
		p.sparse = map[int]int32{}
	}
	p.id(0, 0)
	var states []State
	for done := 0; done < len(p.pairs); done++ {
		at, with := p.pairs[done].to, p.pairs[done].list
		s, ok := p.state(left[at], right[with])
		if !ok {
			return nil
		}
		s.Final = a.states[at].Final && b.states[with].Final
		states = append(states, s)
	}
	if a.single && b.single {
		return m.of(states, true)
	}
	return m.Of(states)
}

// densePairs is how many pairs of states a table may have.
const densePairs = 1 << 16

// product numbers the pairs of states of two automata.
type product struct {
	m      *Maker
	lists  *lists
	width  int
	pairs  []pair
	dense  []int32 // by pair its number plus one, or sparse
	sparse map[int]int32
	edges  []Edge
}

// id is the number of a pair; -1 when no more may be spent.
func (p *product) id(a, b int32) int32 {
	key := int(a)*p.width + int(b)
	if p.dense != nil && p.dense[key] > 0 {
		return p.dense[key] - 1
	}
	if id, ok := p.sparse[key]; ok {
		return id
	}
	if !p.m.spend(5) {
		return -1
	}
	id := int32(len(p.pairs))
	p.pairs = append(p.pairs, pair{a, b})
	if p.dense != nil {
		p.dense[key] = id + 1
	} else if p.m.spend(4) {
		p.sparse[key] = id
	} else {
		return -1
	}
	return id
}

// state has the edges that two states have in common.
func (p *product) state(left, right []pair) (s State, ok bool) {
	if !p.m.spend(2 + len(left)*len(right)/4) {
		return s, false
	}
	p.edges = p.edges[:0]
	for _, e := range left {
		for _, f := range right {
			list := p.lists.meet(e.list, f.list)
			if list == 0 {
				continue
			}
			to := int32(-1)
			if list > 0 {
				to = p.id(e.to, f.to)
			}
			if to < 0 {
				return s, false
			}
			p.edges = append(p.edges, Edge{p.lists.all[list], to})
		}
	}
	if !p.m.spend(2 * len(p.edges)) {
		return s, false
	}
	s.Edges = slices.Clone(p.edges)
	return s, true
}

// coversLengths reports whether a deterministic language has every text of the characters and the lengths that another
// one has, up to a bound of length, so that it has the other one. It looks no further than costs little, and may miss
// some.
func (l *Lang) coversLengths(lists *lists, edges [][]pair, other *Lang, bound int) bool {
	m := lists.m
	if !l.single || !m.spend(len(other.states)) {
		return false
	}
	shortest, longest := other.lengths()
	if longest < 0 || bound >= 0 && bound < longest {
		longest = bound
	}
	if longest < 0 || longest > mostLevels {
		return false
	}
	chars := other.chars(lists)
	if chars < 0 {
		return false
	}
	all := size(lists.all[chars])
	level := []int32{0}
	for length := 0; ; length++ {
		open := func(at int32) bool { return !l.states[at].Final }
		if length >= shortest && slices.ContainsFunc(level, open) { // bound: widestLevel
			return false
		}
		if length == longest {
			return true
		}
		var next []int32
		for _, at := range level {
			covered := 0
			for _, e := range edges[at] {
				if both := lists.meet(e.list, chars); both > 0 {
					covered += size(lists.all[both])
					next = append(next, e.to)
				}
			}
			if covered < all || !m.spend(2+len(edges[at])) {
				return false
			}
		}
		if level = distinct(next); len(level) > widestLevel {
			return false
		}
	}
}

const (
	mostLevels  = 4096
	widestLevel = 4
)

// chars is the number of the list of all characters that texts have; -1 when no more may be spent.
func (l *Lang) chars(lists *lists) int32 {
	all := int32(0)
	for _, s := range l.states {
		for _, e := range s.Edges {
			id := lists.id(e.Ranges)
			if id < 0 {
				return -1
			}
			if all = lists.union(all, id); all < 0 {
				return -1
			}
		}
	}
	return all
}

// size is the code points of ranges.
func size(ranges []Range) (n int) {
	for _, r := range ranges {
		n += int(r.Hi - r.Lo + 1)
	}
	return n
}
