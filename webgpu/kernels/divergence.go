package kernels

import "foretoken/webgpu"

// DivergenceWords is the length in words of a row's record in Divergence's output.
const DivergenceWords = 2

// Comparison is a chain of drafted tokens at which draft and target are compared.
type Comparison struct {
	Target       Logits // row i is what follows node i of the chain
	Draft        Logits // as many rows; row i is what the child of node i was drawn from
	TargetRecord View   // (rows, FilterWords): Filter's output for Target
	// DraftRecord holds Filter's output for each row of Draft, whose y is the token drafted: (rows,
	// DraftStride) u32. A chain drafted row by row has a record every BindingAlign bytes.
	DraftRecord View
	DraftStride int  // words from record to record; 0 means FilterWords
	Draw        View // DrawParams of the target: those of the draft but for stream and coupling
	Out         View // (rows, DivergenceWords) u32
}

var divergenceAccess = []webgpu.Access{webgpu.Constants, webgpu.ReadOnly, webgpu.ReadOnly, webgpu.ReadWrite,
	webgpu.ReadWrite, webgpu.ReadOnly, webgpu.ReadWrite}

// Divergence compares the processed distributions p and q of target and draft, in one
// dispatch. A row's record is
//
//	0 √JSD in [0, 1] (f32), base 2: JSD = KL(p‖m)/2 + KL(q‖m)/2 with m = (p+q)/2
//	1 1 where the target can emit the token drafted: it survives the filters and is not masked
//
// At temperature 0 p and q are the softmaxes at temperature 1 without filters. Equal rows
// are exactly 0 apart. A row whose logits are all NaN or -inf has no distribution;
// its distance is some number in [0, 1].
//
// Logits and Draw must be in other buffers than the records and Out, which may share one
// (at ranges of their own).
func (r *Recorder) Divergence(lanes Lanes, c Comparison) {
	if c.Target.Rows != c.Draft.Rows || c.Target.Vocab != c.Draft.Vocab {
		panic("kernels: Divergence: target and draft do not match")
	}
	stride := c.DraftStride
	if stride == 0 {
		stride = FilterWords
	}
	params := []uint32{u32(c.Target.Rows), u32(c.Target.Vocab), u32(c.Target.stride()), u32(c.Draft.stride()), FilterWords, u32(stride)}
	views := []View{c.Target.View, c.Draft.View, c.TargetRecord, c.DraftRecord, c.Draw, c.Out}
	if lanes == Serial && 3*c.Target.Vocab <= maxSteps {
		r.add(source("noise divergence_part divergence", divergenceAccess, divergenceRef), r.groupsFor(c.Target.Rows, 8), params, views...)
		return
	}
	r.add(source("noise totals divergence_part divergence_group", divergenceAccess, divergenceRef), [3]int{c.Target.Rows, 1, 1}, params, views...)
}
