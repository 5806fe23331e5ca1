package lang

import "slices"

// place is a place in an expression.
type place struct {
	op    op      // opSet, opAlt or opLook
	list  int32   // of opSet, the number of its ranges
	look  int     // of opLook
	next  []int32 // where it leads; the place end has nothing before it but the match
	backs bool    // something that can be reached without a match of the end looks back
}

// machine is an automaton for an expression under way.
type machine struct {
	b      *builder
	places []place
	end    int32
	known  map[[3]int32]int32 // by moment, place and duties
	states [][3]int32
	out    []State
}

// item is a place that takes a character, or the end, that a state leads to without one, and its duties.
type item struct{ at, duties int32 }

// machine makes the language of what an expression matches from some moment on, with any text before and after if
// open says so. It is nil when no more may be spent.
func (b *builder) machine(root *node, openBefore, openAfter bool, moment int32) *Lang {
	x := &machine{b: b, known: map[[3]int32]int32{}}
	x.end = x.place(place{op: opCat})
	any := &node{op: opRepeat, parts: []*node{{op: opSet, ranges: scalars}}, most: -1}
	start := x.end
	if openAfter {
		start = x.compile(any, start)
	}
	start = x.compile(root, start)
	if openBefore {
		start = x.compile(any, start)
	}
	if start < 0 || !x.lookBacks() || x.id(moment, start, 0) < 0 {
		return nil
	}
	for done := 0; done < len(x.states); done++ {
		s, ok := x.state(x.states[done])
		if !ok {
			return nil
		}
		x.out = append(x.out, s)
	}
	return b.m.Of(x.out)
}

// place is the number of a new place; -1 when no more may be spent.
func (x *machine) place(p place) int32 {
	if !x.b.m.spend(6 + len(p.next)) {
		return -1
	}
	x.places = append(x.places, p)
	return int32(len(x.places) - 1)
}

// compile makes the places of a node, which go on at next, and returns the first of them; -1 when no more may be
// spent.
func (x *machine) compile(n *node, next int32) int32 {
	if next < 0 || !x.b.m.spend(1) {
		return -1
	}
	switch n.op {
	case opSet:
		id := x.b.lists.id(n.ranges)
		if id < 0 {
			return -1
		}
		return x.place(place{op: opSet, list: id, next: []int32{next}})
	case opCat:
		for i := len(n.parts) - 1; i >= 0; i-- {
			next = x.compile(n.parts[i], next)
		}
		return next
	case opAlt:
		var starts []int32
		for _, part := range n.parts {
			start := x.compile(part, next)
			if start < 0 {
				return -1
			}
			starts = append(starts, start)
		}
		return x.place(place{op: opAlt, next: starts})
	case opLook:
		return x.place(place{op: opLook, look: n.look, next: []int32{next}})
	}
	return x.repeat(n, next)
}

func (x *machine) repeat(n *node, next int32) int32 {
	part, least := n.parts[0], n.least
	if n.most < 0 {
		loop := x.place(place{op: opAlt, next: []int32{0, next}})
		body := x.compile(part, loop)
		if body < 0 {
			return -1
		}
		x.places[loop].next[0] = body
		next = loop
		if least > 0 {
			next, least = body, least-1
		}
	}
	exit := next
	for range max(0, n.most-n.least) {
		body := x.compile(part, next)
		if body == next {
			break // the part has no text
		}
		if body < 0 {
			return -1
		}
		next = x.place(place{op: opAlt, next: []int32{body, exit}})
	}
	for range least {
		body := x.compile(part, next)
		if body == next || body < 0 {
			return body
		}
		next = body
	}
	return next
}

// lookBacks marks the places from which a look behind can be reached. Loops take several rounds.
func (x *machine) lookBacks() bool {
	for changed := true; changed; {
		changed = false
		if !x.b.m.spend(len(x.places)) {
			return false
		}
		for i := range x.places { // what follows was made first
			p := &x.places[i]
			if p.backs {
				continue
			}
			p.backs = p.op == opLook && (x.b.looks[p.look].behind || x.b.looks[p.look].looksBehind) ||
				slices.ContainsFunc(p.next, func(to int32) bool { return x.places[to].backs }) // bound: edges, once
			changed = changed || p.backs
		}
	}
	return true
}

