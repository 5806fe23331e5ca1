package lang

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// LongestPattern is the most bytes of an expression.
const LongestPattern = 16 << 10

const (
	deepestGroup = 200
	mostRepeats  = 1 << 30 // a larger count means this one: no budget reaches it
)

type op uint8

const (
	opSet    op = iota // one code point of ranges
	opCat              // parts in order; without parts the empty text
	opAlt              // one of the parts
	opRepeat           // parts[0], least to most times
	opLook             // look
)

// node is a part of a parsed expression.
type node struct {
	op          op
	ranges      []Range
	parts       []*node
	least, most int // most < 0 is no bound
	look        int // an index of expression.looks
}

// look is a condition on the text around a place, which takes no text. ^, $ and \b are looks too.
type look struct {
	behind, not bool
	body        *node
	looksBehind bool // the body has a look at what is before the place
}

// expression is a parsed expression. A look comes after the looks inside it.
type expression struct {
	root  *node
	looks []look
}

// flags of ECMA-262's modifiers (?ims-ims:…).
type flags struct{ ignoreCase, multiline, dotAll bool }

// parser reads ECMA-262's Pattern, section 22.2.1, with the flag u, and what is harmless without it.
type parser struct {
	m           *Maker
	s           string
	at          int
	longest     int // of the strings that are meant; < 0: no bound
	depth       int
	insideLook  int // how many lookbehinds are open
	flags       flags
	expr        expression
	shared      map[string]int // looks for ^, $ and \b by the name of their kind
	classes     map[string][]Range
	looksBehind bool // a look at what is before was read since this was last cleared
	err         error
}

func (m *Maker) parse(source string, longest int) (*expression, error) {
	if len(source) > LongestPattern {
		return nil, fmt.Errorf("an expression of %d bytes; at most %d", len(source), LongestPattern)
	}
	p := &parser{m: m, s: source, longest: longest, shared: map[string]int{}, classes: map[string][]Range{}}
	p.expr.root = p.alternatives()
	if p.err == nil && p.at < len(p.s) {
		p.fail("a ) without a (; write \\) for the character")
	}
	if p.err != nil {
		return nil, p.err
	}
	return &p.expr, nil
}

// errSpent ends parsing when no more may be spent.
var errSpent = errors.New("no more may be spent")

func (p *parser) fail(format string, args ...any) *node {
	if p.err == nil {
		p.err = fmt.Errorf(format, args...)
	}
	p.at = len(p.s)
	return &node{op: opCat}
}

//go:noinline
func (p *parser) spend(units int) bool {
	if p.err == nil && !p.m.spend(units) {
		p.err, p.at = errSpent, len(p.s)
	}
	return p.err == nil
}

// next is the code point at hand; -1 at the end.
//
//go:noinline
func (p *parser) next() rune {
	if p.at >= len(p.s) {
		return -1
	}
	c, _ := utf8.DecodeRuneInString(p.s[p.at:])
	return c
}

//go:noinline
func (p *parser) take(prefix string) bool {
	if strings.HasPrefix(p.s[p.at:], prefix) {
		p.at += len(prefix)
		return true
	}
	return false
}

// rune takes the code point at hand, which is there.
//
//go:noinline
func (p *parser) rune() rune {
	c, size := utf8.DecodeRuneInString(p.s[p.at:])
	p.at += size
	return c
}

func (p *parser) alternatives() *node {
	all := []*node{p.sequence()}
	for p.take("|") {
		all = append(all, p.sequence())
	}
	if len(all) == 1 {
		return all[0]
	}
	return &node{op: opAlt, parts: all}
}

func (p *parser) sequence() *node {
	n := &node{op: opCat}
	for p.at < len(p.s) && p.next() != '|' && p.next() != ')' && p.spend(8) {
		n.parts = append(n.parts, p.quantified(p.atom()))
	}
	return n
}

func (p *parser) quantified(n *node) *node {
	least, most, ok := p.quantifier()
	if !ok {
		return n
	}
	if p.longest >= 0 && most >= p.longest { // no string has room for more
		most = -1
	}
	if p.take("?") || p.err != nil { // a lazy quantifier repeats as often as a greedy one may
		return &node{op: opRepeat, parts: []*node{n}, least: least, most: most}
	}
	if p.next() == '+' {
		return p.fail("a possessive quantifier is not ECMA-262; leave out the second +")
	}
	if at := p.at; p.at < len(p.s) {
		if _, _, again := p.quantifier(); again {
			return p.fail("two quantifiers in a row at byte %d; write (?:…) around the first", at)
		}
	}
	return &node{op: opRepeat, parts: []*node{n}, least: least, most: most}
}

func (p *parser) quantifier() (least, most int, ok bool) {
	switch {
	case p.take("*"):
		return 0, -1, true
	case p.take("+"):
		return 1, -1, true
	case p.take("?"):
		return 0, 1, true
	case p.next() != '{':
		return 0, 0, false
	}
	start := p.at
	p.at++
	least, some := p.number()
	most = least
	if p.take(",") {
		bounded := false
		if most, bounded = p.number(); !bounded {
			most = -1
		}
		if !some && bounded && p.take("}") {
			p.fail("{,n} is not a quantifier of ECMA-262; write {0,n}")
			return 0, 0, false
		}
	}
	if !some || !p.take("}") {
		p.at = start
		return 0, 0, false
	}
	if most >= 0 && least > most {
		p.fail("{%d,%d} has its bounds in the wrong order", least, most)
	}
	return least, most, true
}

