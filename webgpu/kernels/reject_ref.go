package kernels

import (
	"math"

	"foretoken/webgpu"
)

// Streams of package spec that the rejection rule draws from.
const (
	streamAccept   = 2
	streamResidual = 3
)

func rejectRef(_ [3]int, b []webgpu.Memory) {
	p, target, draft, targetRec, draftRec, draw, positions, out := b[0], b[1].F32(), b[2].F32(), b[3], b[4], b[5], b[6], b[7]
	rows, vocab, stride, draftStride, recStride := int(p[0]), int(p[1]), int(p[2]), int(p[3]), int(p[4])
	inverse := fromBits(draw[0])
	for row := range rows {
		verdict, rec := out[row*RejectWords:][:RejectWords], targetRec[row*FilterWords:][:FilterWords]
		verdict[0], verdict[1] = 0, rec[0]
		if row+1 == rows {
			continue
		}
		drec := draftRec[row*recStride:][:FilterWords]
		x := min(drec[0], u32(vocab-1))
		if inverse <= 0 {
			if verdict[1] = rec[3]; x == rec[3] {
				verdict[0] = 1
			}
			continue
		}
		tz, dz := target[row*stride:][:vocab], draft[row*draftStride:][:vocab]
		pFloor, pLSE, qFloor, qLSE := fromBits(rec[1]), fromBits(rec[2]), fromBits(drec[1]), fromBits(drec[2])
		pz, qz := finite(tz[x]), finite(dz[x])
		ratio := (pz*inverse - pLSE) - (qz*inverse - qLSE)
		u := rowKey(draw, streamAccept, positions[row]).uniform(0)
		if pz >= pFloor && (qz < qFloor || ratio >= 0 || u < math.Exp(ratio)) {
			verdict[0], verdict[1] = 1, x
			continue
		}
		key := rowKey(draw, streamResidual, positions[row])
		best, anyBest, token, any := noScore, noScore, 0, int(x) // any: of p itself, should the residual be empty
		for i := range vocab {
			z := finite(tz[i])
			if z < pFloor {
				continue
			}
			lp := z*inverse - pLSE
			if lp+23 <= best {
				continue // cannot win with any noise
			}
			lr := lp
			if w := finite(dz[i]); w >= qFloor {
				lr = noScore
				if e := w*inverse - qLSE - lp; e < 0 {
					lr = lp + math.Log(-math.Expm1(e))
				}
			}
			g := key.gumbel(uint32(i))
			if lp+g > anyBest {
				anyBest, any = lp+g, i
			}
			if lr > noScore && lr+g > best {
				best, token = lr+g, i
			}
		}
		if best <= noScore {
			token = any
		}
		verdict[1] = u32(token)
	}
}
