package sample

import (
	"foretoken/webgpu"
	"foretoken/webgpu/kernels"
)

func spreadRef(_ [3]int, b []webgpu.Memory) {
	p, source, x, out := b[0], b[1], b[2].F32(), b[3].F32()
	vocab, some, m, in, stride, offset := int(p[0]), p[1], int(p[2]), int(p[3]), int(p[4]), int(p[5])
	for i := range m {
		for id := range vocab {
			z := float32(kernels.LowLogit)
			if from := source[id]; from < some {
				z = x[i*in+int(from)]
			}
			out[offset+i*stride+id] = z
		}
	}
}
