package bench

import (
	"math"
	"slices"
	"time"

	"foretoken/spec"
	"foretoken/spec/adapt"
)

// Histogram counts values in intervals of equal width from 0, and the hits among them. The last interval includes
// all larger values.
type Histogram struct {
	Width float64 `json:"width"`
	Most  int     `json:"most"` // intervals at most
	N     []int   `json:"n"`
	Hits  []int   `json:"hits"`
}

// Add counts a value and ignores NaN.
func (h *Histogram) Add(x float64, hit bool) {
	if math.IsNaN(x) || h.Width <= 0 {
		return
	}
	i := h.Most - 1
	if at := max(x, 0) / h.Width; at < float64(i) {
		i = int(at)
	}
	for len(h.N) <= i {
		h.N, h.Hits = append(h.N, 0), append(h.Hits, 0)
	}
	h.N[i]++
	if hit {
		h.Hits[i]++
	}
}

// Total returns the numbers of values and of hits.
func (h *Histogram) Total() (n, hits int) {
	for i := range h.N {
		n, hits = n+h.N[i], hits+h.Hits[i]
	}
	return n, hits
}

func (h *Histogram) merge(o *Histogram) {
	if h.Width == 0 {
		h.Width, h.Most = o.Width, o.Most
	}
	for len(h.N) < len(o.N) {
		h.N, h.Hits = append(h.N, 0), append(h.Hits, 0)
	}
	for i := range o.N {
		h.N[i] += o.N[i]
		h.Hits[i] += o.Hits[i]
	}
}

// AUC is the area under the ROC curve of ranking by value: the probability that a hit has a larger value than a
// miss, ties counted half. Values in one interval are ties. Without hits or misses it is 0.
func (h *Histogram) AUC() float64 {
	n, hits := h.Total()
	misses := n - hits
	if hits == 0 || misses == 0 {
		return 0
	}
	area, below := 0.0, 0
	for i := range h.N {
		miss := h.N[i] - h.Hits[i]
		area += float64(h.Hits[i]) * (float64(below) + float64(miss)/2)
		below += miss
	}
	return area / (float64(hits) * float64(misses))
}

// BinFigures counts the rounds of one entropy bin of HeteroSpec.
type BinFigures struct {
	Bin int `json:"bin"` // from 1; 0: a tree without bins
	// Phi counts rounds by the cumulative entropy Φ of the meta-path, in nats; a hit accepted a path down to the
	// deepest level of the base tree.
	Phi Histogram `json:"phi"`
	// TCR counts rounds with an accepted token by the rank by V, from 1, of the last accepted node among the
	// verified ones; a hit is as in Phi.
	TCR Histogram `json:"tcr"`
}

// Figures counts over rounds what the papers' figures show.
type Figures struct {
	// Entropy counts nodes with drafted children on the accepted path, the root included, by the entropy in nats of
	// the distribution of the children; a hit had a child accepted.
	Entropy Histogram `json:"entropy"`
	// Estimates counts drafted tokens with an accepted parent by the acceptance head's estimate; a hit was
	// accepted. The curve shows the head's calibration.
	Estimates Histogram `json:"estimates"`
	// Distances counts the tokens that AdaSD's verifier compared by the distance D of draft and target; a hit was
	// accepted.
	Distances Histogram `json:"distances"`
	// Logits counts nodes with drafted children on the accepted path, the root included, by the target's largest logit
	// z1; at a hit the second largest, z2, is above 0 too, so that MARS may relax. Ratios counts the hits by z2/z1; of
	// these, a hit had a child accepted in place of the target's token.
	Logits Histogram    `json:"logits"`
	Ratios Histogram    `json:"ratios"`
	Bins   []BinFigures `json:"bins,omitempty"`
	// Rounds counts rounds after a text's first, Joint those that drafted and verified in one submit, and Submits the
	// device's submits in them.
	Rounds  int `json:"rounds,omitempty"`
	Joint   int `json:"joint,omitempty"`
	Submits int `json:"submits,omitempty"`
	// DecisionNS is the time spent on computing Φ, and DecodeNS the time of decoding, in nanoseconds.
	DecisionNS int64 `json:"decision_ns,omitempty"`
	DecodeNS   int64 `json:"decode_ns,omitempty"`
}

func newFigures() *Figures {
	return &Figures{Entropy: Histogram{Width: 0.5, Most: 20}, Estimates: Histogram{Width: 0.05, Most: 20},
		Distances: Histogram{Width: 0.05, Most: 20}, Logits: Histogram{Width: 1, Most: 40},
		Ratios: Histogram{Width: 0.02, Most: 50}}
}

