package goodput

import (
	"math"
	"testing"

	"foretoken/spec"
)

// watched runs the controller in a world and passes every round's event to see.
func watched(w *world, change func(*Goodput), see func(g *Goodput, e *spec.Event), requests, tokens int) float64 {
	return w.run(func(d *worldDraft) spec.Parts {
		costs := NewCosts()
		w.measure(costs)
		g := &Goodput{Models: w.models(), Costs: costs, Levels: 6, Width: 4, Nodes: 16, Clock: d.clock}
		if change != nil {
			change(g)
		}
		return spec.Parts{Drafter: g, Policy: shown{g, see}}
	}, requests, tokens)
}

type shown struct {
	*Goodput
	see func(g *Goodput, e *spec.Event)
}

func (s shown) Start() {}

// Observe calls see before the controller resets the state of the round.
func (s shown) Observe(e *spec.Event) {
	s.see(s.Goodput, e)
	s.Goodput.Observe(e)
}

func gpu(skill float64, change func(*times)) *world {
	t := times{row: 10, verify: line(0.02), root: 0.2, level: 0.12, beam: 0.005, sync: 0.05, feed: 0.003}
	if change != nil {
		change(&t)
	}
	return &world{seed: 3, vocab: 500, skill: steady(skill), times: t, noise: 0.05}
}

// meansOf returns the mean rows verified, the mean levels drafted and the share of drafting rounds in the last half.
func meansOf(w *world) (rows, levels, drafts float64) {
	var r, l []float64
	watched(w, nil, func(g *Goodput, e *spec.Event) {
		r = append(r, float64(e.Tree.Len()))
		l = append(l, float64(len(e.Levels)))
	}, 1, 400)
	n := 0.0
	for i := len(r) / 2; i < len(r); i++ {
		n++
		rows += r[i]
		levels += l[i]
		if l[i] > 0 {
			drafts++
		}
	}
	return rows / n, levels / n, drafts / n
}

func TestDepthShallowWhenVerifySteep(t *testing.T) {
	flatRows, flatLevels, _ := meansOf(gpu(0.8, nil))
	steepRows, steepLevels, _ := meansOf(gpu(0.8, func(t *times) { t.verify = line(0.35) }))
	if steepRows > 0.6*flatRows || steepLevels >= flatLevels {
		t.Errorf("%.1f rows and %.1f levels where verification is steep, %.1f and %.1f where it is flat",
			steepRows, steepLevels, flatRows, flatLevels)
	}
}

func TestDepthShallowWhenDraftExpensive(t *testing.T) {
	_, cheap, _ := meansOf(gpu(0.8, func(t *times) { t.level = 0.03 }))
	_, dear, _ := meansOf(gpu(0.8, func(t *times) { t.level = 0.4 }))
	if dear > cheap-1 {
		t.Errorf("%.1f levels by an expensive draft, %.1f by a cheap one", dear, cheap)
	}
}

func TestTreesEndAtTheEndsOfStairs(t *testing.T) {
	// Eight rows cost as much as two, nine far more.
	w := gpu(0.6, func(t *times) {
		t.verify = func(rows int) float64 {
			if rows <= 8 {
				return 1 + 0.02*float64(min(rows-1, 1))
			}
			return 3
		}
	})
	at, all := 0, 0
	watched(w, nil, func(g *Goodput, e *spec.Event) {
		if len(e.Levels) > 1 && e.Round > 20 {
			all++
			if e.Tree.Len() == 8 {
				at++
			}
		}
	}, 1, 400)
	if all < 50 || at < all*9/10 {
		t.Errorf("%d of %d trees end at the end of the stair", at, all)
	}
}

