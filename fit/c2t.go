//go:build !js

package fit

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"

	"github.com/gomlx/gomlx/pkg/core/graph"

	"foretoken/spec/adapt"
)

// of Adam (Huo et al., "C2T: A Classifier-Based Tree Construction Method in Speculative Decoding", §4.1)
const c2tRate = 1e-3

// PromptTrees are the trees drafted along the continuation of one prompt.
type PromptTrees struct {
	Category string
	Trees    []C2TTree
}

// C2TTraining configures the training of C2T's classifier of draft nodes.
type C2TTraining struct {
	Features      []string // the classifier's inputs: adapt.FeatureProbability and others
	EntropyTop    int      // tokens that the entropies are of; 0: all
	Hidden        int      // units of the hidden layer
	Ratio         float64  // negatives for each positive
	Others        int      // rejected nodes kept per tree; noted in Made
	Part          float64  // part of the trees to train on, 1: all
	Epochs, Batch int
	Seed          uint64
	From          *adapt.C2TClassifier // initial classifier to fine-tune; nil: random weights
}

// C2TQuality is the quality of a classifier at a threshold.
type C2TQuality struct {
	Recall float64 // share of the accepted nodes that it keeps
	Kept   float64 // share of all nodes that it keeps
	AUC    float64 // over all thresholds
}

// better compares classifiers by recall, rounded to a thousandth, and then by keeping fewer nodes.
func (v C2TQuality) better(o C2TQuality) bool {
	if a, b := math.Round(1000*v.Recall), math.Round(1000*o.Recall); a != b {
		return a > b
	}
	return v.Kept < o.Kept
}

// Hold splits prompts, so that no held-out tree shares a text with the others.
func Hold[T any](all []T, part float64, seed uint64) (learn, held []T) {
	order := rand.New(rand.NewPCG(seed, 2)).Perm(len(all))
	n := int(math.Ceil(part * float64(len(all))))
	for i, at := range order {
		if i < n && len(all) > 1 {
			held = append(held, all[at])
		} else {
			learn = append(learn, all[at])
		}
	}
	return learn, held
}

// Run trains a classifier and measures it after every epoch on the held-out prompts, or on the training prompts
// without any. It returns the classifier of the best epoch; its Made.Settings record the training.
func (o *C2TTraining) Run(ctx context.Context, learn, held []PromptTrees,
	report func(epoch int, loss float64, q C2TQuality)) (*adapt.C2TClassifier, error) {
	rng := rand.New(rand.NewPCG(o.Seed, 3))
	var yes, no []adapt.C2TFeatures
	for _, g := range learn {
		for _, t := range g.Trees {
			if o.Part < 1 && rng.Float64() >= o.Part {
				continue
			}
			yes, no = append(yes, t.Accepted...), append(no, t.Others...)
		}
	}
	if len(yes) == 0 || len(no) == 0 {
		return nil, fmt.Errorf("the trees have %d accepted nodes and %d others, and both are needed; give more prompts",
			len(yes), len(no))
	}
	rng.Shuffle(len(no), func(i, j int) { no[i], no[j] = no[j], no[i] })
	no = no[:min(len(no), int(math.Ceil(o.Ratio*float64(len(yes)))))]
	base := o.begin(slices.Concat(yes, no), rng)
	e := Examples{width: len(base.Features)}
	for _, f := range yes {
		e.add(inputs32(base, f), 1, 0)
	}
	for _, f := range no {
		e.add(inputs32(base, f), 0, 1)
	}
	test := held
	if len(held) == 0 {
		test = learn
	}
	var best *adapt.C2TClassifier
	var bestAt C2TQuality
	t := training{params: c2tParams(base), logits: perceptron, rate: c2tRate, epochs: o.Epochs,
		batch: o.Batch, seed: o.Seed}
	err := t.run(ctx, &e, func(epoch int, loss float64, params []matrix) error {
		now := withParams(base, params)
		v := measureC2T(now, test, 0.5)
		report(epoch+1, loss, v)
		if best == nil || v.better(bestAt) {
			best, bestAt = now, v
			best.Made.Settings = map[string]string{
				"epoch": fmt.Sprint(epoch + 1), "recall": fmt.Sprintf("%.4f", v.Recall),
				"positive rate": fmt.Sprintf("%.4f", v.Kept), "AUC": fmt.Sprintf("%.4f", v.AUC),
				"ratio": fmt.Sprint(o.Ratio), "others": fmt.Sprint(o.Others),
				"positives": fmt.Sprint(len(yes)), "negatives": fmt.Sprint(len(no)),
				"training": fmt.Sprintf("Adam %g, %d epochs, batch %d", c2tRate, o.Epochs, o.Batch),
			}
			if o.From != nil {
				from := o.From.Fingerprint
				best.Made.Settings["fine-tuned from"] = from.Target.Name + " / " + from.Draft.Name
			}
		}
		return nil
	})
	return best, err
}

