package tree

import (
	"cmp"
	"math"
	"slices"

	"foretoken/webgpu"
	"foretoken/webgpu/kernels"
)

func gatherRef(_ [3]int, b []webgpu.Memory) {
	p, drafted, head := b[0], b[1], b[2]
	tokens, drawn, rows, ancestors, chosen := b[3], b[4], b[5], b[6], b[7]
	k, picks, first, words, stride := int(p[0]), int(p[1]), int(p[2]), int(p[3]), int(p[4])
	levels, nodes, padded, base, trash := int(head[0]), int(head[1]), int(head[2]), head[3], head[4]
	slots := head[GatherHeadWords:]
	all := min(Gathered(levels, k), MostGathered)
	level, parent, token, value := make([]int, all), make([]int, all), make([]uint32, all), make([]float32, all)
	order := make([]int, 0, all)
	for c := range all {
		beam, samples := 0, drafted
		parent[c] = -1
		if c >= k {
			level[c], beam = 1+(c-k)/(k*k), (c-k)%(k*k)/k
			result := drafted[first+(level[c]-1)*words:]
			samples, parent[c] = result[picks:], int(result[beam])
			if level[c] > 1 {
				parent[c] += k + (level[c]-2)*k*k
			}
			value[c] = value[parent[c]]
		}
		rank := c % k
		if c >= k {
			rank = (c - k) % k
		}
		record := samples[beam*kernels.SampleWords(k)+4:]
		token[c] = record[rank]
		value[c] += min(record[k : k+rank+1].F32()[rank], 0)
		if value[c] != value[c] || slices.Contains(record[:rank], token[c]) {
			value[c] = float32(math.Inf(-1))
		}
		if !math.IsInf(float64(value[c]), -1) {
			order = append(order, c)
		}
	}
	slices.SortStableFunc(order, func(x, y int) int { return cmp.Compare(value[y], value[x]) })
	order = order[:min(len(order), nodes-1)]
	slices.Sort(order)
	if head[6] != 0 {
		order = order[:0]
		for _, c := range slots[nodes+1:][:nodes-1] {
			order = append(order, int(c))
		}
	}
	fill := func(i int, token, position, slot, shared uint32, path ...uint32) {
		tokens[i], drawn[i] = token, position+1
		copy(rows[i*kernels.RowWords:], []uint32{position, slot, shared, 0})
		copy(ancestors[i*stride:], path)
	}
	for i := range nodes {
		chosen[i] = NotGathered
	}
	fill(0, head[5], base, slots[0], base, slots[0])
	at := make([]int, all)
	for i, c := range order {
		at[c], chosen[i+1] = i+1, uint32(c)
		path := make([]uint32, level[c]+2)
		path[0] = slots[0]
		for up, l := c, level[c]+1; up >= 0; up, l = parent[up], l-1 {
			path[l] = slots[at[up]]
		}
		fill(i+1, token[c], base+uint32(level[c])+1, slots[i+1], base, path...)
	}
	for i := len(order) + 1; i < padded; i++ {
		fill(i, 0, 0, trash, 0, trash)
	}
}
