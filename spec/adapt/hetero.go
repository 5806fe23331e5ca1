// Package adapt changes the size of the draft, or the acceptance rule, from round to round. HeteroSpec, C2T,
// acceptance heads, AdaEDL, assisted generation and AdaSD decide how much to draft; MARS and AdaSD relax
// verification. Each part follows its paper and exports its settings; package method sets them from a Config.
package adapt

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"foretoken/spec"
)

// KindHetero is the kind field of a HeteroCalibration's file.
const KindHetero = "hetero"

// HeteroCalibration holds HeteroSpec's entropy bins for a pair of models and the settings of a draft tree.
type HeteroCalibration struct {
	spec.CalibrationHeader
	// Greedy bins are for trees ranked by the draft's ln q: at temperature 0, or uncoupled.
	Greedy *HeteroFit `json:"greedy,omitempty"`
	// Coupled bins are for trees ranked with the target's noise, which changes the entropies.
	Coupled *HeteroFit `json:"coupled,omitempty"`
}

// HeteroFit holds entropy bins in ascending order of Φ. Bin i holds the values above
// Edges[i-1] up to and including Edges[i]; the first and the last are open.
type HeteroFit struct {
	Edges  []float64 `json:"edges"`  // nats, ascending; one fewer than there are bins
	Means  []float64 `json:"means"`  // mean TCR per bin
	Counts []int     `json:"counts"` // fully accepted paths per bin
}

// ParseHetero reads a calibration file; file names it in errors.
func ParseHetero(file string, data []byte) (*HeteroCalibration, error) {
	return spec.ParseCalibration(file, data, KindHetero, &HeteroCalibration{})
}

// Encode returns the file that ParseHetero reads.
func (h *HeteroCalibration) Encode() ([]byte, error) {
	return spec.EncodeCalibration(KindHetero, h)
}

// Matches returns an error if the bins were fitted to another pair of models or another tree. The error names the
// command that fits them.
func (h *HeteroCalibration) Matches(have spec.Fingerprint) error {
	s := HeteroSettings{Depth: have.Depth, TopK: have.TopK, Nodes: have.Nodes}
	if err := h.Fingerprint.MatchesModels(have); err != nil {
		return s.refit(err)
	}
	return h.MatchesTree(s)
}

// MatchesTree returns an error if the bins were fitted to another tree than the settings describe.
func (h *HeteroCalibration) MatchesTree(s HeteroSettings) error {
	if err := h.Fingerprint.MatchesTree(s.TopK, s.Depth, s.Nodes); err != nil {
		return s.refit(err)
	}
	return nil
}

// HeteroFor returns the bins that fit a pair and a tree (see spec.Fingerprint.WithTree), the last ones of all first, or
// why none fit.
func HeteroFor(all []*HeteroCalibration, have spec.Fingerprint) (*HeteroCalibration, error) {
	var first error
	for _, h := range slices.Backward(all) {
		err := h.Matches(have)
		if err == nil {
			return h, nil
		}
		// Bins of the right tree and another pair tell more than bins of another tree.
		if first == nil || h.Fingerprint.MatchesTree(have.TopK, have.Depth, have.Nodes) == nil {
			first = err
		}
	}
	if first == nil {
		return nil, fmt.Errorf("spec: there are no entropy bins; fit some with foretoken calibrate hetero "+
			"--top-k %d --depth %d --nodes %d", have.TopK, have.Depth, have.Nodes)
	}
	return nil, first
}

func (s HeteroSettings) refit(err error) error {
	return fmt.Errorf("spec: the entropy bins were fitted to %w; refit them with foretoken calibrate hetero "+
		"--top-k %d --depth %d --nodes %d", err, s.TopK, s.Depth, s.Nodes)
}

