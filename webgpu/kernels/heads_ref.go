package kernels

import "foretoken/webgpu"

// SlotOf returns the KV slot of a position that row i sees, given the buffers and the stride of Slots.
func SlotOf(rows, table, ancestors webgpu.Memory, stride, i, position int) int {
	if shared := int(rows[i*RowWords+2]); position >= shared {
		return int(ancestors[i*stride+position-shared])
	}
	return int(table[position])
}

// Rotate rotates the queries and keys in v, a row of queries, keys and values, by the position in row, multiplies them
// by gain (2, h.Dim), unless it is nil, and stores keys and values at its slot.
func Rotate(h Heads, l CacheLayout, row webgpu.Memory, table, gain, v []float32, keys, values webgpu.Memory) {
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
		if gain != nil {
			for d, g := range gain[h.Dim*min(head/h.Query, 1):][:h.Dim] {
				v[d] *= g
			}
		}
	}
	for head := range h.KV {
		l.Store(keys, at+head*h.Dim, v[(h.Query+head)*h.Dim:][:h.Dim])
		l.Store(values, at+head*h.Dim, v[(h.Query+h.KV+head)*h.Dim:][:h.Dim])
	}
}
