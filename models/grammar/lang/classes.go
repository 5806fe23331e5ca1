package lang

import (
	"strings"
	"sync"
	"unicode"
	"unicode/utf16"

	"foretoken/internal/quote"
)

// The classes of ECMA-262: \d, \w, \s and all but line terminators.
var (
	digits   = []Range{{'0', '9'}}
	words    = []Range{{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}}
	spaces   = normal(append(ranges(unicode.Zs), Range{'\t', '\r'}, Range{0x2028, 0x2029}, Range{0xFEFF, 0xFEFF}))
	notLines = except([]Range{{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}})
)

// ranges of a table of package unicode.
func ranges(table *unicode.RangeTable) []Range {
	var out []Range
	add := func(lo, hi, stride uint32) {
		if stride == 1 {
			out = append(out, Range{rune(lo), rune(hi)})
			return
		}
		for c := lo; c <= hi; c += stride {
			out = append(out, Range{rune(c), rune(c)})
		}
	}
	for _, r := range table.R16 {
		add(uint32(r.Lo), uint32(r.Hi), uint32(r.Stride))
	}
	for _, r := range table.R32 {
		add(r.Lo, r.Hi, r.Stride)
	}
	return normal(out)
}

// words are the characters of \w: with the flag i also what has one of them as its other case.
func (p *parser) words() []Range { return p.folded(words) }

// class reads the rest of a class after its [.
func (p *parser) class() []Range {
	start := p.at
	not := p.take("^")
	var all []Range
	for !p.take("]") {
		if p.at >= len(p.s) {
			p.fail("a [ without its ]; write \\[ for the character")
			return nil
		}
		if name, _, ok := strings.Cut(p.s[p.at:], ":]"); ok && strings.HasPrefix(name, "[:") && isName(name[2:]) {
			p.fail("[:%.20s:] is not ECMA-262; write \\d, \\w, \\s or \\p{…}", name[2:])
			return nil
		}
		first, single := p.classAtom(not)
		if !single || !strings.HasPrefix(p.s[p.at:], "-") || strings.HasPrefix(p.s[p.at:], "-]") {
			all = p.addRanges(all, first...)
			continue
		}
		p.at++
		last, single := p.classAtom(not)
		switch {
		case p.err != nil:
			return nil
		case !single: // without the flag u a - beside a class is a character
			all = p.addRanges(p.addRanges(all, append(first, Range{'-', '-'})...), last...)
		case first[0].Lo > last[0].Lo:
			p.fail("a range of a class has its ends in the wrong order at byte %d", start)
			return nil
		default:
			all = p.addRanges(all, Range{first[0].Lo, last[0].Lo})
		}
	}
	all = p.folded(normal(all))
	if not {
		all = except(all)
	}
	return all
}

func isName(s string) bool {
	return s != "" && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz^") == ""
}

func (p *parser) addRanges(all []Range, more ...Range) []Range {
	if !p.spend(2 + len(more)) {
		return nil
	}
	return append(all, more...)
}

// classAtom is a character of a class, or an escape for many. No text has surrogates: excluding
// them from a class changes nothing, and a class that includes them was written for halves of characters.
func (p *parser) classAtom(not bool) (all []Range, single bool) {
	if p.at >= len(p.s) {
		p.fail("a [ without its ]; write \\[ for the character")
		return nil, false
	}
	c := p.rune()
	if c == '\\' {
		switch p.next() {
		case 'b':
			p.at++
			return []Range{{'\b', '\b'}}, true
		case 'B':
			p.fail("\\B inside a class; write \\\\B for the characters")
			return nil, false
		}
		if all, ok := p.classEscape(); ok {
			return all, false
		}
		if c = p.charEscape(); utf16.IsSurrogate(c) && !not {
			p.half()
		}
	}
	return []Range{{c, c}}, true
}

func (p *parser) half() {
	p.fail(`half of a character beyond U+FFFF is no character: write both halves, as \uD83D\uDE00`)
}

// classEscape reads an escape for a class after its \, if there is one.
func (p *parser) classEscape() (all []Range, ok bool) {
	switch c := p.next(); c {
	case 'd', 'D':
		all = digits
	case 'w', 'W':
		all = p.words()
	case 's', 'S':
		all = spaces
	case 'p', 'P':
		p.at++
		if !p.take("{") {
			p.fail("\\%c wants a property in braces; write \\%c{L}", c, c)
			return nil, true
		}
		name, rest, ok := strings.Cut(p.s[p.at:], "}")
		if !ok {
			p.fail("\\%c{ without its }", c)
			return nil, true
		}
		if all = p.property(name); all == nil {
			p.fail("a property that is not known or not supported: %s", quote.Name(name))
			return nil, true
		}
		p.at = len(p.s) - len(rest)
		if c == 'P' {
			all = p.complement(name, all)
		}
		return p.folded(all), true
	default:
		return nil, false
	}
	if c := p.rune(); c < 'a' {
		all = except(all)
	}
	return all, true
}

func (p *parser) complement(name string, all []Range) []Range {
	key := "^" + name
	not, ok := p.classes[key]
	if !ok {
		if !p.spend(2 * len(all)) {
			return nil
		}
		not = except(all)
		p.classes[key] = not
	}
	return not
}

// property is the code points that have a property; nil if it is not known.
func (p *parser) property(name string) []Range {
	all, ok := p.classes[name]
	if !ok && p.spend(2000) { // the size of the largest tables
		all = property(name)
		p.classes[name] = all
	}
	return all
}

// folded adds the other cases of ranges if the flag i says so.
func (p *parser) folded(all []Range) []Range {
	if !p.flags.ignoreCase || len(all) == 0 {
		return all
	}
	candidates := cased()
	if len(all) == 1 && all[0].Lo == all[0].Hi {
		candidates = []rune{all[0].Lo}
	}
	if !p.spend(2 + len(candidates)) {
		return all
	}
	more := append([]Range(nil), all...)
	for _, c := range candidates {
		if holds(all, c) {
			for other := unicode.SimpleFold(c); other != c; other = unicode.SimpleFold(other) {
				more = append(more, Range{other, other})
			}
		}
	}
	return normal(more)
}

// cased are the characters that have another case.
var cased = sync.OnceValue(func() (all []rune) {
	for _, r := range unicode.CaseRanges {
		for c := rune(r.Lo); c <= rune(r.Hi); c++ {
			if unicode.SimpleFold(c) != c {
				all = append(all, c)
			}
		}
	}
	return all
})
