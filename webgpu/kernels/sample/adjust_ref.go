package sample

import (
	"math"

	"foretoken/webgpu"
)

func adjustRef(_ [3]int, b []webgpu.Memory) {
	p, common, lists, logits := b[0], b[1], b[2], b[3].F32()
	rows, vocab, stride, shared, own := int(p[0]), p[1], int(p[2]), p[3], int(p[4])
	for row := range rows {
		list := lists[row*own*2:][:own*2]
		more := map[uint32]float32{}
		for i := range int(min(common[0], shared)) {
			more[common[2+2*i]] = math.Float32frombits(common[3+2*i])
		}
		for i := 0; i < len(list); i += 2 {
			more[list[i]] = math.Float32frombits(list[i+1])
		}
		for id, v := range more {
			if id < vocab {
				logits[row*stride+int(id)] += v
			}
		}
	}
}
