package kernels

import "foretoken/webgpu"

// Lanes is how many threads share one row in kernels that reduce along it.
// Serial wins on software adapters, where a barrier costs more than the loop.
type Lanes int

const (
	Serial  Lanes = 1  // one thread a row
	Grouped Lanes = 64 // one workgroup a row
)

var normAccess = []webgpu.Access{webgpu.Constants, webgpu.ReadOnly, webgpu.ReadOnly, webgpu.ReadWrite}

// RMSNorm writes x / sqrt(mean(x²) + eps) · weight for each row. x and out are
// (rows, dim), weight is (dim), all f32. Zhang & Sennrich 2019.
func (r *Recorder) RMSNorm(lanes Lanes, x, weight, out View, rows, dim int, eps float64) {
	params := []uint32{u32(rows), u32(dim), f32(eps)}
	if lanes == Serial {
		r.add(source("norm", normAccess, normRef), r.groupsFor(rows, 8), params, x, weight, out)
		return
	}
	r.add(source("norm_group", normAccess, normRef), [3]int{rows, 1, 1}, params, x, weight, out)
}
