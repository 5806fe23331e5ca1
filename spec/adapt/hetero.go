// Package adapt changes the size of the draft, or the acceptance rule, from round to round. HeteroSpec, C2T,
// acceptance heads, AdaEDL, assisted generation and AdaSD decide how much to draft; MARS and AdaSD relax
// verification. Each part follows its paper and exports its settings; package method sets them from a Config.
package adapt

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"foretoken/spec"
)

// KindHetero is the kind field of a HeteroCalibration's file.
const KindHetero = "hetero"

// HeteroCalibration holds HeteroSpec's entropy bins for a pair of models and the settings of a draft tree.
type HeteroCalibration struct {
	spec.CalibrationHeader
	Fits []*HeteroFit `json:"fits"` // by ascending temperature, at most one for each of bands
}

// HeteroFit holds entropy bins in ascending order of Φ. Bin i holds the values above
// Edges[i-1] up to and including Edges[i]; the first and the last are open.
type HeteroFit struct {
	// Temperature drew the target's text. At 0 trees are ranked by the draft's ln q, and the bins are for uncoupled
	// drafts at any temperature too. Above 0 trees are ranked with the target's noise, which changes the entropies
	// with the temperature, and the bins are for the temperatures of one band.
	Temperature float64 `json:"temperature"`
	HeteroFitting
	Prompts int       `json:"prompts"`
	Edges   []float64 `json:"edges"`  // nats, ascending; one fewer than there are bins
	Means   []float64 `json:"means"`  // mean TCR per bin
	Counts  []int     `json:"counts"` // fully accepted paths per bin
	Rounds  []int     `json:"rounds"` // draft trees per bin
}

// HeteroFitting holds the settings of a fit.
type HeteroFitting struct {
	CARTDepth int `json:"cart_depth"` // of the regression tree, 1 to MaxCARTDepth
	Leaf      int `json:"leaf"`       // fewest paths of a bin; FitHetero takes 0 for a fiftieth of them
	// LowBins is how many of the lowest bins count as predictable, but never the highest bin, so that a fit with few
	// bins changes little.
	LowBins int `json:"low_bins"`
	// Weighted splits where the squared errors of the sides, each weighted by its share |D_j|/|D| of the samples, have
	// the least sum, as equation 2 of the paper has it. Otherwise their plain sum counts.
	Weighted bool `json:"weighted,omitempty"`
}

// MaxCARTDepth is the largest depth of the regression tree.
const MaxCARTDepth = 6

// DefaultHeteroFitting returns the paper's depth and low bins, and the plain sum of squared errors.
func DefaultHeteroFitting() HeteroFitting { return HeteroFitting{CARTDepth: 3, LowBins: 3} }

// Validate refuses settings out of range.
func (o HeteroFitting) Validate() error {
	if o.CARTDepth < 1 || o.CARTDepth > MaxCARTDepth {
		return fmt.Errorf("field cart_depth is %d, want 1 to %d", o.CARTDepth, MaxCARTDepth)
	}
	if o.Leaf < 0 {
		return fmt.Errorf("field leaf is %d, want 0 or more", o.Leaf)
	}
	if most := 1 << o.CARTDepth; o.LowBins < 1 || o.LowBins > most {
		return fmt.Errorf("field low_bins is %d, want 1 to %d", o.LowBins, most)
	}
	return nil
}

// Fit returns the bins for drafts at a temperature. Coupled drafts are ranked with the target's noise. Without bins for
// the temperature's band it returns an error that names the command that fits them.
func (h *HeteroCalibration) Fit(temperature float64, coupled bool) (*HeteroFit, error) {
	if !coupled {
		temperature = 0
	}
	var have []string
	for _, f := range h.Fits {
		if bandOf(f.Temperature) == bandOf(temperature) {
			return f, nil
		}
		have = append(have, bandName(bandOf(f.Temperature)))
	}
	at := fmt.Sprint("temperature ", temperature)
	if !coupled {
		at += " or uncoupled drafts"
	}
	return nil, fmt.Errorf("spec: the entropy bins were fitted to temperatures %s and not to %s; fit them with "+
		"foretoken calibrate hetero --top-k %d --depth %d --nodes %d --temperature %g --add",
		strings.Join(have, ", "), at, h.Fingerprint.TopK, h.Fingerprint.Depth, h.Fingerprint.Nodes, temperature)
}

