package method

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"foretoken/spec"
	"foretoken/spec/adapt"
	"foretoken/spec/spectest"
)

// TestMARSWithoutRelaxationIsStrict has theta 1 under every drafter and policy: the sampled mode
// is plain decoding, and alg1 is greedy decoding at every temperature.
func TestMARSWithoutRelaxationIsStrict(t *testing.T) {
	prompt := []int32{1, 0, 1}
	target := spectest.NewTarget(&spectest.Script{Vocab: 6, Steps: 4}, 96, 64)
	draft := spectest.NewDraft(target, 128, 0.2)
	for _, c := range combinations(func(c Config) bool { return c.Verifier == VerifierMARS }) {
		for i, sampling := range spectest.Samplings() {
			for _, mode := range []string{MARSAlg1, MARSSampled} {
				c.Theta, c.Mode = 1, mode
				o := spec.Options{Sampling: sampling, MaxTokens: 24}
				strict := o
				if mode == MARSAlg1 {
					strict.Sampling = spec.Sampling{}
				}
				want, finish := spectest.Plain(target.Script, prompt, 96, strict)
				got, stats := spectest.Generate(t, named(c), target, draft, prompt, o)
				spectest.Expect(t, fmt.Sprintf("%s %s, mode %s, sampling %d", c.Drafter, c.Adapt, mode, i), got, stats,
					want, finish)
				if stats.Relaxed != 0 || !stats.Lossy {
					t.Errorf("%s %s: relaxed %d, lossy %v", c.Drafter, c.Adapt, stats.Relaxed, stats.Lossy)
				}
			}
		}
	}
}

// TestMARSAcceptsMore: the rule accepts more tokens than matching.
func TestMARSAcceptsMore(t *testing.T) {
	target := spectest.NewTarget(&spectest.Script{Vocab: 12, Steps: 1e6}, 2000, 64)
	draft := spectest.NewDraft(target, 2000, 0.4)
	run := func(mode string, theta, temperature float64) spec.Stats {
		c := combination(DrafterChain, AdaptFixed, VerifierMARS)
		// Noise shared with the target leaves little to relax: a draft that has the token drawn is accepted anyway.
		c.Mode, c.Theta, c.Uncoupled = mode, theta, true
		_, stats := spectest.Generate(t, named(c), target, draft, []int32{1},
			spec.Options{Sampling: spec.Sampling{Temperature: temperature, Seed: 1}, MaxTokens: 1000})
		return stats
	}
	for _, temperature := range []float64{0, 1} {
		for _, mode := range []string{MARSAlg1, MARSSampled} {
			strict, last := run(mode, 1, temperature), 1000
			for _, theta := range []float64{0.7, 0.8, 0.9} {
				mars := run(mode, theta, temperature)
				if mars.Relaxed == 0 || mars.Relaxed >= last || mars.AcceptedLength() <= strict.AcceptedLength() {
					t.Errorf("T=%v, %s: accepted length %.2f with %d relaxed at theta %v, %.2f strictly", temperature,
						mode, mars.AcceptedLength(), mars.Relaxed, theta, strict.AcceptedLength())
				}
				last = mars.Relaxed
			}
		}
	}
}

func TestMARSSettingsAreChecked(t *testing.T) {
	nan := math.NaN()
	for _, k := range []Settings{{Theta: -0.1}, {Theta: 1.1}, {Theta: nan}, {Gap: -1}, {Gap: nan}} {
		c := combination(DrafterChain, AdaptFixed, VerifierMARS)
		c.Settings = k
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), ", want 0 (") {
			t.Errorf("%+v: %v", k, err)
		}
	}
	c := combination(DrafterChain, AdaptFixed, VerifierMARS)
	c.Mode = "alg2"
	if err := c.Validate(); err == nil || !strings.Contains(err.Error(), `mode is "alg2", want alg1 or sampled`) {
		t.Errorf("mode alg2: %v", err)
	}
	target := spectest.NewTarget(&spectest.Script{Vocab: 6, Steps: 4}, 96, 64)
	p, err := combination(DrafterChain, AdaptFixed, VerifierMARS).Parts(target, spectest.NewDraft(target, 128, 0.2))
	if m := p.Verifier; err != nil || m != (adapt.MARS{Theta: 0.9}) {
		t.Errorf("the default is %+v (%v)", m, err)
	}
}
