package sample

import (
	"math"

	"foretoken/webgpu"
	"foretoken/webgpu/kernels"
)

func rejectRef(_ [3]int, b []webgpu.Memory) {
	p, target, draft, targetRec, draftRec, draw, positions := b[0], b[1].F32(), b[2].F32(), b[3], b[4], b[5], b[6]
	out := b[7]
	rows, vocab, stride, draftStride, recStride := int(p[0]), int(p[1]), int(p[2]), int(p[3]), int(p[4])
	inverse := kernels.Float(draw[0])
	for row := range rows {
		verdict, rec := out[row*RejectWords:][:RejectWords], targetRec[row*kernels.FilterWords:][:kernels.FilterWords]
		verdict[0], verdict[1] = 0, rec[0]
		if row+1 == rows {
			continue
		}
		drec := draftRec[row*recStride:][:kernels.FilterWords]
		x := min(drec[0], uint32(vocab-1))
		if inverse <= 0 {
			if verdict[1] = rec[3]; x == rec[3] {
				verdict[0] = 1
			}
			continue
		}
		tz, dz := target[row*stride:][:vocab], draft[row*draftStride:][:vocab]
		pFloor, pLSE, qFloor := kernels.Float(rec[1]), kernels.Float(rec[2]), kernels.Float(drec[1])
		qLSE := kernels.Float(drec[2])
		pz, qz := kernels.Finite(tz[x]), kernels.Finite(dz[x])
		ratio := (pz*inverse - pLSE) - (qz*inverse - qLSE)
		u := kernels.RowKey(draw, kernels.StreamAccept, positions[row]).Uniform(0)
		if pz >= pFloor && (qz < qFloor || ratio >= 0 || u < math.Exp(ratio)) {
			verdict[0], verdict[1] = 1, x
			continue
		}
		key := kernels.RowKey(draw, kernels.StreamResidual, positions[row])
		// any is drawn from p, for an empty residual.
		best, anyBest, token, any := kernels.NoScore, kernels.NoScore, 0, int(x)
		for i := range vocab {
			z := kernels.Finite(tz[i])
			if z < pFloor {
				continue
			}
			lp := z*inverse - pLSE
			if lp+23 <= best {
				continue // loses with every noise
			}
			lr := lp
			if w := kernels.Finite(dz[i]); w >= qFloor {
				lr = kernels.NoScore
				if e := w*inverse - qLSE - lp; e < 0 {
					lr = lp + math.Log(-math.Expm1(e))
				}
			}
			g := key.Gumbel(uint32(i))
			if lp+g > anyBest {
				anyBest, any = lp+g, i
			}
			if lr > kernels.NoScore && lr+g > best {
				best, token = lr+g, i
			}
		}
		if best <= kernels.NoScore {
			token = any
		}
		verdict[1] = uint32(token)
	}
}
