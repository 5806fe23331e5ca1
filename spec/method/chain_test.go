package method

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"testing"

	"foretoken/spec"
	drafting "foretoken/spec/draft"
	"foretoken/spec/spectest"
)

// chains runs a chain config with so many tokens drafted ahead of the rule, and gives what was proposed round by
// round, how many tokens were drafted for it and, of sampled chains, in how many calls.
func chains(t *testing.T, c Config, ahead int, differ float64, s spec.Sampling) (trees [][]int32, drafted, trips int) {
	t.Helper()
	target := spectest.NewTarget(&spectest.Script{Vocab: 4, Steps: 1e6}, 200, 64)
	draft := spectest.NewDraft(target, 200, differ)
	set := named(c)
	whole := set.Parts
	set.Parts = func(t *spectest.Target, d *spectest.DraftModel) spec.Parts {
		p := whole(t, d)
		switch x := p.Drafter.(type) {
		case *drafting.RankedChain:
			x.Ahead = ahead
		case *drafting.SampledChain:
			x.Ahead = ahead
		default:
			panic(fmt.Sprintf("%T is no chain that a rule ends", x))
		}
		return p
	}
	p := set.Parts(target, draft)
	g, err := spec.New(target, p)
	if err != nil {
		t.Fatal(err)
	}
	_, err = g.Generate(context.Background(), []int32{1, 2, 3}, spec.Options{Sampling: s, MaxTokens: 60},
		func(e *spec.Event) error {
			trees = append(trees, slices.Clone(e.Tree.Tokens))
			if !e.Tree.IsChain() || len(e.Proposal.Drawn) != e.Tree.Len()-1 {
				t.Fatalf("round %d: %d tokens are known of the chain %v", e.Round, len(e.Proposal.Drawn), e.Tree)
			}
			for i, d := range e.Proposal.Drawn {
				if d.Token != e.Tree.Tokens[i+1] {
					t.Fatalf("round %d: token %d is %d, known as %d", e.Round, i, e.Tree.Tokens[i+1], d.Token)
				}
			}
			if e.Proposal.Sampler != nil {
				drafted += len(draft.Drawn)
				trips += draft.Passes
			} else if e.Proposal.Levels != nil {
				drafted += len(draft.Levels)
			}
			return nil
		})
	if err != nil {
		t.Fatalf("%s: %v", set.Name, err)
	}
	return trees, drafted, trips
}

// TestChainsDoNotDependOnWhatIsDraftedAhead has every rule on ranked and on sampled chains.
func TestChainsDoNotDependOnWhatIsDraftedAhead(t *testing.T) {
	for _, c := range combinations(func(c Config) bool {
		return c.Drafter == DrafterChain && c.Adapt != AdaptFixed && c.Verifier != VerifierMARS
	}) {
		c.Depth = 7
		for _, s := range []spec.Sampling{{}, {Temperature: 1, Seed: 3}} {
			name := fmt.Sprintf("%s %s T=%v", c.Adapt, c.Verifier, s.Temperature)
			want, drafted, trips := chains(t, c, 1, 0.2, s)
			kept, shorter, longest := 0, 0, 0
			for _, tokens := range want {
				kept += len(tokens) - 1
				longest = max(longest, len(tokens)-1)
				if len(tokens) < 8 {
					shorter++
				}
			}
			// Asked after every token, a rule that only stops wastes none, and one that
			// cuts wastes the one it refuses.
			waste := drafted - kept
			if waste != 0 && c.Adapt != AdaptC2T || waste > len(want) || c.Samples() && trips != drafted {
				t.Errorf("%s: %d tokens of %d drafted were proposed, in %d calls", name, kept, drafted, trips)
			}
			if shorter < len(want)/4 || longest < 3 {
				t.Errorf("%s: %d of %d chains were ended, the longest had %d tokens", name, shorter, len(want), longest)
			}
			for _, ahead := range []int{2, 3, 20} {
				got, more, fewer := chains(t, c, ahead, 0.2, s)
				if !reflect.DeepEqual(got, want) {
					t.Errorf("%s: with %d ahead %v, one by one %v", name, ahead, got, want)
				}
				if ahead > 2 && (more <= drafted || c.Samples() && fewer >= trips) || more >= drafted+ahead*len(want) {
					t.Errorf("%s: %d ahead takes %d tokens and %d calls, one by one %d and %d", name, ahead, more,
						fewer, drafted, trips)
				}
			}
		}
	}
}

