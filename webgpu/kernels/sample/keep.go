package sample

import "foretoken/webgpu/kernels"

// KeepWords is the length in words of Keep's place view.
const KeepWords = 2

// RecordKeep copies rows of logits to kept, a matrix of the same vocabulary. The host writes place before a run: word 0
// is the row of kept that row 0 goes to, word 1 the number of rows. Rows past this number or past the end of kept are
// not copied.
func RecordKeep(r *kernels.Recorder, logits kernels.Logits, place kernels.View, kept kernels.Logits) {
	if logits.Vocab != kept.Vocab {
		panic("sample: RecordKeep: the matrices have different vocabularies")
	}
	kernel := shaders.Source("keep", kernels.Inputs(2), kernels.Host{Ref: keepRef, Entry: "keep"})
	r.Add(kernel, [3]int{(logits.Vocab + 63) / 64, logits.Rows, 1},
		logits.Params(kept.Rows, kept.RowStride()), logits.View, place, kept.View)
}
