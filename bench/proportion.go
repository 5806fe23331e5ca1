package bench

import "math"

// Proportion is a count of K among N with the interval of 95 % of the share behind it, by Wilson's score.
type Proportion struct {
	K    int     `json:"k"`
	N    int     `json:"n"` // 0: not measured
	Low  float64 `json:"low"`
	High float64 `json:"high"`
}

// normal95 is the deviation from the mean, in standard deviations, that 95 % of a normal distribution stay within.
const normal95 = 1.959964

func proportionOf(k, n int) Proportion {
	if n == 0 {
		return Proportion{}
	}
	of, share, square := float64(n), float64(k)/float64(n), normal95*normal95
	scale := 1 / (1 + square/of)
	middle := scale * (share + square/(2*of))
	half := scale * normal95 * math.Sqrt(share*(1-share)/of+square/(4*of*of))
	return Proportion{K: k, N: n, Low: max(middle-half, 0), High: min(middle+half, 1)}
}
