package layer

import (
	"foretoken/webgpu"
	"foretoken/webgpu/kernels"
)

func addNormRef(_ [3]int, b []webgpu.Memory) {
	p, x, weight, out := b[0], b[1].F32(), b[2].F32(), b[3].F32()
	rows, dim, eps := int(p[0]), int(p[1]), kernels.Float(p[2])
	norm := make([]float32, dim)
	for row := range rows {
		normalise(norm, x[row*dim:][:dim], weight, eps)
		to := out[row*dim:][:dim]
		for i, v := range norm {
			to[i] += v
		}
		if len(b) > 4 {
			addNormNextRef(to, b[4].F32(), b[5].F32()[row*int(p[3]):], int(p[4]))
		}
	}
}

// addNormNextRef fills the row of the next product's input. The shader sums the squares of every 64th element; only
// their total matters.
func addNormNextRef(row, gain, next []float32, count int) {
	sums := next[len(row):][:count]
	clear(sums)
	for k, v := range row {
		next[k] = v * gain[k]
		sums[k%count] += v * v
	}
}
