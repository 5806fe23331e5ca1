package grammar

import (
	"unicode/utf8"

	"foretoken/models/grammar/number"
)

// The rules of JSON that a schema's rules are made of. Numbers and blanks are bounded, as
// in llama.cpp: a model that has nothing to say would go on with them for ever.
const mostBlanks = 20

// Layout says which white space may stand between the parts of JSON. Inside of strings all may.
type Layout int

const (
	Free    Layout = iota // lines and indents, of bounded length
	Compact               // at most one space after a colon or a comma
)

// once defines a named rule when it is first used.
func (b *builder) once(name string, make func() []sequence) sequence {
	if _, ok := b.byName[name]; !ok {
		was := b.where
		b.where = name
		b.define(b.rule(name), make()...)
		b.where = was
	}
	return b.named(name)
}

func (b *builder) oneOf(bytes string) sequence {
	set := &byteSet{}
	for i := range len(bytes) {
		set.add(bytes[i], bytes[i])
	}
	return sequence{{set: set}}
}

func (b *builder) digit() sequence { return b.class(runeRange{'0', '9'}) }

// blank matches the white space between the parts of a value.
func (b *builder) blank() sequence {
	if b.layout == Compact {
		return sequence{}
	}
	return b.once("blank", func() []sequence {
		line := b.join(b.repeat(b.text("\n"), 1, 2), b.repeat(b.oneOf(" \t"), 0, mostBlanks))
		return []sequence{{}, b.text(" "), line}
	})
}

// sign matches a colon or a comma with the white space around it.
func (b *builder) sign(text string) sequence {
	after := b.blank()
	if b.layout == Compact {
		after = b.once("space", func() []sequence { return []sequence{b.text(" "), {}} })
	}
	return b.join(b.blank(), b.text(text), after)
}

// character is one character inside a string. One beyond U+FFFF may be written as the escapes of its two surrogates;
// one of them by itself is no character.
func (b *builder) character() sequence {
	return b.once("character", func() []sequence {
		hex := func(n int) sequence { return b.repeat(b.oneOf("0123456789abcdefABCDEF"), n, n) }
		plain := b.class(
			except(runeRange{0, 0x1f}, runeRange{0x7f, 0x7f}, runeRange{'"', '"'}, runeRange{'\\', '\\'})...)
		half := func(second string) sequence { return b.join(b.oneOf("dD"), b.oneOf(second), hex(2)) }
		single := b.either(b.join(b.oneOf("0123456789abcABCefEF"), hex(3)), half("01234567"))
		pair := b.join(half("89abAB"), b.text(`\u`), half("cdefCDEF"))
		code := b.join(b.text("u"), b.either(single, pair))
		return []sequence{plain, b.join(b.text(`\`), b.either(b.oneOf(`"\/bfnrt`), code))}
	})
}

func (b *builder) quoted(s sequence) sequence { return b.join(b.text(`"`), s, b.text(`"`)) }

func (b *builder) str() sequence {
	return b.once("string", func() []sequence { return []sequence{b.quoted(b.repeat(b.character(), 0, -1))} })
}

func (b *builder) integer() sequence {
	return b.once("integer", func() []sequence { return []sequence{b.join(b.optional(b.text("-")), b.whole())} })
}

// whole matches a number without sign and fraction.
func (b *builder) whole() sequence {
	return b.once("whole", func() []sequence {
		more := b.repeat(b.digit(), 0, number.WholeDigits-1)
		return []sequence{b.text("0"), b.join(b.class(runeRange{'1', '9'}), more)}
	})
}

func (b *builder) number() sequence {
	return b.once("number", func() []sequence {
		fraction := b.join(b.text("."), b.repeat(b.digit(), 1, number.FractionDigits))
		exponent := b.join(b.oneOf("eE"), b.optional(b.oneOf("+-")), b.repeat(b.digit(), 1, number.ExponentDigits))
		return []sequence{b.join(b.integer(), b.optional(fraction), b.optional(exponent))}
	})
}

func (b *builder) value() sequence {
	return b.once("value", func() []sequence {
		return []sequence{b.object(), b.array(), b.str(), b.number(), b.text("true"), b.text("false"), b.text("null")}
	})
}

func (b *builder) object() sequence {
	return b.once("object", func() []sequence {
		return []sequence{b.listed("{", "}", b.member(b.str(), b.value()), 0, -1)}
	})
}

func (b *builder) array() sequence {
	return b.once("array", func() []sequence { return []sequence{b.listed("[", "]", b.value(), 0, -1)} })
}

func (b *builder) member(key, value sequence) sequence {
	return b.join(key, b.sign(":"), value)
}

// listed matches `least` to `most` items between two brackets, separated by commas.
func (b *builder) listed(open, end string, item sequence, least, most int) sequence {
	item = b.short("item", item)
	further := b.join(b.sign(","), item)
	var inside sequence
	switch {
	case most == 0:
		return b.join(b.text(open), b.blank(), b.text(end))
	case least == 0:
		inside = b.optional(b.join(item, b.repeat(further, 0, oneLess(most)), b.blank()))
	default:
		inside = b.join(item, b.repeat(further, least-1, oneLess(most)), b.blank())
	}
	return b.join(b.text(open), b.blank(), inside, b.text(end))
}

// oneLess is a bound less one; -1, unbounded, stays.
func oneLess(n int) int {
	if n < 0 {
		return n
	}
	return n - 1
}

// Quoted returns a string as the grammars of schemas write it where they hold it to something.
func Quoted(s string) string { return `"` + escaped(s) + `"` }

// escaped is the text of a JSON string's inside, as short as it can be written.
func escaped(s string) string {
	const hex = "0123456789abcdef"
	var out []byte
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			out = append(out, '\\', byte(r))
		case r == '\n':
			out = append(out, `\n`...)
		case r == '\r':
			out = append(out, `\r`...)
		case r == '\t':
			out = append(out, `\t`...)
		case r < 0x20 || r == 0x7f:
			out = append(out, '\\', 'u', '0', '0', hex[r>>4], hex[r&15])
		default:
			out = utf8.AppendRune(out, r)
		}
	}
	return string(out)
}
