// Package grammar computes which tokens may come next so that a text stays within a grammar. Grammars are written in
// GBNF, llama.cpp's notation, or derived from a JSON Schema. They compile to a pushdown automaton over bytes. The
// automaton's states are built while a text is read and cached, so the set of tokens of each state is computed once.
//
// A grammar restricts the target's draws. Drafts do not change the distribution, so speculation works with a grammar as
// without one.
package grammar

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

type byteSet [4]uint64

func (s *byteSet) add(lo, hi byte) {
	for b := int(lo); b <= int(hi); b++ {
		s[b/64] |= 1 << (b % 64)
	}
}

func (s *byteSet) has(b byte) bool { return s[b/64]>>(b%64)&1 == 1 }

// keep leaves what is in another set too, or what is not.
func (s *byteSet) keep(other *byteSet, in bool) {
	for i := range s {
		if in {
			s[i] &= other[i]
		} else {
			s[i] &^= other[i]
		}
	}
}

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
	opCount                // a counter
)

// op is a place in an alternative of a rule; the next one follows it.
type op struct {
	kind opKind
	arg  int32 // the set, the rule or the counter
}

// Grammar is a set of rules over bytes; the first rule is the start symbol. It is immutable and may be shared by
// several matchers.
type Grammar struct {
	ops     []op
	starts  [][]int32 // of each rule, where its alternatives begin
	homes   []string  // of each rule, the part of the grammar that it was made for: a rule by name, a schema by path
	sets    []byteSet
	class   [256]uint8 // of each byte; the bytes of a class are in the same sets
	classes int
	// counters have the places after the last one of ops, in order.
	counters []*counter
	// behind holds for the place of a byte what follows it: a place, or ^rule for a tail call. Places that the same
	// bytes and the same end follow have the same one.
	behind []int32
	// inClasses holds the sets as sets of classes.
	inClasses []byteSet
	// firsts holds for each span of characters a byte of each class in it.
	firsts [len(characters)][][]byte

	unchecked []string // JSON Pointers
}

// Unchecked returns the keywords of the schema that the grammar does not hold to, each by its JSON Pointer.
// [SchemaOptions] named them.
func (g *Grammar) Unchecked() []string { return g.unchecked }

// home is the part of the grammar that a place belongs to.
func (g *Grammar) home(at int32) string {
	if int(at) >= len(g.ops) {
		return g.counterAt(at).home
	}
	after, _ := slices.BinarySearchFunc(g.starts, at+1, func(starts []int32, at int32) int {
		return cmp.Compare(starts[0], at)
	})
	return g.homes[after-1]
}

// maxOps bounds a grammar: an alternative of a few bytes can ask for a repetition of thousands, and repetitions nest.
const maxOps = 1 << 18

type term struct {
	rule int      // where set is nil
	set  *byteSet // one byte of it
}

type sequence []term

type rule struct {
	name, home   string // for home see Grammar
	alternatives []sequence
	counter      *counter // or nil; see [builder.count]
}

type builder struct {
	rules  []rule
	byName map[string]int
	ops    int
	layout Layout // of JSON
	budget budget
	where  string // the part of the grammar being read, for messages
	ending []bool // of each rule, whether a text of it ends
	err    error
}

func newBuilder(ctx context.Context) *builder {
	return &builder{byName: map[string]int{}, budget: budget{ctx: ctx, left: compileUnits, unseen: askUnits}}
}

// presentable puts an error on one line and cuts the middle of a long text: it quotes names and patterns of strangers,
// of any length.
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
		b.spend(16)
		i = b.anonymous(name)
		b.byName[name], b.rules[i].home = i, name
	}
	return i
}

// anonymous makes a rule that nothing refers to by its name.
func (b *builder) anonymous(name string) int {
	b.spend(32)
	if len(b.rules) == cap(b.rules) { // twice as many: a repetition may make tens of thousands
		b.rules = slices.Grow(b.rules, len(b.rules)+1)
	}
	b.rules = append(b.rules, rule{name: name, home: b.where})
	return len(b.rules) - 1
}

func (b *builder) define(rule int, alternatives ...sequence) {
	for _, s := range alternatives {
		b.ops += len(s) + 1
	}
	if b.ops > maxOps {
		b.fail("%stoo large: more than %d steps; make repetitions shorter", place(b.where), maxOps)
		return
	}
	b.rules[rule].alternatives = alternatives
}

