package gguf

import (
	"encoding/binary"
	"fmt"
	"unsafe"

	"foretoken/internal/files"
)

// The first reads are small and later ones larger: a header without a tokenizer is a few kilobytes, one with a large
// vocabulary many megabytes, and every read may be a request over a network.
const (
	firstRead = 64 << 10
	largeRead = 1 << 20
)

// cursor reads a source forwards. It never reads past the end and never allocates for a length that the rest of the
// file could not hold. After the first error every read gives zero values; err keeps the reason.
type cursor struct {
	src    files.Source
	size   uint64
	pos    uint64 // of the next byte to hand out
	buf    []byte // bytes from pos on
	chunk  int
	survey bool   // see Survey
	field  string // what is being read, for messages
	err    error
}

func (c *cursor) left() uint64 { return c.size - c.pos }

func (c *cursor) fail(format string, args ...any) {
	if c.err == nil {
		c.err = fmt.Errorf("gguf: %s: %s: %w", c.src.Name(), c.field, fmt.Errorf(format, args...))
	}
}

// need refuses n bytes that the file does not have.
func (c *cursor) need(n uint64) bool {
	if c.err == nil && n > c.left() {
		c.fail("the file ends at byte %d, %d bytes too early: it is truncated or damaged, download it again",
			c.size, n-c.left())
	}
	return c.err == nil
}

// peek gives the next n ≤ largeRead bytes, valid until the next call.
func (c *cursor) peek(n int) []byte {
	if !c.need(uint64(n)) {
		return nil
	}
	if len(c.buf) < n {
		want := min(uint64(max(len(c.buf)+c.chunk, n)), c.left())
		c.chunk = min(c.chunk*2, largeRead)
		next := make([]byte, want)
		have := copy(next, c.buf)
		if !c.fill(next[have:], c.pos+uint64(have)) {
			return nil
		}
		c.buf = next
	}
	return c.buf[:n]
}

func (c *cursor) fill(p []byte, off uint64) bool {
	if err := files.ReadFull(c.src, p, int64(off)); err != nil {
		c.fail("%w", err)
		return false
	}
	return true
}

func (c *cursor) skip(n int) { c.buf, c.pos = c.buf[n:], c.pos+uint64(n) }

// bytes returns a copy of the next n bytes. Large runs bypass the buffer.
func (c *cursor) bytes(n uint64) []byte {
	if !c.need(n) {
		return nil
	}
	out := make([]byte, n)
	have := copy(out, c.buf)
	if have < int(n) && !c.fill(out[have:], c.pos+uint64(have)) {
		return nil
	}
	c.skip(have)
	c.pos += n - uint64(have)
	return out
}

func (c *cursor) u32() uint32 { return uint32(c.number(4)) }

func (c *cursor) u64() uint64 { return c.number(8) }

// number reads an integer of n bytes; 0 after an error.
func (c *cursor) number(n int) uint64 {
	var b [8]byte
	c.skip(copy(b[:], c.peek(n)))
	return binary.LittleEndian.Uint64(b[:])
}

// str reads a string of at most limit bytes.
func (c *cursor) str(limit uint64) string {
	n := c.u64()
	if c.err == nil && n > limit {
		c.fail("a string of %d bytes, at most %d are allowed here: the file is damaged, download it again", n, limit)
	}
	return text(c.bytes(n))
}

// text shares the memory of the bytes, which must not change.
func text(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