func (f *Figures) bin(i int) *BinFigures {
	at, ok := slices.BinarySearchFunc(f.Bins, i, func(b BinFigures, bin int) int { return b.Bin - bin })
	if !ok {
		f.Bins = slices.Insert(f.Bins, at,
			BinFigures{Bin: i, Phi: Histogram{Width: 0.5, Most: 60}, TCR: Histogram{Width: 5, Most: 20}})
	}
	return &f.Bins[at]
}

func (f *Figures) merge(o *Figures) {
	if o == nil {
		return
	}
	f.Entropy.merge(&o.Entropy)
	f.Estimates.merge(&o.Estimates)
	f.Distances.merge(&o.Distances)
	f.Logits.merge(&o.Logits)
	f.Ratios.merge(&o.Ratios)
	f.Rounds += o.Rounds
	f.Joint += o.Joint
	f.Submits += o.Submits
	f.DecisionNS += o.DecisionNS
	f.DecodeNS += o.DecodeNS
	for i := range o.Bins {
		b := f.bin(o.Bins[i].Bin)
		b.Phi.merge(&o.Bins[i].Phi)
		b.TCR.merge(&o.Bins[i].TCR)
	}
}

// observeSubmits counts a round after the first by the submits since the event before.
func (f *Figures) observeSubmits(e *spec.Event, submits int) {
	if e.Tree == nil || e.Round < 2 {
		return
	}
	f.Rounds++
	f.Submits += submits
	if e.Joint {
		f.Joint++
	}
}

// observe counts a round. depth is d of an EAGLE-2 tree, -1 for other drafts.
func (f *Figures) observe(e *spec.Event, depth int) {
	if e.Tree == nil || e.Tree.Len() < 2 || e.Proposal == nil {
		return
	}
	f.observeLogits(e)
	if len(e.Proposal.Drawn) > 0 {
		f.observeChain(e)
		return
	}
	f.observePath(e)
	if depth >= 0 && len(e.Levels) > depth && e.VerifiedDepth == e.Tree.Depth() {
		f.observeBin(e, depth)
	}
}

// observeChain counts the tokens of a sampled chain up to the first rejected one.
func (f *Figures) observeChain(e *spec.Event) {
	for i, d := range e.Proposal.Drawn {
		if i >= len(e.Path) || i >= e.VerifiedDepth {
			return
		}
		accepted := i+1 < len(e.Path)
		f.Entropy.Add(float64(d.Entropy), accepted)
		f.Estimates.Add(float64(d.Accept), accepted)
		if i < len(e.Divergences) {
			f.Distances.Add(float64(e.Divergences[i].Distance), accepted)
		}
	}
}

// observeLogits counts the target's two largest logits where a token was verified.
func (f *Figures) observeLogits(e *spec.Event) {
	for i, node := range e.Path {
		if i >= e.VerifiedDepth || int(node) >= len(e.Outputs) || e.Tree.IsLeaf(node) {
			return
		}
		z := e.Outputs[node].TopLogits
		if len(z) < 2 {
			return
		}
		f.Logits.Add(float64(z[0]), z[1] > 0)
		if z[1] > 0 {
			f.Ratios.Add(float64(z[1])/float64(z[0]), i < len(e.Origins) && e.Origins[i] == spec.Relaxed)
		}
	}
}

// observePath follows the accepted path through the drafted levels.
func (f *Figures) observePath(e *spec.Event) {
	beam := 0
	for i, node := range e.Path {
		if i >= len(e.Levels) || i >= e.VerifiedDepth || e.Tree.IsLeaf(node) {
			return
		}
		level := &e.Levels[i]
		next := int32(-1)
		if i+1 < len(e.Path) {
			next = e.Tree.Tokens[e.Path[i+1]]
		}
		if beam < len(level.Entropies) {
			f.Entropy.Add(float64(level.Entropies[beam]), next >= 0)
		}
		into := -1
		for j, c := range level.Beams {
			if int(c) >= len(level.Candidates) || int(level.Candidates[c].Beam) != beam {
				continue
			}
			token := level.Candidates[c].Token
			if i+1 < len(e.Levels) && j < len(e.Levels[i+1].Accepts) && e.Tree.Child(node, token) >= 0 {
				f.Estimates.Add(float64(e.Levels[i+1].Accepts[j]), token == next)
			}
			if token == next {
				into = j
			}
		}
		if into < 0 {
			return
		}
		beam = into
	}
}

// observeBin counts Φ and TCR of a round whose tree has at least depth+1 levels.
func (f *Figures) observeBin(e *spec.Event, depth int) {
	begun := time.Now()
	phi, _ := adapt.MetaPath(e.Levels[:depth+1])
	f.DecisionNS += int64(time.Since(begun))
	b := f.bin(e.Proposal.Bin)
	whole := len(e.Path)-1 >= depth+1
	b.Phi.Add(phi, whole)
	if len(e.Path) > 1 {
		b.TCR.Add(float64(e.Tree.Rank(e.Path[len(e.Path)-1])-2), whole) // counted from 0, without the root
	}
}
