package tree

import (
	"cmp"
	"math"
	"slices"

	"foretoken/webgpu"
	"foretoken/webgpu/kernels"
)

// lowPrune is the logit of an excluded candidate.
const lowPrune = -3.0e38

func pruneRef(_ [3]int, b []webgpu.Memory) {
	p, samples, paths, ancestors, slots := b[0], b[1], b[2].F32(), b[3], b[4]
	nextTokens, nextAncestors, net := b[5], b[6], b[8]
	beams, k, depth, width, from, to := int(p[0]), int(p[1]), int(p[2]), int(p[3]), int(p[4]), int(p[5])
	chosen, logits := DecodeSelect(b[7], beams, k)
	alive := min(int(net[1]), beams)
	room := min(k, max(int(net[2])-int(net[0]), 0))
	threshold := net[3:4].F32()[0]
	path := func(c int) float64 {
		v := min(float64(samples[c/k*kernels.SampleWords(k)+4+k:].F32()[c%k]), 0)
		if depth > 0 {
			v += float64(paths[from+c/k])
		}
		return v
	}
	var stay []int
	for c := range logits {
		logits[c] = lowPrune
		q := samples[c/k*kernels.SampleWords(k)+4+k:].F32()[c%k]
		if c/k >= alive || !(q > float32(math.Inf(-1))) {
			continue
		}
		entropy := samples[c/k*kernels.SampleWords(k)+3:].F32()[0]
		logits[c] = float32(perceptronRef(net, math.Exp(path(c)), float64(entropy), float64(depth+1)))
		if logits[c] > threshold {
			stay = append(stay, c)
		}
	}
	slices.SortStableFunc(stay, func(a, b int) int { return cmp.Compare(logits[b], logits[a]) })
	stay = stay[:min(room, len(stay))]
	slices.Sort(stay)
	for j := range k {
		c := 0
		chosen[j] = NotGiven
		if j < len(stay) {
			c = stay[j]
			chosen[j] = uint32(c)
		}
		nextTokens[j], paths[to+j] = samples[c/k*kernels.SampleWords(k)+4+c%k], float32(path(c))
		copy(nextAncestors[j*width:][:depth], ancestors[c/k*width:])
		nextAncestors[j*width+depth] = slots[j]
	}
	net[0], net[1] = net[0]+uint32(len(stay)), uint32(len(stay))
}

// perceptronRef returns the logit of the confidence.
func perceptronRef(net webgpu.Memory, probability, entropy, depth float64) float64 {
	w := net.F32()
	z := float64(w[5])
	for i := range int(net[4]) {
		u := w[pruneFixed+pruneUnit*i:]
		if x := float64(u[0])*probability + float64(u[1])*entropy + float64(u[2])*depth + float64(u[3]); x > 0 {
			z += float64(u[4]) * x
		}
	}
	return z
}
