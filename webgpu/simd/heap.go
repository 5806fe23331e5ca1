package simd

import (
	"fmt"
	"slices"

	"foretoken/webgpu"
)

// align is the alignment of every range of the heap, because bindings' offsets need it.
const align = webgpu.BindingAlign

// span is the range [at, end) of addresses.
type span struct{ at, end int }

// heap says which ranges of the module's memory are taken. It takes the first gap that is large enough.
type heap struct {
	room  span
	used  int    // the end of what was ever taken
	taken []span // in order
}

func roundUp(n int) int { return (n + align - 1) / align * align }

// take returns the address of size bytes, and the end that the memory must have.
func (h *heap) take(size int) (at address, end int, err error) {
	size = roundUp(size)
	from := roundUp(h.room.at)
	for i, s := range h.taken {
		if s.at-from >= size {
			h.taken = slices.Insert(h.taken, i, span{from, from + size})
			return address(from), from + size, nil
		}
		from = s.end
	}
	if size > h.room.end-from {
		return 0, 0, fmt.Errorf("%w: %d MB more than the %d MB in use: the cpu device's memory ends at %d MB",
			webgpu.ErrNoMemory, size>>20, (from-h.room.at)>>20, (h.room.end-h.room.at)>>20)
	}
	h.taken = append(h.taken, span{from, from + size})
	return address(from), from + size, nil
}

// give takes a range back.
func (h *heap) give(at address) {
	i, ok := slices.BinarySearchFunc(h.taken, int(at), func(s span, at int) int { return s.at - at })
	if ok {
		h.taken = slices.Delete(h.taken, i, i+1)
	}
}
