package layer

import (
	"math"

	"foretoken/webgpu"
	"foretoken/webgpu/kernels"
)

func normRef(_ [3]int, b []webgpu.Memory) {
	p, x, weight, out := b[0], b[1].F32(), b[2].F32(), b[3].F32()
	rows, dim, eps := int(p[0]), int(p[1]), kernels.Float(p[2])
	for row := range rows {
		in := x[row*dim : (row+1)*dim]
		sum := 0.0
		for _, v := range in {
			sum += float64(v) * float64(v)
		}
		scale := 1 / math.Sqrt(sum/float64(dim)+eps)
		for i, v := range in {
			out[row*dim+i] = float32(float64(v) * scale * float64(weight[i]))
		}
	}
}
