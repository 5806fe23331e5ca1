package attention

import (
	"math"

	"foretoken/webgpu"
	"foretoken/webgpu/kernels"
)

// headParams is the decoded parameter block of the kernel for hosts.
type headParams struct {
	m, heads, group, width, stride int
	scale                          float64
	window                         int
}

func headsOf(p webgpu.Memory) headParams {
	return headParams{m: int(p[0]), heads: int(p[1]), group: int(p[2]), width: int(p[3]), stride: int(p[4]),
		scale: kernels.Float(p[5]), window: int(p[6])}
}

// attend computes attention of row i and writes it to out.
func (p headParams) attend(l kernels.CacheLayout, dim int, b []webgpu.Memory, i int, out []float32) {
	rows, table, ancestors, qkv, keys, values := b[1], b[2], b[3], b[4].F32(), b[5], b[6]
	last := int(rows[i*kernels.RowWords])
	first := max(last+1-p.window, 0)
	n, kv := last+1-first, p.heads/p.group*dim
	slot := func(j int) int { return kernels.SlotOf(rows, table, ancestors, p.stride, i, first+j) }
	key, v, weights := make([]float64, dim), make([]float64, dim), make([]float64, p.group*n)
	for shared := range p.heads / p.group {
		for j := range n {
			l.Load(keys, slot(j)*kv+shared*dim, key)
			for g := range p.group {
				sum := 0.0
				for d, q := range qkv[i*p.width+(shared*p.group+g)*dim:][:dim] {
					sum += float64(q) * key[d]
				}
				weights[g*n+j] = sum * p.scale
			}
		}
		sums, all := make([]float64, p.group), make([]float64, p.group*dim)
		for g := range p.group {
			most := math.Inf(-1)
			for _, s := range weights[g*n:][:n] {
				most = math.Max(most, s)
			}
			for j := range n {
				w := math.Exp(weights[g*n+j] - most)
				weights[g*n+j] = w
				sums[g] += w
			}
		}
		for j := range n {
			l.Load(values, slot(j)*kv+shared*dim, v)
			for g := range p.group {
				to := all[g*dim:][:dim]
				for d, x := range v {
					to[d] += weights[g*n+j] * x
				}
			}
		}
		for k, x := range all {
			out[shared*p.group*dim+k] = float32(x / sums[k/dim])
		}
	}
}

func attentionRef(l kernels.CacheLayout, dim int) kernels.Reference {
	return func(_ [3]int, b []webgpu.Memory) {
		p := headsOf(b[0])
		width := p.heads * dim
		for i := range p.m {
			p.attend(l, dim, b, i, b[7].F32()[i*width:][:width])
		}
	}
}
