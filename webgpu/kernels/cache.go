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

// cacheLayout is how a slot's elements lie in a cache: head after head, in q8 after the scales of all of them, so that
// wide reads are aligned.
type cacheLayout struct {
	format KVFormat
	dim    int // of a head
	width  int // elements of a slot
	block  int // elements that share a scale; 0 where there is none
}

// layout is the cache's. A block is the largest of 32, 16 and 8 elements that divides a head, so
// that it never reaches into the next one.
func (h Heads) layout() cacheLayout {
	l := cacheLayout{format: h.Format, dim: h.Dim, width: h.KV * h.Dim}
	if h.Format == KVQ8 {
		for l.block = 32; h.Dim%l.block != 0; {
			l.block /= 2
		}
	}
	return l
}

// scales is how many words the scales of a slot take.
func (l cacheLayout) scales() int {
	if l.block == 0 {
		return 0
	}
	return l.width / l.block
}

// head is how many 32-bit words a head takes, without scales.
func (l cacheLayout) head() int {
	if l.format == KVQ8 {
		return l.dim / 4
	}
	return l.dim >> l.format
}

// slot is how many 32-bit words a slot takes.
func (l cacheLayout) slot() int { return l.scales() + l.width/l.dim*l.head() }

// read is how many words a kernel reads at once of a head, which takes parts of so many words: at most four, from a multiple
// of as many on.
func (l cacheLayout) read(parts int) int {
	n := 4
	for parts%n != 0 || l.head()%n != 0 || l.scales()%n != 0 {
		n /= 2
	}
	return n
}

// reader is the shader that reads so many words at once, where the format asks for one.
func (l cacheLayout) reader(read int) string {
	if l.format == KVF32 {
		return ""
	}
	return fmt.Sprintf(" attention_words_%d", read)
}

// constants tell the shaders where in a cache elements are, read so many words at once: SLOT, LEAD and HEAD are the reads
// of a slot, of the scales that it begins with and of a head.
func (l cacheLayout) constants(read int) []constant {
	c := []constant{{"READ", u32(read)}, {"SLOT", u32(l.slot() / read)}, {"LEAD", u32(l.scales() / read)}, {"HEAD", u32(l.head() / read)}}
	if l.format == KVQ8 {
		c = append(c, constant{"KVQ", u32(l.block / 4)})
	}
	return c
}

// CacheWords is how many 32-bit words the keys of so many slots take, or the values.
func (h Heads) CacheWords(slots int) int { return slots * h.layout().slot() }
