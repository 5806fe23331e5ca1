package kernels

import "foretoken/webgpu"

// KeepWords is the length in words of Keep's place view.
const KeepWords = 2

var keepAccess = []webgpu.Access{webgpu.Constants, webgpu.ReadOnly, webgpu.ReadOnly, webgpu.ReadWrite}

// Keep copies rows of logits to another matrix of the same vocabulary. place, which the host
// writes before a run, says where: word 0 is the row of kept that row 0 goes to, word 1
// how many rows there are; rows beyond that, or beyond the end of kept, are not copied.
func (r *Recorder) Keep(logits Logits, place View, kept Logits) {
	if logits.Vocab != kept.Vocab {
		panic("kernels: Keep: the matrices have different vocabularies")
	}
	n := logits.Rows * logits.Vocab
	params := []uint32{u32(logits.Rows), u32(logits.Vocab), u32(logits.stride()), u32(kept.Rows), u32(kept.stride())}
	r.add(source("keep", keepAccess, keepRef), r.groupsFor(n, 64), params, logits.View, place, kept.View)
}
