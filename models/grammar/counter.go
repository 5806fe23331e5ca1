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
// numbers that a matcher makes as it reads: places behind those of the grammar's rules.
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
	left := make([]int, len(from))       // edges of a state to states of which far is not known
	before := make([][]int32, len(from)) // the states that lead to one
	steady := true
	for i, s := range from {
		st := &c.states[i]
		st.final, st.near, st.far, left[i] = s.Final, math.MaxInt, -1, len(s.Edges)
		if !b.spend(4 * len(s.Edges)) {
			return nil
		}
		for _, e := range s.Edges {
			st.loops = st.loops || int(e.To) == i
			st.edges = append(st.edges, counterEdge{to: e.To})
			before[e.To] = append(before[e.To], int32(i))
		}
		steady = steady && st.loops
	}
	c.nearest(before)
	c.farthest(before, left)
	if least > 0 && most >= 0 && !steady && !c.reaches(b, before) {
		return nil
	}
	return c
}

// nearest sets the steps to the nearest end of each state.
func (c *counter) nearest(before [][]int32) {
	var queue []int32
	for i := range c.states {
		if c.states[i].final {
			c.states[i].near, queue = 0, append(queue, int32(i))
		}
	}
	for ; len(queue) > 0; queue = queue[1:] {
		for _, i := range before[queue[0]] {
			if c.states[i].near == math.MaxInt {
				c.states[i].near, queue = c.states[queue[0]].near+1, append(queue, i)
			}
		}
	}
}

// farthest sets the steps to the farthest end of the states that lead to no circle.
func (c *counter) farthest(before [][]int32, left []int) {
	var queue []int32
	for i := range c.states {
		if left[i] == 0 {
			queue = append(queue, int32(i))
		}
	}
	far := make([]int, len(c.states))
	for ; len(queue) > 0; queue = queue[1:] {
		at := queue[0]
		c.states[at].far = far[at]
		for _, i := range before[at] {
			far[i] = max(far[i], far[at]+1)
			if left[i]--; left[i] == 0 {
				queue = append(queue, i)
			}
		}
	}
}

// reaches fills in reach.
func (c *counter) reaches(b *builder, before [][]int32) bool {
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
		for i := range c.states {
			if now[i/64]>>(i%64)&1 == 1 {
				for _, j := range before[i] {
					next[j/64] |= 1 << (j % 64)
				}
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

// lay gives the counters of a grammar their places, and their edges those of the rules. Edges to rules that cannot
// come to an end have none.
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
