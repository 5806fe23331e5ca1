//go:build !js

package main

import (
	"context"
	"fmt"
	"hash/fnv"
	"io"
	"math"
	"math/rand/v2"

	"github.com/gomlx/gomlx/pkg/core/graph"
	"github.com/spf13/cobra"

	"foretoken"
	"foretoken/models/llama"
)

// The settings of the released code of acceptance heads (Huang et al., "SpecDec++", and the
// code that followed it for trees).
const (
	headRejected = 6.0 // weight of the rejected side of the loss
	headAccepted = 1.0
	headMix      = 0.5
	headEpochs   = 3
	headRate     = 1e-3
	headBatch    = 64
	headHeld     = 0.1
)

var headLabels = []string{foretoken.LabelArgmax, foretoken.LabelProbability, foretoken.LabelDraw, foretoken.LabelRatio}

// headOptions are the flags of train acceptance-head.
type headOptions struct {
	gatherOptions
	label    string
	layers   int
	mix      float64
	mixtures int
	rejected float64
	epochs   int
	rate     float64
}

func trainHeadCommand(c *console) *cobra.Command {
	o := headOptions{}
	cmd := &cobra.Command{
		Use:   "acceptance-head",
		Short: "Train a head that tells from the draft's hidden states what will be accepted",
		Long: "Train an acceptance head for a draft model: one or two residual layers on its final hidden state, after it consumed a token, and a sigmoid.\n\n" +
			"The draft draws a token at every position of the target's continuations; its label is the chance that the verifier\n" +
			"in use accepts it: argmax (matching at temperature 0), draw (matching above it, with drafts that share the target's\n" +
			"noise), probability (the same without the noise) or ratio (rejection sampling). The draft is fed texts in which each\n" +
			"token is the target's with probability --mix. A tenth of the prompts is held out. An interrupted run goes on where it was.",
		Example: "  foretoken train acceptance-head --prompts prompts.jsonl --out acceptance-head.json\n" +
			"  foretoken train acceptance-head --prompts prompts.jsonl --temperature 1 --label ratio --out rejection-head.json",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.check(); err != nil {
				return err
			}
			return o.run(cmd.Context(), c)
		},
	}
	f := cmd.Flags()
	o.flags(f, "acceptance-head.json")
	f.StringVar(&o.label, "label", "", "argmax, draw, probability or ratio (default argmax at temperature 0; above it draw, or probability with --no-coupling)")
	f.IntVar(&o.layers, "layers", 1, "residual layers, 1 or 2")
	f.Float64Var(&o.mix, "mix", headMix, "part of the tokens fed that are the target's")
	f.IntVar(&o.mixtures, "mixtures", 2, "mixed texts of each continuation")
	f.Float64Var(&o.rejected, "reject-weight", headRejected, "weight of the rejected side of the loss; the accepted side's is 1")
	f.IntVar(&o.epochs, "epochs", headEpochs, "times that every example is seen")
	f.Float64Var(&o.rate, "rate", headRate, "Adam's, at the beginning; it falls to 0 along half a cosine")
	return cmd
}

func (o *headOptions) check() error {
	if err := o.gatherOptions.check(); err != nil {
		return err
	}
	if o.label == "" {
		switch {
		case o.temperature == 0:
			o.label = foretoken.LabelArgmax
		case o.noCoupling:
			o.label = foretoken.LabelProbability
		default:
			o.label = foretoken.LabelDraw
		}
	}
	if err := oneOfFlag("label", o.label, headLabels); err != nil {
		return err
	}
	switch {
	case (o.label == foretoken.LabelArgmax) != (o.temperature == 0):
		return usagef("--label %s with --temperature %g: argmax is for temperature 0, and the others for above", o.label, o.temperature)
	case o.layers < 1 || o.layers > 2:
		return usagef("--layers is %d, want 1 or 2", o.layers)
	case !(o.mix >= 0 && o.mix < 1):
		return usagef("--mix is %v, want 0 or more and less than 1: the loss is over the draft's own tokens", o.mix)
	case o.mixtures < 1:
		return usagef("--mixtures is %d, want 1 or more", o.mixtures)
	case !(o.rejected > 0) || math.IsInf(o.rejected, 0):
		return usagef("--reject-weight is %v, want more than 0", o.rejected)
	case o.epochs < 1:
		return usagef("--epochs is %d, want 1 or more", o.epochs)
	case !(o.rate > 0 && o.rate <= 1):
		return usagef("--rate is %v, want more than 0 and at most 1", o.rate)
	}
	if o.label == foretoken.LabelProbability || o.label == foretoken.LabelRatio {
		o.models.candidates = 64 // the target's probabilities of other tokens than its choice
	}
	return nil
}

