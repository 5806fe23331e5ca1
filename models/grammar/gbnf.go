package grammar

import (
	"context"
	"fmt"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// ParseGBNF reads a grammar in llama.cpp's notation: rules `name ::= alternatives`, of which "root" is the text;
// literals "…", classes […] and [^…], any character ., groups (…), repetitions * + ? {m} {m,} {m,n}, comments after #.
// Compiling ends with ctx, and is refused where it takes more work than any text should.
func ParseGBNF(ctx context.Context, source string) (*Grammar, error) {
	return newBuilder(ctx).gbnf(source)
}

func (b *builder) gbnf(source string) (g *Grammar, err error) {
	defer func() { err = presentable(err) }()
	if err := sized(len(source)); err != nil {
		return nil, err
	}
	p := &gbnf{b: b, s: source}
	for p.space(true); p.at < len(p.s) && p.err == nil; p.space(true) {
		p.rule()
	}
	if p.err != nil {
		return nil, p.err
	}
	root, ok := p.b.byName["root"]
	if !ok {
		return nil, fmt.Errorf("grammar: there is no rule \"root\": add root ::= …")
	}
	return p.b.grammar(root)
}

// deepestGroup bounds the recursion of the reader.
const deepestGroup = 200

type gbnf struct {
	b     *builder
	s     string
	at    int
	depth int
	err   error
}

func (p *gbnf) fail(format string, args ...any) {
	if p.err == nil {
		line := 1 + strings.Count(p.s[:p.at], "\n")
		p.err = fmt.Errorf("grammar: line %d: %w", line, fmt.Errorf(format, args...))
	}
}

// space skips blanks and comments, and line ends where a rule may go on behind them.
func (p *gbnf) space(lines bool) {
	for p.at < len(p.s) {
		switch c := p.s[p.at]; {
		case c == ' ' || c == '\t' || lines && (c == '\n' || c == '\r'):
			p.at++
		case c == '#':
			for p.at < len(p.s) && p.s[p.at] != '\n' && p.s[p.at] != '\r' {
				p.at++
			}
		default:
			return
		}
	}
}

func (p *gbnf) peek() byte {
	if p.at < len(p.s) {
		return p.s[p.at]
	}
	return 0
}

func (p *gbnf) take(word string) bool {
	if strings.HasPrefix(p.s[p.at:], word) {
		p.at += len(word)
		return true
	}
	return false
}

func isNameByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_'
}

func (p *gbnf) name() string {
	from := p.at
	for p.at < len(p.s) && isNameByte(p.s[p.at]) {
		p.at++
	}
	if p.at == from {
		p.fail("want the name of a rule, have %q", rest(p.s[p.at:]))
	}
	return p.s[from:p.at]
}

// rest is the beginning of what is left, for messages.
func rest(s string) string {
	if len(s) > 20 {
		s = s[:20] + "…"
	}
	return s
}

func (p *gbnf) rule() {
	name := p.name()
	p.space(false)
	if p.err == nil && !p.take("::=") {
		p.fail("want ::= after %q", name)
	}
	if p.err != nil {
		return
	}
	r := p.b.rule(name)
	p.b.where = name
	if p.b.rules[r].alternatives != nil {
		p.fail("rule %q is defined twice", name)
		return
	}
	p.space(true)
	begin := p.at
	alternatives := p.alternatives(false)
	if p.err == nil && len(alternatives) == 1 && p.at == begin {
		p.fail("rule %q is empty: write what it allows after ::=, \"\" for the empty text", name)
	}
	if p.err == nil {
		p.b.define(r, alternatives...)
		p.err = p.b.err
	}
	if c := p.peek(); p.err == nil && p.at < len(p.s) && c != '\n' && c != '\r' {
		p.fail("cannot read %q", rest(p.s[p.at:]))
	}
}

func (p *gbnf) alternatives(nested bool) []sequence {
	if p.depth++; p.depth > deepestGroup {
		p.fail("groups are nested deeper than %d", deepestGroup)
	}
	defer func() { p.depth-- }()
	all := []sequence{p.sequence(nested)}
	for p.err == nil && p.bar() {
		p.space(true)
		all = append(all, p.sequence(nested))
	}
	return all
}

// bar takes the sign before another alternative, which may stand on the next line.
func (p *gbnf) bar() bool {
	before := p.at
	p.space(true)
	if p.take("|") {
		return true
	}
	p.at = before
	return false
}

func (p *gbnf) sequence(nested bool) sequence {
	out := sequence{}
	for p.err == nil {
		var one sequence
		switch c := p.peek(); {
		case c == '"':
			one = p.literal()
		case c == '[':
			one = p.class()
		case c == '.':
			p.at++
			one = p.b.class(runeRange{0, utf8.MaxRune})
		case c == '(':
			p.at++
			p.space(true)
			group := p.alternatives(true)
			if p.err == nil && !p.take(")") {
				p.fail("a group is not closed: want ) before %q", rest(p.s[p.at:]))
			}
			one = p.b.either(group...)
		case isNameByte(c):
			one = p.b.named(p.name())
		default:
			return out
		}
		p.space(nested)
		one = p.repeated(one, nested)
		if p.b.spend(len(one)) {
			out = append(out, one...)
		}
		if p.err == nil {
			p.err = p.b.err
		}
		if len(out) > maxOps {
			p.fail("a sequence of more than %d steps", maxOps)
		}
	}
	return out
}

