package tokenizer

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// pattern is a compiled expression of a pre-tokenizer: alternatives, of which the first that matches counts, of
// classes, groups, greedy repetitions, look-ahead, $ and \b. Go's regexp has no look-ahead. Matching takes time
// proportional to the text, because a place from which the rest of an expression failed is not tried again (match.go).
type pattern struct {
	prog  []inst
	first [2]uint64 // the ASCII characters that a match can begin with; other characters are tried
	marks int       // instructions whose failures are remembered place by place
	runs  int       // and run by run
}

type inst struct {
	op     op
	class  *class
	lo, hi int // of opRun: how often the class matches
	x, y   int // of opSplit: instructions to go on with, x first; of opJump and opLook: x follows
	mark   int // -1 if a failure is not remembered
	not    bool
}

type op uint8

const (
	opClass  op = iota // one character of a class
	opRun              // lo to hi of them, as many as possible
	opSplit            // x, or y if that fails
	opJump             // x
	opLook             // the body after it, up to an opAccept, has to match, or not to match, before x
	opEnd              // the end of the text
	opWord             // a word begins or ends
	opAccept           // a match
)

// compile reads an expression.
func compile(expr string) (*pattern, error) {
	c := compiler{text: []rune(expr)}
	n := c.alternatives()
	if c.err == nil && c.at < len(c.text) {
		c.fail("a %q too many", c.text[c.at])
	}
	if c.err != nil {
		return nil, c.err
	}
	c.emit(n, false)
	c.add(inst{op: opAccept})
	c.pattern.begin(0)
	return &c.pattern, nil
}

// node is a part of an expression.
type node struct {
	kind   nodeKind
	class  *class
	parts  []node
	lo, hi int  // of nodeRepeat
	not    bool // of nodeLook
}

type nodeKind uint8

const (
	nodeClass nodeKind = iota
	nodeSequence
	nodeChoice
	nodeRepeat
	nodeLook
	nodeEnd
	nodeWord
)

type compiler struct {
	text    []rune
	at      int
	err     error
	pattern pattern
}

func (c *compiler) fail(format string, args ...any) {
	if c.err == nil {
		c.err = fmt.Errorf("expression %q: at %d: %s", string(c.text), c.at, fmt.Sprintf(format, args...))
	}
}

// take skips a text if it comes next.
func (c *compiler) take(s string) bool {
	n := len([]rune(s))
	if c.at+n > len(c.text) || string(c.text[c.at:c.at+n]) != s {
		return false
	}
	c.at += n
	return true
}

func (c *compiler) next() rune {
	if c.at == len(c.text) {
		c.fail("it ends too early")
		return 0
	}
	c.at++
	return c.text[c.at-1]
}

func (c *compiler) alternatives() node {
	all := []node{c.sequence()}
	for c.take("|") {
		all = append(all, c.sequence())
	}
	if len(all) == 1 {
		return all[0]
	}
	return node{kind: nodeChoice, parts: all}
}

func (c *compiler) sequence() node {
	n := node{kind: nodeSequence}
	for c.err == nil && c.at < len(c.text) && c.text[c.at] != '|' && c.text[c.at] != ')' {
		n.parts = append(n.parts, c.repeated())
	}
	return n
}

func (c *compiler) repeated() node {
	n := c.single()
	lo, hi := 0, math.MaxInt
	switch {
	case c.take("*"):
	case c.take("+"):
		lo = 1
	case c.take("?"):
		hi = 1
	case c.take("{"):
		from, to, found := strings.Cut(c.until('}'), ",")
		if !found {
			to = from
		}
		var err1, err2 error
		if lo, err1 = strconv.Atoi(from); err1 != nil {
			c.fail("a number is missing")
		}
		if hi, err2 = strconv.Atoi(to); err2 != nil || hi < lo || hi == 0 {
			c.fail("a number is missing")
		}
	default:
		return n
	}
	if c.at < len(c.text) && strings.ContainsRune("*+?{", c.text[c.at]) {
		c.fail("repetitions are greedy only")
	}
	return node{kind: nodeRepeat, parts: []node{n}, lo: lo, hi: hi}
}

// until returns the text before a character and skips both.
func (c *compiler) until(end rune) string {
	from := c.at
	for c.err == nil && c.next() != end {
	}
	return string(c.text[from:max(from, c.at-1)])
}

func (c *compiler) single() node {
	switch {
	case c.take("(?="):
		return c.group(node{kind: nodeLook})
	case c.take("(?!"):
		return c.group(node{kind: nodeLook, not: true})
	case c.take("(?:"), c.take("("):
		return c.group(node{kind: nodeSequence})
	case c.take("$"):
		return node{kind: nodeEnd}
	case c.take(`\b`):
		return node{kind: nodeWord}
	case c.take(`\S`):
		return node{kind: nodeClass, class: (&class{has: catSpace, not: true}).complete()}
	case c.take("["):
		return node{kind: nodeClass, class: c.set()}
	}
	s := &class{}
	c.member(s)
	return node{kind: nodeClass, class: s.complete()}
}

