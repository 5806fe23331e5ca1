package sample

import (
	"math"

	"foretoken/webgpu"
	"foretoken/webgpu/kernels"
)

func scoreRef(_ [3]int, b []webgpu.Memory) {
	p, logits, next, out := b[0], b[1].F32(), b[2], b[3].F32()
	rows, vocab, stride := int(p[0]), int(p[1]), int(p[2])
	for row := range rows {
		z := logits[row*stride:][:vocab]
		most, sum := kernels.NoScore, 0.0
		for _, v := range z {
			most = max(most, kernels.Finite(v))
		}
		for _, v := range z {
			sum += math.Exp(kernels.Finite(v) - most)
		}
		if kernels.Overflowed(most) {
			out[row] = Unscored
			continue
		}
		out[row] = float32(kernels.Finite(z[min(int(next[row]), vocab-1)]) - most - math.Log(sum))
	}
}
