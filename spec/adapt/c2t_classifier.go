package adapt

import (
	"fmt"
	"math"
	"slices"

	"foretoken/spec"
)

// KindC2T is the kind field of a C2TClassifier's file.
const KindC2T = "c2t"

// The features of C2T's classifier (Huo et al., "C2T: A Classifier-Based Tree
// Construction Method in Speculative Decoding", §3.1), as a file names them.
const (
	FeatureProbability = "probability" // Π q along the path from the root, the node's own included
	FeatureEntropy     = "entropy"     // nats, of the distribution that the node was drawn from: its parent's
	FeatureDepth       = "depth"       // 1 for a child of the root
)

// C2TClassifier estimates the chance that a drafted node is accepted: a perceptron with one hidden layer of ReLUs
// and a sigmoid, 3→48→1 in the paper.
type C2TClassifier struct {
	spec.CalibrationHeader
	Features []string `json:"features"` // names of the inputs, in order; one to three of them
	// EntropyTop, if not 0, is the number of likeliest tokens that the entropy is of, renormalised; 0: of all.
	EntropyTop int       `json:"entropy_top,omitempty"`
	Mean       []float64 `json:"mean"` // per input; input i is (feature - Mean[i]) / Scale[i]
	Scale      []float64 `json:"scale"`
	// Hidden holds the first layer's weights (hidden, inputs), HiddenBias its biases.
	Hidden     [][]float64 `json:"hidden"`
	HiddenBias []float64   `json:"hidden_bias"`
	// Output holds the second layer's weights (hidden).
	Output     []float64 `json:"output"`
	OutputBias float64   `json:"output_bias"`
}

// ParseC2T reads a classifier file; file names it in errors.
func ParseC2T(file string, data []byte) (*C2TClassifier, error) {
	return spec.ParseCalibration(file, data, KindC2T, &C2TClassifier{})
}

// Encode gives the file that ParseC2T reads.
func (c *C2TClassifier) Encode() ([]byte, error) {
	return spec.EncodeCalibration(KindC2T, c)
}

// Matches refuses another pair of models than the classifier was trained for. The size of its training trees binds
// nothing: depth is a feature.
func (c *C2TClassifier) Matches(have spec.Fingerprint) error {
	if err := c.Fingerprint.MatchesModels(have); err != nil {
		return fmt.Errorf("spec: the c2t classifier was trained for %w; train one with foretoken train c2t", err)
	}
	return nil
}

// maxHidden bounds the classifier: it runs for every candidate of every level.
const maxHidden = 1024

func (c *C2TClassifier) Validate() error {
	if err := c.Fingerprint.Validate(); err != nil {
		return err
	}
	inputs, hidden := len(c.Features), len(c.Hidden)
	if inputs < 1 || inputs > 3 {
		return fmt.Errorf("field features has %d names, want 1 to 3", inputs)
	}
	for i, f := range c.Features {
		if !slices.Contains([]string{FeatureProbability, FeatureEntropy, FeatureDepth}, f) ||
			slices.Contains(c.Features[:i], f) {
			return fmt.Errorf("field features: %.80q is unknown or twice there, want %s, %s or %s", f,
				FeatureProbability, FeatureEntropy, FeatureDepth)
		}
	}
	if n := c.EntropyTop; n < 0 || n > 0 && !slices.Contains(c.Features, FeatureEntropy) {
		return fmt.Errorf("field entropy_top is %d, want a number of tokens, with %s among the features", n,
			FeatureEntropy)
	}
	if hidden < 1 || hidden > maxHidden {
		return fmt.Errorf("field hidden has %d rows, want 1 to %d", hidden, maxHidden)
	}
	for _, v := range []struct {
		field  string
		values []float64
		want   int
	}{{"mean", c.Mean, inputs}, {"scale", c.Scale, inputs}, {"hidden_bias", c.HiddenBias, hidden},
		{"output", c.Output, hidden}, {"output_bias", []float64{c.OutputBias}, 1}} {
		if err := finite(v.field, v.values, v.want); err != nil {
			return err
		}
	}
	for i, s := range c.Scale {
		if s <= 0 {
			return fmt.Errorf("field scale: value %d is %v, want more than 0", i, s)
		}
	}
	for i, row := range c.Hidden {
		if err := finite(fmt.Sprintf("hidden row %d", i), row, inputs); err != nil {
			return err
		}
	}
	return nil
}

func finite(field string, values []float64, want int) error {
	if len(values) != want {
		return fmt.Errorf("field %s has %d values, want %d", field, len(values), want)
	}
	for i, v := range values {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return fmt.Errorf("field %s: value %d is %v", field, i, v)
		}
	}
	return nil
}

// C2TFeatures are the classifier's inputs for one node.
type C2TFeatures struct {
	Probability float64 `json:"p"` // see the Feature constants
	Entropy     float64 `json:"h"`
	Depth       int     `json:"d"`
}

// Network returns the classifier over unscaled features, for models that run it.
func (c *C2TClassifier) Network() *spec.NodeClassifier {
	n := &spec.NodeClassifier{Bias: c.OutputBias}
	for i, weights := range c.Hidden {
		u := spec.NodeUnit{Output: c.Output[i], Bias: c.HiddenBias[i]}
		for j, name := range c.Features {
			w := weights[j] / c.Scale[j]
			u.Bias -= w * c.Mean[j]
			switch name {
			case FeatureEntropy:
				u.Entropy = w
			case FeatureDepth:
				u.Depth = w
			default:
				u.Probability = w
			}
		}
		n.Units = append(n.Units, u)
	}
	return n
}

// Inputs appends the classifier's inputs, normalised, to dst.
func (c *C2TClassifier) Inputs(dst []float64, f C2TFeatures) []float64 {
	for i, name := range c.Features {
		x := f.Probability
		switch name {
		case FeatureEntropy:
			x = f.Entropy
		case FeatureDepth:
			x = float64(f.Depth)
		}
		dst = append(dst, (x-c.Mean[i])/c.Scale[i])
	}
	return dst
}

// Confidence is the classifier's chance in (0, 1) that a node is accepted.
func (c *C2TClassifier) Confidence(f C2TFeatures) float64 {
	var room [3]float64
	in := c.Inputs(room[:0], f)
	z := c.OutputBias
	for i, row := range c.Hidden {
		x := c.HiddenBias[i]
		for j, w := range row {
			x += w * in[j]
		}
		if x > 0 {
			z += c.Output[i] * x
		}
	}
	return 1 / (1 + math.Exp(-z))
}

// C2TSample is a node of a draft tree and what became of it.
type C2TSample struct {
	C2TFeatures
	Accepted bool `json:"y"` // the path to the node is the target's text
}
