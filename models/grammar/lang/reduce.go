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
// classes. A state is looked at again only when a state that it leads to changes its class (Blom and van de Pol,
// "Distributed branching bisimulation minimization by inductive signatures", 2009).
type partition struct {
	m           *Maker
	states      []State
	lists       *lists
	edge        []pair  // the edges of all states
	firstEdge   []int32 // where a state's edges begin
	first, from []int32 // predecessors
	class       []int32 // by state
	classes     []class
	isOpen      []bool   // by state, whether it is to be looked at
	queue       []int32  // classes with such states
	scratch     []uint64 // keys of a class and a list
	key         []byte
}

// class is a class of states. Those that are not open all have its signature.
type class struct {
	size      int
	signature string
	open      []int32
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
	p.classes = make([]class, len(known))
	return true
}

// start has a class of the states that are final as the first one is or not, and one of the others.
func (p *partition) start() bool {
	n := len(p.states)
	if !p.m.spend(4*n + len(p.edge)/2) {
		return false
	}
	p.first, p.from = predecessors(p.states, len(p.edge))
	p.isOpen, p.classes = make([]bool, n), make([]class, 1, 2)
	for i, s := range p.states {
		if s.Final != p.states[0].Final {
			p.class[i], p.classes = 1, p.classes[:2]
		}
		p.classes[p.class[i]].size++
		p.reopen(int32(i))
	}
	return true
}

// signature is a key of the edges of a state, by the classes they lead to. States of one class have the same.
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

// split divides a class by the signatures of its open states.
func (p *partition) split(c int32) bool {
	at := p.classes[c]
	groups := map[string]int32{}
	var names []string
	var sizes []int
	of := make([]int32, len(at.open))
	for i, s := range at.open {
		p.isOpen[s] = false
		key, ok := p.signature(s)
		if !ok {
			return false
		}
		g, found := groups[string(key)]
		if !found {
			g = int32(len(names))
			names, sizes = append(names, string(key)), append(sizes, 0)
			groups[names[g]] = g
		}
		of[i] = g
		sizes[g]++
	}
	stay, some := groups[at.signature]
	if len(at.open) == at.size { // the largest group keeps the number
		some = true
		for g, size := range sizes {
			if size > sizes[stay] {
				stay = int32(g)
			}
		}
		at.signature = names[stay]
	}
	ids := make([]int32, len(names))
	for g, size := range sizes {
		ids[g] = c
		if !some || int32(g) != stay {
			ids[g] = int32(len(p.classes))
			p.classes = append(p.classes, class{size: size, signature: names[g]})
			at.size -= size
		}
	}
	open := at.open
	at.open = nil
	p.classes[c] = at
	p.move(open, of, ids, c)
	return true
}

// move gives states their new classes and has those looked at again that lead to states with a new one.
func (p *partition) move(states, of, ids []int32, old int32) {
	for i, s := range states {
		p.class[s] = ids[of[i]]
	}
	for _, s := range states {
		if p.class[s] != old {
			for _, q := range p.from[p.first[s]:p.first[s+1]] {
				p.reopen(q)
			}
		}
	}
}

// reopen has a state looked at again.
func (p *partition) reopen(s int32) {
	if p.isOpen[s] {
		return
	}
	p.isOpen[s] = true
	c := &p.classes[p.class[s]]
	if c.open = append(c.open, s); len(c.open) == 1 {
		p.queue = append(p.queue, p.class[s])
	}
}

// quotient has one state for each class.
func (p *partition) quotient() ([]State, bool) {
	if len(p.classes) == len(p.states) {
		return p.states, true
	}
	out := make([]State, 0, len(p.classes))
	number := make([]int32, len(p.classes))
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
