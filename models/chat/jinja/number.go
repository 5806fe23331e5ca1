package jinja

import (
	"strconv"
	"strings"
)

// numeral is a number of a JSON text that neither an int64 nor a float64 holds. A template writes its digits, and
// compares and calculates with the nearest float.
type numeral string

// fromNumber reads a number of JSON: an int64, a float64 where that loses no digit, or a numeral.
func fromNumber(text string) Value {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return n
	}
	x, err := strconv.ParseFloat(text, 64)
	n := numeral(text)
	if err != nil || n.whole() || significant(text) != significant(strconv.FormatFloat(x, 'e', -1, 64)) {
		return n
	}
	return x
}

// whole reports whether the number is written without a fraction and an exponent, as Python's integers are.
func (n numeral) whole() bool { return !strings.ContainsAny(string(n), ".eE") }

func (n numeral) float() float64 {
	x, _ := strconv.ParseFloat(string(n), 64)
	return x
}

func (n numeral) negated() numeral {
	if rest, ok := strings.CutPrefix(string(n), "-"); ok {
		return numeral(rest)
	}
	return "-" + n
}

// decimal is ±0.digits × 10^exponent, the digits without zeros at either end.
type decimal struct {
	negative bool
	digits   string
	exponent int
}

// significant returns the value of a decimal number. An exponent beyond an int counts as the largest one.
func significant(text string) decimal {
	mantissa, power, _ := strings.Cut(strings.ToLower(text), "e")
	mantissa, negative := strings.CutPrefix(mantissa, "-")
	before, after, _ := strings.Cut(mantissa, ".")
	exponent, _ := strconv.Atoi(power)
	digits := strings.TrimLeft(before+after, "0")
	exponent += len(before) - (len(before+after) - len(digits))
	if digits = strings.TrimRight(digits, "0"); digits == "" {
		exponent = 0
	}
	return decimal{negative, digits, exponent}
}

func isNumeral(v Value) bool {
	_, ok := v.(numeral)
	return ok
}
