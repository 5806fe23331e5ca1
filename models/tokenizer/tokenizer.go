// Package tokenizer turns text into token ids and back, as a GGUF file's tokenizer specifies: byte-level BPE ("gpt2"),
// SentencePiece's BPE ("llama") and its unigram model ("t5"). Ids equal llama.cpp's, because published files are tested
// against it; two models can only speculate together if they agree on ids. MetadataFromJSON converts a tokenizer.json
// to such metadata.
//
// A Tokenizer is safe for concurrent use. Errors are one line, start with "tokenizer:" and name the file and the field.
package tokenizer

import (
	"strings"
	"unicode/utf8"
)

// kind is the type of a token, in GGUF's numbering.
type kind uint8

const (
	normal kind = 1 + iota
	unknown
	control
	userDefined
	unused
	byteToken
)

// none stands for a special token that the vocabulary does not have.
const none int32 = -1

// model splits text without special tokens.
type model interface {
	encode(text string, ids []int32) []int32 // appends the ids
}

// Tokenizer holds one vocabulary.
type Tokenizer struct {
	name    string   // of the file, for messages
	texts   []string // by id, as the file spells them
	kinds   []kind
	ids     map[string]int32
	pieces  [][]byte // by id; nil for tokens that show no text
	eog     []bool   // by id
	bos     int32
	eos     int32
	unk     int32
	addBOS  bool
	addEOS  bool
	spm     bool // SentencePiece: spaces are written as ▁
	prefix  bool // a space is put before text that follows nothing or a special token
	special partition
	model   model
}

// VocabSize is the number of tokens. A model may have more rows of logits than that; the ids beyond have no text.
func (t *Tokenizer) VocabSize() int { return len(t.texts) }

// BOS is the id that begins a text.
func (t *Tokenizer) BOS() (id int32, ok bool) { return t.bos, t.bos != none }

// EOS is the id that ends a text. Generation stops at any id with EOG.
func (t *Tokenizer) EOS() (id int32, ok bool) { return t.eos, t.eos != none }

// AddBOS reports whether the model was trained with BOS before every text.
func (t *Tokenizer) AddBOS() bool { return t.addBOS }

// EOG reports whether the id ends generation: end of text, of turn, of message.
func (t *Tokenizer) EOG(id int32) bool { return t.has(id) && t.eog[id] }

// TokenText is the token as the vocabulary spells it, empty beyond VocabSize.
func (t *Tokenizer) TokenText(id int32) string {
	if !t.has(id) {
		return ""
	}
	return t.texts[id]
}

// Special reports whether the id is a control token: it steers the model and shows no text.
func (t *Tokenizer) Special(id int32) bool { return t.has(id) && t.kinds[id] == control }

// Piece gives the bytes that the id adds to a text, which need not be UTF-8 by themselves. It is empty for control
// and unused tokens and beyond VocabSize. The caller must not change it.
func (t *Tokenizer) Piece(id int32) []byte {
	if !t.has(id) {
		return nil
	}
	return t.pieces[id]
}

func (t *Tokenizer) has(id int32) bool { return id >= 0 && int(id) < len(t.texts) }

// Encode returns the ids of a text that the model is to continue. Control tokens spelled out in the text are read as
// plain text, so that a user's input cannot steer the model. begin adds the token that begins a text (BOS) if the
// model expects one. The token that ends a text (EOS) is never added: EncodeComplete does. An invalid UTF-8 byte is
// read as U+FFFD. Time is O(n log n).
func (t *Tokenizer) Encode(text string, begin bool) []int32 {
	return t.encode(text, begin, false)
}

// EncodeComplete returns the ids of a text that is not continued, for embeddings: Encode's with BOS, and EOS behind
// them if the file asks for it (tokenizer.ggml.add_eos_token).
func (t *Tokenizer) EncodeComplete(text string) []int32 {
	ids := t.Encode(text, true)
	if t.addEOS {
		ids = append(ids, t.eos)
	}
	return ids
}

// EncodeSpecial is Encode for text made by a chat template: control tokens spelled out in it become their ids.
func (t *Tokenizer) EncodeSpecial(text string, begin bool) []int32 {
	return t.encode(text, begin, true)
}

func (t *Tokenizer) encode(text string, begin, parse bool) []int32 {
	if !utf8.ValidString(text) {
		text = string([]rune(text))
	}
	ids := make([]int32, 0, len(text)/3+2)
	if begin && t.addBOS {
		ids = append(ids, t.bos)
	}
	afterSpecial := true
	for _, f := range t.special.split(text, parse) {
		if f.id != none {
			ids = append(ids, f.id)
			afterSpecial = true
			continue
		}
		s := f.text
		if t.spm {
			if t.prefix && afterSpecial {
				s = " " + s
			}
			s = strings.ReplaceAll(s, " ", "▁")
		}
		ids = t.model.encode(s, ids)
		afterSpecial = false
	}
	return ids
}

// Decode returns the text of a complete sequence. Control tokens show nothing and an invalid UTF-8 byte becomes
// U+FFFD. Decode(Encode(s)) is s for any UTF-8 s that the vocabulary can write. Use a Stream for a growing text.
func (t *Tokenizer) Decode(ids []int32) string {
	var b strings.Builder
	s := t.NewStream(nil)
	for _, id := range ids {
		b.WriteString(s.Push(id))
	}
	b.WriteString(s.Flush())
	return b.String()
}
