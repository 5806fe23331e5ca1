package kernels

import "foretoken/webgpu"

func ropeRef(l cacheLayout) func([3]int, []webgpu.Memory) {
	return func(_ [3]int, b []webgpu.Memory) {
		p, rows, table, qkv, keys, values := b[0], b[1], b[2].F32(), b[3].F32(), b[4], b[5]
		h := Heads{Query: int(p[1]), KV: int(p[2]), Dim: int(p[3]), HalfSplit: p[4] == 1, Rotary: int(p[5])}
		for i := range int(p[0]) {
			row := qkv[i*h.Width() : (i+1)*h.Width()]
			v := append([]float32(nil), row...)
			if len(b) > 6 {
				for k, x := range b[6].F32()[:h.Width()] {
					v[k] += x
				}
			}
			turn(h, l, rows[i*RowWords:], table, v, keys, values)
			copy(row, v[:h.Query*h.Dim])
		}
	}
}

// turn rotates queries and keys of a row of queries, keys and values as that of the pass says, and
// stores keys and values at its slot.
func turn(h Heads, l cacheLayout, row webgpu.Memory, table, v []float32, keys, values webgpu.Memory) {
	angle := table[int(row[0])*h.Rotary:][:h.Rotary]
	at := int(row[1]) * h.KV * h.Dim
	for head := range h.Query + h.KV {
		v := v[head*h.Dim:][:h.Dim]
		for pair := range h.Rotary / 2 {
			x, y := 2*pair, 2*pair+1
			if h.HalfSplit {
				x, y = pair, pair+h.Rotary/2
			}
			c, s := float64(angle[2*pair]), float64(angle[2*pair+1])
			a, b := float64(v[x]), float64(v[y])
			v[x], v[y] = float32(a*c-b*s), float32(a*s+b*c)
		}
	}
	for head := range h.KV {
		l.store(keys, at+head*h.Dim, v[(h.Query+head)*h.Dim:][:h.Dim])
		l.store(values, at+head*h.Dim, v[(h.Query+h.KV+head)*h.Dim:][:h.Dim])
	}
}
