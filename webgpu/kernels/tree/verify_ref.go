package tree

import (
	"math"

	"foretoken/webgpu"
	"foretoken/webgpu/kernels"
)

func verifyRef(_ [3]int, b []webgpu.Memory) {
	params, target, draft, records, draw := b[0], b[1].F32(), b[2].F32(), b[3], b[4]
	nodes, children, out := b[5], b[6], b[7]
	rows, vocab, stride, draftStride := int(params[0]), int(params[1]), int(params[2]), int(params[3])
	inverse := kernels.Float(draw[0])
	p, q, left := make([]float64, vocab), make([]float64, vocab), make([]float64, vocab)
	for row := range rows {
		verdict, node := out[row*VerdictWords:][:VerdictWords], nodes[row*NodeWords:][:NodeWords]
		record := records[row*kernels.FilterWords:][:kernels.FilterWords]
		drawn := children[node[1]:][:node[2]]
		verdict[0], verdict[1] = NoChild, record[0]
		if len(drawn) == 0 {
			continue
		}
		if inverse <= 0 {
			verdict[1] = record[3]
			for j, x := range drawn {
				if x == record[3] {
					verdict[0] = uint32(j)
				}
			}
			continue
		}
		kernels.FilteredProbabilities(p, target[row*stride:][:vocab], inverse, record)
		softmax(q, draft[int(node[0])*draftStride:][:vocab], inverse)
		verdict[0], verdict[1] = verifyChildren(p, q, left, drawn, draw, node[3], record[3])
	}
}

// softmax fills q with the softmax of z·inverse.
func softmax(q []float64, z []float32, inverse float64) {
	most, total := kernels.NoScore, 0.0
	for _, v := range z {
		most = max(most, kernels.Finite(v))
	}
	for i, v := range z {
		q[i] = math.Exp((kernels.Finite(v) - most) * inverse)
		total += q[i]
	}
	for i := range q {
		q[i] /= total
	}
}

// verifyChildren applies RecordVerify's rule to one row; left is scratch.
func verifyChildren(p, q, left []float64, drawn, draw []uint32, position, argmax uint32) (place, token uint32) {
	gone := make(map[uint32]bool, len(drawn))
	for _, x := range drawn {
		gone[x] = true
	}
	others := 0.0
	for i, v := range q {
		if !gone[uint32(i)] {
			others += v
		}
	}
	scale, mass := 0.0, 1.0
	accept := kernels.RowKey(draw, kernels.StreamAccept, position)
	copy(left, p)
	next := make([]float64, len(p))
	for j, x := range drawn {
		rest := others
		for _, y := range drawn[j:] {
			rest += q[y]
		}
		if !(rest > 0) {
			break
		}
		if accept.Uniform(uint32(j))*(q[x]/rest) < left[x]/mass {
			return uint32(j), x
		}
		grown, sum := scale+mass/rest, 0.0
		for i := range p {
			next[i] = max(p[i]-grown*q[i], 0)
			sum += next[i]
		}
		if sum > 0 { // otherwise p equals q up to rounding, and p stays
			scale, mass = grown, sum
			copy(left, next)
		}
	}
	key, best := kernels.RowKey(draw, kernels.StreamResidual, position), kernels.NoScore
	token = argmax
	for i, v := range left {
		if v <= 0 {
			continue
		}
		if l := math.Log(v); l+23 > best {
			if s := l + key.Gumbel(uint32(i)); s > best {
				best, token = s, uint32(i)
			}
		}
	}
	return NoChild, token
}