// grammar checks the rules that root reaches and lays them out.
func (b *builder) grammar(root int) (*Grammar, error) {
	if b.err != nil {
		return nil, b.err
	}
	order, _, err := b.reached(root)
	if err != nil {
		return nil, err
	}
	if name, ok := b.leftRecursive(order); ok {
		return nil, fmt.Errorf("grammar: rule %q begins with itself; write what repeats after what it follows", name)
	}
	if b.ending = b.fixpoint(order, true); !b.ending[root] {
		return nil, noText{b.rules[root].name}
	}
	b.prune(order)
	order, place, err := b.reached(root)
	if err != nil {
		return nil, err
	}
	g := &Grammar{ops: make([]op, 0, b.ops)}
	g.starts, g.homes = make([][]int32, 0, len(order)), make([]string, 0, len(order))
	sets := map[byteSet]int32{}
	var counters []*counter
	for _, r := range order {
		alternatives := b.rules[r].alternatives
		starts := make([]int32, 0, len(alternatives))
		if c := b.rules[r].counter; c != nil {
			starts = append(starts, int32(len(g.ops)))
			g.ops = append(g.ops, op{opCount, int32(len(counters))}, op{kind: opReturn})
			counters, alternatives = append(counters, c), nil
		}
		for _, s := range alternatives {
			starts = append(starts, int32(len(g.ops)))
			for _, t := range s {
				if t.set == nil {
					g.ops = append(g.ops, op{opCall, place[t.rule] - 1})
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
		g.starts, g.homes = append(g.starts, starts), append(g.homes, b.rules[r].home)
	}
	g.classify()
	g.follow()
	return g, g.lay(counters, place)
}

// noText is the error of a grammar whose root, by its name, cannot come to an end.
type noText struct{ rule string }

func (e noText) Error() string {
	return fmt.Sprintf("grammar: rule %q allows no text: every way through it comes back to itself", e.rule)
}

// reached lists the rules that a rule reaches, itself first, and gives the place of each in the list, from 1 on.
func (b *builder) reached(root int) (order []int, place []int32, err error) {
	place = make([]int32, len(b.rules))
	place[root] = 1
	order = append(make([]int, 0, len(b.rules)), root)
	for i := 0; i < len(order); i++ {
		r := order[i]
		if b.rules[r].alternatives == nil {
			return nil, nil, fmt.Errorf("grammar: rule %q is not defined", b.rules[r].name)
		}
		for _, s := range b.rules[r].alternatives {
			for _, t := range s {
				if t.set == nil && place[t.rule] == 0 {
					order = append(order, t.rule)
					place[t.rule] = int32(len(order))
				}
			}
		}
	}
	return order, place, nil
}

// prune takes away the alternatives that cannot come to an end: a text that began one would be stuck.
func (b *builder) prune(order []int) {
	for _, r := range order {
		b.rules[r].alternatives = slices.DeleteFunc(b.rules[r].alternatives, func(s sequence) bool {
			return slices.ContainsFunc(s, func(t term) bool { // bound: each term once
				return t.set == nil && !b.ending[t.rule]
			})
		})
	}
}

// classify puts the bytes that no set tells apart into one class: a matcher has one state for each class.
func (g *Grammar) classify() {
	g.classes = 1
	for _, set := range g.sets {
		halves := map[uint8]uint8{} // of a class, its new one: of the bytes within the set, unless all of them are
		var within, without [256]bool
		for c := range 256 {
			if set.has(byte(c)) {
				within[g.class[c]] = true
			} else {
				without[g.class[c]] = true
			}
		}
		for c := range 256 {
			old := g.class[c]
			if !set.has(byte(c)) || !within[old] || !without[old] {
				continue
			}
			half, ok := halves[old]
			if !ok {
				half = uint8(g.classes)
				halves[old] = half
				g.classes++
			}
			g.class[c] = half
		}
	}
	g.inClasses = make([]byteSet, len(g.sets))
	for _, b := range g.firstsOf(span{lo: 0, hi: 255}) {
		for i := range g.sets {
			if g.sets[i].has(b) {
				g.inClasses[i].add(g.class[b], g.class[b])
			}
		}
	}
	for part, spans := range characters {
		for _, s := range spans {
			g.firsts[part] = append(g.firsts[part], g.firstsOf(s))
		}
	}
}

// follow finds what is behind the places of bytes.
func (g *Grammar) follow() {
	type rest struct{ set, behind int32 }
	first, end := map[rest]int32{}, int32(-1)
	g.behind = make([]int32, len(g.ops))
	for i := len(g.ops) - 2; i >= 0; i-- {
		if g.ops[i].kind != opBytes {
			continue
		}
		to := int32(i + 1)
		switch next := g.ops[to]; {
		case next.kind == opBytes:
			same := rest{next.arg, g.behind[to]}
			if at, ok := first[same]; ok {
				to = at
			} else {
				first[same] = to
			}
		case next.kind == opCall && g.ops[to+1].kind == opReturn:
			to = ^next.arg
		case next.kind == opReturn && end < 0:
			end = to
		case next.kind == opReturn:
			to = end
		}
		g.behind[i] = to
	}
}

// leftRecursive finds a rule that can call itself before any byte, with something left
// to do after it: reading it would grow the stack without bound. Where nothing
// is left to do, as in a repetition of what may be empty, the call replaces its caller.
func (b *builder) leftRecursive(order []int) (string, bool) {
	nullable := b.fixpoint(order, false)
	calls := make([]call, 0, b.ops)
	first := make([][]call, len(b.rules)) // of each rule, those that it can make before any byte
	for _, r := range order {
		from := len(calls)
		for _, s := range b.rules[r].alternatives {
			for i, t := range s {
				if t.set != nil {
					break
				}
				calls = append(calls, call{int32(t.rule), i == len(s)-1})
				if !nullable[t.rule] {
					break
				}
			}
		}
		first[r] = calls[from:]
	}
	group := components(order, first)
	for _, r := range order {
		for _, c := range first[r] {
			if !c.tail && group[r] == group[c.to] {
				return b.rules[r].name, true
			}
		}
	}
	return "", false
}

// call is one rule's call of another. A tail call is the last part of its sequence.
type call struct {
	to   int32
	tail bool
}

// fixpoint marks the rules that have an alternative of marked rules alone, and of bytes if those are allowed. Each
// alternative waits for the calls in it (Dowling and Gallier 1984), so the work equals reading the rules once.
func (b *builder) fixpoint(order []int, bytes bool) []bool {
	type alternative struct{ rule, waits int32 }
	type caller struct{ alternative, next int32 } // of a rule; the next one's number, 0 after the last
	all, callers := make([]alternative, 0, b.ops), make([]caller, 1, b.ops+1)
	is, first := make([]bool, len(b.rules)), make([]int32, len(b.rules))
	marked := make([]int32, 0, len(order))
	mark := func(rule int32) {
		if !is[rule] {
			is[rule], marked = true, append(marked, rule)
		}
	}
	for _, r := range order {
		for _, s := range b.rules[r].alternatives {
			if !bytes && slices.ContainsFunc(s, func(t term) bool { return t.set != nil }) { // bound: each term once
				continue
			}
			waits := int32(0)
			for _, t := range s {
				if t.set == nil {
					callers = append(callers, caller{int32(len(all)), first[t.rule]})
					first[t.rule] = int32(len(callers) - 1)
					waits++
				}
			}
			if all = append(all, alternative{int32(r), waits}); waits == 0 {
				mark(int32(r))
			}
		}
	}
	for len(marked) > 0 {
		r := marked[len(marked)-1]
		marked = marked[:len(marked)-1]
		for c := first[r]; c != 0; c = callers[c].next {
			if a := &all[callers[c].alternative]; a.waits == 1 {
				mark(a.rule)
			} else {
				a.waits--
			}
		}
	}
	return is
}

// components numbers the strongly connected components of the rules that call each other (Tarjan 1972), without
// recursion: a chain of rules may be as long as the grammar.
func components(rules []int, calls [][]call) []int32 {
	type frame struct {
		rule int32
		left []call
	}
	n := len(calls)
	index, low, group := make([]int32, n), make([]int32, n), make([]int32, n) // an index of 0: not seen
	stack, frames := make([]int32, 0, len(rules)), make([]frame, 0, len(rules))
	onStack := make([]bool, n)
	seen, groups := int32(0), int32(0)
	enter := func(r int32) {
		seen++
		index[r], low[r] = seen, seen
		stack, onStack[r] = append(stack, r), true
		frames = append(frames, frame{r, calls[r]})
	}
	for _, root := range rules {
		if index[root] == 0 {
			enter(int32(root))
		}
		for len(frames) > 0 {
			f := &frames[len(frames)-1]
			r := f.rule
			if len(f.left) > 0 {
				to := f.left[0].to
				f.left = f.left[1:]
				if index[to] == 0 {
					enter(to)
				} else if onStack[to] {
					low[r] = min(low[r], index[to])
				}
				continue
			}
			if low[r] == index[r] {
				for onStack[r] {
					top := stack[len(stack)-1]
					stack = stack[:len(stack)-1]
					onStack[top], group[top] = false, groups
				}
				groups++
			}
			frames = frames[:len(frames)-1]
			if len(frames) > 0 {
				above := frames[len(frames)-1].rule
				low[above] = min(low[above], low[r])
			}
		}
	}
	return group
}
