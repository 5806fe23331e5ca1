// Package number handles the numbers of JSON Schema by value: exact decimals, sets of them given by bounds, multiples
// and lists, and the JSON texts of a set as a regular language.
package number

import (
	"cmp"
	"errors"
	"fmt"
	"math/bits"
	"strconv"
	"strings"
)

const (
	// longestText bounds the bytes of a number that Parse reads.
	longestText = 1000
	// exponentText bounds the digits of an exponent that Parse reads, leading zeros aside.
	exponentText = 9
	// stepDigits bounds the digits of what numbers are divided by, and largestStep is above those.
	stepDigits, largestStep = 18, 1_000_000_000_000_000_000
)

// Decimal is an exact decimal number, digits × 10^exponent. It is normalised, so == compares values. The zero Decimal
// is 0.
type Decimal struct {
	negative bool
	digits   string // without zeros at either end; "" is 0
	exponent int
}

// Int returns n as a Decimal.
func Int(n int64) Decimal {
	text := strconv.FormatInt(n, 10)
	return normal(n < 0, strings.TrimPrefix(text, "-"), 0)
}

// normal returns ±digits × 10^exponent.
func normal(negative bool, digits string, exponent int) Decimal {
	digits = strings.TrimLeft(digits, "0")
	short := strings.TrimRight(digits, "0")
	if short == "" {
		return Decimal{}
	}
	return Decimal{negative, short, exponent + len(digits) - len(short)}
}

// Parse reads a number in the syntax of JSON (RFC 8259, section 6) of at most 1,000 bytes. An exponent of more than
// nine digits is an error.
func Parse(text string) (Decimal, error) {
	if len(text) > longestText {
		return Decimal{}, fmt.Errorf("a number of %d characters; write at most %d", len(text), longestText)
	}
	rest, negative := strings.CutPrefix(text, "-")
	whole, rest := leadingDigits(rest)
	fraction := ""
	bad := whole == "" || len(whole) > 1 && whole[0] == '0'
	if after, ok := strings.CutPrefix(rest, "."); ok {
		fraction, rest = leadingDigits(after)
		bad = bad || fraction == ""
	}
	exponent := 0
	if rest != "" && (rest[0] == 'e' || rest[0] == 'E') {
		sign, digits := 1, strings.TrimPrefix(rest[1:], "+")
		if len(digits) == len(rest)-1 && strings.HasPrefix(digits, "-") {
			sign, digits = -1, digits[1:]
		}
		digits, rest = leadingDigits(digits)
		bad = bad || digits == ""
		if len(strings.TrimLeft(digits, "0")) > exponentText {
			return Decimal{}, fmt.Errorf("the exponent %.20s of a number; write one of at most %d digits", digits,
				exponentText)
		}
		exponent, _ = strconv.Atoi(digits)
		exponent *= sign
	}
	if bad || rest != "" {
		return Decimal{}, errors.New("want a number in the syntax of JSON")
	}
	return normal(negative, whole+fraction, exponent-len(fraction)), nil
}

// leadingDigits cuts text after the decimal digits that it begins with.
func leadingDigits(text string) (digits, rest string) {
	n := 0
	for n < len(text) && text[n] >= '0' && text[n] <= '9' {
		n++
	}
	return text[:n], text[n:]
}

// top returns the number of digits before the decimal point: 10^(top-1) ≤ |d| < 10^top, for d other than 0.
func (d Decimal) top() int { return len(d.digits) + d.exponent }

// Cmp returns -1, 0 or 1 where d is less than, equal to or more than e. It writes out no exponent.
func (d Decimal) Cmp(e Decimal) int {
	if c := cmp.Compare(d.sign(), e.sign()); c != 0 {
		return c
	}
	return d.sign() * cmp.Or(cmp.Compare(d.top(), e.top()), strings.Compare(d.digits, e.digits))
}

func (d Decimal) sign() int {
	switch {
	case d.digits == "":
		return 0
	case d.negative:
		return -1
	}
	return 1
}

func (d Decimal) abs() Decimal {
	d.negative = false
	return d
}

