package tree

import (
	"foretoken/webgpu"
	"foretoken/webgpu/kernels"
)

func selectRef(_ [3]int, b []webgpu.Memory) {
	p, samples, scores, ancestors, slots := b[0], b[1], b[2].F32(), b[3], b[4]
	nextTokens, nextScores, nextAncestors := b[5], b[6].F32(), b[7]
	beams, k, depth, width := int(p[0]), int(p[1]), int(p[2]), int(p[3])
	chosen, all := DecodeSelect(b[8], beams, k)
	for beam := range beams {
		v := float32(0)
		if depth > 0 {
			v = number(scores[beam])
		}
		for i, q := range samples[beam*kernels.SampleWords(k)+4+k:][:k].F32() {
			all[beam*k+i] = v + number(q)
		}
	}
	var rank [kernels.MaxTopK]int
	for j := range k {
		if c := slots[k+j]; c != NotGiven {
			beam, r := int(c)/k, int(c)%k
			chosen[j], nextTokens[j], nextScores[j] = c, samples[beam*kernels.SampleWords(k)+4+r], number(all[c])
			copy(nextAncestors[j*width:][:depth], ancestors[beam*width:])
			nextAncestors[j*width+depth] = slots[j]
			continue
		}
		best, beam := float32(0), -1
		for i := range beams {
			if rank[i] == k {
				continue
			}
			if v := number(all[i*k+rank[i]]); beam < 0 || v > best {
				best, beam = v, i
			}
		}
		r := rank[beam]
		rank[beam]++
		chosen[j] = uint32(beam*k + r)
		nextTokens[j], nextScores[j] = samples[beam*kernels.SampleWords(k)+4+r], best
		copy(nextAncestors[j*width:][:depth], ancestors[beam*width:])
		nextAncestors[j*width+depth] = slots[j]
	}
}

// number returns v, or the lowest float for NaN.
func number(v float32) float32 {
	if v != v {
		return lowScore
	}
	return v
}
