package kernels

import (
	"math"

	"foretoken/webgpu"
)

// Perceptron is a classifier of candidates as Prune evaluates it: a layer of ReLUs and one output, of which a sigmoid would
// make a confidence.
type Perceptron struct {
	Units []PerceptronUnit
	Bias  float32 // of the output
}

// PerceptronUnit is a ReLU.
type PerceptronUnit struct {
	Probability, Entropy, Depth float32 // weights of the joint probability, of the entropy in nats and of the depth, from 1
	Bias                        float32
	Output                      float32 // the output's weight of it
}

const (
	// PruneHeadWords begin the buffer that Prune's Net is in: what a draft begins with, and what its levels count there.
	PruneHeadWords = 4
	pruneFixed     = 8 // words before the units
	pruneUnit      = 5
	// MostPruneUnits is the most units that a buffer of PruneWords has room for.
	MostPruneUnits = 1024
	// MostPruned is the most candidates a beam, and beams, that Prune compares. Mesa's software adapter ends the loops of a shader after 65,535
	// iterations in all, without a word.
	MostPruned = 32
	// PruneWords is the length of Prune's Net.
	PruneWords = pruneFixed + pruneUnit*MostPruneUnits
)

// PruneHead is the first words of Net as a draft begins with them: the root alone is there and proposes, the tree may have so many nodes, and
// candidates stay whose confidence is above beta, in the open interval (0, 1).
func PruneHead(nodes int, beta float64) [PruneHeadWords]uint32 {
	return [PruneHeadWords]uint32{1, 1, u32(nodes), f32(math.Log(beta) - math.Log1p(-beta))}
}

// Words are those of Net after the head.
func (p *Perceptron) Words() []uint32 {
	words := []uint32{u32(len(p.Units)), math.Float32bits(p.Bias), 0, 0}
	for _, u := range p.Units {
		for _, v := range []float32{u.Probability, u.Entropy, u.Depth, u.Bias, u.Output} {
			words = append(words, math.Float32bits(v))
		}
	}
	return words
}

// Pruning is one level's choice of beams by a classifier. As in a Selection, Sample has written the k best ids and ln q of
// each proposing beam, and candidate c is rank c%K of beam c/K.
type Pruning struct {
	Beams    int // proposing at most: 1 at the first level, K after
	K        int // 1 to MostPruned
	Depth    int // drafted ancestors of a proposing beam, itself included: 0 at the first level
	MaxDepth int // the width of the ancestor lists; greater than Depth
	// Samples is (Beams, SampleWords(K)) u32: Sample's output with LogProbs.
	Samples View
	// Paths is f32: ln of the joint probability of the proposing beams from word From on, and of the next ones from word To on.
	Paths    View
	From, To int
	// Ancestors is (K, MaxDepth) u32 and Slots (K) u32, as a Selection's.
	Ancestors, Slots View

	NextTokens    View // (K) u32: what the next beams consume
	NextAncestors View // (K, MaxDepth) u32, Depth+1 of each list set
	// Out is SelectWords u32 for the host: the candidates that became beams, in their own order, then NotGiven (K); then what the sigmoid is
	// taken of for every candidate (Beams·K, f32), very low for those without a chance.
	Out View
	Net View // PruneWords u32: PruneHead's, then Perceptron.Words'
}

var pruneAccess = []webgpu.Access{webgpu.Constants, webgpu.ReadWrite, webgpu.ReadWrite, webgpu.ReadWrite, webgpu.ReadOnly,
	webgpu.ReadWrite, webgpu.ReadWrite, webgpu.ReadWrite, webgpu.ReadWrite}

// Prune is C2T's expansion step (Huo et al. 2025, section 3.2): candidates whose confidence is above the threshold stay, of these the K most
// confident, ties to the lower candidate, and no more than the tree has room for. One dispatch of one workgroup, since every candidate is
// compared with all others.
//
// The views may be ranges of one buffer that do not overlap, except Slots, which must be in a buffer that no other view is in.
func (r *Recorder) Prune(p Pruning) {
	if p.K < 1 || p.K > MostPruned || p.Beams < 1 || p.Beams > MostPruned || p.Depth >= p.MaxDepth {
		panic("kernels: Prune: K and Beams must be 1 to 32, Depth below MaxDepth")
	}
	params := []uint32{u32(p.Beams), u32(p.K), u32(p.Depth), u32(p.MaxDepth), u32(p.From), u32(p.To)}
	r.add(source("prune", pruneAccess, pruneRef), [3]int{1, 1, 1}, params,
		p.Samples, p.Paths, p.Ancestors, p.Slots, p.NextTokens, p.NextAncestors, p.Out, p.Net)
}
