package kernels

import "foretoken/webgpu"

func embedRef(f Format) func([3]int, []webgpu.Memory) {
	return func(_ [3]int, b []webgpu.Memory) {
		p, quants, tokens, out := b[0], b[1], b[2], b[3].F32()
		row0, rows, cols, m := int(p[0]), int(p[1]), int(p[2])*f.step(), int(p[3])
		var scales []float32
		if f.Quantised() {
			scales = b[4].F32()
		}
		w := make([]float64, cols)
		for i := range m {
			row := int(tokens[i]) - row0
			if row < 0 || row >= rows {
				continue
			}
			unpackRow(f, quants, scales, row, cols, w)
			for k, v := range w {
				out[i*cols+k] = float32(v)
			}
		}
	}
}
