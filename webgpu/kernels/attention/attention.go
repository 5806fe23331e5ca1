package attention

import (
	"fmt"
	"math"

	"foretoken/webgpu"
	"foretoken/webgpu/kernels"
)

const (
	// splitThreads is the number of threads of a workgroup on devices with costly barriers: as many as such devices run
	// at once. splitChunks of them share heads, whose keys are neighbours in a cache, the others share positions.
	splitThreads     = 8
	splitChunks      = 4
	subgroup4Threads = 4
	// On devices with cheap barriers a workgroup processes groupBlock positions of up to mostRows rows.
	groupBlock = 128
	groupLanes = 64
	mostBlocks = 16 // of larger ones, on devices with costly barriers
	// On those devices blocks of up to wideBlock positions have at least fewKeys elements of keys: a dispatch that
	// joins smaller blocks costs more than the blocks.
	fewKeys   = 1 << 16
	wideBlock = 1024
	mostRows  = 4
	mostHeads = 4 // of a thread or workgroup, which share a key
)

// MostSteps is the maximum number of positions that Record supports on software adapters: see kernels.MaxSteps.
const MostSteps = subgroup4Threads * kernels.MaxSteps

// chunk divides the heads that share a key among threads or workgroups, at most `most` heads each.
func chunk(h kernels.Heads, most int) (heads, chunks int) {
	group := h.Query / h.KV
	chunks = (group + most - 1) / most
	return (group + chunks - 1) / chunks, chunks
}

// blockSize returns how many positions a workgroup processes. On software adapters even an idle workgroup costs time,
// so long contexts have larger blocks; on other devices the size is constant.
func blockSize(h kernels.Heads, lanes kernels.Lanes, context int) int {
	size := groupBlock
	if lanes != kernels.Serial {
		return size
	}
	small := func() bool { return size < wideBlock && h.KV*h.Dim*size < fewKeys }
	for context > mostBlocks*size || context > size && small() {
		size *= 2
	}
	return size
}

// blocksOf returns the maximum number of blocks of size positions that span consecutive positions of a context overlap.
func blocksOf(context, span, size int) int {
	return min((context+size-1)/size, (span+size-2)/size+1)
}

// Scratch returns the floats of scratch of a row that attends to span positions of a context.
func Scratch(h kernels.Heads, context, span int) int {
	if context <= groupBlock {
		return 0
	}
	return h.Query * blocksOf(context, span, groupBlock) * (h.Dim + 4)
}

