package spec

import (
	"runtime"
	"testing"
)

// TestGoodputAllocatesLittle: in rounds of the goodput tree only the record of which token stands
// where grows, with the text.
func TestGoodputAllocatesLittle(t *testing.T) {
	const warm, last = 200, 400
	var before, after runtime.MemStats
	generateBrisk(t, Config{Drafter: DrafterAuto, Depth: 4, TopK: 4, Nodes: 16}, 20000, func(round int) bool {
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

// BenchmarkGoodputRounds times the round loop of the goodput tree; an operation is a round.
func BenchmarkGoodputRounds(b *testing.B) {
	const warm = 200
	b.ReportAllocs()
	generateBrisk(b, Config{Drafter: DrafterAuto, Depth: 4, TopK: 4, Nodes: 16}, 20*(b.N+warm), func(round int) bool {
		if round == warm {
			b.ResetTimer()
		}
		return round == warm+b.N
	})
}
