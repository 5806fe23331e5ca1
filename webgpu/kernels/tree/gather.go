package tree

import (
	"foretoken/webgpu"
	"foretoken/webgpu/kernels"
)

// RecordGather takes at most MostGathered candidates in at most GatherLevels levels.
const (
	MostGathered = 1024
	GatherLevels = 65
)

// GatherHeadWords is the length of the head view without slots and candidates.
const GatherHeadWords = 7

// NotGathered marks nodes that are no candidates in RecordGather's output.
const NotGathered = ^uint32(0)

// Gathered returns the number of candidates in a number of levels, with k beams of k candidates each.
func Gathered(levels, k int) int { return k + (levels-1)*k*k }

// GatheredLevel returns the level of a candidate, 0 for the root's.
func GatheredLevel(candidate uint32, k int) int {
	if int(candidate) < k {
		return 0
	}
	return 1 + (int(candidate)-k)/(k*k)
}

// Gathering selects the nodes of a tree from drafted levels: the root's k candidates, then at each level k candidates
// of each of k beams.
type Gathering struct {
	K int
	// Drafted is u32: First words with the root's result, Sample's output with LogProbs; then Level words for each
	// level: Select's output, and from word Picks on Sample's.
	Drafted             kernels.View
	First, Level, Picks int
	// Head is (GatherHeadWords + 2·nodes) u32, which the host writes before a run:
	//
	//	0 the number of levels
	//	1 the number of nodes, with the root
	//	2 rows of the pass, at least as many
	//	3 committed positions
	//	4 the KV slot of padding rows
	//	5 the root's token
	//	6 1: the candidates of the nodes are given below; 0: the kernel selects them
	//	7… the slots of the nodes, then the candidates of the nodes, parents first (the root's is ignored)
	Head kernels.View
	// The input of the pass: its tokens (rows), the positions drawn for (rows), its rows (rows,
	// RowWords) and the lists of ancestors (rows, Stride).
	Tokens, Drawn, Rows, Ancestors kernels.View
	Stride                         int
	// Chosen is (nodes) u32: the candidate of each node, NotGathered for the root and for missing nodes.
	Chosen kernels.View
}

var gatherAccess = append(kernels.Inputs(2), webgpu.ReadWrite, webgpu.ReadWrite, webgpu.ReadWrite, webgpu.ReadWrite)

// RecordGather builds a token tree from drafted levels in the input buffers of the target's pass: EAGLE-2's reranking
// (Li et al. 2024, section 4.2), with the result of spec.Builder. Candidates are numbered level by level, beam by beam.
// The value of a candidate is the sum of ln q along its path, each term at most 0. The best candidates become nodes, in
// the order of their numbers; ties go to the lower number. A candidate whose value is NaN, whose probability is zero or
// whose token an earlier sibling has is excluded with all its descendants. Given candidates become nodes whatever their
// values.
//
// There may be MostGathered candidates in GatherLevels levels. Drafted and Head must be in other buffers than the
// outputs.
func RecordGather(r *kernels.Recorder, g Gathering) {
	if g.K < 1 || g.K > kernels.MaxTopK {
		panic("tree: RecordGather: K must be 1 to 64")
	}
	kernel := shaders.Source("gather", gatherAccess, kernels.Host{Ref: gatherRef, Entry: "gather"},
		kernels.Const("MOST", MostGathered))
	r.Add(kernel, [3]int{1, 1, 1}, kernels.Params(g.K, g.Picks, g.First, g.Level, g.Stride),
		g.Drafted, g.Head, g.Tokens, g.Drawn, g.Rows, g.Ancestors, g.Chosen)
}
