package jinja

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"foretoken/internal/quote"
)

type tokenKind uint8

const (
	tokEOF tokenKind = iota
	tokData
	tokBlockBegin
	tokBlockEnd
	tokVarBegin
	tokVarEnd
	tokName
	tokString
	tokInt
	tokFloat
	tokOp
)

type token struct {
	kind tokenKind
	text string // of a string: its value
	line int
}

// lexer cuts a template into tokens as Jinja's does with trim_blocks (the newline after a block is dropped) and
// lstrip_blocks (so is white space between the start of a line and a block).
type lexer struct {
	src       string
	pos       int
	tokens    []token
	lineStart bool // nothing but dropped white space precedes on this line
	counted   int  // bytes whose newlines are in line
	line      int
}

func lex(source string) ([]token, error) {
	source = strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(source)
	source = strings.TrimSuffix(source, "\n")
	l := &lexer{src: source, lineStart: true, line: 1}
	for l.pos < len(l.src) {
		if err := l.root(); err != nil {
			return nil, err
		}
	}
	l.add(tokEOF, "end of the template", len(l.src))
	return l.tokens, nil
}

// lineAt is the line of a byte; it is asked for in rising order, or nearly.
func (l *lexer) lineAt(pos int) int {
	if pos < l.counted {
		return l.line - strings.Count(l.src[pos:l.counted], "\n")
	}
	l.line += strings.Count(l.src[l.counted:pos], "\n")
	l.counted = pos
	return l.line
}

func (l *lexer) add(k tokenKind, text string, pos int) {
	l.tokens = append(l.tokens, token{k, text, l.lineAt(pos)})
}

func (l *lexer) fail(pos int, format string, args ...any) error {
	return fmt.Errorf("jinja: line %d: %s", l.lineAt(min(pos, len(l.src))), fmt.Sprintf(format, args...))
}

// sign is the - or + that follows the beginning of a tag.
func (l *lexer) sign(pos int) byte {
	if pos < len(l.src) && (l.src[pos] == '-' || l.src[pos] == '+') {
		return l.src[pos]
	}
	return 0
}

// data adds the text before a tag.
func (l *lexer) data(end int, sign byte, variable bool) {
	text := l.src[l.pos:end]
	if sign == '-' {
		text = strings.TrimRightFunc(text, unicode.IsSpace)
	} else if sign != '+' && !variable {
		at := strings.LastIndexByte(text, '\n') + 1
		if (at > 0 || l.lineStart) && strings.TrimLeftFunc(text[at:], unicode.IsSpace) == "" {
			text = text[:at]
		}
	}
	if text != "" {
		l.add(tokData, text, l.pos)
	}
}

// skipSpace drops white space after -%} and its like.
func (l *lexer) skipSpace() {
	l.pos = len(l.src) - len(strings.TrimLeftFunc(l.src[l.pos:], unicode.IsSpace))
}

// closed continues after a tag, which may drop white space.
func (l *lexer) closed(end int, minus, block bool) {
	l.pos = end
	switch {
	case minus:
		l.skipSpace()
	case block && strings.HasPrefix(l.src[end:], "\n"):
		l.pos++
	}
	l.lineStart = l.src[l.pos-1] == '\n'
}

// root reads text and the tag that ends it.
func (l *lexer) root() error {
	at := l.pos
	for {
		i := strings.IndexByte(l.src[at:], '{')
		if i < 0 || at+i+1 >= len(l.src) {
			l.add(tokData, l.src[l.pos:], l.pos)
			l.pos = len(l.src)
			return nil
		}
		at += i
		if c := l.src[at+1]; c == '{' || c == '%' || c == '#' {
			break
		}
		at++
	}
	kind, sign := l.src[at+1], l.sign(at+2)
	l.data(at, sign, kind == '{')
	inner := at + 2
	if sign != 0 {
		inner++
	}
	switch kind {
	case '#':
		end := strings.Index(l.src[inner:], "#}")
		if end < 0 {
			return l.fail(at, "a comment does not end: #} is missing")
		}
		end += inner
		l.closed(end+2, end > inner && l.src[end-1] == '-', end == inner || l.src[end-1] != '+')
		return nil
	case '{':
		l.add(tokVarBegin, "{{", at)
		l.pos = inner
		return l.inside(tokVarEnd, "}}")
	}
	if done, err := l.raw(inner); done || err != nil {
		return err
	}
	l.add(tokBlockBegin, "{%", at)
	l.pos = inner
	return l.inside(tokBlockEnd, "%}")
}

