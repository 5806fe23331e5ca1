//go:build !js

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/gomlx/gomlx/pkg/core/graph"
	"github.com/spf13/cobra"

	"foretoken"
	"foretoken/spec"
)

// The sizes of C2T (Huo et al., "C2T: A Classifier-Based Tree Construction Method in
// Speculative Decoding", §3 and §4.1).
const (
	c2tTopK   = 10
	c2tDepth  = 10 // passes after the root's: 11 levels, 1,010 nodes
	c2tHidden = 48
	c2tRate   = 1e-3
	c2tEpochs = 10
	c2tBatch  = 1024
	c2tHeld   = 0.05
)

// c2tOptions are the flags of train c2t.
type c2tOptions struct {
	gatherOptions
	hidden   int
	features []string
	ratio    float64
	others   int
	from     string
	part     float64
	epochs   int
	batch    int
	cross    bool
}

func trainC2TCommand(c *console) *cobra.Command {
	o := c2tOptions{}
	cmd := &cobra.Command{
		Use:   "c2t",
		Short: "Train C2T's classifier of draft nodes",
		Long: "Train C2T's classifier, which tells from the joint probability, the entropy and the depth of a drafted node whether it will be accepted.\n\n" +
			"Unpruned trees are drafted against the target's continuations of the prompts; accepted nodes are the positives,\n" +
			"and so many times --ratio others the negatives. A twentieth of the prompts is held out; the epoch of the best\n" +
			"recall is kept, and among equals that which keeps fewer nodes. An interrupted run goes on where it was.",
		Example: "  foretoken train c2t --prompts prompts.jsonl --out c2t.json\n" +
			"  foretoken train c2t --target other.gguf --draft small.gguf --prompts prompts.jsonl --from c2t.json --out other-c2t.json\n" +
			"  foretoken train c2t --prompts prompts.jsonl --features probability,depth --out ablation.json",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.from != "" && !cmd.Flags().Changed("part") {
				o.part = 0.1
			}
			if o.from != "" && (cmd.Flags().Changed("hidden") || cmd.Flags().Changed("features")) {
				return usagef("--hidden and --features are those of the classifier that --from names")
			}
			if err := o.check(); err != nil {
				return err
			}
			return o.run(cmd.Context(), c)
		},
	}
	f := cmd.Flags()
	o.flags(f, "c2t.json")
	f.IntVar(&o.hidden, "hidden", c2tHidden, "units of the hidden layer")
	f.StringSliceVar(&o.features, "features", []string{spec.FeatureProbability, spec.FeatureEntropy, spec.FeatureDepth}, "what the classifier sees")
	f.Float64Var(&o.ratio, "ratio", 5, "negatives for each positive")
	f.IntVar(&o.others, "others", 40, "nodes kept of each tree that were not accepted; the negatives are drawn from them")
	f.StringVar(&o.from, "from", "", "classifier to begin with and fine-tune on a tenth of the trees")
	f.Float64Var(&o.part, "part", 1, "part of the trees to train on (default 1, or 0.1 with --from)")
	f.IntVar(&o.epochs, "epochs", c2tEpochs, "times that every example is seen; few trees take more")
	f.IntVar(&o.batch, "batch", c2tBatch, "examples of a step")
	f.BoolVar(&o.cross, "cross-validate", false, "also train without each category in turn and judge on it")
	return cmd
}

func (o *c2tOptions) check() error {
	if err := o.gatherOptions.check(); err != nil {
		return err
	}
	for i, f := range o.features {
		if !slices.Contains([]string{spec.FeatureProbability, spec.FeatureEntropy, spec.FeatureDepth}, f) || slices.Contains(o.features[:i], f) {
			return usagef("--features has %q, want %s, %s and %s, each at most once", f, spec.FeatureProbability, spec.FeatureEntropy, spec.FeatureDepth)
		}
	}
	switch {
	case len(o.features) == 0:
		return usagef("--features is empty")
	case o.hidden < 1 || o.hidden > 1024:
		return usagef("--hidden is %d, want 1 to 1024", o.hidden)
	case !(o.ratio > 0):
		return usagef("--ratio is %v, want more than 0", o.ratio)
	case o.others < 1:
		return usagef("--others is %d, want 1 or more", o.others)
	case o.epochs < 1 || o.batch < 1:
		return usagef("--epochs is %d and --batch %d, want 1 or more", o.epochs, o.batch)
	case !(o.part > 0 && o.part <= 1):
		return usagef("--part is %v, want more than 0 and at most 1", o.part)
	}
	return nil
}

