package layer

import "foretoken/webgpu/kernels"

// RecordNormHeads normalises each query and key head of qkv (m, h.Width()) in place, as RecordNorm normalises a row.
// weight is (2, h.Dim), of queries and of keys, f32, or (h.Dim) if h.Shares. Henry et al. 2020, with a gain.
func RecordNormHeads(r *kernels.Recorder, lanes kernels.Lanes, h kernels.Heads, weight, qkv kernels.View, m int,
	eps float64) {
	heads := h.Query + h.RowKV()
	file, groups := "norm_heads_group", [3]int{heads, m, 1}
	if lanes == kernels.Serial {
		file, groups = "norm_heads", [3]int{(heads + 7) / 8, m, 1}
	}
	normQK(r, file, kernels.Host{Ref: normHeadsRef, Entry: "norm_heads"}, groups, h, weight, qkv, m, eps)
}

// RecordNormRow normalises the queries of each row of qkv (m, h.Width()) in place, all heads together, and then its
// keys. weight is (h.Query + h.KV, h.Dim), of queries and then of keys, f32, or (h.Query, h.Dim) if h.Shares. OLMo
// et al. 2025 (OLMo 2), section 3.3.
func RecordNormRow(r *kernels.Recorder, h kernels.Heads, weight, qkv kernels.View, m int, eps float64) {
	groups := [3]int{1 + min(h.RowKV(), 1), m, 1}
	normQK(r, "norm_row", kernels.Host{Ref: normRowRef, Entry: "norm_row"}, groups, h, weight, qkv, m, eps)
}

func normQK(r *kernels.Recorder, file string, host kernels.Host, groups [3]int, h kernels.Heads,
	weight, qkv kernels.View, m int, eps float64) {
	r.Add(shaders.Source("norm_heads_params "+file, kernels.Inputs(1), host), groups,
		append(kernels.Params(m, h.Query, h.RowKV(), h.Dim), kernels.Word(eps)), weight, qkv)
}
