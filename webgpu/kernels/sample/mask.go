package sample

import "foretoken/webgpu/kernels"

// NoMask is the mask index of a row that keeps all of its logits.
const NoMask = ^uint32(0)

// MaskWords returns the number of words of a mask: a bit a token, the lowest first.
func MaskWords(vocab int) int { return (vocab + 31) / 32 }

// RecordMask sets the logits of tokens whose mask bit is 0 to LowLogit, in place. which is u32 (rows): the mask of each
// row, or NoMask; masks is u32 (count, MaskWords(vocab)).
func RecordMask(r *kernels.Recorder, logits kernels.Logits, which, masks kernels.View, count int) {
	words := MaskWords(logits.Vocab)
	kernel := shaders.Source("mask", kernels.Inputs(2), kernels.Host{Ref: maskRef, Entry: "mask"})
	r.Add(kernel, [3]int{(words + 63) / 64, logits.Rows, 1},
		logits.Params(words, count), which, masks, logits.View)
}
