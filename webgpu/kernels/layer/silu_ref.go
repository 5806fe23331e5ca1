package layer

import (
	"math"

	"foretoken/webgpu"
)

func siluRef(_ [3]int, b []webgpu.Memory) {
	m, dim, gates, out := int(b[0][0]), int(b[0][1]), b[1].F32(), b[2].F32()
	for i := range m {
		for k := range dim {
			g, up := float64(gates[2*i*dim+k]), float64(gates[(2*i+1)*dim+k])
			out[i*dim+k] = float32(g / (1 + math.Exp(-g)) * up)
		}
	}
}
