package kernels

import (
	"fmt"
	"math"

	"foretoken/webgpu"
)

// scoreBlock is how many neighbouring positions one thread scores, and headBlock
// the most heads of a group that it takes together.
const (
	scoreBlock = 4
	headBlock  = 4
)

// Slots says where the keys of each row are.
type Slots struct {
	Rows      View // u32 (m, RowWords)
	Table     View // u32 (span): KV slot of each committed position
	Ancestors View // u32 (m, Stride): KV slots of the positions from the row's shared count on
	Stride    int
}

// Attention writes softmax(q·k/√dim)·v to out (m, Query·Dim) for each row of qkv
// (m, h.Width()) and query head, over the positions 0…position of the row. keys and
// values are caches as Rope writes them; scores is scratch, f32 (m, Query, span), and span
// is above every position.
func (r *Recorder) Attention(lanes Lanes, h Heads, s Slots, qkv, keys, values, scores, out View, m, span int) {
	if h.Query%h.KV != 0 || h.Dim%8 != 0 {
		panic(fmt.Sprintf("kernels: Attention of %d heads of %d over %d", h.Query, h.Dim, h.KV))
	}
	params := []uint32{u32(m), u32(h.Query), u32(h.Query / h.KV), u32(h.Dim), u32(h.Width()), u32(span), u32(s.Stride),
		f32(1 / math.Sqrt(float64(h.Dim)))}
	access := make([]webgpu.Access, 7) // Constants once, ReadOnly, ReadWrite last
	access[0], access[6] = webgpu.Constants, webgpu.ReadWrite
	name := h.Format.String()
	group := h.Query / h.KV
	block := min(group, headBlock)
	shared := h.KV * ((group + block - 1) / block) // groups of heads that one thread takes
	r.add(source("attention_params attention_slot attention_"+name+" attention_scores", access, scoresRef(h.Format),
		constant{"B", uint32(scoreBlock)}, constant{"H", uint32(block)}, constant{"BH", uint32(scoreBlock * block)}),
		[3]int{(span + 8*scoreBlock - 1) / (8 * scoreBlock), shared, m}, params, s.Rows, s.Table, s.Ancestors, qkv, keys, scores)
	inPlace := []webgpu.Access{webgpu.Constants, webgpu.ReadOnly, webgpu.ReadWrite}
	if lanes == Serial && 3*span < maxSteps {
		r.add(source("attention_params attention_softmax", inPlace, softmaxRef), r.groupsFor(m*h.Query, 8), params, s.Rows, scores)
	} else {
		r.add(source("attention_params attention_softmax_group", inPlace, softmaxRef), [3]int{h.Query, m, 1}, params, s.Rows, scores)
	}
	r.add(source("attention_params attention_slot attention_"+name+" attention_values", access, valuesRef(h.Format), constant{"H", uint32(block)}),
		[3]int{(h.Dim/4 + 7) / 8, shared, m}, params, s.Rows, s.Table, s.Ancestors, scores, values, out)
}
