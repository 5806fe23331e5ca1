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
		c := int(slots[k+j])
		if slots[k+j] == NotGiven {
			c = -1
			for i := range beams {
				if at := i*k + rank[i]; rank[i] < k && (c < 0 || number(all[at]) > number(all[c])) {
					c = at
				}
			}
			rank[c/k]++
		}
		beam := c / k
		chosen[j], nextTokens[j] = uint32(c), samples[beam*kernels.SampleWords(k)+4+c%k]
		nextScores[j] = number(all[c])
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
