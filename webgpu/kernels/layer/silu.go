package layer

import "foretoken/webgpu/kernels"

// RecordSiLU writes gate/(1+exp(-gate))·up for each row. gates is (m, 2·dim), first the gate and
// then up; out is (m, dim), all f32. Shazeer 2020.
func RecordSiLU(r *kernels.Recorder, gates, out kernels.View, m, dim int) {
	kernel := shaders.Source("silu", kernels.Inputs(1), kernels.Host{Ref: siluRef, Entry: "silu"})
	r.Add(kernel, [3]int{(dim + 63) / 64, m, 1}, kernels.Params(m, dim), gates, out)
}