// grove is the trees of one prompt.
type grove struct {
	category string
	trees    []foretoken.C2TTree
}

func (o *c2tOptions) run(ctx context.Context, c *console) error {
	var from *spec.C2TClassifier
	if o.from != "" {
		b, err := os.ReadFile(o.from)
		if err != nil {
			return err
		}
		if from, err = spec.ParseC2T(o.from, b); err != nil {
			return err
		}
		o.features, o.hidden = from.Features, len(from.Hidden)
	}
	s, err := openSession(ctx, c, &o.models)
	if err != nil {
		return interruptedOr(ctx, err)
	}
	defer s.close()
	texts, err := o.readTexts(ctx, c, s)
	if err != nil {
		return err
	}
	all, end, err := gather(ctx, c, &o.gatherOptions, s, "trees", map[string]any{"k": c2tTopK, "depth": c2tDepth, "others": o.others}, texts,
		func(t *continued) ([]foretoken.C2TTree, error) {
			return s.CollectC2T(ctx, &t.Continuation, c2tDepth, c2tTopK, o.others, o.collect())
		})
	if err != nil {
		return err
	}
	groves := make([]grove, len(all))
	trees := 0
	for i := range all {
		groves[i] = grove{texts[i].Category, all[i]}
		trees += len(all[i])
	}
	if trees == 0 {
		return errNoTexts
	}
	learn, held := hold(groves, c2tHeld, o.seed)
	fmt.Fprintf(o.report(c), "%d trees of %d prompts, %d prompts held out\n", trees, len(learn)+len(held), len(held))
	best, err := o.train(ctx, o.report(c), learn, held, from)
	if err != nil {
		return interruptedOr(ctx, err)
	}
	if o.cross {
		if err := o.crossValidate(ctx, o.report(c), groves, from); err != nil {
			return interruptedOr(ctx, err)
		}
	}
	best.Fingerprint = s.Fingerprint()
	best.Fingerprint.TopK, best.Fingerprint.Depth, best.Fingerprint.Nodes = c2tTopK, c2tDepth, 1+c2tTopK+c2tDepth*c2tTopK*c2tTopK
	settings := best.Made.Settings
	best.Made = o.made(texts)
	best.Made.Samples = trees
	for k, v := range settings {
		best.Made.Settings[k] = v
	}
	b, err := best.Encode()
	if err != nil {
		return err
	}
	return o.write(c, b, end)
}

