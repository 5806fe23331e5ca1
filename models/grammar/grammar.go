// Package grammar computes which tokens may come next so that a text stays within a grammar. Grammars are written
// in GBNF, llama.cpp's notation, or derived from a JSON Schema. They compile to a pushdown automaton over bytes.
// The automaton's states are built while a text is read and cached, so the set of tokens of each state is computed
// once.
//
// A grammar restricts the target's draws. Drafts do not change the distribution, so speculation works with a
// grammar as without one.
package grammar

import (
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// byteSet is a set of bytes.
type byteSet [4]uint64

func (s *byteSet) add(lo, hi byte) {
	for b := int(lo); b <= int(hi); b++ {
		s[b/64] |= 1 << (b % 64)
	}
}

func (s *byteSet) has(b byte) bool { return s[b/64]>>(b%64)&1 == 1 }

func (s *byteSet) count() int {
	n := 0
	for _, w := range s {
		n += bits.OnesCount64(w)
	}
	return n
}

type opKind uint8

const (
	opBytes  opKind = iota // one byte of a set
	opCall                 // a rule
	opReturn               // the end of an alternative
)

// op is a place in an alternative of a rule; the next one follows it.
type op struct {
	kind opKind
	arg  int32 // the set, or the rule
}

// Grammar is a set of rules over bytes; the first rule is the start symbol. It is immutable and may be shared by
// several matchers.
type Grammar struct {
	ops    []op
	starts [][]int32 // of each rule, where its alternatives begin
	sets   []byteSet
}

// maxOps bounds a grammar: an alternative of a few bytes can ask for a repetition of
// thousands, and repetitions nest.
const maxOps = 1 << 18

// term is a part of a sequence.
type term struct {
	rule int      // where set is nil
	set  *byteSet // one byte of it
}

type sequence []term

// builder collects rules.
type builder struct {
	names  []string
	rules  [][]sequence
	byName map[string]int
	ops    int
	err    error
}

func newBuilder() *builder { return &builder{byName: map[string]int{}} }

// presentable is an error on one line, without the middle of its text where that is long: it quotes names, paths and
// patterns, which whoever wrote them may make as long and as strange as they like.
func presentable(err error) error {
	const most, head, tail = 1000, 600, 300
	if err == nil {
		return nil
	}
	var text strings.Builder
	for _, r := range err.Error() {
		if !unicode.IsPrint(r) {
			text.WriteString(strings.Trim(strconv.QuoteRune(r), "'"))
		} else {
			text.WriteRune(r)
		}
	}
	switch s := text.String(); {
	case len(s) > most:
		return errors.New(strings.ToValidUTF8(s[:head], "") + " … " + strings.ToValidUTF8(s[len(s)-tail:], ""))
	case s != err.Error():
		return errors.New(s)
	}
	return err
}

func (b *builder) fail(format string, args ...any) {
	if b.err == nil {
		b.err = fmt.Errorf("grammar: "+format, args...)
	}
}

// rule is the index of a named rule, which may be defined later.
func (b *builder) rule(name string) int {
	i, ok := b.byName[name]
	if !ok {
		i = b.anonymous(name)
		b.byName[name] = i
	}
	return i
}

// anonymous makes a rule that nothing refers to by its name.
func (b *builder) anonymous(name string) int {
	b.names, b.rules = append(b.names, name), append(b.rules, nil)
	return len(b.rules) - 1
}

// define gives a rule its alternatives.
func (b *builder) define(rule int, alternatives ...sequence) {
	for _, s := range alternatives {
		b.ops += len(s) + 1
	}
	if b.ops > maxOps {
		b.fail("too large: more than %d steps; make repetitions shorter", maxOps)
		return
	}
	b.rules[rule] = alternatives
}

// grammar checks the rules that root reaches and lays them out.
func (b *builder) grammar(root int) (*Grammar, error) {
	if b.err != nil {
		return nil, b.err
	}
	place := map[int]int32{root: 0} // of each rule that is reached
	order := []int{root}
	for i := 0; i < len(order); i++ {
		r := order[i]
		if b.rules[r] == nil {
			return nil, fmt.Errorf("grammar: rule %q is not defined", b.names[r])
		}
		for _, s := range b.rules[r] {
			for _, t := range s {
				if _, ok := place[t.rule]; t.set == nil && !ok {
					place[t.rule] = int32(len(order))
					order = append(order, t.rule)
				}
			}
		}
	}
	if name, ok := b.leftRecursive(order); ok {
		return nil, fmt.Errorf("grammar: rule %q begins with itself; write what repeats after what it follows", name)
	}
	if !b.productive(order)[root] {
		return nil, fmt.Errorf("grammar: rule %q allows no text: every way through it comes back to itself",
			b.names[root])
	}
	g := &Grammar{}
	sets := map[byteSet]int32{}
	for _, r := range order {
		var starts []int32
		for _, s := range b.rules[r] {
			starts = append(starts, int32(len(g.ops)))
			for _, t := range s {
				if t.set == nil {
					g.ops = append(g.ops, op{opCall, place[t.rule]})
					continue
				}
				n, ok := sets[*t.set]
				if !ok {
					n = int32(len(g.sets))
					sets[*t.set] = n
					g.sets = append(g.sets, *t.set)
				}
				g.ops = append(g.ops, op{opBytes, n})
			}
			g.ops = append(g.ops, op{kind: opReturn})
		}
		g.starts = append(g.starts, starts)
	}
	return g, nil
}

// leftRecursive finds a rule that can call itself before any byte, with something left
// to do after it: reading it would pile up returns without an end. Where nothing
// is left to do, as in a repetition of what may be empty, the call replaces its caller.
func (b *builder) leftRecursive(order []int) (string, bool) {
	nullable := b.fixpoint(order, func(s sequence, is []bool) bool {
		for _, t := range s {
			if t.set != nil || !is[t.rule] {
				return false
			}
		}
		return true
	})
	type edge struct {
		to   int
		tail bool
	}
	edges := map[int][]edge{}
	for _, r := range order {
		for _, s := range b.rules[r] {
			for i, t := range s {
				if t.set != nil {
					break
				}
				edges[r] = append(edges[r], edge{t.rule, i == len(s)-1})
				if !nullable[t.rule] {
					break
				}
			}
		}
	}
	group := components(order, func(r int, visit func(int)) {
		for _, e := range edges[r] {
			visit(e.to)
		}
	})
	for _, r := range order {
		for _, e := range edges[r] {
			if !e.tail && group[r] == group[e.to] {
				return b.names[r], true
			}
		}
	}
	return "", false
}

// productive marks the rules that can come to an end.
func (b *builder) productive(order []int) []bool {
	return b.fixpoint(order, func(s sequence, is []bool) bool {
		for _, t := range s {
			if t.set == nil && !is[t.rule] {
				return false
			}
		}
		return true
	})
}

// fixpoint marks the rules of which an alternative holds, given the marked ones. Called rules mostly follow their
// callers in order, so it goes backwards.
func (b *builder) fixpoint(order []int, holds func(s sequence, is []bool) bool) []bool {
	is := make([]bool, len(b.rules))
	for changed := true; changed; {
		changed = false
		for i := len(order) - 1; i >= 0; i-- {
			r := order[i]
			if !is[r] && slices.ContainsFunc(b.rules[r], func(s sequence) bool { return holds(s, is) }) {
				is[r], changed = true, true
			}
		}
	}
	return is
}

// components numbers the strongly connected components of a graph (Tarjan 1972), without
// recursion: a chain of rules may be as long as the grammar.
func components(nodes []int, edges func(node int, visit func(int))) map[int]int {
	type frame struct {
		node int
		out  []int
	}
	index, low, group := map[int]int{}, map[int]int{}, map[int]int{}
	var stack []int
	onStack := map[int]bool{}
	groups := 0
	for _, root := range nodes {
		if _, seen := index[root]; seen {
			continue
		}
		var frames []frame
		enter := func(n int) {
			index[n], low[n] = len(index), len(index)
			stack, onStack[n] = append(stack, n), true
			var out []int
			edges(n, func(to int) { out = append(out, to) })
			frames = append(frames, frame{n, out})
		}
		enter(root)
		for len(frames) > 0 {
			f := &frames[len(frames)-1]
			if len(f.out) > 0 {
				to := f.out[0]
				f.out = f.out[1:]
				if _, seen := index[to]; !seen {
					enter(to)
				} else if onStack[to] {
					low[f.node] = min(low[f.node], index[to])
				}
				continue
			}
			n := f.node
			if low[n] == index[n] {
				for {
					top := stack[len(stack)-1]
					stack = stack[:len(stack)-1]
					onStack[top], group[top] = false, groups
					if top == n {
						break
					}
				}
				groups++
			}
			frames = frames[:len(frames)-1]
			if len(frames) > 0 {
				above := frames[len(frames)-1].node
				low[above] = min(low[above], low[n])
			}
		}
	}
	return group
}
