package attention

import (
	"math"

	"foretoken/webgpu"
	"foretoken/webgpu/kernels"
)

// headParams is the decoded parameter block of the attention kernels.
type headParams struct {
	m, heads, group, width, stride int
	scale                          float64
	window, row0, blocks           int
}

func headsOf(p webgpu.Memory) headParams {
	return headParams{m: int(p[0]), heads: int(p[1]), group: int(p[2]), width: int(p[3]), stride: int(p[4]),
		scale: kernels.Float(p[5]), window: int(p[6]), row0: int(p[7]), blocks: int(p[8])}
}

// slotOf returns the KV slot of position j for row i.
func (p headParams) slotOf(rows, table, ancestors webgpu.Memory, i, j int) int {
	if shared := int(rows[i*kernels.RowWords+2]); j >= shared {
		return int(ancestors[i*p.stride+j-shared])
	}
	return int(table[j])
}

// sees returns the first and the last position that row i attends to.
func (p headParams) sees(rows webgpu.Memory, i int) (first, last int) {
	last = int(rows[i*kernels.RowWords])
	return max(last+1-p.window, 0), last
}

// attend computes attention of row i over positions first to last. It calls put for each head with the highest score,
// the sum of exp(score - highest) and the sum of values with these weights.
func (p headParams) attend(l kernels.CacheLayout, dim int, b []webgpu.Memory, i, first, last int,
	put func(head int, most, sum float64, v []float64)) {
	rows, table, ancestors, qkv, keys, values := b[1], b[2], b[3], b[4].F32(), b[5], b[6]
	kv := p.heads / p.group * dim
	key, v, scores := make([]float64, dim), make([]float64, dim), make([]float64, p.group*(last+1-first))
	for shared := range p.heads / p.group {
		for j := first; j <= last; j++ {
			l.Load(keys, p.slotOf(rows, table, ancestors, i, j)*kv+shared*dim, key)
			for g := range p.group {
				sum := 0.0
				for d, q := range qkv[i*p.width+(shared*p.group+g)*dim:][:dim] {
					sum += float64(q) * key[d]
				}
				scores[g*(last+1-first)+j-first] = sum * p.scale
			}
		}
		sums, all := make([]float64, p.group), make([]float64, p.group*dim)
		most := make([]float64, p.group)
		for g := range p.group {
			most[g] = math.Inf(-1)
			for _, s := range scores[g*(last+1-first):][:last+1-first] {
				most[g] = math.Max(most[g], s)
			}
		}
		for j := first; j <= last; j++ {
			l.Load(values, p.slotOf(rows, table, ancestors, i, j)*kv+shared*dim, v)
			for g := range p.group {
				w := math.Exp(scores[g*(last+1-first)+j-first] - most[g])
				sums[g] += w
				to := all[g*dim:][:dim]
				for d, x := range v {
					to[d] += w * x
				}
			}
		}
		for g := range p.group {
			put(shared*p.group+g, most[g], sums[g], all[g*dim:][:dim])
		}
	}
}

func attentionRef(h kernels.Heads) kernels.Reference {
	return func(_ [3]int, b []webgpu.Memory) {
		p, out := headsOf(b[0]), b[7].F32()
		for at := range p.m {
			i := p.row0 + at
			first, last := p.sees(b[1], i)
			p.attend(h.Layout(), h.Dim, b, i, first, last, func(head int, _, sum float64, v []float64) {
				for d, x := range v {
					out[(i*p.heads+head)*h.Dim+d] = float32(x / sum)
				}
			})
		}
	}
}
