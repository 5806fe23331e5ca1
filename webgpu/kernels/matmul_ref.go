package kernels

import (
	"runtime"
	"sync"

	"foretoken/webgpu"

	"github.com/x448/float16"
)

// unpackRow writes a row's weights as floats.
func unpackRow(f Format, quants webgpu.Memory, scales []float32, row, cols int, dst []float64) {
	words := f.WordsPerRow(cols)
	q := quants[row*words : (row+1)*words]
	switch f {
	case F32:
		for i, v := range q.F32() {
			dst[i] = float64(v)
		}
	case F16:
		for i, w := range q {
			dst[2*i] = float64(float16.Frombits(uint16(w)).Float32())
			dst[2*i+1] = float64(float16.Frombits(uint16(w >> 16)).Float32())
		}
	case Q8_0:
		for b := range cols / 32 {
			d := float64(scales[row*cols/32+b])
			for i, w := range q[8*b : 8*b+8] {
				for j := range 4 {
					dst[32*b+4*i+j] = d * float64(int8(w>>(8*j)))
				}
			}
		}
	case Q4_0:
		for b := range cols / 32 {
			d := float64(scales[row*cols/32+b])
			for i, w := range q[4*b : 4*b+4] {
				for j := range 4 {
					dst[32*b+4*i+j] = d * float64(int(w>>(8*j)&15)-8)
					dst[32*b+16+4*i+j] = d * float64(int(w>>(8*j+4)&15)-8)
				}
			}
		}
	}
}

func matmulRef(f Format) func([3]int, []webgpu.Memory) {
	return func(_ [3]int, b []webgpu.Memory) {
		p, quants, x, out := b[0], b[1], b[2].F32(), b[3].F32()
		n, cols, m := int(p[0]), int(p[1])*f.step(), int(p[2])
		ldx, x0, ldo, out0, add := int(p[3])*4, int(p[4])*4, int(p[5]), int(p[6]), p[7] == 1
		var scales []float32
		if f.Quantised() {
			scales = b[4].F32()
		}
		in := make([]float64, m*cols)
		for i := range m {
			for k, v := range x[x0+i*ldx : x0+i*ldx+cols] {
				in[i*cols+k] = float64(v)
			}
		}
		rows := func(from, to int) {
			w := make([]float64, cols)
			for r := from; r < to; r++ {
				unpackRow(f, quants, scales, r, cols, w)
				for i := range m {
					o := &out[out0+i*ldo+r]
					v := float32(dot(w, in[i*cols:(i+1)*cols]))
					if add {
						v += *o
					}
					*o = v
				}
			}
		}
		workers := min(runtime.GOMAXPROCS(0), n/64)
		if workers <= 1 {
			rows(0, n)
			return
		}
		var wait sync.WaitGroup
		for i := range workers {
			wait.Go(func() { rows(n*i/workers, n*(i+1)/workers) })
		}
		wait.Wait()
	}
}

// dot adds in four lanes: one chain of additions would wait for each other.
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
