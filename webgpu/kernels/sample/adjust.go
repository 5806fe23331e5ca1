package sample

import "foretoken/webgpu/kernels"

// AdjustWords returns the length in words of a shared list of n entries: the count, an unused word, and an id and a
// value each.
func AdjustWords(n int) int { return 2 + 2*n }

// RecordAdjust adds to single logits of each row, in place; penalties and biases use it. common has AdjustWords(shared)
// words: the number of entries, an unused word, and for each entry an id and the addend of its logit (f32), each id at
// most once. lists is (rows, own, 2), ids and addends of each row; an entry replaces the shared one of the same id, and
// ids past the vocabulary are ignored.
func RecordAdjust(r *kernels.Recorder, logits kernels.Logits, common kernels.View, shared int, lists kernels.View,
	own int) {
	kernel := shaders.Source("adjust", kernels.Inputs(2), kernels.Host{Ref: adjustRef, Entry: "adjust"})
	r.Add(kernel, [3]int{(shared + own + 63) / 64, logits.Rows, 1},
		logits.Params(shared, own), common, lists, logits.View)
}
