package goodput

import (
	"context"
	"fmt"
	"math"
	"testing"
	"time"

	"foretoken/spec"
	"foretoken/spec/draft"
	"foretoken/spec/spectest"
)

// pairOn is a pair of models on a machine: how good and how dear its draft is.
type pairOn struct {
	machine machine
	cost    float64 // of a draft's pass, in passes of the target
	skill   float64
}

func (p pairOn) String() string {
	return fmt.Sprintf("%s, a draft of %g, right %g", p.machine.name, p.cost, p.skill)
}

func pairsOn() (all []pairOn) {
	for _, m := range machines() {
		for _, cost := range []float64{0.02, 0.08, 0.2} {
			for _, skill := range []float64{0, 0.5, 0.85} {
				all = append(all, pairOn{m, cost, skill})
			}
		}
	}
	return all
}

func (p pairOn) world(seed uint64) *world {
	return &world{seed: seed, vocab: 500, skill: steady(p.skill), times: p.machine.times(p.cost), noise: 0.1}
}

// files returns costs as the files of the pair predict them.
func (p pairOn) files() *Costs {
	c, row := NewCosts(), (p.machine.verify(4)-1)/3
	c.Verify.guess(1, row)
	c.Drafts[SmallDraft].guess(p.cost, row)
	c.opening.chains[SmallDraft] = c.chain(SmallDraft, p.cost)
	return c
}

// scripts falsify costs that were measured. What they do to rows and drafts stands against the pass over one row.
var scripts = map[string]func(seed uint64, c *Costs){
	"right":              func(uint64, *Costs) {},
	"ten times too high": func(_ uint64, c *Costs) { c.scale(10, 10) },
	"ten times too low":  func(_ uint64, c *Costs) { c.scale(0.1, 0.1) },
	"rows too low":       func(_ uint64, c *Costs) { c.scale(0.1, 1) },
	"rows too high":      func(_ uint64, c *Costs) { c.scale(10, 1) },
	"draft too low":      func(_ uint64, c *Costs) { c.scale(1, 0.1) },
	"draft too high":     func(_ uint64, c *Costs) { c.scale(1, 10) },
	"a slower machine's": func(_ uint64, c *Costs) {
		for _, x := range c.cells() {
			x.Seconds *= 10
		}
	},
	"noisy": func(seed uint64, c *Costs) {
		for i, x := range c.cells() {
			u := spectest.Unit(spectest.Mix(seed ^ uint64(i+1)*7919))
			x.Seconds *= math.Exp(2*u - 1)
		}
	},
}

// scale multiplies what rows after the first take, and what drafts take.
func (c *Costs) scale(rows, drafts float64) {
	one := c.Verify.Cells[0].Seconds
	for i := range c.Verify.Cells {
		x := &c.Verify.Cells[i]
		x.Seconds = one + rows*(x.Seconds-one)
	}
	for _, x := range c.cells()[len(buckets):] {
		x.Seconds *= drafts
	}
}

// opened decodes tokens by auto with costs that a script falsified. It returns the work and the rounds with a draft.
func (p pairOn) opened(t *testing.T, script string, seed uint64, tokens int) (work float64, drafts int) {
	w, costs, files := p.world(seed), NewCosts(), p.files()
	w.measure(costs)
	w.work, costs.opening = 0, files.opening
	scripts[script](seed, costs)
	levels := costs.opening.chains[SmallDraft].levels
	w.run(func(*worldDraft) spec.Parts {
		g := &Goodput{Models: w.models(), Costs: costs, Levels: 6, Width: 4, Nodes: 16, Clock: w.clock}
		return spec.Parts{Drafter: g, Policy: shown{g, func(g *Goodput, e *spec.Event) {
			n := len(e.Levels)
			if n > 0 {
				drafts++
			}
			if g.opening && (n > levels || e.Tree.Len() > n+1) {
				t.Errorf("%v, costs %s: %d levels and %d rows in the opening", p, script, n, e.Tree.Len())
			}
		}}}
	}, 1, tokens)
	if n := costs.opening.rounds; n > openingRounds || n < leastTrial && p.brief() {
		t.Errorf("%v, costs %s: %d rounds with a draft in the opening", p, script, n)
	}
	return w.work, drafts
}

// brief reports whether the draft consumes a prompt soon enough to be tried in a short reply.
func (p pairOn) brief() bool { return p.machine.name != "linear" || p.cost < 0.05 }

// fixedWork is the work of a chain of some levels, or of plain decoding.
func (p pairOn) fixedWork(levels int, seed uint64, tokens int) float64 {
	w := p.world(seed)
	w.run(func(d *worldDraft) spec.Parts {
		if levels == 0 {
			return spec.Parts{Drafter: spec.None{}, Policy: spec.Fixed{}}
		}
		return spec.Parts{Drafter: &draft.TreeDrafter{Model: d},
			Policy: spec.Fixed{Levels: levels, Width: 1, Nodes: levels + 1}}
	}, 1, tokens)
	return w.work
}

