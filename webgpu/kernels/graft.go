package kernels

import "foretoken/webgpu"

// MostGrafted is how many candidates Graft chooses among at most, GraftLevels how many levels of them.
const (
	MostGrafted = 1024
	GraftLevels = 65
)

// GraftHeadWords is the length of Graft's head view without slots and candidates.
const GraftHeadWords = 7

// NotGrafted stands in Graft's output where a node is no candidate.
const NotGrafted = ^uint32(0)

// Grafted is how many candidates there are in so many levels of k beams of k.
func Grafted(levels, k int) int { return k + (levels-1)*k*k }

// GraftedLevel is the level that a candidate is in, 0 for the root's.
func GraftedLevel(candidate uint32, k int) int {
	if int(candidate) < k {
		return 0
	}
	return 1 + (int(candidate)-k)/(k*k)
}

// Grafting is the choice of a tree's nodes among drafted levels: the root's k candidates, then k of
// each of k beams a level.
type Grafting struct {
	K int
	// Drafted is u32: the root's result of First words, Sample's output with LogProbs; then
	// every level's of Level words, each Select's output, at Picks words Sample's.
	Drafted             View
	First, Level, Picks int
	// Head is (GraftHeadWords + 2·nodes) u32, which the host writes before a run: levels; nodes, the root
	// included; rows of the pass, at least as many; committed positions; the slot of padding rows; the
	// root's token; 1 where the nodes are given; the slots of the nodes; the candidate of each, parents
	// first, where they are given (the root's is ignored).
	Head View
	// The input of the pass: its tokens (rows), the positions drawn for (rows), its rows (rows,
	// RowWords) and the lists of ancestors (rows, Stride).
	Tokens, Drawn, Rows, Ancestors View
	Stride                         int
	Chosen                         View // (nodes) u32: the candidate of each node, NotGrafted for the root and where there is none
}

var graftAccess = []webgpu.Access{webgpu.Constants, webgpu.ReadOnly, webgpu.ReadOnly, webgpu.ReadWrite, webgpu.ReadWrite,
	webgpu.ReadWrite, webgpu.ReadWrite, webgpu.ReadWrite}

// Graft makes a token tree of drafted levels where the target's pass reads it: EAGLE-2's reranking (Li
// et al. 2024, section 4.2), as spec.Builder does it. A candidate's value is the sum of ln q along
// its path, each at most 0; of all candidates the best are nodes, ties to the earlier, in the order of
// candidates. What is not a number, of probability zero, or holds the token of an earlier
// sibling is no node, nor is anything below it. Given nodes are those whatever their values. Candidates are numbered level by level, beam by beam.
//
// There may be MostGrafted candidates in GraftLevels levels. Drafted and Head must be in other buffers than the
// views that are written.
func (r *Recorder) Graft(g Grafting) {
	if g.K < 1 || g.K > maxTopK {
		panic("kernels: Graft: K must be 1 to 64")
	}
	params := []uint32{u32(g.K), u32(g.Picks), u32(g.First), u32(g.Level), u32(g.Stride)}
	r.add(source("graft", graftAccess, graftRef, constant{"MOST", uint32(MostGrafted)}, constant{"LEVELS", uint32(GraftLevels)}), [3]int{1, 1, 1}, params,
		g.Drafted, g.Head, g.Tokens, g.Drawn, g.Rows, g.Ancestors, g.Chosen)
}
