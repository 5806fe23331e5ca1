package gguf

import (
	"encoding/binary"
	"fmt"
	"math"
)

// kind is the type of a metadata value, in the format's numbering.
type kind uint32

const (
	kindU8 kind = iota
	kindI8
	kindU16
	kindI16
	kindU32
	kindI32
	kindF32
	kindBool
	kindString
	kindArray
	kindU64
	kindI64
	kindF64
)

var kinds = [...]struct {
	name  string
	bytes uint64 // 0 for strings and arrays
}{
	{"uint8", 1}, {"int8", 1}, {"uint16", 2}, {"int16", 2}, {"uint32", 4}, {"int32", 4}, {"float32", 4},
	{"bool", 1}, {"string", 0}, {"array", 0}, {"uint64", 8}, {"int64", 8}, {"float64", 8},
}

func (k kind) known() bool { return int(k) < len(kinds) }

func (k kind) String() string {
	if k.known() {
		return kinds[k].name
	}
	return fmt.Sprintf("value type %d", uint32(k))
}

// value is one metadata value as the file holds it. Values stay encoded until
// they are asked for, so that holding them takes no more memory than the file.
type value struct {
	kind  kind // of the value, or of the elements of an array
	array bool
	count uint64   // elements of an array
	text  string   // a string
	parts [][]byte // everything else; a string array's elements with their lengths, none split
}

func (v *value) String() string {
	if v.array {
		return fmt.Sprintf("array of %s", v.kind)
	}
	return v.kind.String()
}

// partBytes is the size of the parts in which a string array is held.
const partBytes = 1 << 20

func (c *cursor) value() value {
	v := value{kind: kind(c.u32())}
	if v.kind == kindArray && c.err == nil {
		v.array, v.kind, v.count = true, kind(c.u32()), c.u64()
		if c.err == nil && v.kind == kindArray {
			c.fail("an array of arrays is not supported")
		}
	}
	switch {
	case c.err != nil:
	case !v.kind.known():
		c.fail("unknown value type %d: the file needs a newer reader, or is damaged", uint32(v.kind))
	case v.kind == kindString && v.array:
		c.stringArray(&v)
	case v.kind == kindString:
		v.text = c.str(maxMetadata)
	default:
		n := uint64(1)
		if v.array {
			n = v.count
		}
		each := kinds[v.kind].bytes
		if n > maxMetadata/each || n > c.left()/each {
			c.fail("%d elements of %s do not fit in the %d bytes left: the file is truncated or damaged, "+
				"download it again", n, v.kind, c.left())
			break
		}
		v.parts = [][]byte{c.bytes(n * each)}
		c.checkBools(&v)
	}
	return v
}

func (c *cursor) checkBools(v *value) {
	if v.kind != kindBool || c.err != nil {
		return
	}
	for _, b := range v.parts[0] {
		if b > 1 {
			c.fail("a bool holds %d", b)
			return
		}
	}
}

func (c *cursor) stringArray(v *value) {
	if v.count > maxMetadata/8 || v.count > c.left()/8 {
		c.fail("%d strings do not fit in the %d bytes left: the file is truncated or damaged, download it again",
			v.count, c.left())
		return
	}
	var part []byte
	for i := uint64(0); i < v.count; i++ {
		b := c.peek(8)
		if b == nil {
			return
		}
		n := binary.LittleEndian.Uint64(b)
		if n > c.left()-8 || n > maxMetadata {
			c.fail("element %d is a string of %d bytes and %d are left: the file is truncated or damaged, "+
				"download it again", i, n, c.left()-8)
			return
		}
		if len(part)+8+int(n) > cap(part) {
			if part != nil {
				v.parts = append(v.parts, part)
			}
			// A short array gets a small part: a file may hold thousands.
			part = make([]byte, 0, min(max(8+n, min(16*v.count, partBytes)), c.left()))
		}
		part = c.appendTo(part, 8+int(n))
		if c.err != nil {
			return
		}
	}
	v.parts = append(v.parts, part)
}

// appendTo moves n bytes, known to be in the file, to dst, which has room.
func (c *cursor) appendTo(dst []byte, n int) []byte {
	for n > 0 && c.err == nil {
		b := c.peek(min(n, firstRead))
		dst = append(dst, b...)
		c.skip(len(b))
		n -= len(b)
	}
	return dst
}

// integer decodes element i of an integer value; huge: n has wrapped around, so that uint64(n) is the value.
func (v *value) integer(i uint64) (n int64, huge, ok bool) {
	bits, ok := v.bits(i)
	shift := 64 - 8*kinds[v.kind].bytes
	switch v.kind {
	case kindU8, kindU16, kindU32, kindU64:
		return int64(bits), bits > math.MaxInt64, ok
	case kindI8, kindI16, kindI32, kindI64:
		return int64(bits<<shift) >> shift, false, ok
	}
	return 0, false, false
}

// float decodes element i of a floating point value.
func (v *value) float(i uint64) (float64, bool) {
	bits, ok := v.bits(i)
	switch v.kind {
	case kindF32:
		return float64(math.Float32frombits(uint32(bits))), ok
	case kindF64:
		return math.Float64frombits(bits), ok
	}
	return 0, false
}

// element decodes element i of a value that is not of strings.
func (v *value) element(i uint64) any {
	if v.kind == kindBool {
		b, _ := v.bits(i)
		return b != 0
	}
	if x, ok := v.float(i); ok {
		if v.kind == kindF32 {
			return float32(x)
		}
		return x
	}
	n, huge, _ := v.integer(i)
	if huge {
		return uint64(n)
	}
	return n
}

// bits returns the bytes of element i as a number; ok is false for strings.
func (v *value) bits(i uint64) (bits uint64, ok bool) {
	size := kinds[v.kind].bytes
	if size == 0 {
		return 0, false
	}
	var b [8]byte
	copy(b[:], v.parts[0][i*size:][:size])
	return binary.LittleEndian.Uint64(b[:]), true
}

// strings returns the first elements, at most so many. They share the memory of the file.
func (v *value) strings(most uint64) []string {
	out := make([]string, 0, min(v.count, most))
	for _, part := range v.parts {
		s := text(part)
		for len(s) > 0 && uint64(len(out)) < most {
			n := int(binary.LittleEndian.Uint64(part[len(part)-len(s):]))
			out = append(out, s[8:8+n])
			s = s[8+n:]
		}
	}
	return out
}
