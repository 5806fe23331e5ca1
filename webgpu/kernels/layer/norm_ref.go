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
		normalise(out[row*dim:], x[row*dim:][:dim], weight, eps)
	}
}

// normalise writes x / sqrt(mean(x²) + eps) · weight to out, which may be x.
func normalise(out, x, weight []float32, eps float64) {
	sum := 0.0
	for _, v := range x {
		sum += float64(v) * float64(v)
	}
	scale := 1 / math.Sqrt(sum/float64(len(x))+eps)
	for i, v := range x {
		out[i] = float32(float64(v) * scale * float64(weight[i]))
	}
}
