package kernels

import (
	"fmt"
	"math/bits"
	"slices"
)

// KVFormat is the storage format of keys and values.
type KVFormat int

const (
	KVF32 KVFormat = iota
	KVF16          // two to a word
	KVQ8           // signed bytes with an f32 scale for each block of 32, 16 or 8
)

var kvNames = []string{"f32", "f16", "q8"}

func (f KVFormat) String() string { return kvNames[f] }

// ParseKVFormat returns the format named f32, f16 or q8.
func ParseKVFormat(name string) (KVFormat, error) {
	if i := slices.Index(kvNames, name); i >= 0 {
		return KVFormat(i), nil
	}
	return 0, fmt.Errorf("kernels: KV format %.80q; want f32, f16 or q8", name)
}

// CacheLayout locates the elements of a slot: head after head. In q8 the scales of all heads come first, so that
// wide reads are aligned.
type CacheLayout struct {
	Format KVFormat
	dim    int // of a head
	Width  int // elements of a slot
	Block  int // elements that share a scale; 0: no scales
}

// Layout returns the layout of the cache. A block is the largest of 32, 16 and 8 elements that divides a head, so
// that no block spans two heads.
func (h Heads) Layout() CacheLayout {
	l := CacheLayout{Format: h.Format, dim: h.Dim, Width: h.KV * h.Dim}
	if h.Format == KVQ8 {
		for l.Block = 32; h.Dim%l.Block != 0; {
			l.Block /= 2
		}
	}
	return l
}

// Scales returns the number of words of a slot's scales.
func (l CacheLayout) Scales() int {
	if l.Block == 0 {
		return 0
	}
	return l.Width / l.Block
}

// Head returns the number of 32-bit words of a head, without scales.
func (l CacheLayout) Head() int {
	if l.Format == KVQ8 {
		return l.dim / 4
	}
	return l.dim >> l.Format
}

// Slot returns the number of 32-bit words of a slot.
func (l CacheLayout) Slot() int { return l.Scales() + l.Width/l.dim*l.Head() }

// Constants returns the constants of shaders that use a cache with scales: in words, SLOT is the length of a slot, LEAD
// of its scales and KVQ of a block without its scale; KVQ_BITS is the logarithm of KVQ.
func (l CacheLayout) Constants() []Constant {
	if l.Block == 0 {
		return nil
	}
	return []Constant{Const("SLOT", l.Slot()), Const("LEAD", l.Scales()), Const("KVQ", l.Block/4),
		Const("KVQ_BITS", bits.TrailingZeros(uint(l.Block/4)))}
}

// CacheWords returns the number of 32-bit words that the keys of some slots take; the values take as many.
func (h Heads) CacheWords(slots int) int { return slots * h.Layout().Slot() }
