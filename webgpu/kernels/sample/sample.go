package sample

import (
	"math"

	"foretoken/webgpu"
	"foretoken/webgpu/kernels"
)

const (
	partWords    = 16  // words of scratch per (row, segment)
	maxSegment   = 256 // ids in a segment; the partial has a mask bit for each
	smallVocab   = 4096
	smallSegment = 64
)

// segment returns how many ids one partial covers. It depends only on the vocabulary, so that the order of reduction
// does not depend on the batch.
func segment(vocab int) int {
	if vocab <= smallVocab {
		return smallSegment
	}
	return maxSegment
}

func segments(vocab int) int { return (vocab + segment(vocab) - 1) / segment(vocab) }

// Scratch returns the size in bytes of Sample's scratch view.
func Scratch(rows, vocab int) int { return rows * segments(vocab) * partWords * 4 }

// Values selects the values of the top-k ids that Sample returns.
type Values int

const (
	RawLogits Values = iota // the ranking scores themselves: raw logits unless coupled
	LogProbs                // ln softmax of the ranking scores: ln q of a draft's candidates
	// TemperedLogProbs is ln softmax(logit/temperature) for every ranking. Coupled candidates are drawn from this
	// distribution without replacement, in order (Kool et al., "Stochastic Beams and Where to Find Them", section 3).
	// At temperature 0 it equals LogProbs.
	TemperedLogProbs
)

// Sampled is a decoded record of Sample's output.
type Sampled struct {
	Token     int32   // drawn by Gumbel-max without filters; the argmax at temperature 0
	Argmax    int32   // lowest id among equals
	LogSumExp float32 // of the raw logits, natural log
	Entropy   float32 // of softmax(raw logits), nats
	IDs       []uint32
	Values    []float32
}

// Finite reports whether the row's logits were finite, but for impossible tokens.
func (s *Sampled) Finite() bool { return !kernels.Overflowed(float64(s.LogSumExp)) }

// Decode reads row's record from Sample's output. IDs and Values alias out.
func Decode(out webgpu.Memory, row, k int) Sampled {
	w := out[row*kernels.SampleWords(k):][:kernels.SampleWords(k)]
	return Sampled{Token: int32(w[0]), Argmax: int32(w[1]), LogSumExp: math.Float32frombits(w[2]),
		Entropy: math.Float32frombits(w[3]), IDs: w[4 : 4+k], Values: w[4+k:].F32()}
}

var pick = kernels.RowKernel{Shaders: shaders, Serial: "noise pick", Grouped: "noise stats pick_group",
	Access: append(kernels.Inputs(3), webgpu.ReadWrite), Host: kernels.Host{Ref: pickRef, Entry: "pick"}}

// Record reduces each row of logits to a record, in two dispatches. draw holds DrawParams (filters are ignored),
// positions is (rows) u32, scratch has Scratch bytes. out is (rows, SampleWords(k)) u32, a record a row:
//
//	0 y: the argmax of logit/temperature + Gumbel noise, or of the logits at temperature 0
//	1 the argmax of the logits
//	2 their log-sum-exp (f32)
//	3 the entropy of their softmax in nats (f32)
//	4… the k best ids, best first
//	4+k… their values (f32), see Values
//
// The ranking is by raw logit, or, with DrawParams.Coupled and a temperature, by logit/temperature + noise, so that a
// draft with the target's seed and stream proposes the tokens that the target will draw; ln q is then of the softmax of
// these scores. Ties go to the lower id. -inf counts as LowLogit, NaN as -LowLogit. Candidates beyond the vocabulary
// have id 0 and value LowLogit.
//
// logits, draw and positions must be in other buffers than scratch and out.
func Record(r *kernels.Recorder, lanes kernels.Lanes, logits kernels.Logits, k int, values Values,
	draw, positions, scratch, out kernels.View) {
	if k < 1 || k > kernels.MaxTopK {
		panic("sample: Record: k must be 1 to 64")
	}
	seg, segs := segment(logits.Vocab), segments(logits.Vocab)
	params := logits.Params(seg, segs, k, int(values))
	parts := logits.Rows * segs
	scan, size := "noise stats scan_group", 1
	if lanes == kernels.Serial {
		scan, size = "noise scan", 64
	}
	r.Add(shaders.Source(scan, kernels.Inputs(3), kernels.Host{Ref: scanRef, Entry: "scan"}), r.GroupsFor(parts, size),
		params, logits.View, draw, positions, scratch)
	pick.Record(r, lanes, 2*segs+k*(segs+seg+1), logits.Rows, params, logits.View, draw, positions, scratch, out)
}
