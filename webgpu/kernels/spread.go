package kernels

import "foretoken/webgpu"

// NoSource marks an id that has no logit in Spread's input.
const NoSource = ^uint32(0)

// Spread turns m rows of logits over some ids of a vocabulary, x (m, some), into rows over
// all of it: sources, u32 (vocab), says which logit of x's row each id takes, NoSource
// for LowLogit. vocab must not exceed 64 times the device's workgroups a dimension.
func (r *Recorder) Spread(sources, x View, xStride, some int, out Rows, vocab, m int) {
	access := []webgpu.Access{webgpu.Constants, webgpu.ReadOnly, webgpu.ReadOnly, webgpu.ReadWrite}
	r.add(source("spread", access, spreadRef), [3]int{(vocab + 63) / 64, m, 1},
		[]uint32{u32(vocab), u32(some), u32(m), u32(xStride), u32(out.Stride), u32(out.Offset)}, sources, x, out.View)
}
