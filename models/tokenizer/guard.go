package tokenizer

import (
	"iter"
	"strings"
	"unicode/utf8"
)

// Guard keeps control tokens that a user spelled out from acting as control tokens in a chat template's output, where
// the template's own do. It puts a mark, which no token's text contains, inside each. EncodeWith cuts the text at its
// control tokens and then drops the marks. Text without control tokens keeps its bytes, so it is encoded together with
// the template's text around it, as in training.
type Guard struct {
	special *partition
	marks   []rune // that marks are made of: noncharacters that no token's text contains
}

// The first and the last of the noncharacters that Unicode has in a row, and what their encodings begin with.
const (
	firstMark, lastMark = '\uFDD0', '\uFDEF'
	markByte            = 0xEF
)

func (t *Tokenizer) newGuard() *Guard {
	g := &Guard{special: &t.special}
	var used [lastMark - firstMark + 1]bool
	for _, text := range t.texts {
		eachMark(text, func(r rune, _ bool) { used[r-firstMark] = true })
	}
	for i, spelled := range used {
		if !spelled {
			g.marks = append(g.marks, firstMark+rune(i))
		}
	}
	return g
}

// Guard is the guard of the vocabulary.
func (t *Tokenizer) Guard() *Guard { return t.guard }

// eachMark calls found for every noncharacter of a text that marks are made of; next says whether it follows another.
func eachMark(s string, found func(r rune, next bool)) {
	for last := false; ; {
		i := strings.IndexByte(s, markByte)
		if i < 0 {
			return
		}
		r, n := utf8.DecodeRuneInString(s[i:])
		is := r >= firstMark && r <= lastMark
		if is {
			found(r, last && i == 0)
		}
		last, s = is, s[i+n:]
	}
}

// Mark returns a mark that occurs in none of the texts: a few characters, since there are more marks of that length
// than places in the texts.
func (g *Guard) Mark(texts iter.Seq[string]) string {
	base, places := len(g.marks), 0
	var digits [lastMark - firstMark + 1]int
	for i, r := range g.marks {
		digits[r-firstMark] = i
	}
	for s := range texts {
		eachMark(s, func(rune, bool) { places++ })
	}
	length, many := 1, base
	for many <= places {
		length, many = length+1, many*base
	}
	seen := make([]uint64, many/64+1)
	for s := range texts {
		code, run := 0, 0 // a character that marks are not made of counts as one: that only rules out more marks
		eachMark(s, func(r rune, next bool) {
			if !next {
				code, run = 0, 0
			}
			if code, run = (code*base+digits[r-firstMark])%many, run+1; run >= length {
				seen[code/64] |= 1 << (code % 64)
			}
		})
	}
	code := 0
	for seen[code/64]>>(code%64)&1 != 0 {
		code++
	}
	mark := make([]rune, length)
	for i := range mark {
		mark[length-1-i], code = g.marks[code%base], code/base
	}
	return string(mark)
}

// maxEnds bounds the ends that every text is tried after. Published templates have a few.
const maxEnds = 32

// Ends returns the beginnings of control tokens that the texts of a template end with, for Protector: maxEnds of them,
// and one more where there are more.
func (g *Guard) Ends(texts []string) (ends []string) {
	seen := map[string]bool{}
	for _, text := range texts {
		for i := max(0, len(text)-g.special.longest); i < len(text); i++ {
			if end := text[i:]; utf8.RuneStart(text[i]) && !seen[end] && g.special.begins(end) {
				seen[end] = true
				if ends = append(ends, end); len(ends) > maxEnds {
					return ends
				}
			}
		}
	}
	return ends
}

// Protector returns a function that protects the texts of a rendering, and calls yield, which may be nil, about every
// millisecond. After an error of yield, which it returns, it returns texts as they are.
func (g *Guard) Protector(mark string, ends []string, yield func() error) func(text string) (string, error) {
	m := &meter{left: slice, yield: yield}
	return func(text string) (string, error) {
		if m.err == nil {
			text = g.protect(text, mark, ends, m)
		}
		return text, m.err
	}
}

// What looking for a token takes of a slice, and the bytes without any that take one.
const (
	searching = 4
	searched  = 16
)

// protect puts the mark after the first character of every control token in a text, also where they overlap, and of
// every one that the text ends within. A text that goes on with a control token that one of ends begins has the mark in
// front; with more than maxEnds, every text has: a control token of one character right before it is then text too.
func (g *Guard) protect(text, mark string, ends []string, m *meter) string {
	p := g.special
	var b strings.Builder
	if text == "" || !m.spend(searching+len(text)/searched) {
		return text
	}
	if len(ends) > maxEnds {
		b.WriteString(mark)
		ends = nil
	}
	for _, end := range ends {
		if !m.spend(searching) {
			return text
		}
		whole := end + text[:min(len(text), p.longest)]
		e := p.at(whole)
		if e != none && p.tokens[e].guarded && len(p.tokens[e].text) > len(end) || p.begins(whole) {
			b.WriteString(mark)
			break
		}
	}
	written := 0
	for i := range len(text) {
		if p.first[text[i]] == p.first[int(text[i])+1] || !utf8.RuneStart(text[i]) {
			continue
		}
		if !m.spend(searching) {
			return text
		}
		if e := p.at(text[i:]); (e == none || !p.tokens[e].guarded) && !p.begins(text[i:]) {
			continue
		}
		_, n := utf8.DecodeRuneInString(text[i:])
		b.WriteString(text[written : i+n])
		b.WriteString(mark)
		written = i + n
	}
	if b.Len() == 0 {
		return text
	}
	b.WriteString(text[written:])
	return b.String()
}
