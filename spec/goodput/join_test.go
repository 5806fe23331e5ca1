package goodput

import "testing"

// TestDraftsJoinTheirPass decodes recorded texts where draft and pass can be one run, which saves another submit, and
// where they cannot: joining gains where a submit takes long, and costs nothing where it does not. On a linear machine
// little is drafted.
func TestDraftsJoinTheirPass(t *testing.T) {
	for _, m := range machines() {
		for sync, least := range map[float64]float64{0.02: 0.999, 0.1: 1, 0.3: 1.07, 0.9: 1.15} {
			if m.name == "linear" {
				least = min(least, 0.985)
			}
			gain, joint, alone := 0.0, 0, 0
			for _, pair := range pairs {
				texts := recorded(t, pair)
				times := m.times(0.08)
				times.sync, times.root = sync, 0.08+sync
				var work [2]float64
				for i, apart := range []bool{true, false} {
					for seed := range uint64(2) {
						w := &world{seed: seed, vocab: texts[0].vocab, times: times, noise: 0.1, apart: apart}
						work[i] += sum(ofTexts(w.play(autoParts(w), texts)))
						if joint += w.joint; apart {
							alone += w.joint
						}
					}
				}
				gain += work[0] / work[1] / float64(len(pairs))
			}
			t.Logf("%s, a submit of %g passes: %.3f of the speed, %d joint runs", m.name, sync, gain, joint)
			if gain < least || (joint > 0) != (sync > leastSubmit) && m.name != "linear" || alone > 0 {
				t.Errorf("%s, a submit of %g passes: %.3f of the speed, want %g; %d joint runs, %d where none can be",
					m.name, sync, gain, least, joint, alone)
			}
		}
	}
}
