package kernels

import (
	"math"

	"foretoken/webgpu"
)

func filterRef(_ [3]int, b []webgpu.Memory) {
	p, logits, draw, positions, out := b[0], b[1].F32(), b[2], b[3], b[5]
	rows, vocab, stride := int(p[0]), int(p[1]), int(p[2])
	inverse, count, share, gap := fromBits(draw[0]), draw[4], fromBits(draw[5]), fromBits(draw[6])
	for row := range rows {
		in := logits[row*stride:][:vocab]
		most, token := noScore, 0
		for i, v := range in {
			if z := finite(v); z > most {
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
				floor = max(floor, radixSelect(in, floor, 0, share, func(z float64) float64 { return math.Exp((z - most) * inverse) }))
			}
			threshold = float64(float32(most - gap))
			if floor > 0 {
				threshold = max(threshold, unorder(floor))
			}
			key := rowKey(draw, draw[3], positions[row])
			best := noScore
			for i, v := range in {
				z := finite(v)
				if z < threshold {
					continue
				}
				weigh(z)
				if scaled := z * inverse; scaled+23 > best {
					if s := scaled + key.gumbel(uint32(i)); s > best {
						best, token = s, i
					}
				}
			}
			lse = most*inverse + math.Log(sum)
		} else {
			for _, v := range in {
				weigh(finite(v))
			}
		}
		record := out[row*FilterWords:][:FilterWords]
		record[0], record[1], record[2], record[3] = u32(token), f32(threshold), f32(lse), u32(argmax)
		record[4] = f32(math.Exp((finite(in[token])-most)*scale) / sum)
		record[5] = f32(max(math.Log(sum)-moment/sum, 0))
	}
}

// radixSelect finds the largest order key at and above which the weights of the
// logits with keys from floor up reach want, or when want is 0 the share of their sum.
func radixSelect(in []float32, floor uint32, want, share float64, weight func(float64) float64) uint32 {
	var prefix, known uint32
	for shift := 24; shift >= 0; shift -= 8 {
		var bins [256]float64
		for _, v := range in {
			z := finite(v)
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
			digit = d // the last with any weight, should rounding leave the sum a hair short
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
