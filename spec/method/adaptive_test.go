package method

import (
	"context"
	"fmt"
	"testing"

	"foretoken/spec"
	"foretoken/spec/adapt"
	"foretoken/spec/spectest"
)

// adaptive are settings of every method whose drafter is in these files, ablations included.
func adaptive() []spectest.Setting {
	var all []spectest.Setting
	add := func(name string, c Config) {
		parts := func(t *spectest.Target, d *spectest.DraftModel) spec.Parts {
			d.Accept = c.Fitted.Head != nil
			p, err := c.Parts(t, d)
			if err != nil {
				panic(err)
			}
			return p
		}
		all = append(all, spectest.Setting{Name: name, Parts: parts})
	}
	hetero := func(edit func(*Config)) Config {
		c := heteroConfig(spread, spreadCoupled)
		edit(&c)
		return c
	}
	add("hetero", hetero(func(*Config) {}))
	add("hetero, everything low", heteroConfig([]float64{50, 60}, []float64{50, 60}))
	add("hetero, extension only", hetero(func(c *Config) { c.NoPruning = true }))
	add("hetero, pruning only", hetero(func(c *Config) { c.NoExtension = true }))
	add("hetero, no adaptation", hetero(func(c *Config) { c.NoAdaptation = true }))
	add("hetero, alpha+1, uncoupled", hetero(func(c *Config) { c.Alpha, c.Uncoupled = 1, true }))
	c2t := func(edit func(*Config)) Config {
		c := Config{Drafter: DrafterEAGLE2, Verifier: VerifierMatch, Adapt: AdaptC2T, Depth: 3, TopK: 3, Nodes: 16,
			Fitted: Fitted{C2T: randomClassifier(1)}}
		edit(&c)
		return c
	}
	add("c2t", c2t(func(*Config) {}))
	add("c2t, one pruning", c2t(func(c *Config) { c.OnePruning, c.Threshold = true, 0.3 }))
	add("c2t, nothing stays", c2t(func(c *Config) { c.Threshold = 0.999999 }))
	add("c2t, everything stays", c2t(func(c *Config) { c.Threshold, c.Uncoupled = 1e-9, true }))
	add("c2t, chain", c2t(func(c *Config) { c.Drafter = DrafterChain }))
	head := func(edit func(*Config)) Config {
		c := Config{Drafter: DrafterEAGLE2, Verifier: VerifierMatch, Adapt: AdaptAcceptance, Depth: 4, TopK: 3,
			Nodes: 14, Fitted: Fitted{Head: &adapt.AcceptanceHead{}}}
		edit(&c)
		return c
	}
	for _, h := range []float64{0, 0.5, 0.95, 2} {
		add(fmt.Sprintf("acceptance, h %v", h), head(func(c *Config) { c.Threshold = h }))
	}
	add("acceptance, any", head(func(c *Config) { c.Threshold, c.Any = 0.8, true }))
	add("acceptance, chain", head(func(c *Config) { c.Drafter, c.Threshold = DrafterChain, 0.7 }))
	return all
}

func TestAdaptiveDraftsEqualPlainDecoding(t *testing.T) {
	prompt := []int32{1, 0, 1}
	for _, vocab := range []int{2, 5, 40} {
		if testing.Short() && vocab != 5 { // TestCombinationsEqualPlainDecoding has these policies with the others
			continue
		}
		for _, steps := range []float64{1, 1e6} { // with and without ties
			target := spectest.NewTarget(&spectest.Script{Vocab: vocab, Steps: steps}, 96, 64)
			for _, differ := range []float64{0.1, 1} {
				for _, set := range adaptive() {
					draft := spectest.NewDraft(target, 128, differ)
					for i, sampling := range spectest.Samplings() {
						sampling.Seed = 7
						o := spec.Options{Sampling: sampling, MaxTokens: 24}
						want, finish := spectest.Plain(target.Script, prompt, 96, o)
						got, stats := spectest.Generate(t, set, target, draft, prompt, o)
						spectest.Expect(t, fmt.Sprintf("%s, sampling %d, differ %v", set.Name, i, differ), got, stats,
							want, finish)
					}
				}
			}
		}
	}
}

// TestAdaptiveDraftsEndAnywhere ends generations by length and by either context at each place of a run.
func TestAdaptiveDraftsEndAnywhere(t *testing.T) {
	prompt := []int32{1, 0, 2, 1}
	s := &spectest.Script{Vocab: 6, Steps: 1e6}
	for _, set := range adaptive() {
		for _, sampling := range []spec.Sampling{{}, {Temperature: 1, TopP: 0.9, Seed: 11}} {
			for _, differ := range []float64{0, 0.3} {
				for n := 1; n <= 14; n++ {
					run := func(kind string, context, draftContext, rows int, o spec.Options) {
						t.Helper()
						o.Sampling = sampling
						target := spectest.NewTarget(s, context, rows)
						want, finish := spectest.Plain(s, prompt, context, o)
						got, stats := spectest.Generate(t, set, target, spectest.NewDraft(target, draftContext, differ),
							prompt, o)
						spectest.Expect(t, fmt.Sprintf("%s, T=%v, differ %v, end at %d by %s", set.Name,
							sampling.Temperature, differ, n, kind), got, stats, want, finish)
					}
					run("context", len(prompt)+n, 96, 32, spec.Options{})
					run("the draft's context", len(prompt)+14, max(len(prompt)+n-2, 1), 32, spec.Options{})
					run("length", 96, 96, 32, spec.Options{MaxTokens: n})
				}
			}
		}
	}
}

// TestAdaptiveDraftsUnderALossyVerifier: what adapts the draft does not depend on the verifier.
func TestAdaptiveDraftsUnderALossyVerifier(t *testing.T) {
	target := spectest.NewTarget(&spectest.Script{Vocab: 12, Steps: 1e6}, 300, 64)
	for _, mode := range []string{MARSAlg1, MARSSampled} {
		mars := Config{Drafter: DrafterNone, Verifier: VerifierMARS}
		mars.Mode = mode
		lossyParts, err := mars.Parts(target, nil)
		if err != nil {
			t.Fatal(err)
		}
		relaxed := 0
		for _, set := range adaptive() {
			p := set.Parts(target, spectest.NewDraft(target, 300, 0.1))
			p.Verifier, p.Lossy = lossyParts.Verifier, lossyParts.Lossy
			g, err := spec.New(target, p)
			if err != nil {
				t.Fatal(err)
			}
			stats, err := g.Generate(context.Background(), []int32{1, 2},
				spec.Options{Sampling: spec.Sampling{Temperature: 1, Seed: 2}, MaxTokens: 200}, nil)
			if err != nil || stats.OutputTokens != 200 || !stats.Lossy {
				t.Errorf("%s, %s: %+v (%v)", set.Name, mode, stats, err)
			}
			relaxed += stats.Relaxed
		}
		if relaxed == 0 {
			t.Errorf("%s relaxed nothing", mode)
		}
	}
}
