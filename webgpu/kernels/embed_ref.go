package kernels

import "foretoken/webgpu"

func embedRef(f Format) func([3]int, []webgpu.Memory) {
	return func(_ [3]int, b []webgpu.Memory) {
		p, quants, tokens, out := b[0], b[1], b[2], b[3].F32()
		row0, rows, cols, m := int(p[0]), int(p[1]), int(p[2])*f.step(), int(p[3])
		scales := scalesOf(f, b)
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
			if len(b) > 6 {
				embedNextRef(f, out[i*cols:(i+1)*cols], b[5].F32(), b[6].F32()[i*int(p[4]):])
			}
		}
	}
}

// embedNextRef fills the next product's row. A step's parts lie apart, so the sums are over all that
// unpack would give together: here over as many in a row, which adds up to the same.
func embedNextRef(f Format, row, gain, next []float32) {
	sums := next[len(row):][:len(row)/f.step()]
	clear(sums)
	for k, v := range row {
		next[k] = v * gain[k]
		sums[k/f.step()] += v * v
	}
}