// repeated reads the signs of repetition behind a part.
func (p *gbnf) repeated(s sequence, nested bool) sequence {
	for p.err == nil && p.b.err == nil { // each + has a copy of all before it, which the builder's bound ends
		least, most := 0, -1
		switch p.peek() {
		case '*':
			p.at++
		case '+':
			p.at++
			least = 1
		case '?':
			p.at++
			most = 1
		case '{':
			p.at++
			least, most = p.bounds()
		default:
			return s
		}
		if p.err == nil {
			s = p.b.repeat(s, least, most)
		}
		p.space(nested)
	}
	return s
}

func (p *gbnf) bounds() (least, most int) {
	p.space(true)
	least = p.number()
	most = least
	p.space(true)
	if p.take(",") {
		p.space(true)
		if most = -1; p.peek() != '}' {
			most = p.number()
			p.space(true)
		}
	}
	if p.err == nil && !p.take("}") {
		p.fail("want } after the bounds of a repetition")
	}
	if p.err == nil && most >= 0 && most < least {
		p.fail("a repetition of at least %d and at most %d", least, most)
	}
	return least, most
}

func (p *gbnf) number() int {
	n, from := 0, p.at
	for p.at < len(p.s) && p.s[p.at] >= '0' && p.s[p.at] <= '9' {
		if n = n*10 + int(p.s[p.at]-'0'); n > maxOps {
			p.fail("a repetition of more than %d", maxOps)
			return 0
		}
		p.at++
	}
	if p.at == from {
		p.fail("want a number, have %q", rest(p.s[p.at:]))
	}
	return n
}

func (p *gbnf) literal() sequence {
	p.at++
	var out strings.Builder
	for p.err == nil {
		if p.take(`"`) {
			return p.b.text(out.String())
		}
		if c := p.peek(); p.at == len(p.s) || c == '\n' {
			p.fail("a literal is not closed: want \"")
			break
		}
		r, raw := p.character()
		if raw {
			out.WriteByte(byte(r))
		} else {
			out.WriteRune(r)
		}
	}
	return nil
}

func (p *gbnf) class() sequence {
	p.at++
	not := p.take("^")
	var ranges []runeRange
	for p.err == nil && !p.take("]") {
		if p.at == len(p.s) {
			p.fail("a class is not closed: want ]")
			break
		}
		lo, _ := p.character()
		hi := lo
		if strings.HasPrefix(p.s[p.at:], "-") && !strings.HasPrefix(p.s[p.at:], "-]") {
			p.at++
			hi, _ = p.character()
		}
		if lo > hi && p.err == nil {
			p.fail("the range %q-%q of a class is empty", lo, hi)
		}
		ranges = append(ranges, runeRange{lo, hi})
		if p.err == nil && !p.b.spend(1) {
			p.err = p.b.err
		}
	}
	if p.err != nil {
		return nil
	}
	if not {
		ranges = except(ranges...)
	}
	return p.b.class(ranges...)
}

// character reads one character, escaped or not. \xHH above 7f in a literal is a single byte.
func (p *gbnf) character() (r rune, raw bool) {
	if p.peek() != '\\' {
		r, n := utf8.DecodeRuneInString(p.s[p.at:])
		if r == utf8.RuneError && n <= 1 {
			p.fail("not UTF-8 at byte %d", p.at)
		}
		p.at += n
		return r, false
	}
	p.at++
	c := p.peek()
	p.at = min(p.at+1, len(p.s))
	switch c {
	case 'x':
		r = p.hex(2)
		return r, r > 0x7f
	case 'u':
		return p.joined(p.hex(4)), false
	case 'U':
		return p.joined(p.hex(8)), false
	case 't':
		return '\t', false
	case 'r':
		return '\r', false
	case 'n':
		return '\n', false
	case '\\', '"', '[', ']', '-', '^':
		return rune(c), false
	}
	p.fail(`the escape %q is not known; want \n \r \t \\ \" \[ \] \xHH \uHHHH or \UHHHHHHHH`, `\`+string(rune(c)))
	return 0, false
}

// joined returns the character that an escape begins. One beyond U+FFFF may be written as in JSON, by the escapes of
// its two surrogates. A surrogate by itself is no character: no UTF-8 text has one (Unicode Standard, section 3.9).
func (p *gbnf) joined(first rune) rune {
	if !utf16.IsSurrogate(first) || p.err != nil {
		return first
	}
	if p.take(`\u`) {
		if both := utf16.DecodeRune(first, p.hex(4)); both != utf8.RuneError || p.err != nil {
			return both
		}
	}
	p.fail(`U+%X is no character but half of one: write both halves in order, as \uD83D\uDE00, or \U0001F600`, first)
	return 0
}

func (p *gbnf) hex(digits int) rune {
	v := rune(0)
	for range digits {
		d := strings.IndexByte("0123456789abcdefABCDEF", p.peek())
		if d > 15 {
			d -= 6
		}
		if d < 0 || v > utf8.MaxRune {
			p.fail("want %d hexadecimal digits", digits)
			return 0
		}
		v, p.at = v<<4|rune(d), p.at+1
	}
	if v > utf8.MaxRune {
		p.fail("U+%X is no character", v)
	}
	return v
}