// hold splits prompts, so that no held-out tree has neighbours among the others.
func hold[T any](all []T, part float64, seed uint64) (learn, held []T) {
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

// verdict is what a classifier does at a threshold.
type verdict struct {
	recall   float64 // accepted nodes that it keeps
	positive float64 // nodes that it keeps, of all
}

// better tells whether a classifier is to be preferred: by recall, and among those of the
// same recall to a thousandth by keeping fewer nodes.
func (v verdict) better(o verdict) bool {
	if a, b := math.Round(1000*v.recall), math.Round(1000*o.recall); a != b {
		return a > b
	}
	return v.positive < o.positive
}

// train fits a classifier on some prompts and judges it on others.
func (o *c2tOptions) train(ctx context.Context, w io.Writer, learn, held []grove, from *spec.C2TClassifier) (*spec.C2TClassifier, error) {
	rng := rand.New(rand.NewPCG(o.seed, 3))
	var yes, no []spec.C2TFeatures
	for _, g := range learn {
		for _, t := range g.trees {
			if o.part < 1 && rng.Float64() >= o.part {
				continue
			}
			yes, no = append(yes, t.Accepted...), append(no, t.Others...)
		}
	}
	if len(yes) == 0 || len(no) == 0 {
		return nil, fmt.Errorf("the trees have %d accepted nodes and %d others, and both are needed; give more prompts", len(yes), len(no))
	}
	rng.Shuffle(len(no), func(i, j int) { no[i], no[j] = no[j], no[i] })
	no = no[:min(len(no), int(math.Ceil(o.ratio*float64(len(yes)))))]
	base := o.begin(from, append(append([]spec.C2TFeatures(nil), yes...), no...), rng)
	var e examples
	e.width = len(base.Features)
	for _, f := range yes {
		e.add(inputs32(base, f), 1, 0)
	}
	for _, f := range no {
		e.add(inputs32(base, f), 0, 1)
	}
	judge := judgeOn(held)
	if len(held) == 0 {
		judge = judgeOn(learn)
	}
	var best *spec.C2TClassifier
	var bestAt verdict
	t := training{params: c2tParams(base), logits: perceptron, rate: c2tRate, epochs: o.epochs, batch: o.batch, seed: o.seed}
	err := t.run(ctx, &e, func(epoch int, loss float64, params []matrix) error {
		now := withParams(base, params)
		v, area := judge(now, 0.5)
		fmt.Fprintf(w, "epoch %3d: loss %.4f, held out: recall %.3f, kept %.4f of the nodes, AUC %.4f\n", epoch+1, loss, v.recall, v.positive, area)
		if best == nil || v.better(bestAt) {
			best, bestAt = now, v
			best.Made.Settings = map[string]string{
				"epoch": fmt.Sprint(epoch + 1), "recall": fmt.Sprintf("%.4f", v.recall), "positive rate": fmt.Sprintf("%.4f", v.positive), "AUC": fmt.Sprintf("%.4f", area),
				"ratio": fmt.Sprint(o.ratio), "others": fmt.Sprint(o.others), "positives": fmt.Sprint(len(yes)), "negatives": fmt.Sprint(len(no)), "training": fmt.Sprintf("Adam %g, %d epochs, batch %d", c2tRate, o.epochs, o.batch),
			}
			if from != nil {
				best.Made.Settings["fine-tuned from"] = from.Fingerprint.Target.Name + " / " + from.Fingerprint.Draft.Name
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if len(held) > 0 {
		reportThresholds(w, best, held)
	}
	return best, nil
}

// begin gives the classifier that training begins with: another one, or random weights and
// inputs normalised over the examples.
func (o *c2tOptions) begin(from *spec.C2TClassifier, seen []spec.C2TFeatures, rng *rand.Rand) *spec.C2TClassifier {
	if from != nil {
		c := *from
		return &c
	}
	n := len(o.features)
	c := &spec.C2TClassifier{Features: slices.Clone(o.features), Mean: make([]float64, n), Scale: make([]float64, n)}
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
	return withParams(c, []matrix{gaussian(rng, 2, n, n, o.hidden), zeros(o.hidden), gaussian(rng, 1, o.hidden, o.hidden, 1), zeros(1)})
}

// perceptron is inputs → ReLU → log-odds.
func perceptron(p []*node, x *node) *node {
	return flat(affine(graph.MaxScalar(affine(x, p[0], p[1]), 0), p[2], p[3]))
}

func inputs32(c *spec.C2TClassifier, f spec.C2TFeatures) []float32 {
	var out []float32
	for _, x := range c.Inputs(nil, f) {
		out = append(out, float32(x))
	}
	return out
}

// c2tParams are a classifier's weights as perceptron takes them.
func c2tParams(c *spec.C2TClassifier) []matrix {
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

// withParams is a classifier with other weights.
func withParams(c *spec.C2TClassifier, p []matrix) *spec.C2TClassifier {
	n, h := len(c.Features), p[1].dims[0]
	out := &spec.C2TClassifier{Features: c.Features, Mean: c.Mean, Scale: c.Scale, OutputBias: short(p[3].values[0])}
	for j := range h {
		row := make([]float64, n)
		for i := range row {
			row[i] = short(p[0].values[i*h+j])
		}
		out.Hidden = append(out.Hidden, row)
		out.HiddenBias, out.Output = append(out.HiddenBias, short(p[1].values[j])), append(out.Output, short(p[2].values[j]))
	}
	return out
}

// short keeps five significant digits: a file holds no more than that is worth.
func short(x float32) float64 {
	v, _ := strconv.ParseFloat(strconv.FormatFloat(float64(x), 'g', 5, 64), 64)
	return v
}

// reportThresholds prints what a classifier keeps of held-out trees, and how many of the accepted
// nodes as many of the likeliest by joint probability, as EAGLE-2 ranks them, would hold.
func reportThresholds(w io.Writer, c *spec.C2TClassifier, held []grove) {
	var nodes []judged
	forNodes(held, func(f spec.C2TFeatures, label, weight float64) {
		nodes = append(nodes, judged{f.Probability, label, weight})
	})
	sortBy(nodes, func(j judged) float64 { return -j.p })
	all, accepted := 0.0, 0.0
	for _, n := range nodes {
		all += n.weight
		accepted += n.label
	}
	fmt.Fprintf(w, "%9s %8s %8s %28s\n", "threshold", "recall", "kept", "recall by joint probability")
	for _, beta := range []float64{0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9} {
		v, _ := judgeOn(held)(c, beta)
		kept, caught := 0.0, 0.0
		for _, n := range nodes {
			if kept += n.weight; kept > v.positive*all {
				break
			}
			caught += n.label
		}
		fmt.Fprintf(w, "%9.2f %8.3f %8.4f %28.3f\n", beta, v.recall, v.positive, caught/max(accepted, 1))
	}
	fmt.Fprintf(w, "AUC of the joint probability: %.4f\n", auc(nodes))
}

// forNodes goes through the nodes of trees. Those that were not accepted are a sample, and
// each weighs what it stands for.
func forNodes(groves []grove, tell func(f spec.C2TFeatures, label, weight float64)) {
	for _, g := range groves {
		for _, t := range g.trees {
			for _, f := range t.Accepted {
				tell(f, 1, 1)
			}
			for _, f := range t.Others {
				tell(f, 0, float64(t.Rejected)/float64(len(t.Others)))
			}
		}
	}
}

// judgeOn gives a function that judges classifiers at a threshold on some prompts, with their AUC.
func judgeOn(groves []grove) func(c *spec.C2TClassifier, beta float64) (verdict, float64) {
	return func(c *spec.C2TClassifier, beta float64) (verdict, float64) {
		var all []judged
		var accepted, caught, nodes, kept float64
		forNodes(groves, func(f spec.C2TFeatures, label, weight float64) {
			p := c.Confidence(f)
			all = append(all, judged{p, label, weight})
			nodes += weight
			accepted += label
			if p > beta {
				kept += weight
				caught += label
			}
		})
		return verdict{caught / max(accepted, 1), kept / max(nodes, 1)}, auc(all)
	}
}

// crossValidate trains without each category and judges on it.
func (o *c2tOptions) crossValidate(ctx context.Context, w io.Writer, groves []grove, from *spec.C2TClassifier) error {
	var names []string
	for _, g := range groves {
		if !slices.Contains(names, g.category) {
			names = append(names, g.category)
		}
	}
	if slices.Sort(names); len(names) < 2 {
		return errors.New("cross-validation takes prompts of two categories or more")
	}
	fmt.Fprintf(w, "without a category, judged on it (threshold 0.5):\n")
	for _, name := range names {
		var learn, held []grove
		for _, g := range groves {
			if g.category == name {
				held = append(held, g)
			} else {
				learn = append(learn, g)
			}
		}
		c, err := o.train(ctx, io.Discard, learn, held, from)
		if err != nil {
			return err
		}
		v, area := judgeOn(held)(c, 0.5)
		fmt.Fprintf(w, "%12s: %d prompts, recall %.3f, kept %.4f of the nodes, AUC %.4f\n", printable(strings.TrimSpace(name)), len(held), v.recall, v.positive, area)
	}
	return nil
}
