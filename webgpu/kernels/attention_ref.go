package kernels

import (
	"math"

	"foretoken/webgpu"
)

// heads is the parameter block of the attention kernels.
type headParams struct {
	m, heads, group, dim, width, span, stride int
	scale                                     float64
}

func headsOf(p webgpu.Memory) headParams {
	return headParams{int(p[0]), int(p[1]), int(p[2]), int(p[3]), int(p[4]), int(p[5]), int(p[6]), fromBits(p[7])}
}

// slotOf is the KV slot of logical position j as row i sees it.
func (p headParams) slotOf(rows, table, ancestors webgpu.Memory, i, j int) int {
	if shared := int(rows[i*RowWords+2]); j >= shared {
		return int(ancestors[i*p.stride+j-shared])
	}
	return int(table[j])
}

func scoresRef(f KVFormat) func([3]int, []webgpu.Memory) {
	return func(_ [3]int, b []webgpu.Memory) {
		p, rows, table, ancestors, qkv, cache, scores := headsOf(b[0]), b[1], b[2], b[3], b[4].F32(), b[5], b[6].F32()
		kv := p.heads / p.group * p.dim
		for i := range p.m {
			for j := range int(rows[i*RowWords]) + 1 {
				slot := p.slotOf(rows, table, ancestors, i, j) * kv
				for h := range p.heads {
					q := qkv[i*p.width+h*p.dim : i*p.width+(h+1)*p.dim]
					k, sum := slot+h/p.group*p.dim, 0.0
					for d, v := range q {
						sum += float64(v) * loadKV(f, cache, k+d)
					}
					scores[(i*p.heads+h)*p.span+j] = float32(sum * p.scale)
				}
			}
		}
	}
}

func softmaxRef(_ [3]int, b []webgpu.Memory) {
	p, rows, scores := headsOf(b[0]), b[1], b[2].F32()
	for i := range p.m {
		for h := range p.heads {
			s := scores[(i*p.heads+h)*p.span:][:rows[i*RowWords]+1]
			most, sum := math.Inf(-1), 0.0
			for _, v := range s {
				most = math.Max(most, float64(v))
			}
			for _, v := range s {
				sum += math.Exp(float64(v) - most)
			}
			for j, v := range s {
				s[j] = float32(math.Exp(float64(v)-most) / sum)
			}
		}
	}
}

func valuesRef(f KVFormat) func([3]int, []webgpu.Memory) {
	return func(_ [3]int, b []webgpu.Memory) {
		p, rows, table, ancestors, scores, cache, out := headsOf(b[0]), b[1], b[2], b[3], b[4].F32(), b[5], b[6].F32()
		kv := p.heads / p.group * p.dim
		sum := make([]float64, p.dim)
		for i := range p.m {
			for h := range p.heads {
				clear(sum)
				for j := range int(rows[i*RowWords]) + 1 {
					v := p.slotOf(rows, table, ancestors, i, j)*kv + h/p.group*p.dim
					w := float64(scores[(i*p.heads+h)*p.span+j])
					for d := range sum {
						sum[d] += w * loadKV(f, cache, v+d)
					}
				}
				for d, v := range sum {
					out[(i*p.heads+h)*p.dim+d] = float32(v)
				}
			}
		}
	}
}
