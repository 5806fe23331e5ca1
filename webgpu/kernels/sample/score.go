package sample

import "foretoken/webgpu/kernels"

var score = kernels.RowKernel{Shaders: shaders, Serial: "noise score", Grouped: "noise totals score_group",
	Access: kernels.Inputs(2), Host: kernels.Host{Ref: scoreRef, Entry: "score"}}

// Unscored is the score of a row with NaN or infinite logits, or without a possible token. It is no logarithm of a
// probability.
const Unscored = 1

// RecordScore writes ln softmax(logits)[next] of each row, in one dispatch: next is (rows) u32, a token id a row, and
// out (rows) f32. The softmax is of the raw logits; -inf counts as LowLogit. A row that has no softmax gets Unscored.
// logits and next must be in other buffers than out.
func RecordScore(r *kernels.Recorder, lanes kernels.Lanes, logits kernels.Logits, next, out kernels.View) {
	score.Record(r, lanes, 2*logits.Vocab, logits.Rows, logits.Params(), logits.View, next, out)
}
