package kernels

import (
	"fmt"
	"math"

	"foretoken/webgpu"
)

const (
	// splitLanes threads share a row's positions on devices with costly barriers, at most splitRun
	// neighbouring ones at a time, and splitUnits rows and chunks of heads a workgroup. A run keeps to
	// runQuads times four elements: it is unrolled, and compiling takes its time with the length.
	splitLanes = 4
	splitRun   = 2
	splitUnits = 2
	runQuads   = 32
	// A workgroup of a device with cheap barriers takes groupBlock positions of up to mostRows rows.
	groupBlock = 128
	groupLanes = 64
	mostRows   = 4
	mostHeads  = 4 // that share a key, of a thread or workgroup
)

// MostSteps is the most positions that Attention walks on software adapters: see maxSteps.
const MostSteps = splitLanes * maxSteps

// Slots says where the keys of each row are.
type Slots struct {
	Rows      View // u32 (m, RowWords)
	Table     View // u32 (context): KV slot of each committed position
	Ancestors View // u32 (m, Stride): KV slots of the positions from the row's shared count on
	Stride    int
}

// chunk is how many heads that share a key a thread or workgroup takes, at most most of them.
func (h Heads) chunk(most int) (heads, chunks int) {
	group := h.Query / h.KV
	chunks = (group + most - 1) / most
	return (group + chunks - 1) / chunks, chunks
}

// groupBlocks is how many blocks of positions a row's parts have room for: span positions lie in so
// many of the context's. One needs no parts.
func groupBlocks(context, span int) int {
	return min((context+groupBlock-1)/groupBlock, (span+groupBlock-2)/groupBlock+1)
}

// AttentionScratch is how many floats of scratch a row needs in a context of which it attends to span positions.
func (h Heads) AttentionScratch(context, span int) int {
	if context <= groupBlock {
		return 0
	}
	return h.Query * groupBlocks(context, span) * (h.Dim + 4)
}

// Attention writes softmax(q·k/√dim)·v to out (m, Query·Dim) for each row of qkv
// (m, h.Width()) and query head, over the positions 0…position of the row, or the last
// h.Window of them where that is above 0. keys and values are caches as Rope writes
// them. span is above every position, or the window if that is less. scratch has room for
// AttentionScratch of any number of rows from 1 on: as many go through at a time.
//
// Softmax is kept up while positions are walked, as in Milakov & Gimelshein 2018, and
// positions are split over threads as in Dao et al. 2023 (Flash-Decoding).
func (r *Recorder) Attention(lanes Lanes, h Heads, s Slots, qkv, keys, values, scratch, out View, m, span int) {
	if h.Query%h.KV != 0 || h.Dim%8 != 0 || h.Dim > 256 {
		panic(fmt.Sprintf("kernels: Attention of %d heads of %d over %d", h.Query, h.Dim, h.KV))
	}
	context := s.Table.Size / 4
	blocks, group, quads := groupBlocks(context, span), h.Query/h.KV, h.Dim/4
	window := h.Window
	if window == 0 {
		window = math.MaxUint32
	}
	params := func(n, row0 int) []uint32 {
		return []uint32{u32(n), u32(h.Query), u32(group), u32(h.Width()), u32(s.Stride), f32(1 / math.Sqrt(float64(h.Dim))), u32(window), u32(row0), u32(blocks)}
	}
	read := "attention_params attention_input attention_" + h.Format.String()
	views := []View{s.Rows, s.Table, s.Ancestors, qkv, keys, values}
	constants := func(heads int, more ...constant) []constant {
		return append(append(h.layout().constants(), constant{"H", u32(heads)}, constant{"DQ", u32(quads)}), more...)
	}
	if lanes == Serial {
		// Workgroup memory bounds the heads, and so do the registers that a thread keeps queries and sums in.
		heads, chunks := h.chunk(min(16384/(16*splitLanes*splitUnits*(quads+1)), mostHeads))
		units, run := h.KV*chunks*m, max(min(splitRun, runQuads/quads), 1)
		shape := constants(heads, constant{"HQ", u32(heads * quads)}, constant{"B", u32(run)}, constant{"HB", u32(heads * run)})
		if r.quads {
			r.add(source(read+" attention_quad", attentionAccess, attentionRef(h), append(shape, constant{"WG", u32(splitLanes)})...),
				r.groupsFor(units, 1), params(m, 0), append(views, out)...)
			return
		}
		together := min(units, splitUnits)
		r.add(source(read+" attention", attentionAccess, attentionRef(h), append(shape, constant{"SPLIT", u32(splitLanes)}, constant{"G", u32(together)},
			constant{"WG", u32(splitLanes * together)}, constant{"PARTS", u32(splitLanes * together * heads * (quads + 1))})...),
			r.groupsFor(units, together), params(m, 0), append(views, out)...)
		return
	}
	heads, chunks := h.chunk(mostHeads)
	tile := max(min(8/heads, 1024/(heads*h.Dim), mostRows), 1) // the same for every number of rows
	only, together := context <= groupBlock, m
	if !only {
		together = scratch.Size / (4 * h.AttentionScratch(context, span))
		if together < 1 {
			panic(fmt.Sprintf("kernels: Attention of %d heads of %d: scratch of %d bytes for %d positions", h.Query, h.Dim, scratch.Size, span))
		}
	}
	R := tile * heads
	kernel := source(read+" attention_group", attentionAccess, attentionGroupRef(h, only), constants(heads, constant{"TM", u32(tile)}, constant{"R", u32(R)},
		constant{"RQ", u32(R * quads)}, constant{"N", u32(groupBlock)}, constant{"RN", u32(R * groupBlock)}, constant{"TN", u32(tile * groupBlock)},
		constant{"HL", u32(heads * groupLanes)}, constant{"SCAN", u32(groupLanes / R)}, constant{"TEAMS", u32(groupLanes / quads)}, constant{"ONLY", only})...)
	for from := 0; from < m; from += together {
		n := min(together, m-from)
		to := scratch
		if only {
			to = out
		}
		r.add(kernel, [3]int{h.KV * chunks, (n + tile - 1) / tile, (context + groupBlock - 1) / groupBlock}, params(n, from), append(views, to)...)
		if !only {
			r.add(source("attention_params attention_join", joinAccess, attentionJoinRef(h), constant{"N", u32(groupBlock)}, constant{"DQ", u32(quads)}),
				r.groupsFor(n*h.Query*quads, groupLanes), params(n, from), s.Rows, scratch, out)
		}
	}
}

var (
	attentionAccess = []webgpu.Access{webgpu.Constants, webgpu.ReadOnly, webgpu.ReadOnly, webgpu.ReadOnly, webgpu.ReadOnly, webgpu.ReadOnly, webgpu.ReadOnly, webgpu.ReadWrite}
	joinAccess      = []webgpu.Access{webgpu.Constants, webgpu.ReadOnly, webgpu.ReadOnly, webgpu.ReadWrite}
)
