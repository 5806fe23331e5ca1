package llama

import (
	"slices"

	"foretoken/webgpu"
	"foretoken/webgpu/kernels"
)

// sequence is the slot table: logical position → KV slot of the committed tokens,
// and the free slots. Committing and cutting edit the table; the cache is never moved,
// and what is in it never changes.
type sequence struct {
	table  []uint32 // of committed positions
	tokens []int32  // likewise
	free   []uint32 // a stack
	sent   int      // entries of table that the device has
	sound  int      // of the committed positions, those whose passes have run
	even   int      // leading positions known to be in the slots of their own number
}

// reset frees every slot.
func (s *sequence) reset(slots int) {
	// All arrays are made at once, so that none grows while tokens flow.
	s.table, s.tokens, s.free = slices.Grow(s.table[:0], slots), slices.Grow(s.tokens[:0], slots), slices.Grow(s.free[:0], slots)
	s.sent, s.sound, s.even = 0, 0, 0
	for i := slots - 1; i >= 0; i-- {
		s.free = append(s.free, uint32(i))
	}
}

// take removes n slots from the free ones. The result is valid until the next call.
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

// takeOne removes a slot from the free ones.
func (s *sequence) takeOne() (uint32, error) {
	last := len(s.free) - 1
	if last < 0 {
		return 0, errFull
	}
	slot := s.free[last]
	s.free = s.free[:last]
	return slot, nil
}

// give puts a slot back.
func (s *sequence) give(slot uint32) { s.free = append(s.free, slot) }

// commit appends a token to the sequence, whose keys and values are in a slot, or will be
// once the pass has run.
func (s *sequence) commit(slot uint32, token int32) {
	s.table, s.tokens = append(s.table, slot), append(s.tokens, token)
}

// straight is how many leading positions are in the slots of their own number, as all are until rejected slots are used again.
func (s *sequence) straight() int {
	for s.even < len(s.table) && s.table[s.even] == uint32(s.even) {
		s.even++
	}
	return min(s.even, len(s.table)) // within a prefix, of that
}

// ran notes that the passes of all committed tokens have run.
func (s *sequence) ran() { s.sound = len(s.table) }

// keep cuts the sequence to the longest prefix that tokens begin with, and returns its
// length. A token's keys and values depend on the tokens up to it alone, so what is kept is
// what a pass over them would write again, bit for bit.
func (s *sequence) keep(tokens []int32) int {
	n := 0
	for n < min(s.sound, len(tokens)) && s.tokens[n] == tokens[n] {
		n++
	}
	for i := len(s.table) - 1; i >= n; i-- {
		s.give(s.table[i])
	}
	s.table, s.tokens, s.sent, s.sound, s.even = s.table[:n], s.tokens[:n], min(s.sent, n), n, min(s.even, n)
	return n
}

// within calls f while only the first n committed tokens count. It must not commit or cut.
func (s *sequence) within(n int, f func() error) error {
	whole := *s
	s.table, s.tokens, s.sent, s.sound = s.table[:n], s.tokens[:n], min(s.sent, n), min(s.sound, n)
	err := f()
	s.table, s.tokens, s.sent, s.sound = whole.table, whole.tokens, whole.sent, whole.sound
	return err
}

// flush writes the entries that the device does not have.
func (s *sequence) flush(dev webgpu.Device, table kernels.View) error {
	if s.sent == len(s.table) {
		return nil
	}
	if err := dev.Write(table.Buffer, 4*s.sent, webgpu.U32Bytes(s.table[s.sent:])); err != nil {
		return err
	}
	s.sent = len(s.table)
	return nil
}