// id is the number of a state; -1 when no more may be spent.
func (x *machine) id(moment, at, duties int32) int32 {
	if !x.places[at].backs {
		moment = untracked
	}
	key := [3]int32{moment, at, duties}
	id, ok := x.known[key]
	if !ok {
		if !x.b.m.spend(10) {
			return -1
		}
		id = int32(len(x.states))
		x.known[key] = id
		x.states = append(x.states, key)
	}
	return id
}

// state has the edges of a state.
func (x *machine) state(key [3]int32) (s State, ok bool) {
	items, ok := x.closure(key)
	if !ok {
		return s, false
	}
	for _, i := range items {
		if i.at == x.end {
			ends := true
			for _, d := range x.b.dutySets[i.duties] {
				ends = ends && x.b.langs[d>>32].states[uint32(d)].Final
			}
			s.Final = s.Final || ends
			continue
		}
		if !x.leave(&s, key[0], i) {
			return s, false
		}
	}
	return s, true
}

// closure has what a state leads to without a character.
func (x *machine) closure(key [3]int32) ([]item, bool) {
	moment := key[0]
	todo := []item{{key[1], key[2]}}
	seen := map[item]bool{todo[0]: true}
	var found []item
	for len(todo) > 0 {
		i := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		p := x.places[i.at]
		if !x.b.m.spend(4 + len(p.next)) {
			return nil, false
		}
		switch p.op {
		case opSet, opCat:
			found = append(found, i)
			continue
		case opLook:
			duties, ok := x.look(p.look, moment, i.duties)
			if duties < 0 {
				if !ok {
					return nil, false
				}
				continue
			}
			i.duties = duties
		}
		for _, to := range p.next {
			if next := (item{to, i.duties}); !seen[next] {
				seen[next] = true
				todo = append(todo, next)
			}
		}
	}
	return found, true
}

// look returns the duties after a look, -1 where it does not hold. ok is false when no more may be spent.
func (x *machine) look(id int, moment, duties int32) (after int32, ok bool) {
	b, l := x.b, x.b.looks[id]
	if l.behind {
		at := b.states[moment][id]
		if (at >= 0 && b.trackers[id].states[at].Final) == l.not {
			return -1, true
		}
		return duties, true
	}
	lang := b.dutyOf(id, moment)
	if lang < 0 {
		return -1, false
	}
	if b.langs[lang].Empty() {
		return -1, true
	}
	duties = b.duty(b.with(b.dutySets[duties], lang, 0))
	return duties, duties >= 0
}

// leave adds the edges of an item: one for each way to meet its duties and each moment that may follow.
func (x *machine) leave(s *State, moment int32, i item) bool {
	type way struct {
		list int32
		set  []uint64
	}
	b := x.b
	p := x.places[i.at]
	ways := []way{{p.list, nil}}
	for _, d := range b.dutySets[i.duties] {
		var more []way
		for _, w := range ways {
			for _, e := range b.edges[d>>32][uint32(d)] {
				if !b.m.spend(4 + len(w.set)) {
					return false
				}
				list := b.lists.meet(w.list, e.list)
				if list < 0 {
					return false
				}
				if list > 0 {
					more = append(more, way{list, b.with(w.set, int32(d>>32), e.to)})
				}
			}
		}
		ways = more
	}
	if !x.places[p.next[0]].backs {
		moment = untracked
	}
	steps, ok := b.step(moment)
	if !ok {
		return false
	}
	for _, w := range ways {
		duties := b.duty(w.set)
		if duties < 0 {
			return false
		}
		for _, next := range steps {
			list := b.lists.meet(w.list, next.list)
			if list < 0 || !b.m.spend(3) {
				return false
			}
			if list == 0 {
				continue
			}
			to := x.id(next.to, p.next[0], duties)
			if to < 0 {
				return false
			}
			s.Edges = append(s.Edges, Edge{b.lists.all[list], to})
		}
	}
	return true
}