// Record writes softmax(q·k/√dim)·v to out (m, Query·Dim) for each row of qkv (m, h.Width()) and query head, over the
// positions 0 to the row's own, or over the last h.Window of them if h.Window is above 0. keys and values are caches
// that RecordRope wrote. span is above every position, or is the window if that is less. scratch has room for Scratch
// of at least one row: it bounds the number of rows in a dispatch.
//
// Softmax is online, as in Milakov & Gimelshein 2018, and positions are split over threads as in Dao et al. 2023
// (Flash-Decoding), except on hosts, where one dispatch does all without scratch.
func Record(r *kernels.Recorder, lanes kernels.Lanes, h kernels.Heads, s kernels.Slots,
	qkv, keys, values, scratch, out kernels.View, m, span int) {
	if h.Query%h.KV != 0 || h.Dim%8 != 0 || h.Dim > 256 {
		panic(fmt.Sprintf("attention: Record of %d heads of %d over %d", h.Query, h.Dim, h.KV))
	}
	a := pass{h, h.Layout(), s.Table.Size / 4, h.Dim / 4}
	blocks, window := 1, h.Window
	if window == 0 {
		window = math.MaxUint32
	}
	params := func(n, row0 int) []uint32 {
		scale := kernels.Word(1 / math.Sqrt(float64(h.Dim)))
		return kernels.Params(n, h.Query, h.Query/h.KV, h.Width(), s.Stride, int(scale), window, row0, blocks)
	}
	views := []kernels.View{s.Rows, s.Table, s.Ancestors, qkv, keys, values}
	if r.Host() {
		r.Add(a.host(), [3]int{m, 1, 1}, params(m, 0), append(views, out)...)
		return
	}
	if lanes == kernels.Serial && r.Subgroup4() {
		kernel, chunks := a.subgroup4(min(keys.Size, values.Size))
		r.Add(kernel, r.GroupsFor(h.KV*chunks*m, 1), params(m, 0), append(views, out)...)
		return
	}
	// A second kernel joins the blocks of positions, for as many rows at a time as scratch has room for.
	size := blockSize(h, lanes, a.context)
	only, together := a.context <= size, m
	blocks = blocksOf(a.context, span, size)
	if !only {
		together = scratch.Size / (4 * Scratch(h, a.context, span))
		if together < 1 {
			panic(fmt.Sprintf("attention: Record of %d heads of %d: scratch of %d bytes for %d positions",
				h.Query, h.Dim, scratch.Size, span))
		}
	}
	split := a.group
	if lanes == kernels.Serial {
		split = a.split
	}
	kernel, groups := split(r, only, size)
	for from := 0; from < m; from += together {
		n := min(together, m-from)
		to := scratch
		if only {
			to = out
		}
		r.Add(kernel, groups(n), params(n, from), append(views, to)...)
		if !only {
			join := shaders.Source("params join", kernels.Inputs(2), kernels.Host{},
				kernels.Const("N", size), kernels.Const("DQ", a.quads))
			r.Add(join, r.GroupsFor(n*h.Query*a.quads, groupLanes), params(n, from), s.Rows, scratch, out)
		}
	}
}

// pass is the shape of an attention pass, which the kernels are specialised for.
type pass struct {
	h       kernels.Heads
	l       kernels.CacheLayout
	context int
	quads   int // groups of four elements in a head
}

func (a pass) constants(heads, read int, more ...kernels.Constant) []kernels.Constant {
	return append(append(a.l.Constants(read), kernels.Const("H", heads), kernels.Const("DQ", a.quads),
		kernels.Const("CONTEXT", a.context)), more...)
}

// host returns the kernel for hosts, which attends to all positions of its rows.
func (a pass) host() *webgpu.KernelSource {
	name := fmt.Sprintf("attention of heads of %d over %v", a.h.Dim, a.l.Format)
	return &webgpu.KernelSource{Name: name, Key: fmt.Sprint("host: ", name, a.l), Bindings: kernels.Inputs(6),
		Reference: attentionRef(a.l, a.h.Dim), Entry: "attention",
		Words: kernels.Params(int(a.l.Format), a.h.Dim, a.l.Block)}
}

// serialChunks divides the heads among threads or workgroups on devices with costly barriers. Workgroup memory bounds
// the heads, and so do the registers for the queries and sums of a thread.
func (a pass) serialChunks() (heads, chunks int) {
	return chunk(a.h, min(16384/(16*splitThreads*(a.quads+1)), mostHeads))
}

// subgroup4 returns the kernel for devices with costly barriers and subgroups, and the chunks of heads. cache is the
// size of the smaller cache in bytes.
func (a pass) subgroup4(cache int) (*webgpu.KernelSource, int) {
	// A thread has a quarter of a head's quads, rounded up, in runs that share a scale and do not pass the head's end.
	heads, chunks := a.serialChunks()
	own, scaled, words := (a.quads+subgroup4Threads-1)/subgroup4Threads, a.quads, a.l.Head()/a.quads
	if a.l.Format == kernels.KVQ8 {
		scaled = a.l.Block / 4 // quads that share a scale
	}
	run := own
	for own%run != 0 || a.quads%run != 0 || scaled%run != 0 {
		run--
	}
	read := a.l.Read(run * words)
	files := "params input subgroup4_" + a.l.Format.String() + reader(a.l, read) + " subgroup4"
	return shaders.Source(files, kernels.Inputs(6), kernels.Host{}, a.constants(heads, read,
		kernels.Const("W", own), kernels.Const("HW", heads*own), kernels.Const("RUN", run),
		kernels.Const("RUNS", own/run), kernels.Const("QUADS", read/words), kernels.Const("READS", run*words/read),
		kernels.Const("CACHE", cache/(4*read)), kernels.Const("WG", subgroup4Threads))...), chunks
}

