package kernels

import (
	"foretoken/webgpu"

	"github.com/x448/float16"
)

// storeKV writes one cached element.
func storeKV(f KVFormat, cache webgpu.Memory, at int, v float32) {
	if f == KVF32 {
		cache.F32()[at] = v
		return
	}
	shift := 16 * (at % 2)
	cache[at/2] = cache[at/2]&^(0xffff<<shift) | uint32(float16.Fromfloat32(v).Bits())<<shift
}

// loadKV reads one cached element.
func loadKV(f KVFormat, cache webgpu.Memory, at int) float64 {
	if f == KVF32 {
		return float64(cache.F32()[at])
	}
	return float64(float16.Frombits(uint16(cache[at/2] >> (16 * (at % 2)))).Float32())
}

func ropeRef(f KVFormat) func([3]int, []webgpu.Memory) {
	return func(_ [3]int, b []webgpu.Memory) {
		p, rows, table, qkv, keys, values := b[0], b[1], b[2].F32(), b[3].F32(), b[4], b[5]
		m, heads, kv, dim, half, rotary := int(p[0]), int(p[1]), int(p[2]), int(p[3]), p[4] == 1, int(p[5])
		all := heads + 2*kv
		for i := range m {
			position, slot := int(rows[i*RowWords]), int(rows[i*RowWords+1])
			angle := table[position*rotary : (position+1)*rotary]
			for head := range all {
				v := qkv[(i*all+head)*dim : (i*all+head+1)*dim]
				if head < heads+kv {
					for pair := range rotary / 2 {
						x, y := 2*pair, 2*pair+1
						if half {
							x, y = pair, pair+rotary/2
						}
						c, s := float64(angle[2*pair]), float64(angle[2*pair+1])
						a, b := float64(v[x]), float64(v[y])
						v[x], v[y] = float32(a*c-b*s), float32(a*s+b*c)
					}
				}
				if head < heads {
					continue
				}
				cache, at := keys, (slot*kv+head-heads)*dim
				if head >= heads+kv {
					cache, at = values, (slot*kv+head-heads-kv)*dim
				}
				for k, x := range v {
					storeKV(f, cache, at+k, x)
				}
			}
		}
	}
}
