package method

import (
	"context"
	"errors"
	"runtime"
	"testing"

	"foretoken/spec"
)

// roundConfigs are ways to decode whose rounds are to allocate nothing, but for auto, whose history grows.
var roundConfigs = map[string]Config{
	"plain":     {Drafter: DrafterNone},
	"chain":     {Drafter: DrafterChain, Depth: 4},
	"eagle2":    {Drafter: DrafterEAGLE2, Depth: 3, TopK: 4, Nodes: 12},
	"static":    {Drafter: DrafterStatic, Shape: DefaultShape()},
	"sampled":   {Drafter: DrafterSampled, Shape: DefaultShape(), Verifier: VerifierWithoutReplacement},
	"rejection": {Drafter: DrafterChain, Depth: 4, Verifier: VerifierRejection},
	"ngram":     {Drafter: DrafterNgram, Depth: 6, NgramMax: 2, NgramMin: 1},
	"simple":    {Drafter: DrafterNgramSimple, Depth: 6, NgramMax: 3},
	"adaedl":    {Drafter: DrafterChain, Depth: 6, Adapt: AdaptAdaEDL},
	"assisted": {Drafter: DrafterChain, Depth: 4, Adapt: AdaptAssisted,
		Settings: Settings{Schedule: ScheduleConstant}},
	"adasd": {Drafter: DrafterChain, Depth: 4, Adapt: AdaptAdaSD, Verifier: VerifierAdaSD},
	"mars":  {Drafter: DrafterEAGLE2, Depth: 3, TopK: 4, Nodes: 12, Verifier: VerifierMARS},
	"auto":  {Drafter: DrafterAuto, Depth: 4, TopK: 4, Nodes: 16},
}

// errEnough ends a generation.
var errEnough = errors.New("enough rounds")

// generateBrisk makes tokens with a config until each, called after every round, says that it is enough.
func generateBrisk(t testing.TB, c Config, tokens int, each func(round int) (done bool)) {
	g, err := New(newBrisk(tokens+64), c, newBrisk(tokens+64))
	if err != nil {
		t.Fatal(err)
	}
	o := spec.Options{Sampling: spec.Sampling{Temperature: 0.8, Seed: 1}, MaxTokens: tokens, EOS: []int32{-1}}
	if _, err := g.Generate(context.Background(), []int32{1, 2, 3}, o, func(e *spec.Event) error {
		if each(e.Round) {
			return errEnough
		}
		return nil
	}); err != errEnough {
		t.Fatal(err)
	}
}

// TestRoundsAllocateNothing: after some rounds every array has the size that it needs.
func TestRoundsAllocateNothing(t *testing.T) {
	for name, c := range roundConfigs {
		warm, last, most := 40, 140, uint64(3) // the runtime's own, now and then
		if c.Drafter == DrafterAuto {
			warm, last, most = 200, 400, 40
		}
		var before, after runtime.MemStats
		generateBrisk(t, c, 20000, func(round int) bool {
			switch round {
			case warm:
				runtime.ReadMemStats(&before)
			case last:
				runtime.ReadMemStats(&after)
			}
			return round == last
		})
		if n := after.Mallocs - before.Mallocs; n > most {
			t.Errorf("%s: %d allocations in %d rounds", name, n, last-warm)
		}
	}
}

// BenchmarkRounds times the round loop alone, with models that take no time; an operation is a round.
func BenchmarkRounds(b *testing.B) {
	for name, c := range roundConfigs {
		b.Run(name, func(b *testing.B) {
			const warm = 40
			b.ReportAllocs()
			generateBrisk(b, c, 16*(b.N+warm), func(round int) bool {
				if round == warm {
					b.ResetTimer()
				}
				return round == warm+b.N
			})
		})
	}
}
