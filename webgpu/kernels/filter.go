package kernels

import "foretoken/webgpu"

// FilterWords is the length in words of a row's record in Filter's output.
const FilterWords = 6

// Filtered is a row's record in Filter's output, decoded.
type Filtered struct {
	Token     int32   // y
	Threshold float32 // τ
	LogSumExp float32
	Argmax    int32
	Prob      float32 // of y
	Entropy   float32 // nats
}

// DecodeFilter reads a record of Filter's output.
func DecodeFilter(record webgpu.Memory) Filtered {
	f := record[:FilterWords].F32()
	return Filtered{Token: int32(record[0]), Threshold: f[1], LogSumExp: f[2], Argmax: int32(record[3]), Prob: f[4], Entropy: f[5]}
}

// FilterScratch is the size in bytes of Filter's scratch view.
func FilterScratch(rows int) int { return rows * 256 * 4 }

// recordWords tells the shaders that write and read records how long one is.
var recordWords = constant{"RECORD", uint32(FilterWords)}

var filterAccess = []webgpu.Access{webgpu.Constants, webgpu.ReadOnly, webgpu.ReadOnly, webgpu.ReadOnly, webgpu.ReadWrite, webgpu.ReadWrite}

// Filter finds which tokens survive top-k, top-p and min-p and draws among them, in
// one dispatch. draw holds DrawParams, positions is (rows) u32, scratch has
// FilterScratch bytes (the grouped family leaves it alone). out is (rows, FilterWords) u32, a record a row:
//
//	0 y: the argmax of logit/temperature + Gumbel noise over the kept tokens
//	1 τ: the threshold on raw logits (f32): kept are those of at least τ
//	2 the log-sum-exp of logit/temperature over the kept tokens (f32)
//	3 the argmax of the logits
//	4 the probability of y in the processed distribution (f32)
//	5 the entropy of the processed distribution in nats (f32)
//
// At temperature 0 the filters are idle: y is the argmax (the lowest id among
// equals), τ the largest logit, the log-sum-exp 0, and probability and entropy are those of
// the softmax at temperature 1.
//
// The filters apply after the temperature, in the order top-k, top-p on what is
// left renormalised, min-p; ties at a threshold are all kept. Thresholds are
// found by searching the order-preserving bits of the logits from the top, eight bits a
// pass over the vocabulary (serial) or two (grouped), so any number of tokens may survive.
// A vocabulary too large for one thread (see maxSteps) gets a workgroup a row in either family.
//
// With one row, out is also a token buffer holding the token drawn. logits,
// draw and positions must be in other buffers than scratch and out.
func (r *Recorder) Filter(lanes Lanes, logits Logits, draw, positions, scratch, out View) {
	params := []uint32{u32(logits.Rows), u32(logits.Vocab), u32(logits.stride())}
	views := []View{logits.View, draw, positions, scratch, out}
	if lanes == Serial && 10*logits.Vocab+20*256 <= maxSteps { // ten passes over the vocabulary, twenty over a histogram
		r.add(source("noise filter", filterAccess, filterRef, recordWords), r.groupsFor(logits.Rows, 8), params, views...)
		return
	}
	r.add(source("noise first_of filter_group", filterAccess, filterRef, recordWords), [3]int{logits.Rows, 1, 1}, params, views...)
}
