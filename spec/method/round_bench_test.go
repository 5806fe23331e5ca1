package method

import (
	"runtime"
	"testing"

	"foretoken/spec/spectest"
)

// roundConfigs are ways to decode whose rounds are to allocate nothing.
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
}

// generateBrisk makes tokens with a config until each, called after every round, says that it is enough.
func generateBrisk(t testing.TB, c Config, tokens int, each func(round int) (done bool)) {
	g, err := New(spectest.NewBrisk(tokens+64), c, spectest.NewBrisk(tokens+64))
	if err != nil {
		t.Fatal(err)
	}
	spectest.RunBrisk(t, g, tokens, each)
}

// TestRoundsAllocateNothing: after some rounds every array has the size that it needs.
func TestRoundsAllocateNothing(t *testing.T) {
	for name, c := range roundConfigs {
		const warm, last = 40, 140
		var before, after runtime.MemStats
		generateBrisk(t, c, 2000, func(round int) bool {
			switch round {
			case warm:
				runtime.ReadMemStats(&before)
			case last:
				runtime.ReadMemStats(&after)
			}
			return round == last
		})
		if n := after.Mallocs - before.Mallocs; n > 3 { // the runtime's own, now and then
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
