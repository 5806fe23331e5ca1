//go:build !js

package fit

import (
	"context"
	"math"
	"math/rand/v2"

	"github.com/gomlx/gomlx/pkg/core/graph"

	"foretoken"
	"foretoken/models/runner"
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

// HeadExamples runs the draft over the mixtures of each prompt and keeps its hidden states after the labelled
// tokens. rejected weights the rejected side of the loss.
func HeadExamples(ctx context.Context, s *foretoken.Session, all [][]*Mixture, rejected float64,
	progress func(done int)) (*Examples, error) {
	e := &Examples{}
	for i, ms := range all {
		for _, m := range ms {
			states, width, err := Hidden(ctx, s, m.Tokens)
			if err != nil {
				return nil, err
			}
			e.width = width
			for j, label := range m.Labels {
				if label >= 0 {
					e.add(states[(m.First+j)*e.width:][:e.width], headAccepted*label, float32(rejected)*(1-label))
				}
			}
		}
		progress(i + 1)
	}
	return e, nil
}

// Run trains a head and measures it on held-out examples after every epoch. It returns the head and its estimates
// there, without the weights of the loss: a loss that weighs the rejected side by w turns a probability p into the
// estimate p/(p+w(1-p)), whose log-odds are ln w too low.
func (o *HeadTraining) Run(ctx context.Context, seen, held *Examples,
	report func(epoch int, loss, heldLoss, area float64)) (*runner.Head, []Scored, error) {
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
func asHead(p []matrix, dim int) *runner.Head {
	h := &runner.Head{Dim: dim}
	for ; len(p) > 2; p = p[2:] {
		byOutput := make([]float32, dim*dim)
		for in := range dim {
			for out := range dim {
				byOutput[out*dim+in] = p[0].values[in*dim+out]
			}
		}
		h.Layers = append(h.Layers, runner.HeadLayer{Weight: byOutput, Bias: p[1].values})
	}
	h.Weight, h.Bias = p[0].values, p[1].values[0]
	return h
}

// score returns a head's estimates of examples with their labels, and the weighted loss.
func score(head *runner.Head, e *Examples) (all []Scored, loss float64) {
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