// group returns the kernel for devices with cheap barriers, and the workgroups of a number of rows.
func (a pass) group(_ *kernels.Recorder, only bool, size int) (*webgpu.KernelSource, func(rows int) [3]int) {
	heads, chunks := chunk(a.h, mostHeads)
	tile := max(min(8/heads, 1024/(heads*a.h.Dim), mostRows), 1) // the same for every number of rows
	R := tile * heads
	kernel := shaders.Source("params input bytes "+a.l.Format.String()+" group", kernels.Inputs(6),
		kernels.Host{}, a.constants(heads, 1,
			kernels.Const("TM", tile), kernels.Const("R", R), kernels.Const("RQ", R*a.quads), kernels.Const("N", size),
			kernels.Const("RN", R*size), kernels.Const("TN", tile*size), kernels.Const("HL", heads*groupLanes),
			kernels.Const("SCAN", groupLanes/R), kernels.Const("TEAMS", groupLanes/a.quads),
			kernels.Const("ONLY", only))...)
	return kernel, func(rows int) [3]int {
		return [3]int{a.h.KV * chunks, (rows + tile - 1) / tile, (a.context + size - 1) / size}
	}
}

// split returns the kernel for devices with costly barriers, and the workgroups of a number of rows.
func (a pass) split(r *kernels.Recorder, only bool, size int) (*webgpu.KernelSource, func(rows int) [3]int) {
	heads, chunks := a.serialChunks()
	together := splitChunks // divides the chunks of a row
	for a.h.KV*chunks%together != 0 {
		together /= 2
	}
	l := a.l
	read := l.Read(l.Head())
	reads, blocks := 1, 1 // of a step; in q8 a step has as many blocks as a read has scales
	if l.Format == kernels.KVQ8 {
		for blocks = read; a.h.Dim/l.Block%blocks != 0; {
			blocks /= 2
		}
		reads = blocks * l.Block / 4 / read
	}
	steps := l.Head() / (reads * read)
	touches := (l.Scales() + l.Head()*((together+chunks-1)/chunks) + 16*splitThreads - 1) / (16 * splitThreads)
	files := "params input bytes step_" + l.Format.String() + reader(l, read) + " attention"
	kernel := shaders.Source(files, kernels.Inputs(6), kernels.Host{}, append(l.Constants(read),
		kernels.Const("H", heads), kernels.Const("DQ", a.quads), kernels.Const("HQ", heads*a.quads),
		kernels.Const("CONTEXT", a.context), kernels.Const("N", size), kernels.Const("QUADS", a.quads/steps),
		kernels.Const("STEPS", steps), kernels.Const("STEP", reads), kernels.Const("BLOCKS", blocks),
		kernels.Const("TOUCHES", touches), kernels.Const("SPLIT", splitThreads/together),
		kernels.Const("G", together), kernels.Const("WG", splitThreads),
		kernels.Const("PARTS", splitThreads*heads*(a.quads+1)), kernels.Const("ONLY", only))...)
	return kernel, func(rows int) [3]int {
		groups := r.GroupsFor(a.h.KV*chunks*rows, together)
		groups[2] = (a.context + size - 1) / size
		return groups
	}
}

// reader returns the shader that reads a number of words at once, for the formats that need one.
func reader(l kernels.CacheLayout, read int) string {
	if l.Format == kernels.KVF32 {
		return ""
	}
	return fmt.Sprintf(" words_%d", read)
}
