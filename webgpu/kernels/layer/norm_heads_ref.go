package layer

import (
	"math"

	"foretoken/webgpu"
	"foretoken/webgpu/kernels"
)

func normHeadsRef(_ [3]int, b []webgpu.Memory) {
	p, weight, qkv := b[0], b[1].F32(), b[2].F32()
	rows, heads, kv, dim, eps := int(p[0]), int(p[1]), int(p[2]), int(p[3]), kernels.Float(p[4])
	for row := range rows {
		for head := range heads + kv {
			x, w, sum := qkv[(row*(heads+2*kv)+head)*dim:][:dim], weight[:dim], 0.0
			if head >= heads {
				w = weight[dim:][:dim]
			}
			for _, v := range x {
				sum += float64(v) * float64(v)
			}
			scale := 1 / math.Sqrt(sum/float64(dim)+eps)
			for i, v := range x {
				x[i] = float32(float64(v) * scale * float64(w[i]))
			}
		}
	}
}
