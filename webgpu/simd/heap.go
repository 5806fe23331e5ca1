package simd

import (
	"fmt"
	"slices"

	"foretoken/webgpu"
)

// align is the alignment of every range of the heap: that of a binding's offset.
const align = webgpu.BindingAlign

// most is the end of the heap: the reach of 32-bit addresses less a page, so that no range ends at 2³².
const most = 1<<32 - 1<<16

// span is the range [at, end) of the memory.
type span struct{ at, end int }

// heap says which ranges of the module's memory are taken. It takes the first gap that is large enough.
type heap struct {
	base  int
	used  int    // the end of what was ever taken
	taken []span // in order
}

func (h *heap) begin(base int) { h.base = roundUp(base) }

func roundUp(n int) int { return (n + align - 1) / align * align }

// take returns the address of size bytes, and the size that the memory must have.
func (h *heap) take(size int) (at uint32, end int, err error) {
	size = roundUp(size)
	from := h.base
	for i, s := range h.taken {
		if s.at-from >= size {
			h.taken = slices.Insert(h.taken, i, span{from, from + size})
			return uint32(from), from + size, nil
		}
		from = s.end
	}
	if from+size > most {
		return 0, 0, fmt.Errorf("%w: %d MB more than the %d MB in use: the module's memory ends at %d MB",
			webgpu.ErrNoMemory, size>>20, from>>20, most>>20)
	}
	h.taken = append(h.taken, span{from, from + size})
	return uint32(from), from + size, nil
}

// give takes a range back.
func (h *heap) give(at uint32) {
	i, ok := slices.BinarySearchFunc(h.taken, int(at), func(s span, at int) int { return s.at - at })
	if ok {
		h.taken = slices.Delete(h.taken, i, i+1)
	}
}
