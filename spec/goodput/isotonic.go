package goodput

import (
	"fmt"
	"math"
)

const (
	// isotonicBins is the number of bins of the score in a Calibrator, and lowestScore is ln of the score in the centre
	// of the first one. Held by TestCalibrationLearnsAndNeverFalls.
	isotonicBins = 18
	lowestScore  = -9.0
	// priorOutcomes is the number of outcomes that the prior of a bin weighs. Held by TestRepeatedTextNeedsNoDraft.
	priorOutcomes = 2.0
	// outcomesHalving is the number of a bin's outcomes after which an old one weighs half. Held by
	// TestOldOutcomesAreForgotten.
	outcomesHalving = 400
)

// Calibrator maps scores to probabilities learnt from outcomes. It is an isotonic regression by pooling adjacent
// violators (Ayer et al., "An Empirical Distribution Function for Sampling with Incomplete Information", 1955; for
// classifier scores Zadrozny and Elkan, "Transforming Classifier Scores into Accurate Multiclass Probability
// Estimates", 2002) over counts in bins of ln score. The prior of a bin is its score times 1-doubt. The zero value
// is ready. A Calibrator is not safe for concurrent use.
type Calibrator struct {
	// Seen and Hits hold per bin the decayed counts of outcomes and of hits. Both are empty or have isotonicBins
	// values.
	Seen []float64 `json:"seen,omitempty"`
	Hits []float64 `json:"hits,omitempty"`

	doubt  float64   // in [0, 1): discount of the score in the prior
	fitted []float64 // (isotonicBins) probabilities at the bins' centres; empty: Chance has to fit
}

// binOf returns the bin below a score in (0, 1] and how far the score is on the way from that bin's centre to the
// next, in [0, 1].
func binOf(score float64) (bin int, share float64) {
	x := lowestScore
	if score > 0 {
		x = min(max(math.Log(score), lowestScore), 0)
	}
	// The scale is the square root of -ln score: bins get narrower towards 1, where most scores are.
	at := (1 - math.Sqrt(x/lowestScore)) * (isotonicBins - 1)
	bin = min(int(at), isotonicBins-2)
	return bin, at - float64(bin)
}

// centres are the scores at the centres of the bins.
var centres = func() (all [isotonicBins]float64) {
	for bin := range all {
		r := 1 - float64(bin)/(isotonicBins-1)
		all[bin] = math.Exp(lowestScore * r * r)
	}
	return all
}()

// Learn counts an outcome of a candidate with the given score.
func (c *Calibrator) Learn(score float64, hit bool) {
	if len(c.Seen) != isotonicBins || len(c.Hits) != isotonicBins {
		c.Seen, c.Hits = make([]float64, isotonicBins), make([]float64, isotonicBins)
	}
	bin, share := binOf(score)
	if share >= 0.5 {
		bin++
	}
	keep := math.Exp2(-1.0 / outcomesHalving)
	c.Seen[bin] = c.Seen[bin]*keep + 1
	c.Hits[bin] *= keep
	if hit {
		c.Hits[bin]++
	}
	c.fitted = c.fitted[:0]
}

// Chance returns the calibrated probability of a score, linear between the bins' centres. It does not fall as the
// score rises.
func (c *Calibrator) Chance(score float64) float64 {
	if len(c.fitted) == 0 { // pool adjacent bins until the probabilities do not fall
		c.fitted = isotonic(c.fitted, isotonicBins, func(i int) (weight, sum float64) {
			weight, sum = priorOutcomes, priorOutcomes*centres[i]*(1-c.doubt)
			if len(c.Seen) == isotonicBins {
				weight, sum = weight+c.Seen[i], sum+c.Hits[i]
			}
			return weight, sum
		})
	}
	bin, share := binOf(score)
	return c.fitted[bin]*(1-share) + c.fitted[bin+1]*share
}

// isotonic returns n values made non-decreasing: it replaces neighbours by their mean where they fall (pool adjacent
// violators). at returns the weight and the weighted sum of a value. It reuses dst.
func isotonic(dst []float64, n int, at func(i int) (weight, sum float64)) []float64 {
	type block struct { // neighbours with one mean
		weight, sum float64
		values      int
	}
	var room [24]block
	blocks := room[:0]
	for i := range n {
		b := block{values: 1}
		b.weight, b.sum = at(i)
		for k := len(blocks) - 1; k >= 0 && blocks[k].sum*b.weight > b.sum*blocks[k].weight; k-- {
			b = block{b.weight + blocks[k].weight, b.sum + blocks[k].sum, b.values + blocks[k].values}
			blocks = blocks[:k]
		}
		blocks = append(blocks, b)
	}
	dst = dst[:0]
	for _, b := range blocks {
		for range b.values {
			dst = append(dst, b.sum/b.weight)
		}
	}
	return dst
}

