package grammar

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"foretoken/models/grammar/lang"
)

// counter is an automaton of which each step is a rule, and whose steps are counted: the repetition of a rule, or a
// language of strings with bounds of length. Written out, it would have a state for each count. So its states are
// numbers that a matcher makes as it reads: places after the last place of the grammar's rules.
type counter struct {
	states      []counterState
	least, most int   // steps; most < 0: no bound
	width       int   // counts that are told apart
	base        int32 // the place of state 0 after no step
	home        string
	rule        int // that it is written as, of a builder; 0: none yet
	// reach has, where both bounds need it, for each number of steps a bit for each state that can end after so many.
	reach [][]uint64
}

type counterState struct {
	edges     []counterEdge
	final     bool
	loops     bool // by an edge to itself
	near, far int  // steps to the nearest and the farthest end; far < 0: no bound
}

type counterEdge struct {
	rule int
	to   int32
}

// repetition is a counter of one state.
func repetition(rule, least, most int) *counter {
	return &counter{least: least, most: most, states: []counterState{
		{edges: []counterEdge{{rule, 0}}, final: true, loops: true, far: -1}}}
}

// counterOf counts the characters of a language that is not empty. Its edges have no rules yet.
func (b *builder) counterOf(l *lang.Lang, least, most int) *counter {
	from := l.States()
	c := &counter{least: least, most: most, states: make([]counterState, len(from))}
	if !b.spend(8 * len(from)) {
		return nil
	}
	steady := true
	for i, s := range from {
		st := &c.states[i]
		st.final = s.Final
		if !b.spend(4 * len(s.Edges)) {
			return nil
		}
		for _, e := range s.Edges {
			st.loops = st.loops || int(e.To) == i
			st.edges = append(st.edges, counterEdge{to: e.To})
		}
		steady = steady && st.loops
	}
	near, far := l.Ends()
	for i := range c.states {
		c.states[i].near, c.states[i].far = near[i], far[i]
	}
	if least > 0 && most >= 0 && !steady && !c.reaches(b) {
		return nil
	}
	return c
}

// reaches fills in reach.
func (c *counter) reaches(b *builder) bool {
	words := (len(c.states) + 63) / 64
	now := make([]uint64, words)
	for i, s := range c.states {
		if s.final {
			now[i/64] |= 1 << (i % 64)
		}
	}
	for range c.most + 1 {
		if !b.spend(4 + words + len(c.states)/4) {
			return false
		}
		c.reach = append(c.reach, now)
		next := make([]uint64, words)
		for i, s := range c.states {
			for _, e := range s.edges {
				next[i/64] |= now[e.to/64] >> (e.to % 64) & 1 << (i % 64)
			}
		}
		now = next
	}
	return true
}

// live reports whether a state can come to an end after n steps, within the bounds.
func (c *counter) live(state int32, n int) bool {
	s := &c.states[state]
	low, high := max(c.least-n, 0), math.MaxInt
	if c.most >= 0 {
		high = c.most - n
	}
	switch {
	case s.near > high:
		return false
	case s.near >= low:
		return true
	case s.far >= 0 && s.far < low:
		return false
	case c.most < 0 || s.loops:
		return true
	}
	if s.far >= 0 {
		high = min(high, s.far)
	}
	for steps := low; steps <= high; steps++ {
		if c.reach[steps][state/64]>>(state%64)&1 == 1 {
			return true
		}
	}
	return false
}

// after is the count after one more step.
func (c *counter) after(n int) int {
	if c.most < 0 {
		return min(n+1, c.least)
	}
	return n + 1
}

// count makes a rule of a counter. Its alternatives are for the checks of a grammar: how it may begin, and go on.
func (b *builder) count(c *counter) sequence {
	r := b.anonymous("(…)")
	c.home = b.where
	all, seen := []sequence{}, map[int]bool{}
	for _, s := range c.states {
		for _, e := range s.edges {
			if b.spend(4) && !seen[e.rule] {
				seen[e.rule] = true
				all = append(all, b.call(e.rule), sequence{{rule: e.rule}, {rule: r}})
			}
		}
	}
	if c.states[0].final && c.least == 0 {
		all = append(all, sequence{})
	}
	b.define(r, all...)
	b.rules[r].counter = c
	return b.call(r)
}

// lay gives places to the counters of a grammar and to their edges, which take the places of the edges' rules. Edges to
// rules that cannot come to an end have none.
func (g *Grammar) lay(counters []*counter, places []int32) error {
	next := int64(len(g.ops))
	for _, c := range counters {
		laid := *c
		if laid.base, laid.width = int32(next), c.most+1; c.most < 0 {
			laid.width = c.least + 1
		}
		if next += int64(len(c.states)) * int64(laid.width); next > math.MaxInt32 {
			return fmt.Errorf("grammar: %stoo many counts are to be told apart; use lower bounds", place(c.home))
		}
		laid.states = make([]counterState, len(c.states))
		for i, s := range c.states {
			edges := make([]counterEdge, 0, len(s.edges))
			for _, e := range s.edges {
				if at := places[e.rule]; at != 0 {
					edges = append(edges, counterEdge{int(at - 1), e.to})
				}
			}
			s.edges = edges
			laid.states[i] = s
		}
		g.counters = append(g.counters, &laid)
	}
	return nil
}

// counterAt is the counter that a place belongs to.
func (g *Grammar) counterAt(at int32) *counter {
	after, _ := slices.BinarySearchFunc(g.counters, at+1, func(c *counter, at int32) int {
		return cmp.Compare(c.base, at)
	})
	return g.counters[after-1]
}

// count goes on from a place of a counter: with the end, or one more step.
func (m *Matcher) count(at int32, under *stack) {
	c := m.g.counterAt(at)
	state, n := int(at-c.base)/c.width, int(at-c.base)%c.width
	s := &c.states[state]
	if s.final && n >= c.least {
		m.leave(under)
	}
	if c.most >= 0 && n == c.most {
		return
	}
	for _, e := range s.edges {
		if c.live(e.to, n+1) {
			m.call(int32(e.rule), m.called(c.base+e.to*int32(c.width)+int32(c.after(n)), under))
		}
	}
}