// number takes digits.
func (p *parser) number() (n int, some bool) {
	for p.at < len(p.s) && p.s[p.at] >= '0' && p.s[p.at] <= '9' {
		n, some = min(10*n+int(p.s[p.at]-'0'), mostRepeats), true
		p.at++
	}
	return n, some
}

func (p *parser) atom() *node {
	switch c := p.next(); c {
	case '^', '$':
		p.at++
		return p.edge(c == '$')
	case '(':
		p.at++
		return p.group()
	case '[':
		p.at++
		return &node{op: opSet, ranges: p.class()}
	case '.':
		p.at++
		if p.flags.dotAll {
			return &node{op: opSet, ranges: scalars}
		}
		return &node{op: opSet, ranges: notLines}
	case '\\':
		p.at++
		return p.escape()
	case '*', '+', '?':
		return p.fail("nothing to repeat before %c at byte %d; write \\%c for the character", c, p.at, c)
	case '{': // a character, unless it reads as a quantifier
		if _, _, ok := p.quantifier(); ok || p.err != nil {
			return p.fail("nothing to repeat before {; write \\{ for the character")
		}
	}
	return p.char(p.rune())
}

func (p *parser) char(c rune) *node {
	return &node{op: opSet, ranges: p.folded([]Range{{c, c}})}
}

// edge is ^ or $.
func (p *parser) edge(end bool) *node {
	outside := scalars // what must not be beyond the place
	if p.flags.multiline {
		outside = notLines
	}
	name := fmt.Sprint("edge", end, p.flags.multiline)
	return p.lookShared(name, look{behind: !end, not: true, body: &node{op: opSet, ranges: outside}})
}

// boundary is \b or \B: of what is before a place and what is behind it, one or both are characters of words.
func (p *parser) boundary(not bool) *node {
	word := &node{op: opSet, ranges: p.words()}
	kind := func(behind, not bool) *node {
		name := fmt.Sprint("word", behind, not, p.flags.ignoreCase)
		return p.lookShared(name, look{behind: behind, not: not, body: word})
	}
	return &node{op: opAlt, parts: []*node{
		{op: opCat, parts: []*node{kind(true, false), kind(false, !not)}},
		{op: opCat, parts: []*node{kind(true, true), kind(false, not)}},
	}}
}

func (p *parser) lookShared(name string, l look) *node {
	if p.insideLook > 0 && !l.behind {
		return p.fail("$ and \\b are not supported inside a lookbehind")
	}
	p.looksBehind = p.looksBehind || l.behind
	id, ok := p.shared[name]
	if !ok {
		id = len(p.expr.looks)
		p.shared[name] = id
		p.expr.looks = append(p.expr.looks, l)
	}
	return &node{op: opLook, look: id}
}

// group reads what follows a (.
func (p *parser) group() *node {
	if p.depth++; p.depth > deepestGroup {
		return p.fail("groups nested more than %d deep", deepestGroup)
	}
	before := p.flags
	var n *node
	switch {
	case !p.take("?"), p.take(":"):
		n = p.alternatives()
	case p.take("="):
		n = p.look(look{})
	case p.take("!"):
		n = p.look(look{not: true})
	case p.take("<="):
		n = p.look(look{behind: true})
	case p.take("<!"):
		n = p.look(look{behind: true, not: true})
	case p.take("<"):
		p.name()
		n = p.alternatives()
	default:
		p.modifiers()
		n = p.alternatives()
	}
	if p.err == nil && !p.take(")") {
		return p.fail("a ( without its )")
	}
	p.depth--
	p.flags = before
	return n
}

func (p *parser) look(l look) *node {
	if l.behind {
		p.insideLook++
	} else if p.insideLook > 0 {
		return p.fail("a lookahead inside a lookbehind is not supported")
	}
	before := p.looksBehind
	p.looksBehind = false
	l.body = p.alternatives()
	l.looksBehind = p.looksBehind
	p.looksBehind = before || p.looksBehind || l.behind
	if l.behind {
		p.insideLook--
	}
	p.expr.looks = append(p.expr.looks, l)
	return &node{op: opLook, look: len(p.expr.looks) - 1}
}

// name takes the name of a group and its >.
func (p *parser) name() {
	start := p.at
	for p.at < len(p.s) && p.next() != '>' {
		kind := "ID_Continue"
		if p.at == start {
			kind = "ID_Start"
		}
		if c := p.rune(); !holds(p.property(kind), c) && c != '$' && c != '_' {
			p.fail("a group's name has a character that it cannot have, before byte %d", p.at)
		}
	}
	if p.err == nil && (p.at == start || !p.take(">")) {
		p.fail("a group (?<name>…) without its name or its >")
	}
}

