// Package tokenizer turns text into token ids and back, as a GGUF file's tokenizer specifies: byte-level BPE ("gpt2"),
// Gemma 4's BPE over characters ("gemma4"), SentencePiece's BPE ("llama") and its unigram model ("t5"), and BERT's
// WordPiece ("bert"). Ids equal llama.cpp's, because published files are tested against it; two models can only
// speculate together if they agree on ids. MetadataFromJSON converts a tokenizer.json to such metadata.
//
// A Tokenizer is safe for concurrent use. Errors are one line, start with "tokenizer:" and name the file and the field.
package tokenizer

import (
	"slices"
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

// model splits text without special tokens. It stops at the first error of the meter, and its result then is worthless.
type model interface {
	encode(text string, ids []int32, m *meter) []int32 // appends the ids
}

// Tokenizer holds one vocabulary.
type Tokenizer struct {
	name    string   // of the file, for messages
	texts   []string // by id, as the file spells them
	kinds   []kind
	ids     *index
	pieces  []byte   // what the tokens add to a text, one behind the other
	ends    []uint32 // by id, where its piece ends
	longest int      // bytes of the longest text that a token stands for
	eog     []bool   // by id
	never   []int32  // ids that the file rules out
	bos     int32
	eos     int32
	unk     int32
	addBOS  bool
	addEOS  bool
	spell   spelling
	prefix  bool   // a space is put before text that follows nothing or a special token
	note    string // for people
	elastic bool   // one token may stand for any number of bytes
	special partition
	guard   *Guard
	model   model
}

// Note is a sentence for people about what the file leaves unsaid, "" if nothing.
func (t *Tokenizer) Note() string { return t.note }

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

// Suppressed returns the ids that the file rules out: the model never chooses them, in any order and perhaps twice.
func (t *Tokenizer) Suppressed() []int32 { return t.never }

// EndIDs returns the ids for which EOG is true, in ascending order.
func (t *Tokenizer) EndIDs() []int32 {
	var ids []int32
	for id, end := range t.eog {
		if end {
			ids = append(ids, int32(id))
		}
	}
	return ids
}

// FillsMiddle reports whether the vocabulary has a token that begins a prompt to fill in the middle, like most models
// for code.
func (t *Tokenizer) FillsMiddle() bool {
	return slices.ContainsFunc(middleTexts, t.spells)
}

// spells reports whether a token has the text.
func (t *Tokenizer) spells(text string) bool {
	_, ok := t.ids.id(text)
	return ok
}

// TokenText is the token as the vocabulary spells it, empty beyond VocabSize.
func (t *Tokenizer) TokenText(id int32) string {
	if !t.has(id) {
		return ""
	}
	return t.texts[id]
}

// Least is a number of tokens that every text of so many bytes has at least, without encoding it: 0 where one token
// may stand for any number of bytes. special is EncodeOptions.Special.
func (t *Tokenizer) Least(bytes int, special bool) int {
	if t.elastic || t.special.strips(special) {
		return 0
	}
	longest := max(t.longest, 1)
	if special {
		longest = max(longest, t.special.longest)
	}
	return (bytes + longest - 1) / longest
}

// Special reports whether the id is a control token: it steers the model and shows no text.
func (t *Tokenizer) Special(id int32) bool { return t.has(id) && t.kinds[id] == control }

// Piece gives the bytes that the id adds to a text, which need not be UTF-8 by themselves. It is empty for control
// and unused tokens and beyond VocabSize. The caller must not change it.
func (t *Tokenizer) Piece(id int32) []byte {
	if !t.has(id) {
		return nil
	}
	from := uint32(0)
	if id > 0 {
		from = t.ends[id-1]
	}
	if from == t.ends[id] {
		return nil
	}
	return t.pieces[from:t.ends[id]:t.ends[id]]
}

func (t *Tokenizer) has(id int32) bool { return id >= 0 && int(id) < len(t.texts) }

// Encode returns the ids of a text that the model is to continue. Control tokens spelled out in the text are read as
// plain text, so that a user's input cannot steer the model. begin adds the token that begins a text (BOS) if the
// model expects one. The token that ends a text (EOS) is never added. An invalid UTF-8 byte is read as U+FFFD. Time is
// O(n log n).
func (t *Tokenizer) Encode(text string, begin bool) []int32 {
	ids, _ := t.EncodeWith(text, EncodeOptions{Begin: begin})
	return ids
}

// EncodeSpecial is Encode for text made by a chat template: control tokens spelled out in it become their ids.
func (t *Tokenizer) EncodeSpecial(text string, begin bool) []int32 {
	ids, _ := t.EncodeWith(text, EncodeOptions{Begin: begin, Special: true})
	return ids
}

// EncodeOptions say how a text is encoded.
type EncodeOptions struct {
	Begin bool // add the token that begins a text (BOS) if the model expects one
	// Complete: the text is not continued, as for an embedding: it gets the token that ends a text (EOS) if the file
	// asks for it (tokenizer.ggml.add_eos_token).
	Complete bool
	Special  bool   // control tokens spelled out in the text become their ids
	Mark     string // of a Guard: dropped from the text once it is cut at its control tokens; "": none
	// Yield, if not nil, is called about every millisecond. An error of it ends the encoding: a caller can end the work
	// for a client that left, or let others have their turn.
	Yield func() error
}

// EncodeWith is Encode with options. It returns no errors but Yield's, as they are.
func (t *Tokenizer) EncodeWith(text string, o EncodeOptions) ([]int32, error) {
	m := &meter{left: slice, yield: o.Yield}
	if !utf8.ValidString(text) {
		text = string([]rune(text))
	}
	ids := make([]int32, 0, len(text)/3+2)
	if o.Begin && t.addBOS {
		ids = append(ids, t.bos)
	}
	afterSpecial := true
	for _, f := range t.special.split(text, o.Special, o.Mark, m) {
		if !m.spend(len(f.text)) {
			return nil, m.err
		}
		if f.id != none {
			ids = append(ids, f.id)
			afterSpecial = true
			continue
		}
		s := f.text
		if o.Mark != "" {
			s = strings.ReplaceAll(s, o.Mark, "")
		}
		if t.spell == plainSpaces {
			if t.prefix && afterSpecial {
				s = " " + s
			}
			s = strings.ReplaceAll(s, " ", "▁")
		}
		ids = t.model.encode(s, ids, m)
		afterSpecial = false
	}
	if o.Complete && t.addEOS {
		ids = append(ids, t.eos)
	}
	return ids, m.err
}

// slice is the work between two calls of Yield, in bytes encoded.
const slice = 4096

// meter calls yield after every slice of work.
type meter struct {
	left  int
	yield func() error // may be nil
	err   error        // the first of yield
}

// spend counts n bytes of work. It returns false if the work has to end.
func (m *meter) spend(n int) bool {
	if m.left -= n; m.left < 0 {
		m.left = slice
		if m.yield != nil && m.err == nil {
			m.err = m.yield()
		}
	}
	return m.err == nil
}

// Decode returns the text of a complete sequence. Control tokens show nothing and an invalid UTF-8 byte becomes
// U+FFFD. Decode(Encode(s)) is s for any UTF-8 s that the vocabulary can write. Use a Writer for a growing text.
func (t *Tokenizer) Decode(ids []int32) string {
	var b strings.Builder
	s := t.newStream(nil)
	for _, id := range ids {
		b.WriteString(s.push(id))
	}
	b.WriteString(s.flush())
	return b.String()
}
