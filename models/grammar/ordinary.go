package grammar

import (
	"slices"
	"sort"
)

// Most tokens are text that may stand in any string of JSON: ordinary characters, which need no escape. Inside of a
// string that takes any of them, these tokens are allowed together, and only the others are tried one by one.

// span is a range of bytes of an ordinary character, and the part of the character that follows; 0: none.
type span struct {
	lo, hi byte
	to     uint8
}

// characters has by part the bytes that ordinary characters may go on with: UTF-8 (RFC 3629, section 4) without the
// control characters of ASCII, the quotation mark and the backslash. Part 0 is before a character.
var characters = [...][]span{
	{{' ', '!', 0}, {'#', '[', 0}, {']', '~', 0}, {0xc2, 0xdf, 1}, {0xe0, 0xe0, 4}, {0xe1, 0xec, 2}, {0xed, 0xed, 5},
		{0xee, 0xef, 2}, {0xf0, 0xf0, 6}, {0xf1, 0xf3, 3}, {0xf4, 0xf4, 7}},
	{{0x80, 0xbf, 0}},
	{{0x80, 0xbf, 1}},
	{{0x80, 0xbf, 2}},
	{{0xa0, 0xbf, 1}},
	{{0x80, 0x9f, 1}},
	{{0x90, 0xbf, 2}},
	{{0x80, 0x8f, 2}},
}

// noPart is that after bytes of no ordinary character.
const noPart = uint8(len(characters))

// partAfter returns the part of a character after one more byte.
func partAfter(part uint8, b byte) uint8 {
	if part != noPart {
		for _, s := range characters[part] {
			if b >= s.lo && b <= s.hi {
				return s.to
			}
		}
	}
	return noPart
}

const (
	// longestRun is how far a string with a bound of length is followed before its mask is known.
	longestRun = 16
	endless    = longestRun + 1
)

// known is the answer to a question.
type known uint8

const (
	unknown known = iota
	yes
	no
)

func answer(b bool) known {
	if b {
		return yes
	}
	return no
}

// ordinaryToken is a token of ordinary characters.
type ordinaryToken struct {
	id, node int32 // the node that it ends at
	run      uint8 // characters; endless: more than longestRun
}

// separate finds the ordinary tokens, and makes the tries of the long ones and of the others.
func (v *Vocab) separate() {
	type read struct {
		node      int32
		part, run uint8
	}
	path := make([]read, v.deep+1) // behind so many bytes
	for i := range v.all.nodes {
		n := &v.all.nodes[i]
		now := path[n.depth]
		now.node, now.part = int32(i), partAfter(now.part, n.b)
		if now.part == 0 {
			now.run = min(now.run+1, endless)
		}
		path[n.depth+1] = now
		for _, id := range v.all.at(i) {
			if now.part == 0 {
				v.ordinary = append(v.ordinary, ordinaryToken{id, int32(i), now.run})
				if now.run == endless {
					v.long.add(id, v.pieces[id])
				}
				continue
			}
			for depth := v.others.add(id, v.pieces[id]); depth < len(v.pieces[id]); depth++ {
				v.inAll = append(v.inAll, path[depth+1].node)
			}
		}
	}
	v.long.end(0)
	v.others.end(0)
}

// upTo returns the mask of the ordinary tokens of at most so many characters.
func (v *Vocab) upTo(run int) []uint32 {
	v.making.Lock()
	defer v.making.Unlock()
	if v.short[run] == nil {
		mask := make([]uint32, v.words)
		for _, t := range v.ordinary {
			if int(t.run) <= run {
				mask[t.id/32] |= 1 << (t.id % 32)
			}
		}
		v.short[run] = mask
	}
	return v.short[run]
}

// firstsOf returns the first byte of each class in a span.
func (g *Grammar) firstsOf(s span) (all []byte) {
	var seen [256]bool
	for b := int(s.lo); b <= int(s.hi); b++ {
		if class := g.class[b]; !seen[class] {
			seen[class] = true
			all = append(all, byte(b))
		}
	}
	return all
}

// each calls found with the states to which the rest of an ordinary character may lead, until found returns false.
func (m *Matcher) each(s *State, part uint8, found func(*State) bool) bool {
	var last *State
	for i, span := range characters[part] {
		for _, b := range m.g.firsts[part][i] {
			next := m.step(s, b)
			if m.err != nil {
				return false
			}
			if span.to != 0 && next != dead {
				if !m.each(next, span.to, found) {
					return false
				}
			} else if next != last {
				if last = next; !found(next) {
					return false
				}
			}
		}
	}
	return true
}

// holds reports whether a state allows all that another one does, as far as its stacks show.
func (s *State) holds(other *State) bool {
	if s == other {
		return true
	}
	i := 0
	for _, top := range other.tops {
		for i < len(s.tops) && s.tops[i].at < top.at {
			i++
		}
		if i == len(s.tops) || s.tops[i] != top && !s.tops[i].holds(top) {
			return false
		}
	}
	return true
}