// modifiers reads i, m and s, up to the colon.
func (p *parser) modifiers() {
	start, on := p.at, true
	for ; p.at < len(p.s); p.at++ {
		switch p.s[p.at] {
		case 'i':
			p.flags.ignoreCase = on
		case 'm':
			p.flags.multiline = on
		case 's':
			p.flags.dotAll = on
		case '-':
			if !on {
				p.fail("a group's flags have two -")
				return
			}
			on = false
		case ':':
			p.at++
			return
		case ')':
			if p.at > start {
				p.fail("flags for all that follows are not ECMA-262; write (?%.9s:…) around it", p.s[start:p.at])
				return
			}
			p.unknownGroup(start)
			return
		default:
			p.unknownGroup(start)
			return
		}
	}
	p.unknownGroup(start)
}

func (p *parser) unknownGroup(start int) {
	p.at = start
	switch p.next() {
	case 'P', '\'':
		p.fail("this spelling of a named group is not ECMA-262; write (?<name>…)")
	case '>':
		p.fail("an atomic group is not ECMA-262; write (?:…)")
	case '#':
		p.fail("a comment is not ECMA-262; leave it out")
	default:
		p.fail("an unknown kind of group at byte %d; write (?:…)", start)
	}
}

// escape reads what follows a \ outside classes.
func (p *parser) escape() *node {
	switch p.next() {
	case 'b', 'B':
		return p.boundary(p.rune() == 'B')
	case 'k':
		return p.fail("references back to a group are not supported; write its expression again")
	case '1', '2', '3', '4', '5', '6', '7', '8', '9':
		return p.fail("references back to a group are not supported; write its expression again")
	case 'A':
		return p.fail("\\A is not ECMA-262; write ^")
	case 'z', 'Z':
		return p.fail("\\%c is not ECMA-262; write $", p.next())
	}
	if ranges, ok := p.classEscape(); ok {
		return &node{op: opSet, ranges: ranges}
	}
	c := p.charEscape()
	if utf16.IsSurrogate(c) {
		p.half()
	}
	return p.char(c)
}

// charEscape reads an escape of one character after its \.
func (p *parser) charEscape() rune {
	if p.at == len(p.s) {
		p.fail("a \\ at the end; write \\\\ for the character")
		return 0
	}
	switch c := p.rune(); c {
	case 't':
		return '\t'
	case 'n':
		return '\n'
	case 'v':
		return '\v'
	case 'f':
		return '\f'
	case 'r':
		return '\r'
	case '0':
		if p.next() >= '0' && p.next() <= '9' {
			p.fail("an octal escape is not ECMA-262; write \\xHH")
		}
		return 0
	case 'c':
		if l := p.next() | 0x20; p.next() < 0x80 && l >= 'a' && l <= 'z' {
			return p.rune() & 31
		}
		p.fail("\\c without a letter")
		return 0
	case 'x':
		return p.hex(2)
	case 'u':
		return p.unicode()
	default:
		if c < '0' || c >= 0x80 || c > '9' && c < 'A' || c > 'Z' && c < 'a' || c > 'z' {
			return c
		}
		p.fail("\\%c is no escape of ECMA-262%s", c, lookup(instead, string(c)))
		return 0
	}
}

// instead has what to write for escapes of other dialects, a line each.
const instead = `
a ; write \x07
e ; write \x1B
h ; write [\t\p{Zs}]
H ; write [^\t\p{Zs}]
R ; write \r?\n
N ; write .
X ; write .
K ; write (?<=…)
Q ; write a \ before each character
E ; write a \ before each character
l ; write \p{Ll}
`

// hex takes as many digits as there must be.
func (p *parser) hex(digits int) (c rune) {
	for range digits {
		d := digit(p.next())
		if d < 0 {
			p.fail("an escape that wants %d hexadecimal digits has fewer; \\u{…} takes any number", digits)
			return 0
		}
		p.at++
		c = c<<4 | d
	}
	return c
}

func digit(c rune) rune {
	switch {
	case c >= '0' && c <= '9':
		return c - '0'
	case c >= 'a' && c <= 'f':
		return c - 'a' + 10
	case c >= 'A' && c <= 'F':
		return c - 'A' + 10
	}
	return -1
}

// unicode reads what follows \u. Escapes of two surrogates in order are one character.
func (p *parser) unicode() (c rune) {
	if p.take("{") {
		start := p.at
		for digit(p.next()) >= 0 && c <= utf8.MaxRune {
			c = c<<4 | digit(p.rune())
		}
		if c > utf8.MaxRune || p.at == start || !p.take("}") {
			p.fail("\\u{…} wants a code point of hexadecimal digits up to 10FFFF")
		}
		return c
	}
	c = p.hex(4)
	if at := p.at; c >= 0xD800 && c < 0xDC00 && p.take("\\u") && digit(p.next()) >= 0 {
		if both := utf16.DecodeRune(c, p.hex(4)); both != utf8.RuneError {
			return both
		}
		p.at = at
	} else if p.err == nil {
		p.at = at
	}
	return c
}
