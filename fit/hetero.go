package fit

import (
	"math"
	"math/rand/v2"
	"slices"

	"foretoken/spec/adapt"
)

// HeteroComparison tells how the bins of one fit depend on its settings and on the prompts.
type HeteroComparison struct {
	adapt.HeteroFitting
	Bins    int     `json:"bins"`
	LowEdge float64 `json:"low_edge"` // greatest Φ of a low bin in nats; -1 without low bins
	Low     float64 `json:"low"`      // share of rounds in low bins
	// Overlap is the Jaccard overlap of the rounds in low bins with those of the first fit of the same weighting.
	Overlap float64 `json:"overlap"`
	// The prompts are drawn again with replacement, as many of them, and the bins fitted again. EdgeSD is the mean
	// over the edges of the low bins of their standard deviations in nats, and LowSD the standard deviation of LowEdge.
	// Redrawn is the mean Jaccard overlap of the rounds in low bins with those of the fit to all prompts.
	EdgeSD  float64 `json:"edge_sd"`
	LowSD   float64 `json:"low_sd"`
	Redrawn float64 `json:"redrawn"`
}

// CompareHetero fits entropy bins with each of the settings to the points of several prompts, and again to draws drawn
// sets of prompts. A draw with too few paths for a fit does not count.
func CompareHetero(prompts [][]adapt.HeteroPoint, settings []adapt.HeteroFitting, draws int,
	seed uint64) ([]HeteroComparison, error) {
	points := slices.Concat(prompts...)
	first := map[bool]*adapt.HeteroFit{} // by weighting
	var all []HeteroComparison
	for _, o := range settings {
		f, err := adapt.FitHetero(points, o)
		if err != nil {
			return nil, err
		}
		if first[o.Weighted] == nil {
			first[o.Weighted] = f
		}
		c := HeteroComparison{HeteroFitting: f.HeteroFitting, Bins: len(f.Means), LowEdge: f.LowEdge(),
			Low: f.LowShare(), Overlap: LowOverlap(points, f, first[o.Weighted])}
		c.redraw(prompts, points, f, o, draws, seed)
		all = append(all, c)
	}
	return all, nil
}

// redraw fits to drawn sets of prompts, the same sets for all settings.
func (c *HeteroComparison) redraw(prompts [][]adapt.HeteroPoint, points []adapt.HeteroPoint, f *adapt.HeteroFit,
	o adapt.HeteroFitting, draws int, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, uint64(len(prompts))))
	edges := make([][]float64, f.Low())
	done := 0
	var drawn []adapt.HeteroPoint
	for range draws {
		drawn = drawn[:0]
		for range prompts {
			drawn = append(drawn, prompts[rng.IntN(len(prompts))]...)
		}
		again, err := adapt.FitHetero(drawn, o)
		if err != nil {
			continue
		}
		done++
		c.Redrawn += LowOverlap(points, f, again)
		for i := range min(len(edges), again.Low()) {
			edges[i] = append(edges[i], again.Edges[i])
		}
	}
	if done == 0 || len(edges) == 0 {
		return
	}
	c.Redrawn /= float64(done)
	for _, e := range edges {
		c.EdgeSD += deviation(e) / float64(len(edges))
	}
	c.LowSD = deviation(edges[len(edges)-1])
}

// deviation returns the standard deviation of a sample; 0 for fewer than two values.
func deviation(x []float64) float64 {
	if len(x) < 2 {
		return 0
	}
	mean, sum := 0.0, 0.0
	for _, v := range x {
		mean += v / float64(len(x))
	}
	for _, v := range x {
		sum += (v - mean) * (v - mean)
	}
	return math.Sqrt(sum / float64(len(x)-1))
}

// LowOverlap returns the Jaccard overlap of the points in the low bins of two fits: the size of the intersection over
// the union's; 1 if both are empty.
func LowOverlap(points []adapt.HeteroPoint, a, b *adapt.HeteroFit) float64 {
	both, either := 0, 0
	for _, p := range points {
		inA, inB := p.Phi <= a.LowEdge(), p.Phi <= b.LowEdge()
		if inA && inB {
			both++
		}
		if inA || inB {
			either++
		}
	}
	if either == 0 {
		return 1
	}
	return float64(both) / float64(either)
}
