//go:build linux || darwin

package simd

import (
	"syscall"

	"github.com/tetratelabs/wazero/experimental"
)

// mapped is a reservation of addresses: the system gives pages as they are written, and Go's collector does not
// count them. A shared memory must not move.
type mapped []byte

func reserve(_, most uint64) experimental.LinearMemory {
	m, err := syscall.Mmap(-1, 0, int(most), syscall.PROT_READ|syscall.PROT_WRITE,
		syscall.MAP_PRIVATE|syscall.MAP_ANON|syscall.MAP_NORESERVE)
	if err != nil {
		return refused{}
	}
	largePages(m)
	return mapped(m)
}

func (m mapped) Reallocate(size uint64) []byte { return m[:size] }
func (m mapped) Free()                         { _ = syscall.Munmap(m) }
