//go:build !js

package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"foretoken/fit"
	"foretoken/spec"
	"foretoken/spec/adapt"
)

// The sizes of C2T (Huo et al., "C2T: A Classifier-Based Tree Construction Method in
// Speculative Decoding", §3 and §4.1).
const (
	c2tTopK   = 10
	c2tDepth  = 10 // passes after the root's: 11 levels, 1,010 nodes
	c2tHidden = 48
	c2tEpochs = 10
	c2tBatch  = 1024
	c2tHeld   = 0.05
)

var c2tFeatures = []string{adapt.FeatureProbability, adapt.FeatureEntropy, adapt.FeatureDepth}

type c2tOptions struct {
	gatherOptions
	hidden   int
	features []string
	tops     []int // tokens that entropies are of; none: all
	ratio    float64
	others   int
	from     string
	cut      float64
	part     float64
	epochs   int
	batch    int
}

func trainC2TCommand(c *console) *cobra.Command {
	o := c2tOptions{}
	cmd := &cobra.Command{
		Use:   "c2t",
		Short: "Train C2T's classifier of draft nodes",
		Long: "Train C2T's classifier, which predicts from the joint probability, the entropy and the depth of a " +
			"drafted node whether it is accepted." + `

The draft grows unpruned trees along the target's continuations of the prompts. Accepted nodes are the positives,
and --ratio times as many others the negatives. A twentieth of the prompts is held out. The epoch with the best
recall wins, and among equals the one that keeps fewer nodes. An interrupted run continues where it stopped.

With --from a classifier of another pair is measured on the held-out trees as it is, and then fine-tuned on a tenth
of the others.`,
		Example: "  foretoken train c2t --prompts prompts.jsonl --out c2t.json\n" +
			"  foretoken train c2t --target other.gguf --draft small.gguf --prompts prompts.jsonl --from c2t.json " +
			"--out other-c2t.json\n" +
			"  foretoken train c2t --prompts prompts.jsonl --entropy-top 100,500,1000 --out c2t-entropy.json\n" +
			"  foretoken train c2t --prompts prompts.jsonl --features probability,depth --out ablation.json",
		Args: flagsOnly,
		RunE: checkedRun(o.check, func(ctx context.Context) error { return o.run(ctx, c) }),
	}
	f := cmd.Flags()
	o.flags(f, "c2t.json")
	o.sourceFlag(f)
	f.IntVar(&o.hidden, "hidden", c2tHidden, "units of the hidden layer")
	f.StringSliceVar(&o.features, "features", c2tFeatures, "inputs of the classifier")
	f.IntSliceVar(&o.tops, "entropy-top", nil, "have the entropy be of so many likeliest tokens alone; several "+
		"numbers train as many classifiers and go into the names of their files (default all tokens)")
	f.Float64Var(&o.ratio, "ratio", 5, "negatives for each positive")
	f.IntVar(&o.others, "others", 40, "rejected nodes kept per tree; the negatives are drawn from them")
	f.StringVar(&o.from, "from", "", "classifier to begin with and fine-tune on a tenth of the trees")
	f.Float64Var(&o.cut, "cut", 0, "write a classifier, without training, that keeps nodes above this joint "+
		"probability, at --threshold 0.5")
	f.Float64Var(&o.part, "part", 1, "part of the trees to train on (default 1, or 0.1 with --from)")
	f.IntVar(&o.epochs, "epochs", c2tEpochs, "passes over the examples; few trees need more")
	f.IntVar(&o.batch, "batch", c2tBatch, "examples per step")
	return cmd
}

