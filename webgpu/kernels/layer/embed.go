package layer

import (
	"fmt"

	"foretoken/webgpu"
	"foretoken/webgpu/kernels"
)

// RecordEmbed writes row tokens[i] of w, times a multiplier that is 1 for most models, to row i of out (m, w.Cols),
// f32. tokens is u32 (m); every id must be below w.Rows.
func RecordEmbed(r *kernels.Recorder, w *kernels.Weight, tokens, out kernels.View, m int, times float64) {
	kernel := embedKernel(w, "embed_plain", "embed_times", times, w.Format.Access())
	for _, p := range w.Parts {
		addEmbed(r, kernel, w, p, m, nil, w.Views(p, tokens, out))
	}
}

// embedKernel returns the kernel with the file `end`, or with `multiplied` where times is not 1.
func embedKernel(w *kernels.Weight, end, multiplied string, times float64,
	access []webgpu.Access) *webgpu.KernelSource {
	consts := w.Format.Constants()
	if times != 1 {
		end, consts = multiplied, append(consts, kernels.Const("TIMES", float32(times)))
	}
	return shaders.Source(end+" embed "+w.Format.Files(), access, kernels.Host{Ref: embedRef(w.Format, times),
		Entry: "embed", Words: []uint32{uint32(w.Format), kernels.Word(times)}}, consts...)
}

// addEmbed records the rows of one part; more parameters follow.
func addEmbed(r *kernels.Recorder, kernel *webgpu.KernelSource, w *kernels.Weight, p kernels.WeightPart, m int,
	more []uint32, views []kernels.View) {
	steps := w.Cols / w.Format.Step()
	r.Add(kernel, [3]int{(steps + 31) / 32, m, 1}, append(kernels.Params(p.Row0, p.Rows, steps, m), more...), views...)
}

// CanEmbedNext reports whether RecordEmbedNext supports a weight: the number of sums of squares of a row must be a
// multiple of four.
func CanEmbedNext(w *kernels.Weight) bool { return w.Cols/w.Format.Step()%4 == 0 }

// RecordEmbedNext is RecordEmbed and also writes next, the input of a following product of the norm, like
// matmul.RecordNext: rows times gain (w.Cols) and sums of squares. It returns next with their number. next holds the
// rows without the multiplier t: normalising x with eps/t² gives the same as normalising t·x with eps.
func RecordEmbedNext(r *kernels.Recorder, w *kernels.Weight, tokens, out kernels.View, m int, times float64,
	gain kernels.View, next kernels.Rows, eps float64) kernels.Rows {
	next.Squares, next.Eps = w.Cols/w.Format.Step(), eps/(times*times)
	if !CanEmbedNext(w) || next.Stride < w.Cols+next.Squares {
		panic(fmt.Sprintf("layer: RecordEmbedNext of %d columns, stride %d", w.Cols, next.Stride))
	}
	kernel := embedKernel(w, "embed_next", "embed_next_times", times,
		kernels.ProductAccess(webgpu.ReadOnly, webgpu.ReadWrite))
	for _, p := range w.Parts {
		views := []kernels.View{p.Quants, tokens, out, w.Scales(p, tokens), gain, next.View}
		addEmbed(r, kernel, w, p, m, kernels.Params(next.Stride), views)
	}
	return next
}
