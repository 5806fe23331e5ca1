package kernels

import "fmt"

// KVFormat is how keys and values are cached.
type KVFormat int

const (
	KVF32 KVFormat = iota
	KVF16          // two to a word
	KVQ8           // signed bytes with an f32 scale for each block of 32, 16 or 8
)

var kvNames = []string{"f32", "f16", "q8"}

func (f KVFormat) String() string { return kvNames[f] }

// ParseKVFormat finds a format by its name: f32, f16 or q8.
func ParseKVFormat(name string) (KVFormat, error) {
	for i, n := range kvNames {
		if n == name {
			return KVFormat(i), nil
		}
	}
	return 0, fmt.Errorf("kernels: KV format %.80q; want f32, f16 or q8", name)
}

// cacheLayout is how a head's elements lie in a cache.
type cacheLayout struct {
	format KVFormat
	block  int // elements that share a scale; 0 where there is none
}

// layout is the cache's. A block is the largest of 32, 16 and 8 elements that divides a head, so
// that it never reaches into the next one.
func (h Heads) layout() cacheLayout {
	l := cacheLayout{format: h.Format}
	if h.Format == KVQ8 {
		for l.block = 32; h.Dim%l.block != 0; {
			l.block /= 2
		}
	}
	return l
}

// constants are those that the shaders of the layout ask for.
func (l cacheLayout) constants() []constant {
	if l.format == KVQ8 {
		return []constant{{"KVQ", uint32(l.block / 4)}}
	}
	return nil
}

// step is how many elements a thread reads at once: four words, or a block and its scale.
func (l cacheLayout) step() int {
	if l.format == KVQ8 {
		return l.block
	}
	return 4 << l.format
}

// words is how many 32-bit words n elements take, a whole number of heads.
func (l cacheLayout) words(n int) int {
	if l.format == KVQ8 {
		return n / l.block * (l.block/4 + 1)
	}
	return n >> l.format
}

// CacheWords is how many 32-bit words the keys of so many slots take, or the values.
func (h Heads) CacheWords(slots int) int { return h.layout().words(slots * h.KV * h.Dim) }
