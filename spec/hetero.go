package spec

import (
	"errors"
	"fmt"
	"math"
)

// HeteroCalibration is what HeteroSpec fits to a pair of models and a shape of draft
// tree: its entropy bins.
type HeteroCalibration struct {
	CalibrationHeader
	// Greedy bins are for trees ranked by the draft's ln q: at temperature 0, and
	// uncoupled above it.
	Greedy *HeteroFit `json:"greedy,omitempty"`
	// Coupled bins are for trees ranked with the target's noise, whose scores have
	// entropies of their own.
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
	var h HeteroCalibration
	if err := parseCalibration(file, data, KindHetero, &h); err != nil {
		return nil, err
	}
	return &h, nil
}

// Encode gives the file that ParseHetero reads.
func (h *HeteroCalibration) Encode() ([]byte, error) {
	h.Kind, h.Version = KindHetero, calibrationVersion
	return encodeCalibration(h)
}

// Matches refuses another pair of models, or another tree, than the bins were fitted
// to, and names the command that makes them anew.
func (h *HeteroCalibration) Matches(have Fingerprint) error {
	err := h.Fingerprint.models(have)
	if err == nil {
		err = h.Fingerprint.shape(have.TopK, have.Depth, have.Nodes)
	}
	if err == nil {
		return nil
	}
	return fmt.Errorf("spec: the entropy bins were fitted to %w; fit them anew with %s", err, heteroCommand(have.TopK, have.Depth, have.Nodes))
}

func heteroCommand(k, d, n int) string {
	return fmt.Sprintf("foretoken calibrate hetero --top-k %d --depth %d --nodes %d", k, d, n)
}

func (h *HeteroCalibration) validate() error {
	if err := h.Fingerprint.validate(); err != nil {
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
		return fmt.Errorf("field %s has %d edges and %d counts for %d bins, want %d and %d", field, len(f.Edges), len(f.Counts), n, n-1, n)
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

// Bin is the bin that Φ falls in, from 0.
func (f *HeteroFit) Bin(phi float64) int {
	for i, e := range f.Edges {
		if phi <= e {
			return i
		}
	}
	return len(f.Edges)
}

// Low is how many bins count as predictable, from the lowest: three, as in the paper, but never the
// highest, so that a fit that found little to tell apart changes little.
func (f *HeteroFit) Low() int { return min(heteroLow, len(f.Edges)) }

const (
	heteroDepth  = 3 // of the regression tree
	heteroLeaves = 1 << heteroDepth
	heteroLow    = 3
)

// heteroShare is γ of the low bins, in tenths.
var heteroShare = [heteroLow]int{3, 6, 10}

// heteroBin is what a tree of the low bin i may use. Width is k.
func (c Config) heteroBin(i int) Budget {
	extra, share := max((c.Depth+1)/2+c.Alpha-i, 0), heteroShare[i]
	if c.NoExtension {
		extra = 0
	}
	if c.NoPruning {
		share = 10
	}
	extra = min(extra, MaxDepth-1-c.Depth)
	return Budget{Levels: c.Depth + 1 + extra, Width: c.TopK, Nodes: (share*c.Nodes+9)/10 + extra}
}

// HeteroShapes are the budgets that rounds of HeteroSpec may have, the first that of the
// base tree, whose depth each round drafts before it knows its bin; one for each
// low bin follows. The engine makes the programs for them before the first round
// (dynamic computational adaptation); with NoAdaptation there is the base alone, and
// programs for other shapes are made when a round first needs them.
func (c Config) HeteroShapes() []Budget {
	shapes := []Budget{{Levels: c.Depth + 1, Width: c.TopK, Nodes: c.Nodes}}
	if c.NoAdaptation || c.Aids.Hetero == nil {
		return shapes
	}
	for i := range c.Aids.Hetero.low() {
		shapes = append(shapes, c.heteroBin(i))
	}
	return shapes
}

// low is the greatest number of low bins of any fit.
func (h *HeteroCalibration) low() int {
	n := 0
	for _, f := range []*HeteroFit{h.Greedy, h.Coupled} {
		if f != nil {
			n = max(n, f.Low())
		}
	}
	return n
}

// heteroBudget widens the base budget to hold those of all bins.
func (c Config) heteroBudget(b Budget) Budget {
	for i := range c.Aids.Hetero.low() {
		bin := c.heteroBin(i)
		b.Levels, b.Nodes = max(b.Levels, bin.Levels), max(b.Nodes, bin.Nodes)
	}
	return b
}

// hetero sets the drafter of HeteroSpec.
func (c Config) hetero(p *Parts, target Target, draft DraftModel) error {
	model, err := c.grower(draft)
	if err != nil {
		return err
	}
	if err := c.Aids.Hetero.Fingerprint.shape(c.TopK, c.Depth, c.Nodes); err != nil {
		return fmt.Errorf("spec: the entropy bins were fitted to %w; fit them anew with %s", err, heteroCommand(c.TopK, c.Depth, c.Nodes))
	}
	p.Drafter = &HeteroDrafter{Model: model, Config: c, Uncoupled: c.uncoupled()}
	return nil
}
