package layer

import "foretoken/webgpu/kernels"

var norm = kernels.RowKernel{Shaders: shaders, Serial: "norm", Grouped: "norm_group", Access: kernels.Inputs(2),
	Host: kernels.Host{Ref: normRef, Entry: "norm"}}

// RecordNorm writes x / sqrt(mean(x²) + eps) · weight for each row. x and out are
// (rows, dim), weight is (dim), all f32. Zhang & Sennrich 2019.
func RecordNorm(r *kernels.Recorder, lanes kernels.Lanes, x, weight, out kernels.View, rows, dim int, eps float64) {
	norm.Record(r, lanes, 0, rows, append(kernels.Params(rows, dim), kernels.Word(eps)), x, weight, out)
}
