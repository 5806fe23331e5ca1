package grammar

import (
	"cmp"
	"encoding/json"
	"strconv"
	"strings"
)

// limit is a bound of a number.
type limit struct {
	whole    uint64 // the integer part, at most one more than that of largest
	fraction string // decimal digits
	negative bool
	open     bool // the bound itself is not allowed
}

// number gives integers or numbers between the bounds of a schema. Numbers with bounds are written without an exponent.
func (s *schemaReader) number(n *node, path string, integer bool) sequence {
	if v, ok := n.get("multipleOf"); ok && !(integer && v == json.Number("1")) {
		return s.fail(path+"/multipleOf", "only 1 is supported, for integers; leave it out")
	}
	lo := s.bound(n, path, "minimum", "exclusiveMinimum", 1)
	hi := s.bound(n, path, "maximum", "exclusiveMaximum", -1)
	switch {
	case s.b.err != nil:
		return nil
	case lo == nil && hi == nil && integer:
		return s.b.integer()
	case lo == nil && hi == nil:
		return s.b.number()
	}
	var each []sequence
	if integer {
		each = s.integers(lo, hi)
	} else {
		each = s.decimals(lo, hi)
	}
	if len(each) == 0 {
		return s.fail(path, "the bounds leave no number of at most %d digits", integerDigits)
	}
	return s.b.either(each...)
}

// bound reads the closer of an inclusive and an exclusive bound; sign is 1 for lower ones.
func (s *schemaReader) bound(n *node, path, closed, open string, sign int) *limit {
	var out *limit
	for _, key := range []string{closed, open} {
		v, ok := n.get(key)
		if !ok {
			continue
		}
		num, _ := v.(json.Number)
		if len(num) == 0 || len(num) > 40 || strings.ContainsAny(string(num), "eE") {
			s.fail(path+"/"+key, "want a number of at most 40 digits without an exponent, not %s", brief(v))
			return nil
		}
		l := &limit{open: key == open}
		whole, fraction, _ := strings.Cut(strings.TrimPrefix(string(num), "-"), ".")
		l.whole, _ = strconv.ParseUint(whole, 10, 64) // out of range: the largest uint64
		l.whole, l.fraction = min(l.whole, largest.whole+1), strings.TrimRight(fraction, "0")
		l.negative = num[0] == '-' && (l.whole != 0 || l.fraction != "")
		if out == nil || l.against(out)*sign >= 0 { // the exclusive one comes last and wins where they are equal
			out = l
		}
	}
	return out
}

// against compares two bounds as numbers.
func (l *limit) against(m *limit) int {
	switch {
	case l.negative && !m.negative:
		return -1
	case !l.negative && m.negative:
		return 1
	}
	c := cmp.Or(cmp.Compare(l.whole, m.whole), strings.Compare(l.fraction, m.fraction))
	if l.negative {
		return -c
	}
	return c
}

// largest has as many digits as an integer may have.
var largest = &limit{whole: 1e16 - 1, fraction: strings.Repeat("9", fractionDigits)}

// split gives the ranges of sizes on both sides of zero.
func split(lo, hi *limit, side func(negative bool, lo, hi *limit)) {
	zero := &limit{}
	if lo == nil || lo.negative {
		from, to := zero, largest
		if lo != nil {
			to = lo
		}
		if hi != nil && (hi.negative || *hi == limit{open: true}) {
			from = hi
		}
		side(true, from, to)
	}
	if hi == nil || !hi.negative {
		from, to := zero, largest
		if lo != nil && !lo.negative {
			from = lo
		}
		if hi != nil {
			to = hi
		}
		side(false, from, to)
	}
}

// integers are those between two bounds, either of which may be missing.
func (s *schemaReader) integers(lo, hi *limit) []sequence {
	var each []sequence
	split(lo, hi, func(negative bool, lo, hi *limit) {
		from, to := lo.whole, hi.whole
		if lo.fraction != "" || lo.open {
			from++
		}
		if hi.fraction == "" && hi.open {
			if to == 0 {
				return
			}
			to--
		}
		if negative { // zero has no sign
			from = max(from, 1)
		}
		if to = min(to, largest.whole); from <= to {
			each = append(each, s.signed(negative, s.wholes(from, to)))
		}
	})
	return each
}

func (s *schemaReader) signed(negative bool, q sequence) sequence {
	if negative {
		return s.b.join(s.b.text("-"), q)
	}
	return q
}

func decimal(n uint64) string { return strconv.FormatUint(n, 10) }

