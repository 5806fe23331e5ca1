package kernels

import "math"

// FilteredProbabilities fills p with the distribution of a row after Filter, given Filter's record; at temperature 0
// with the softmax. It returns the smallest logit that remains.
func FilteredProbabilities(p []float64, z []float32, inverse float64, record []uint32) (floor float64) {
	floor, shift, lse := Float(record[1]), 0.0, Float(record[2])
	if inverse <= 0 {
		inverse, floor, shift, lse = 1, float64(float32(LowLogit)), NoScore, 0
		for _, v := range z {
			shift = max(shift, Finite(v))
		}
		for _, v := range z {
			lse += math.Exp(Finite(v) - shift)
		}
		lse = math.Log(lse)
	}
	for i, v := range z {
		p[i] = 0
		if x := Finite(v); x >= floor {
			p[i] = math.Exp(min((x-shift)*inverse-lse, 0))
		}
	}
	return floor
}
