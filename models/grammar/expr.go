package grammar

import (
	"cmp"
	"slices"
	"unicode/utf8"
)

// These build sequences out of smaller ones; rules without a name are made where an
// alternative or a repetition needs one.

// single has a set for each byte.
var single = func() (sets [256]byteSet) {
	for c := range sets {
		sets[c].add(byte(c), byte(c))
	}
	return sets
}()

// text is a run of bytes as they are.
func (b *builder) text(s string) sequence {
	if !b.spend(len(s)) {
		return nil
	}
	out := make(sequence, len(s))
	for i := range len(s) {
		out[i].set = &single[s[i]]
	}
	return out
}

func (b *builder) join(parts ...sequence) sequence {
	n := 0
	for _, p := range parts {
		n += len(p)
	}
	if !b.spend(n + len(parts)) {
		return nil
	}
	out := make(sequence, 0, n)
	for _, p := range parts {
		out = append(out, p...)
	}
	return out
}

func (b *builder) call(rule int) sequence { return sequence{{rule: rule}} }

// named is a call of a rule by its name.
func (b *builder) named(name string) sequence { return b.call(b.rule(name)) }

// either is one of several sequences.
func (b *builder) either(alternatives ...sequence) sequence {
	if len(alternatives) == 1 {
		return alternatives[0]
	}
	r := b.anonymous("(…)")
	b.define(r, alternatives...)
	return b.call(r)
}

// short is a sequence as one call.
func (b *builder) short(name string, s sequence) sequence {
	if len(s) < 2 {
		return s
	}
	r := b.anonymous(name)
	b.define(r, s)
	return b.call(r)
}

func (b *builder) optional(s sequence) sequence { return b.either(s, sequence{}) }

// longRun is the most repetitions that are written one by one; more are counted.
const longRun = 64

// repeat is a sequence from least to most times; most < 0 means any number.
func (b *builder) repeat(s sequence, least, most int) sequence {
	if least > 1 || most > 1 { // copies of a call are shorter
		s = b.short("(…)", s)
	}
	n := max(least, most)
	if n > maxOps {
		b.fail("a repetition of %d; at most %d", n, maxOps)
		return nil
	}
	if n > longRun && b.err == nil {
		return b.count(repetition(b.asRule(s), least, most))
	}
	return b.join(b.times(s, least), b.upTo(s, most-least, most < 0))
}

// asRule is the rule of a sequence.
func (b *builder) asRule(s sequence) int {
	if len(s) == 1 && s[0].set == nil {
		return s[0].rule
	}
	r := b.anonymous("(…)")
	b.define(r, s)
	return r
}

// times is a sequence n times.
func (b *builder) times(s sequence, n int) sequence {
	if !b.spend(n * max(len(s), 1)) {
		return nil
	}
	out := make(sequence, 0, n*len(s))
	for range n {
		out = append(out, s...)
	}
	return out
}

// upTo is a sequence at most n times, or any number of times.
func (b *builder) upTo(s sequence, n int, any bool) sequence {
	if any {
		r := b.anonymous("(…)*")
		b.define(r, b.join(s, b.call(r)), sequence{})
		return b.call(r)
	}
	var rest sequence
	for range n {
		if b.err != nil {
			return nil
		}
		rest = b.optional(b.join(s, rest))
	}
	return rest
}

type runeRange struct{ lo, hi rune }

// class is one rune of the ranges, as UTF-8. Surrogates, which UTF-8 cannot hold, are left out.
func (b *builder) class(ranges ...runeRange) sequence {
	if !b.spend(8 * len(ranges)) {
		return nil
	}
	one := byteSet{}
	var alternatives []sequence
	for _, r := range ranges {
		for _, valid := range []runeRange{{0, 0xd7ff}, {0xe000, utf8.MaxRune}} {
			if lo, hi := max(r.lo, valid.lo), min(r.hi, valid.hi); lo <= hi {
				splitUTF8(lo, hi, func(bytes []byteSet) {
					if len(bytes) == 1 {
						for i := range one {
							one[i] |= bytes[0][i]
						}
						return
					}
					if !b.spend(8 * len(bytes)) {
						return
					}
					s := make(sequence, len(bytes))
					for i := range bytes {
						s[i].set = &bytes[i]
					}
					alternatives = append(alternatives, s)
				})
			}
		}
	}
	if one.count() > 0 {
		alternatives = append([]sequence{{{set: &one}}}, alternatives...)
	}
	if len(alternatives) == 0 {
		b.fail("a class of characters is empty")
		return nil
	}
	return b.either(alternatives...)
}

// splitUTF8 gives runs of byte sets whose product is the UTF-8 of lo to hi.
func splitUTF8(lo, hi rune, give func([]byteSet)) {
	for _, most := range []rune{0x7f, 0x7ff, 0xffff} { // one length at a time
		if lo <= most && most < hi {
			splitUTF8(lo, most, give)
			splitUTF8(most+1, hi, give)
			return
		}
	}
	if hi <= 0x7f {
		var s byteSet
		s.add(byte(lo), byte(hi))
		give([]byteSet{s})
		return
	}
	for shift := 6; shift <= 18; shift += 6 { // all trailing bytes free, or the same lead
		mask := rune(1)<<shift - 1
		if lo&^mask == hi&^mask {
			break
		}
		if lo&mask != 0 {
			splitUTF8(lo, lo|mask, give)
			splitUTF8(lo|mask+1, hi, give)
			return
		}
		if hi&mask != mask {
			splitUTF8(lo, hi&^mask-1, give)
			splitUTF8(hi&^mask, hi, give)
			return
		}
	}
	var first, last [utf8.UTFMax]byte
	n := utf8.EncodeRune(first[:], lo)
	utf8.EncodeRune(last[:], hi)
	sets := make([]byteSet, n)
	for i := range n {
		sets[i].add(first[i], last[i])
	}
	give(sets)
}

// except is the ranges of runes outside of some, in order.
func except(ranges ...runeRange) []runeRange {
	ranges = slices.SortedStableFunc(slices.Values(ranges), func(a, b runeRange) int { return cmp.Compare(a.lo, b.lo) })
	var free []runeRange
	next := rune(0)
	for _, r := range ranges {
		if r.lo > next {
			free = append(free, runeRange{next, r.lo - 1})
		}
		next = max(next, r.hi+1)
	}
	if next <= utf8.MaxRune {
		free = append(free, runeRange{next, utf8.MaxRune})
	}
	return free
}
