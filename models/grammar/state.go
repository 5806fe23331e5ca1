package grammar

import (
	"context"
	"encoding/binary"
	"math/bits"
	"slices"
)

// stack is the position of the next byte and the positions to return to when its rule ends. There may be several: a
// rule may have several callers, and the stacks that a step brings to one position are merged into one, a
// graph-structured stack (Tomita 1985). Without merging, an ambiguous grammar would have more stacks with every
// byte. Equal stacks are the same value.
type stack struct {
	at    int32
	under []*stack // in order of their ids; bottom: the text may end
	id    uint64   // in order of making; 0: of a call in this step, whose callers are not all known
	// Of a call in this step: whether its rule ended within the step, and the stack it becomes.
	ended bool
	made  *stack
}

// bottom is the stack below the start symbol.
var bottom = &stack{id: 1}

// item is a place and one of the stacks to go on with.
type item struct {
	at    int32
	under *stack
}

// State is the set of continuations of a text. It is immutable; one goroutine at a time uses the states of a matcher.
type State struct {
	tops []*stack // each before a byte, in order of their places
	end  bool     // the text may end here
	next []*State // by the class of the byte; the matcher's unread before the first one
	mask []uint32
	// See the methods of Matcher.
	loops, free known
	run         uint64 // the last one that met it
}

// dead is the state after a byte that is not allowed, and after any more.
var dead = func() *State {
	s := &State{}
	s.next = slices.Repeat([]*State{s}, 256)
	return s
}()

// CanEnd reports whether the text is complete.
func (s *State) CanEnd() bool { return s.end }

// MustEnd reports whether nothing may follow.
func (s *State) MustEnd() bool { return len(s.tops) == 0 }

// Matcher reads texts of one grammar in tokens of one vocabulary. It keeps the states it has met, and forgets them
// all when they take more than keptBytes. Its methods must be called from one goroutine at a time.
type Matcher struct {
	g      *Grammar
	vocab  *Vocab
	single map[item]*stack   // stacks with one to go on with
	stacks map[string]*stack // those with several
	states map[string]*State
	alone  map[item]*State // see reached
	last   uint64          // id
	bytes  int             // that the states kept take
	most   int             // before they are forgotten
	start  *State
	unread []*State // nil for each class
	budget budget
	err    error
	// Of the step under way.
	visited map[item]bool
	calls   map[int32]*stack // by the place after the call
	found   []item           // places before a byte
	ends    bool             // the text may end
	// scratch
	spare []*stack // for calls, the first len(calls) of them in use
	under []*stack
	tops  []*stack
	key   []byte
	path  []*State
	ways  []item
	met   []*State
	runs  uint64
	part  []uint8 // along the path, which part of a character is read
}

// keptBytes bounds the memory of a matcher's cache.
const keptBytes = 24 << 20

// NewMatcher begins with nothing read. Once ctx ends, the matcher allows nothing, see [Matcher.Err].
func NewMatcher(ctx context.Context, g *Grammar, v *Vocab) *Matcher {
	m := &Matcher{g: g, vocab: v, visited: map[item]bool{}, calls: map[int32]*stack{}, last: bottom.id, most: keptBytes,
		unread: make([]*State, g.classes), budget: budget{ctx: ctx, left: matchUnits}}
	m.forget()
	return m
}

// Start is the state of an empty text.
func (m *Matcher) Start() *State { return m.start }

func (m *Matcher) forget() {
	m.single, m.stacks, m.states, m.bytes = map[item]*stack{}, map[string]*stack{}, map[string]*State{}, 0
	m.alone = map[item]*State{}
	m.call(0, bottom)
	m.start = m.state()
}