// validate returns an error for counts that Learn cannot produce.
func (c *Calibrator) validate() error {
	if len(c.Seen) == 0 && len(c.Hits) == 0 {
		return nil
	}
	if len(c.Seen) != isotonicBins || len(c.Hits) != isotonicBins {
		return fmt.Errorf("%d and %d bins, want %d", len(c.Seen), len(c.Hits), isotonicBins)
	}
	for i, n := range c.Seen {
		if !(n >= 0) || math.IsInf(n, 0) || !(c.Hits[i] >= 0) || c.Hits[i] > n {
			return fmt.Errorf("bin %d has %v hits of %v", i, c.Hits[i], n)
		}
	}
	return nil
}

// mixer combines the probabilities of several sources into one. It is an online logistic regression over the sources'
// log odds (the "logistic mixing" of Mahoney, "Adaptive Weighing of Context Models for Lossless Data Compression",
// 2005). The sources differ from node to node, so each set of sources has its own weights. The zero value is ready.
type mixer struct {
	Sets map[uint]*mixing `json:"sets,omitempty"` // by the bits of the sources
}

// mixing holds the weights of one set of sources.
type mixing struct {
	Weights []float64 `json:"weights"` // (sources+1): one for each source in order, and the bias
	Rate    float64   `json:"rate"`    // learning rate, decaying
}

const (
	// firstRate is held by TestTreesEndAtTheEndsOfStairs. Without a lower lastRate, the figure for eight requests of
	// TestNeverSlowerThanPlainAndCloseToTheBest falls by 0.8 %.
	firstRate = 0.15
	lastRate  = 0.02
	// mostWeight bounds weights, which outcomes that all agree would raise without end.
	mostWeight = 4
	// surest is the highest probability: below 1, so that a node is always less likely than its parent.
	surest = 0.995
)

func logit(p float64) float64 {
	p = min(max(p, 1e-4), surest)
	return math.Log(p / (1 - p))
}

func sigmoid(x float64) float64 { return 1 / (1 + math.Exp(-x)) }

// set returns the weights for n sources, and makes initial ones for a new set.
func (m *mixer) set(sources uint, n int) *mixing {
	if s := m.Sets[sources]; s != nil && len(s.Weights) == n+1 {
		return s
	}
	if m.Sets == nil {
		m.Sets = map[uint]*mixing{}
	}
	s := &mixing{Weights: make([]float64, n+1), Rate: firstRate}
	for i := range n {
		s.Weights[i] = 1 / float64(n)
	}
	m.Sets[sources] = s
	return s
}

// chance mixes the probabilities of the sources whose bits are set, in the order of the bits.
func (m *mixer) chance(sources uint, chances []float64) float64 {
	s := m.set(sources, len(chances))
	x := s.Weights[len(chances)]
	for i, p := range chances {
		x += s.Weights[i] * logit(p)
	}
	return min(max(sigmoid(x), 1e-4), surest)
}

// learn takes one gradient step on an outcome.
func (m *mixer) learn(sources uint, chances []float64, hit bool) {
	s := m.set(sources, len(chances))
	miss := -m.chance(sources, chances)
	if hit {
		miss++
	}
	step := func(i int, x float64) {
		s.Weights[i] = min(max(s.Weights[i]+s.Rate*miss*x, -mostWeight), mostWeight)
	}
	for i, p := range chances {
		step(i, logit(p))
	}
	step(len(chances), 1)
	s.Rate = max(lastRate, s.Rate*0.98)
}

func (m *mixer) validate() error {
	for _, s := range m.Sets {
		if s == nil || len(s.Weights) < 2 {
			return fmt.Errorf("a set of sources has no weights")
		}
		for _, w := range append([]float64{s.Rate}, s.Weights...) {
			if math.IsNaN(w) || math.Abs(w) > mostWeight {
				return fmt.Errorf("weights %v with rate %v", s.Weights, s.Rate)
			}
		}
	}
	return nil
}
