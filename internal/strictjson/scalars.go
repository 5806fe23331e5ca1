package strictjson

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"unicode/utf8"

	"foretoken/internal/quote"
)

// text reads a string and returns what lies between its quotes.
func (s *scanner) text() ([]byte, *fault) {
	s.i++
	from, ascii := s.i, true
	for s.i < len(s.data) {
		switch c := s.data[s.i]; {
		case c == '"':
			raw := s.data[from:s.i]
			if !ascii && !utf8.Valid(raw) {
				n := 0
				for {
					r, size := utf8.DecodeRune(raw[n:])
					if r == utf8.RuneError && size == 1 {
						break
					}
					n += size
				}
				return nil, wrong("holds the byte 0x%02x at byte %d, which is not UTF-8", raw[n], from+n+1)
			}
			s.i++
			return raw, nil
		case c < ' ':
			return nil, s.syntax("control characters in strings to be escaped")
		case c == '\\':
			if f := s.escape(); f != nil {
				return nil, f
			}
		default:
			ascii = ascii && c < utf8.RuneSelf
			s.i++
		}
	}
	return nil, s.syntax("")
}

// escape skips one, and both of a pair of surrogates.
func (s *scanner) escape() *fault {
	at := s.i
	s.i++
	if s.i == len(s.data) {
		return s.syntax("")
	}
	if s.data[s.i] != 'u' {
		if !bytes.ContainsRune([]byte(`"\/bfnrt`), rune(s.data[s.i])) {
			return s.syntax(`one of "\/bfnrtu after a backslash`)
		}
		s.i++
		return nil
	}
	s.i++
	first, f := s.unit()
	if f != nil || first < 0xd800 || first > 0xdfff {
		return f
	}
	if first < 0xdc00 && bytes.HasPrefix(s.data[s.i:], []byte(`\u`)) {
		s.i += 2
		second, f := s.unit()
		if f != nil || second >= 0xdc00 && second <= 0xdfff {
			return f
		}
	}
	return wrong(`holds \u%04x at byte %d, half of a pair of surrogates`, first, at+1)
}

// unit reads the four digits of an escape.
func (s *scanner) unit() (v int, _ *fault) {
	for range 4 {
		if s.i == len(s.data) {
			return 0, s.syntax("")
		}
		digit := bytes.IndexByte([]byte("0123456789abcdef"), s.data[s.i]|0x20)
		if digit < 0 || s.data[s.i] < '0' {
			return 0, s.syntax(`four hexadecimal digits after \u`)
		}
		v = v<<4 | digit
		s.i++
	}
	return v, nil
}

// unescaped is the text of a valid string.
func unescaped(raw []byte) []byte {
	if bytes.IndexByte(raw, '\\') < 0 {
		return raw
	}
	var text string
	_ = json.Unmarshal(slices.Concat([]byte{'"'}, raw, []byte{'"'}), &text)
	return []byte(text)
}

func (s *scanner) digits() bool {
	from := s.i
	for s.i < len(s.data) && s.data[s.i] >= '0' && s.data[s.i] <= '9' {
		s.i++
	}
	return s.i > from
}

// number reads a number and makes a whole one of it where the type wants that.
func (s *scanner) number(t reflect.Type) *fault {
	from := s.i
	if s.data[s.i] == '-' {
		s.i++
	}
	if s.i < len(s.data) && s.data[s.i] == '0' {
		s.i++
	} else if !s.digits() {
		return s.syntax("a digit")
	}
	plain := true
	if s.i < len(s.data) && s.data[s.i] == '.' {
		plain = false
		if s.i++; !s.digits() {
			return s.syntax("a digit")
		}
	}
	if s.i < len(s.data) && s.data[s.i]|0x20 == 'e' {
		plain = false
		if s.i++; s.i < len(s.data) && (s.data[s.i] == '+' || s.data[s.i] == '-') {
			s.i++
		}
		if !s.digits() {
			return s.syntax("a digit")
		}
	}
	if t == nil || t == number {
		return nil
	}
	text := s.data[from:s.i]
	refusal := func() *fault { return wrong("is %s, want %s", quote.Name(string(text)), kind(t)) }
	var err error
	switch k := t.Kind(); {
	case k == reflect.Interface || k == reflect.Float32 || k == reflect.Float64:
		if len(text) < 38 && plain { // every type has it
			return nil
		}
		bits := 64
		if k == reflect.Float32 {
			bits = 32
		}
		_, err = strconv.ParseFloat(string(text), bits)
	case k >= reflect.Int && k <= reflect.Uintptr:
		w, ok := whole(text)
		if !ok {
			return refusal()
		}
		if w != string(text) {
			s.patches = append(s.patches, patch{from, s.i, w})
		}
		if k <= reflect.Int64 {
			_, err = strconv.ParseInt(w, 10, t.Bits())
		} else {
			_, err = strconv.ParseUint(w, 10, t.Bits())
		}
	default:
		return refusal()
	}
	if err != nil {
		f := refusal()
		f.reason += fmt.Sprintf(" of %d bits", max(32, bits(t)))
		return f
	}
	return nil
}

func bits(t reflect.Type) int {
	if t.Kind() == reflect.Interface {
		return 64
	}
	return t.Bits()
}

// whole writes a number without point and exponent, if it is a whole one of at most 20 digits.
func whole(text []byte) (string, bool) {
	sign := ""
	if text[0] == '-' {
		sign, text = "-", text[1:]
	}
	exponent := 0
	if at := bytes.IndexAny(text, "eE"); at >= 0 {
		e, err := strconv.Atoi(string(text[at+1:]))
		if exponent = e; err != nil { // 0e99999999999999999999 too, though it is an integer
			return "", false
		}
		text = text[:at]
	}
	digits := text
	if at := bytes.IndexByte(text, '.'); at >= 0 {
		digits = slices.Concat(text[:at], text[at+1:])
		exponent -= len(text) - at - 1
	}
	digits = bytes.TrimLeft(digits, "0")
	for short := bytes.TrimRight(digits, "0"); exponent < 0 && len(short) < len(digits); exponent++ {
		digits = digits[:len(digits)-1]
	}
	if len(digits) == 0 {
		return "0", true
	}
	if exponent < 0 || exponent > 20 || len(digits)+exponent > 20 {
		return "", false
	}
	return sign + string(digits) + string(bytes.Repeat([]byte("0"), exponent)), true
}
