package spec

import (
	"testing"
	"time"
)

// shared is a machine on which others work now and then: for every other stretch, in the mean, everything takes up to three times as long.
func shared(seed uint64, stretch time.Duration) func(time.Duration) float64 {
	return func(now time.Duration) float64 {
		return 1 + 4*max(0, unit(mix(seed^uint64(now/stretch)*7919))-0.5)
	}
}

// TestBusyMachinesDoNotMislead: what others do on the machine while costs are measured, and while rounds run, says nothing of
// what passes take beside each other, nor of what drafting brings.
func TestBusyMachinesDoNotMislead(t *testing.T) {
	sum, n := 0.0, 0.0
	for seed := range uint64(12) {
		for _, stretch := range []time.Duration{60 * time.Millisecond, 300 * time.Millisecond, 2 * time.Second} {
			for _, skill := range []float64{0.55, 0.75} {
				in := func() *world {
					return &world{seed: 3 + seed, vocab: 500, skill: steady(skill), noise: 0.05, busy: shared(seed, stretch),
						times: times{row: 16, verify: line(0.14), root: 0.12, level: 0.08, beam: 0.005, sync: 0.02, feed: 0.003}}
				}
				best := in().run(func(*worldDraft) Parts { return Parts{Drafter: None{}, Policy: Fixed{}} }, 6, 48)
				for _, k := range []int{1, 2, 3, 5} {
					best = max(best, in().run(fixedParts(Config{Drafter: DrafterChain, Depth: k}), 6, 48))
				}
				w := in()
				sum, n = sum+w.run(autoParts(w), 6, 48)/best, n+1
			}
		}
	}
	if mean := sum / n; mean < 0.935 {
		t.Errorf("%.3f of the speed of the best fixed chain in the mean", mean)
	} else {
		t.Logf("%.3f of the speed of the best fixed chain in the mean", mean)
	}
}
