package fit

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"

	"foretoken"
	"foretoken/spec"
	"foretoken/spec/adapt"
)

// Mixture is a training text of an acceptance head: a prompt and then, at each position, the target's token or the
// draft's.
type Mixture struct {
	Tokens []int32 `json:"tokens"` // input of the draft
	First  int     `json:"first"`  // index of the first token after the prompt
	// Labels holds the probability that the verifier accepts each token from First on, and -1 for the target's own
	// tokens, which need no estimate.
	Labels []float32 `json:"labels"`
	// Target holds the target's tokens from First on, whose features an EAGLE-3 head reads; nil: a draft model's.
	Target []int32 `json:"target,omitempty"`
}

// Mix draws a drafted token x ~ q at every position of a text, each after the target's own tokens, labels it, and
// mixes the two: each position holds the target's token with probability mix (Huang et al., "SpecDec++", §3.2). At
// temperature 0, where a draft has no draws, x is drawn at temperature 1, so that tokens of every rank occur. Each
// number gives other draws from the same text.
func Mix(ctx context.Context, s *foretoken.Session, c *Continuation, label string, mix float64, number uint32,
	o Options) (*Mixture, error) {
	return withModels(ctx, s, o, func(m foretoken.Models, model grower) (*Mixture, error) {
		return collectMixture(ctx, m.Target, model, c, label, mix, number, o)
	})
}

func collectMixture(ctx context.Context, target spec.Target, model grower, c *Continuation, label string,
	mix float64, number uint32, o Options) (*Mixture, error) {
	if greedy := label == adapt.LabelArgmax; greedy != (o.Temperature == 0) {
		return nil, fmt.Errorf("foretoken: the label %s at temperature %g: %s is for temperature 0, "+
			"and the others for above", label, o.Temperature, adapt.LabelArgmax)
	}
	rng := rand.New(rand.NewPCG(o.Seed, uint64(number)<<32|uint64(len(c.Prompt))<<16|uint64(len(c.Tokens))))
	if label != adapt.LabelDraw { // seeds the draft's own noise; shared noise is the target's
		o.Seed ^= uint64(number) << 32
	}
	drawn, err := drawAlong(ctx, model, c, label == adapt.LabelDraw, o)
	if err != nil {
		return nil, err
	}
	labels := make([]float32, len(drawn))
	switch label {
	case adapt.LabelArgmax, adapt.LabelDraw:
		for i, d := range drawn {
			if d.Token == c.Tokens[i] {
				labels[i] = 1
			}
		}
	case adapt.LabelProbability, adapt.LabelRatio:
		p, err := probabilities(ctx, target, c, drawn, o)
		if err != nil {
			return nil, err
		}
		for i, d := range drawn {
			labels[i] = float32(p[i])
			if label == adapt.LabelRatio {
				labels[i] = float32(min(1, p[i]/max(float64(d.Prob), 1e-30)))
			}
		}
	default:
		return nil, fmt.Errorf("foretoken: unknown label %.80q, want one of %s", label,
			strings.Join(adapt.Labels(), ", "))
	}
	m := &Mixture{Tokens: append([]int32(nil), c.Prompt...), First: len(c.Prompt), Labels: labels}
	if o.Head {
		m.Target = c.Tokens
	}
	for i, d := range drawn {
		if rng.Float64() < mix {
			m.Tokens, m.Labels[i] = append(m.Tokens, c.Tokens[i]), -1
		} else {
			m.Tokens = append(m.Tokens, d.Token)
		}
	}
	return m, nil
}

// drawAlong lets the draft draw one token at every position of a text after its prompt.
func drawAlong(ctx context.Context, model grower, c *Continuation, coupled bool,
	o Options) ([]spec.Drawn, error) {
	text, n := c.ids(), len(c.Prompt)
	s := o.sampling()
	if s.Temperature == 0 {
		s.Temperature = 1
	}
	if err := model.begin(ctx, text, n-1); err != nil {
		return nil, err
	}
	var all []spec.Drawn
	for i := range c.Tokens {
		drawn, err := model.Sample(ctx,
			spec.SampleRequest{Pending: text[n-1+i : n+i], Count: 1, Coupled: coupled, Sampling: s})
		if err != nil {
			return nil, err
		}
		if len(drawn) != 1 {
			return nil, errors.New("foretoken: the draft drew nothing")
		}
		all = append(all, drawn[0])
		if err := model.Commit(nil); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// probabilities returns the target's probability of one token at every position of a text after its prompt. A token
// outside of the target's Limits.TopK best counts as impossible, and the best share the total probability: with 64
// of them labels move by less than the least of their probabilities.
func probabilities(ctx context.Context, target spec.Target, c *Continuation, tokens []spec.Drawn,
	o Options) ([]float64, error) {
	text, n := c.ids(), len(c.Prompt)
	target.Reset()
	if n > 1 {
		if err := target.Prefill(ctx, text[:n-1]); err != nil {
			return nil, err
		}
	}
	var all []float64
	var chain spec.Tree
	var path []int32
	for done := 0; done < len(tokens); {
		chain.Reset(text[n-1+done])
		path = append(path[:0], 0)
		for i := 1; i < target.Limits().MaxRows && done+i < len(tokens); i++ {
			chain.Add(int32(i-1), text[n-1+done+i], 0)
			path = append(path, int32(i))
		}
		pass, err := target.Verify(ctx, spec.PassRequest{Sampling: o.sampling(), Tree: &chain})
		if err != nil {
			return nil, err
		}
		for i := range path {
			all = append(all, tempered(&pass.Outputs[i], tokens[done+i].Token, o.Temperature))
		}
		done += len(path)
		if err := target.Commit(path); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// tempered returns a token's probability at a temperature among the known best.
func tempered(out *spec.NodeOutput, token int32, temperature float64) float64 {
	sum, p := 0.0, 0.0
	for i, id := range out.TopIDs {
		e := math.Exp(float64(out.TopLogits[i]-out.TopLogits[0]) / temperature)
		sum += e
		if id == token {
			p = e
		}
	}
	return p / sum
}