// push returns the stack with a place above others, which it sorts.
func (m *Matcher) push(at int32, under []*stack) *stack {
	if len(under) > 1 {
		slices.SortFunc(under, func(a, b *stack) int { return int(a.id) - int(b.id) })
		under = slices.Compact(under)
	}
	if len(under) == 1 {
		k := item{at, under[0]}
		s, ok := m.single[k]
		if !ok {
			s = m.newStack(at, under)
			m.single[k] = s
		}
		return s
	}
	m.key = binary.LittleEndian.AppendUint32(m.key[:0], uint32(at))
	for _, u := range under {
		m.key = binary.LittleEndian.AppendUint64(m.key, u.id)
	}
	s, ok := m.stacks[string(m.key)]
	if !ok {
		s = m.newStack(at, under)
		m.stacks[string(m.key)] = s
		m.bytes += 16 * len(under)
	}
	return s
}

func (m *Matcher) newStack(at int32, under []*stack) *stack {
	m.last++
	m.bytes += 150 // of the map and the value, about
	return &stack{at: at, under: slices.Clone(under), id: m.last}
}

// call walks a rule's alternatives up to their first bytes.
func (m *Matcher) call(rule int32, under *stack) {
	for _, at := range m.g.starts[rule] {
		m.expand(at, under)
	}
}

// expand walks from a place to the bytes that it leads to, and to the end of the text. A grammar without left
// recursion comes back to a place only with the same stack, so this ends.
func (m *Matcher) expand(at int32, under *stack) {
	if !m.spend(againUnits) || m.visited[item{at, under}] || !m.spend(placeUnits) {
		return
	}
	m.visited[item{at, under}] = true
	if int(at) >= len(m.g.ops) {
		m.count(at, under)
		return
	}
	switch o := m.g.ops[at]; o.kind {
	case opBytes:
		m.found = append(m.found, item{at, under})
	case opCall:
		if m.g.ops[at+1].kind != opReturn { // otherwise the call replaces its caller
			under = m.called(at+1, under)
		}
		m.call(o.arg, under)
	case opCount: // by a separate rule, which ends with it
		m.expand(m.g.counters[o.arg].base, under)
	default:
		m.leave(under)
	}
}

// leave goes on behind a rule that has ended.
func (m *Matcher) leave(under *stack) {
	if under == bottom {
		m.ends = true
		return
	}
	under.ended = under.id == 0
	for _, u := range under.under { // called follows the stacks added meanwhile
		m.expand(under.at, u)
	}
}

// called returns the stack that a rule called in this step returns to, extended by one more return position.
func (m *Matcher) called(at int32, under *stack) *stack {
	s, ok := m.calls[at]
	if !ok {
		if len(m.spare) == len(m.calls) {
			m.spare = append(m.spare, &stack{})
		}
		s = m.spare[len(m.calls)]
		*s = stack{at: at, under: s.under[:0]}
		m.calls[at] = s
	}
	s.under = append(s.under, under) // for the first time: expand has been here with it once
	if s.ended {
		m.expand(at, under)
	}
	return s
}

// keep returns the cached form of a stack: itself, unless its call was in this step. A call refers to an earlier
// call only, so the recursion ends.
func (m *Matcher) keep(s *stack) *stack {
	if s.id != 0 {
		return s
	}
	if s.made == nil {
		for i, u := range s.under {
			s.under[i] = m.keep(u)
		}
		s.made = m.push(s.at, s.under)
	}
	return s.made
}

// mostScratch bounds the maps of a step that are used again: emptying one takes as long as it was ever large.
const mostScratch = 1 << 10

func (m *Matcher) endStep() {
	if len(m.visited) > mostScratch {
		m.visited, m.calls, m.spare = map[item]bool{}, map[int32]*stack{}, nil
	}
	clear(m.visited)
	clear(m.calls)
	m.found, m.ends = m.found[:0], false
}

