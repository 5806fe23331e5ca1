package kernels

import (
	"math"

	"foretoken/webgpu"

	"github.com/x448/float16"
)

// blockAt returns the scale and the words of the block that begins at an element.
func (l CacheLayout) blockAt(cache webgpu.Memory, at int) (scale *uint32, words webgpu.Memory) {
	slot := cache[at/l.Width*l.Slot():][:l.Slot()]
	return &slot[at%l.Width/l.Block], slot[l.Scales()+at%l.Width/4:][:l.Block/4]
}

// Load reads len(dst) cached elements from element at on, the first of a head.
func (l CacheLayout) Load(cache webgpu.Memory, at int, dst []float64) {
	switch l.Format {
	case KVF32:
		for i, v := range cache.F32()[at:][:len(dst)] {
			dst[i] = float64(v)
		}
	case KVF16:
		for i := range dst {
			dst[i] = float64(float16.Frombits(uint16(cache[(at+i)/2] >> (16 * ((at + i) % 2)))).Float32())
		}
	case KVQ8:
		for from := 0; from < len(dst); from += l.Block {
			scale, words := l.blockAt(cache, at+from)
			for i := range l.Block {
				dst[from+i] = Float(*scale) * float64(int8(words[i/4]>>(8*(i%4))))
			}
		}
	}
}

// Store writes complete heads from element at on.
func (l CacheLayout) Store(cache webgpu.Memory, at int, src []float32) {
	switch l.Format {
	case KVF32:
		copy(cache.F32()[at:], src)
	case KVF16:
		for i, v := range src {
			shift := 16 * ((at + i) % 2)
			word := &cache[(at+i)/2]
			*word = *word&^(0xffff<<shift) | uint32(float16.Fromfloat32(v).Bits())<<shift
		}
	case KVQ8:
		for from := 0; from < len(src); from += l.Block {
			scale, words := l.blockAt(cache, at+from)
			most := 0.0
			clear(words)
			for _, v := range src[from:][:l.Block] {
				most = math.Max(most, math.Abs(float64(v)))
			}
			*scale = Word(most / 127)
			if most == 0 {
				continue
			}
			for i, v := range src[from:][:l.Block] {
				q := math.Min(math.Max(math.Floor(float64(v)*127/most+0.5), -127), 127)
				words[i/4] |= uint32(uint8(int8(q))) << (8 * (i % 4))
			}
		}
	}
}
