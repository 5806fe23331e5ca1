package tree

import (
	"math"

	"foretoken/webgpu/kernels"
)

// Perceptron is the classifier of candidates that Prune evaluates: a layer of ReLUs and one output, the logit of the
// confidence.
type Perceptron struct {
	Units []PerceptronUnit
	Bias  float32 // of the output
}

// PerceptronUnit is a ReLU. Its inputs are the joint probability, the entropy in nats and the depth, from 1.
type PerceptronUnit struct {
	Probability, Entropy, Depth float32 // weights of the inputs
	Bias                        float32
	Output                      float32 // weight of the unit in the output
}

const (
	// PruneHeadWords is the length of the head of Pruning.Net, which a draft initialises and its levels update.
	PruneHeadWords = 4
	pruneFixed     = 8 // words before the units
	pruneUnit      = 5
	// MostPruneUnits is the maximum number of units.
	MostPruneUnits = 1024
	// MostPruned is the maximum number of beams, and of candidates a beam; see kernels.MaxSteps.
	MostPruned = 32
	// PruneWords is the length of Pruning.Net.
	PruneWords = pruneFixed + pruneUnit*MostPruneUnits
)

// PruneHead returns the head of Net at the start of a draft: the tree consists of the root, which proposes, and may
// grow to the given number of nodes; candidates remain if their confidence is above beta, in the open interval (0, 1).
func PruneHead(nodes int, beta float64) [PruneHeadWords]uint32 {
	return [PruneHeadWords]uint32{1, 1, uint32(nodes), kernels.Word(math.Log(beta) - math.Log1p(-beta))}
}

// Words encodes p as the words of Net after the head.
func (p *Perceptron) Words() []uint32 {
	words := []uint32{uint32(len(p.Units)), math.Float32bits(p.Bias), 0, 0}
	for _, u := range p.Units {
		for _, v := range []float32{u.Probability, u.Entropy, u.Depth, u.Bias, u.Output} {
			words = append(words, math.Float32bits(v))
		}
	}
	return words
}

// Pruning selects the beams of one level by a classifier. As in a Selection, Sample has written the k best ids and ln q
// of each proposing beam, and candidate c is rank c%K of beam c/K.
type Pruning struct {
	Beams    int // maximum number of proposing beams: 1 at the first level, then K
	K        int // 1 to MostPruned
	Depth    int // number of drafted ancestors of a proposing beam, with the beam: 0 at the first level
	MaxDepth int // the width of the ancestor lists; greater than Depth
	// Samples is (Beams, SampleWords(K)) u32: Sample's output with LogProbs.
	Samples kernels.View
	// Paths is f32: ln of the joint probability of the proposing beams from word From on, of the next beams from word
	// To on.
	Paths    kernels.View
	From, To int
	// Ancestors is (K, MaxDepth) u32 and Slots (K) u32, as a Selection's.
	Ancestors, Slots kernels.View

	NextTokens    kernels.View // (K) u32: the input tokens of the next beams
	NextAncestors kernels.View // (K, MaxDepth) u32, Depth+1 of each list set
	// Out is SelectWords u32 for the host: the candidates that became beams, in the order of their numbers, padded with
	// NotGiven (K); then the logit of the confidence of each candidate (Beams·K, f32), lowPrune for excluded ones.
	Out kernels.View
	Net kernels.View // PruneWords u32: PruneHead, then Perceptron.Words
}

// RecordPrune is C2T's expansion step (Huo et al. 2025, section 3.2): of the candidates whose confidence is above the
// threshold, the K most confident remain, but no more than the tree has room for; ties go to the lower candidate. One
// dispatch of one workgroup, because each candidate is compared with all others.
//
// The views may be disjoint ranges of one buffer, except Slots, which must be in another buffer.
func RecordPrune(r *kernels.Recorder, p Pruning) {
	if p.K < 1 || p.K > MostPruned || p.Beams < 1 || p.Beams > MostPruned || p.Depth >= p.MaxDepth {
		panic("tree: RecordPrune: K and Beams must be 1 to 32, Depth below MaxDepth")
	}
	params := kernels.Params(p.Beams, p.K, p.Depth, p.MaxDepth, p.From, p.To)
	r.Add(shaders.Source("prune", selectAccess, kernels.Host{Ref: pruneRef, Entry: "prune"}), [3]int{1, 1, 1}, params,
		p.Samples, p.Paths, p.Ancestors, p.Slots, p.NextTokens, p.NextAncestors, p.Out, p.Net)
}
