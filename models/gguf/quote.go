package gguf

import (
	"errors"
	"strconv"
	"strings"
	"unicode/utf8"
)

// mostQuoted bounds the bytes that Quote shows of a text.
const mostQuoted = 80

// Quote shows a text from a file, a request or a server in a message: in quotation marks, on one line, cut to 80
// bytes, and without characters that steer a terminal. Messages show such a text by Quote, Show or Escape only;
// TestForeignTextIsQuoted in package fuzztest checks it.
func Quote(s string) string {
	q := strconv.Quote(s[:min(len(s), mostQuoted)])
	if len(s) > mostQuoted || len(q) > mostQuoted+2 {
		// What was escaped may be cut in the middle: it is only shown.
		q = strings.ToValidUTF8(q[:min(len(q)-1, mostQuoted)], "") + "…\""
	}
	return q
}

// Show returns a short, printable text, such as the usual name of a tensor, as it is, and Quote of any other.
func Show(s string) string {
	if q := Quote(s); s == "" || q != `"`+s+`"` {
		return q
	}
	return s
}

// OneLine keeps an error of a decoder, which quotes numbers of any length, to one line of 300 bytes.
func OneLine(err error) error {
	return errors.New(Escape(strings.Join(strings.Fields(err.Error()), " "), 300))
}

// Escape returns a text in which all that Quote escapes, but for quotation marks and backslashes, is escaped the
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
