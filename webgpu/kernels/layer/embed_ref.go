package layer

import (
	"foretoken/webgpu"
	"foretoken/webgpu/kernels"
)

func embedRef(f kernels.Format, times float64) kernels.Reference {
	return func(_ [3]int, b []webgpu.Memory) {
		p, quants, tokens, out := b[0], b[1], b[2], b[3].F32()
		row0, rows, cols, m := int(p[0]), int(p[1]), int(p[2])*f.Step(), int(p[3])
		scales := kernels.ScalesOf(f, b)
		w := make([]float64, cols)
		for i := range m {
			row := int(tokens[i]) - row0
			if row < 0 || row >= rows {
				continue
			}
			kernels.UnpackRow(f, quants, scales, row, cols, w)
			if len(b) > 6 {
				embedNextRef(f, w, b[5].F32(), b[6].F32()[i*int(p[4]):])
			}
			for k, v := range w {
				out[i*cols+k] = float32(v * times)
			}
		}
	}
}

// embedNextRef fills the row of the next product's input. The shader sums the squares of a step, whose parts are
// apart in the row; here each sum covers neighbouring elements. Only their total matters.
func embedNextRef(f kernels.Format, row []float64, gain, next []float32) {
	sums := next[len(row):][:len(row)/f.Step()]
	clear(sums)
	for k, v := range row {
		v := float32(v)
		next[k] = v * gain[k]
		sums[k/f.Step()] += v * v
	}
}
