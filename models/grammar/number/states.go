package number

import (
	"cmp"
	"slices"

	"foretoken/models/grammar/lang"
)

// side is the numbers of one sign, by their sizes.
type side struct {
	least edge
	most  *edge // nil: none
	// The most digits before the point, after it, and in exponents from 0 and below 0; none: 0.
	wholeDigits, fractionDigits, upDigits, downDigits int
	endless                                           bool // digits before the point are not counted
	except                                            tree
	division                                          *division // nil: all numbers
}

// edge is a bound of sizes: the digits before the point, "0" for none, and those after, without zeros at the end.
type edge struct {
	whole, fraction string
	open            bool
}

// node is a state of the automaton: whether a text may end, and the nodes after each symbol; 0 is none.
type node struct {
	final bool
	to    [len(symbols)]int32
}

// symbols are the characters of numbers in the order of node.to: digits, then a point as in division.next.
const symbols = "0123456789.-+eE"

const (
	minus = point + 1 + iota
	plus
	lower
	upper
)

// sorted are the indexes of symbols in the order of code points.
var sorted = [len(symbols)]int{plus, minus, point, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, upper, lower}

// place is where a text has got to.
type place struct {
	part   part
	digits int16 // so far in this part
	// How the digits so far compare with as many of the bounds: -1, 0 or 1. After the whole part, or past the digits
	// of a bound, this holds for the number as well.
	least, most int8
	except      int32 // the node in the tree of exceptions, or off
	rest        int32 // the state of the division
}

type part int8

const (
	whole    part = iota
	zero          // a whole part of 0
	fraction      // after the point
)

// maker makes the nodes of both sides, from the ends of texts to their start: equal ones are made once.
type maker struct {
	m      *lang.Maker
	nodes  []node // from 1
	ids    map[node]int32
	side   *side
	places map[place]int32 // of the side
	loops  map[int32]int32 // by the state of the division; for both sides if they have as many decimal places
	power  int32           // the node after an e of the side
	broke  bool            // work ran out
}

const (
	placeUnits = 24
	nodeUnits  = 40
)

func (k *maker) spend(units int) bool {
	k.broke = k.broke || !spend(k.m, units)
	return !k.broke
}

// same reports whether two sides have the same sizes, written in the same way.
func (s *side) same(t *side) bool {
	if s == nil || t == nil || s.most != t.most && (s.most == nil || t.most == nil || *s.most != *t.most) {
		return s == t
	}
	return s.least == t.least && s.except == nil && t.except == nil && s.wholeDigits == t.wholeDigits &&
		s.fractionDigits == t.fractionDigits && s.upDigits == t.upDigits && s.downDigits == t.downDigits &&
		s.endless == t.endless && s.division == t.division
}

// begin returns the node at the start of a side, which is not yet one of k.nodes. Nothing follows it if s is nil.
func (k *maker) begin(s *side) node {
	if s == nil {
		return node{}
	}
	if k.side == nil || k.side.fractionDigits != s.fractionDigits {
		k.loops = map[int32]int32{}
	}
	k.side, k.places = s, make(map[place]int32, 2*FractionDigits)
	k.power = k.intern(k.exponent())
	at := place{except: s.except.root()}
	if s.most == nil {
		at.most = -1
	}
	if s.division != nil {
		at.rest = s.division.start
	}
	return k.expand(at)
}

// intern returns the id of a node, 0 if nothing follows it.
func (k *maker) intern(n node) int32 {
	if n == (node{}) {
		return 0
	}
	id, ok := k.ids[n]
	if !ok {
		if !k.spend(nodeUnits) {
			return 0
		}
		id = k.add(n)
		k.ids[n] = id
	}
	return id
}

func (k *maker) add(n node) int32 {
	k.nodes = append(k.nodes, n)
	return int32(len(k.nodes))
}

// make returns the id of the node for a place.
func (k *maker) make(at place) int32 {
	if k.side.endless && at.part == whole && int(at.digits) > len(k.side.least.whole) && at.except == off {
		return k.loop(at.rest)
	}
	id, ok := k.places[at]
	if !ok {
		if !k.spend(placeUnits) {
			return 0
		}
		id = k.intern(k.expand(at))
		k.places[at] = id
	}
	return id
}

// expand follows all symbols after a place.
func (k *maker) expand(at place) node {
	n := node{final: k.final(at)}
	last, id := place{part: -1}, int32(0)
	for digit := range byte(10) {
		to, ok := k.digit(at, digit)
		if !ok {
			continue
		}
		if to != last {
			last, id = to, k.make(to)
		}
		n.to[digit] = id
	}
	if to, ok := k.point(at); ok {
		n.to[point] = k.make(to)
	}
	if n.final {
		n.to[lower], n.to[upper] = k.power, k.power
	}
	return n
}

// against compares digits with a bound's after the digit at i: before is the comparison without that digit.
func against(before int8, bound string, i int, digit byte) int8 {
	if before != 0 {
		return before
	}
	at := byte('0')
	if i < len(bound) {
		at = bound[i]
	}
	return int8(cmp.Compare('0'+digit, at))
}

