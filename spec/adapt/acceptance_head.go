package adapt

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"foretoken/spec"
)

// KindAcceptance is the kind field of an AcceptanceHead's file.
const KindAcceptance = "acceptance-head"

// Labels name the probability that a head estimates, by the verifier in use.
const (
	// LabelArgmax is 1 where the drafted token is the target's argmax and 0 elsewhere: matching at temperature 0.
	LabelArgmax = "argmax"
	// LabelProbability is p(x), the target's probability of the drafted token: matching above temperature 0, drafted
	// without the target's noise.
	LabelProbability = "probability"
	// LabelDraw is 1 where the drafted token is the one that the target drew: matching above temperature 0 with drafts
	// that share the target's noise.
	LabelDraw = "draw"
	// LabelRatio is min(1, p(x)/q(x)): chain rejection sampling.
	LabelRatio = "ratio"
)

// Labels returns the values of AcceptanceHead.Label.
func Labels() []string { return []string{LabelArgmax, LabelProbability, LabelDraw, LabelRatio} }

// AcceptanceHead is an estimator of acceptance for one draft and one way to verify. Source: Huang et al., "SpecDec++:
// Boosting Speculative Decoding via Adaptive Candidate Lengths".
type AcceptanceHead struct {
	spec.CalibrationHeader // the fingerprint's tree fields are unset

	Source string `json:"source,omitempty"` // of drafted tokens, as method.Config.Source
	Label  string `json:"label"`            // one of Labels
	spec.Estimator
}

// ParseAcceptance reads an acceptance head's file; file names it in errors.
func ParseAcceptance(file string, data []byte) (*AcceptanceHead, error) {
	return spec.ParseCalibration(file, data, KindAcceptance, &AcceptanceHead{})
}

// Encode returns the file that ParseAcceptance reads.
func (h *AcceptanceHead) Encode() ([]byte, error) {
	return spec.EncodeCalibration(KindAcceptance, h)
}

// Validate returns an error if the head cannot run.
func (h *AcceptanceHead) Validate() error {
	if !slices.Contains(Labels(), h.Label) { // bound: the four labels
		return fmt.Errorf("field label is %.80q, want one of %s", h.Label, strings.Join(Labels(), ", "))
	}
	return h.Estimator.Validate()
}

// AcceptanceUse describes the drafts whose acceptance a head is to estimate.
type AcceptanceUse struct {
	Source      string // of drafted tokens, as method.Config.Source
	Label       string // one of Labels
	Temperature float64
}

// Use returns what the head was trained for.
func (h *AcceptanceHead) Use() AcceptanceUse {
	return AcceptanceUse{h.Source, h.Label, h.Made.Temperature}
}

// Matches returns an error if the head was trained for another pair of models. The error names the command that trains
// one for use.
func (h *AcceptanceHead) Matches(have spec.Fingerprint, use AcceptanceUse) error {
	if err := h.Fingerprint.MatchesModels(have); err != nil {
		return fmt.Errorf("spec: the acceptance head was trained for %w; %s", err, use.train())
	}
	return nil
}

// Covers returns an error if the head was trained for another source, label or band of temperatures. The error names
// the command that trains one for use. Labels of 0 and 1 for the likeliest token are the same at any temperature.
func (h *AcceptanceHead) Covers(use AcceptanceUse) error {
	have := h.Use()
	if have.band() == use.band() {
		return nil
	}
	return fmt.Errorf("spec: the acceptance head was trained for %s, and not for %s; %s", have, use, use.train())
}

// band returns the use with the name of its temperature's band instead of the temperature.
func (u AcceptanceUse) band() [3]string {
	band := ""
	if u.Label != LabelArgmax {
		band = bandName(bandOf(u.Temperature))
	}
	return [3]string{cmp.Or(u.Source, sourceModel), u.Label, band}
}

// sourceModel is the source that a file without one has.
const sourceModel = "model"

func (u AcceptanceUse) String() string {
	b := u.band()
	text := fmt.Sprintf("source %.80q and label %.80q", b[0], b[1])
	if b[2] != "" {
		text += " at temperatures " + b[2]
	}
	return text
}

// train names the command that trains a head for the use.
func (u AcceptanceUse) train() string {
	command := "train one with foretoken train acceptance-head"
	if source := u.band()[0]; source != sourceModel {
		command += " --source " + source
	}
	if u.Label != LabelArgmax {
		command += fmt.Sprintf(" --temperature %g --label %s", u.Temperature, u.Label)
	}
	return command
}

// AcceptanceFor returns the head that fits a pair and a use, the last ones of all first, or why none fits.
func AcceptanceFor(all []*AcceptanceHead, have spec.Fingerprint, use AcceptanceUse) (*AcceptanceHead, error) {
	var why error
	told := false // of a head of this pair, which tells more
	for _, h := range slices.Backward(all) {
		err := h.Matches(have, use)
		ours := err == nil
		if ours {
			err = h.Covers(use)
		}
		if err == nil {
			return h, nil
		}
		if why == nil || ours && !told {
			why, told = err, ours
		}
	}
	if why == nil {
		return nil, fmt.Errorf("spec: there is no acceptance head; %s", use.train())
	}
	return nil, why
}
