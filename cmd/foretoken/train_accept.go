//go:build !js

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"io/fs"
	"maps"
	"math"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"foretoken"
	"foretoken/fit"
	"foretoken/spec"
	"foretoken/spec/adapt"
)

// The settings of the released code for acceptance heads (Huang et al., "SpecDec++", and the code that followed it
// for trees).
const (
	headRejected = 6.0 // weight of the rejected side of the loss
	headMix      = 0.5
	headEpochs   = 3
	headRate     = 1e-3
	headHeld     = 0.1
)

type headOptions struct {
	gatherOptions
	label    string
	layers   int
	mix      float64
	mixtures int
	rejected float64
	epochs   int
	rate     float64
	add      bool
}

func trainHeadCommand(c *console) *cobra.Command {
	o := headOptions{}
	cmd := &cobra.Command{
		Use:   "acceptance-head",
		Short: "Train a head that predicts acceptance from the draft's hidden states",
		Long: "Train an acceptance head for a draft model or an EAGLE-3 head: up to two residual layers and a " +
			"sigmoid on the draft's final hidden state after a token." + `

The draft draws a token at every position of the target's continuations; its label is the chance that the verifier
in use accepts it: argmax (matching at temperature 0), draw (matching above it, with drafts that share the target's
noise), probability (the same without the noise) or ratio (rejection sampling). In the texts that the draft reads,
each token is the target's with probability --mix. An EAGLE-3 head reads six tokens of such a text at a time, each time
after the target's own. A tenth of the prompts is held out. An interrupted run continues
where it stopped.`,
		Example: `  foretoken train acceptance-head --prompts prompts.jsonl --out acceptance-head.json
  foretoken train acceptance-head --prompts prompts.jsonl --temperature 1 --label ratio --out rejection-head.json
  foretoken train acceptance-head --prompts prompts.jsonl --source eagle3 --layers 0 \
    --out acceptance-head.json --add`,
		Args: flagsOnly,
		RunE: checkedRun(o.check, func(ctx context.Context) error { return o.run(ctx, c) }),
	}
	f := cmd.Flags()
	o.flags(f, "acceptance-head.json")
	o.sourceFlag(f)
	f.StringVar(&o.label, "label", "", "argmax, draw, probability or ratio (default argmax at temperature 0; "+
		"above it draw, or probability with --no-coupling)")
	f.IntVar(&o.layers, "layers", 1, "residual layers, 0 to 2")
	f.Float64Var(&o.mix, "mix", headMix, "share of the target's tokens in the training texts")
	f.IntVar(&o.mixtures, "mixtures", 2, "training texts per continuation")
	f.Float64Var(&o.rejected, "reject-weight", headRejected,
		"weight of the rejected side of the loss, undone in the file; the accepted side's is 1")
	f.IntVar(&o.epochs, "epochs", headEpochs, "passes over the examples")
	f.Float64Var(&o.rate, "rate", headRate, "initial learning rate of Adam; it falls to 0 along half a cosine")
	f.BoolVar(&o.add, "add", false, "keep the calibrations that --out has, but for a head of the same draft, label "+
		"and band of temperatures")
	return cmd
}

func (o *headOptions) check(*pflag.FlagSet) error {
	if err := o.gatherOptions.check(); err != nil {
		return err
	}
	if o.label == "" {
		switch {
		case o.temperature == 0:
			o.label = adapt.LabelArgmax
		case o.noCoupling:
			o.label = adapt.LabelProbability
		default:
			o.label = adapt.LabelDraw
		}
	}
	if err := oneOfFlag("label", o.label, adapt.Labels()); err != nil {
		return err
	}
	if (o.label == adapt.LabelArgmax) != (o.temperature == 0) {
		return usagef("--label %s with --temperature %g: argmax is for temperature 0, and the others for above",
			o.label, o.temperature)
	}
	if err := cmp.Or(want("layers", o.layers, o.layers >= 0 && o.layers <= spec.MostEstimatorLayers, "0 to 2"),
		want("mix", o.mix, o.mix >= 0 && o.mix < 1,
			"0 or more and less than 1: the loss is over the draft's own tokens"),
		want("mixtures", o.mixtures, o.mixtures >= 1, "1 or more"),
		want("reject-weight", o.rejected, o.rejected > 0 && !math.IsInf(o.rejected, 0), "more than 0"),
		want("epochs", o.epochs, o.epochs >= 1, "1 or more"),
		want("rate", o.rate, o.rate > 0 && o.rate <= 1, "more than 0 and at most 1")); err != nil {
		return err
	}
	if o.label == adapt.LabelProbability || o.label == adapt.LabelRatio {
		o.models.candidates = 64 // for the probabilities of tokens that the target did not choose
	}
	return nil
}

