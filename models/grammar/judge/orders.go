package main

import (
	"encoding/binary"
	"fmt"

	"foretoken/models/grammar"
)

// graph has a node for each state between two members of an object, whichever members led there and however often. So
// it knows which members can still follow, and which ones no state tells apart.
type graph struct {
	nodes []*node
	at    map[*grammar.State]int
}

type node struct {
	state *grammar.State
	edges [][]int // by member, the nodes that it leads to
	can   []bool  // by member: whether a way from here holds it
}

// orders returns the states after an object whose members may stand in any order.
func (s *search) orders(v *value, from *grammar.State) (all states) {
	g := s.graph(v, from)
	kinds, left := g.kinds(len(v.members))
	seen := map[string]bool{}
	var walk func(at int, togo int)
	walk = func(at, togo int) {
		key := binary.AppendUvarint(nil, uint64(at))
		for k, n := range left {
			if n > 0 && !g.nodes[at].can[kinds[k]] {
				return
			}
			key = binary.AppendUvarint(key, uint64(n))
		}
		if s.steps -= 1 + len(left); s.steps <= 0 || seen[string(key)] {
			return
		}
		seen[string(key)] = true
		if togo == 0 {
			all.add(s.read(g.nodes[at].state, "}"))
			return
		}
		for k, member := range kinds {
			if left[k] == 0 {
				continue
			}
			left[k]--
			for _, to := range g.nodes[at].edges[member] {
				walk(to, togo-1)
			}
			left[k]++
		}
	}
	walk(0, len(v.members))
	return all
}

// graph follows all members from all states, as if each could come again and again.
func (s *search) graph(v *value, from *grammar.State) *graph {
	g := &graph{at: map[*grammar.State]int{}}
	g.node(from, len(v.members))
	for i := 0; i < len(g.nodes) && s.steps > 0; i++ {
		for m, member := range v.members {
			for _, state := range s.member(member, g.nodes[i].state, i == 0) {
				to, ok := g.at[state]
				if !ok {
					to = g.node(state, len(v.members))
				}
				g.nodes[i].edges[m] = append(g.nodes[i].edges[m], to)
			}
		}
	}
	for changed := true; changed; {
		changed = false
		for i := len(g.nodes) - 1; i >= 0; i-- {
			changed = g.nodes[i].learn(g) || changed
		}
	}
	return g
}

// node adds a node; the first one, before any member, is not found again.
func (g *graph) node(state *grammar.State, members int) int {
	n := len(g.nodes)
	g.nodes = append(g.nodes, &node{state, make([][]int, members), make([]bool, members)})
	if n > 0 {
		g.at[state] = n
	}
	return n
}

// learn takes over what can follow the nodes behind this one; it reports whether that is news.
func (n *node) learn(g *graph) (news bool) {
	set := func(member int) {
		news = news || !n.can[member]
		n.can[member] = true
	}
	for member, edges := range n.edges {
		for _, to := range edges {
			set(member)
			for other, can := range g.nodes[to].can {
				if can {
					set(other)
				}
			}
		}
	}
	return news
}

// kinds groups the members that lead to the same nodes everywhere: one of each group, and how many it has.
func (g *graph) kinds(members int) (first, count []int) {
	of := map[string]int{}
	for m := range members {
		var ways []byte
		for _, n := range g.nodes {
			ways = fmt.Append(ways, n.edges[m])
		}
		k, ok := of[string(ways)]
		if !ok {
			k = len(first)
			of[string(ways)] = k
			first, count = append(first, m), append(count, 0)
		}
		count[k]++
	}
	return first, count
}
