// Package stream holds the kernel that measures how fast the processor reads memory: sums of rows of words. It computes
// almost nothing a byte, and the cpu device runs a row in one thread, so one row measures one thread, and many rows all
// of them. It has no shader: only devices that compute on the host run it.
package stream

import (
	"foretoken/webgpu"
	"foretoken/webgpu/kernels"
)

var sum = &webgpu.KernelSource{Name: "stream/sum", Key: "stream: sum", Bindings: kernels.Inputs(1), Reference: sumRef,
	Entry: "stream"}

// Record writes to out, u32 (rows), the sum modulo 2³² of each row of x, u32 (rows, cols). cols is a multiple of 16.
func Record(r *kernels.Recorder, x, out kernels.View, rows, cols int) {
	r.Add(sum, [3]int{rows, 1, 1}, kernels.Params(rows, cols), x, out)
}