// begin returns the initial classifier: From, or random weights with inputs normalised over the examples.
func (o *C2TTraining) begin(seen []adapt.C2TFeatures, rng *rand.Rand) *adapt.C2TClassifier {
	if o.From != nil {
		c := *o.From
		return &c
	}
	n := len(o.Features)
	c := &adapt.C2TClassifier{Features: slices.Clone(o.Features), EntropyTop: o.EntropyTop, Mean: make([]float64, n),
		Scale: make([]float64, n)}
	for i := range c.Scale {
		c.Scale[i] = 1
	}
	sum, squares := make([]float64, n), make([]float64, n)
	for _, f := range seen {
		for i, x := range c.Inputs(nil, f) {
			sum[i] += x
			squares[i] += x * x
		}
	}
	for i := range c.Mean {
		c.Mean[i] = sum[i] / float64(len(seen))
		if c.Scale[i] = math.Sqrt(max(squares[i]/float64(len(seen))-c.Mean[i]*c.Mean[i], 0)); c.Scale[i] < 1e-9 {
			c.Scale[i] = 1
		}
	}
	return withParams(c,
		[]matrix{gaussian(rng, 2, n, n, o.Hidden), zeros(o.Hidden), gaussian(rng, 1, o.Hidden, o.Hidden, 1), zeros(1)})
}

// perceptron maps inputs → ReLU → log-odds.
func perceptron(p []*node, x *node) *node {
	return flat(affine(graph.MaxScalar(affine(x, p[0], p[1]), 0), p[2], p[3]))
}

func inputs32(c *adapt.C2TClassifier, f adapt.C2TFeatures) []float32 {
	var out []float32
	for _, x := range c.Inputs(nil, f) {
		out = append(out, float32(x))
	}
	return out
}

// c2tParams returns a classifier's weights in perceptron's layout.
func c2tParams(c *adapt.C2TClassifier) []matrix {
	n, h := len(c.Features), len(c.Hidden)
	p := []matrix{zeros(n, h), zeros(h), zeros(h, 1), zeros(1)}
	for j := range h {
		for i := range n {
			p[0].values[i*h+j] = float32(c.Hidden[j][i])
		}
		p[1].values[j], p[2].values[j] = float32(c.HiddenBias[j]), float32(c.Output[j])
	}
	p[3].values[0] = float32(c.OutputBias)
	return p
}

// withParams returns a classifier with other weights.
func withParams(c *adapt.C2TClassifier, p []matrix) *adapt.C2TClassifier {
	n, h := len(c.Features), p[1].dims[0]
	out := &adapt.C2TClassifier{Features: c.Features, EntropyTop: c.EntropyTop, Mean: c.Mean, Scale: c.Scale,
		OutputBias: roundTo5Digits(p[3].values[0])}
	for j := range h {
		row := make([]float64, n)
		for i := range row {
			row[i] = roundTo5Digits(p[0].values[i*h+j])
		}
		out.Hidden = append(out.Hidden, row)
		out.HiddenBias, out.Output = append(out.HiddenBias, roundTo5Digits(p[1].values[j])),
			append(out.Output, roundTo5Digits(p[2].values[j]))
	}
	return out
}

// roundTo5Digits rounds to five significant digits, enough for a file.
func roundTo5Digits(x float32) float64 {
	v, _ := strconv.ParseFloat(strconv.FormatFloat(float64(x), 'g', 5, 64), 64)
	return v
}

// C2TThreshold is the quality of a classifier at one threshold.
type C2TThreshold struct {
	Threshold float64
	C2TQuality
	// RecallByProbability is the recall of equally many nodes chosen by joint probability, as EAGLE-2 ranks them.
	RecallByProbability float64
}

// C2TThresholds measures a classifier at thresholds from 0.05 to 0.9 on held-out trees. area is the AUC of the joint
// probability on the same nodes.
func C2TThresholds(c *adapt.C2TClassifier, held []PromptTrees) (at []C2TThreshold, area float64) {
	var nodes []Scored
	eachNode(held, func(f adapt.C2TFeatures, label, weight float64) {
		nodes = append(nodes, Scored{f.Probability, label, weight})
	})
	slices.SortStableFunc(nodes, func(a, b Scored) int { return cmp.Compare(b.P, a.P) })
	all, accepted := 0.0, 0.0
	for _, n := range nodes {
		all += n.Weight
		accepted += n.Label
	}
	for _, threshold := range []float64{0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9} {
		q := measureC2T(c, held, threshold)
		kept, caught := 0.0, 0.0
		for _, n := range nodes {
			if kept += n.Weight; kept > q.Kept*all {
				break
			}
			caught += n.Label
		}
		at = append(at, C2TThreshold{threshold, q, caught / max(accepted, 1)})
	}
	return at, AUC(nodes)
}

// eachNode calls tell for the nodes of trees. Rejected nodes are a sample, weighted by the nodes they represent.
func eachNode(prompts []PromptTrees, tell func(f adapt.C2TFeatures, label, weight float64)) {
	for _, g := range prompts {
		for _, t := range g.Trees {
			for _, f := range t.Accepted {
				tell(f, 1, 1)
			}
			for _, f := range t.Others {
				tell(f, 0, float64(t.Rejected)/float64(len(t.Others)))
			}
		}
	}
}

// measureC2T measures a classifier at a threshold on the trees of some prompts.
func measureC2T(c *adapt.C2TClassifier, prompts []PromptTrees, threshold float64) C2TQuality {
	var all []Scored
	var accepted, caught, nodes, kept float64
	eachNode(prompts, func(f adapt.C2TFeatures, label, weight float64) {
		p := c.Confidence(f)
		all = append(all, Scored{p, label, weight})
		nodes += weight
		accepted += label
		if p > threshold {
			kept += weight
			caught += label
		}
	})
	return C2TQuality{caught / max(accepted, 1), kept / max(nodes, 1), AUC(all)}
}
