package layer

import (
	"fmt"

	"foretoken/webgpu/kernels"
)

// The kernels of this file copy hidden states between the rows of a pass and the KV slots of their tokens, for heads
// that draft from them (Li et al., EAGLE-3 2025, section 3.1).

func vectors(dim int) int {
	if dim%4 != 0 {
		panic(fmt.Sprintf("layer: rows have %d floats; want a multiple of four", dim))
	}
	return dim / 4
}

func copyRows(r *kernels.Recorder, name string, ref kernels.Reference, dim, m, stride int, views ...kernels.View) {
	params := kernels.Params(vectors(dim), m)
	if stride > 0 {
		params = append(params, uint32(stride))
	}
	kernel := shaders.Source(name, kernels.Inputs(len(views)-1), kernels.Host{Ref: ref, Entry: name})
	r.Add(kernel, [3]int{(vectors(dim) + 31) / 32, m, 1}, params, views...)
}

// RecordStoreFeatures writes row i of x (m, dim) to row `slot` of out (slots, dim), the KV slot of row i in rows, u32
// (m, RowWords). All f32; dim is a multiple of 4.
func RecordStoreFeatures(r *kernels.Recorder, rows, x, out kernels.View, m, dim int) {
	copyRows(r, "feature_store", storeFeaturesRef, dim, m, 0, rows, x, out)
}

// RecordGatherFeatures writes to row i of out (m, dim) the row of x (slots, dim) that another sequence stored at the
// position of row i. table is the slot table of that sequence, which must have committed the position.
func RecordGatherFeatures(r *kernels.Recorder, rows, table, x, out kernels.View, m, dim int) {
	copyRows(r, "feature_gather", gatherFeaturesRef, dim, m, 0, rows, table, x, out)
}

// RecordParentFeatures writes to row i of out (m, dim) the row of x (slots, dim) that belongs to the parent of row i
// in the token tree. A row at position 0 reads its own slot.
func RecordParentFeatures(r *kernels.Recorder, s kernels.Slots, x, out kernels.View, m, dim int) {
	copyRows(r, "feature_parent", parentFeaturesRef, dim, m, s.Stride, s.Rows, s.Table, s.Ancestors, x, out)
}
