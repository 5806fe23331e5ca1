package layer

import (
	"fmt"

	"foretoken/webgpu"
	"foretoken/webgpu/kernels"
)

// RecordEmbed writes row tokens[i] of w to row i of out (m, w.Cols), f32. tokens is u32
// (m); every id must be below w.Rows.
func RecordEmbed(r *kernels.Recorder, w *kernels.Weight, tokens, out kernels.View, m int) {
	kernel := embedKernel(w, "embed_plain", w.Format.Access())
	for _, p := range w.Parts {
		addEmbed(r, kernel, w, p, m, nil, w.Views(p, tokens, out))
	}
}

func embedKernel(w *kernels.Weight, end string, access []webgpu.Access) *webgpu.KernelSource {
	return shaders.Source(end+" embed "+w.Format.Files(), access,
		kernels.Host{Ref: embedRef(w.Format), Entry: "embed", Words: []uint32{uint32(w.Format)}},
		w.Format.Constants()...)
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
// matmul.RecordNext: rows times gain (w.Cols) and sums of squares. It returns next with their number.
func RecordEmbedNext(r *kernels.Recorder, w *kernels.Weight, tokens, out kernels.View, m int, gain kernels.View,
	next kernels.Rows, eps float64) kernels.Rows {
	next.Squares, next.Eps = w.Cols/w.Format.Step(), eps
	if !CanEmbedNext(w) || next.Stride < w.Cols+next.Squares {
		panic(fmt.Sprintf("layer: RecordEmbedNext of %d columns, stride %d", w.Cols, next.Stride))
	}
	kernel := embedKernel(w, "embed_next", kernels.ProductAccess(webgpu.ReadOnly, webgpu.ReadWrite))
	for _, p := range w.Parts {
		views := []kernels.View{p.Quants, tokens, out, w.Scales(p, tokens), gain, next.View}
		addEmbed(r, kernel, w, p, m, kernels.Params(next.Stride), views)
	}
	return next
}
