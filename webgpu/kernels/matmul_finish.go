package kernels

import (
	"fmt"

	"foretoken/webgpu"
)

// finish is how a product ends: what becomes of its sums, so that a norm, a rotary embedding, an
// activation or a residual needs no dispatch of its own. Every end is a kernel of its own: a software
// adapter runs both sides of a branch.
type finish struct {
	files  string // a weightRow and a finish, see matmul_order.wgsl and matmul_store.wgsl
	consts []constant
	access []webgpu.Access // of the bindings from 5 on
	views  []View          // these
	ref    finishRef

	// Parameters: see matmul_params.wgsl.
	add               bool
	head, paired      int
	stride            int
	heads, kv, rotary int
}

// squared is how many outputs a sum of squares has at most: with fewer of them, short rows would not make whole fours.
const squared = 8

// shrunk is a family with half as many weight rows in a tile, and half again, until they fit. How many
// there are changes no row's bits. Where none fits it is the family with fewest.
func (f Family) shrunk(least int, fits func(rows int) bool) Family {
	for f.Rows > least && !fits(f.Rows) {
		f.Rows /= 2
	}
	return f
}

// beforeNorm is the family for products that MatMulNext ends: tiles are whole.
func (f Family) beforeNorm(w *Weight) Family {
	return f.shrunk(1, func(rows int) bool { return w.Rows%rows == 0 })
}

// CanNext reports whether MatMulNext takes a weight: its rows lie in one binding, and make whole
// fours of sums of squares.
func (f Family) CanNext(w *Weight) bool {
	return len(w.Parts) == 1 && w.Rows%(4*min(f.beforeNorm(w).Rows, squared)) == 0
}

// NextStride is the least distance between rows of width elements that are followed by sums of squares.
func NextStride(width int) int { return 2 * width }

// MatMulNext adds a product to out, as MatMul does, and leaves in next what a following product of
// the norm of out reads: out·gain and sums of squares. It returns next with what they are. gain is (w.Rows), f32.
func (r *Recorder) MatMulNext(f Family, w *Weight, x, out Rows, m int, gain View, next Rows, eps float64) Rows {
	after := f.Next(w, next, eps)
	if !f.CanNext(w) || next.Stride < w.Rows+after.Squares {
		panic(fmt.Sprintf("kernels: MatMulNext of %d rows in %d parts, stride %d", w.Rows, len(w.Parts), next.Stride))
	}
	f = f.wide(w, m).beforeNorm(w)
	each := min(f.Rows, squared)
	r.product(f, w, x, out, m, finish{files: "matmul_order matmul_next", consts: []constant{{"SQUARED", u32(each)}, {"SUMS", u32(f.Rows / each)}}, access: []webgpu.Access{webgpu.ReadOnly, webgpu.ReadWrite},
		views: []View{gain, next.View}, stride: next.Stride, ref: nextRef})
	return after
}

// Next is what MatMulNext of a weight returns.
func (f Family) Next(w *Weight, next Rows, eps float64) Rows {
	next.Squares, next.Eps = w.Rows/min(f.beforeNorm(w).Rows, squared), eps
	return next
}

// gating is the family for products of gates and ups: a tile has as many of one as of the other.
func (f Family) gating(w *Weight) Family {
	f.Rows = max(f.Rows, 2)
	return f.shrunk(2, func(rows int) bool { return w.Rows%(2*rows) == 0 })
}

// CanGate reports whether MatMulSiLU takes a weight: a tile's gates and ups are in one binding.
func (f Family) CanGate(w *Weight) bool {
	return len(w.Parts) == 1 && w.Rows%(2*f.gating(w).Rows) == 0
}

// MatMulSiLU writes SiLU(x·gateᵀ) · x·upᵀ to out (m, w.Rows/2): the first half of w's rows
// is the gate's, the other is up's. Shazeer 2020.
func (r *Recorder) MatMulSiLU(f Family, w *Weight, x, out Rows, m int) {
	if !f.CanGate(w) {
		panic(fmt.Sprintf("kernels: MatMulSiLU of %d rows in %d parts", w.Rows, len(w.Parts)))
	}
	r.product(f.wide(w, m).gating(w), w, x, out, m, finish{files: "matmul_pairs matmul_gate", head: w.Rows, paired: w.Rows, ref: gateRef})
}

// turning is the family for products that end in a rotation: a tile stays in its head and on one side of the
// end of the rotated part, with both elements of its pairs and the words of the cache.
func (f Family) turning(h Heads) Family {
	least := 2
	if h.HalfSplit {
		least = 4
	}
	f.Rows = max(f.Rows, least)
	return f.shrunk(least, h.holds)
}

// holds reports whether tiles of so many rows stay in their heads.
func (h Heads) holds(rows int) bool {
	return h.Dim%rows == 0 && h.Rotary%rows == 0 && (h.Rotary/2)%(rows/2) == 0
}

// CanRope reports whether MatMulRope takes a weight: all of it is in one binding, tiles fit into
// heads, and blocks of the cache are no longer than two.
func (f Family) CanRope(w *Weight, h Heads) bool {
	return len(w.Parts) == 1 && w.Rows == h.Width() && h.Format != KVQ8 && h.holds(f.turning(h).Rows)
}

// MatMulRope is MatMul of queries, keys and values and then Rope: queries go to qkv (m, h.Width()),
// whose rest is left as it is, keys and values to the caches.
func (r *Recorder) MatMulRope(f Family, w *Weight, h Heads, x Rows, rows, table, qkv, keys, values View, m int) {
	if !f.CanRope(w, h) {
		panic(fmt.Sprintf("kernels: MatMulRope of %d rows in %d parts, heads %+v", w.Rows, len(w.Parts), h))
	}
	order := "matmul_order "
	if h.HalfSplit {
		order = "matmul_pairs "
	}
	end := finish{files: order + "rope_" + h.Format.String() + " matmul_rotate", consts: []constant{{"PAIRED", h.HalfSplit}},
		access: []webgpu.Access{webgpu.ReadOnly, webgpu.ReadOnly, webgpu.ReadWrite, webgpu.ReadWrite}, views: []View{rows, table, keys, values},
		head: h.Dim, heads: h.Query, kv: h.KV, rotary: h.Rotary, ref: rotateRef(h.layout())}
	if h.HalfSplit {
		end.paired = h.Rotary
	}
	r.product(f.wide(w, m).turning(h), w, x, Rows{View: qkv, Stride: h.Width()}, m, end)
}
