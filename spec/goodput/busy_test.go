package goodput

import (
	"testing"
	"time"

	"foretoken/spec"
	"foretoken/spec/draft"
	"foretoken/spec/spectest"
)

// shared is the load of a machine with other processes: in about every other stretch, passes take up to three times as
// long.
func shared(seed uint64, stretch time.Duration) func(time.Duration) float64 {
	return func(now time.Duration) float64 {
		return 1 + 4*max(0, spectest.Unit(spectest.Mix(seed^uint64(now/stretch)*7919))-0.5)
	}
}

// TestBusyMachinesDoNotMislead runs the controller under the load of other processes. The load must distort neither the
// ratios of the costs nor the yields of drafts.
func TestBusyMachinesDoNotMislead(t *testing.T) {
	sum, n := 0.0, 0.0
	for seed := range uint64(12) {
		for _, stretch := range []time.Duration{60 * time.Millisecond, 300 * time.Millisecond, 2 * time.Second} {
			for _, skill := range []float64{0.55, 0.75} {
				in := func() *world {
					return &world{
						seed: 3 + seed, vocab: 500, skill: steady(skill), noise: 0.05, busy: shared(seed, stretch),
						times: times{
							row: 16, verify: line(0.14), root: 0.12, level: 0.08, beam: 0.005, sync: 0.02, feed: 0.003,
						},
					}
				}
				best := in().run(func(*worldDraft) spec.Parts {
					return spec.Parts{Drafter: spec.None{}, Policy: spec.Fixed{}}
				}, 6, 48)
				for _, k := range []int{1, 2, 3, 5} {
					best = max(best, in().run(fixedParts(fixedSetting{
						draft:  func(d *worldDraft) spec.Drafter { return &draft.TreeDrafter{Model: d} },
						budget: spec.Budget{Levels: k, Width: 1, Nodes: k + 1},
					}), 6, 48))
				}
				w := in()
				sum, n = sum+w.run(autoParts(w), 6, 48)/best, n+1
			}
		}
	}
	if mean := sum / n; mean < 0.935 {
		t.Errorf("%.3f of the speed of the best fixed chain on average", mean)
	} else {
		t.Logf("%.3f of the speed of the best fixed chain on average", mean)
	}
}