func (o *headOptions) run(ctx context.Context, c *console) error {
	s, texts, err := o.open(ctx, c)
	if err != nil {
		return err
	}
	defer s.close()
	all, end, err := gather(ctx, c, &o.gatherOptions, s, "mixtures",
		map[string]any{"label": o.label, "mix": o.mix, "mixtures": o.mixtures}, texts,
		func(t *fit.Text) ([]*fit.Mixture, error) {
			var ms []*fit.Mixture
			own := fnv.New32a()
			own.Write([]byte(t.Key))
			for i := range o.mixtures {
				m, err := fit.Mix(ctx, s.Session, &t.Continuation, o.label, o.mix, own.Sum32()+uint32(i), o.collect())
				if err != nil {
					return nil, err
				}
				ms = append(ms, m)
			}
			return ms, nil
		})
	if err != nil {
		return err
	}
	learn, held := fit.Hold(all, headHeld, o.seed)
	seen, err := o.states(ctx, c, s, "hidden states", learn)
	if err != nil {
		return interruptedOr(ctx, err)
	}
	test, err := o.states(ctx, c, s, "held-out states", held)
	if err != nil {
		return interruptedOr(ctx, err)
	}
	if seen.Len() == 0 || test.Len() == 0 {
		return errNoTexts
	}
	fmt.Fprintf(o.report(c), "label %s, %d tokens of %d prompts, %d tokens of %d prompts held out\n", o.label,
		seen.Len(), len(learn), test.Len(), len(held))
	training := fit.HeadTraining{Layers: o.layers, Rejected: o.rejected, Epochs: o.epochs, Rate: o.rate, Seed: o.seed}
	trained, scored, err := training.Run(ctx, seen, test, func(epoch int, loss, heldLoss, area float64) {
		fmt.Fprintf(o.report(c), "epoch %d: loss %.4f, held out: loss %.4f, AUC %.4f\n", epoch, loss, heldLoss, area)
	})
	if err != nil {
		return interruptedOr(ctx, err)
	}
	reportCurve(o.report(c), scored)
	head := adapt.AcceptanceHead{Label: o.label, Estimator: *trained}
	if head.Fingerprint = o.fingerprint(s); o.models.useHead {
		head.Source = o.source
	}
	head.Made = o.made(texts)
	head.Made.Samples = seen.Len() + test.Len()
	maps.Copy(head.Made.Settings, map[string]string{
		"mix": fmt.Sprint(o.mix), "AUC": fmt.Sprintf("%.4f", fit.AUC(scored)),
		"training": fmt.Sprintf("Adam %g, cosine, %d epochs, batch %d, rejected %g times accepted", o.rate, o.epochs,
			fit.HeadBatch, training.RejectedRatio()),
	})
	b, err := o.encode(&head)
	if err != nil {
		return err
	}
	return o.write(c, b, end)
}

// encode returns the output file with a head.
func (o *headOptions) encode(head *adapt.AcceptanceHead) ([]byte, error) {
	var kept foretoken.Calibrations
	if o.add {
		b, err := readFile(o.out)
		if err == nil {
			err = kept.Parse(o.out, b)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	kept.Heads = append(slices.DeleteFunc(kept.Heads, func(h *adapt.AcceptanceHead) bool {
		return h.Matches(head.Fingerprint, head.Use()) == nil && h.Covers(head.Use()) == nil
	}), head)
	return kept.Encode()
}

// states runs what drafts over the mixtures under a progress bar.
func (o *headOptions) states(ctx context.Context, c *console, s *session, what string,
	all [][]*fit.Mixture) (*fit.Examples, error) {
	bar := newBar(c, what, len(all))
	defer bar.clear()
	return fit.HeadExamples(ctx, s.Session, all, o.rejected, o.collect(), bar.set)
}

// reportCurve prints the acceptance rate in ranges of estimates.
func reportCurve(w io.Writer, all []fit.Scored) {
	fmt.Fprintf(w, "%12s %8s %10s %10s\n", "estimate", "tokens", "mean", "accepted")
	for _, b := range fit.Reliability(all) {
		fmt.Fprintf(w, "%5.1f … %4.1f %8d %10.3f %10.3f\n", b.From, b.To, b.N, b.Estimate, b.Accepted)
	}
}
