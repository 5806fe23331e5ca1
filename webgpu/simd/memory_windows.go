package simd

import (
	"unsafe"

	"github.com/tetratelabs/wazero/experimental"
	"golang.org/x/sys/windows"
)

// mapped is a reservation of addresses, whose pages are committed as the memory grows. A shared memory must not move.
type mapped struct {
	at   uintptr
	most uint64
}

func reserve(_, most uint64) experimental.LinearMemory {
	at, err := windows.VirtualAlloc(0, uintptr(most), windows.MEM_RESERVE, windows.PAGE_READWRITE)
	if err != nil {
		return refused{}
	}
	return mapped{at, most}
}

func (m mapped) Reallocate(size uint64) []byte {
	if _, err := windows.VirtualAlloc(m.at, uintptr(size), windows.MEM_COMMIT, windows.PAGE_READWRITE); err != nil {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Add(unsafe.Pointer(nil), m.at)), m.most)[:size]
}

func (m mapped) Free() { _ = windows.VirtualFree(m.at, 0, windows.MEM_RELEASE) }
