package kernels

import (
	"math"

	"foretoken/webgpu"
)

func divergenceRef(_ [3]int, b []webgpu.Memory) {
	params, target, draft, targetRec, draftRec, draw, out := b[0], b[1].F32(), b[2].F32(), b[3], b[4], b[5], b[6]
	rows, vocab, stride, draftStride, recStride, draftRecStride := int(params[0]), int(params[1]), int(params[2]), int(params[3]), int(params[4]), int(params[5])
	p, q := make([]float64, vocab), make([]float64, vocab)
	for row := range rows {
		rec, drec := targetRec[row*recStride:][:FilterWords], draftRec[row*draftRecStride:][:FilterWords]
		tz, dz := target[row*stride:][:vocab], draft[row*draftStride:][:vocab]
		floor := processed(p, tz, fromBits(draw[0]), rec)
		processed(q, dz, fromBits(draw[0]), drec)
		sum := 0.0
		for i := range p {
			sum += apart(p[i], q[i])
		}
		out[row*DivergenceWords] = f32(math.Sqrt(min(max(sum/(4*math.Ln2), 0), 1)))
		out[row*DivergenceWords+1] = 0
		if z := finite(tz[min(int(drec[0]), vocab-1)]); z >= floor && z > float64(float32(LowLogit)) {
			out[row*DivergenceWords+1] = 1
		}
	}
}

// processed fills p with the distribution that a row's record from Filter describes, or
// at temperature 0 with the softmax, and returns the least logit that takes part.
func processed(p []float64, z []float32, inverse float64, record []uint32) (floor float64) {
	floor, shift, lse := fromBits(record[1]), 0.0, fromBits(record[2])
	if inverse <= 0 {
		inverse, floor, shift, lse = 1, float64(float32(LowLogit)), noScore, 0
		for _, v := range z {
			shift = max(shift, finite(v))
		}
		for _, v := range z {
			lse += math.Exp(finite(v) - shift)
		}
		lse = math.Log(lse)
	}
	for i, v := range z {
		p[i] = 0
		if x := finite(v); x >= floor {
			p[i] = math.Exp(min((x-shift)*inverse-lse, 0))
		}
	}
	return floor
}

// apart is four times what a token adds to the JS divergence, in nats; see divergence_part.wgsl.
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
