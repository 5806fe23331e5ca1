package sample

import "foretoken/webgpu/kernels"

// NoSource marks an id that has no logit in Spread's input.
const NoSource = ^uint32(0)

// RecordSpread expands m rows of logits over a subset of the vocabulary, x (m, some), to the full vocabulary. sources
// is u32 (vocab): the index in x's row of each id's logit, or NoSource for LowLogit. vocab must not exceed 64 times the
// device's workgroups a dimension.
func RecordSpread(r *kernels.Recorder, sources, x kernels.View, xStride, some int, out kernels.Rows, vocab, m int) {
	kernel := shaders.Source("spread", kernels.Inputs(2), kernels.Host{Ref: spreadRef, Entry: "spread"})
	r.Add(kernel, [3]int{(vocab + 63) / 64, m, 1},
		kernels.Params(vocab, some, m, xStride, out.Stride, out.Offset), sources, x, out.View)
}
