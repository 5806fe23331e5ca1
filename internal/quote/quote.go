// Package quote shows texts from files, requests and servers in messages: short, on one line, and without characters
// that steer a terminal. Messages show such a text by Text, Name or Escape only; TestForeignTextIsQuoted in package
// fuzztest checks it.
package quote

import (
	"errors"
	"strconv"
	"strings"
	"unicode/utf8"
)

// mostQuoted bounds the bytes that Text shows.
const mostQuoted = 80

// Text returns a text in quotation marks, with the escapes of Go, cut to 80 bytes.
func Text(s string) string {
	q := strconv.Quote(s[:min(len(s), mostQuoted)])
	if len(s) > mostQuoted || len(q) > mostQuoted+2 {
		// What was escaped may be cut in the middle: it is only shown.
		q = strings.ToValidUTF8(q[:min(len(q)-1, mostQuoted)], "") + "…\""
	}
	return q
}

// Name returns a short, printable text, such as the usual name of a tensor, as it is, and Text of any other.
func Name(s string) string {
	if q := Text(s); s == "" || q != `"`+s+`"` {
		return q
	}
	return s
}

// Error keeps an error of a decoder, which quotes numbers of any length, to one line of 300 bytes.
func Error(err error) error {
	return errors.New(Escape(strings.Join(strings.Fields(err.Error()), " "), 300))
}

// Escape returns a text in which all that Text escapes, but for quotation marks and backslashes, is escaped the
// same way. It cuts the text after most bytes.
func Escape(s string, most int) string {
	var b strings.Builder
	for len(s) > 0 {
		r, size := utf8.DecodeRuneInString(s)
		shown := s[:size]
		if !strconv.IsPrint(r) || r == utf8.RuneError && size == 1 {
			q := strconv.Quote(shown)
			shown = q[1 : len(q)-1]
		}
		if b.Len()+len(shown) > most {
			b.WriteString("…")
			break
		}
		b.WriteString(shown)
		s = s[size:]
	}
	return b.String()
}
