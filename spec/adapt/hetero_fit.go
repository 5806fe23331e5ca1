package adapt

import (
	"fmt"
	"math"

	"foretoken/spec"
)

// MinHeteroPaths is the minimum number of fully accepted paths for a fit of entropy bins.
const MinHeteroPaths = 500

// HeteroPoint describes one drafted tree, compared with the target's continuation.
type HeteroPoint struct {
	Phi  float64 `json:"phi"`  // nats; see MetaPath
	TCR  int     `json:"tcr"`  // see HeteroSample
	Full bool    `json:"full"` // the continuation is a path of the tree down to its last level
}

// MetaPath finds HeteroSpec's P* in drafted levels. P* goes through the beam of the last level whose distribution
// has the largest top-1 probability, the first of equals. Φ is Σ_t -Σ p̃ ln p̃ over every distribution on the way,
// from the root's to the last, where p̃ are the renormalised probabilities of its K candidates and ln is the
// natural logarithm (Liu et al., "HeteroSpec: Leveraging Contextual Heterogeneity for Efficient Speculative
// Decoding", §3.1). nodes is the number of nodes of P*, from the root to the top-1 token of the last distribution.
func MetaPath(levels []spec.Level) (phi float64, nodes int) {
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

// topEntropy returns the entropy in nats of one beam's candidates, renormalised.
func topEntropy(candidates []spec.Candidate, beam int32) float64 {
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

// HeteroSample compares drafted levels with the target's continuation after the same root, by teacher forcing and
// without verification. It builds EAGLE-2's tree of the given number of nodes. TCR, the top-candidate rank, belongs
// to the last node of the longest prefix of the continuation in the tree: its 1-based rank by V among the nodes, of
// which the root has rank 1. The levels may be the first ones of a deeper draft. A path is not full if the
// continuation is shorter than the tree is deep.
func HeteroSample(levels []spec.Level, nodes int, continuation []int32) (HeteroPoint, error) {
	var b spec.Builder
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
	p := HeteroPoint{TCR: tree.Rank(at), Full: len(levels) > 0 && int(tree.Depths[at]) == len(levels)}
	p.Phi, _ = MetaPath(levels)
	return p, nil
}

// FitHetero fits entropy bins to the fully accepted paths in points: the leaves of a regression tree on Φ that predicts
// TCR. The caller adds the temperature and the prompts. Fewer than MinHeteroPaths paths are an error that says how many
// are missing.
func FitHetero(points []HeteroPoint, o HeteroFitting) (*HeteroFit, error) {
	if err := o.Validate(); err != nil {
		return nil, fmt.Errorf("spec: fitting entropy bins: %w", err)
	}
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
		return nil, fmt.Errorf("spec: %d of %d draft trees hold a fully accepted path, but entropy bins need at "+
			"least %d: %d are missing; give more prompts or longer continuations",
			len(paths), len(points), MinHeteroPaths, missing)
	}
	if o.Leaf == 0 {
		o.Leaf = (len(paths) + 49) / 50
	}
	f := &HeteroFit{HeteroFitting: o, Edges: cart(paths, o.CARTDepth, o.Leaf, o.Weighted)}
	if f.Edges == nil {
		f.Edges = []float64{} // an empty array in the file, not null
	}
	n := len(f.Edges) + 1
	f.Means, f.Counts, f.Rounds = make([]float64, n), make([]int, n), make([]int, n)
	for _, p := range points {
		f.Rounds[f.Bin(p.Phi)]++
	}
	for _, p := range paths {
		i := f.Bin(p.x)
		f.Means[i] += p.y
		f.Counts[i]++
	}
	for i := range f.Means {
		f.Means[i] /= float64(f.Counts[i])
	}
	return f, nil
}
