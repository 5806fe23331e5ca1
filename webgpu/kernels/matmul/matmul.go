package matmul

import (
	"fmt"

	"foretoken/webgpu/kernels"
)

// Record writes out[m, n] = Σ_k w[n, k]·x[m, k] for m rows of x, all f32, or adds it to
// out. x.Offset and x.Stride must be multiples of 4; w.Cols of the format's block. A packed family rounds x in blocks
// of 32, by at most a 65278th of the block's largest magnitude; blocks below 2⁻¹⁰⁰ become zero.
func Record(r *kernels.Recorder, f Family, w *kernels.Weight, x, out kernels.Rows, m int, add bool) {
	product(r, f, w, x, out, m, finish{files: "order store", add: add, ref: storeRef})
}

// product records a product with an end.
func product(r *kernels.Recorder, f Family, w *kernels.Weight, x, out kernels.Rows, m int, end finish) {
	if x.Offset%4 != 0 || x.Stride%4 != 0 || x.Squares%4 != 0 || w.Cols%w.Format.Block() != 0 {
		panic(fmt.Sprintf("matmul: Record of %d columns at offset %d stride %d with %d sums of squares",
			w.Cols, x.Offset, x.Stride, x.Squares))
	}
	tile, rows := f.Tile(m), f.Rows
	shared, fetched, unpack := w.Format.Shared(), 1, w.Format.Files()
	if f.grouped() {
		shared = f.LaneSteps(w.Format)
		fetched, unpack = w.Format.Fetched()
	}
	if f.Packed() && !r.Host() { // references round nothing
		x = pack(r, x, w.Cols, m)
		unpack = w.Format.PackedFiles()
	} else {
		unpack += " norm"
	}
	consts := append(w.Format.Constants(), kernels.Const("R", rows), kernels.Const("HALF", rows/2),
		kernels.Const("TM", tile), kernels.Const("TILE", rows*tile), kernels.Const("SHARED", shared))
	if f.grouped() {
		together := min(tile, 4)
		consts = append(consts, kernels.Const("TOGETHER", together), kernels.Const("JOINS", tile/together),
			kernels.Const("FOURS", tile/together*rows), kernels.Const("PLACES", 16*rows*tile),
			kernels.Const("FETCHED", fetched), kernels.Const("FETCHES", shared/fetched))
	} else {
		consts = append(consts, kernels.Const("WG", f.Width))
	}
	files := kinds[f.Kind].files
	switch {
	case f.grouped():
	case w.Format.InBlocks():
		files += " k_loop_blocks"
	default:
		files += " k_loop"
	}
	kernel := shaders.Source("params "+unpack+" "+end.files+" "+files,
		kernels.ProductAccess(end.access...), kernels.Host{Ref: matmulRef(w.Format, rows, end.ref), Entry: "matmul",
			Words: []uint32{uint32(w.Format), uint32(end.entry), end.word}}, append(consts, end.consts...)...)
	for _, p := range w.Parts {
		params := kernels.Params(p.Rows, w.Cols/w.Format.Step(), m, x.Stride/4, x.Offset/4,
			out.Stride, out.Offset+p.Row0, int(kernels.Flag(end.add)), x.Squares, int(kernels.Word(x.Eps)),
			max(end.head, 1), end.paired, end.stride, end.heads, end.kv, end.rotary)
		columns := (m + tile - 1) / tile
		groups := [3]int{(p.Rows + rows*f.Width - 1) / (rows * f.Width), columns, 1}
		if f.grouped() {
			// Tiles of the same weight rows are neighbours, so that a cache has the weights for all but the first.
			groups = [3]int{columns, (p.Rows + rows - 1) / rows, 1}
			if groups[1] > 65535 {
				groups = [3]int{columns, 65535, (groups[1] + 65534) / 65535}
			}
		}
		views := append([]kernels.View{p.Quants, x.View, out.View, w.Scales(p, x.View)}, end.views...)
		r.Add(kernel, groups, params, views...)
	}
}