func (c *compiler) group(n node) node {
	n.parts = []node{c.alternatives()}
	if !c.take(")") {
		c.fail("a ) is missing")
	}
	return n
}

// set reads a class behind its [.
func (c *compiler) set() *class {
	s := &class{not: c.take("^")}
	for c.err == nil && !c.take("]") {
		if c.take("&&[^") {
			s.except = c.set()
			continue
		}
		c.member(s)
	}
	return s.complete()
}

// member adds a character, a range of them or the characters of a property to a class.
func (c *compiler) member(s *class) {
	r, has := c.character()
	if has != 0 {
		s.has |= has
		return
	}
	last := r
	if c.at+1 < len(c.text) && c.text[c.at] == '-' && c.text[c.at+1] != ']' {
		c.at++
		if last, has = c.character(); has != 0 || last < r {
			c.fail("a range without an end")
		}
	}
	s.ranges = append(s.ranges, r, last)
}

// character reads one character, or a property.
func (c *compiler) character() (rune, category) {
	r := c.next()
	if r != '\\' {
		return r, 0
	}
	switch r = c.next(); r {
	case 'r':
		return '\r', 0
	case 'n':
		return '\n', 0
	case 't':
		return '\t', 0
	case 's':
		return 0, catSpace
	case 'd':
		return 0, catNd
	case 'p':
		c.take("{")
		name := c.until('}')
		has, ok := properties[name]
		if !ok {
			c.fail("no property is called %s", name)
		}
		return 0, has
	}
	if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
		c.fail(`\%c is not known`, r)
	}
	return r, 0
}

func (c *compiler) add(in inst) int {
	c.pattern.prog = append(c.pattern.prog, in)
	return len(c.pattern.prog) - 1
}

// emit appends the instructions of a part. inner: it lies in a loop or in look-ahead, so one of its places may be
// reached in several ways.
func (c *compiler) emit(n node, inner bool) {
	mark := func() int {
		if !inner {
			return -1
		}
		c.pattern.marks++
		return c.pattern.marks - 1
	}
	here := func() int { return len(c.pattern.prog) }
	prog := func(i int) *inst { return &c.pattern.prog[i] }
	switch n.kind {
	case nodeClass:
		c.add(inst{op: opClass, class: n.class})
	case nodeSequence:
		for _, p := range n.parts {
			c.emit(p, inner)
		}
	case nodeChoice:
		var ends []int
		for i, p := range n.parts {
			if i == len(n.parts)-1 {
				c.emit(p, inner)
				break
			}
			split := c.add(inst{op: opSplit, mark: mark()})
			prog(split).x = here()
			c.emit(p, inner)
			ends = append(ends, c.add(inst{op: opJump}))
			prog(split).y = here()
		}
		for _, i := range ends {
			prog(i).x = here()
		}
	case nodeRepeat:
		body := n.parts[0]
		for body.kind == nodeSequence && len(body.parts) == 1 {
			body = body.parts[0]
		}
		if body.kind == nodeClass {
			c.add(inst{op: opRun, class: body.class, lo: n.lo, hi: n.hi, mark: c.pattern.runs})
			c.pattern.runs++
			return
		}
		for range n.lo {
			c.emit(body, inner)
		}
		if n.hi == math.MaxInt {
			inner = true
			split := c.add(inst{op: opSplit, mark: mark()})
			prog(split).x = here()
			c.emit(body, true)
			c.add(inst{op: opJump, x: split})
			prog(split).y = here()
			return
		}
		var splits []int
		for range n.hi - n.lo {
			split := c.add(inst{op: opSplit, mark: mark()})
			prog(split).x = here()
			splits = append(splits, split)
			c.emit(body, inner)
		}
		for _, i := range splits {
			prog(i).y = here()
		}
	case nodeLook:
		look := c.add(inst{op: opLook, not: n.not})
		c.emit(n.parts[0], true)
		c.add(inst{op: opAccept})
		prog(look).x = here()
	case nodeEnd:
		c.add(inst{op: opEnd})
	case nodeWord:
		c.add(inst{op: opWord})
	}
}

// begin collects the characters that a match from an instruction on can begin with.
func (p *pattern) begin(pc int) {
	in := &p.prog[pc]
	switch in.op {
	case opClass, opRun:
		for i, b := range in.class.ascii {
			p.first[i] |= b
		}
		if in.op == opRun && in.lo == 0 {
			p.begin(pc + 1)
		}
	case opSplit:
		p.begin(in.x)
		p.begin(in.y)
	case opJump:
		p.begin(in.x)
	default:
		p.first = [2]uint64{math.MaxUint64, math.MaxUint64}
	}
}
