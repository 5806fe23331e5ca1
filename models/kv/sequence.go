// Package kv keeps the state of a sequence of tokens on a device: the table of KV slots, the keys and values of every
// layer, and the inputs of the passes that read and extend them. A token keeps its slot for as long as it is in the
// sequence, so that trees, rollback and reuse of a prefix edit a table and never move a cache entry.
package kv

import (
	"errors"
	"slices"

	"foretoken/webgpu"
	"foretoken/webgpu/kernels"
)

// Layer holds one layer's part of the cache.
type Layer struct {
	Keys, Values kernels.View // (slots, kernels.Heads.CacheWords(1))
}

// Sequence is the slot table: it maps the logical positions of the committed tokens to KV slots and lists the free
// slots. Committing and truncating edit the table; cache entries are never moved or changed. The zero value has no
// slots. It is not safe for concurrent use.
type Sequence struct {
	Table  kernels.View // the device's copy of the table, u32 (context)
	Layers []Layer

	dev      webgpu.Device
	slots    int
	table    []uint32 // by committed position
	tokens   []int32  // by committed position
	free     []uint32 // a stack
	uploaded int      // entries of table that the device has
	written  int      // committed positions whose passes have run
	identity int      // length of the checked prefix with table[i] == i
}

// NewSequence returns a sequence of so many slots, without device memory. None are free before Reset.
func NewSequence(dev webgpu.Device, slots int) *Sequence { return &Sequence{dev: dev, slots: slots} }

// ErrFull is returned if a sequence has fewer free slots than are needed.
var ErrFull = errors.New("kv: the KV cache has no free slot")

// Committed replaces the slot of a committed token in the list of a draft's or a tree's slots.
const Committed = ^uint32(0)

// Padding returns the slot that padding rows write to. It follows the others, so that a cache has Padding()+1 slots.
func (s *Sequence) Padding() uint32 { return uint32(s.slots) }

// Reset empties the sequence.
func (s *Sequence) Reset() {
	// Allocate all arrays at full size, so that none grows during decoding.
	s.table, s.tokens = slices.Grow(s.table[:0], s.slots), slices.Grow(s.tokens[:0], s.slots)
	s.free = slices.Grow(s.free[:0], s.slots)
	s.uploaded, s.written, s.identity = 0, 0, 0
	for i := s.slots - 1; i >= 0; i-- {
		s.free = append(s.free, uint32(i))
	}
}

// Len returns the number of committed tokens.
func (s *Sequence) Len() int { return len(s.table) }

// Tokens returns a copy of the committed tokens.
func (s *Sequence) Tokens() []int32 { return slices.Clone(s.tokens) }

// Slot returns the slot of a committed position.
func (s *Sequence) Slot(position int) uint32 { return s.table[position] }

// Free returns the number of free slots.
func (s *Sequence) Free() int { return len(s.free) }

// Take removes n free slots and appends them to dst. It returns ErrFull and takes none if there are fewer.
func (s *Sequence) Take(n int, dst []uint32) ([]uint32, error) {
	if n > len(s.free) {
		return dst, ErrFull
	}
	for range n {
		dst = append(dst, s.takeOne())
	}
	return dst, nil
}

// takeOne removes a free slot; there must be one.
func (s *Sequence) takeOne() uint32 {
	last := len(s.free) - 1
	slot := s.free[last]
	s.free = s.free[:last]
	return slot
}

// Release frees the slots of a list that were not committed, and returns the list empty.
func (s *Sequence) Release(slots []uint32) []uint32 {
	for _, slot := range slots {
		if slot != Committed {
			s.free = append(s.free, slot)
		}
	}
	return slots[:0]
}

// Commit appends a token whose keys and values are in a slot, or will be once its pass has run.
func (s *Sequence) Commit(slot uint32, token int32) {
	s.table, s.tokens = append(s.table, slot), append(s.tokens, token)
}

// identityPrefix returns the length of the prefix with table[i] == i. It covers the sequence until rejected slots
// are reused.
func (s *Sequence) identityPrefix() int {
	for s.identity < len(s.table) && s.table[s.identity] == uint32(s.identity) {
		s.identity++
	}
	return min(s.identity, len(s.table)) // identity may count positions that Within hides
}

// MarkWritten records that the passes of all committed tokens have run.
func (s *Sequence) MarkWritten() { s.written = len(s.table) }

// ReusePrefix truncates the sequence to its longest common prefix with tokens and returns the length. Keys and
// values depend only on the tokens up to their position, so the kept entries have the bits that another prefill
// would write.
func (s *Sequence) ReusePrefix(tokens []int32) int {
	n := 0
	for n < min(s.written, len(tokens)) && s.tokens[n] == tokens[n] {
		n++
	}
	for i := len(s.table) - 1; i >= n; i-- {
		s.free = append(s.free, s.table[i])
	}
	s.table, s.tokens = s.table[:n], s.tokens[:n]
	s.uploaded, s.written, s.identity = min(s.uploaded, n), n, min(s.identity, n)
	return n
}

// Within calls f while the sequence consists of its first n tokens only. f must not commit or truncate.
func (s *Sequence) Within(n int, f func() error) error {
	saved := *s
	s.table, s.tokens, s.uploaded, s.written = s.table[:n], s.tokens[:n], min(s.uploaded, n), min(s.written, n)
	err := f()
	s.table, s.tokens, s.uploaded, s.written = saved.table, saved.tokens, saved.uploaded, saved.written
	return err
}

// Flush uploads the entries of the table that the device does not have.
func (s *Sequence) Flush() error {
	if s.uploaded == len(s.table) {
		return nil
	}
	if err := s.dev.Write(s.Table.Buffer, 4*s.uploaded, webgpu.U32Bytes(s.table[s.uploaded:])); err != nil {
		return err
	}
	s.uploaded = len(s.table)
	return nil
}