func (o *c2tOptions) check(given *pflag.FlagSet) error {
	if given.Changed("cut") {
		for _, name := range []string{"prompts", "hidden", "features", "entropy-top", "from"} {
			if given.Changed(name) {
				return usagef("--cut and --%s exclude each other: --cut trains nothing", name)
			}
		}
		o.prompts = noPrompts
		return cmp.Or(o.gatherOptions.check(),
			want("cut", o.cut, o.cut > 0 && o.cut < 1, "more than 0 and less than 1"))
	}
	if o.from != "" && (given.Changed("hidden") || given.Changed("features") || given.Changed("entropy-top")) {
		return usagef("--hidden, --features and --entropy-top are those of the classifier that --from names")
	}
	if o.from != "" && !given.Changed("part") {
		o.part = 0.1
	}
	if err := o.gatherOptions.check(); err != nil {
		return err
	}
	for i, f := range o.features {
		if !slices.Contains(c2tFeatures, f) || slices.Contains(o.features[:i], f) { // bound: c2tFeatures
			return usagef("--features has %q, want %s, %s and %s, each at most once", f, c2tFeatures[0], c2tFeatures[1],
				c2tFeatures[2])
		}
	}
	if len(o.features) == 0 {
		return usagef("--features is empty")
	}
	for i, n := range o.tops {
		if n < 1 || slices.Contains(o.tops[:i], n) { // bound: numbers in a flag
			return usagef("--entropy-top has %d, want numbers of 1 or more, each once", n)
		}
	}
	if len(o.tops) > 0 && !slices.Contains(o.features, adapt.FeatureEntropy) { // bound: features of a node
		return usagef("--entropy-top needs %s among the --features", adapt.FeatureEntropy)
	}
	if len(o.tops) > 1 && o.json {
		return usagef("--json prints one file; give one number to --entropy-top")
	}
	return cmp.Or(want("hidden", o.hidden, o.hidden >= 1 && o.hidden <= 1024, "1 to 1024"),
		want("ratio", o.ratio, o.ratio > 0, "more than 0"), want("others", o.others, o.others >= 1, "1 or more"),
		want("epochs", o.epochs, o.epochs >= 1, "1 or more"), want("batch", o.batch, o.batch >= 1, "1 or more"),
		want("part", o.part, o.part > 0 && o.part <= 1, "more than 0 and at most 1"))
}

// noPrompts names the prompts of a file that is made without any.
const noPrompts = "none"

// writeCut writes a classifier whose confidence crosses ½ at a joint probability of o.cut: DyJoint in C2T's paper.
func (o *c2tOptions) writeCut(ctx context.Context, c *console) error {
	s, err := openSession(ctx, c, &o.models)
	if err != nil {
		return err
	}
	defer s.close()
	const steep = 1000
	cut := &adapt.C2TClassifier{Features: []string{adapt.FeatureProbability}, Mean: []float64{0}, Scale: []float64{1},
		Hidden: [][]float64{{1}}, HiddenBias: []float64{0}, Output: []float64{steep}, OutputBias: -steep * o.cut}
	cut.Fingerprint, cut.Made = o.c2tFingerprint(s), o.made(nil)
	b, err := cut.Encode()
	if err != nil {
		return err
	}
	return o.write(c, b)
}

// c2tFingerprint names the models and the tree of the classifier's examples.
func (o *c2tOptions) c2tFingerprint(s *session) spec.Fingerprint {
	return o.fingerprint(s).WithTree(c2tTopK, c2tDepth, 1+c2tTopK+c2tDepth*c2tTopK*c2tTopK)
}

func (o *c2tOptions) run(ctx context.Context, c *console) error {
	if o.cut > 0 {
		return o.writeCut(ctx, c)
	}
	var from *adapt.C2TClassifier
	if o.from != "" {
		b, err := readFile(o.from)
		if err != nil {
			return err
		}
		if from, err = adapt.ParseC2T(o.from, b); err != nil {
			return err
		}
		o.features, o.hidden, o.tops = from.Features, len(from.Hidden), []int{from.EntropyTop}
	}
	s, texts, err := o.open(ctx, c)
	if err != nil {
		return err
	}
	defer s.close()
	switch len(o.tops) {
	case 0:
		return o.train(ctx, c, s, texts, from, 0)
	case 1:
		return o.train(ctx, c, s, texts, from, o.tops[0])
	}
	for _, top := range o.tops {
		one := *o
		ext := filepath.Ext(o.out)
		one.out = fmt.Sprintf("%s-%d%s", strings.TrimSuffix(o.out, ext), top, ext)
		fmt.Fprintf(o.report(c), "entropy of the %d likeliest tokens: %s\n", top, one.out)
		if err := one.train(ctx, c, s, texts, from, top); err != nil {
			return err
		}
	}
	return nil
}