// word reads white space, a word and white space at pos.
func (l *lexer) word(pos int, word string) (int, bool) {
	rest := strings.TrimLeftFunc(l.src[pos:], unicode.IsSpace)
	if !strings.HasPrefix(rest, word) {
		return 0, false
	}
	rest = strings.TrimLeftFunc(rest[len(word):], unicode.IsSpace)
	return len(l.src) - len(rest), true
}

// raw reads {% raw %} … {% endraw %}, if one begins here.
func (l *lexer) raw(inner int) (bool, error) {
	at, ok := l.word(inner, "raw")
	if !ok {
		return false, nil
	}
	switch {
	case strings.HasPrefix(l.src[at:], "-%}"):
		l.pos = at + 3
		l.skipSpace()
	case strings.HasPrefix(l.src[at:], "%}"):
		l.pos = at + 2
	default:
		return false, nil
	}
	l.lineStart = l.src[l.pos-1] == '\n'
	for from := l.pos; ; {
		i := strings.Index(l.src[from:], "{%")
		if i < 0 {
			return true, l.fail(inner, "{%% raw %%} does not end: {%% endraw %%} is missing")
		}
		begin := from + i
		sign := l.sign(begin + 2)
		inside := begin + 2
		if sign != 0 {
			inside++
		}
		if at, ok := l.word(inside, "endraw"); ok {
			end := l.sign(at)
			if end != 0 {
				at++
			}
			if strings.HasPrefix(l.src[at:], "%}") {
				l.data(begin, sign, false)
				l.closed(at+2, end == '-', end != '+')
				return true, nil
			}
		}
		from = begin + 2
	}
}

// operators, longest first.
var operators = []string{"//", "**", "==", "!=", ">=", "<=", "+", "-", "/", "*", "%", "~", "[", "]", "(", ")", "{", "}",
	">", "<", "=", ".", ":", "|", ",", ";"}

// inside reads the tokens of a tag up to its end.
func (l *lexer) inside(kind tokenKind, end string) error {
	begin := l.pos
	var open []byte
	for l.pos < len(l.src) {
		rest := l.src[l.pos:]
		if len(open) == 0 {
			for _, sign := range []string{"-", "+", ""} {
				if sign == "+" && kind == tokVarEnd || !strings.HasPrefix(rest, sign+end) {
					continue
				}
				l.add(kind, end, l.pos)
				l.closed(l.pos+len(sign)+2, sign == "-", kind == tokBlockEnd && sign == "")
				return nil
			}
		}
		switch {
		case len(l.tokens) > maxTokens:
			return l.fail(l.pos, "more than %d names, numbers and signs", maxTokens)
		case len(open) > maxNesting:
			return l.fail(l.pos, "expressions and blocks lie more than %d deep in each other", maxNesting)
		}
		r, n := utf8.DecodeRuneInString(rest)
		switch {
		case unicode.IsSpace(r):
			l.pos += n
		case r >= '0' && r <= '9':
			l.number(rest)
		case r == '_' || unicode.IsLetter(r):
			after := strings.TrimLeftFunc(rest,
				func(r rune) bool { return r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r) })
			name := rest[:len(rest)-len(after)]
			l.add(tokName, name, l.pos)
			l.pos += len(name)
		case r == '"' || r == '\'':
			if err := l.str(rest); err != nil {
				return err
			}
		default:
			op := ""
			for _, o := range operators {
				if strings.HasPrefix(rest, o) {
					op = o
					break
				}
			}
			if op == "" {
				return l.fail(l.pos, "unexpected character %q", r)
			}
			switch op {
			case "(", "[", "{":
				open = append(open, map[string]byte{"(": ')', "[": ']', "{": '}'}[op])
			case ")", "]", "}":
				if len(open) == 0 || open[len(open)-1] != op[0] {
					return l.fail(l.pos, "unexpected %q", op)
				}
				open = open[:len(open)-1]
			}
			l.add(tokOp, op, l.pos)
			l.pos += len(op)
		}
	}
	return l.fail(begin, "a tag does not end: %s is missing", end)
}

