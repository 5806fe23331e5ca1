package sample

import (
	"foretoken/webgpu"
	"foretoken/webgpu/kernels"
)

func maskRef(_ [3]int, b []webgpu.Memory) {
	p, which, masks, logits := b[0], b[1], b[2], b[3].F32()
	rows, vocab, stride, words, count := int(p[0]), int(p[1]), int(p[2]), int(p[3]), p[4]
	for row := range rows {
		if which[row] >= count {
			continue
		}
		mask := masks[int(which[row])*words:][:words]
		for id := range vocab {
			if mask[id/32]>>(id%32)&1 == 0 {
				logits[row*stride+id] = kernels.LowLogit
			}
		}
	}
}
