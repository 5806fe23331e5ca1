package kernels

import (
	"math"

	"foretoken/webgpu"
)

// SelectWords is the length in words of Select's output for the host.
func SelectWords(beams, k int) int { return k + beams*k }

// Selection is one level's choice of beams. Sample has written the k best ids and ln q
// of each proposing beam; the best k of all candidates become the next beams.
// Candidate c is rank c%K of beam c/K.
type Selection struct {
	Beams int // proposing: 1 at the first level, K after
	K     int // 1 to 64
	Depth int // drafted ancestors of a proposing beam, itself included: 0 at the first level
	// MaxDepth is the width of the ancestor lists; greater than Depth.
	MaxDepth int
	// Samples is (Beams, SampleWords(K)) u32: Sample's output with LogProbs.
	Samples View
	// Scores is (Beams) f32: V of the proposing beams. Ancestors is (K, MaxDepth) u32: for
	// each of them the KV slots of its drafted ancestors by depth, its own last. At
	// depth 0 neither is read, but both are bound.
	Scores, Ancestors View
	// Slots is (2K) u32: the KV slots that the next beams' own rows will be written to, and for each of them
	// the candidate that it is to be, or NotGiven for the best that is left.
	Slots View

	NextTokens    View // (K) u32: what the next beams consume
	NextScores    View // (K) f32: their V
	NextAncestors View // (K, MaxDepth) u32, Depth+1 of each list set
	// Out is SelectWords u32 for the host: the candidates that became beams, best first
	// (K), then V of every candidate (Beams·K, f32).
	Out View
}

// NotGiven stands for a choice that is left to the kernel.
const NotGiven = ^uint32(0)

// DecodeSelect splits Select's output; the slices alias it.
func DecodeSelect(out webgpu.Memory, beams, k int) (chosen []uint32, scores []float32) {
	return out[:k], out[k : k+beams*k].F32()
}

var selectAccess = []webgpu.Access{webgpu.Constants, webgpu.ReadWrite, webgpu.ReadWrite, webgpu.ReadWrite, webgpu.ReadOnly,
	webgpu.ReadWrite, webgpu.ReadWrite, webgpu.ReadWrite, webgpu.ReadWrite}

// Select is EAGLE-2's expansion step (Li et al. 2024, section 4.1): V = the parent's V + ln q, the best K by
// V, ties to the lower candidate, NaN below all, or those that were given. One dispatch of one thread: it
// merges lists that are sorted already.
//
// The views may be ranges of one buffer that do not overlap, except Slots, which
// must be in a buffer that no other view of the selection is in.
func (r *Recorder) Select(s Selection) {
	if s.K < 1 || s.K > maxTopK || s.Beams < 1 || s.Beams > maxTopK || s.Depth >= s.MaxDepth {
		panic("kernels: Select: K and Beams must be 1 to 64, Depth below MaxDepth")
	}
	params := []uint32{u32(s.Beams), u32(s.K), u32(s.Depth), u32(s.MaxDepth)}
	r.add(source("select", selectAccess, selectRef), [3]int{1, 1, 1}, params,
		s.Samples, s.Scores, s.Ancestors, s.Slots, s.NextTokens, s.NextScores, s.NextAncestors, s.Out)
}

// lowScore stands for a V that is not a number.
const lowScore = -math.MaxFloat32
