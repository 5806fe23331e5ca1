package sample

import (
	"foretoken/webgpu"
	"foretoken/webgpu/kernels"
)

// Filtered is a decoded record of Filter's output.
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
	f := record[:kernels.FilterWords].F32()
	return Filtered{Token: int32(record[0]), Threshold: f[1], LogSumExp: f[2], Argmax: int32(record[3]), Prob: f[4],
		Entropy: f[5]}
}

// Finite reports whether the row's logits were finite, but for impossible tokens. inverse is the first word of the
// DrawParams: the log-sum-exp is over the logits times it, and at temperature 0 the threshold is the largest logit.
func (f *Filtered) Finite(inverse uint32) bool {
	if scale := kernels.Float(inverse); scale > 0 {
		return !kernels.Overflowed(float64(f.LogSumExp) / scale)
	}
	return !kernels.Overflowed(float64(f.Threshold))
}

// FilterScratch returns the size in bytes of Filter's scratch view.
func FilterScratch(rows int) int { return rows * 256 * 4 }

var filter = kernels.RowKernel{Shaders: shaders, Serial: "noise filter", Grouped: "noise first_of filter_group",
	Access: append(kernels.Inputs(3), webgpu.ReadWrite), Host: kernels.Host{Ref: filterRef, Entry: "filter"},
	Constants: []kernels.Constant{kernels.RecordConst}}

// RecordFilter applies top-k, top-p and min-p and draws among the tokens that remain, in one dispatch. draw holds
// DrawParams, positions is (rows) u32, scratch has FilterScratch bytes (the grouped kernel does not use it). out is
// (rows, FilterWords) u32, a record a row:
//
//	0 y: the argmax of logit/temperature + Gumbel noise over the kept tokens
//	1 τ: the threshold: tokens whose raw logit (f32) is at least τ are kept
//	2 the log-sum-exp of logit/temperature over the kept tokens (f32)
//	3 the argmax of the logits
//	4 the probability of y in the processed distribution (f32)
//	5 the entropy of the processed distribution in nats (f32)
//
// At temperature 0 nothing is filtered: y is the argmax (the lowest id among equals), τ the largest logit, the
// log-sum-exp 0, and probability and entropy are the softmax's at temperature 1.
//
// The filters apply after the temperature: top-k, then top-p on the renormalised rest, then min-p. Ties at a threshold
// are all kept. The kernel finds thresholds by radix selection on the order-preserving bits of the logits, from the
// top, eight bits a pass over the vocabulary (serial) or two (grouped), so any number of tokens may remain.
//
// With one row, out is also a token buffer with the drawn token. logits, draw and positions must be in other buffers
// than scratch and out.
func RecordFilter(r *kernels.Recorder, lanes kernels.Lanes, logits kernels.Logits,
	draw, positions, scratch, out kernels.View) {
	steps := 10*logits.Vocab + 20*256 // ten passes over the vocabulary, twenty over a histogram
	filter.Record(r, lanes, steps, logits.Rows, logits.Params(), logits.View, draw, positions, scratch, out)
}
