package layer

import "foretoken/webgpu/kernels"

// RecordAcceptLayer records a residual layer of an acceptance head: out = x + SiLU(W x + b) for m rows, all f32. x and
// out are (m, dim), bias is (dim). weight is (dim, dim) by input: word k·dim+n is the weight of input k in output n, so
// that neighbouring threads read neighbouring words. out must be in another buffer than the other views. A thread
// computes one output.
func RecordAcceptLayer(r *kernels.Recorder, weight, bias, x, out kernels.View, m, dim int) {
	host := kernels.Host{Ref: acceptLayerRef, Entry: "accept_layer"}
	r.Add(shaders.Source("accept_layer", kernels.Inputs(3), host), [3]int{(dim + 63) / 64, m, 1},
		kernels.Params(m, dim), x, weight, bias, out)
}

var acceptScore = kernels.RowKernel{Shaders: shaders, Serial: "accept_score", Grouped: "accept_score_group",
	Access: kernels.Inputs(2), Host: kernels.Host{Ref: acceptScoreRef, Entry: "accept_score"}}

// RecordAcceptScore records the output of an acceptance head: word at+row of out becomes σ(w·x + c), the probability
// that the row's token is accepted, as f32 for each of m rows of x (m, dim). weight is (dim+1): w, then c. out must be
// in another buffer than the other views.
func RecordAcceptScore(r *kernels.Recorder, lanes kernels.Lanes, weight, x, out kernels.View, at, m, dim int) {
	acceptScore.Record(r, lanes, 0, m, kernels.Params(m, dim, at), x, weight, out)
}
