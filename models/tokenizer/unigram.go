package tokenizer

import (
	"math"
	"slices"
	"unicode/utf8"

	"foretoken/models/gguf"
)

// unigram is SentencePiece's unigram model (Kudo 2018, section 3.2): of all ways to cut a text into tokens, the one
// whose scores, log probabilities, have the largest sum. A character that is no token costs more than any token, and is
// written as byte tokens where there are some, as the unknown token where not; neighbouring unknown ones become one.
type unigram struct {
	ids     *index
	scores  []float32
	kinds   []kind
	longest map[rune]int // bytes of the longest token that begins with a character
	bytes   [256]int32
	unk     int32
	penalty float64   // score of an unknown character
	chars   *charsMap // rules that texts are normalised by, or nil
	prefix  bool      // a space is put before the first word
	merge   bool      // spaces between words become one, and others none
}

// unknownPenalty is the distance of an unknown character below the lowest score, as in SentencePiece.
const unknownPenalty = 10

const (
	keyCharsMap   = "tokenizer.ggml.precompiled_charsmap"
	keyExtraSpace = "tokenizer.ggml.remove_extra_whitespaces"
)

func (t *Tokenizer) loadUnigram(f *gguf.File) error {
	t.spell, t.addEOS = plainWords, f.Has(keyEOS)
	u := &unigram{ids: t.ids, kinds: t.kinds, longest: map[rune]int{}}
	var err error
	if u.scores, err = t.readScores(f); err != nil {
		return err
	}
	if u.chars, err = t.readCharsMap(f); err != nil {
		return err
	}
	if u.prefix, err = f.BoolOr(keyPrefix, false); err != nil {
		return t.wrap(err)
	}
	if u.merge, err = f.BoolOr(keyExtraSpace, false); err != nil {
		return t.wrap(err)
	}
	for id, x := range u.scores {
		switch t.kinds[id] {
		case normal:
			u.penalty = min(u.penalty, float64(x)-unknownPenalty)
		case userDefined:
			u.scores[id] = 0 // likelier than any normal token
		}
		if u.text(int32(id)) {
			first, _ := utf8.DecodeRuneInString(t.texts[id])
			u.longest[first] = max(u.longest[first], len(t.texts[id]))
		}
	}
	t.model = u
	u.bytes, u.unk, err = t.byteTokens(f, func(text string, _ byte) (int32, bool) {
		id, ok := t.ids.id(text)
		return id, ok && t.kinds[id] == byteToken
	})
	t.elastic = u.merge || u.chars != nil || slices.Contains(u.bytes[:], u.unk)
	return err
}

// text reports whether an id may stand for text.
func (u *unigram) text(id int32) bool {
	k := u.kinds[id]
	return k == normal || k == userDefined || k == unused
}

// encode implements model, in time proportional to the text and the longest token.
func (u *unigram) encode(text string, ids []int32, m *meter) []int32 {
	text = u.normalise(text, m)
	type step struct {
		score float64
		id    int32 // none for an unknown character
		from  int32
	}
	best := make([]step, len(text)+1)
	for i := range best[1:] {
		best[i+1].score = math.Inf(-1)
	}
	for at := 0; at < len(text); {
		first, n := utf8.DecodeRuneInString(text[at:])
		if !m.spend(n) {
			return ids
		}
		longest, whole := u.longest[first], false
		for end := at + n; end <= len(text) && end-at <= longest; {
			if id, ok := u.ids.id(text[at:end]); ok && u.text(id) {
				whole = whole || end == at+n
				if s := best[at].score + float64(u.scores[id]); s > best[end].score {
					best[end] = step{s, id, int32(at)}
				}
			}
			if end == len(text) {
				break
			}
			_, k := utf8.DecodeRuneInString(text[end:])
			end += k
		}
		if s := best[at].score + u.penalty; !whole && s > best[at+n].score {
			best[at+n] = step{s, none, int32(at)}
		}
		at += n
	}
	from := len(ids)
	for at := len(text); at > 0; at = int(best[at].from) { // backwards
		b := best[at]
		if b.id != none {
			ids = append(ids, b.id)
			continue
		}
		for i := at - 1; i >= int(b.from); i-- {
			id := u.bytes[text[i]]
			if n := len(ids); id == u.unk && n > from && ids[n-1] == u.unk {
				continue
			}
			ids = append(ids, id)
		}
	}
	slices.Reverse(ids[from:])
	return ids
}
