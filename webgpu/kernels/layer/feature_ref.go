package layer

import (
	"foretoken/webgpu"
	"foretoken/webgpu/kernels"
)

func storeFeaturesRef(_ [3]int, b []webgpu.Memory) {
	dim, m, rows, x, out := 4*int(b[0][0]), int(b[0][1]), b[1], b[2], b[3]
	for i := range m {
		copy(out[int(rows[i*kernels.RowWords+1])*dim:][:dim], x[i*dim:])
	}
}

func gatherFeaturesRef(_ [3]int, b []webgpu.Memory) {
	dim, m, rows, table, x, out := 4*int(b[0][0]), int(b[0][1]), b[1], b[2], b[3], b[4]
	for i := range m {
		copy(out[i*dim:][:dim], x[int(table[rows[i*kernels.RowWords]])*dim:])
	}
}

func parentFeaturesRef(_ [3]int, b []webgpu.Memory) {
	dim, m, stride, rows, table, ancestors, x := 4*int(b[0][0]), int(b[0][1]), int(b[0][2]), b[1], b[2], b[3], b[4]
	out := b[5]
	for i := range m {
		position, slot := int(rows[i*kernels.RowWords]), int(rows[i*kernels.RowWords+1])
		if position > 0 {
			slot = kernels.SlotOf(rows, table, ancestors, stride, i, position-1)
		}
		copy(out[i*dim:][:dim], x[slot*dim:])
	}
}
