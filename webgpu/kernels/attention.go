package kernels

import (
	"fmt"
	"math"

	"foretoken/webgpu"
)

const (
	// splitThreads is how many threads a workgroup of a device with costly barriers has: as many as such
	// devices compute at once. Most of them share out the heads, which lie together in a cache, the rest
	// the positions.
	splitThreads = 8
	splitChunks  = 4
	quadThreads  = 4
	// A workgroup takes groupBlock positions, with cheap barriers of up to mostRows rows.
	groupBlock = 128
	groupLanes = 64
	mostBlocks = 16 // of larger ones, on devices with costly barriers
	// There blocks of up to wideBlock positions have fewKeys numbers of keys at least: to walk less takes less than the
	// dispatch that joins them.
	fewKeys   = 1 << 16
	wideBlock = 1024
	mostRows  = 4
	mostHeads = 4 // that share a key, of a thread or workgroup
)

// MostSteps is the most positions that Attention walks on software adapters: see maxSteps.
const MostSteps = quadThreads * maxSteps

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

// blockSize is how many positions a workgroup takes. On software adapters one with nothing to do in a long context takes 2 µs,
// so there are few; on other devices it is the same for every context.
func (h Heads) blockSize(lanes Lanes, context int) int {
	size := groupBlock
	for lanes == Serial && (context > mostBlocks*size || context > size && size < wideBlock && h.KV*h.Dim*size < fewKeys) {
		size *= 2
	}
	return size
}

// blocksOf is how many blocks of size positions a row's parts have room for: span positions lie in so
// many of the context's. One needs no parts.
func blocksOf(context, span, size int) int {
	return min((context+size-1)/size, (span+size-2)/size+1)
}

// AttentionScratch is how many floats of scratch a row needs in a context of which it attends to span positions.
func (h Heads) AttentionScratch(context, span int) int {
	if context <= groupBlock {
		return 0
	}
	return h.Query * blocksOf(context, span, groupBlock) * (h.Dim + 4)
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
	blocks, group, quads := 1, h.Query/h.KV, h.Dim/4
	window := h.Window
	if window == 0 {
		window = math.MaxUint32
	}
	params := func(n, row0 int) []uint32 {
		return []uint32{u32(n), u32(h.Query), u32(group), u32(h.Width()), u32(s.Stride), f32(1 / math.Sqrt(float64(h.Dim))), u32(window), u32(row0), u32(blocks)}
	}
	const input = "attention_params attention_input "
	l := h.layout()
	views := []View{s.Rows, s.Table, s.Ancestors, qkv, keys, values}
	constants := func(heads, read int, more ...constant) []constant {
		return append(append(l.constants(read), constant{"H", u32(heads)}, constant{"DQ", u32(quads)}, constant{"CONTEXT", u32(context)}), more...)
	}
	if lanes == Serial && r.quads {
		// The registers that a thread keeps queries and sums in bound the heads. A thread has a quarter of a head's quads, rounded up,
		// in runs that end where the head does and share a scale.
		heads, chunks := h.chunk(min(16384/(16*splitThreads*(quads+1)), mostHeads))
		own, scaled, words := (quads+quadThreads-1)/quadThreads, quads, l.head()/quads
		if l.format == KVQ8 {
			scaled = l.block / 4 // quads that share a scale
		}
		run := own
		for own%run != 0 || quads%run != 0 || scaled%run != 0 {
			run--
		}
		read := l.read(run * words)
		r.add(source(input+"attention_quad_"+l.format.String()+l.reader(read)+" attention_quad", attentionAccess, attentionRef(h), constants(heads, read,
			constant{"W", u32(own)}, constant{"HW", u32(heads * own)}, constant{"RUN", u32(run)}, constant{"RUNS", u32(own / run)}, constant{"QUADS", u32(read / words)},
			constant{"READS", u32(run * words / read)}, constant{"CACHE", u32(min(keys.Size, values.Size) / (4 * read))}, constant{"WG", u32(quadThreads)})...),
			r.groupsFor(h.KV*chunks*m, 1), params(m, 0), append(views, out)...)
		return
	}
	// Blocks of positions are joined by a kernel of their own, as many rows at a time as scratch has room for.
	size := h.blockSize(lanes, context)
	only, together := context <= size, m
	blocks = blocksOf(context, span, size)
	if !only {
		together = scratch.Size / (4 * h.AttentionScratch(context, span))
		if together < 1 {
			panic(fmt.Sprintf("kernels: Attention of %d heads of %d: scratch of %d bytes for %d positions", h.Query, h.Dim, scratch.Size, span))
		}
	}
	var kernel *webgpu.KernelSource
	var groups func(rows int) [3]int
	inBlocks := (context + size - 1) / size
	if lanes == Serial {
		kernel, groups = r.splitAttention(h, only, context, size)
	} else {
		heads, chunks := h.chunk(mostHeads)
		tile := max(min(8/heads, 1024/(heads*h.Dim), mostRows), 1) // the same for every number of rows
		R := tile * heads
		kernel = source(input+"attention_bytes attention_"+l.format.String()+" attention_group", attentionAccess, attentionBlocksRef(h, size, only), constants(heads, 1, constant{"TM", u32(tile)}, constant{"R", u32(R)},
			constant{"RQ", u32(R * quads)}, constant{"N", u32(size)}, constant{"RN", u32(R * size)}, constant{"TN", u32(tile * size)},
			constant{"HL", u32(heads * groupLanes)}, constant{"SCAN", u32(groupLanes / R)}, constant{"TEAMS", u32(groupLanes / quads)}, constant{"ONLY", only})...)
		groups = func(rows int) [3]int { return [3]int{h.KV * chunks, (rows + tile - 1) / tile, inBlocks} }
	}
	for from := 0; from < m; from += together {
		n := min(together, m-from)
		to := scratch
		if only {
			to = out
		}
		r.add(kernel, groups(n), params(n, from), append(views, to)...)
		if !only {
			r.add(source("attention_params attention_join", joinAccess, attentionJoinRef(h, size), constant{"N", u32(size)}, constant{"DQ", u32(quads)}),
				r.groupsFor(n*h.Query*quads, groupLanes), params(n, from), s.Rows, scratch, out)
		}
	}
}

