package method

import (
	"context"
	"slices"
	"testing"

	"foretoken/spec"
	"foretoken/spec/spectest"
)

// adaEDLRounds decodes with AdaEDL and shows every round to see.
func adaEDLRounds(t *testing.T, c Config, sampling spec.Sampling, see func(e *spec.Event)) {
	t.Helper()
	target := spectest.NewTarget(&spectest.Script{Vocab: 12, Steps: 1e6}, 400, 64)
	g, err := New(target, c, spectest.NewDraft(target, 400, 0.1))
	if err != nil {
		t.Fatal(err)
	}
	_, err = g.Generate(context.Background(), []int32{1, 2}, spec.Options{Sampling: sampling, MaxTokens: 200},
		func(e *spec.Event) error {
			if e.Tree != nil {
				see(e)
			}
			return nil
		})
	if err != nil {
		t.Fatal(err)
	}
}

// adaEDLSettings put the bound of the scripted draft's distributions on both sides of the threshold.
var adaEDLSettings = Settings{Lambda: 0.1, Threshold: 0.57}

// TestAdaEDLChainIsTheTreeOfWidthOne drafts with the rule and with the tree drafter.
func TestAdaEDLChainIsTheTreeOfWidthOne(t *testing.T) {
	for _, sampling := range []spec.Sampling{{}, {Temperature: 1, Seed: 4}} {
		var chains, trees [][]int32
		chain := Config{Drafter: DrafterChain, Adapt: AdaptAdaEDL, Depth: 5, Settings: adaEDLSettings}
		adaEDLRounds(t, chain, sampling, func(e *spec.Event) { chains = append(chains, slices.Clone(e.Tree.Tokens)) })
		tree := Config{Drafter: DrafterEAGLE2, Adapt: AdaptAdaEDL, Depth: 4, TopK: 1, Nodes: 6,
			Settings: adaEDLSettings}
		adaEDLRounds(t, tree, sampling, func(e *spec.Event) { trees = append(trees, slices.Clone(e.Tree.Tokens)) })
		sizes := map[int]int{}
		for _, c := range chains {
			sizes[len(c)]++
		}
		if !slices.EqualFunc(chains, trees, slices.Equal) || len(sizes) < 3 {
			t.Errorf("%+v: chains by size %v, %d rounds and %d", sampling, sizes, len(chains), len(trees))
		}
	}
}

// TestAdaEDLTreesEndWhereTheBestBeamDoes holds every round to the definition.
func TestAdaEDLTreesEndWhereTheBestBeamDoes(t *testing.T) {
	c := Config{Drafter: DrafterEAGLE2, Adapt: AdaptAdaEDL, Depth: 3, TopK: 3, Nodes: 12, Settings: adaEDLSettings}
	rule := c.adaEDL()
	seen := map[int]int{}
	adaEDLRounds(t, c, spec.Sampling{}, func(e *spec.Event) {
		defer rule.Observe(e)
		if e.Stats.OutputTokens > 190 { // the end cuts trees short
			return
		}
		want := 0
		for d := range e.Levels {
			want++
			if rule.Stop([]spec.Drawn{{Entropy: e.Levels[d].Entropies[0]}}) {
				break
			}
		}
		if len(e.Levels) != want || want < c.Depth+1 &&
			!rule.Stop([]spec.Drawn{{Entropy: e.Levels[want-1].Entropies[0]}}) || e.Proposal.Drafted < want {
			t.Errorf("round %d: %d levels of %d drafted, want %d", e.Round, len(e.Levels), e.Proposal.Drafted, want)
		}
		seen[want]++
	})
	if len(seen) < 3 {
		t.Errorf("rounds by levels: %v", seen)
	}
}
