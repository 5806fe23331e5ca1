package kernels

import "foretoken/webgpu"

// NormHeads normalises each query and key head of qkv (m, h.Width()) in place, as RMSNorm does a row.
// weight is (2, h.Dim), of queries and of keys, f32. Henry et al. 2020, with a gain.
func (r *Recorder) NormHeads(lanes Lanes, h Heads, weight, qkv View, m int, eps float64) {
	access := []webgpu.Access{webgpu.Constants, webgpu.ReadOnly, webgpu.ReadWrite}
	params, heads := []uint32{u32(m), u32(h.Query), u32(h.KV), u32(h.Dim), f32(eps)}, h.Query+h.KV
	if lanes == Serial {
		r.add(source("norm_heads_params norm_heads", access, normHeadsRef), [3]int{(heads + 7) / 8, m, 1}, params, weight, qkv)
		return
	}
	r.add(source("norm_heads_params norm_heads_group", access, normHeadsRef), [3]int{heads, m, 1}, params, weight, qkv)
}