// splitAttention is the kernel for devices with costly barriers, and how many workgroups of it so many rows take.
func (r *Recorder) splitAttention(h Heads, only bool, context, size int) (*webgpu.KernelSource, func(rows int) [3]int) {
	quads := h.Dim / 4
	// Workgroup memory bounds the heads, and so do the registers that a thread keeps queries and sums in.
	heads, chunks := h.chunk(min(16384/(16*splitThreads*(quads+1)), mostHeads))
	together := splitChunks // a row's chunks are a multiple of
	for h.KV*chunks%together != 0 {
		together /= 2
	}
	l := h.layout()
	read := l.read(l.head())
	reads, blocks := 1, 1 // of a step, which in q8 has as many blocks as a read brings scales
	if l.format == KVQ8 {
		for blocks = read; h.Dim/l.block%blocks != 0; {
			blocks /= 2
		}
		reads = blocks * l.block / 4 / read
	}
	steps := l.head() / (reads * read)
	touches := (l.scales() + l.head()*((together+chunks-1)/chunks) + 16*splitThreads - 1) / (16 * splitThreads)
	kernel := source("attention_params attention_input attention_bytes attention_step_"+l.format.String()+l.reader(read)+" attention", attentionAccess, attentionBlocksRef(h, size, only), append(l.constants(read),
		constant{"H", u32(heads)}, constant{"DQ", u32(quads)}, constant{"HQ", u32(heads * quads)}, constant{"CONTEXT", u32(context)}, constant{"N", u32(size)},
		constant{"QUADS", u32(quads / steps)}, constant{"STEPS", u32(steps)}, constant{"STEP", u32(reads)}, constant{"BLOCKS", u32(blocks)}, constant{"TOUCHES", u32(touches)},
		constant{"SPLIT", u32(splitThreads / together)}, constant{"G", u32(together)}, constant{"WG", u32(splitThreads)},
		constant{"PARTS", u32(splitThreads * heads * (quads + 1))}, constant{"ONLY", only})...)
	return kernel, func(rows int) [3]int {
		groups := r.groupsFor(h.KV*chunks*rows, together)
		groups[2] = (context + size - 1) / size
		return groups
	}
}

var (
	attentionAccess = []webgpu.Access{webgpu.Constants, webgpu.ReadOnly, webgpu.ReadOnly, webgpu.ReadOnly, webgpu.ReadOnly, webgpu.ReadOnly, webgpu.ReadOnly, webgpu.ReadWrite}
	joinAccess      = []webgpu.Access{webgpu.Constants, webgpu.ReadOnly, webgpu.ReadOnly, webgpu.ReadWrite}
)
