package matmul

import (
	"fmt"

	"foretoken/webgpu"
	"foretoken/webgpu/kernels"
)

// finish is the end of a product, which consumes its sums: a store, a residual, a norm, a rotary embedding or an
// activation, without another dispatch. Each end is compiled into its own kernel: a software adapter would run both
// sides of a branch.
type finish struct {
	files  string // shaders with weightRow and finish, see order.wgsl and store.wgsl
	consts []kernels.Constant
	access []webgpu.Access // of the bindings from 5 on
	views  []kernels.View  // the bindings from 5 on
	ref    finishRef
	entry  finishEntry
	word   uint32 // of the entry

	// Parameters: see params.wgsl.
	add               bool
	head, paired      int
	stride            int
	heads, kv, rotary int
}

// finishEntry numbers the ends as matmul.c of package simd does.
type finishEntry uint32

const (
	storeEntry finishEntry = iota
	nextEntry              // word: the outputs in a sum of squares
	gateEntry
	rotateEntry // word: the format of the cache
)

// squared is the maximum number of outputs in a sum of squares. Larger sums would be too few in short rows: their
// number must be a multiple of four.
const squared = 8

// shrunk halves the weight rows of a tile until they fit or there are only `least`. Their number changes no row's bits.
func (f Family) shrunk(least int, fits func(rows int) bool) Family {
	for f.Rows > least && !fits(f.Rows) {
		f.Rows /= 2
	}
	return f
}

// beforeNorm returns the family of RecordNext: tiles divide the rows.
func (f Family) beforeNorm(w *kernels.Weight) Family {
	return f.shrunk(1, func(rows int) bool { return w.Rows%rows == 0 })
}

// CanNext reports whether RecordNext supports a weight: its rows must be in one binding, and the number of sums of
// squares must be a multiple of four.
func (f Family) CanNext(w *kernels.Weight) bool {
	return len(w.Parts) == 1 && w.Rows%(4*min(f.beforeNorm(w).Rows, squared)) == 0
}

// NextStride returns the minimum distance between rows of width elements with sums of squares behind them.
func NextStride(width int) int { return 2 * width }

// RecordNext adds a product to out, like Record, and writes next, the input of a following product of the norm of out:
// out·gain and sums of squares. It returns next with their number. gain is (w.Rows), f32.
func RecordNext(r *kernels.Recorder, f Family, w *kernels.Weight, x, out kernels.Rows, m int, gain kernels.View,
	next kernels.Rows, eps float64) kernels.Rows {
	after := f.Next(w, next, eps)
	if !f.CanNext(w) || next.Stride < w.Rows+after.Squares {
		panic(fmt.Sprintf("matmul: RecordNext of %d rows in %d parts, stride %d", w.Rows, len(w.Parts), next.Stride))
	}
	f = f.beforeNorm(w)
	each := min(f.Rows, squared)
	product(r, f, w, x, out, m, finish{files: "order next",
		consts: []kernels.Constant{kernels.Const("SQUARED", each), kernels.Const("SUMS", f.Rows/each)},
		access: []webgpu.Access{webgpu.ReadOnly, webgpu.ReadWrite},
		views:  []kernels.View{gain, next.View}, stride: next.Stride,
		ref: nextRef, entry: nextEntry, word: uint32(each)})
	return after
}

// Next returns what RecordNext of a weight returns, without recording.
func (f Family) Next(w *kernels.Weight, next kernels.Rows, eps float64) kernels.Rows {
	next.Squares, next.Eps = w.Rows/min(f.beforeNorm(w).Rows, squared), eps
	return next
}

// gating returns the family of RecordSiLU: half of a tile's rows are gates, the other half their ups.
func (f Family) gating(w *kernels.Weight) Family {
	f.Rows = max(f.Rows, 2)
	return f.shrunk(2, func(rows int) bool { return w.Rows%(2*rows) == 0 })
}

// CanGate reports whether RecordSiLU supports a weight: the gates and ups of a tile must be in one binding.
func (f Family) CanGate(w *kernels.Weight) bool {
	return len(w.Parts) == 1 && w.Rows%(2*f.gating(w).Rows) == 0
}

// RecordSiLU writes SiLU(x·gateᵀ) · x·upᵀ to out (m, w.Rows/2): the first half of w's rows
// is gate, the second half up. Shazeer 2020.
func RecordSiLU(r *kernels.Recorder, f Family, w *kernels.Weight, x, out kernels.Rows, m int) {
	if !f.CanGate(w) {
		panic(fmt.Sprintf("matmul: RecordSiLU of %d rows in %d parts", w.Rows, len(w.Parts)))
	}
	end := finish{files: "pairs gate", head: w.Rows, paired: w.Rows, ref: gateRef,
		entry: gateEntry}
	product(r, f.gating(w), w, x, out, m, end)
}

// rotating returns the family of RecordRope: a tile is in one head and either in the rotated part or outside, and holds
// both elements of its pairs and complete words of the cache.
func (f Family) rotating(h kernels.Heads) Family {
	least := 2
	if h.HalfSplit {
		least = 4
	}
	f.Rows = max(f.Rows, least)
	return f.shrunk(least, func(rows int) bool { return dividesHeads(h, rows) })
}

// dividesHeads reports whether tiles of some rows divide the heads and their rotated part.
func dividesHeads(h kernels.Heads, rows int) bool {
	return h.Dim%rows == 0 && h.Rotary%rows == 0 && (h.Rotary/2)%(rows/2) == 0
}

// CanRope reports whether RecordRope supports a weight: it must be in one binding, tiles must fit into heads, and the
// cache must not be q8, whose blocks are larger than a tile.
func (f Family) CanRope(w *kernels.Weight, h kernels.Heads) bool {
	return len(w.Parts) == 1 && w.Rows == h.Width() && h.Format != kernels.KVQ8 && dividesHeads(h, f.rotating(h).Rows)
}

// RecordRope computes queries, keys and values like Record followed by attention.RecordRope: it writes queries to qkv
// (m, h.Width()), whose other elements it does not change, and keys and values to the caches. If h.Shares, it writes no
// cache, but binds the shared one.
func RecordRope(r *kernels.Recorder, f Family, w *kernels.Weight, h kernels.Heads, x kernels.Rows,
	rows, table, qkv, keys, values kernels.View, m int) {
	if !f.CanRope(w, h) {
		panic(fmt.Sprintf("matmul: RecordRope of %d rows in %d parts, heads %+v", w.Rows, len(w.Parts), h))
	}
	order := "order "
	if h.HalfSplit {
		order = "pairs "
	}
	end := finish{files: order + "rope_" + h.Format.String() + " rotate",
		consts: []kernels.Constant{kernels.Const("PAIRED", h.HalfSplit)},
		access: []webgpu.Access{webgpu.ReadOnly, webgpu.ReadOnly, webgpu.ReadWrite, webgpu.ReadWrite},
		views:  []kernels.View{rows, table, keys, values},
		head:   h.Dim, heads: h.Query, kv: h.RowKV(), rotary: h.Rotary, ref: rotateRef(h.Layout()),
		entry: rotateEntry, word: uint32(h.Format)}
	if h.HalfSplit {
		end.paired = h.Rotary
	}
	product(r, f.rotating(h), w, x, kernels.Rows{View: qkv, Stride: h.Width()}, m, end)
}
