package grammar

import (
	"encoding/binary"
	"slices"
)

// stack is what is left to read: the place of the next byte, and where to go on after
// the rule that it is in has ended. Equal stacks are the same value.
type stack struct {
	at    int32
	under *stack // nil: the text may end
	id    uint64 // in order of making
}

// State is what may follow a text. It does not change; states of a matcher are used by
// one goroutine at a time.
type State struct {
	tops []*stack // each before a byte, in order of their ids
	end  bool     // the text may end here
	next *[256]*State
	mask []uint32
}

// dead is the state after a byte that is not allowed.
var dead = &State{}

// CanEnd reports whether the text is whole.
func (s *State) CanEnd() bool { return s.end }

// MustEnd reports whether nothing may follow.
func (s *State) MustEnd() bool { return len(s.tops) == 0 }

// Matcher reads texts of one grammar in tokens of one vocabulary. It keeps the states it
// has met, and forgets them all when they take more than keptBytes. Its methods must
// be called from one goroutine at a time.
type Matcher struct {
	g      *Grammar
	vocab  *Vocab
	stacks map[stack]*stack
	states map[string]*State
	made   uint64
	bytes  int // that the states kept take
	most   int // before they are forgotten
	start  *State
	// scratch
	found   []*stack
	visited map[stack]bool
	key     []byte
	path    []*State
}

// keptBytes bounds what a matcher keeps.
const keptBytes = 24 << 20

// NewMatcher begins with nothing read.
func NewMatcher(g *Grammar, v *Vocab) *Matcher {
	m := &Matcher{g: g, vocab: v, visited: map[stack]bool{}, most: keptBytes}
	m.forget()
	return m
}

// Start is the state of an empty text.
func (m *Matcher) Start() *State { return m.start }

func (m *Matcher) forget() {
	m.stacks, m.states, m.bytes = map[stack]*stack{}, map[string]*State{}, 0
	end := m.call(0, nil)
	m.start = m.state(end)
}

// push is the stack of a place above another stack.
func (m *Matcher) push(at int32, under *stack) *stack {
	k := stack{at: at, under: under}
	if s, ok := m.stacks[k]; ok {
		return s
	}
	m.made++
	s := &stack{at, under, m.made}
	m.stacks[k] = s
	m.bytes += 100 // of the map and the value, about
	return s
}

// call collects where the alternatives of a rule lead before their first byte, and reports
// whether the text may end there.
func (m *Matcher) call(rule int32, under *stack) bool {
	end := false
	for _, at := range m.g.starts[rule] {
		end = m.expand(at, under) || end
	}
	return end
}

// expand collects the stacks that a place leads to before a byte. A grammar without left
// recursion comes back to a place only with the same stack, so this ends.
func (m *Matcher) expand(at int32, under *stack) bool {
	k := stack{at: at, under: under}
	if m.visited[k] {
		return false
	}
	m.visited[k] = true
	switch o := m.g.ops[at]; o.kind {
	case opBytes:
		m.found = append(m.found, m.push(at, under))
		return false
	case opCall:
		if m.g.ops[at+1].kind != opReturn { // otherwise the call replaces its caller
			under = m.push(at+1, under)
		}
		return m.call(o.arg, under)
	}
	if under == nil {
		return true
	}
	return m.expand(under.at, under.under)
}

// state is the kept state of the stacks found since the last one.
func (m *Matcher) state(end bool) *State {
	slices.SortFunc(m.found, func(a, b *stack) int {
		switch {
		case a.id < b.id:
			return -1
		case a.id > b.id:
			return 1
		}
		return 0
	})
	m.found = slices.Compact(m.found)
	m.key = m.key[:0]
	for _, s := range m.found {
		m.key = binary.LittleEndian.AppendUint64(m.key, s.id)
	}
	if end {
		m.key = append(m.key, 1)
	}
	s, ok := m.states[string(m.key)]
	if !ok {
		s = dead
		if end || len(m.found) > 0 {
			s = &State{tops: slices.Clone(m.found), end: end}
		}
		m.states[string(m.key)] = s
		m.bytes += 100 + 2*len(m.key)
	}
	m.found = m.found[:0]
	clear(m.visited)
	return s
}

// step is the state after one more byte, or dead.
func (m *Matcher) step(s *State, b byte) *State {
	if s.next == nil {
		if len(s.tops) == 0 {
			return dead
		}
		s.next = &[256]*State{}
		m.bytes += 256 * 8
	}
	if to := s.next[b]; to != nil {
		return to
	}
	end := false
	for _, top := range s.tops {
		if o := m.g.ops[top.at]; m.g.sets[o.arg].has(b) {
			end = m.expand(top.at+1, top.under) || end
		}
	}
	to := m.state(end)
	s.next[b] = to
	return to
}

// Accept is the state after a token, and whether the grammar allows it there. A token that
// ends the text leaves the state as it is.
func (m *Matcher) Accept(s *State, token int32) (*State, bool) {
	if m.vocab.ends(token) {
		return s, s.end
	}
	piece := m.vocab.piece(token)
	for _, b := range piece {
		if s = m.step(s, b); s == dead {
			return s, false
		}
	}
	if m.bytes > m.most { // s lives on, and what it leads to is made anew
		m.forget()
		for _, top := range s.tops {
			m.found = append(m.found, m.keep(top))
		}
		s = m.state(s.end)
	}
	return s, len(piece) > 0
}

// keep puts a stack from before the last forgetting among those kept.
func (m *Matcher) keep(s *stack) *stack {
	var chain []*stack
	for ; s != nil; s = s.under {
		chain = append(chain, s)
	}
	var under *stack
	for i := len(chain) - 1; i >= 0; i-- {
		under = m.push(chain[i].at, under)
	}
	return under
}
