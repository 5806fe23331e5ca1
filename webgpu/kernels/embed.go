package kernels

import "foretoken/webgpu"

// Embed writes row tokens[i] of w to row i of out (m, w.Cols), f32. tokens is u32
// (m); every id must be below w.Rows.
func (r *Recorder) Embed(w *Weight, tokens, out View, m int) {
	access := []webgpu.Access{webgpu.Constants, webgpu.ReadOnly, webgpu.ReadOnly, webgpu.ReadWrite}
	if w.Format.Quantised() {
		access = append(access, webgpu.ReadOnly)
	}
	kernel := source("embed unpack_"+w.Format.String(), access, embedRef(w.Format), partsOf(w.Format))
	steps := w.Cols / w.Format.step()
	for _, p := range w.Parts {
		views := []View{p.Quants, tokens, out}
		if w.Format.Quantised() {
			views = append(views, p.Scales)
		}
		r.add(kernel, [3]int{(steps + 31) / 32, m, 1}, []uint32{u32(p.Row0), u32(p.Rows), u32(steps), u32(m)}, views...)
	}
}
