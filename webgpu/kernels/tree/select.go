package tree

import (
	"math"

	"foretoken/webgpu"
	"foretoken/webgpu/kernels"
)

// SelectWords returns the length in words of Selection.Out.
func SelectWords(beams, k int) int { return k + beams*k }

// Selection selects the beams of one level. Sample has written the k best ids and ln q of each proposing beam; the best
// k of all candidates become the next beams. Candidate c is rank c%K of beam c/K.
type Selection struct {
	Beams int // number of proposing beams: 1 at the first level, then K
	K     int // 1 to 64
	Depth int // number of drafted ancestors of a proposing beam, with the beam: 0 at the first level
	// MaxDepth is the width of the ancestor lists; greater than Depth.
	MaxDepth int
	// Samples is (Beams, SampleWords(K)) u32: Sample's output with LogProbs.
	Samples kernels.View
	// Scores is (Beams) f32: V of the proposing beams. Ancestors is (K, MaxDepth) u32: the KV slots of each beam's
	// drafted ancestors by depth, its own last. At depth 0 both are bound and not read.
	Scores, Ancestors kernels.View
	// Slots is (2K) u32: the KV slots of the next beams' rows, then the candidate that each of them is to be, or
	// NotGiven for the best remaining one.
	Slots kernels.View

	NextTokens    kernels.View // (K) u32: the input tokens of the next beams
	NextScores    kernels.View // (K) f32: their V
	NextAncestors kernels.View // (K, MaxDepth) u32, Depth+1 of each list set
	// Out is SelectWords u32 for the host: the candidates that became beams, best first (K), then V of all candidates
	// (Beams·K, f32).
	Out kernels.View
}

// NotGiven leaves a choice to the kernel.
const NotGiven = ^uint32(0)

// DecodeSelect splits Selection.Out; the slices alias it.
func DecodeSelect(out webgpu.Memory, beams, k int) (chosen []uint32, scores []float32) {
	return out[:k], out[k : k+beams*k].F32()
}

// selectAccess binds most inputs as writable, so that they may share a buffer with the outputs.
var selectAccess = []webgpu.Access{webgpu.Constants,
	webgpu.ReadWrite, webgpu.ReadWrite, webgpu.ReadWrite, webgpu.ReadOnly,
	webgpu.ReadWrite, webgpu.ReadWrite, webgpu.ReadWrite, webgpu.ReadWrite}

// RecordSelect is EAGLE-2's expansion step (Li et al. 2024, section 4.1): V = the parent's V + ln q; the given
// candidates and the best by V become beams. Ties go to the lower candidate, NaN is below all numbers. One dispatch of
// one thread, which merges sorted lists.
//
// The views may be disjoint ranges of one buffer, except Slots, which must be in another buffer.
func RecordSelect(r *kernels.Recorder, s Selection) {
	if s.K < 1 || s.K > kernels.MaxTopK || s.Beams < 1 || s.Beams > kernels.MaxTopK || s.Depth >= s.MaxDepth {
		panic("tree: RecordSelect: K and Beams must be 1 to 64, Depth below MaxDepth")
	}
	params := kernels.Params(s.Beams, s.K, s.Depth, s.MaxDepth)
	host := kernels.Host{Ref: selectRef, Entry: "select_beams"}
	r.Add(shaders.Source("select", selectAccess, host), [3]int{1, 1, 1}, params,
		s.Samples, s.Scores, s.Ancestors, s.Slots, s.NextTokens, s.NextScores, s.NextAncestors, s.Out)
}

// lowScore replaces a V that is NaN.
const lowScore = -math.MaxFloat32
