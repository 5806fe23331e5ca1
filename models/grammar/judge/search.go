package main

import (
	"context"
	"slices"

	"foretoken/models/grammar"
)

// Verdicts of an instance.
const (
	allowed    = "allowed"    // as it is written
	otherOrder = "order"      // with its members in another order
	refused    = "refused"    // in any order
	beyond     = "bound"      // the search for an order, or the matcher, took too much work
	unreadable = "unreadable" // no JSON that interoperates, such as half a character
)

// mostSteps bounds the bytes and the orders that a search tries.
const mostSteps = 4 << 20

// bytesVocab has a token for each byte.
var bytesVocab = grammar.NewVocab(256, func(id int32) []byte { return []byte{byte(id)} },
	func(int32) bool { return false })

// search follows a value through a grammar. A matcher's state stands for all ways to read a text, so a text leads from
// one state to at most one; a value has a text for each order of its members.
type search struct {
	m     *grammar.Matcher
	free  bool // whether members may stand in any order
	known map[place][]*grammar.State
	steps int // left
}

// place is a value that begins in a state.
type place struct {
	v     *value
	state *grammar.State
}

// judge gives the verdict on a value.
func judge(g *grammar.Grammar, v *value) string {
	for _, free := range []bool{false, true} {
		s := &search{m: grammar.NewMatcher(context.Background(), g, bytesVocab), free: free,
			known: map[place][]*grammar.State{}, steps: mostSteps}
		ends := slices.ContainsFunc(s.after(v, s.m.Start()), (*grammar.State).CanEnd) // bound: twice
		switch {
		case ends && free:
			return otherOrder
		case ends:
			return allowed
		case s.steps <= 0 || s.m.Err() != nil:
			return beyond
		}
	}
	return refused
}

// read returns the state after a text, or nil.
func (s *search) read(from *grammar.State, text string) *grammar.State {
	for i := range len(text) {
		var ok bool
		if s.steps--; s.steps <= 0 {
			return nil
		}
		if from, ok = s.m.Commit(from, int32(text[i])); !ok {
			return nil
		}
	}
	return from
}

// after returns the states to which the value's texts lead.
func (s *search) after(v *value, from *grammar.State) []*grammar.State {
	at := place{v, from}
	if all, ok := s.known[at]; ok {
		return all
	}
	var all states
	switch v.kind {
	case '{':
		all = s.object(v, from)
	case '[':
		all.add(s.read(from, "["))
		for i, item := range v.items {
			var next states
			for _, state := range all {
				if i > 0 {
					state = s.read(state, ",")
				}
				if state != nil {
					next.add(s.after(item, state)...)
				}
			}
			all = next
		}
		all = s.each(all, "]")
	default:
		for _, text := range v.texts {
			all.add(s.read(from, text))
		}
	}
	s.known[at] = all
	return all
}

// states is a set; it has a few members.
type states []*grammar.State

func (all *states) add(more ...*grammar.State) {
	for _, state := range more {
		if state != nil && !slices.Contains(*all, state) { // bound: the states that orders of members tell apart
			*all = append(*all, state)
		}
	}
}

// each reads a text from every state.
func (s *search) each(from states, text string) (all states) {
	for _, state := range from {
		all.add(s.read(state, text))
	}
	return all
}

// member reads one from a state, behind a comma unless it is the first.
func (s *search) member(m member, from *grammar.State, first bool) []*grammar.State {
	name := m.name
	if !first {
		name = "," + name
	}
	if from = s.read(from, name); from == nil {
		return nil
	}
	return s.after(m.value, from)
}

func (s *search) object(v *value, from *grammar.State) (all states) {
	from = s.read(from, "{")
	switch {
	case from == nil:
	case !s.free || len(v.members) < 2:
		all.add(from)
		for i, m := range v.members {
			var next states
			for _, state := range all {
				next.add(s.member(m, state, i == 0)...)
			}
			all = next
		}
		all = s.each(all, "}")
	default:
		all = s.orders(v, from)
	}
	return all
}
