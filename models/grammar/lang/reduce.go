package lang

import (
	"encoding/binary"
	"slices"
)

// trim drops the states that cannot be reached or cannot end, numbers the others in the order in which they are
// reached, and joins the edges that lead to the same state.
func (m *Maker) trim(states []State) (out []State, ok bool) {
	edges := 0
	for _, s := range states {
		edges += len(s.Edges)
	}
	if !m.spend(4*len(states) + 2*edges) {
		return nil, false
	}
	if len(states) == 0 {
		return nil, true
	}
	ends := endings(states, edges)
	if !ends[0] {
		return nil, true
	}
	number := make([]int32, len(states))
	order := []int32{0}
	number[0] = 1
	for done := 0; done < len(order); done++ {
		for _, e := range states[order[done]].Edges {
			if ends[e.To] && number[e.To] == 0 && len(e.Ranges) > 0 {
				order = append(order, e.To)
				number[e.To] = int32(len(order))
			}
		}
	}
	out = make([]State, len(order))
	all := make([]Edge, 0, edges)
	for i, old := range order {
		out[i].Final = states[old].Final
		first := len(all)
		for _, e := range states[old].Edges {
			if ends[e.To] && len(e.Ranges) > 0 {
				all = append(all, Edge{e.Ranges, number[e.To] - 1})
			}
		}
		if out[i].Edges, ok = m.join(all[first:len(all):len(all)]); !ok {
			return nil, false
		}
	}
	return out, true
}

// endings marks the states that can reach a final one.
func endings(states []State, edges int) []bool {
	first, from := predecessors(states, edges)
	ends := make([]bool, len(states))
	var queue []int32
	for i, s := range states {
		if s.Final {
			ends[i] = true
			queue = append(queue, int32(i))
		}
	}
	for done := 0; done < len(queue); done++ {
		for _, p := range from[first[queue[done]]:first[queue[done]+1]] {
			if !ends[p] {
				ends[p] = true
				queue = append(queue, p)
			}
		}
	}
	return ends
}

// predecessors lists the states with an edge to state i as from[first[i]:first[i+1]].
func predecessors(states []State, edges int) (first, from []int32) {
	first = make([]int32, len(states)+2)
	for _, s := range states {
		for _, e := range s.Edges {
			first[e.To+2]++
		}
	}
	for i := 1; i < len(first); i++ {
		first[i] += first[i-1]
	}
	from = make([]int32, edges)
	for i, s := range states {
		for _, e := range s.Edges {
			from[first[e.To+1]] = int32(i)
			first[e.To+1]++
		}
	}
	return first[:len(states)+1], from
}

// join sorts edges by where they lead, one for each state, in place.
func (m *Maker) join(edges []Edge) (out []Edge, ok bool) {
	sorted := true
	for i := 1; i < len(edges); i++ {
		sorted = sorted && edges[i-1].To <= edges[i].To
	}
	if !sorted {
		keys := make([]uint64, len(edges))
		for i, e := range edges {
			keys[i] = key(e.To, int32(i))
		}
		slices.Sort(keys)
		from := append([]Edge(nil), edges...)
		for i, k := range keys {
			edges[i] = from[uint32(k)]
		}
	}
	out = edges[:0]
	for i := 0; i < len(edges); {
		next := i + 1
		for ; next < len(edges) && edges[next].To == edges[i].To; next++ {
		}
		ranges := edges[i].Ranges
		if next > i+1 {
			var all []Range
			for _, e := range edges[i:next] {
				if !m.spend(len(e.Ranges)) {
					return nil, false
				}
				all = append(all, e.Ranges...)
			}
			ranges = all
		}
		if ranges = normal(ranges); len(ranges) > 0 {
			out = append(out, Edge{ranges, edges[i].To})
		}
		i = next
	}
	return out, true
}

// partition refines classes of states until all states of a class have edges with the same ranges to the same
// classes. A state is looked at again only when a state that it leads to changes its class; of the parts of a split
// class the largest keeps its number, so that a state changes a logarithmic number of times (Blom and van de Pol,
// "Distributed branching bisimulation minimization by inductive signatures", 2009; Hopcroft 1971).
type partition struct {
	m           *Maker
	states      []State
	lists       *lists
	edge        []pair  // the edges of all states
	firstEdge   []int32 // where those of a state begin
	first, from []int32 // predecessors
	class       []int32
	classes     int
	at          []int32  // the place of a state in members
	members     []int32  // the states by class, those to look at first
	begin, end  []int32  // of each class in members
	open        []int32  // how many of a class are to be looked at
	queue       []int32  // classes with such states
	scratch     []uint64 // keys of a class and a list
	key         []byte
}