func (h *HeteroCalibration) Validate() error {
	if err := h.Fingerprint.Validate(); err != nil {
		return err
	}
	if h.Greedy == nil && h.Coupled == nil {
		return errors.New("fields greedy and coupled are missing: there are no bins")
	}
	for _, f := range []struct {
		field string
		fit   *HeteroFit
	}{{"greedy", h.Greedy}, {"coupled", h.Coupled}} {
		if f.fit == nil {
			continue
		}
		if err := f.fit.validate(f.field, h.Fingerprint.Nodes); err != nil {
			return err
		}
	}
	return nil
}

func (f *HeteroFit) validate(field string, nodes int) error {
	n := len(f.Means)
	if n < 1 || n > heteroLeaves {
		return fmt.Errorf("field %s.means has %d bins, want 1 to %d", field, n, heteroLeaves)
	}
	if len(f.Edges) != n-1 || len(f.Counts) != n {
		return fmt.Errorf("field %s has %d edges and %d counts for %d bins, want %d and %d", field, len(f.Edges),
			len(f.Counts), n, n-1, n)
	}
	for i, e := range f.Edges {
		if math.IsNaN(e) || math.IsInf(e, 0) || e < 0 || i > 0 && e <= f.Edges[i-1] {
			return fmt.Errorf("field %s.edges: edge %d is %v, want values from 0 in ascending order", field, i, e)
		}
	}
	for i := range f.Means {
		if m := f.Means[i]; !(m >= 1 && m <= float64(nodes)) {
			return fmt.Errorf("field %s.means: bin %d has mean rank %v, want 1 to %d", field, i, m, nodes)
		}
		if f.Counts[i] < 1 {
			return fmt.Errorf("field %s.counts: bin %d has %d paths", field, i, f.Counts[i])
		}
	}
	return nil
}

// Bin returns the index of Φ's bin.
func (f *HeteroFit) Bin(phi float64) int {
	for i, e := range f.Edges {
		if phi <= e {
			return i
		}
	}
	return len(f.Edges)
}

// Low returns how many of the lowest bins count as predictable: three, as in the paper, but never the highest bin,
// so that a fit with few bins changes little.
func (f *HeteroFit) Low() int { return min(heteroLow, len(f.Edges)) }

const (
	heteroDepth  = 3 // of the regression tree
	heteroLeaves = 1 << heteroDepth
	heteroLow    = 3
)

// heteroShare is γ of each low bin, in tenths.
var heteroShare = [heteroLow]int{3, 6, 10}

// HeteroSettings hold HeteroSpec's base tree and switch its parts on and off.
type HeteroSettings struct {
	Depth, TopK, Nodes int // EAGLE-2's d, k and N of the base tree
	// NoExtension and NoPruning switch off parts of the method for its ablation. Alpha is added to its α.
	NoExtension, NoPruning bool
	Alpha                  int
}

// Bin returns the budget of a tree in low bin i. Width is k.
func (s HeteroSettings) Bin(i int) spec.Budget {
	extra, share := max((s.Depth+1)/2+s.Alpha-i, 0), heteroShare[i]
	if s.NoExtension {
		extra = 0
	}
	if s.NoPruning {
		share = 10
	}
	extra = min(extra, spec.MaxDepth-1-s.Depth)
	return spec.Budget{Levels: s.Depth + 1 + extra, Width: s.TopK, Nodes: (share*s.Nodes+9)/10 + extra}
}

// Budget returns the base tree's budget, raised to the maximum of the low bins of both fits.
func (s HeteroSettings) Budget(h *HeteroCalibration) spec.Budget {
	b := spec.Budget{Levels: s.Depth + 1, Width: s.TopK, Nodes: s.Nodes}
	for _, f := range []*HeteroFit{h.Greedy, h.Coupled} {
		if f == nil {
			continue
		}
		for i := range f.Low() {
			bin := s.Bin(i)
			b.Levels, b.Nodes = max(b.Levels, bin.Levels), max(b.Nodes, bin.Nodes)
		}
	}
	return b
}
