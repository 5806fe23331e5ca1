package lang

import (
	"encoding/binary"
	"slices"
	"sort"
	"unicode/utf8"
)

// key joins two numbers that are not negative. Keys order as pairs of them do, and one function sorts them, where a
// function for each kind of pair would take much code.
func key(a, b int32) uint64 { return uint64(a)<<32 | uint64(b) }

// holds reports whether sorted ranges have c.
func holds(ranges []Range, c rune) bool {
	i := sort.Search(len(ranges), func(i int) bool { return ranges[i].Hi >= c })
	return i < len(ranges) && ranges[i].Lo <= c
}

// after is the first code point of sorted ranges beyond c.
func after(ranges []Range, c rune) (rune, bool) {
	i := sort.Search(len(ranges), func(i int) bool { return ranges[i].Hi > c })
	if i == len(ranges) {
		return 0, false
	}
	return max(ranges[i].Lo, c+1), true
}

// normal sorts and joins ranges, and cuts out surrogates. It returns the same slice if that changes nothing.
func normal(ranges []Range) []Range {
	good := true
	for i, r := range ranges {
		good = good && r.Lo <= r.Hi && (r.Hi < 0xD800 || r.Lo > 0xDFFF) && r.Lo >= 0 && r.Hi <= utf8.MaxRune &&
			(i == 0 || ranges[i-1].Hi+1 < r.Lo)
	}
	if good {
		return ranges
	}
	keys := make([]uint64, 0, len(ranges)+2)
	for _, r := range ranges {
		for _, part := range scalars {
			if lo, hi := max(r.Lo, part.Lo), min(r.Hi, part.Hi); lo <= hi {
				keys = append(keys, key(lo, hi))
			}
		}
	}
	slices.Sort(keys)
	var out []Range
	for _, k := range keys {
		r := Range{rune(k >> 32), rune(k)}
		if n := len(out); n > 0 && r.Lo <= out[n-1].Hi+1 {
			out[n-1].Hi = max(out[n-1].Hi, r.Hi)
		} else {
			out = append(out, r)
		}
	}
	return out
}

// except is the code points that normal ranges do not have.
func except(ranges []Range) []Range {
	out := make([]Range, 0, len(ranges)+2)
	at := rune(0)
	add := func(to rune) {
		for _, part := range scalars {
			if lo, hi := max(at, part.Lo), min(to, part.Hi); lo <= hi {
				out = append(out, Range{lo, hi})
			}
		}
	}
	for _, r := range ranges {
		add(r.Lo - 1)
		at = r.Hi + 1
	}
	add(utf8.MaxRune)
	return out
}

// meet is the code points that both have.
func meet(a, b []Range) []Range {
	var out []Range
	for len(a) > 0 && len(b) > 0 {
		if lo, hi := max(a[0].Lo, b[0].Lo), min(a[0].Hi, b[0].Hi); lo <= hi {
			out = append(out, Range{lo, hi})
		}
		if a[0].Hi < b[0].Hi {
			a = a[1:]
		} else {
			b = b[1:]
		}
	}
	return out
}

// lists numbers lists of ranges, so that equal ones are compared and joined once. Number 0 is the empty list, number
// allScalars has all code points.
type lists struct {
	m      *Maker
	all    [][]Range
	known  map[*Range]int32 // by the first of a slice, of the length of its list
	texts  map[string]int32
	unions map[uint64]int32
	meets  map[uint64]int32
}

func newLists(m *Maker) *lists {
	l := &lists{m: m, all: [][]Range{nil}, known: map[*Range]int32{}, texts: map[string]int32{},
		unions: map[uint64]int32{}, meets: map[uint64]int32{}}
	l.id(scalars)
	return l
}

const allScalars = 1

// id is the number of a list, or -1 when no more may be spent.
func (l *lists) id(ranges []Range) int32 {
	if len(ranges) == 0 {
		return 0
	}
	if id, ok := l.known[&ranges[0]]; ok && len(l.all[id]) == len(ranges) {
		return id
	}
	if !l.m.spend(4 + len(ranges)) {
		return -1
	}
	text := make([]byte, 0, 64)
	for _, r := range ranges {
		text = binary.LittleEndian.AppendUint64(text, key(r.Lo, r.Hi))
	}
	id, ok := l.texts[string(text)]
	if !ok {
		id = int32(len(l.all))
		l.all = append(l.all, ranges)
		l.texts[string(text)] = id
	}
	l.known[&ranges[0]] = id
	return id
}

// union is the number of the list that holds two; -1 as with id.
func (l *lists) union(a, b int32) int32 {
	switch {
	case a == b || b == 0:
		return a
	case a == 0:
		return b
	}
	both := key(min(a, b), max(a, b))
	id, ok := l.unions[both]
	if !ok {
		if !l.m.spend(4 + 2*len(l.all[a]) + 2*len(l.all[b])) {
			return -1
		}
		id = l.id(normal(slices.Concat(l.all[a], l.all[b])))
		l.unions[both] = id
	}
	return id
}

// meet is the number of the list of what two have in common; -1 as with id.
func (l *lists) meet(a, b int32) int32 {
	switch {
	case a == b || b == allScalars:
		return a
	case a == allScalars:
		return b
	}
	both := key(min(a, b), max(a, b))
	id, ok := l.meets[both]
	if !ok {
		if !l.m.spend(4 + len(l.all[a]) + len(l.all[b])) {
			return -1
		}
		id = l.id(meet(l.all[a], l.all[b]))
		l.meets[both] = id
	}
	return id
}

// alphabet splits code points into parts that no list of ranges tells apart.
type alphabet struct {
	parts [][]Range
	of    [][]int32 // the parts of each list
}

// alphabet returns the alphabet of some lists, or nil when no more may be spent.
func (m *Maker) alphabet(all [][]Range) *alphabet {
	var turns []uint64 // keys of a code point at which a list begins or ends, and the list
	for i, ranges := range all {
		if !m.spend(2 * len(ranges)) {
			return nil
		}
		for _, r := range ranges {
			turns = append(turns, key(r.Lo, int32(i)), key(r.Hi+1, int32(i)))
		}
	}
	slices.Sort(turns)
	if !m.spend(len(turns) * (2 + len(all)/128)) {
		return nil
	}
	a := &alphabet{of: make([][]int32, len(all))}
	active := make([]byte, (len(all)+7)/8)
	ids := map[string]int{}
	for i := 0; i < len(turns); {
		at := rune(turns[i] >> 32)
		for ; i < len(turns) && rune(turns[i]>>32) == at; i++ {
			list := uint32(turns[i])
			active[list/8] ^= 1 << (list % 8)
		}
		any := func(b byte) bool { return b != 0 }
		if i == len(turns) || !slices.ContainsFunc(active, any) { // bound: a bit a list
			continue
		}
		id, ok := ids[string(active)]
		if !ok {
			id = len(a.parts)
			ids[string(active)] = id
			a.parts = append(a.parts, nil)
			for list := range all {
				if active[list/8]>>(list%8)&1 != 0 {
					a.of[list] = append(a.of[list], int32(id))
				}
			}
		}
		a.parts[id] = append(a.parts[id], Range{at, rune(turns[i]>>32) - 1})
	}
	for i, p := range a.parts {
		a.parts[i] = normal(p)
	}
	return a
}
