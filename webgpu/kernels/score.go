package kernels

import "foretoken/webgpu"

var scoreAccess = []webgpu.Access{webgpu.Constants, webgpu.ReadOnly, webgpu.ReadOnly, webgpu.ReadWrite}

// Score writes ln softmax(logits)[next] of each row, in one dispatch: next is (rows) u32, a token
// id a row, and out (rows) f32. The softmax is of the raw logits; NaN and -inf among them
// count as LowLogit. logits and next must be in other buffers than out.
func (r *Recorder) Score(lanes Lanes, logits Logits, next, out View) {
	params := []uint32{u32(logits.Rows), u32(logits.Vocab), u32(logits.stride())}
	views := []View{logits.View, next, out}
	if lanes == Serial && 2*logits.Vocab <= maxSteps {
		r.add(source("noise score", scoreAccess, scoreRef), r.groupsFor(logits.Rows, 8), params, views...)
		return
	}
	r.add(source("noise totals score_group", scoreAccess, scoreRef), [3]int{logits.Rows, 1, 1}, params, views...)
}
