//go:build !js

package fit

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/gomlx/gomlx/pkg/core/graph"

	"foretoken"
	"foretoken/spec"
)

// HeadBatch is the number of examples per training step of a head.
const HeadBatch = 64

// headAccepted weighs the accepted side of the loss.
const headAccepted = 1.0

// HeadTraining configures the training of an acceptance head (Huang et al., "SpecDec++", and the released code that
// followed it for trees).
type HeadTraining struct {
	Layers   int     // residual layers
	Rejected float64 // weight of the rejected side of the loss
	Epochs   int
	Rate     float64 // of Adam, at the beginning; it falls to 0 along half a cosine
	Seed     uint64
}

// RejectedRatio is the ratio of two weights in the loss: the rejected side's to the accepted side's.
func (o *HeadTraining) RejectedRatio() float64 { return o.Rejected / headAccepted }

// headAhead is the number of tokens that an EAGLE-3 head consumes after each root, from its own features: those of
// the trees that decoding drafts by default.
const headAhead = 6

// HeadExamples runs what o drafts with over the mixtures of each prompt and keeps its hidden states after the labelled
// tokens. rejected weights the rejected side of the loss.
func HeadExamples(ctx context.Context, s *foretoken.Session, all [][]*Mixture, rejected float64, o Options,
	progress func(done int)) (*Examples, error) {
	return withModels(ctx, s, o, func(models foretoken.Models, model grower) (*Examples, error) {
		e := &Examples{}
		for i, ms := range all {
			for _, m := range ms {
				labels := m.Labels
				keep := func(x []float32) {
					if label := labels[0]; label >= 0 {
						e.width = len(x)
						e.add(x, headAccepted*label, float32(rejected)*(1-label))
					}
					labels = labels[1:]
				}
				if err := hiddenStates(ctx, models, model, m, o, keep); err != nil {
					return nil, err
				}
			}
			progress(i + 1)
		}
		return e, nil
	})
}

// hiddenStates calls each with the hidden state of every token of a mixture after the prompt. A draft model reads the
// mixture as one text. An EAGLE-3 head drafts from the target's features: it reads headAhead tokens of the mixture
// after the target's text, then as many after more of it.
func hiddenStates(ctx context.Context, models foretoken.Models, model grower, m *Mixture, o Options,
	each func([]float32)) error {
	if !o.Head {
		at := 0
		return models.Draft.Hidden(ctx, m.Tokens, func(x []float32) {
			if at++; at > m.First {
				each(x)
			}
		})
	}
	text := slices.Concat(m.Tokens[:m.First], m.Target)
	if err := model.begin(ctx, text, m.First-1); err != nil {
		return err
	}
	fed := m.First - 1
	for at := m.First; at < len(text); at += headAhead {
		ahead := m.Tokens[at:min(at+headAhead, len(text))]
		if err := models.Head.HiddenAhead(ctx, text[fed:at], ahead, each); err != nil {
			return err
		}
		fed = at
	}
	return nil
}

// Run trains a head and measures it on held-out examples after every epoch. It returns the head and its estimates
// there, without the weights of the loss: a loss that weighs the rejected side by w turns a probability p into the
// estimate p/(p+w(1-p)), whose log-odds are ln w too low.
func (o *HeadTraining) Run(ctx context.Context, seen, held *Examples,
	report func(epoch int, loss, heldLoss, area float64)) (*spec.Estimator, []Scored, error) {
	rng := rand.New(rand.NewPCG(o.Seed, 4))
	var params []matrix
	for range o.Layers {
		params = append(params, gaussian(rng, 0.1, seen.width, seen.width, seen.width), zeros(seen.width))
	}
	params = append(params, gaussian(rng, 0.1, seen.width, seen.width, 1), zeros(1))
	t := training{params: params, logits: residual, rate: o.Rate, cosine: true, epochs: o.Epochs,
		batch: HeadBatch, seed: o.Seed}
	err := t.run(ctx, seen, func(epoch int, loss float64, now []matrix) error {
		params = now
		all, heldLoss := score(asHead(now, seen.width), held)
		report(epoch+1, loss, heldLoss, AUC(all))
		return nil
	})
	if err != nil {
		return nil, nil, err
	}
	head := asHead(params, seen.width)
	head.Bias += float32(math.Log(o.RejectedRatio()))
	all, _ := score(head, held)
	return head, all, nil
}

// residual is the head: layers of h + SiLU(h·W + b), then h·w + c.
func residual(p []*node, h *node) *node {
	for ; len(p) > 2; p = p[2:] {
		z := affine(h, p[0], p[1])
		h = graph.Add(h, graph.Mul(z, graph.Sigmoid(z)))
	}
	return flat(affine(h, p[0], p[1]))
}

// asHead converts trained parameters, whose weights are stored by input, to a head.
func asHead(p []matrix, dim int) *spec.Estimator {
	h := &spec.Estimator{Dim: dim, Layers: []spec.EstimatorLayer{}}
	for ; len(p) > 2; p = p[2:] {
		byOutput := make([]float32, dim*dim)
		for in := range dim {
			for out := range dim {
				byOutput[out*dim+in] = p[0].values[in*dim+out]
			}
		}
		h.Layers = append(h.Layers, spec.EstimatorLayer{Weight: byOutput, Bias: p[1].values})
	}
	h.Weight, h.Bias = p[0].values, p[1].values[0]
	return h
}

// score returns a head's estimates of examples with their labels, and the weighted loss.
func score(head *spec.Estimator, e *Examples) (all []Scored, loss float64) {
	weights := 0.0
	for i := range e.Len() {
		v := head.Apply(e.inputs[i*e.width : (i+1)*e.width])
		yes, no := float64(e.yes[i]), float64(e.no[i])
		loss -= yes*math.Log(max(v, 1e-12)) + no*math.Log(max(1-v, 1e-12))
		weights += yes + no
		all = append(all, Scored{v, yes / headAccepted, 1})
	}
	return all, loss / weights
}

// ReliabilityBin holds the mean estimate and the mean outcome in one range of estimates.
type ReliabilityBin struct {
	From, To           float64
	N                  int
	Estimate, Accepted float64
}

// Reliability compares estimates with outcomes in ten ranges; empty ones are left out.
func Reliability(all []Scored) []ReliabilityBin {
	const bins = 10
	var count [bins]int
	var said, was [bins]float64
	for _, s := range all {
		b := min(int(s.P*bins), bins-1)
		count[b]++
		said[b] += s.P
		was[b] += s.Label
	}
	var out []ReliabilityBin
	for b, n := range count {
		if n > 0 {
			out = append(out,
				ReliabilityBin{float64(b) / bins, float64(b+1) / bins, n, said[b] / float64(n), was[b] / float64(n)})
		}
	}
	return out
}
