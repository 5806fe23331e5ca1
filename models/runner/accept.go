package runner

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"

	"foretoken/spec"
)

// KindAcceptance is the kind field of an acceptance head's calibration file.
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

// Labels returns the values of Head.Label.
func Labels() []string { return []string{LabelArgmax, LabelProbability, LabelDraw, LabelRatio} }

// maxHeadLayers bounds the residual layers of a head.
const maxHeadLayers = 2

// Head estimates the probability that a drafted token is accepted, given that its parent is. Its input is the
// draft's final hidden state h (after the output norm) of the pass that consumed the token:
//
//	σ(w·(h + SiLU(W h + b)) + c)
//
// It has one or two residual layers, each with its own weights. Source: Huang et al., "SpecDec++: Boosting
// Speculative Decoding via Adaptive Candidate Lengths".
type Head struct {
	spec.CalibrationHeader // the fingerprint's tree fields are unset

	Dim    int         `json:"dim"`   // width of the draft's hidden states
	Label  string      `json:"label"` // one of Labels
	Layers []HeadLayer `json:"layers"`
	Weight Floats      `json:"weight"` // w (dim)
	Bias   float32     `json:"bias"`   // c
}

// HeadLayer is a residual layer: h + SiLU(W h + b).
type HeadLayer struct {
	Weight Floats `json:"weight"` // W (dim, dim), by output: element n·dim+k weighs input k in output n
	Bias   Floats `json:"bias"`   // b (dim)
}

// Apply returns the head's estimate for a hidden state (Dim), computed in float64.
func (h *Head) Apply(hidden []float32) float64 {
	x := make([]float64, h.Dim)
	for i, v := range hidden[:h.Dim] {
		x[i] = float64(v)
	}
	for _, l := range h.Layers {
		y := make([]float64, h.Dim)
		for n := range y {
			sum := float64(l.Bias[n])
			for k, v := range x {
				sum += float64(l.Weight[n*h.Dim+k]) * v
			}
			y[n] = x[n] + sum/(1+math.Exp(-sum))
		}
		x = y
	}
	sum := float64(h.Bias)
	for k, v := range x {
		sum += float64(h.Weight[k]) * v
	}
	return 1 / (1 + math.Exp(-sum))
}

// Matches returns an error if the head was trained for another pair of models.
func (h *Head) Matches(have spec.Fingerprint) error {
	if err := h.Fingerprint.MatchesModels(have); err != nil {
		return fmt.Errorf("runner: the acceptance head was trained for %w; "+
			"train one with foretoken train acceptance-head", err)
	}
	return nil
}

// Floats encodes as base64 of little-endian f32.
type Floats []float32

// MarshalText implements encoding.TextMarshaler.
func (f Floats) MarshalText() ([]byte, error) {
	raw := make([]byte, 0, 4*len(f))
	for _, v := range f {
		raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(v))
	}
	return base64.StdEncoding.AppendEncode(nil, raw), nil
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (f *Floats) UnmarshalText(text []byte) error {
	raw, err := base64.StdEncoding.AppendDecode(nil, text)
	if err != nil {
		return fmt.Errorf("weights are not base64: %w", err)
	}
	if len(raw)%4 != 0 {
		return fmt.Errorf("%d bytes of weights, not a multiple of 4", len(raw))
	}
	*f = make(Floats, len(raw)/4)
	for i := range *f {
		(*f)[i] = math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:]))
	}
	return nil
}

// ParseHead parses a head's file. Errors quote file.
func ParseHead(file string, data []byte) (*Head, error) {
	return spec.ParseCalibration(file, data, KindAcceptance, &Head{})
}

// Encode returns the head's file.
func (h *Head) Encode() ([]byte, error) {
	return spec.EncodeCalibration(KindAcceptance, h)
}

// Validate returns an error if the head cannot run.
func (h *Head) Validate() error {
	if h.Dim < 1 {
		return fmt.Errorf("field dim is %d, want the width of the draft's hidden states", h.Dim)
	}
	if !slices.Contains(Labels(), h.Label) { // bound: the four labels
		return fmt.Errorf("field label is %.80q, want one of %s", h.Label, strings.Join(Labels(), ", "))
	}
	if n := len(h.Layers); n < 1 || n > maxHeadLayers {
		return fmt.Errorf("field layers has %d layers, want 1 to %d", n, maxHeadLayers)
	}
	check := func(field string, w []float32, want int) error {
		if len(w) != want {
			return fmt.Errorf("field %s has %d weights, want %d for hidden states of %d", field, len(w), want, h.Dim)
		}
		for i, v := range w {
			if f := float64(v); math.IsNaN(f) || math.IsInf(f, 0) {
				return fmt.Errorf("field %s: weight %d is %g", field, i, v)
			}
		}
		return nil
	}
	for i, l := range h.Layers {
		if err := check(fmt.Sprintf("layers[%d].weight", i), l.Weight, h.Dim*h.Dim); err != nil {
			return err
		}
		if err := check(fmt.Sprintf("layers[%d].bias", i), l.Bias, h.Dim); err != nil {
			return err
		}
	}
	if err := check("weight", h.Weight, h.Dim); err != nil {
		return err
	}
	return check("bias", []float32{h.Bias}, 1)
}
