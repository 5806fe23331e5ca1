package sample

import (
	"math"

	"foretoken/webgpu"
	"foretoken/webgpu/kernels"
)

func divergenceRef(_ [3]int, b []webgpu.Memory) {
	params, target, draft, targetRec, draftRec, draw, out := b[0], b[1].F32(), b[2].F32(), b[3], b[4], b[5], b[6]
	rows, vocab, stride, draftStride := int(params[0]), int(params[1]), int(params[2]), int(params[3])
	recStride, draftRecStride := int(params[4]), int(params[5])
	p, q := make([]float64, vocab), make([]float64, vocab)
	for row := range rows {
		rec := targetRec[row*recStride:][:kernels.FilterWords]
		drec := draftRec[row*draftRecStride:][:kernels.FilterWords]
		tz, dz := target[row*stride:][:vocab], draft[row*draftStride:][:vocab]
		floor := kernels.FilteredProbabilities(p, tz, kernels.Float(draw[0]), rec)
		kernels.FilteredProbabilities(q, dz, kernels.Float(draw[0]), drec)
		sum := 0.0
		for i := range p {
			sum += apart(p[i], q[i])
		}
		out[row*DivergenceWords] = kernels.Word(math.Sqrt(min(max(sum/(4*math.Ln2), 0), 1)))
		out[row*DivergenceWords+1] = 0
		if z := kernels.Finite(tz[min(int(drec[0]), vocab-1)]); z >= floor && z > float64(float32(kernels.LowLogit)) {
			out[row*DivergenceWords+1] = 1
		}
	}
}

// apart returns four times the contribution of a token to the JS divergence, in nats; see divergence_part.wgsl.
func apart(p, q float64) float64 {
	s := p + q
	if !(s > 0) {
		return 0
	}
	t := (p - q) / s
	if math.Abs(t) < 1e-3 {
		return s * t * t * (1 + t*t/6)
	}
	h := 0.0
	for _, x := range []float64{2 * p / s, 2 * q / s} {
		if x > 0 {
			h += x * math.Log(x)
		}
	}
	return s * h
}
