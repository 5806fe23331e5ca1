package sample

import (
	"math"

	"foretoken/webgpu"
	"foretoken/webgpu/kernels"
)

func scanRef(_ [3]int, b []webgpu.Memory) {
	p, logits, draw, positions, parts := b[0], b[1].F32(), b[2], b[3], b[4]
	rows, vocab, stride, seg, segs := int(p[0]), int(p[1]), int(p[2]), int(p[3]), int(p[4])
	inverse, coupled := kernels.Float(draw[0]), draw[7]&1 != 0
	for row := range rows {
		key := kernels.RowKey(draw, draw[3], positions[row])
		for s := range segs {
			first := s * seg
			z := logits[row*stride+first : row*stride+min(first+seg, vocab)]
			best, bestID := kernels.NoScore, 0
			for i, v := range z {
				if f := kernels.Finite(v); f > best {
					best, bestID = f, i
				}
			}
			sum, moment := 0.0, 0.0
			for _, v := range z {
				d := kernels.Finite(v) - best
				e := math.Exp(d)
				sum += e
				moment += d * e
			}
			top, topID, topSum := kernels.NoScore, bestID, 0.0
			if inverse > 0 {
				for i, v := range z {
					scaled := kernels.Finite(v) * inverse
					if !coupled && scaled+23 <= top {
						continue // loses with every noise
					}
					score := scaled + key.Gumbel(uint32(first+i))
					if score > top {
						topSum = topSum*math.Exp(top-score) + 1
						top, topID = score, i
					} else {
						topSum += math.Exp(score - top)
					}
				}
			}
			tempered := 0.0
			if Values(p[6]) == TemperedLogProbs {
				for _, v := range z {
					tempered += math.Exp((kernels.Finite(v) - best) * inverse)
				}
			}
			part := parts[(row*segs+s)*partWords:][:partWords]
			part[0], part[1] = kernels.Word(best), uint32(first+bestID)
			part[2], part[3] = kernels.Word(sum), kernels.Word(moment)
			part[4], part[5], part[6] = kernels.Word(top), uint32(first+topID), kernels.Word(topSum)
			part[7] = kernels.Word(tempered)
			clear(part[8:])
		}
	}
}

func pickRef(_ [3]int, b []webgpu.Memory) {
	p, logits, draw, positions, parts, out := b[0], b[1].F32(), b[2], b[3], b[4], b[5]
	rows, vocab, stride, seg, segs, k := int(p[0]), int(p[1]), int(p[2]), int(p[3]), int(p[4]), int(p[5])
	inverse := kernels.Float(draw[0])
	coupled := inverse > 0 && draw[7]&1 != 0
	head := 0
	if coupled {
		head = 4
	}
	for row := range rows {
		key := kernels.RowKey(draw, draw[3], positions[row])
		in := logits[row*stride:][:vocab]
		part := func(s int) webgpu.Memory { return parts[(row*segs+s)*partWords:][:partWords] }
		best, bestID, top, topID := kernels.NoScore, uint32(0), kernels.NoScore, uint32(0)
		for s := range segs {
			w := part(s)
			if z := kernels.Float(w[0]); z > best {
				best, bestID = z, w[1]
			}
			if z := kernels.Float(w[4]); z > top {
				top, topID = z, w[5]
			}
		}
		sum, moment, topSum, tempered := 0.0, 0.0, 0.0, 0.0
		for s := range segs {
			w := part(s)
			tempered += kernels.Float(w[7]) * math.Exp((kernels.Float(w[0])-best)*inverse)
			d := kernels.Float(w[0]) - best
			e := math.Exp(d)
			sum += kernels.Float(w[2]) * e
			moment += (kernels.Float(w[3]) + d*kernels.Float(w[2])) * e
			topSum += kernels.Float(w[6]) * math.Exp(kernels.Float(w[4])-top)
		}
		lse := best + math.Log(sum)
		record := out[row*kernels.SampleWords(k):][:kernels.SampleWords(k)]
		record[0], record[1] = bestID, bestID
		if inverse > 0 {
			record[0] = topID
		}
		record[2], record[3] = kernels.Word(lse), kernels.Word(max(math.Log(sum)-moment/sum, 0))

		shift := 0.0
		if Values(p[6]) != RawLogits {
			shift = lse
			if coupled {
				shift = top + math.Log(topSum)
			}
		}
		byTemperature := Values(p[6]) == TemperedLogProbs && inverse > 0
		if byTemperature {
			shift = best*inverse + math.Log(tempered)
		}
		for i := range k {
			score, from := kernels.NoScore, 0
			for s := range segs {
				if v := kernels.Float(part(s)[head]); v > score {
					score, from = v, s
				}
			}
			if score <= kernels.NoScore {
				record[4+i], record[4+k+i] = 0, kernels.Word(kernels.LowLogit)
				continue
			}
			w, first := part(from), from*seg
			id := w[head+1]
			if byTemperature {
				score = kernels.Finite(in[id]) * inverse
			}
			record[4+i], record[4+k+i] = id, kernels.Word(score-shift)
			at := int(id) - first
			w[8+at/32] |= 1 << (at % 32)
			score = kernels.NoScore
			next := 0
			for n, z := range in[first:min(first+seg, vocab)] {
				if w[8+n/32]>>(n%32)&1 != 0 {
					continue
				}
				v := kernels.Finite(z)
				if coupled {
					if v *= inverse; v+23 <= score {
						continue
					}
					v += key.Gumbel(uint32(first + n))
				}
				if v > score {
					score, next = v, first+n
				}
			}
			w[head], w[head+1] = kernels.Word(score), uint32(next)
		}
	}
}
