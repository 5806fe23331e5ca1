package tokenizer

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"foretoken/internal/quote"
	"foretoken/models/gguf"
)

// bpe is byte-pair encoding (Sennrich et al. 2016, section 3.2). A word starts as its bytes, spelled in GPT-2's
// alphabet, or as its characters, of which those that are no token are written as byte tokens. The neighbours whose
// merge comes first in the list are joined until no pair is in the list.
type bpe struct {
	pre    *preTokenizer
	cut    cutter
	bytes  [256]int32 // the token of each byte, or what stands in for it; none: the byte is dropped
	merges map[pair]merge
	kinds  []kind // text is not merged into a control token
	ids    *index // by spelling

	wordsOnly bool // words of white space are dropped
	lower     bool // letters become small
}

type pair struct{ left, right int32 }

type merge struct{ rank, id int32 }

// Most text repeats its words, so each text is encoded with a cache of its short ones. Its first words fill it: hostile
// input costs no more than encoding without it. No text finds another's words: its time would tell what that one says.
const (
	cacheWords    = 1 << 14
	cacheWordSize = 48
)

// span is a place in the ids of a text.
type span struct{ from, to int }

// alphabet spells each byte with one printable character, as the vocabularies
// of byte-level BPE do: printable bytes as themselves, the others from U+0100.
var alphabet = func() (a [256]rune) {
	extra := rune(256)
	for b := range a {
		if b >= 33 && b <= 126 || b >= 161 && b <= 172 || b >= 174 {
			a[b] = rune(b)
		} else {
			a[b] = extra
			extra++
		}
	}
	return a
}()

// byteOf is the way back: the byte of each character, or -1.
var byteOf = func() (bytes [256 + 68]int16) {
	for r := range bytes {
		bytes[r] = -1
	}
	for b, r := range alphabet {
		bytes[r] = int16(b)
	}
	return bytes
}()

// spelledBytes undoes the byte alphabet and appends the bytes to out. Characters outside it stand for
// themselves: some converters leave added tokens unspelled.
func spelledBytes(out []byte, s string) []byte {
	for _, r := range s {
		if int(r) < len(byteOf) && byteOf[r] >= 0 {
			out = append(out, byte(byteOf[r]))
		} else {
			out = utf8.AppendRune(out, r)
		}
	}
	return out
}

func spell(word string) string {
	var b strings.Builder
	for i := range len(word) {
		b.WriteRune(alphabet[word[i]])
	}
	return b.String()
}

// loadBPE reads a vocabulary. name is the pre-tokenizer, "" where the file names none. wordsOnly: white space is
// dropped.
func (t *Tokenizer) loadBPE(f *gguf.File, name string, wordsOnly bool) (err error) {
	if name == "" {
		name = "default"
		t.note = "the file does not say how its tokenizer cuts text into words (" + keyPre +
			"): the default of llama.cpp is used, which lowers the quality of answers if it is another"
	}
	pre := findPre(name)
	if pre == nil {
		return t.bad(keyPre, "%s is not supported; the nearest names are %s: a newer version may know it",
			quote.Text(name), strings.Join(quote.Nearest(name, preNames(), 5), ", "))
	}
	t.addBOS, t.spell = pre.addBOS, pre.spell
	b := &bpe{pre: pre, kinds: t.kinds, ids: t.ids, wordsOnly: wordsOnly}
	t.elastic = wordsOnly
	if b.lower, err = f.BoolOr(keyLower, false); err != nil {
		return t.wrap(err)
	}
	b.lower = b.lower && wordsOnly
	if b.cut, err = newCutter(pre); err != nil {
		return t.bad(keyPre, "%v", err)
	}
	unk, err := t.readID(f, keyUNK)
	if err != nil {
		return err
	}
	for i, r := range alphabet {
		text := string(r)
		if pre.spell != byteAlphabet {
			text = byteText(byte(i))
		}
		id, ok := t.ids.id(text)
		if !ok || t.kinds[id] == control {
			// Vocabularies learned without every byte leave out some that UTF-8 never or hardly ever has.
			id = unk
		}
		b.bytes[i] = id
		t.elastic = t.elastic || id == none // such bytes are dropped
	}
	if err := t.readMerges(f, b); err != nil {
		return err
	}
	t.model = b
	return nil
}

