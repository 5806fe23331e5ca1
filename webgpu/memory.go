package webgpu

import "unsafe"

// Memory is the host's view of bound device memory, for reference kernels.
// It holds 32-bit words; all views alias the same bytes.
type Memory []uint32

// NewMemory makes zeroed memory of at least size bytes.
func NewMemory(size int) Memory { return make(Memory, (size+3)/4) }

// U32 views the memory as unsigned words.
func (m Memory) U32() []uint32 { return m }

// F32 views the memory as floats.
func (m Memory) F32() []float32 {
	if len(m) == 0 {
		return nil
	}
	return unsafe.Slice((*float32)(unsafe.Pointer(&m[0])), len(m))
}

// Bytes views the memory as bytes, little-endian within each word.
func (m Memory) Bytes() []byte {
	if len(m) == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(&m[0])), 4*len(m))
}

// F32Bytes views floats as the bytes a device buffer holds.
func F32Bytes(x []float32) []byte {
	if len(x) == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(&x[0])), 4*len(x))
}

// U32Bytes views words as the bytes a device buffer holds.
func U32Bytes(x []uint32) []byte { return Memory(x).Bytes() }
