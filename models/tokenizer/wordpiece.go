package tokenizer

import (
	_ "embed"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"foretoken/models/gguf"
)

// wordPiece is BERT's tokenizer (Devlin et al. 2019; Wu et al. 2016, section 4.1). White space separates
// words, and each mark of punctuation and each Chinese character is a word. Encoding takes the longest token that a
// word begins with, then the longest that its rest begins with. A word that tokens cannot make becomes the unknown
// token. Tokens at the beginning of a word begin with ▁, as GGUF has them.
type wordPiece struct {
	ids     *index
	kinds   []kind // text does not become a control token
	longest int    // bytes of the longest token
	unk     int32
	lower   bool // letters become small
	strip   bool // characters lose their accents
}

const (
	keyCLS    = "tokenizer.ggml.cls_token_id"
	keySEP    = "tokenizer.ggml.seperator_token_id" // as GGUF spells it
	keyLower  = "tokenizer.ggml.normalizer.lowercase"
	keyAccent = "tokenizer.ggml.normalizer.strip_accents"
)

// maxWordPiece bounds the tokens: the time of a text grows with it. The longest published ones have 40 bytes.
const maxWordPiece = 256

func (t *Tokenizer) loadWordPiece(f *gguf.File) (err error) {
	t.spell, t.prefix, t.addBOS, t.addEOS, t.elastic = plainWords, true, true, true, true
	w := &wordPiece{ids: t.ids, kinds: t.kinds}
	for id, s := range t.texts {
		if len(s) > maxWordPiece {
			return t.bad(keyTokens, "token %d has %d bytes, at most %d are allowed", id, len(s), maxWordPiece)
		}
		w.longest = max(w.longest, len(s))
	}
	if w.lower, err = f.BoolOr(keyLower, true); err != nil {
		return t.wrap(err)
	}
	if w.strip, err = f.BoolOr(keyAccent, w.lower); err != nil {
		return t.wrap(err)
	}
	if w.unk, err = t.readID(f, keyUNK); err != nil {
		return err
	}
	if w.unk == none {
		return t.bad(keyUNK, "missing, so not every text can be written")
	}
	t.model = w
	return nil
}

// readEnds reads the tokens that begin and end a text, which BERT's files call CLS and SEP.
func (t *Tokenizer) readEnds(f *gguf.File) (err error) {
	for _, s := range []struct {
		key string
		id  *int32
	}{{keyCLS, &t.bos}, {keySEP, &t.eos}} {
		if *s.id == none {
			if *s.id, err = t.readID(f, s.key); err != nil {
				return err
			}
		}
	}
	return nil
}

// encode implements model.
func (w *wordPiece) encode(text string, ids []int32, m *meter) []int32 {
	word := []byte("▁")
	const empty = len("▁")
	end := func() {
		if len(word) > empty {
			ids = w.word(string(word), ids, m)
			word = word[:empty]
		}
	}
	for _, r := range text {
		if !m.spend(utf8.RuneLen(r)) {
			return ids
		}
		if w.strip {
			r = withoutAccent(r)
		}
		c := categoryOf(r)
		switch {
		case c&catSpace != 0:
			end()
			continue
		case r == utf8.RuneError || unicode.In(r, unicode.Cc, unicode.Cf, unicode.Co) || w.strip && c&catM != 0:
			continue
		}
		alone := c&catP != 0 || r < utf8.RuneSelf && c&catS != 0 || isIdeograph(r)
		if alone {
			end()
		}
		if w.lower {
			r = unicode.ToLower(r)
		}
		word = utf8.AppendRune(word, r)
		if alone {
			end()
		}
	}
	end()
	return ids
}

// word appends the tokens of a word, in time proportional to it and the longest token.
func (w *wordPiece) word(word string, ids []int32, m *meter) []int32 {
	from := len(ids)
	for at := 0; at < len(word); {
		to := min(len(word), at+w.longest)
		for ; to > at; to-- {
			if id, ok := w.ids.id(word[at:to]); ok && w.kinds[id] != control {
				ids = append(ids, id)
				break
			}
		}
		if to == at || !m.spend(1+w.longest/8) {
			return append(ids[:from], w.unk)
		}
		at = to
	}
	return ids
}

// isIdeograph reports whether a character is a word itself, as BERT's tokenizer has it.
func isIdeograph(r rune) bool {
	return r >= 0x4E00 && r <= 0x9FFF || r >= 0x3400 && r <= 0x4DBF || r >= 0x20000 && r <= 0x2A6DF ||
		r >= 0x2A700 && r <= 0x2B73F || r >= 0x2B740 && r <= 0x2B81F || r >= 0x2B920 && r <= 0x2CEAF ||
		r >= 0xF900 && r <= 0xFAFF || r >= 0x2F800 && r <= 0x2FA1F
}

// decompositions has a line for each character that canonical decompositions (Unicode, NFD) begin with, followed by
// the characters that they are of. Hangul is not among them.
//
//go:embed nfd.txt
var decompositions string

var accented = sync.OnceValue(func() map[rune]rune {
	base := make(map[rune]rune, len(decompositions)/4)
	for line := range strings.Lines(decompositions) {
		first := rune(0)
		for _, r := range strings.TrimSuffix(line, "\n") {
			if first == 0 {
				first = r
			} else {
				base[r] = first
			}
		}
	}
	return base
})

// withoutAccent returns the first character of a character's decomposition, which is all that llama.cpp keeps.
func withoutAccent(r rune) rune {
	const firstSyllable, lastSyllable, firstJamo, perJamo = 0xAC00, 0xD7A3, 0x1100, 21 * 28
	switch {
	case r < 0xC0:
		return r
	case r >= firstSyllable && r <= lastSyllable:
		return firstJamo + (r-firstSyllable)/perJamo
	}
	if base, ok := accented()[r]; ok {
		return base
	}
	return r
}
