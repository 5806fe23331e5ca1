package llama

import (
	"foretoken/webgpu"
	"foretoken/webgpu/kernels"
)

// sequence is the slot table: logical position → KV slot of the committed tokens,
// and the free slots. Committing edits the table; the cache is never moved.
type sequence struct {
	table []uint32 // of committed positions
	free  []uint32 // a stack
	sent  int      // entries of table that the device has
}

// reset frees every slot.
func (s *sequence) reset(slots int) {
	s.table, s.free, s.sent = s.table[:0], s.free[:0], 0
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

// give puts a slot back.
func (s *sequence) give(slot uint32) { s.free = append(s.free, slot) }

// commit appends a slot to the sequence.
func (s *sequence) commit(slot uint32) { s.table = append(s.table, slot) }

// flush writes the entries that the device does not have.
func (s *sequence) flush(dev webgpu.Device, table kernels.View) error {
	if s.sent == len(s.table) {
		return nil
	}
	err := dev.Write(table.Buffer, 4*s.sent, webgpu.U32Bytes(s.table[s.sent:]))
	s.sent = len(s.table)
	return err
}
