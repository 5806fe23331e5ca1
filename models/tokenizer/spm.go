package tokenizer

import (
	"fmt"
	"math"
	"strconv"
	"unicode/utf8"

	"foretoken/internal/quote"
	"foretoken/models/gguf"
)

// spm is SentencePiece's byte-pair encoding (Kudo and Richardson 2018): text starts as characters; the neighbours
// that make the token of the highest score are joined until no two make a token. Characters that are no token are
// written as byte tokens, or as the unknown token.
type spm struct {
	ids     *index
	kinds   []kind
	scores  []float32
	longest int // bytes of the longest token
	bytes   [256]int32
	unk     int32
}

// parseByte reads the spelling of a byte token, <0x0A>.
func parseByte(s string) (byte, bool) {
	if len(s) != 6 || s[:3] != "<0x" || s[5] != '>' {
		return 0, false
	}
	b, err := strconv.ParseUint(s[3:5], 16, 8)
	return byte(b), err == nil
}

// byteText is the spelling of a byte token.
func byteText(b byte) string { return fmt.Sprintf("<0x%02X>", b) }

func (t *Tokenizer) readScores(f *gguf.File) ([]float32, error) {
	scores, err := f.Float32s(keyScores)
	if err != nil {
		return nil, t.wrap(err)
	}
	if len(scores) != len(t.texts) {
		return nil, t.bad(keyScores, "%d elements for %d tokens", len(scores), len(t.texts))
	}
	for id, x := range scores {
		if math.IsNaN(float64(x)) {
			return nil, t.bad(keyScores, "the score of token %d %s is not a number", id, quote.Text(t.texts[id]))
		}
	}
	return scores, nil
}

// byteTokens returns the token of each byte, which find gives by its usual text, or the unknown token.
func (t *Tokenizer) byteTokens(f *gguf.File,
	find func(text string, b byte) (int32, bool)) (bytes [256]int32, unk int32, err error) {
	if unk, err = t.readID(f, keyUNK); err != nil {
		return bytes, unk, err
	}
	for b := range bytes {
		text := byteText(byte(b))
		id, ok := find(text, byte(b))
		if !ok {
			id = unk
		}
		if id == none {
			return bytes, unk, t.bad(keyTokens,
				"neither the byte token %s nor %s is there, so not every text can be written", text, keyUNK)
		}
		bytes[b] = id
	}
	return bytes, unk, nil
}

func (t *Tokenizer) loadSPM(f *gguf.File) error {
	t.spell, t.prefix, t.addBOS = plainSpaces, true, true
	s := &spm{ids: t.ids, kinds: t.kinds}
	var err error
	if s.scores, err = t.readScores(f); err != nil {
		return err
	}
	for _, text := range t.texts {
		s.longest = max(s.longest, len(text))
	}
	s.bytes, s.unk, err = t.byteTokens(f, func(text string, b byte) (int32, bool) {
		id, ok := t.ids.id(text)
		if !ok {
			id, ok = t.ids.id(string([]byte{b}))
		}
		return id, ok && t.kinds[id] != control
	})
	if err != nil {
		return err
	}
	for id, k := range t.kinds {
		if _, ok := parseByte(t.texts[id]); k == byteToken && !ok {
			return t.bad(keyTokens, "token %d %s is of type byte, but not spelled like <0x0A>", id,
				quote.Text(t.texts[id]))
		}
	}
	t.model = s
	return nil
}

// noToken marks a character that is not in the vocabulary: it can still become part of a longer token.
const noToken int32 = -2

// piece looks up the token of a text. Like SentencePiece it ignores control, unknown and byte tokens, however they
// are spelled.
func (s *spm) piece(text string) (int32, bool) {
	id, ok := s.ids.id(text)
	return id, ok && (s.kinds[id] == normal || s.kinds[id] == userDefined || s.kinds[id] == unused)
}

// encode implements model. The text is UTF-8 with its spaces written as ▁.
func (s *spm) encode(text string, ids []int32, m *meter) []int32 {
	syms := make([]symbol, 0, len(text))
	starts := make([]int32, 0, len(text)+1) // first byte of each symbol
	for i, n := 0, 0; i < len(text); i += n {
		_, n = utf8.DecodeRuneInString(text[i:])
		id, ok := s.piece(text[i : i+n])
		if !ok {
			id = noToken
		}
		if !m.spend(n) {
			return ids
		}
		syms = append(syms, symbol{id: id})
		starts = append(starts, int32(i))
	}
	starts = append(starts, int32(len(text)))
	end := func(i int32) int32 {
		if next := syms[i].next; next >= 0 {
			return starts[next]
		}
		return int32(len(text))
	}
	join(syms, m, func(left, right int32) (int32, float32, bool) {
		a, b := starts[left], end(right)
		if int(b-a) > s.longest {
			return 0, 0, false
		}
		id, ok := s.piece(text[a:b])
		if !ok {
			return 0, 0, false
		}
		return id, s.scores[id], true
	})
	for i := int32(0); i >= 0 && len(syms) > 0; i = syms[i].next {
		if syms[i].id != noToken {
			ids = append(ids, syms[i].id)
			continue
		}
		for _, b := range []byte(text[starts[i]:end(i)]) {
			ids = append(ids, s.bytes[b])
		}
	}
	return ids
}
