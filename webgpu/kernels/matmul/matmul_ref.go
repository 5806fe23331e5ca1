package matmul

import (
	"math"
	"runtime"
	"sync"

	"foretoken/webgpu"
	"foretoken/webgpu/kernels"
)

// finishRef ends a product for all sums of row i: out is the row, p and b are the parameters and bindings of the
// dispatch, tile is the number of weight rows in a tile.
type finishRef func(p webgpu.Memory, b []webgpu.Memory, i, tile int, sums []float64, out []float32)

// matmulRef returns the reference of a product.
func matmulRef(f kernels.Format, tile int, end finishRef) kernels.Reference {
	return func(_ [3]int, b []webgpu.Memory) {
		p, quants, x := b[0], b[1], b[2].F32()
		n, cols, m := int(p[0]), int(p[1])*f.Step(), int(p[2])
		ldx, x0, squares, eps := int(p[3])*4, int(p[4])*4, int(p[8]), kernels.Float(p[9])
		scales := kernels.ScalesOf(f, b)
		in, factor := make([]float64, m*cols), make([]float64, m)
		for i := range m {
			row := x[x0+i*ldx:]
			for k, v := range row[:cols] {
				in[i*cols+k] = float64(v)
			}
			if factor[i] = 1; squares > 0 {
				sum := 0.0
				for _, v := range row[cols : cols+squares] {
					sum += float64(v)
				}
				factor[i] = 1 / math.Sqrt(sum/float64(cols)+eps)
			}
		}
		sums := make([]float64, m*n) // (m, n)
		rows := func(from, to int) {
			w := make([]float64, cols)
			for r := from; r < to; r++ {
				kernels.UnpackRow(f, quants, scales, r, cols, w)
				for i := range m {
					sums[i*n+r] = factor[i] * dot(w, in[i*cols:(i+1)*cols])
				}
			}
		}
		workers := min(runtime.GOMAXPROCS(0), n/64)
		if workers <= 1 {
			rows(0, n)
		} else {
			var wait sync.WaitGroup
			for i := range workers {
				wait.Go(func() { rows(n*i/workers, n*(i+1)/workers) })
			}
			wait.Wait()
		}
		for i := range m {
			end(p, b, i, tile, sums[i*n:(i+1)*n], b[3].F32()[int(p[6])+i*int(p[5]):])
		}
	}
}

func storeRef(p webgpu.Memory, _ []webgpu.Memory, _, _ int, sums []float64, out []float32) {
	for r, v := range sums {
		if p[7] == 1 {
			out[r] += float32(v)
		} else {
			out[r] = float32(v)
		}
	}
}

func nextRef(p webgpu.Memory, b []webgpu.Memory, i, tile int, sums []float64, out []float32) {
	gain, n := b[5].F32(), len(sums)
	tile = min(tile, squared)
	next := b[6].F32()[i*int(p[12]):][:n+n/tile]
	clear(next[n:])
	for r, v := range sums {
		out[r] += float32(v)
		next[r] = out[r] * gain[r]
		next[n+r/tile] += out[r] * out[r]
	}
}

func gateRef(_ webgpu.Memory, _ []webgpu.Memory, _, _ int, sums []float64, out []float32) {
	half := len(sums) / 2
	for r := range half { // rounded to f32 like stored sums, to agree with Record and layer.RecordSiLU
		g, up := float64(float32(sums[r])), float64(float32(sums[half+r]))
		out[r] = float32(g / (1 + math.Exp(-g)) * up)
	}
}

func rotateRef(l kernels.CacheLayout) finishRef {
	return func(p webgpu.Memory, b []webgpu.Memory, i, _ int, sums []float64, out []float32) {
		h := kernels.Heads{Query: int(p[13]), KV: int(p[14]), Dim: int(p[10]), Rotary: int(p[15]), HalfSplit: p[11] > 0}
		v := make([]float32, len(sums))
		for r, sum := range sums {
			v[r] = float32(sum)
		}
		kernels.Rotate(h, l, b[5][i*kernels.RowWords:], b[6].F32(), nil, v, b[7], b[8])
		copy(out, v[:h.Query*h.Dim])
	}
}

// dot sums in four lanes: a single chain of additions would be bound by their latency.
func dot(a, b []float64) float64 {
	var s0, s1, s2, s3 float64
	b = b[:len(a)]
	i := 0
	for ; i+4 <= len(a); i += 4 {
		s0 += a[i] * b[i]
		s1 += a[i+1] * b[i+1]
		s2 += a[i+2] * b[i+2]
		s3 += a[i+3] * b[i+3]
	}
	for ; i < len(a); i++ {
		s0 += a[i] * b[i]
	}
	return s0 + s1 + s2 + s3
}
