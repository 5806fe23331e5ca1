package kernels

import "foretoken/webgpu"

// SiLUMul writes gate/(1+exp(-gate))·up for each row; gates is (m, 2·dim), first the gate and
// then up, out is (m, dim), all f32. Shazeer 2020.
func (r *Recorder) SiLUMul(gates, out View, m, dim int) {
	access := []webgpu.Access{webgpu.Constants, webgpu.ReadOnly, webgpu.ReadWrite}
	r.add(source("silu", access, siluRef), [3]int{(dim + 63) / 64, m, 1}, []uint32{u32(m), u32(dim)}, gates, out)
}
