package kernels

import "foretoken/webgpu"

// NoMask is what stands for a row that keeps all of its logits.
const NoMask = ^uint32(0)

// MaskWords is how many words a mask of a vocabulary has: a bit a token, the lowest first.
func MaskWords(vocab int) int { return (vocab + 31) / 32 }

// Mask takes tokens out of rows of logits, in place. which is u32 (rows): the mask of each row, NoMask
// for none; masks is u32 (count, MaskWords(vocab)). Tokens whose bits are not set become LowLogit.
func (r *Recorder) Mask(logits Logits, which, masks View, count int) {
	access := []webgpu.Access{webgpu.Constants, webgpu.ReadOnly, webgpu.ReadOnly, webgpu.ReadWrite}
	words := MaskWords(logits.Vocab)
	r.add(source("mask", access, maskRef), [3]int{(words + 63) / 64, logits.Rows, 1},
		[]uint32{u32(logits.Rows), u32(logits.Vocab), u32(logits.stride()), u32(words), u32(count)}, which, masks, logits.View)
}
