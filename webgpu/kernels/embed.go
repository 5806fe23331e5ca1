package kernels

import (
	"fmt"

	"foretoken/webgpu"
)

// Embed writes row tokens[i] of w to row i of out (m, w.Cols), f32. tokens is u32
// (m); every id must be below w.Rows.
func (r *Recorder) Embed(w *Weight, tokens, out View, m int) {
	kernel := source("embed_plain embed "+layouts[w.Format].files, w.Format.access(), embedRef(w.Format), w.Format.constants()...)
	steps := w.Cols / w.Format.step()
	for _, p := range w.Parts {
		r.add(kernel, [3]int{(steps + 31) / 32, m, 1}, []uint32{u32(p.Row0), u32(p.Rows), u32(steps), u32(m)}, w.views(p, tokens, out)...)
	}
}

// CanEmbedNext reports whether EmbedNext takes a weight: its rows make whole fours of sums of squares.
func CanEmbedNext(w *Weight) bool { return w.Cols/w.Format.step()%4 == 0 }

// EmbedNext is Embed, and leaves in next what MatMulNext does: rows times gain (w.Cols) and sums of
// squares. It returns next with what they are.
func (r *Recorder) EmbedNext(w *Weight, tokens, out View, m int, gain View, next Rows, eps float64) Rows {
	steps := w.Cols / w.Format.step()
	if !CanEmbedNext(w) || next.Stride < w.Cols+steps {
		panic(fmt.Sprintf("kernels: EmbedNext of %d columns, stride %d", w.Cols, next.Stride))
	}
	access := append(productAccess[:5:5], webgpu.ReadOnly, webgpu.ReadWrite)
	kernel := source("embed_next embed "+layouts[w.Format].files, access, embedRef(w.Format), w.Format.constants()...)
	for _, p := range w.Parts {
		r.add(kernel, [3]int{(steps + 31) / 32, m, 1}, []uint32{u32(p.Row0), u32(p.Rows), u32(steps), u32(m), u32(next.Stride)},
			p.Quants, tokens, out, w.scales(p, tokens), gain, next.View)
	}
	next.Squares, next.Eps = steps, eps
	return next
}
