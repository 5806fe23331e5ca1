package tokenizer

// Table finds tokens by the bytes that they add to a text, which Piece gives. Vocabularies spell the same bytes in
// different ways, so tokens of two of them are compared by bytes, never by their texts.
type Table struct{ ids *index }

// Table returns the table of the tokens that text becomes: normal and byte tokens. The first of those with the same
// bytes has them. It takes a few MB for a large vocabulary.
func (t *Tokenizer) Table() *Table {
	texts := make([]string, len(t.texts))
	x := &Table{newIndex(texts)}
	for id := range texts {
		if k := t.kinds[id]; k == normal || k == byteToken {
			if b := t.Piece(int32(id)); len(b) > 0 {
				texts[id] = string(b)
				x.ids.add(int32(id))
			}
		}
	}
	return x
}

// ID returns the token with the bytes.
func (x *Table) ID(bytes []byte) (int32, bool) { return x.ids.id(string(bytes)) }

// Shared returns how many tokens have bytes that a token of another table has.
func (x *Table) Shared(other *Table) (n int) {
	for _, s := range x.ids.texts {
		if s != "" {
			if _, ok := other.ids.id(s); ok {
				n++
			}
		}
	}
	return n
}