// String returns the number in JSON as JavaScript prints numbers (ECMA-262, Number::toString), but with all digits:
// without an exponent from 1e-6 to below 1e21.
func (d Decimal) String() string {
	digits, n, top := d.digits, len(d.digits), d.top()
	power := ""
	switch {
	case n == 0:
		return "0"
	case n <= top && top <= 21:
		digits += strings.Repeat("0", top-n)
	case -6 < top && top <= 0:
		digits, top = strings.Repeat("0", 1-top)+digits, 1
	case top <= 0 || top > 21:
		power, top = "e"+strconv.Itoa(top-1), 1
		if power[1] != '-' {
			power = "e+" + power[1:]
		}
	}
	if top < len(digits) {
		digits = digits[:top] + "." + digits[top:]
	}
	if d.negative {
		digits = "-" + digits
	}
	return digits + power
}

// Int64 returns the number as an int64, and whether it is one.
func (d Decimal) Int64() (int64, bool) {
	if d.exponent < 0 || d.top() > 19 {
		return 0, d == Decimal{}
	}
	n, err := strconv.ParseInt(d.String(), 10, 64)
	return n, err == nil
}

// isMultiple reports whether d is a whole number of times q, which has at most stepDigits digits.
func (d Decimal) isMultiple(q Decimal) bool {
	if d.digits == "" {
		return true
	}
	// The digits of d end in no zero, so no power of ten divides them.
	if q.digits == "" || q.long() || d.exponent < q.exponent {
		return false
	}
	n, rest := q.step(), uint64(0)
	if n == 1 {
		return true
	}
	for i := range len(d.digits) {
		rest = (rest*10 + uint64(d.digits[i]-'0')) % n
	}
	// A power of ten beyond the divisor's bits divides by all of its twos and fives.
	for range min(d.exponent-q.exponent, 64) {
		rest = rest * 10 % n
	}
	return rest == 0
}

// long reports whether a number has too many digits to divide by it.
func (d Decimal) long() bool { return len(d.digits) > stepDigits }

// step returns the digits of a number that is not long.
func (d Decimal) step() uint64 {
	n, _ := strconv.ParseUint(d.digits, 10, 64)
	return n
}

// factors returns rest, twos and fives with |d| = rest × 2^twos × 5^fives, for d other than 0 and not long.
func (d Decimal) factors() (rest uint64, twos, fives int) {
	rest, twos, fives = d.step(), d.exponent, d.exponent
	for ; rest%2 == 0; rest /= 2 {
		twos++
	}
	for ; rest%5 == 0; rest /= 5 {
		fives++
	}
	return rest, twos, fives
}

// common returns the least common multiple of two positive numbers; false where it has more than stepDigits digits.
func common(p, q Decimal) (Decimal, bool) {
	switch {
	case p.digits == "" || q.digits == "" || p.long() || q.long():
		return Decimal{}, false
	case p.isMultiple(q):
		return p, true
	case q.isMultiple(p):
		return q, true
	}
	a, twos, fives := p.factors()
	b, t, f := q.factors()
	twos, fives = max(twos, t), max(fives, f)
	exponent := min(twos, fives)
	n, ok := product(a/gcd(a, b), b)
	for ; ok && twos > exponent; twos-- {
		n, ok = product(n, 2)
	}
	for ; ok && fives > exponent; fives-- {
		n, ok = product(n, 5)
	}
	return normal(false, strconv.FormatUint(n, 10), exponent), ok
}

// product multiplies; false where the result has more than stepDigits digits.
func product(a, b uint64) (uint64, bool) {
	over, n := bits.Mul64(a, b)
	return n, over == 0 && n < largestStep
}

func gcd[T int | uint64](a, b T) T {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// floor returns the largest integer up to d / 10^exponent, and whether it is that; ok is false where it has more than
// stepDigits digits.
func (d Decimal) floor(exponent int) (n int64, exact, ok bool) {
	top := d.top() - exponent
	switch {
	case d.digits == "":
		return 0, true, true
	case top > stepDigits:
		return 0, false, false
	case top > 0:
		whole := d.digits[:min(top, len(d.digits))]
		n, _ = strconv.ParseInt(whole+strings.Repeat("0", top-len(whole)), 10, 64)
		exact = len(d.digits) <= top
	}
	if d.negative {
		if n = -n; !exact {
			n--
		}
	}
	return n, exact, true
}