func (s *stack) holds(other *stack) bool {
	if s.at != other.at {
		return false
	}
	i := 0
	for _, u := range other.under {
		for i < len(s.under) && s.under[i].id < u.id {
			i++
		}
		if i == len(s.under) || s.under[i] != u {
			return false
		}
	}
	return true
}

// unnamed is a character for private use, which expressions and names leave out.
const unnamed = "\uf8ff"

// rest returns the state that unnamed characters lead to and stay in, or nil.
func (m *Matcher) rest(s *State) *State {
	for range 3 {
		next := s
		for i := range len(unnamed) {
			next = m.step(next, unnamed[i])
		}
		switch next {
		case dead:
			return nil
		case s:
			return s
		}
		s = next
	}
	return nil
}

// loops reports whether the state holds itself after any ordinary character, as that before any character of a string
// does, and that before an expression which may begin anywhere. Then any number of them is allowed.
func (m *Matcher) loops(s *State) bool {
	if s.loops == unknown {
		s.loops = answer(m.each(s, 0, func(next *State) bool { return next.holds(s) }))
	}
	return s.loops == yes
}

// free reports whether a state takes any number of ordinary characters, as far as one of them shows.
func (m *Matcher) free(s *State) bool {
	if s.free == unknown && s != dead {
		rest := m.rest(s)
		s.free = answer(rest != nil && m.loops(rest) &&
			(s.holds(rest) || m.each(s, 0, func(next *State) bool { return next.holds(rest) })))
	}
	return s.free == yes
}

// widestRun bounds the states that run follows side by side.
const widestRun = 16

// run returns how many ordinary characters a state takes, whichever they are: endless for any number, longestRun for at
// least so many. It is not sure where some of the next ones are allowed and some are not, or at widestRun.
func (m *Matcher) run(s *State) (n int, sure bool) {
	if m.free(s) {
		return endless, m.err == nil
	}
	rest := m.rest(s)
	if rest != nil && !m.loops(rest) {
		rest = nil
	}
	m.runs++
	met := append(m.met[:0], s) // the states after up to n characters, but for those that hold rest
	loose := false              // some lead back, or hold rest
	for from := 0; n < longestRun && len(met)-from <= widestRun; n++ {
		to, died, lived := len(met), false, false
		if from == to {
			for _, s := range met {
				s.free = yes
			}
			return endless, true
		}
		for ; from < to; from++ {
			met[from].run = m.runs
			if !m.each(met[from], 0, func(next *State) bool {
				if next == dead {
					died = true
					return !lived
				}
				lived = true
				if next.run == m.runs || rest != nil && next.holds(rest) {
					loose = true
				} else {
					met = append(met, next)
				}
				next.run = m.runs
				return !died
			}) {
				return n, false
			}
		}
		if m.met = met; died {
			return n, !loose
		}
	}
	return n, n == longestRun
}

// maskLarge sets the bits of the tokens of a large vocabulary.
func (m *Matcher) maskLarge(s *State, mask []uint32) {
	v := m.vocab
	run, sure := m.run(s)
	if !sure {
		m.leap(mask)
		return
	}
	for i, word := range v.upTo(run) {
		mask[i] |= word
	}
	m.walk(&v.others, 0, len(v.others.nodes), mask)
	if run == longestRun {
		m.walk(&v.long, 0, len(v.long.nodes), mask)
	}
}

// leastLeap is the number of nodes below a node from which on leap asks for ordinary characters.
const leastLeap = 32

// leap sets the bits of all tokens. It skips the ordinary tokens below a node whose state takes any ordinary character.
func (m *Matcher) leap(mask []uint32) {
	v := m.vocab
	m.part = slices.Grow(m.part[:0], v.deep+1)[:v.deep+1]
	m.part[0] = 0
	for i := 0; i < len(v.all.nodes); {
		n := &v.all.nodes[i]
		to := m.path[n.depth].next[m.g.class[n.b]]
		if to == nil {
			if to = m.read(m.path[n.depth], n.b); m.err != nil {
				return
			}
		}
		if to == dead {
			i = int(n.after)
			continue
		}
		m.path[n.depth+1] = to
		for _, id := range v.all.at(i) {
			mask[id/32] |= 1 << (id % 32)
		}
		i++
		if int(n.after)-i < leastLeap {
			continue
		}
		part := partAfter(m.part[n.depth], n.b)
		if m.part[n.depth+1] = part; part == noPart {
			continue
		}
		if part == 0 && m.free(to) || part != 0 && m.each(to, part, m.free) {
			m.below(int32(i), n.after, mask)
			i = int(n.after)
		}
	}
}

// below sets the bits of the tokens of a part of the trie: all ordinary ones, and the others that the grammar allows.
func (m *Matcher) below(from, to int32, mask []uint32) {
	v := m.vocab
	first := sort.Search(len(v.ordinary), func(i int) bool { return v.ordinary[i].node >= from })
	for _, t := range v.ordinary[first:] {
		if t.node >= to {
			break
		}
		mask[t.id/32] |= 1 << (t.id % 32)
	}
	begin, _ := slices.BinarySearch(v.inAll, from)
	end, _ := slices.BinarySearch(v.inAll, to)
	m.walk(&v.others, begin, end, mask)
}
