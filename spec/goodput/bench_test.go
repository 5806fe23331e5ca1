package goodput

import (
	"runtime"
	"testing"

	"foretoken/spec"
	"foretoken/spec/spectest"
)

// TestGoodputAllocatesLittle bounds the allocations per round: only the history grows, with the text.
func TestGoodputAllocatesLittle(t *testing.T) {
	const warm, last = 200, 400
	var before, after runtime.MemStats
	runGoodput(t, 20000, func(round int) bool {
		switch round {
		case warm:
			runtime.ReadMemStats(&before)
		case last:
			runtime.ReadMemStats(&after)
		}
		return round == last
	})
	if n := after.Mallocs - before.Mallocs; n > 40 {
		t.Errorf("%d allocations of %d bytes in %d rounds", n, after.TotalAlloc-before.TotalAlloc, last-warm)
	} else {
		t.Logf("%d allocations of %d bytes in %d rounds", n, after.TotalAlloc-before.TotalAlloc, last-warm)
	}
}

// BenchmarkGoodputRounds times the round loop of the goodput tree. An operation is a round.
func BenchmarkGoodputRounds(b *testing.B) {
	const warm = 200
	b.ReportAllocs()
	runGoodput(b, 20*(b.N+warm), func(round int) bool {
		if round == warm {
			b.ResetTimer()
		}
		return round == warm+b.N
	})
}

// runGoodput makes tokens with models that take no time.
func runGoodput(t testing.TB, tokens int, each func(round int) (done bool)) {
	tree := &Goodput{Models: Models{spectest.NewBrisk(tokens + 64)}, Levels: 5, Width: 4, Nodes: 16, Mode: "match"}
	g, err := spec.New(spectest.NewBrisk(tokens+64), spec.Parts{Drafter: tree, Policy: tree, Verifier: spec.Match{}})
	if err != nil {
		t.Fatal(err)
	}
	spectest.RunBrisk(t, g, tokens, each)
}
