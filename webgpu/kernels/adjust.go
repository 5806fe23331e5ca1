package kernels

import "foretoken/webgpu"

// AdjustWords is the length in words of a shared list of n entries: its count, a word that
// is not read, and an id and a value each.
func AdjustWords(n int) int { return 2 + 2*n }

// Adjust adds to single logits of each row, in place: what penalties and biases are made of. common
// has AdjustWords(shared) words, of which the first says how many entries there are: ids
// and what is added to their logits (f32), each id at most once. lists is (rows, own, 2) in the same
// form; a row's entry takes the place of the shared one of the same id, and ids past the vocabulary are no entries.
func (r *Recorder) Adjust(logits Logits, common View, shared int, lists View, own int) {
	access := []webgpu.Access{webgpu.Constants, webgpu.ReadOnly, webgpu.ReadOnly, webgpu.ReadWrite}
	r.add(source("adjust", access, adjustRef), [3]int{(shared + own + 63) / 64, logits.Rows, 1},
		[]uint32{u32(logits.Rows), u32(logits.Vocab), u32(logits.stride()), u32(shared), u32(own)}, common, lists, logits.View)
}
