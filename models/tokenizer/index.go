package tokenizer

import "hash/maphash"

// index finds the ids of texts. A map would keep the texts' headers again: slots take a few bytes a token.
type index struct {
	texts []string // by id
	slots []int32  // ids plus 1 in an open table of a power of two, 0 where it is free
	seed  maphash.Seed
}

// newIndex returns an index of no tokens yet, for the ids of texts.
func newIndex(texts []string) *index {
	size := 16
	for size < len(texts)+len(texts)/3 {
		size *= 2
	}
	return &index{texts: texts, slots: make([]int32, size), seed: maphash.MakeSeed()}
}

// id returns the id of a text.
func (x *index) id(text string) (int32, bool) {
	id := x.slots[x.slot(text)] - 1
	return max(id, 0), id >= 0
}

// add adds the text of an id, unless it has an id: that one is returned.
func (x *index) add(id int32) (first int32, dup bool) {
	at := x.slot(x.texts[id])
	if known := x.slots[at]; known > 0 {
		return known - 1, true
	}
	x.slots[at] = id + 1
	return id, false
}

// slot returns where a text is, or would be.
func (x *index) slot(text string) int {
	mask := len(x.slots) - 1
	at := int(maphash.String(x.seed, text)) & mask
	for x.slots[at] > 0 && x.texts[x.slots[at]-1] != text {
		at = (at + 1) & mask
	}
	return at
}
