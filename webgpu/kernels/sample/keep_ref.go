package sample

import "foretoken/webgpu"

func keepRef(_ [3]int, b []webgpu.Memory) {
	p, logits, place, kept := b[0], b[1], b[2], b[3]
	rows, vocab, stride, keptRows, keptStride := int(p[0]), int(p[1]), int(p[2]), int(p[3]), int(p[4])
	for row := range min(rows, int(place[1])) {
		if to := int(place[0]) + row; to < keptRows {
			copy(kept[to*keptStride:][:vocab], logits[row*stride:])
		}
	}
}
