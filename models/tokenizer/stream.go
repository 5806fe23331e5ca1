package tokenizer

import (
	"strings"
	"unicode/utf8"
)

// stream turns ids into text as they arrive. A token may end inside a character; its bytes are held back until the
// character is complete, so every returned string is UTF-8 and their concatenation is the text.
type stream struct {
	t          *Tokenizer
	pending    []byte // the beginning of a character
	stripSpace bool   // the next piece begins with a space that encoding put there
}

// newStream begins a text that continues after the ids of a prompt. They decide whether a SentencePiece vocabulary's
// first space belongs to the text: Encode puts one before text that follows nothing or a special token.
func (t *Tokenizer) newStream(prompt []int32) *stream {
	s := &stream{t: t}
	s.stripSpace = t.prefix && (len(prompt) == 0 || t.standsAlone(prompt[len(prompt)-1]))
	return s
}

// standsAlone reports whether Encode treats what follows the id as a new text.
func (t *Tokenizer) standsAlone(id int32) bool {
	return t.has(id) && (t.kinds[id] == control || t.kinds[id] == userDefined || t.kinds[id] == unknown)
}

// push adds a token and returns the text that is now certain, often empty.
// Bytes become U+FFFD, one for each, once they can no longer be completed.
func (s *stream) push(id int32) string {
	piece := s.t.Piece(id)
	switch {
	case s.t.prefix && s.t.standsAlone(id):
		s.stripSpace = true
	case s.stripSpace && len(piece) > 0:
		if piece[0] == ' ' {
			piece = piece[1:]
		}
		s.stripSpace = false
	}
	if len(s.pending) == 0 && utf8.Valid(piece) {
		return string(piece)
	}
	s.pending = append(s.pending, piece...)
	n := len(s.pending)
	// A character has at most four bytes: only the last three can be unfinished.
	for i := max(0, n-utf8.UTFMax+1); i < n; i++ {
		if utf8.RuneStart(s.pending[i]) && !utf8.FullRune(s.pending[i:]) {
			n = i
			break
		}
	}
	out := toUTF8(s.pending[:n])
	s.pending = append(s.pending[:0], s.pending[n:]...)
	return out
}

// flush ends the text: what was held back becomes U+FFFD, one for each byte.
func (s *stream) flush() string {
	out := toUTF8(s.pending)
	s.pending = s.pending[:0]
	return out
}

func toUTF8(b []byte) string {
	if utf8.Valid(b) {
		return string(b)
	}
	var out strings.Builder
	for len(b) > 0 {
		r, n := utf8.DecodeRune(b)
		out.WriteRune(r)
		b = b[n:]
	}
	return out.String()
}