func TestExplorationIsRareAndBounded(t *testing.T) {
	for _, boast := range []float64{0, 0.9} {
		w := gpu(0.02, nil)
		w.boast = boast
		var costs *Costs
		explored, last, widest := 0, 0, 0
		watched(w, func(g *Goodput) { costs = g.Costs }, func(g *Goodput, e *spec.Event) {
			if g.exploring {
				explored++
				widest, last = max(widest, e.Round-last), e.Round
			}
		}, 1, 2000)
		if explored < 3 {
			t.Errorf("boast %v: %d of 2000 rounds explore: too few to notice a better draft", boast, explored)
		}
		if share := costs.explored / costs.spent; share > 0.012 {
			t.Errorf("boast %v: exploration took %.4f of the time", boast, share)
		}
		if widest > 1000 {
			t.Errorf("boast %v: %d rounds without exploration", boast, widest)
		}
	}
}

// TestImprovedDraftIsUsedAgain has a draft turn good and bad again. Exploration notices it, and its timing is luck, so
// the test takes the mean of many texts.
func TestImprovedDraftIsUsedAgain(t *testing.T) {
	var share [3]float64
	const seeds = 30
	for seed := range uint64(seeds) {
		w := gpu(0, nil)
		w.seed = seed + 1
		w.skill = func(n int) float64 {
			if n > 60+300 && n < 60+700 {
				return 0.85
			}
			return 0.02
		}
		var drafted, rounds [3]float64
		length := 60
		watched(w, nil, func(g *Goodput, e *spec.Event) {
			at := length - 60
			length += len(e.Tokens)
			phase := 0
			switch {
			case at > 800:
				phase = 2
			case at > 700, at > 300 && at < 400: // exploration needs some rounds
				return
			case at > 300:
				phase = 1
			}
			rounds[phase]++
			if len(e.Levels) > 0 {
				drafted[phase]++
			}
		}, 1, 1300)
		for i := range share {
			share[i] += drafted[i] / rounds[i] / seeds
		}
	}
	if share[0] > 0.1 || share[1] < 0.6 || share[2] > 0.1 {
		t.Errorf("drafted in %.2f of the rounds of a draft that is bad, good and bad again", share)
	}
}

func TestPromptIsNotDraftedWhereItDoesNotPay(t *testing.T) {
	for name, w := range map[string]*world{
		"a draft nearly as slow as the target": gpu(0.3, func(t *times) { t.root, t.level, t.feed = 0.9, 0.9, 0.02 }),
		"a slow prefill of a good draft":       gpu(0.8, func(t *times) { t.feed = 1 }),
	} {
		most := 0
		watched(w, nil, func(g *Goodput, e *spec.Event) { most = max(most, g.Models[0].Len()) }, 1, 64)
		if most > 0 {
			t.Errorf("%s: the draft was prefilled with %d tokens", name, most)
		}
	}
}

func TestRepeatedTextNeedsNoDraft(t *testing.T) {
	w := gpu(0.5, nil)
	w.vocab, w.period = 12, 40
	drafts, rounds, tokens := 0, 0, 0
	watched(w, nil, func(g *Goodput, e *spec.Event) {
		if e.Round > 40 {
			rounds++
			tokens += len(e.Tokens)
			if len(e.Levels) > 0 {
				drafts++
			}
		}
	}, 1, 600)
	if drafts > rounds/2 || float64(tokens)/float64(rounds) < 3 {
		t.Errorf("%d of %d rounds drafted, %.2f tokens each", drafts, rounds, float64(tokens)/float64(rounds))
	}
}

// TestEstimatesAreCalibrated compares expected with committed tokens for a draft with overestimated probabilities.
func TestEstimatesAreCalibrated(t *testing.T) {
	w := gpu(0.6, nil)
	w.boast = 0.5
	expected, got, rounds := 0.0, 0.0, 0
	watched(w, nil, func(g *Goodput, e *spec.Event) {
		if e.Round > 60 && len(e.Levels) > 0 {
			expected++ // the token that every pass commits
			for _, n := range g.candidates.order[:e.Tree.Len()-1] {
				expected += g.candidates.nodes[n].reach
			}
			got += float64(len(e.Tokens))
			rounds++
		}
	}, 1, 2500)
	if rounds < 300 || math.Abs(expected/got-1) > 0.07 {
		t.Errorf("%.2f tokens a round expected and %.2f committed, over %d rounds",
			expected/float64(rounds), got/float64(rounds), rounds)
	}
}