func (l *lexer) number(rest string) {
	digits := func(i int) int {
		for i < len(rest) && (rest[i] >= '0' && rest[i] <= '9' || rest[i] == '_' && i+1 < len(rest) &&
			rest[i+1] >= '0' && rest[i+1] <= '9') {
			i++
		}
		return i
	}
	n := digits(0)
	kind := tokInt
	if n == 1 && rest[0] == '0' && len(rest) > 2 && strings.IndexByte("xXoObB", rest[1]) >= 0 {
		i := 2
		for i < len(rest) &&
			(rest[i] == '_' || rest[i] >= '0' && rest[i] <= '9' || rest[i]|32 >= 'a' && rest[i]|32 <= 'f') {
			i++
		}
		if _, err := strconv.ParseInt(rest[:i], 0, 64); err == nil {
			n = i
		}
	} else if l.pos == 0 || l.src[l.pos-1] != '.' {
		if n+1 < len(rest) && rest[n] == '.' && rest[n+1] >= '0' && rest[n+1] <= '9' {
			kind, n = tokFloat, digits(n+1)
		}
		if n+1 < len(rest) && rest[n]|32 == 'e' {
			i := n + 1
			if rest[i] == '+' || rest[i] == '-' {
				i++
			}
			if i < len(rest) && rest[i] >= '0' && rest[i] <= '9' {
				kind, n = tokFloat, digits(i)
			}
		}
	}
	l.add(kind, rest[:n], l.pos)
	l.pos += n
}

// str reads a string with Python's escapes.
func (l *lexer) str(rest string) error {
	end := 1
	for end < len(rest) && rest[end] != rest[0] {
		if rest[end] == '\\' {
			end++
		}
		end++
	}
	if end >= len(rest) {
		return l.fail(l.pos, "a string does not end")
	}
	text, ok := unescape(rest[1:end])
	if !ok {
		return l.fail(l.pos, "the string %s has an escape that is cut off", quote.Text(rest[1:end]))
	}
	l.add(tokString, text, l.pos)
	l.pos += end + 1
	return nil
}

var escapes = map[byte]string{'\n': "", '\\': "\\", '\'': "'", '"': "\"", 'a': "\a", 'b': "\b", 'f': "\f", 'n': "\n",
	'r': "\r", 't': "\t", 'v': "\v"}

func unescape(s string) (string, bool) {
	if strings.IndexByte(s, '\\') < 0 {
		return s, true
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' {
			b.WriteByte(s[i])
			continue
		}
		i++
		if i == len(s) {
			return "", false
		}
		if e, ok := escapes[s[i]]; ok {
			b.WriteString(e)
			continue
		}
		width := map[byte]int{'x': 2, 'u': 4, 'U': 8}[s[i]]
		switch {
		case width > 0:
			if i+width >= len(s) {
				return "", false
			}
			code, err := strconv.ParseUint(s[i+1:i+1+width], 16, 32)
			if err != nil || code > unicode.MaxRune {
				return "", false
			}
			b.WriteRune(rune(code))
			i += width
		case s[i] >= '0' && s[i] <= '7':
			n := i
			for n < len(s) && n < i+3 && s[n] >= '0' && s[n] <= '7' {
				n++
			}
			code, _ := strconv.ParseUint(s[i:n], 8, 32)
			b.WriteRune(rune(code))
			i = n - 1
		default: // Python leaves the backslash of an escape that it does not know
			b.WriteByte('\\')
			b.WriteByte(s[i])
		}
	}
	return b.String(), true
}
