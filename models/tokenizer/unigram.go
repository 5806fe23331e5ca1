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
	longest int // bytes of the longest token
	bytes   [256]int32
	unk     int32
	penalty float64 // score of an unknown character
}

// unknownPenalty is the distance of an unknown character below the lowest score, as in SentencePiece.
const unknownPenalty = 10

const (
	keyCharsMap   = "tokenizer.ggml.precompiled_charsmap"
	keyExtraSpace = "tokenizer.ggml.remove_extra_whitespaces"
)

func (t *Tokenizer) loadUnigram(f *gguf.File) error {
	t.spell, t.prefix = plainSpaces, false
	if f.Has(keyCharsMap) {
		return t.bad(keyCharsMap, "a normalizer of texts is not supported")
	}
	if extra, err := f.BoolOr(keyExtraSpace, false); err != nil || extra {
		if err != nil {
			return t.wrap(err)
		}
		return t.bad(keyExtraSpace, "dropping spaces from texts is not supported")
	}
	u := &unigram{ids: t.ids, kinds: t.kinds}
	var err error
	if u.scores, err = t.readScores(f); err != nil {
		return err
	}
	for id, x := range u.scores {
		if t.kinds[id] == normal || t.kinds[id] == userDefined {
			u.penalty = min(u.penalty, float64(x)-unknownPenalty)
			u.longest = max(u.longest, len(t.texts[id]))
		}
	}
	t.model = u
	u.bytes, u.unk, err = t.byteTokens(f, func(text string, _ byte) (int32, bool) {
		id, ok := t.ids.id(text)
		return id, ok && t.kinds[id] == byteToken
	})
	t.elastic = slices.Contains(u.bytes[:], u.unk)
	return err
}

// encode implements model, in time proportional to the text and the longest token.
func (u *unigram) encode(text string, ids []int32, m *meter) []int32 {
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
		_, n := utf8.DecodeRuneInString(text[at:])
		if !m.spend(n) {
			return ids
		}
		whole := false
		for end := at + n; end <= len(text) && end-at <= u.longest; {
			if id, ok := u.ids.id(text[at:end]); ok && (u.kinds[id] == normal || u.kinds[id] == userDefined) {
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
