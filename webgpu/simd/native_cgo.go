//go:build cgo && (amd64 || arm64) && (linux || darwin || windows)

package simd

import (
	"cmp"
	"fmt"
	"runtime"
	"strings"
	"sync"

	"github.com/tetratelabs/wazero/experimental"
	"golang.org/x/sys/cpu"

	"foretoken/webgpu"
	"foretoken/webgpu/simd/src"
)

// nativeForms are the instructions that this processor has, the widest first.
func nativeForms() (forms []string) {
	for _, f := range []struct {
		name string
		has  bool
	}{
		{"vnni", cpu.X86.HasAVX512VNNI && cpu.X86.HasAVX512VL && runtime.GOOS != "windows"}, // see src/kernel.h
		{"avx2", cpu.X86.HasAVX2 && runtime.GOOS != "windows"},
		{"sse4.1", cpu.X86.HasSSE41},
		{"dotprod", cpu.ARM64.HasASIMDDP},
		{"neon", cpu.ARM64.HasASIMD},
	} {
		if f.has {
			forms = append(forms, f.name)
		}
	}
	return forms
}

// native is the code of src that cgo compiled, and a range of addresses for its memory.
type native struct {
	form    string
	memory  experimental.LinearMemory
	bytes   []byte // the part of the range that is in use
	first   int    // its address
	size    int    // of the range, in bytes
	threads sync.WaitGroup
}

func newNative(form string) (module, error) {
	m := &native{form: form}
	size := max(cmp.Or(physical(), unknown), smallest)
	for m.size = size / page * page; m.size >= smallest; m.size = m.size / 2 / page * page {
		m.memory = reserve(0, uint64(m.size))
		if m.bytes = m.memory.Reallocate(page); m.bytes != nil {
			m.first = src.AddressOf(m.bytes)
			return m, nil
		}
		m.memory.Free()
	}
	return nil, fmt.Errorf("%w: the system gives the cpu device's memory no %d MB of addresses", webgpu.ErrNoMemory,
		smallest>>20)
}

// smallest is the least range of addresses to begin with. The largest is the machine's memory: a model beyond that is
// refused with advice, where the system would end the program. A container's limit below that is not known here.
const smallest = 1 << 30

// unknown stands for the size of a memory that the system does not tell.
const unknown = 64 << 30

func (m *native) name() string { return "native code (" + strings.ToUpper(m.form) + ")" }
func (m *native) room() span   { return span{m.first, m.first + m.size} }

func (m *native) call(name string, args ...address) (uint32, error) {
	return src.Call(name, args...), nil
}

func (m *native) start(pool address, part int, _ address, _ func(error)) (working <-chan error, err error) {
	m.threads.Go(func() { src.Work(pool, part) })
	started := make(chan error)
	close(started)
	return started, nil
}

func (m *native) grow(end int) error {
	size := (end - m.first + page - 1) / page * page
	if size <= len(m.bytes) {
		return nil
	}
	bytes := m.memory.Reallocate(uint64(size))
	if bytes == nil {
		return fmt.Errorf("the cpu device's memory does not grow from %d to %d MB", len(m.bytes)>>20, size>>20)
	}
	m.bytes = bytes
	return nil
}

func (m *native) view(at address, n int) []byte {
	if n == 0 {
		return nil
	}
	return m.bytes[int(at)-m.first:][:n]
}

func (m *native) put(at address, data []byte) { copy(m.view(at, len(data)), data) }
func (m *native) get(at address, dst []byte)  { copy(dst, m.view(at, len(dst))) }

func (m *native) close() {
	m.threads.Wait()
	m.memory.Free()
}
