package adapt

import (
	"math"
	"testing"

	"foretoken/spec"
	"foretoken/spec/spectest"
)

func TestAdaEDLByHand(t *testing.T) {
	a := &AdaEDL{Lambda: AdaEDLLambda, Threshold: AdaEDLThreshold, Budget: spec.ChainBudget(4)}
	a.Start()
	// 1-√(0.2·H) is 0.5 at H = 1.25 nats. The last token counts, not those before it.
	if a.Stop([]spec.Drawn{{Entropy: 9}, {Entropy: 1.24}}) || !a.Stop([]spec.Drawn{{}, {Entropy: 1.26}}) ||
		a.Stop([]spec.Drawn{{}}) {
		t.Error("the bound is not at 1.25 nats")
	}
	for i, step := range []struct {
		drafted, accepted int
		rate, threshold   float64
	}{
		{4, 4, 0.95, 0.5},    // the maximum
		{4, 3, 0.85, 0.501},  // rate too low: a step of 0.01, of which a tenth counts
		{0, 0, 0.85, 0.501},  // nothing drafted, nothing learned
		{4, 4, 0.925, 0.501}, //
		{3, 3, 0.9625, 0.5},  // high enough, but the chain could have been longer
		{2, 0, 0.48125, 0.501},
	} {
		a.Observe(spectest.Outcome(step.drafted, step.accepted))
		if math.Abs(a.rate-step.rate) > 1e-12 || math.Abs(a.threshold-step.threshold) > 1e-12 {
			t.Errorf("step %d: rate %v and threshold %v, want %v and %v", i, a.rate, a.threshold, step.rate,
				step.threshold)
		}
	}
	// 0.501 is met at H = (1-0.501)²/0.2 = 1.245 nats.
	if !a.Stop([]spec.Drawn{{Entropy: 1.2452}}) || a.Stop([]spec.Drawn{{Entropy: 1.2448}}) {
		t.Error("the threshold is not the one learnt")
	}
	a.Start()
	if a.rate != 0.9 || a.threshold != 0.5 {
		t.Errorf("a new request goes on with rate %v and threshold %v", a.rate, a.threshold)
	}
	a = &AdaEDL{Lambda: 1, Threshold: 0.25, Budget: spec.ChainBudget(4)}
	a.Start()
	if a.Stop([]spec.Drawn{{Entropy: 0.56}}) || !a.Stop([]spec.Drawn{{Entropy: 0.57}}) { // 0.75² is 0.5625
		t.Errorf("%+v", a)
	}
}
