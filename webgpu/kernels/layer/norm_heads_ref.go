package layer

import (
	"foretoken/webgpu"
	"foretoken/webgpu/kernels"
)

func normHeadsRef(_ [3]int, b []webgpu.Memory) {
	p, weight, qkv := b[0], b[1].F32(), b[2].F32()
	rows, heads, kv, dim, eps := int(p[0]), int(p[1]), int(p[2]), int(p[3]), kernels.Float(p[4])
	for row := range rows {
		for head := range heads + kv {
			x, w := qkv[(row*(heads+2*kv)+head)*dim:][:dim], weight[:dim]
			if head >= heads {
				w = weight[dim:][:dim]
			}
			normalise(x, x, w, eps)
		}
	}
}

func normRowRef(_ [3]int, b []webgpu.Memory) {
	p, weight, qkv := b[0], b[1].F32(), b[2].F32()
	rows, heads, kv, dim, eps := int(p[0]), int(p[1]), int(p[2]), int(p[3]), kernels.Float(p[4])
	for row := range rows {
		x, q, k := qkv[row*(heads+2*kv)*dim:], heads*dim, kv*dim
		normalise(x, x[:q], weight, eps)
		normalise(x[q:], x[q:][:k], weight[q:], eps)
	}
}
