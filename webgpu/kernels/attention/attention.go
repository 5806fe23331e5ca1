package attention

import (
	"cmp"
	"fmt"
	"math"

	"foretoken/webgpu"
	"foretoken/webgpu/kernels"
)

const (
	// A workgroup processes block positions of up to mostRows rows, for up to mostHeads heads that share a key.
	block     = 128
	lanes     = 64
	mostRows  = 4
	mostHeads = 4
)

// chunk divides the heads that share a key among workgroups.
func chunk(h kernels.Heads) (heads, chunks int) {
	group := h.Query / h.KV
	chunks = (group + mostHeads - 1) / mostHeads
	return (group + chunks - 1) / chunks, chunks
}

// blocksOf returns the maximum number of blocks that span consecutive positions of a context overlap.
func blocksOf(context, span int) int {
	return min((context+block-1)/block, (span+block-2)/block+1)
}

// Scratch returns the floats of scratch of a row that attends to span positions of a context.
func Scratch(h kernels.Heads, context, span int) int {
	if context <= block {
		return 0
	}
	return h.Query * blocksOf(context, span) * (h.Dim + 4)
}

// Record writes softmax(q·k·scale)·v to out (m, Query·Dim) for each row of qkv (m, h.Width()) and query head, over the
// positions 0 to the row's own, or over the last h.Window of them if h.Window is above 0. keys and values are caches
// that RecordRope wrote; if h.Shares, for the sequence whose slots s.Table has. span is above every position, or is the
// window if that is less. scratch has room for Scratch of at least one row: it bounds the number of rows in a dispatch.
//
// Softmax is online, as in Milakov & Gimelshein 2018, and positions are split over workgroups as in Dao et al. 2023
// (Flash-Decoding), except on hosts, where one dispatch does all without scratch.
func Record(r *kernels.Recorder, h kernels.Heads, s kernels.Slots,
	qkv, keys, values, scratch, out kernels.View, m, span int) {
	if h.Query%h.KV != 0 || h.Dim%8 != 0 || h.Dim > 256 {
		panic(fmt.Sprintf("attention: Record of %d heads of %d over %d", h.Query, h.Dim, h.KV))
	}
	a := variant{h, h.Layout(), s.Table.Size / 4, h.Dim / 4}
	blocks, window := 1, h.Window
	if window == 0 {
		window = math.MaxUint32
	}
	params := func(n, row0 int) []uint32 {
		scale := kernels.Word(cmp.Or(h.Scale, 1/math.Sqrt(float64(h.Dim))))
		return kernels.Params(n, h.Query, h.Query/h.KV, h.Width(), s.Stride, int(scale), window, row0, blocks)
	}
	views := []kernels.View{s.Rows, s.Table, s.Ancestors, qkv, keys, values}
	if r.Host() {
		r.Add(a.host(), [3]int{m, 1, 1}, params(m, 0), append(views, out)...)
		return
	}
	// A second kernel joins the blocks of positions, for as many rows at a time as scratch has room for.
	only, together := a.context <= block, m
	blocks = blocksOf(a.context, span)
	if !only {
		together = scratch.Size / (4 * Scratch(h, a.context, span))
		if together < 1 {
			panic(fmt.Sprintf("attention: Record of %d heads of %d: scratch of %d bytes for %d positions",
				h.Query, h.Dim, scratch.Size, span))
		}
	}
	kernel, groups := a.blocks(only)
	for from := 0; from < m; from += together {
		n := min(together, m-from)
		to := scratch
		if only {
			to = out
		}
		r.Add(kernel, groups(n), params(n, from), append(views, to)...)
		if !only {
			join := shaders.Source("params join", kernels.Inputs(2), kernels.Host{},
				kernels.Const("N", block), kernels.Const("DQ", a.quads))
			r.Add(join, [3]int{(h.Query*a.quads + lanes - 1) / lanes, n, 1}, params(n, from), s.Rows, scratch, out)
		}
	}
}

// variant identifies what the kernels of an attention layer are specialised for.
type variant struct {
	h       kernels.Heads
	l       kernels.CacheLayout
	context int
	quads   int // groups of four elements in a head
}

// host returns the kernel for hosts, which attends to all positions of its rows.
func (a variant) host() *webgpu.KernelSource {
	name := fmt.Sprintf("attention of heads of %d over %v", a.h.Dim, a.l.Format)
	return &webgpu.KernelSource{Name: name, Key: fmt.Sprint("host: ", name, a.l), Bindings: kernels.Inputs(6),
		Reference: attentionRef(a.l, a.h.Dim), Entry: "attention",
		Words: kernels.Params(int(a.l.Format), a.h.Dim, a.l.Block)}
}

// blocks returns the kernel of a block of positions, and the workgroups of a number of rows.
func (a variant) blocks(only bool) (*webgpu.KernelSource, func(rows int) [3]int) {
	heads, chunks := chunk(a.h)
	tile := max(min(8/heads, 1024/(heads*a.h.Dim), mostRows), 1) // the same for every number of rows
	R := tile * heads
	kernel := shaders.Source("params input bytes "+a.l.Format.String()+" attention", kernels.Inputs(6), kernels.Host{},
		append(a.l.Constants(), kernels.Const("H", heads), kernels.Const("DQ", a.quads),
			kernels.Const("CONTEXT", a.context), kernels.Const("TM", tile), kernels.Const("R", R),
			kernels.Const("RQ", R*a.quads), kernels.Const("N", block), kernels.Const("RN", R*block),
			kernels.Const("TN", tile*block), kernels.Const("HL", heads*lanes), kernels.Const("SCAN", lanes/R),
			kernels.Const("TEAMS", lanes/a.quads), kernels.Const("ONLY", only))...)
	return kernel, func(rows int) [3]int {
		return [3]int{a.h.KV * chunks, (rows + tile - 1) / tile, (a.context + block - 1) / block}
	}
}
