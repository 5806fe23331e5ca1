package tokenizer

import (
	"fmt"
	"slices"
	"strings"

	"foretoken/internal/quote"
)

// Compatible reports whether a draft with vocabulary a can propose ids to a target with vocabulary b: the same text
// for every id, the same BOS where one is added, and end-of-text tokens known to both. The error names the first
// difference.
//
// Vocabularies padded to round sizes fit others of their family: an id that is padding in one of them, or beyond
// its end, must not be plain text in the other. The decoder masks ids beyond the target's own.
//
// Files of one family name different tokens as EOS (a base model <|endoftext|>, its chat model <|im_end|>), so each
// one's EOS must end generation in the other too. Beyond that the sets of end tokens may differ. Decoding ends
// where the target's set says; a union would cut off text that the target continues by itself.
func Compatible(a, b *Tokenizer) error {
	differ := func(format string, args ...any) error {
		return fmt.Errorf("tokenizer: %s and %s do not fit together: %s: choose two models of one family",
			a.name, b.name, fmt.Sprintf(format, args...))
	}
	// Where only one vocabulary has the id, the cases below handle it.
	for id := range max(len(a.texts), len(b.texts)) {
		x, y := a.plain(id), b.plain(id)
		switch {
		case x == nothing && y == nothing:
		case x == nothing || y == nothing:
			if longer, in := a, "first"; x == text || y == text {
				if x == nothing {
					longer, in = b, "second"
				}
				return differ(
					"the vocabularies have %d and %d tokens: token %d is %s in the %s and missing in the other",
					len(a.texts), len(b.texts), id, quote.Text(longer.texts[id]), in)
			}
		case a.texts[id] != b.texts[id]:
			return differ("token %d is %s in the first and %s in the second", id, quote.Text(a.texts[id]),
				quote.Text(b.texts[id]))
		}
	}
	name := func(t *Tokenizer, id int32) string {
		if id == none {
			return "not set"
		}
		return fmt.Sprintf("%d %s", id, quote.Text(t.texts[id]))
	}
	if a.addBOS != b.addBOS {
		return differ("%s is %t in the first and %t in the second", keyAddBOS, a.addBOS, b.addBOS)
	}
	if a.addBOS && a.bos != b.bos {
		return differ("BOS is %s in the first and %s in the second", name(a, a.bos), name(b, b.bos))
	}
	if (a.eos == none) != (b.eos == none) || a.eos != none && !(b.EOG(a.eos) && a.EOG(b.eos)) {
		return differ("EOS is %s in the first and %s in the second, and does not end generation in both",
			name(a, a.eos), name(b, b.eos))
	}
	return nil
}

// role classifies an id: text, control, padding.
type role uint8

const (
	nothing role = iota // beyond the vocabulary, unused, or padding
	sign                // control tokens and the like
	text
)

func (t *Tokenizer) plain(id int) role {
	switch {
	case id >= len(t.texts), t.kinds[id] == unused, isPadding(t.texts[id]):
		return nothing
	case t.kinds[id] == normal || t.kinds[id] == byteToken:
		return text
	}
	return sign
}

var paddings = []string{"[pad", "<pad", "<|pad", "<unused", "[unused", "<|unused", "<|reserved", "<|extra"}

// isPadding recognises the names that converters give to ids without a token.
func isPadding(text string) bool {
	if text == "" || text[0] != '[' && text[0] != '<' {
		return false
	}
	s := strings.ToLower(text)
	return slices.ContainsFunc(paddings, func(name string) bool { return strings.HasPrefix(s, name) })
}
