package layer

import (
	"fmt"

	"foretoken/webgpu"
	"foretoken/webgpu/kernels"
)

// RecordAddNorm adds the norm of each row of x, as RecordNorm computes it, to out: the residual of a block whose norms
// follow its products. x and out are (rows, dim), weight is (dim), all f32.
func RecordAddNorm(r *kernels.Recorder, x, weight, out kernels.View, rows, dim int, eps float64) {
	addNorm(r, "add_norm_plain", kernels.Inputs(2), rows, append(kernels.Params(rows, dim), kernels.Word(eps)),
		x, weight, out)
}

// RecordAddNormNext is RecordAddNorm and also writes next, the input of a following product of the norm of out, like
// matmul.RecordNext: rows times gain (dim) and sums of squares. dim is a multiple of 4. It returns AddNormNext.
func RecordAddNormNext(r *kernels.Recorder, x, weight, out kernels.View, rows, dim int, eps float64, gain kernels.View,
	next kernels.Rows) kernels.Rows {
	next = AddNormNext(dim, eps, next)
	if dim%4 != 0 || next.Stride < dim+next.Squares {
		panic(fmt.Sprintf("layer: RecordAddNormNext of %d columns, stride %d", dim, next.Stride))
	}
	params := append(kernels.Params(rows, dim), kernels.Word(eps), uint32(next.Stride), uint32(next.Squares))
	addNorm(r, "add_norm_next", append(kernels.Inputs(2), webgpu.ReadOnly, webgpu.ReadWrite), rows, params, x, weight,
		out, gain, next.View)
	return next
}

// AddNormNext returns what RecordAddNormNext returns, without recording.
func AddNormNext(dim int, eps float64, next kernels.Rows) kernels.Rows {
	next.Squares, next.Eps = min(dim, int(kernels.Grouped)), eps
	return next
}

func addNorm(r *kernels.Recorder, end string, access []webgpu.Access, rows int, params []uint32,
	views ...kernels.View) {
	host := kernels.Host{Ref: addNormRef, Entry: "add_norm"}
	r.Add(shaders.Source(end+" add_norm", access, host), [3]int{rows, 1, 1}, params, views...)
}