type pair struct{ to, list int32 }

// reduce merges the states that have the same future.
func (m *Maker) reduce(states []State) (out []State, ok bool) {
	if len(states) < 2 {
		return states, true
	}
	p := &partition{m: m, states: states, lists: newLists(m)}
	forward, ok := p.number()
	if !ok {
		return nil, false
	}
	if forward {
		if !p.backward() {
			return nil, false
		}
		return p.quotient()
	}
	if !p.start() {
		return nil, false
	}
	for len(p.queue) > 0 {
		c := p.queue[len(p.queue)-1]
		p.queue = p.queue[:len(p.queue)-1]
		if !p.split(c) {
			return nil, false
		}
	}
	p.classes = len(p.begin)
	return p.quotient()
}

// number takes the edges with the numbers of their lists. It reports whether all lead to later states.
func (p *partition) number() (forward, ok bool) {
	n := len(p.states)
	edges := 0
	for _, s := range p.states {
		edges += len(s.Edges)
	}
	if !p.m.spend(1 + n/2 + 2*edges) {
		return false, false
	}
	p.edge = make([]pair, 0, edges)
	p.firstEdge, p.class = make([]int32, n+1), make([]int32, n)
	forward = true
	for i, s := range p.states {
		for _, e := range s.Edges {
			id := p.lists.id(e.Ranges)
			if id < 0 {
				return false, false
			}
			p.edge = append(p.edge, pair{e.To, id})
			forward = forward && e.To > int32(i)
		}
		p.firstEdge[i+1] = int32(len(p.edge))
	}
	return forward, true
}

// backward finds the classes of an automaton without loops from its end: those that a state leads to are known then.
func (p *partition) backward() bool {
	known := map[string]int32{}
	for i := len(p.states) - 1; i >= 0; i-- {
		key, ok := p.signature(int32(i))
		if !ok || !p.m.spend(4+len(key)/16) {
			return false
		}
		if p.states[i].Final {
			key = append(key, 0)
		}
		class, found := known[string(key)]
		if !found {
			class = int32(len(known))
			known[string(key)] = class
		}
		p.class[i] = class
	}
	p.classes = len(known)
	return true
}

// start has a class of the final states and one of the others.
func (p *partition) start() bool {
	n := len(p.states)
	if !p.m.spend(4*n + len(p.edge)/2) {
		return false
	}
	p.first, p.from = predecessors(p.states, len(p.edge))
	p.at, p.members = make([]int32, n), make([]int32, n)
	finals := 0
	for _, s := range p.states {
		if s.Final {
			finals++
		}
	}
	byClass := [2]int{0, finals}
	for i, s := range p.states {
		if !s.Final {
			p.class[i] = 1
		}
		at := &byClass[p.class[i]]
		p.at[i], p.members[*at] = int32(*at), int32(i)
		*at++
	}
	p.begin, p.end, p.open, p.queue = []int32{0}, []int32{int32(finals)}, []int32{int32(finals)}, []int32{0}
	if finals < n {
		p.begin, p.end = append(p.begin, int32(finals)), append(p.end, int32(n))
		p.open, p.queue = append(p.open, int32(n-finals)), append(p.queue, 1)
	}
	return true
}

// signature is what tells a state from others: the edges it has, by the classes they lead to.
func (p *partition) signature(s int32) ([]byte, bool) {
	edges := p.edge[p.firstEdge[s]:p.firstEdge[s+1]]
	if !p.m.spend(2 + len(edges)) {
		return nil, false
	}
	p.scratch = p.scratch[:0]
	for _, e := range edges {
		p.scratch = append(p.scratch, key(p.class[e.to], e.list))
	}
	if len(edges) > 1 {
		slices.Sort(p.scratch)
	}
	p.key = p.key[:0]
	for i := 0; i < len(p.scratch); {
		to, list := int32(p.scratch[i]>>32), int32(p.scratch[i])
		for i++; i < len(p.scratch) && int32(p.scratch[i]>>32) == to; i++ {
			if list = p.lists.union(list, int32(p.scratch[i])); list < 0 {
				return nil, false
			}
		}
		p.key = binary.LittleEndian.AppendUint64(p.key, key(to, list))
	}
	return p.key, true
}

