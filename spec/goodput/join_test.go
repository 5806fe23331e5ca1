package goodput

import (
	"math"
	"testing"
)

// TestDraftsJoinTheirPass decodes recorded texts where draft and pass can be one run, which saves another submit, and
// where they cannot: joining gains where a submit takes long, and costs nothing where it does not. On a linear machine
// little is drafted.
func TestDraftsJoinTheirPass(t *testing.T) {
	for _, m := range machines() {
		for sync, least := range map[float64]float64{0.02: 0.999, 0.1: 1, 0.3: 1.05, 0.9: 1.15} {
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

// TestDraftedTokensOfText counts what the tree of a draft's two likeliest tokens and the likeliest of the next level
// makes of texts that leave it, end within it, and follow a lookup that it does not have.
func TestDraftedTokensOfText(t *testing.T) {
	var c candidates
	c.reset(0)
	for _, n := range []struct {
		parent, token int32
		levels        int32
		joint, reach  float64
	}{{0, 10, 1, 0.6, 0.5}, {0, 11, 1, 0.3, 0.25}, {1, 20, 2, 0.4, 0.4}, {1, 21, 2, 0.1, 0.1}, {3, 30, 3, 0.35, 0.3},
		{0, 12, 0, 0, 0.9}} {
		x := &c.nodes[c.add(n.parent, n.token)]
		x.levels, x.joint, x.reach = n.levels, n.joint, n.reach
	}
	for text, want := range map[[2]int32]float64{
		{11, 20}: 2,        // the root's and the wrong token
		{10, 21}: 2,        // 21 is the fourth
		{12, 20}: 1,        // by a lookup
		{10, 20}: 3,        // ends at a leaf of this tree, whose third level was grown
		{10, -1}: 2 + 0.8,  // ends within
		{-1, -1}: 1 + 1.15, // nothing is known
	} {
		known := 0
		for known < len(text) && text[known] >= 0 {
			known++
		}
		if tokens, rows := c.drafted(2, 4, text[:known]); math.Abs(tokens-want) > 1e-12 || rows != 4 {
			t.Errorf("%v: %v tokens in %d rows, want %v in 4", text[:known], tokens, rows, want)
		}
	}
}
