package attention

import (
	"foretoken/webgpu"
	"foretoken/webgpu/kernels"
)

func ropeRef(l kernels.CacheLayout, gained bool) kernels.Reference {
	return func(_ [3]int, b []webgpu.Memory) {
		p, rows, table, qkv, keys, values := b[0], b[1], b[2].F32(), b[3].F32(), b[4], b[5]
		h := kernels.Heads{Query: int(p[1]), KV: int(p[2]), Dim: int(p[3]), HalfSplit: p[4] == 1, Rotary: int(p[5])}
		for i := range int(p[0]) {
			row := qkv[i*h.Width() : (i+1)*h.Width()]
			v := append([]float32(nil), row...)
			var gain []float32
			switch {
			case gained:
				gain = b[6].F32()
			case len(b) > 6:
				for k, x := range b[6].F32()[:h.Width()] {
					v[k] += x
				}
			}
			kernels.Rotate(h, l, rows[i*kernels.RowWords:], table, gain, v, keys, values)
			copy(row, v[:h.Query*h.Dim])
		}
	}
}
