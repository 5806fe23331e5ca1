package kernels

import (
	"fmt"

	"foretoken/webgpu"
)

// Window is the size of views of x whose length the kernels of products of Q8_0 have as a constant, which spares Chromium's software
// adapter a tenth of those of one row; of Q4_0 it spares nothing. Only this size: every other one would be a kernel of its own, for each model and matrix.
const Window = 1 << 20

// Rows places the rows of an activation matrix inside its view, in elements.
type Rows struct {
	View   View
	Offset int // of the first row
	Stride int // between rows

	// A row that MatMulNext or EmbedNext wrote: x·gain followed by this many sums of squares of x. A
	// product divides by sqrt(mean(x²) + Eps), which makes it one of the norm of x.
	Squares int
	Eps     float64
}

// MatMul writes out[m, n] = Σ_k w[n, k]·x[m, k] for m rows of x, all f32, or adds it to
// out. x.Offset and x.Stride must be multiples of 4; w.Cols of the format's block.
func (r *Recorder) MatMul(f Family, w *Weight, x, out Rows, m int, add bool) {
	r.product(f.wide(w, m), w, x, out, m, finish{files: "matmul_order matmul_store", add: add, ref: storeRef})
}

// productAccess is how every product binds parameters, weights, x, out and scales; what its end needs follows.
var productAccess = []webgpu.Access{webgpu.Constants, webgpu.ReadOnly, webgpu.ReadOnly, webgpu.ReadWrite, webgpu.ReadOnly}

// product records a product that ends so.
func (r *Recorder) product(f Family, w *Weight, x, out Rows, m int, end finish) {
	if x.Offset%4 != 0 || x.Stride%4 != 0 || x.Squares%4 != 0 || w.Cols%w.Format.Block() != 0 {
		panic(fmt.Sprintf("kernels: MatMul of %d columns at offset %d stride %d with %d sums of squares", w.Cols, x.Offset, x.Stride, x.Squares))
	}
	tile, rows := f.Tile(m), f.Rows
	shared := layouts[w.Format].shared
	if f.grouped() {
		shared = min(shared, laneSteps)
	}
	consts := append(w.Format.constants(), constant{"R", u32(rows)}, constant{"HALF", u32(rows / 2)}, constant{"TM", u32(tile)},
		constant{"TILE", u32(rows * tile)}, constant{"SHARED", u32(shared)})
	if f.grouped() {
		consts = append(consts, constant{"LANES_BY_TM", u32(64 * tile)}, constant{"SIXTEEN_BY_TM", u32(16 * tile)},
			constant{"PLACES", u32(16 * (rows + 1) * tile)}, constant{"SUMS_OF_ROW", u32(rows + 1)})
	} else {
		consts = append(consts, constant{"WG", u32(f.Width)})
	}
	files := kinds[f.Kind].files
	switch {
	case f.grouped():
	case w.Format.inBlocks():
		files += " matmul_walk_blocks matmul_rows"
	default:
		files += " matmul_walk matmul_rows"
	}
	input := "matmul_input "
	if x.View.Size == Window && w.Format == Q8_0 {
		input, consts = "matmul_input_window ", append(consts, constant{"WINDOW", u32(Window / 16)})
	}
	kernel := source("matmul_params "+input+layouts[w.Format].files+" matmul_norm "+end.files+" "+files, append(productAccess[:5:5], end.access...),
		matmulRef(w.Format, rows, end.ref), append(consts, end.consts...)...)
	for _, p := range w.Parts {
		params := []uint32{u32(p.Rows), u32(w.Cols / w.Format.step()), u32(m), u32(x.Stride / 4), u32(x.Offset / 4),
			u32(out.Stride), u32(out.Offset + p.Row0), flag(end.add), u32(x.Squares), f32(x.Eps), u32(max(end.head, 1)), u32(end.paired),
			u32(end.stride), u32(end.heads), u32(end.kv), u32(end.rotary)}
		columns := (m + tile - 1) / tile
		groups := [3]int{(p.Rows + rows*f.Width - 1) / (rows * f.Width), columns, 1}
		if f.grouped() {
			groups = [3]int{(p.Rows + rows - 1) / rows, columns, 1}
			if groups[0] > 65535 {
				groups = [3]int{65535, columns, (groups[0] + 65534) / 65535}
			}
		}
		r.add(kernel, groups, params, append([]View{p.Quants, x.View, out.View, w.scales(p, x.View)}, end.views...)...)
	}
}
