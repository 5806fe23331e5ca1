package grammar

import (
	"fmt"
	"regexp"
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// formats of strings, as the expressions that their texts match. Names of hosts and addresses are
// held to a shape that every reader takes, which leaves out some that the standards allow.
var formats = map[string]string{
	"date":      date,
	"time":      clock,
	"date-time": date + "T" + clock,
	"duration": `P(\d+W|\d+Y(\d+M)?(\d+D)?(T` + hours + `)?|\d+M(\d+D)?(T` + hours + `)?|\d+D(T` + hours +
		`)?|T` + hours + `)`,
	"uuid":     `[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}`,
	"ipv4":     `(` + octet + `\.){3}` + octet,
	"ipv6":     `([0-9a-fA-F]{1,4}:){7}[0-9a-fA-F]{1,4}`,
	"hostname": host,
	"email":    "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]{1,20}(\\.[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]{1,20})?@" + host,
	"uri":      `[A-Za-z][A-Za-z0-9+.-]*:[A-Za-z0-9._~:/?#@!$&'()*+,;=%\[\]-]+`,
}

const (
	leap = `(\d\d(0[48]|[2468][048]|[13579][26])|([02468][048]|[13579][26])00)`
	date = `(\d{4}-((0[13578]|1[02])-(0[1-9]|[12]\d|3[01])|(0[469]|11)-(0[1-9]|[12]\d|30)|02-(0[1-9]|1\d|2[0-8]))|` +
		leap + `-02-29)`
	clock = `([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d{1,9})?(Z|[+-]([01]\d|2[0-3]):[0-5]\d)`
	hours = `(\d+H(\d+M)?(\d+S)?|\d+M(\d+S)?|\d+S)`
	octet = `(25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)`
	host  = `[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?){0,2}`
)

func (s *schemaReader) str(n *node, path string) sequence {
	least, most := s.counts(n, path, "minLength", "maxLength")
	pattern, hasPattern := n.get("pattern")
	format, hasFormat := n.get("format")
	if (hasPattern || hasFormat) && (least > 0 || most >= 0) || hasPattern && hasFormat {
		return s.fail(path, "of pattern, format and the bounds of length only one kind is supported at a time")
	}
	switch {
	case s.b.err != nil:
		return nil
	case hasPattern:
		p, ok := pattern.(string)
		if !ok {
			return s.fail(path+"/pattern", "want a string")
		}
		return s.pattern(p, path+"/pattern")
	case hasFormat:
		name, _ := format.(string)
		p, ok := formats[name]
		if !ok {
			return s.fail(path+"/format", "%s is not supported; want date, time, date-time, duration, uuid, ipv4, "+
				"ipv6, hostname, email or uri, or leave it out", brief(format))
		}
		return s.pattern("^"+p+"$", path+"/format")
	}
	return s.b.quoted(s.b.repeat(s.b.character(), least, most))
}

// longestPattern bounds the bytes of an expression: the parser may take some thousand times as many.
const longestPattern = 16 << 10

// pattern is a string that a regular expression matches somewhere, or from its beginning
// or to its end where it is anchored.
func (s *schemaReader) pattern(p, path string) sequence {
	if len(p) > longestPattern {
		return s.fail(path, "an expression of %d bytes; at most %d", len(p), longestPattern)
	}
	re, err := syntax.Parse(unicodeEscapes(p), syntax.Perl)
	if err != nil {
		return s.fail(path, "%s", err)
	}
	s.b.where = path
	alternatives := []*syntax.Regexp{re}
	if re.Op == syntax.OpAlternate {
		alternatives = re.Sub
	}
	var each []sequence
	for _, re := range alternatives {
		parts := []*syntax.Regexp{re}
		if re.Op == syntax.OpConcat {
			parts = re.Sub
		}
		anything := s.b.repeat(s.b.character(), 0, -1)
		before, after := anything, anything
		if len(parts) > 0 && parts[0].Op == syntax.OpBeginText {
			before, parts = nil, parts[1:]
		}
		if len(parts) > 0 && parts[len(parts)-1].Op == syntax.OpEndText {
			after, parts = nil, parts[:len(parts)-1]
		}
		inside := []sequence{before}
		for _, part := range parts {
			inside = append(inside, s.expression(part, path))
		}
		each = append(each, s.b.join(append(inside, after)...))
	}
	return s.b.quoted(s.b.either(each...))
}

// codePoint matches ECMAScript's escapes by code point, \uNNNN and \u{N}, which package syntax does not read.
var codePoint = regexp.MustCompile(`^\\u(?:([0-9a-fA-F]{4})|\{([0-9a-fA-F]{1,6})\})`)

// unicodeEscapes writes escapes by code point as \x{…}. Those of two surrogates in order are one character (ECMA-262,
// section 22.2.1, with the flag u).
func unicodeEscapes(p string) string {
	take := func(at int) (r rune, size int) {
		m := codePoint.FindStringSubmatch(p[at:])
		if m == nil {
			return 0, 0
		}
		v, _ := strconv.ParseUint(m[1]+m[2], 16, 32) // at most six digits
		return rune(v), len(m[0])
	}
	var b strings.Builder
	for at := 0; at < len(p); {
		if p[at] != '\\' {
			b.WriteByte(p[at])
			at++
			continue
		}
		r, size := take(at)
		if size == 0 {
			n := min(2, len(p)-at)
			b.WriteString(p[at : at+n])
			at += n
			continue
		}
		at += size
		if low, more := take(at); utf16.DecodeRune(r, low) != utf8.RuneError {
			r, at = utf16.DecodeRune(r, low), at+more
		}
		fmt.Fprintf(&b, `\x{%X}`, r)
	}
	return b.String()
}

// halves reports whether an expression asks for one of two surrogates: no text has one. Ranges may pass over them.
func halves(re *syntax.Regexp) bool {
	return (re.Op == syntax.OpLiteral || re.Op == syntax.OpCharClass) &&
		slices.ContainsFunc(re.Rune, utf16.IsSurrogate) // bound: each rune once
}

// expression matches the strings of a regular expression as they are written inside a JSON string.
func (s *schemaReader) expression(re *syntax.Regexp, path string) sequence {
	if !s.b.spend(8 + len(re.Rune) + len(re.Sub)) {
		return nil
	}
	b := s.b
	part := func(i int) sequence { return s.expression(re.Sub[i], path) }
	parts := func() (all []sequence) {
		for i := range re.Sub {
			all = append(all, part(i))
		}
		return all
	}
	if halves(re) {
		return s.fail(path, `half of a character beyond U+FFFF is no character: write both halves, as \uD83D\uDE00`)
	}
	switch re.Op {
	case syntax.OpEmptyMatch:
		return sequence{}
	case syntax.OpLiteral:
		if re.Flags&syntax.FoldCase != 0 {
			return s.fail(path, "(?i) is not supported")
		}
		return b.text(escaped(string(re.Rune)))
	case syntax.OpCharClass:
		var ranges []runeRange
		for i := 0; i < len(re.Rune); i += 2 {
			ranges = append(ranges, runeRange{re.Rune[i], re.Rune[i+1]})
		}
		return s.inString(ranges, path)
	case syntax.OpAnyCharNotNL:
		return s.inString(except(runeRange{'\n', '\n'}), path)
	case syntax.OpAnyChar:
		return s.inString([]runeRange{{0, utf8.MaxRune}}, path)
	case syntax.OpCapture:
		return part(0)
	case syntax.OpStar:
		return b.repeat(part(0), 0, -1)
	case syntax.OpPlus:
		return b.repeat(part(0), 1, -1)
	case syntax.OpQuest:
		return b.optional(part(0))
	case syntax.OpRepeat:
		return b.repeat(part(0), re.Min, re.Max)
	case syntax.OpConcat:
		return b.join(parts()...)
	case syntax.OpAlternate:
		return b.either(parts()...)
	}
	return s.fail(path, "%q is not supported inside an expression; ^ and $ stand at its ends only", re.String())
}

// inString is one of some characters as JSON writes them.
func (s *schemaReader) inString(ranges []runeRange, path string) sequence {
	if len(ranges) == 0 {
		return s.fail(path, "a class of characters is empty")
	}
	special := []runeRange{{0, 0x1f}, {'"', '"'}, {'\\', '\\'}, {0x7f, 0x7f}}
	var each []sequence
	for _, r := range ranges {
		for _, p := range special {
			for c := max(r.lo, p.lo); c <= min(r.hi, p.hi); c++ {
				each = append(each, s.b.text(escaped(string(c))))
			}
		}
	}
	if plain := except(append(except(ranges...), special...)...); len(plain) > 0 {
		each = append(each, s.b.class(plain...))
	}
	return s.b.either(each...)
}
