package kernels

import (
	"fmt"

	"foretoken/webgpu"
)

// The kernels of this file move hidden states between the rows of a pass and the
// KV slots of their tokens, for heads that draft from them (Li et al., EAGLE-3
// 2025, section 3.1). They copy, so every bit stays as it is.

func quads(dim int) int {
	if dim%4 != 0 {
		panic(fmt.Sprintf("kernels: rows of %d floats are not a whole number of vectors of four", dim))
	}
	return dim / 4
}

func (r *Recorder) copyRows(name string, ref func([3]int, []webgpu.Memory), dim, m, stride int, views ...View) {
	access := make([]webgpu.Access, len(views)+1) // Constants once, ReadOnly, ReadWrite last
	for i := range access {
		access[i] = webgpu.ReadOnly
	}
	access[0], access[len(views)] = webgpu.Constants, webgpu.ReadWrite
	params := []uint32{u32(quads(dim)), u32(m)}
	if stride > 0 {
		params = append(params, u32(stride))
	}
	r.add(source(name, access, ref), [3]int{(quads(dim) + 31) / 32, m, 1}, params, views...)
}

// StoreFeatures writes row i of x (m, dim) to row slot of out (slots, dim), where slot is
// that of row i in rows, u32 (m, RowWords). All f32; dim is a multiple of 4.
func (r *Recorder) StoreFeatures(rows, x, out View, m, dim int) {
	r.copyRows("feature_store", storeFeaturesRef, dim, m, 0, rows, x, out)
}

// GatherFeatures writes to row i of out (m, dim) the row of x (slots, dim) that a
// sequence, whose slots table gives by position, stored at row i's position. The position
// must be committed in that sequence.
func (r *Recorder) GatherFeatures(rows, table, x, out View, m, dim int) {
	r.copyRows("feature_gather", gatherFeaturesRef, dim, m, 0, rows, table, x, out)
}

// ParentFeatures writes to row i of out (m, dim) the row of x (slots, dim) at the slot of the
// position before row i's, on its own path. A row at position 0 reads its own slot.
func (r *Recorder) ParentFeatures(s Slots, x, out View, m, dim int) {
	r.copyRows("feature_parent", parentFeaturesRef, dim, m, s.Stride, s.Rows, s.Table, s.Ancestors, x, out)
}