// digit returns the place after a further digit.
func (k *maker) digit(at place, digit byte) (place, bool) {
	s, i := k.side, int(at.digits)
	to := at
	to.digits++
	to.except = s.except.follow(at.except, int(digit))
	if s.division != nil {
		if to.rest = s.division.next[at.rest][digit]; to.rest == 0 {
			return place{}, false
		}
	}
	if at.part == fraction {
		to.least = against(at.least, s.least.fraction, i, digit)
		if s.most != nil {
			to.most = against(at.most, s.most.fraction, i, digit)
		}
		return to, i < s.fractionDigits && to.least >= 0 && to.most <= 0
	}
	if at.part == zero || i >= s.wholeDigits && !s.endless {
		return place{}, false
	}
	if to.least = against(at.least, s.least.whole, i, digit); i >= len(s.least.whole) {
		to.least = 1
	}
	if s.most != nil {
		to.most = against(at.most, s.most.whole, i, digit)
		if i >= len(s.most.whole) || i+1 == len(s.most.whole) && to.most > 0 {
			return place{}, false
		}
	}
	if i == 0 && digit == 0 {
		to.part = zero
	}
	return to, true
}

// compared compares the whole part, if it ends here, with the bounds' whole parts.
func (k *maker) compared(at place) (least, most int8) {
	least, most = at.least, at.most
	if int(at.digits) < len(k.side.least.whole) {
		least = -1
	}
	if k.side.most != nil && int(at.digits) < len(k.side.most.whole) {
		most = -1
	}
	return least, most
}

// point returns the place after a decimal point.
func (k *maker) point(at place) (place, bool) {
	if at.part == fraction || at.digits == 0 || k.side.fractionDigits == 0 {
		return place{}, false
	}
	to := place{part: fraction, except: k.side.except.follow(at.except, point)}
	if k.side.division != nil {
		if to.rest = k.side.division.next[at.rest][point]; to.rest == 0 {
			return place{}, false
		}
	}
	to.least, to.most = k.compared(at)
	return to, to.least >= 0 && to.most <= 0
}

// final reports whether the text may end.
func (k *maker) final(at place) bool {
	s := k.side
	if at.digits == 0 || s.except.ends(at.except) || s.division != nil && !s.division.good[at.rest] {
		return false
	}
	least, most, places := at.least, at.most, int(at.digits)
	if at.part != fraction {
		least, most = k.compared(at)
		places = 0
	}
	return (least > 0 || least == 0 && places >= len(s.least.fraction) && !s.least.open) &&
		(most < 0 || most == 0 && (places < len(s.most.fraction) || !s.most.open))
}

// exponent returns the node after the e of an exponent; nothing follows it if none can be written.
func (k *maker) exponent() node {
	n := k.count(k.side.upDigits)
	n.to[plus] = k.intern(n)
	n.to[minus] = k.intern(k.count(k.side.downDigits))
	return n
}

// count returns the node before one to `most` digits.
func (k *maker) count(most int) node {
	n := node{final: true}
	for left := range most {
		id := k.intern(n)
		n = node{final: left+1 < most}
		for digit := range 10 {
			n.to[digit] = id
		}
	}
	n.final = false
	return n
}

// loop returns the node within the whole part from where on digits are not counted.
func (k *maker) loop(rest int32) int32 {
	d := k.side.division
	if len(k.loops) == 0 {
		if !k.spend(len(d.whole) * (placeUnits + nodeUnits)) {
			return 0
		}
		for _, state := range d.whole {
			k.loops[state] = k.add(node{final: d.good[state]})
		}
		at := place{part: whole, digits: int16(len(k.side.least.whole)) + 1, least: 1, most: -1, except: off}
		for _, state := range d.whole {
			at.rest = state
			n := node{final: d.good[state]}
			for digit := range 10 {
				n.to[digit] = k.loops[d.next[state][digit]]
			}
			if to, ok := k.point(at); ok {
				n.to[point] = k.make(to)
			}
			k.nodes[k.loops[state]-1] = n
		}
	}
	return k.loops[rest]
}

// states returns the automaton that starts with the last node.
func (k *maker) states() []lang.State {
	last := int32(len(k.nodes))
	out := make([]lang.State, last)
	edges, ranges := make([]lang.Edge, 0, 2*last), make([]lang.Range, 0, 2*last)
	for i := range out {
		n := &k.nodes[int(last)-1-i]
		out[i].Final = n.final
		first := len(edges)
		for at, symbol := range sorted {
			to := n.to[symbol]
			if to == 0 || seen(n, sorted[:at], to) {
				continue
			}
			begin := len(ranges)
			for _, symbol := range sorted[at:] {
				if c := rune(symbols[symbol]); n.to[symbol] == to {
					if end := len(ranges) - 1; end >= begin && ranges[end].Hi == c-1 {
						ranges[end].Hi = c
					} else {
						ranges = append(ranges, lang.Range{Lo: c, Hi: c})
					}
				}
			}
			edges = append(edges, lang.Edge{Ranges: slices.Clip(ranges[begin:]), To: last - to})
		}
		out[i].Edges = slices.Clip(edges[first:])
	}
	return out
}

// seen reports whether a symbol before leads to the same node.
func seen(n *node, before []int, to int32) bool {
	return slices.ContainsFunc(before, func(symbol int) bool { return n.to[symbol] == to }) // bound: the symbols
}