// split divides a class by the signatures of its open states. Those of its others are all the same.
func (p *partition) split(c int32) bool {
	begin, end, open := p.begin[c], p.end[c], p.open[c]
	p.open[c] = 0
	if end-begin < 2 {
		return true
	}
	groups := map[string]int32{}
	var sizes []int32
	of := make([]int32, 0, min(open+1, end-begin))
	for i := begin; i < min(begin+open+1, end); i++ {
		key, ok := p.signature(p.members[i])
		if !ok {
			return false
		}
		g, found := groups[string(key)]
		if !found {
			g = int32(len(sizes))
			groups[string(key)] = g
			sizes = append(sizes, 0)
		}
		of = append(of, g)
		sizes[g]++
	}
	if len(sizes) == 1 {
		return true
	}
	clean := end - begin - int32(len(of)) // besides the one that was looked at
	stay := int32(0)
	if clean > 0 {
		sizes[of[len(of)-1]] += clean
	}
	for g, size := range sizes {
		if size > sizes[stay] {
			stay = int32(g)
		}
	}
	p.separate(c, of, sizes, stay)
	return true
}

// separate gives each group of a class but one a class of its own. of holds the groups of the class's first members;
// all further ones are of the last group.
func (p *partition) separate(c int32, of, sizes []int32, stay int32) {
	begin, end := p.begin[c], p.end[c]
	rest := of[len(of)-1]
	places := make([]int32, len(sizes))
	ids := make([]int32, len(sizes))
	at := begin
	next := int32(len(p.begin))
	place := func(g int) {
		places[g] = at
		id := c
		if int32(g) != stay {
			id = int32(len(p.begin))
			p.begin, p.end, p.open = append(p.begin, 0), append(p.end, 0), append(p.open, 0)
		}
		ids[g], p.begin[id], p.end[id] = id, at, at+sizes[g]
		at += sizes[g]
	}
	for g := range sizes { // the further members keep their places: their group is the last
		if int32(g) != rest {
			place(g)
		}
	}
	place(int(rest))
	old := append([]int32(nil), p.members[begin:begin+int32(len(of))]...)
	for i, s := range old {
		g := of[i]
		p.members[places[g]], p.at[s], p.class[s] = s, places[g], ids[g]
		places[g]++
	}
	if rest != stay {
		for _, s := range p.members[places[rest]:end] {
			p.class[s] = ids[rest]
		}
	}
	var moved []int32
	for id := next; id < int32(len(p.begin)); id++ {
		moved = append(moved, p.members[p.begin[id]:p.end[id]]...)
	}
	for _, s := range moved {
		for _, q := range p.from[p.first[s]:p.first[s+1]] {
			p.reopen(q)
		}
	}
}

// reopen has a state looked at again.
func (p *partition) reopen(s int32) {
	c := p.class[s]
	to := p.begin[c] + p.open[c]
	if p.at[s] < to {
		return
	}
	if p.open[c] == 0 {
		p.queue = append(p.queue, c)
	}
	p.open[c]++
	other := p.members[to]
	p.members[to], p.members[p.at[s]] = s, other
	p.at[other], p.at[s] = p.at[s], to
}

// quotient has one state for each class.
func (p *partition) quotient() ([]State, bool) {
	if p.classes == len(p.states) {
		return p.states, true
	}
	out := make([]State, 0, p.classes)
	number := make([]int32, p.classes)
	take := []int32{0}
	number[p.class[0]] = 1
	for done := 0; done < len(take); done++ {
		s := p.states[take[done]]
		edges := make([]Edge, len(s.Edges))
		for i, e := range s.Edges {
			c := p.class[e.To]
			if number[c] == 0 {
				take = append(take, e.To)
				number[c] = int32(len(take))
			}
			edges[i] = Edge{e.Ranges, number[c] - 1}
		}
		joined, ok := p.m.join(edges)
		if !ok {
			return nil, false
		}
		out = append(out, State{joined, s.Final})
	}
	return out, true
}
