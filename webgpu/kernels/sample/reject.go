package sample

import (
	"cmp"

	"foretoken/webgpu"
	"foretoken/webgpu/kernels"
)

// RejectWords is the length in words of a row's verdict in Reject's output.
const RejectWords = 2

// Rejection is a chain of K drafted tokens to verify by rejection sampling.
type Rejection struct {
	Target       kernels.Logits // K+1 rows; row i holds the logits after node i of the chain
	Draft        kernels.Logits // K rows; the child of node i was drawn from row i
	TargetRecord kernels.View   // (K+1, FilterWords): Filter's output for Target
	// DraftRecord is (K, DraftStride) u32: Filter's output for each row of Draft, whose y is the drafted token. A
	// chain drafted row by row has a record every BindingAlign bytes.
	DraftRecord kernels.View
	DraftStride int          // words from record to record; 0 means FilterWords
	Draw        kernels.View // DrawParams of the target; only the stream differs from the draft's
	Positions   kernels.View // (K+1) u32: the position that row i draws for
	Out         kernels.View // (K+1, RejectWords) u32
}

var reject = kernels.RowKernel{Shaders: shaders, Serial: "noise reject", Grouped: "noise first_of reject_group",
	Access: append(kernels.Inputs(2), webgpu.ReadWrite, webgpu.ReadOnly, webgpu.ReadOnly, webgpu.ReadWrite),
	Host:   kernels.Host{Ref: rejectRef, Entry: "reject"}, Constants: []kernels.Constant{kernels.RecordConst}}

// RecordReject applies chain rejection sampling (Leviathan et al. 2023, Chen et al. 2023) to
// processed distributions p and q, in one dispatch. A row's verdict is
//
//	0 1 where drafted token x was accepted: u < min(1, p(x)/q(x)), else 0
//	1 the token: x, or the one drawn from norm((p-q)+), or in the last row from p
//
// The uniform u and the Gumbel noise of the residual come from streams 2 and 3 of package spec at the row's position.
// If rounding leaves (p-q)+ empty, the token is drawn from p. At temperature 0 both distributions are one-hot: x is
// accepted if it is the target's argmax, and the argmax is the token otherwise.
//
// Logits, Draw and Positions must be in other buffers than the records and Out, which may be disjoint ranges of one
// buffer.
func RecordReject(r *kernels.Recorder, lanes kernels.Lanes, c Rejection) {
	if c.Target.Rows != c.Draft.Rows+1 || c.Target.Vocab != c.Draft.Vocab {
		panic("sample: RecordReject: target and draft do not match")
	}
	params := c.Target.Params(c.Draft.RowStride(), cmp.Or(c.DraftStride, kernels.FilterWords))
	reject.Record(r, lanes, c.Target.Vocab, c.Target.Rows, params,
		c.Target.View, c.Draft.View, c.TargetRecord, c.DraftRecord, c.Draw, c.Positions, c.Out)
}
