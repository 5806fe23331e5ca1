package webgpu

import "unsafe"

// Memory is the host's view of bound device memory, for reference kernels.
// It holds 32-bit words; all views alias the same bytes.
type Memory []uint32

// NewMemory makes zeroed memory of at least size bytes.
func NewMemory(size int) Memory { return make(Memory, (size+3)/4) }

// MemoryOf views bytes at an address of whole words as memory. Its capacity ends with them, so that an append does not
// reach the bytes that follow.
func MemoryOf(b []byte) Memory {
	return unsafe.Slice((*uint32)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/4)
}

// F32 views the memory as floats.
func (m Memory) F32() []float32 {
	return unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(m))), len(m))
}

// Bytes views the memory as bytes, little-endian within each word.
func (m Memory) Bytes() []byte { return bytesOf(m) }

// F32Bytes views floats as the bytes a device buffer holds.
func F32Bytes(x []float32) []byte { return bytesOf(x) }

// U32Bytes views words as the bytes a device buffer holds.
func U32Bytes(x []uint32) []byte { return bytesOf(x) }

func bytesOf[T uint32 | float32](x []T) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(x))), 4*len(x))
}
