package tokenizer

import (
	"strings"
	"unicode/utf8"
)

// Guard keeps control tokens that a user spelled out from acting as control tokens in a chat template's output,
// next to those of the template. It puts a mark, which no token's text contains, inside each. EncodeWith cuts
// the text at its control tokens and then drops the marks. Text without control tokens keeps its bytes, so it is
// encoded together with the template's text around it, as in training.
type Guard struct {
	texts [256][]string // of the tokens that only EncodeSpecial finds, by first byte
}

// guardRune makes up the marks: a Unicode noncharacter.
const guardRune = "\ufdd0"

// NewGuard looks the vocabulary's control tokens up.
func (t *Tokenizer) NewGuard() *Guard {
	g := &Guard{}
	for id, text := range t.texts {
		if k := t.kinds[id]; text != "" && (k == control || k == unknown) {
			g.texts[text[0]] = append(g.texts[text[0]], text)
		}
	}
	return g
}

// Mark is a mark that occurs in none of the texts.
func (g *Guard) Mark(texts ...string) string {
	longest := 0
	for _, s := range texts {
		run := 0
		for {
			at := strings.Index(s, guardRune)
			if at < 0 {
				break
			}
			if at > 0 {
				run = 0
			}
			run++
			longest = max(longest, run)
			s = s[at+len(guardRune):]
		}
	}
	return strings.Repeat(guardRune, longest+1)
}

// Protect puts the mark after the first character of every control token in a text, also where they overlap. A
// control token of one character would be indistinguishable from the character; vocabularies have none.
func (g *Guard) Protect(text, mark string) string {
	var b strings.Builder
	written := 0
	for i := range len(text) {
		for _, token := range g.texts[text[i]] {
			if !strings.HasPrefix(text[i:], token) {
				continue
			}
			_, n := utf8.DecodeRuneInString(token)
			if n == len(token) || i+n <= written {
				continue
			}
			b.WriteString(text[written : i+n])
			b.WriteString(mark)
			written = i + n
			break
		}
	}
	if written == 0 {
		return text
	}
	b.WriteString(text[written:])
	return b.String()
}
