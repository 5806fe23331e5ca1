package kernels

import "foretoken/webgpu"

// RejectWords is the length in words of a row's verdict in Reject's output.
const RejectWords = 2

// Rejection is a chain of K sampled tokens to be judged by the rejection rule.
type Rejection struct {
	Target       Logits // K+1 rows; row i is what follows node i of the chain
	Draft        Logits // K rows; row i is what the child of node i was drawn from
	TargetRecord View   // (K+1, FilterWords): Filter's output for Target
	// DraftRecord holds Filter's output for each row of Draft, whose y is the token drafted: (K,
	// DraftStride) u32. A chain drafted row by row has a record every BindingAlign bytes.
	DraftRecord View
	DraftStride int  // words from record to record; 0 means FilterWords
	Draw        View // DrawParams of the target: those of the draft but for the stream
	Positions   View // (K+1) u32: the position that row i draws for
	Out         View // (K+1, RejectWords) u32
}

var rejectAccess = []webgpu.Access{webgpu.Constants, webgpu.ReadOnly, webgpu.ReadOnly, webgpu.ReadWrite,
	webgpu.ReadWrite, webgpu.ReadOnly, webgpu.ReadOnly, webgpu.ReadWrite}

// Reject applies chain rejection sampling (Leviathan et al. 2023, Chen et al. 2023) to
// processed distributions p and q, in one dispatch. A row's verdict is
//
//	0 1 where drafted token x was accepted: u < min(1, p(x)/q(x)), else 0
//	1 the token: x, or the one drawn from norm((p-q)+), or in the last row from p
//
// The uniform u and the residual's Gumbel noise have the streams 2 and 3 of
// package spec and the row's position. Where rounding leaves (p-q)+ empty the
// draw is from p. At temperature 0 both sides are one-hot: x is accepted where
// it is the target's argmax, which is the token otherwise.
//
// Logits, Draw and Positions must be in other buffers than the records and Out,
// which may share one (at ranges of their own).
func (r *Recorder) Reject(lanes Lanes, c Rejection) {
	if c.Target.Rows != c.Draft.Rows+1 || c.Target.Vocab != c.Draft.Vocab {
		panic("kernels: Reject: target and draft do not match")
	}
	stride := c.DraftStride
	if stride == 0 {
		stride = FilterWords
	}
	params := []uint32{u32(c.Target.Rows), u32(c.Target.Vocab), u32(c.Target.stride()), u32(c.Draft.stride()), u32(stride)}
	views := []View{c.Target.View, c.Draft.View, c.TargetRecord, c.DraftRecord, c.Draw, c.Positions, c.Out}
	if lanes == Serial && c.Target.Vocab <= maxSteps {
		r.add(source("noise reject", rejectAccess, rejectRef, recordWords), r.groupsFor(c.Target.Rows, 8), params, views...)
		return
	}
	r.add(source("noise first_of reject_group", rejectAccess, rejectRef, recordWords), [3]int{c.Target.Rows, 1, 1}, params, views...)
}