// train trains a classifier that reads the entropy of the top likeliest tokens, of all if top is 0, and writes its
// file.
func (o *c2tOptions) train(ctx context.Context, c *console, s *session, texts []fit.Text, from *adapt.C2TClassifier,
	top int) error {
	settings := map[string]any{"k": c2tTopK, "depth": c2tDepth, "others": o.others}
	if top > 0 {
		settings["entropy top"] = top
	}
	collect := o.collect()
	collect.EntropyTop = top
	all, end, err := gather(ctx, c, &o.gatherOptions, s, "trees", settings, texts,
		func(t *fit.Text) ([]fit.C2TTree, error) {
			return fit.C2TTrees(ctx, s.Session, &t.Continuation, c2tDepth, c2tTopK, o.others, collect)
		})
	if err != nil {
		return err
	}
	prompts := make([]fit.PromptTrees, len(all))
	trees := 0
	for i := range all {
		prompts[i] = fit.PromptTrees{Category: texts[i].Category, Trees: all[i]}
		trees += len(all[i])
	}
	if trees == 0 {
		return errNoTexts
	}
	learn, held := fit.Hold(prompts, c2tHeld, o.seed)
	fmt.Fprintf(o.report(c), "%d trees of %d prompts, %d prompts held out\n", trees, len(learn)+len(held), len(held))
	if from != nil && len(held) > 0 {
		fmt.Fprintln(o.report(c), "as trained for the other pair:")
		reportThresholds(o.report(c), from, held)
	}
	training := fit.C2TTraining{Features: o.features, EntropyTop: top, Hidden: o.hidden, Ratio: o.ratio,
		Others: o.others, Part: o.part, Epochs: o.epochs, Batch: o.batch, Seed: o.seed, From: from}
	best, err := training.Run(ctx, learn, held, func(epoch int, loss float64, q fit.C2TQuality) {
		fmt.Fprintf(o.report(c), "epoch %3d: loss %.4f, held out: recall %.3f, kept %.4f of the nodes, AUC %.4f\n",
			epoch, loss, q.Recall, q.Kept, q.AUC)
	})
	if err != nil {
		return interruptedOr(ctx, err)
	}
	if len(held) > 0 {
		reportThresholds(o.report(c), best, held)
	}
	best.Fingerprint = o.c2tFingerprint(s)
	trained := best.Made.Settings
	best.Made = o.made(texts)
	best.Made.Samples = trees
	maps.Copy(best.Made.Settings, trained)
	b, err := best.Encode()
	if err != nil {
		return err
	}
	return o.write(c, b, end)
}

// reportThresholds prints what a classifier keeps of held-out trees, and the recall of equally many nodes chosen by
// joint probability, as EAGLE-2 ranks them.
func reportThresholds(w io.Writer, c *adapt.C2TClassifier, held []fit.PromptTrees) {
	fmt.Fprintf(w, "%9s %8s %8s %28s\n", "threshold", "recall", "kept", "recall by joint probability")
	all, area := fit.C2TThresholds(c, held)
	for _, t := range all {
		fmt.Fprintf(w, "%9.2f %8.3f %8.4f %28.3f\n", t.Threshold, t.Recall, t.Kept, t.RecallByProbability)
	}
	fmt.Fprintf(w, "AUC of the joint probability: %.4f\n", area)
}
