package lang

// Length has the strings of a of at least least and at most `most` code points; most < 0 is no bound.
func (m *Maker) Length(a *Lang, least, most int) *Lang {
	if a == nil || !m.spend(4) {
		return nil
	}
	if a.Empty() || least <= 0 && most < 0 {
		return a
	}
	if most >= 0 && least > most {
		return m.None()
	}
	edges := 0
	for _, s := range a.states {
		edges += len(s.Edges)
	}
	if !m.spend(2*len(a.states) + edges) {
		return nil
	}
	near, far := a.Ends()
	shortest, longest := near[0], far[0]
	if shortest >= least && (most < 0 || longest >= 0 && longest <= most) {
		return a
	}
	if longest >= 0 && longest < least || most >= 0 && shortest > most {
		return m.None()
	}
	c := &counter{m: m, a: a, left: near, least: least, most: most}
	states := c.states()
	if states == nil {
		return nil
	}
	return m.of(states, a.single)
}

// counter makes the product of an automaton with a count of the code points before each state.
type counter struct {
	m           *Maker
	a           *Lang
	left        []int
	least, most int
	out         []State
}

// states has a level of states for each count. Without an upper bound the last level is the automaton itself.
func (c *counter) states() []State {
	n := len(c.a.states)
	if !c.m.spend(4 * n) {
		return nil
	}
	number := make([]int32, n) // of the states of the next level
	level := []int32{0}
	c.out = []State{{}}
	for count, base := 0, 0; len(level) > 0; count++ {
		if c.most < 0 && count == c.least {
			return c.endless(level, base)
		}
		var next []int32
		after := base + len(level)
		for i, at := range level {
			s := c.a.states[at]
			if !c.m.spend(2 + 2*len(s.Edges)) {
				return nil
			}
			edges := make([]Edge, 0, len(s.Edges))
			for _, e := range s.Edges {
				if c.most >= 0 && count+1+c.left[e.To] > c.most {
					continue
				}
				if number[e.To] == 0 {
					if !c.m.spend(4) {
						return nil
					}
					next = append(next, e.To)
					number[e.To] = int32(after + len(next))
					c.out = append(c.out, State{})
				}
				edges = append(edges, Edge{e.Ranges, number[e.To] - 1})
			}
			c.out[base+i] = State{edges, s.Final && count >= c.least}
		}
		for _, at := range next {
			number[at] = 0
		}
		level, base = next, after
	}
	return c.out
}

// endless lets the states of the last level go on as the automaton does.
func (c *counter) endless(level []int32, base int) []State {
	rest := int32(len(c.out))
	for i, at := range level {
		s := c.a.states[at]
		if !c.m.spend(2 + 2*len(s.Edges)) {
			return nil
		}
		edges := make([]Edge, len(s.Edges))
		for j, e := range s.Edges {
			edges[j] = Edge{e.Ranges, e.To + rest}
		}
		c.out[base+i] = State{edges, s.Final}
	}
	return c.m.append(c.out, c.a.states)
}
