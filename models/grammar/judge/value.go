package main

import (
	"bytes"
	"strconv"
	"strings"

	"foretoken/internal/strictjson"
	"foretoken/models/grammar"
)

// value is a JSON value as a grammar has it written: compact, strings in one spelling, numbers by value.
type value struct {
	kind    byte     // '{', '[', or 0: a scalar
	texts   []string // of a scalar: its spellings, the canonical one first
	items   []*value
	members []member // in the order of the text
}

type member struct {
	name  string // quoted, with a colon
	value *value
}

// read makes the value of checked JSON.
func read(raw []byte) *value {
	raw = bytes.TrimSpace(raw)
	v := &value{kind: raw[0]}
	switch raw[0] {
	case '{':
		for name, inner := range strictjson.Members(raw) {
			v.members = append(v.members, member{grammar.Quoted(name) + ":", read(inner)})
		}
	case '[':
		for inner := range strictjson.Elements(raw) {
			v.items = append(v.items, read(inner))
		}
	case '"':
		return &value{texts: []string{grammar.Quoted(strictjson.Text(raw))}}
	case 't', 'f', 'n':
		return &value{texts: []string{string(raw)}}
	default:
		return &value{texts: spellings(string(raw))}
	}
	return v
}

// mostPlain bounds the digits of a number that is written without an exponent.
const mostPlain = 400

// spellings are the ways to write a number that a grammar may have chosen: without an exponent, with one, as given.
func spellings(text string) []string {
	mantissa, power, _ := strings.Cut(strings.ToLower(text), "e")
	sign := ""
	if mantissa, negative := strings.CutPrefix(mantissa, "-"); negative {
		sign, text = "-", mantissa
	}
	whole, fraction, _ := strings.Cut(strings.TrimPrefix(mantissa, "-"), ".")
	exponent, err := strconv.Atoi(strings.TrimPrefix(power, "+"))
	if err != nil && power != "" {
		return []string{text}
	}
	digits := strings.TrimLeft(whole+fraction, "0")
	if digits == "" {
		return []string{"0", "-0", "0.0"}
	}
	exponent -= len(fraction)
	short := strings.TrimRight(digits, "0")
	exponent += len(digits) - len(short)
	var all []string
	switch n := len(short); {
	case exponent >= 0 && n+exponent <= mostPlain:
		all = append(all, sign+short+strings.Repeat("0", exponent))
	case exponent < 0 && n > -exponent:
		all = append(all, sign+short[:n+exponent]+"."+short[n+exponent:])
	case exponent < 0 && -exponent <= mostPlain:
		all = append(all, sign+"0."+strings.Repeat("0", -exponent-n)+short)
	}
	point := short[:1]
	if len(short) > 1 {
		point += "." + short[1:]
	}
	power = strconv.Itoa(exponent + len(short) - 1)
	if all = append(all, sign+point+"e"+power); power[0] != '-' && len(power) > 1 { // as JavaScript writes it
		all = append(all, sign+point+"e+"+power)
	}
	return all
}

// text is the canonical text, its members in the order given.
func (v *value) text() string {
	var b strings.Builder
	v.write(&b)
	return b.String()
}

func (v *value) write(b *strings.Builder) {
	switch v.kind {
	case '{':
		b.WriteByte('{')
		for i, m := range v.members {
			if i > 0 {
				b.WriteByte(',')
			}
			b.WriteString(m.name)
			m.value.write(b)
		}
		b.WriteByte('}')
	case '[':
		b.WriteByte('[')
		for i, item := range v.items {
			if i > 0 {
				b.WriteByte(',')
			}
			item.write(b)
		}
		b.WriteByte(']')
	default:
		b.WriteString(v.texts[0])
	}
}