// wholes matches the integers from one bound to the other.
func (s *schemaReader) wholes(least, most uint64) sequence {
	var each []sequence
	from, to := decimal(least), decimal(most)
	for n := len(from); n <= len(to); n++ {
		lo, hi := from, to
		if n > len(from) {
			lo = "1" + strings.Repeat("0", n-1)
		}
		if n < len(to) {
			hi = strings.Repeat("9", n)
		}
		each = append(each, s.digits(lo, hi))
	}
	return s.b.either(each...)
}

// digits are the runs of digits between two of the same length.
func (s *schemaReader) digits(lo, hi string) sequence {
	n := len(lo)
	if strings.Trim(lo, "0") == "" && strings.Trim(hi, "9") == "" {
		return s.b.repeat(s.b.digit(), n, n)
	}
	if lo[0] == hi[0] {
		return s.b.join(s.b.text(lo[:1]), s.digits(lo[1:], hi[1:]))
	}
	first, last := lo[0], hi[0]
	var each []sequence
	if strings.Trim(lo[1:], "0") != "" {
		each = append(each, s.b.join(s.b.text(lo[:1]), s.digits(lo[1:], strings.Repeat("9", n-1))))
		first++
	}
	if strings.Trim(hi[1:], "9") != "" {
		each = append(each, s.b.join(s.b.text(hi[:1]), s.digits(strings.Repeat("0", n-1), hi[1:])))
		last--
	}
	if first <= last {
		each = append(each, s.b.join(s.b.class(runeRange{rune(first), rune(last)}), s.b.repeat(s.b.digit(), n-1, n-1)))
	}
	return s.b.either(each...)
}

// decimals are the numbers between two bounds, with a fraction or without.
func (s *schemaReader) decimals(lo, hi *limit) []sequence {
	var each []sequence
	split(lo, hi, func(negative bool, lo, hi *limit) {
		if hi.whole > largest.whole {
			hi = largest
		}
		if lo.whole > hi.whole {
			return
		}
		add := func(whole sequence, from, to *limit) {
			if fraction, ok := s.fraction(from, to, 0); ok {
				each = append(each, s.signed(negative, s.b.join(whole, fraction)))
			}
		}
		if lo.whole == hi.whole {
			add(s.b.text(decimal(lo.whole)), lo, hi)
			return
		}
		add(s.b.text(decimal(lo.whole)), lo, nil)
		if from, to := lo.whole+1, hi.whole-1; from <= to {
			add(s.wholes(from, to), nil, nil)
		}
		add(s.b.text(decimal(hi.whole)), nil, hi)
	})
	return each
}

// fraction returns the continuations of i digits of a fraction that equal the bounds' first i digits so far; nil
// means the digits are already strictly within that bound. It reports whether any exist.
func (s *schemaReader) fraction(lo, hi *limit, i int) (sequence, bool) {
	b := s.b
	lead := b.text(".")
	if i > 0 {
		lead = nil
	}
	if lo == nil && hi == nil {
		if i >= fractionDigits {
			return sequence{}, true
		}
		if i == 0 {
			return b.optional(b.join(lead, b.repeat(b.digit(), 1, fractionDigits))), true
		}
		return b.repeat(b.digit(), 0, fractionDigits-i), true
	}
	digit := func(l *limit) byte {
		if i < len(l.fraction) {
			return l.fraction[i]
		}
		return '0'
	}
	// The number may end here: zeros follow in its value.
	stop := (lo == nil || i >= len(lo.fraction) && !lo.open) && (hi == nil || i < len(hi.fraction) || !hi.open)
	var each []sequence
	if stop {
		each = append(each, sequence{})
	}
	// Equal to the upper bound, only zeros can follow.
	atEnd := (lo == nil || i >= len(lo.fraction)) && (hi == nil || i >= len(hi.fraction))
	if atEnd && hi != nil && stop && i < fractionDigits {
		each = append(each, b.join(lead, b.repeat(b.text("0"), 1, fractionDigits-i)))
	}
	if i < fractionDigits && !(atEnd && hi != nil) {
		first, last := byte('0'), byte('9')
		if lo != nil {
			first = digit(lo)
		}
		if hi != nil {
			last = digit(hi)
		}
		try := func(from, to byte, lo, hi *limit) {
			if from > to {
				return
			}
			if more, ok := s.fraction(lo, hi, i+1); ok {
				each = append(each, b.join(lead, b.class(runeRange{rune(from), rune(to)}), more))
			}
		}
		switch {
		case lo != nil && hi != nil && first > last:
			return nil, false
		case lo != nil && hi != nil && first == last:
			try(first, last, lo, hi)
		default:
			if lo != nil {
				try(first, first, lo, nil)
				first++
			}
			if hi != nil {
				try(last, last, nil, hi)
				last--
			}
			try(first, last, nil, nil)
		}
	}
	if len(each) == 0 {
		return nil, false
	}
	return b.either(each...), true
}
