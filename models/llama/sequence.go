package llama

import (
	"slices"

	"foretoken/webgpu"
	"foretoken/webgpu/kernels"
)

// sequence is the slot table: it maps the logical positions of the committed tokens to KV slots and lists the free
// slots. Committing and truncating edit the table; cache entries are never moved or changed.
type sequence struct {
	table    []uint32 // by committed position
	tokens   []int32  // by committed position
	free     []uint32 // a stack
	uploaded int      // entries of table that the device has
	written  int      // committed positions whose passes have run
	identity int      // length of the checked prefix with table[i] == i
}

func (s *sequence) reset(slots int) {
	// Allocate all arrays at full size, so that none grows during decoding.
	s.table, s.tokens = slices.Grow(s.table[:0], slots), slices.Grow(s.tokens[:0], slots)
	s.free = slices.Grow(s.free[:0], slots)
	s.uploaded, s.written, s.identity = 0, 0, 0
	for i := slots - 1; i >= 0; i-- {
		s.free = append(s.free, uint32(i))
	}
}

// take removes n free slots and appends them to dst.
func (s *sequence) take(n int, dst []uint32) ([]uint32, error) {
	if n > len(s.free) {
		return dst, errFull
	}
	for range n {
		last := len(s.free) - 1
		dst = append(dst, s.free[last])
		s.free = s.free[:last]
	}
	return dst, nil
}

// takeOne removes one free slot.
func (s *sequence) takeOne() (uint32, error) {
	last := len(s.free) - 1
	if last < 0 {
		return 0, errFull
	}
	slot := s.free[last]
	s.free = s.free[:last]
	return slot, nil
}

func (s *sequence) putBack(slot uint32) { s.free = append(s.free, slot) }

// committedSlot replaces the slot of a committed token in the list of a draft's or a tree's slots.
const committedSlot = ^uint32(0)

// release frees the slots of a list that were not committed, and returns the list empty.
func (s *sequence) release(slots []uint32) []uint32 {
	for _, slot := range slots {
		if slot != committedSlot {
			s.putBack(slot)
		}
	}
	return slots[:0]
}

// commit appends a token whose keys and values are in a slot, or will be once its pass has run.
func (s *sequence) commit(slot uint32, token int32) {
	s.table, s.tokens = append(s.table, slot), append(s.tokens, token)
}

// identityPrefix returns the length of the prefix with table[i] == i. It covers the sequence until rejected slots
// are reused.
func (s *sequence) identityPrefix() int {
	for s.identity < len(s.table) && s.table[s.identity] == uint32(s.identity) {
		s.identity++
	}
	return min(s.identity, len(s.table)) // identity may count positions that within hides
}

// markWritten records that the passes of all committed tokens have run.
func (s *sequence) markWritten() { s.written = len(s.table) }

// reusePrefix truncates the sequence to its longest common prefix with tokens and returns the length. Keys and
// values depend only on the tokens up to their position, so the kept entries have the bits that another prefill
// would write.
func (s *sequence) reusePrefix(tokens []int32) int {
	n := 0
	for n < min(s.written, len(tokens)) && s.tokens[n] == tokens[n] {
		n++
	}
	for i := len(s.table) - 1; i >= n; i-- {
		s.putBack(s.table[i])
	}
	s.table, s.tokens = s.table[:n], s.tokens[:n]
	s.uploaded, s.written, s.identity = min(s.uploaded, n), n, min(s.identity, n)
	return n
}

// within calls f while the sequence consists of its first n tokens only. f must not commit or truncate.
func (s *sequence) within(n int, f func() error) error {
	saved := *s
	s.table, s.tokens, s.uploaded, s.written = s.table[:n], s.tokens[:n], min(s.uploaded, n), min(s.written, n)
	err := f()
	s.table, s.tokens, s.uploaded, s.written = saved.table, saved.tokens, saved.uploaded, saved.written
	return err
}

// flush uploads the entries that the device does not have.
func (s *sequence) flush(dev webgpu.Device, table kernels.View) error {
	if s.uploaded == len(s.table) {
		return nil
	}
	if err := dev.Write(table.Buffer, 4*s.uploaded, webgpu.U32Bytes(s.table[s.uploaded:])); err != nil {
		return err
	}
	s.uploaded = len(s.table)
	return nil
}