// TestOpeningsAreNotMisled decodes the first 64 tokens of sessions by costs that are wrong. They neither end the
// opening nor widen its drafts, and the loss against the best fixed choice is bounded.
func TestOpeningsAreNotMisled(t *testing.T) {
	const seeds, tokens = 6, 64
	mean := map[string]float64{} // of ln of the share of the best fixed choice
	for _, p := range pairsOn() {
		best, plain := math.Inf(1), 0.0
		for levels := range mostChain + 1 {
			work := 0.0
			for seed := range uint64(seeds) {
				work += p.fixedWork(levels, seed, tokens)
			}
			if best = min(best, work); levels == 0 {
				plain = work
			}
		}
		for script := range scripts {
			work, most := 0.0, 0
			for seed := range uint64(seeds) {
				w, drafts := p.opened(t, script, seed, tokens)
				work, most = work+w, max(most, drafts)
			}
			mean[script] += math.Log(best/work) / float64(len(pairsOn()))
			t.Logf("%v, costs %s: %.3f of the best, %.3f of plain, %d drafts", p, script, best/work, plain/work, most)
			if best/work < 0.7 || plain/work < 0.82 {
				t.Errorf("%v, costs %s: %.3f of the best fixed choice, %.3f of plain decoding", p, script, best/work,
					plain/work)
			}
			if p.skill == 0 && (plain/work < 0.9 || most > openingRounds) {
				t.Errorf("%v, costs %s: a draft that never agrees drafts %d times, %.3f of plain decoding", p, script,
					most, plain/work)
			}
		}
	}
	for script, ln := range mean {
		if got := math.Exp(ln); got < 0.9 {
			t.Errorf("costs %s: %.3f of the best fixed choices on average", script, got)
		} else {
			t.Logf("costs %s: %.3f of the best fixed choices on average", script, got)
		}
	}
}

// TestChainsFollowFromTheFiles predicts how models begin to draft.
func TestChainsFollowFromTheFiles(t *testing.T) {
	const mb = 1 << 20
	gpu, cpu := Rates{Bytes: 4 * mb, Row: 0.15}, Rates{Bytes: mb / 8, Row: 0.6}
	for _, c := range []struct {
		name          string
		rates         Rates
		target, draft int64
		levels        int
	}{
		{"a small draft on a GPU", gpu, 500 * mb, 5 * mb, 3},
		{"a small draft on a CPU", cpu, 500 * mb, 5 * mb, 1},
		{"a quarter on a GPU", gpu, 500 * mb, 125 * mb, 2},
		{"a quarter on a CPU", cpu, 500 * mb, 125 * mb, 1},
		{"half", gpu, 500 * mb, 250 * mb, 0},
	} {
		costs := Predict(c.rates, Work{100, c.target}, [MostModels]Work{{20, c.draft}})
		if got := costs.opening.chains[SmallDraft].levels; got != c.levels {
			t.Errorf("%s: a chain of %d, want %d", c.name, got, c.levels)
		}
	}
}

// TestPromptsTellWhatTheirPrefillTakes begins after a long prompt, of which the target took little or much time: where
// the draft would take long as well, it does not begin.
func TestPromptsTellWhatTheirPrefillTakes(t *testing.T) {
	for fed, want := range map[time.Duration]int{0: 499, 100 * time.Microsecond: 499, 10 * time.Millisecond: 0} {
		w, costs := gpu(0.5, nil), NewCosts()
		w.measure(costs)
		g := &Goodput{Models: w.models(), Costs: costs, Levels: 6, Width: 4, Nodes: 16, Clock: w.clock}
		o := spec.SessionOptions{Prompt: make([]int32, 500), Fed: fed}
		if _, err := g.Begin(context.Background(), o); err != nil {
			t.Fatal(err)
		}
		if got := g.Models[SmallDraft].Len(); got != want {
			t.Errorf("%v for each token: the draft holds %d tokens, want %d", fed, got, want)
		}
	}
}

// TestHalfIsOnlyExplored gives auto a draft with half the target's bytes: it is tried a few times within the budget of
// exploration, and drafts once these rounds have shown that it pays.
func TestHalfIsOnlyExplored(t *testing.T) {
	for _, skill := range []float64{0, 0.95} {
		w := gpu(skill, func(t *times) { t.root, t.level, t.feed = 0.4, 0.4, 0 })
		explored, drafts := 0, 0
		watched(w, nil, func(g *Goodput, e *spec.Event) {
			if g.opening {
				t.Error("there is an opening")
			}
			if n := len(e.Levels); n > 0 {
				if drafts++; g.exploring {
					explored++
				}
				if drafts <= leastTrial && (n > 1 || !g.exploring) {
					t.Errorf("draft %d has %d levels, exploring: %t", drafts, n, g.exploring)
				}
			}
		}, 1, 400)
		if explored < leastTrial || skill == 0 && drafts > 10 || skill > 0 && drafts < 50 {
			t.Errorf("right %v: %d rounds explore, %d draft", skill, explored, drafts)
		}
	}
}
