package kernels

import (
	"math"

	"foretoken/webgpu"
)

// maxTopK is the most candidates a row returns.
const maxTopK = 64

const (
	partWords    = 16  // words of scratch per (row, segment)
	maxSegment   = 256 // ids in a segment; a mask of so many bits fits in the partial
	smallVocab   = 4096
	smallSegment = 64
)

// segment is how many ids one partial covers. It depends on the vocabulary only,
// so a row is reduced in the same order whatever the batch.
func segment(vocab int) int {
	if vocab <= smallVocab {
		return smallSegment
	}
	return maxSegment
}

func segments(vocab int) int { return (vocab + segment(vocab) - 1) / segment(vocab) }

// SampleScratch is the size in bytes of Sample's scratch view.
func SampleScratch(rows, vocab int) int { return rows * segments(vocab) * partWords * 4 }

// SampleWords is the length in words of a row's record in Sample's output.
func SampleWords(k int) int { return 4 + 2*k }

// Values says what stands beside the top-k ids that Sample returns.
type Values int

const (
	RawLogits Values = iota // the ranking scores themselves: raw logits unless coupled
	LogProbs                // ln softmax of the ranking scores: ln q of a draft's candidates
	// TemperedLogProbs is ln softmax(logit/temperature) whatever the ranking: coupled, the candidates are
	// drawn from that distribution without replacement, in order (Kool et al., "Stochastic
	// Beams and Where to Find Them", section 3), and these are the probabilities of each. At
	// temperature 0 it is LogProbs.
	TemperedLogProbs
)

// Sampled is a row's record in Sample's output, decoded.
type Sampled struct {
	Token     int32   // drawn by Gumbel-max without filters; the argmax at temperature 0
	Argmax    int32   // lowest id among equals
	LogSumExp float32 // of the raw logits, natural log
	Entropy   float32 // of softmax(raw logits), nats
	IDs       []uint32
	Values    []float32
}

// DecodeSample reads row's record from Sample's output. IDs and Values alias out.
func DecodeSample(out webgpu.Memory, row, k int) Sampled {
	w := out[row*SampleWords(k):][:SampleWords(k)]
	return Sampled{Token: int32(w[0]), Argmax: int32(w[1]), LogSumExp: math.Float32frombits(w[2]),
		Entropy: math.Float32frombits(w[3]), IDs: w[4 : 4+k], Values: w[4+k:].F32()}
}

var (
	scanAccess = []webgpu.Access{webgpu.Constants, webgpu.ReadOnly, webgpu.ReadOnly, webgpu.ReadOnly, webgpu.ReadWrite}
	pickAccess = []webgpu.Access{webgpu.Constants, webgpu.ReadOnly, webgpu.ReadOnly, webgpu.ReadOnly, webgpu.ReadWrite, webgpu.ReadWrite}
)

// Sample reduces each row of logits to what the host wants to know of it, in two
// dispatches. draw holds DrawParams (filters are ignored), positions is (rows) u32,
// scratch has SampleScratch bytes. out is (rows, SampleWords(k)) u32, a record a row:
//
//	0 y: the argmax of logit/temperature + Gumbel noise, or of the logits at temperature 0
//	1 the argmax of the logits
//	2 their log-sum-exp (f32)
//	3 the entropy of their softmax in nats (f32)
//	4… the k best ids, best first
//	4+k… their values (f32), see Values
//
// Ranking is by raw logit, or with DrawParams.Coupled and a temperature by logit/temperature +
// noise, so that a draft with the target's seed and stream proposes what the target will
// draw; ln q is then of the softmax of those scores. Ties go to the lower id. NaN and
// -inf count as LowLogit. Where k exceeds the vocabulary the rest has id 0 and value LowLogit.
//
// logits, draw and positions must be in other buffers than scratch and out.
func (r *Recorder) Sample(lanes Lanes, logits Logits, k int, values Values, draw, positions, scratch, out View) {
	if k < 1 || k > maxTopK {
		panic("kernels: Sample: k must be 1 to 64")
	}
	seg, segs := segment(logits.Vocab), segments(logits.Vocab)
	params := []uint32{u32(logits.Rows), u32(logits.Vocab), u32(logits.stride()), u32(seg), u32(segs), u32(k), uint32(values)}
	parts := logits.Rows * segs
	if lanes == Serial {
		r.add(source("noise sample_scan", scanAccess, scanRef), r.groupsFor(parts, 64), params, logits.View, draw, positions, scratch)
	} else {
		r.add(source("noise sample_stats sample_scan_group", scanAccess, scanRef), r.groupsFor(parts, 1), params, logits.View, draw, positions, scratch)
	}
	if lanes == Serial && 2*segs+k*(segs+seg+1) <= maxSteps {
		r.add(source("noise sample_pick", pickAccess, pickRef), r.groupsFor(logits.Rows, 8), params, logits.View, draw, positions, scratch, out)
		return
	}
	r.add(source("noise sample_stats sample_pick_group", pickAccess, pickRef), [3]int{logits.Rows, 1, 1}, params, logits.View, draw, positions, scratch, out)
}