func (t *Tokenizer) readMerges(f *gguf.File, b *bpe) error {
	lines, err := f.Strings(keyMerges)
	if err != nil {
		return t.wrap(err)
	}
	if len(lines) > maxTokens {
		return t.bad(keyMerges, "%d merges, at most %d are allowed", len(lines), maxTokens)
	}
	b.merges = make(map[pair]merge, min(len(lines), maxTokens/8)) // the largest published list has as many
	for rank, line := range lines {
		// A token may itself begin with a space, never end with one.
		at := -1
		if len(line) > 1 {
			at = strings.IndexByte(line[1:], ' ') + 1
		}
		if at <= 0 || at == len(line)-1 {
			return t.bad(keyMerges, "merge %d %s is not two tokens with a space between", rank, quote.Text(line))
		}
		left, right := line[:at], line[at+1:]
		var p pair
		var joined int32
		for _, x := range []struct {
			text string
			id   *int32
		}{{left, &p.left}, {right, &p.right}, {left + right, &joined}} {
			id, ok := t.ids.id(x.text)
			if !ok {
				return t.bad(keyMerges, "merge %d %s needs the token %s, which the vocabulary does not have", rank,
					quote.Text(line), quote.Text(x.text))
			}
			*x.id = id
		}
		if first, dup := b.merges[p]; dup { // no published file has one twice
			return t.bad(keyMerges, "merges %d and %d are both %s", first.rank, rank, quote.Text(line))
		}
		b.merges[p] = merge{int32(rank), joined}
	}
	return nil
}

// encode implements model. The text is UTF-8.
func (b *bpe) encode(text string, ids []int32, m *meter) []int32 {
	if b.lower {
		text = strings.Map(unicode.ToLower, text)
	}
	runes := []rune(text)
	words := map[string]span{}
	from, at := 0, 0 // in characters, in bytes
	for _, end := range b.cut.cut(runes, m) {
		size := 0
		for _, r := range runes[from:end] {
			size += utf8.RuneLen(r)
		}
		if !m.spend(size) {
			return ids
		}
		if !b.wordsOnly || !unicode.IsSpace(runes[from]) {
			ids = b.word(text[at:at+size], ids, words, m)
		}
		from, at = end, at+size
	}
	return ids
}

// joins reports whether text can become the id by a listed merge.
func (b *bpe) joins(id int32) bool {
	for _, m := range b.merges {
		if m.id == id {
			return true
		}
	}
	return false
}

// word encodes one word of a text, whose earlier ones are in words.
func (b *bpe) word(word string, ids []int32, words map[string]span, m *meter) []int32 {
	if len(word) > cacheWordSize {
		return b.merge(word, ids, m)
	}
	if known, ok := words[word]; ok {
		return append(ids, ids[known.from:known.to]...)
	}
	from := len(ids)
	ids = b.merge(word, ids, m)
	if len(words) < cacheWords {
		words[word] = span{from, len(ids)}
	}
	return ids
}

// merge encodes one word in O(n log n).
func (b *bpe) merge(word string, ids []int32, m *meter) []int32 {
	bytes := b.pre.spell == byteAlphabet
	if b.pre.wholeWords || b.pre.wholeLines && word[0] == '\n' {
		text := word
		if bytes {
			text = spell(word)
		}
		if id, ok := b.ids.id(text); ok && b.kinds[id] != control {
			return append(ids, id)
		}
	}
	syms := make([]symbol, 0, len(word))
	if bytes {
		for i := range len(word) {
			if id := b.bytes[word[i]]; id != none {
				syms = append(syms, symbol{id: id})
			}
		}
	} else {
		for _, r := range word {
			id, ok := b.ids.id(string(r))
			if !ok || b.kinds[id] == control {
				id = noToken
			}
			syms = append(syms, symbol{id: id})
		}
	}
	join(syms, m, func(left, right int32) (int32, int32, bool) {
		m, ok := b.merges[pair{syms[left].id, syms[right].id}]
		return m.id, -m.rank, ok && b.kinds[m.id] != control
	})
	if bytes {
		for i := range syms {
			if syms[i].id != none {
				ids = append(ids, syms[i].id)
			}
		}
		return ids
	}
	i := 0
	for at, r := range word {
		switch syms[i].id {
		case noToken:
			for _, c := range []byte(word[at : at+utf8.RuneLen(r)]) {
				if id := b.bytes[c]; id != none {
					ids = append(ids, id)
				}
			}
		case none:
		default:
			ids = append(ids, syms[i].id)
		}
		i++
	}
	return ids
}
