package sample

import (
	"cmp"

	"foretoken/webgpu"
	"foretoken/webgpu/kernels"
)

// DivergenceWords is the length in words of a row's record in Divergence's output.
const DivergenceWords = 2

// Comparison is a chain of drafted tokens at which draft and target are compared.
type Comparison struct {
	Target       kernels.Logits // row i holds the logits after node i of the chain
	Draft        kernels.Logits // as many rows; the child of node i was drawn from row i
	TargetRecord kernels.View   // (rows, FilterWords): Filter's output for Target
	// DraftRecord is (rows, DraftStride) u32: Filter's output for each row of Draft, whose y is the drafted token. A
	// chain drafted row by row has a record every BindingAlign bytes.
	DraftRecord kernels.View
	DraftStride int          // words from record to record; 0 means FilterWords
	Draw        kernels.View // DrawParams of the target; only stream and coupling differ from the draft's
	Out         kernels.View // (rows, DivergenceWords) u32
}

var divergence = kernels.RowKernel{Shaders: shaders, Serial: "noise divergence_part divergence",
	Grouped: "noise totals divergence_part divergence_group",
	Access:  append(kernels.Inputs(2), webgpu.ReadWrite, webgpu.ReadOnly, webgpu.ReadWrite),
	Host:    kernels.Host{Ref: divergenceRef, Entry: "divergence"}}

// RecordDivergence compares the processed distributions p and q of target and draft, in one
// dispatch. A row's record is
//
//	0 √JSD in [0, 1] (f32), base 2: JSD = KL(p‖m)/2 + KL(q‖m)/2 with m = (p+q)/2
//	1 1 if the target can emit the drafted token: no filter or mask excludes it
//
// At temperature 0 p and q are the softmaxes at temperature 1 without filters. The distance of equal rows is exactly 0.
// A row with a NaN or an infinite logit, or with -inf alone, has no distribution; its distance is an arbitrary number
// in [0, 1].
//
// Logits and Draw must be in other buffers than the records and Out, which may be disjoint ranges of one buffer.
func RecordDivergence(r *kernels.Recorder, lanes kernels.Lanes, c Comparison) {
	if c.Target.Rows != c.Draft.Rows || c.Target.Vocab != c.Draft.Vocab {
		panic("sample: RecordDivergence: target and draft do not match")
	}
	params := c.Target.Params(c.Draft.RowStride(), kernels.FilterWords, cmp.Or(c.DraftStride, kernels.FilterWords))
	divergence.Record(r, lanes, 3*c.Target.Vocab, c.Target.Rows, params,
		c.Target.View, c.Draft.View, c.TargetRecord, c.DraftRecord, c.Draw, c.Out)
}
