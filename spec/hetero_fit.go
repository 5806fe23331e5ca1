package spec

import (
	"fmt"
	"math"
)

// MinHeteroPaths is how many fully accepted paths a fit of entropy bins takes.
const MinHeteroPaths = 500

// HeteroPoint is one drafted tree, compared with the target's own continuation.
type HeteroPoint struct {
	Phi  float64 `json:"phi"`  // nats; see MetaPath
	TCR  int     `json:"tcr"`  // see HeteroSample
	Full bool    `json:"full"` // the continuation is a path of the tree down to its last level
}

// MetaPath finds HeteroSpec's P* in drafted levels and measures it. P* goes through the
// beam of the last level whose distribution has the largest top-1 probability,
// the first among equals. Φ is Σ_t -Σ p̃ ln p̃ over every distribution met on the way, the
// root's and the last included, with p̃ the probabilities of its K candidates,
// renormalised; natural log (Liu et al., "HeteroSpec: Leveraging Contextual
// Heterogeneity for Efficient Speculative Decoding", §3.1). nodes is how many nodes P*
// has, the root and the last distribution's top-1 token included.
func MetaPath(levels []Level) (phi float64, nodes int) {
	if len(levels) == 0 {
		return 0, 1
	}
	beam, best := int32(0), math.Inf(-1)
	for _, c := range levels[len(levels)-1].Candidates {
		if q := float64(c.LogQ); q > best {
			beam, best = c.Beam, q
		}
	}
	for d := len(levels) - 1; ; d-- {
		phi += topEntropy(levels[d].Candidates, beam)
		if d == 0 {
			return phi, len(levels) + 1
		}
		above := &levels[d-1]
		if int(beam) >= len(above.Beams) || int(above.Beams[beam]) >= len(above.Candidates) {
			return phi, len(levels) + 1 // the levels contradict themselves, which Builder reports
		}
		beam = above.Candidates[above.Beams[beam]].Beam
	}
}

// topEntropy is the entropy in nats of the candidates of one beam, renormalised.
func topEntropy(candidates []Candidate, beam int32) float64 {
	total, sum := 0.0, 0.0 // Σq and -Σq ln q
	for _, c := range candidates {
		if q := math.Exp(float64(c.LogQ)); c.Beam == beam && q > 0 {
			total += q
			sum -= q * float64(c.LogQ)
		}
	}
	if total == 0 {
		return 0
	}
	// -Σ (q/S) ln(q/S) = -Σ q ln q / S + ln S; rounding may take it below 0.
	return max(sum/total+math.Log(total), 0)
}

// treeRank is the place of a node by V among the nodes of its tree, from 1: the root's.
// The lower index goes first among equals.
func treeRank(t *Tree, node int32) int {
	rank := 1
	for i, v := range t.Scores {
		if v > t.Scores[node] || v == t.Scores[node] && int32(i) < node {
			rank++
		}
	}
	return rank
}

// HeteroSample compares drafted levels with what the target said after the same root, by
// teacher forcing: nothing is verified. The tree is EAGLE-2's of the given nodes. TCR,
// the top-candidate rank, is the 1-based rank by V, within the nodes of that tree
// (the root, of rank 1, is one of them), of the last node of the longest prefix of
// the continuation that the tree holds. The levels may be the first of a deeper draft.
// Where the continuation ends before the tree does, the path is not full.
func HeteroSample(levels []Level, nodes int, continuation []int32) (HeteroPoint, error) {
	var b Builder
	tree, err := b.Build(0, levels, nodes)
	if err != nil {
		return HeteroPoint{}, err
	}
	at := int32(0)
	for _, token := range continuation {
		next := tree.Child(at, token)
		if next < 0 {
			break
		}
		at = next
	}
	p := HeteroPoint{TCR: treeRank(tree, at), Full: len(levels) > 0 && int(tree.Depths[at]) == len(levels)}
	p.Phi, _ = MetaPath(levels)
	return p, nil
}

// FitHetero fits entropy bins to the fully accepted paths among points: the leaves of a
// regression tree of depth 3 on Φ, for TCR. leaf is the least number of paths in a
// bin; 0 is a fiftieth of them. Fewer than MinHeteroPaths paths are an error that
// says how many are missing.
func FitHetero(points []HeteroPoint, leaf int) (*HeteroFit, error) {
	var paths []xy
	for i, p := range points {
		if math.IsNaN(p.Phi) || math.IsInf(p.Phi, 0) || p.Phi < 0 || p.TCR < 1 {
			return nil, fmt.Errorf("spec: sample %d of the entropy bins has Φ %v and rank %d", i, p.Phi, p.TCR)
		}
		if p.Full {
			paths = append(paths, xy{p.Phi, float64(p.TCR)})
		}
	}
	if missing := MinHeteroPaths - len(paths); missing > 0 {
		return nil, fmt.Errorf("spec: %d of %d draft trees hold a fully accepted path, but entropy bins are fitted to at least %d: "+
			"%d are missing; give more prompts or longer continuations", len(paths), len(points), MinHeteroPaths, missing)
	}
	return fitBins(paths, leaf), nil
}

func fitBins(paths []xy, leaf int) *HeteroFit {
	if leaf <= 0 {
		leaf = (len(paths) + 49) / 50
	}
	f := &HeteroFit{Edges: cart(paths, heteroDepth, leaf)}
	if f.Edges == nil {
		f.Edges = []float64{} // an empty array in the file, not null
	}
	f.Means, f.Counts = make([]float64, len(f.Edges)+1), make([]int, len(f.Edges)+1)
	for _, p := range paths {
		i := f.Bin(p.x)
		f.Means[i] += p.y
		f.Counts[i]++
	}
	for i := range f.Means {
		f.Means[i] /= float64(f.Counts[i])
	}
	return f
}

// LowEntropyOverlap is the check of the paper that the depth of the draft tree hardly
// matters for which contexts count as predictable: the Jaccard overlap |A∩B|/|A∪B| of
// the low-entropy sets of several depths. points[i][j] is round j drafted to the ith depth. A
// depth's low-entropy set are the rounds, fully accepted or not, whose Φ falls in
// its low bins (see HeteroFit.Low), fitted to that depth's own fully accepted
// paths. Cell (i, j) of the result is the overlap of depths i and j; 0 where both sets are empty.
func LowEntropyOverlap(points [][]HeteroPoint, leaf int) ([][]float64, error) {
	low := make([][]bool, len(points))
	for i, rounds := range points {
		if len(rounds) != len(points[0]) {
			return nil, fmt.Errorf("spec: the overlap of depths takes the same rounds at each, but there are %d and %d", len(points[0]), len(rounds))
		}
		fit, err := FitHetero(rounds, leaf)
		if err != nil {
			return nil, err
		}
		for _, p := range rounds {
			low[i] = append(low[i], fit.Bin(p.Phi) < fit.Low())
		}
	}
	overlap := make([][]float64, len(points))
	for i := range low {
		for j := range low {
			both, either := 0, 0
			for k := range low[i] {
				if low[i][k] && low[j][k] {
					both++
				}
				if low[i][k] || low[j][k] {
					either++
				}
			}
			overlap[i] = append(overlap[i], ratio(both, either))
		}
	}
	return overlap, nil
}
