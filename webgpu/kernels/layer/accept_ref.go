package layer

import (
	"math"

	"foretoken/webgpu"
)

func acceptLayerRef(_ [3]int, b []webgpu.Memory) {
	p, x, weight, bias, out := b[0], b[1].F32(), b[2].F32(), b[3].F32(), b[4].F32()
	rows, dim := int(p[0]), int(p[1])
	for row := range rows {
		in := x[row*dim:][:dim]
		for n := range dim {
			sum := float64(bias[n])
			for k, v := range in {
				sum += float64(weight[k*dim+n]) * float64(v)
			}
			out[row*dim+n] = float32(float64(in[n]) + sum/(1+math.Exp(-sum)))
		}
	}
}

func acceptScoreRef(_ [3]int, b []webgpu.Memory) {
	p, x, weight, out := b[0], b[1].F32(), b[2].F32(), b[3].F32()
	rows, dim, at := int(p[0]), int(p[1]), int(p[2])
	for row := range rows {
		sum := float64(weight[dim])
		for k, v := range x[row*dim:][:dim] {
			sum += float64(weight[k]) * float64(v)
		}
		out[at+row] = float32(1 / (1 + math.Exp(-sum)))
	}
}
