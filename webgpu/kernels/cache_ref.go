package kernels

import (
	"math"

	"foretoken/webgpu"

	"github.com/x448/float16"
)

// blockAt is the scale and the words of the block that element at begins.
func (l cacheLayout) blockAt(cache webgpu.Memory, at int) (scale *uint32, words webgpu.Memory) {
	slot := cache[at/l.width*l.slot():][:l.slot()]
	return &slot[at%l.width/l.block], slot[l.scales()+at%l.width/4:][:l.block/4]
}

// load reads len(dst) cached elements from element at on, at a head's first.
func (l cacheLayout) load(cache webgpu.Memory, at int, dst []float64) {
	switch l.format {
	case KVF32:
		for i, v := range cache.F32()[at:][:len(dst)] {
			dst[i] = float64(v)
		}
	case KVF16:
		for i := range dst {
			dst[i] = float64(float16.Frombits(uint16(cache[(at+i)/2] >> (16 * ((at + i) % 2)))).Float32())
		}
	case KVQ8:
		for from := 0; from < len(dst); from += l.block {
			scale, words := l.blockAt(cache, at+from)
			for i := range l.block {
				dst[from+i] = fromBits(*scale) * float64(int8(words[i/4]>>(8*(i%4))))
			}
		}
	}
}

// store writes cached elements from element at on, whole heads.
func (l cacheLayout) store(cache webgpu.Memory, at int, src []float32) {
	switch l.format {
	case KVF32:
		copy(cache.F32()[at:], src)
	case KVF16:
		for i, v := range src {
			shift := 16 * ((at + i) % 2)
			word := &cache[(at+i)/2]
			*word = *word&^(0xffff<<shift) | uint32(float16.Fromfloat32(v).Bits())<<shift
		}
	case KVQ8:
		for from := 0; from < len(src); from += l.block {
			scale, words := l.blockAt(cache, at+from)
			most := 0.0
			clear(words)
			for _, v := range src[from:][:l.block] {
				most = math.Max(most, math.Abs(float64(v)))
			}
			*scale = f32(most / 127)
			if most == 0 {
				continue
			}
			for i, v := range src[from:][:l.block] {
				q := math.Min(math.Max(math.Floor(float64(v)*127/most+0.5), -127), 127)
				words[i/4] |= uint32(uint8(int8(q))) << (8 * (i % 4))
			}
		}
	}
}