// state is the kept state of what was found since the last one, or dead where the budget does not reach for it.
func (m *Matcher) state() *State {
	defer m.endStep()
	if !m.spend(stateUnits) {
		return dead
	}
	slices.SortFunc(m.found, func(a, b item) int { return int(a.at) - int(b.at) })
	m.tops = m.tops[:0]
	for i := 0; i < len(m.found); {
		at := m.found[i].at
		for m.under = m.under[:0]; i < len(m.found) && m.found[i].at == at; i++ {
			m.under = append(m.under, m.keep(m.found[i].under))
		}
		m.tops = append(m.tops, m.push(at, m.under))
	}
	m.key = m.key[:0]
	for _, s := range m.tops {
		m.key = binary.LittleEndian.AppendUint64(m.key, s.id)
	}
	if m.ends {
		m.key = append(m.key, 1)
	}
	s, ok := m.states[string(m.key)]
	if !ok {
		s = dead
		if m.ends || len(m.tops) > 0 {
			s = &State{tops: slices.Clone(m.tops), end: m.ends, next: m.unread}
		}
		m.states[string(m.key)] = s
		m.bytes += 100 + 2*len(m.key)
	}
	return s
}

// step is the state after one more byte, or dead.
func (m *Matcher) step(s *State, b byte) *State {
	if to := s.next[m.g.class[b]]; to != nil {
		return to
	}
	return m.read(s, b)
}

// read is step for a byte that was not met in this state.
func (m *Matcher) read(s *State, b byte) *State {
	if len(s.tops) == 0 {
		return dead
	}
	if &s.next[0] == &m.unread[0] {
		s.next = make([]*State, m.g.classes)
		m.bytes += 8 * len(s.next)
	}
	class := m.g.class[b]
	m.spend(len(s.tops))
	alike := byteSet{^uint64(0), ^uint64(0), ^uint64(0), ^uint64(0)} // classes that no top tells from this one
	m.ways = m.ways[:0]
	for _, top := range s.tops {
		set := &m.g.inClasses[m.g.ops[top.at].arg]
		has := set.has(class)
		alike.keep(set, has)
		if has {
			for _, u := range top.under {
				m.ways = append(m.ways, item{m.g.behind[top.at], u})
			}
		}
	}
	to := m.reached()
	if m.err == nil {
		for word, set := range alike {
			for ; set != 0; set &= set - 1 {
				if c := 64*word + bits.TrailingZeros64(set); c < len(s.next) {
					s.next[c] = to
				}
			}
		}
	}
	return to
}

// reached returns the state of m.ways. It is kept for a way that leads there alone, because many bytes of many states
// have the same way.
func (m *Matcher) reached() *State {
	if len(m.ways) == 1 {
		if to, ok := m.alone[m.ways[0]]; ok {
			return to
		}
	}
	for _, way := range m.ways {
		if way.at < 0 {
			m.call(^way.at, way.under)
		} else {
			m.expand(way.at, way.under)
		}
	}
	to := m.state()
	if len(m.ways) == 1 && m.err == nil {
		m.alone[m.ways[0]] = to
		m.bytes += 40
	}
	return to
}

// Commit is Accept for a token that the text has taken. With each of them the matcher may do some more work.
func (m *Matcher) Commit(s *State, token int32) (*State, bool) {
	m.budget.left = min(m.budget.left+tokenUnits, matchUnits)
	return m.Accept(s, token)
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
	if m.bytes > m.most { // s stays; its successors are computed again
		m.forget()
		s = m.revive(s)
	}
	return s, len(piece) > 0 && m.err == nil
}

// revive puts a state from before the last reset, and its stacks, back into the cache. They may be as deep as the
// text is long.
func (m *Matcher) revive(old *State) *State {
	again := map[*stack]*stack{bottom: bottom}
	for _, top := range old.tops {
		for path := []*stack{top}; len(path) > 0; {
			s := path[len(path)-1]
			if !m.spend(placeUnits) {
				return dead
			}
			if again[s] == nil {
				before := len(path)
				under := make([]*stack, 0, len(s.under))
				for _, u := range s.under {
					if a := again[u]; a != nil {
						under = append(under, a)
					} else {
						path = append(path, u)
					}
				}
				if len(path) > before {
					continue
				}
				again[s] = m.push(s.at, under)
			}
			path = path[:len(path)-1]
		}
		for _, u := range top.under {
			m.found = append(m.found, item{top.at, again[u]})
		}
	}
	m.ends = old.end
	return m.state()
}