// AddFit adds a fit and replaces the one of the same band.
func (h *HeteroCalibration) AddFit(f *HeteroFit) {
	at, ok := slices.BinarySearchFunc(h.Fits, bandOf(f.Temperature),
		func(have *HeteroFit, band int) int { return bandOf(have.Temperature) - band })
	if ok {
		h.Fits[at] = f
		return
	}
	h.Fits = slices.Insert(h.Fits, at, f)
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
	if len(h.Fits) == 0 {
		return errors.New("field fits is missing: there are no bins")
	}
	for i, f := range h.Fits {
		field := fmt.Sprintf("fits[%d]", i)
		if f == nil {
			return fmt.Errorf("field %s is null", field)
		}
		if err := f.validate(h.Fingerprint.Nodes); err != nil {
			return fmt.Errorf("%s: %w", field, err)
		}
		if i > 0 && bandOf(f.Temperature) <= bandOf(h.Fits[i-1].Temperature) {
			return fmt.Errorf("%s: field temperature is %g, want bands of temperature in ascending order, each once",
				field, f.Temperature)
		}
	}
	return nil
}

func (f *HeteroFit) validate(nodes int) error {
	if !(f.Temperature >= 0 && !math.IsInf(f.Temperature, 0)) {
		return fmt.Errorf("field temperature is %v, want 0 or more", f.Temperature)
	}
	if err := f.HeteroFitting.Validate(); err != nil {
		return err
	}
	n, most := len(f.Means), 1<<f.CARTDepth
	if n < 1 || n > most {
		return fmt.Errorf("field means has %d bins, want 1 to %d", n, most)
	}
	if len(f.Edges) != n-1 || len(f.Counts) != n || len(f.Rounds) != n {
		return fmt.Errorf("field edges has %d values, counts %d and rounds %d for %d bins, want %d, %d and %d",
			len(f.Edges), len(f.Counts), len(f.Rounds), n, n-1, n, n)
	}
	for i, e := range f.Edges {
		if math.IsNaN(e) || math.IsInf(e, 0) || e < 0 || i > 0 && e <= f.Edges[i-1] {
			return fmt.Errorf("field edges: edge %d is %v, want values from 0 in ascending order", i, e)
		}
	}
	for i := range f.Means {
		if m := f.Means[i]; !(m >= 1 && m <= float64(nodes)) {
			return fmt.Errorf("field means: bin %d has mean rank %v, want 1 to %d", i, m, nodes)
		}
		if f.Counts[i] < 1 {
			return fmt.Errorf("field counts: bin %d has %d paths", i, f.Counts[i])
		}
		if f.Rounds[i] < f.Counts[i] {
			return fmt.Errorf("field rounds: bin %d has %d rounds for %d paths", i, f.Rounds[i], f.Counts[i])
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

// Low returns how many of the lowest bins count as predictable.
func (f *HeteroFit) Low() int { return min(f.LowBins, len(f.Edges)) }

// LowEdge returns the greatest Φ in nats of a predictable round; -1 if no bin is low.
func (f *HeteroFit) LowEdge() float64 {
	if f.Low() == 0 {
		return -1
	}
	return f.Edges[f.Low()-1]
}

// LowShare returns the share of the fit's rounds that fell in low bins.
func (f *HeteroFit) LowShare() float64 {
	low, all := 0, 0
	for i, n := range f.Rounds {
		all += n
		if i < f.Low() {
			low += n
		}
	}
	return float64(low) / float64(max(all, 1))
}

// heteroShare is γ of the paper's three low bins, in tenths. Further low bins keep the last.
var heteroShare = [...]int{3, 6, 10}

// HeteroSettings hold HeteroSpec's base tree and switch its parts on and off.
type HeteroSettings struct {
	Depth, TopK, Nodes int // EAGLE-2's d, k and N of the base tree
	// NoExtension and NoPruning switch off parts of the method for its ablation. Alpha is added to its α.
	NoExtension, NoPruning bool
	Alpha                  int
}

// Bin returns the budget of a tree in low bin i. Width is k.
func (s HeteroSettings) Bin(i int) spec.Budget {
	extra, share := max((s.Depth+1)/2+s.Alpha-i, 0), heteroShare[min(i, len(heteroShare)-1)]
	if s.NoExtension {
		extra = 0
	}
	if s.NoPruning {
		share = 10
	}
	extra = min(extra, spec.MaxDepth-1-s.Depth)
	return spec.Budget{Levels: s.Depth + 1 + extra, Width: s.TopK, Nodes: (share*s.Nodes+9)/10 + extra}
}

// Budget returns the base tree's budget, raised to the maximum of the low bins of all fits.
func (s HeteroSettings) Budget(h *HeteroCalibration) spec.Budget {
	b := spec.Budget{Levels: s.Depth + 1, Width: s.TopK, Nodes: s.Nodes}
	for _, f := range h.Fits {
		for i := range f.Low() {
			bin := s.Bin(i)
			b.Levels, b.Nodes = max(b.Levels, bin.Levels), max(b.Nodes, bin.Nodes)
		}
	}
	return b
}