func TestAssistedSchedule(t *testing.T) {
	c := combination(DrafterChain, AdaptAssisted, VerifierMatch)
	c.Depth = 3
	a := c.assisted()
	a.Start()
	for i, step := range []struct{ drafted, accepted, want int }{
		{3, 3, 5}, {5, 5, 7}, {7, 6, 6}, {6, 0, 5}, {0, 0, 5}, {2, 2, 7}, {4, 1, 6},
		{6, 5, 5}, {5, 0, 4}, {4, 0, 3}, {3, 0, 2}, {2, 0, 1}, {1, 0, 1}, {1, 1, 3},
	} {
		a.Observe(spectest.Outcome(step.drafted, step.accepted))
		if got := a.NextBudget(spec.Budget{}); got != (spec.Budget{Levels: step.want, Width: 1, Nodes: step.want + 1}) {
			t.Errorf("step %d: %+v, want %d tokens", i, got, step.want)
		}
	}
	for range 20 {
		a.Observe(spectest.Outcome(1, 1))
	}
	if most := a.NextBudget(spec.Budget{}); most.Levels != 20 || most != c.Budget() {
		t.Errorf("the schedule grew to %+v, the models were prepared for %+v", most, c.Budget())
	}
	a.Start()
	if a.NextBudget(spec.Budget{}).Levels != 3 {
		t.Error("a new request goes on with the old one's schedule")
	}
	c.Schedule = ScheduleConstant
	a = c.assisted()
	a.Observe(spectest.Outcome(3, 3))
	a.Observe(spectest.Outcome(3, 0))
	if got := a.NextBudget(spec.Budget{}); got.Levels != 3 || got != c.Budget() {
		t.Errorf("a constant schedule gives %+v of %+v", got, c.Budget())
	}
	c.Depth, c.Schedule = 40, ""
	if c.Budget().Levels != 40 || c.assisted().Most != 40 {
		t.Errorf("a first round of 40 is planned as %+v", c.Budget())
	}
}

func TestAssistedStopsAfterDoubt(t *testing.T) {
	a := combination(DrafterChain, AdaptAssisted, VerifierMatch).assisted()
	sure := spec.Drawn{Prob: 0.9}
	if a.Confidence != 0.4 || a.Stop([]spec.Drawn{{Prob: 0.1}, sure}) || !a.Stop([]spec.Drawn{sure, {Prob: 0.39}}) ||
		a.Stop([]spec.Drawn{{Prob: 0.41}}) {
		t.Errorf("%+v", a)
	}
}

// TestAdaEDLIsWiredAsNamed: the settings of a config reach the rule, which plans what the models were prepared for.
func TestAdaEDLIsWiredAsNamed(t *testing.T) {
	c := Config{Drafter: DrafterChain, Adapt: AdaptAdaEDL, Depth: 4}
	if a := c.adaEDL(); a.Lambda != 0.2 || a.Threshold != 0.5 || a.Budget.Levels != 4 || c.Budget() !=
		a.NextBudget(spec.Budget{}) {
		t.Errorf("planned %+v by %+v, prepared for %+v", a.NextBudget(spec.Budget{}), a, c.Budget())
	}
	c.Lambda, c.Threshold = 1, 0.25
	if a := c.adaEDL(); a.Lambda != 1 || a.Threshold != 0.25 {
		t.Errorf("%+v", a)
	}
}