// mixtures are what a prompt gives to learn from.
type mixtures []*foretoken.Mixture

func (o *headOptions) run(ctx context.Context, c *console) error {
	s, err := openSession(ctx, c, &o.models)
	if err != nil {
		return interruptedOr(ctx, err)
	}
	defer s.close()
	texts, err := o.readTexts(ctx, c, s)
	if err != nil {
		return err
	}
	all, end, err := gather(ctx, c, &o.gatherOptions, s, "mixtures", map[string]any{"label": o.label, "mix": o.mix, "mixtures": o.mixtures}, texts,
		func(t *continued) (mixtures, error) {
			var ms mixtures
			own := fnv.New32a()
			own.Write([]byte(t.key))
			for i := range o.mixtures {
				m, err := s.CollectMixture(ctx, &t.Continuation, o.label, o.mix, own.Sum32()+uint32(i), o.collect())
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
	learn, held := hold(all, headHeld, o.seed)
	seen, err := o.read(ctx, c, s, "hidden states", learn)
	if err != nil {
		return interruptedOr(ctx, err)
	}
	judge, err := o.read(ctx, c, s, "held-out states", held)
	if err != nil {
		return interruptedOr(ctx, err)
	}
	if seen.len() == 0 || judge.len() == 0 {
		return errNoTexts
	}
	fmt.Fprintf(o.report(c), "label %s, %d tokens of %d prompts, %d tokens of %d prompts held out\n", o.label, seen.len(), len(learn), judge.len(), len(held))
	head, quality, err := o.train(ctx, o.report(c), seen, judge)
	if err != nil {
		return interruptedOr(ctx, err)
	}
	head.Fingerprint, head.Label = s.Fingerprint(), llama.LabelSampled
	if o.label == foretoken.LabelArgmax {
		head.Label = llama.LabelArgmax
	}
	head.Made = o.made(texts)
	head.Made.Samples = seen.len() + judge.len()
	for k, v := range map[string]string{
		"label": o.label, "mix": fmt.Sprint(o.mix), "AUC": fmt.Sprintf("%.4f", quality),
		"training": fmt.Sprintf("Adam %g, cosine, %d epochs, batch %d, rejected %g times accepted", o.rate, o.epochs, headBatch, o.rejected/headAccepted),
	} {
		head.Made.Settings[k] = v
	}
	b, err := head.Encode()
	if err != nil {
		return err
	}
	return o.write(c, b, end)
}

// read has the draft read the mixtures and keeps its hidden states after the tokens that
// have labels.
func (o *headOptions) read(ctx context.Context, c *console, s *session, what string, all []mixtures) (*examples, error) {
	bar := newBarOf(c, what, len(all))
	defer bar.clear()
	e := &examples{width: s.HiddenSize()}
	for i, ms := range all {
		for _, m := range ms {
			states, err := s.Hidden(ctx, m.Tokens)
			if err != nil {
				return nil, err
			}
			for j, label := range m.Labels {
				if label >= 0 {
					e.add(states[(m.First+j)*e.width:][:e.width], headAccepted*label, float32(o.rejected)*(1-label))
				}
			}
		}
		bar.set(i + 1)
	}
	return e, nil
}

// train fits a head, prints what it is worth on held-out prompts and returns its AUC there.
func (o *headOptions) train(ctx context.Context, w io.Writer, seen, held *examples) (*llama.Head, float64, error) {
	rng := rand.New(rand.NewPCG(o.seed, 4))
	var params []matrix
	for range o.layers {
		params = append(params, gaussian(rng, 0.1, seen.width, seen.width, seen.width), zeros(seen.width))
	}
	params = append(params, gaussian(rng, 0.1, seen.width, seen.width, 1), zeros(1))
	t := training{params: params, logits: residual, rate: o.rate, cosine: true, epochs: o.epochs, batch: headBatch, seed: o.seed}
	err := t.run(ctx, seen, func(epoch int, loss float64, now []matrix) error {
		params = now
		all, heldLoss := o.judge(now, held)
		fmt.Fprintf(w, "epoch %d: loss %.4f, held out: loss %.4f, AUC %.4f\n", epoch+1, loss, heldLoss, auc(all))
		return nil
	})
	if err != nil {
		return nil, 0, err
	}
	all, _ := o.judge(params, held)
	reportCurve(w, all, o.rejected/headAccepted)
	return asHead(params, seen.width), auc(all), nil
}

// residual is the head: layers of h + SiLU(h·W + b), then h·w + c.
func residual(p []*node, h *node) *node {
	for ; len(p) > 2; p = p[2:] {
		z := affine(h, p[0], p[1])
		h = graph.Add(h, graph.Mul(z, graph.Sigmoid(z)))
	}
	return flat(affine(h, p[0], p[1]))
}

// asHead is a head of trained parameters, which hold weights by input.
func asHead(p []matrix, dim int) *llama.Head {
	h := &llama.Head{Dim: dim}
	for ; len(p) > 2; p = p[2:] {
		byOutput := make([]float32, dim*dim)
		for in := range dim {
			for out := range dim {
				byOutput[out*dim+in] = p[0].values[in*dim+out]
			}
		}
		h.Layers = append(h.Layers, llama.HeadLayer{Weight: byOutput, Bias: p[1].values})
	}
	h.Weight, h.Bias = p[0].values, p[1].values[0]
	return h
}

// judge is what a head says of examples, with their labels, and the weighted loss.
func (o *headOptions) judge(p []matrix, e *examples) (all []judged, loss float64) {
	weights, head := 0.0, asHead(p, e.width)
	for i := range e.len() {
		v := head.Apply(e.inputs[i*e.width : (i+1)*e.width])
		yes, no := float64(e.yes[i]), float64(e.no[i])
		loss -= yes*math.Log(max(v, 1e-12)) + no*math.Log(max(1-v, 1e-12))
		weights += yes + no
		all = append(all, judged{v, yes / headAccepted, 1})
	}
	return all, loss / weights
}

// reportCurve prints how often tokens of each range of estimates were accepted. A loss that
// weighs the rejected side w times as much makes estimates p/(p+w(1-p)) of chances p,
// which the last column undoes.
func reportCurve(w io.Writer, all []judged, weight float64) {
	const bins = 10
	var count [bins]int
	var said, was [bins]float64
	for _, j := range all {
		b := min(int(j.p*bins), bins-1)
		count[b]++
		said[b] += j.p
		was[b] += j.label
	}
	fmt.Fprintf(w, "%12s %8s %10s %10s %22s\n", "estimate", "tokens", "mean", "accepted", "mean without weights")
	for b := range count {
		if count[b] == 0 {
			continue
		}
		n := float64(count[b])
		p := said[b] / n
		fmt.Fprintf(w, "%5.1f … %4.1f %8d %10.3f %10.3f %22.3f\n", float64(b)/bins, float64(b+1)/bins, count[b], p, was[b]/n, weight*p/(weight*p+1-p))
	}
}
