package kernels

import "foretoken/webgpu"

var acceptAccess = []webgpu.Access{webgpu.Constants, webgpu.ReadOnly, webgpu.ReadOnly, webgpu.ReadOnly, webgpu.ReadWrite}

// AcceptLayer is a residual layer of an acceptance head: out = x + SiLU(W x + b) for m rows, all
// f32. x and out are (m, dim). weight is (dim, dim) by input: word k·dim+n weighs input
// k in output n, so that neighbouring threads read neighbouring words. bias is
// (dim). out must be in another buffer than the rest. One thread an output.
func (r *Recorder) AcceptLayer(weight, bias, x, out View, m, dim int) {
	params := []uint32{u32(m), u32(dim)}
	r.add(source("accept_layer", acceptAccess, acceptLayerRef), r.groupsFor(m*dim, 64), params, x, weight, bias, out)
}

var acceptScoreAccess = []webgpu.Access{webgpu.Constants, webgpu.ReadOnly, webgpu.ReadOnly, webgpu.ReadWrite}

// AcceptScore is the end of an acceptance head: word at+row of out becomes σ(w·x + c) as f32 for
// each of m rows of x (m, dim); the chance that the row's token is accepted. weight
// is (dim+1): w, then c. out must be in another buffer than the rest.
func (r *Recorder) AcceptScore(lanes Lanes, weight, x, out View, at, m, dim int) {
	params := []uint32{u32(m), u32(dim), u32(at)}
	if lanes == Serial {
		r.add(source("accept_score", acceptScoreAccess, acceptScoreRef), r.groupsFor(m, 8), params, x, weight, out)
		return
	}
	r.add(source("accept_score_group", acceptScoreAccess, acceptScoreRef), [3]int{m, 1, 1}, params, x, weight, out)
}
