package sample

import (
	"math"

	"foretoken/webgpu"
	"foretoken/webgpu/kernels"
)

func filterRef(_ [3]int, b []webgpu.Memory) {
	p, logits, draw, positions, out := b[0], b[1].F32(), b[2], b[3], b[5]
	rows, vocab, stride := int(p[0]), int(p[1]), int(p[2])
	inverse, count, share, gap := kernels.Float(draw[0]), draw[4], kernels.Float(draw[5]), kernels.Float(draw[6])
	for row := range rows {
		in := logits[row*stride:][:vocab]
		most, token := kernels.NoScore, 0
		for i, v := range in {
			if z := kernels.Finite(v); z > most {
				most, token = z, i
			}
		}
		argmax, threshold, lse := token, most, 0.0
		scale, sum, moment := 1.0, 0.0, 0.0 // of probability and entropy
		weigh := func(z float64) {
			d := (z - most) * scale
			e := math.Exp(d)
			sum, moment = sum+e, moment+d*e
		}
		if inverse > 0 {
			scale = inverse
			floor := uint32(0)
			if count > 0 && int(count) < vocab {
				floor = radixSelect(in, 0, float64(count), 1, func(float64) float64 { return 1 })
			}
			if share < 1 {
				floor = max(floor, radixSelect(in, floor, 0, share, func(z float64) float64 {
					return math.Exp((z - most) * inverse)
				}))
			}
			threshold = float64(float32(most - gap))
			if floor > 0 {
				threshold = max(threshold, unorder(floor))
			}
			key := kernels.RowKey(draw, draw[3], positions[row])
			best := kernels.NoScore
			for i, v := range in {
				z := kernels.Finite(v)
				if z < threshold {
					continue
				}
				weigh(z)
				if scaled := z * inverse; scaled+23 > best {
					if s := scaled + key.Gumbel(uint32(i)); s > best {
						best, token = s, i
					}
				}
			}
			lse = most*inverse + math.Log(sum)
		} else {
			for _, v := range in {
				weigh(kernels.Finite(v))
			}
		}
		record := out[row*kernels.FilterWords:][:kernels.FilterWords]
		record[0], record[1], record[2] = uint32(token), kernels.Word(threshold), kernels.Word(lse)
		record[3] = uint32(argmax)
		record[4] = kernels.Word(math.Exp((kernels.Finite(in[token])-most)*scale) / sum)
		record[5] = kernels.Word(max(math.Log(sum)-moment/sum, 0))
	}
}

// radixSelect returns the largest order key k such that the weights of the logits with keys of at least k and floor
// sum to at least want, or, if want is 0, to a share of the total.
func radixSelect(in []float32, floor uint32, want, share float64, weight func(float64) float64) uint32 {
	var prefix, known uint32
	for shift := 24; shift >= 0; shift -= 8 {
		var bins [256]float64
		for _, v := range in {
			z := kernels.Finite(v)
			if k := order(z); k&known == prefix && k >= floor {
				bins[k>>shift&255] += weight(z)
			}
		}
		if want == 0 {
			for d := 255; d >= 0; d-- {
				want += bins[d]
			}
			want *= share
		}
		digit := 0
		for d := 255; d >= 0; d-- {
			if bins[d] == 0 {
				continue
			}
			digit = d // if rounding leaves the sum short of want, the last bin with weight is chosen
			if bins[d] >= want {
				break
			}
			want -= bins[d]
		}
		prefix |= uint32(digit) << shift
		known |= 255 << shift
	}
	return prefix
}

// order maps a finite float to a word such that words compare like the floats.
func order(z float64) uint32 {
	w := math.Float32bits(float32(z))
	if w>>31 == 1 {
		return ^w
	}
	return w | 1<<31
}

func unorder(k uint32) float64 {
	if k>>31 == 1 {
		return kernels.Float(k &^ (1 << 31))
	}
	return kernels.Float(^k)
}
