package spec

import (
	"context"
	"fmt"
	"math"
	"testing"
	"time"
)

// regime is a world's properties.
type regime struct {
	name string
	make func(seed uint64) *world
}

func steady(p float64) func(int) float64 { return func(int) float64 { return p } }

func line(slope float64) func(int) float64 {
	return func(rows int) float64 { return 1 + slope*float64(rows-1) }
}

func regimes() []regime {
	// A GPU: rows are nearly free, the draft a fifth of the target.
	gpu := times{row: 10, verify: line(0.02), root: 0.2, level: 0.12, beam: 0.005, sync: 0.05, feed: 0.003}
	with := func(t times, change func(*times)) times {
		change(&t)
		return t
	}
	simple := func(name string, t times, skill func(int) float64, boast float64, period int) regime {
		return regime{name, func(seed uint64) *world {
			vocab := 500
			if period > 0 {
				vocab = 14 // so that pairs of tokens come again soon
			}
			return &world{seed: seed, vocab: vocab, skill: skill, boast: boast, period: period, times: t, noise: 0.1}
		}}
	}
	steep := with(gpu, func(t *times) { t.verify = line(0.3) })
	return []regime{
		simple("good draft", gpu, steady(0.8), 0, 0),
		simple("middling draft", gpu, steady(0.55), 0, 0),
		simple("hopeless draft", gpu, steady(0.02), 0, 0),
		simple("hopeless draft that boasts", gpu, steady(0.02), 0.9, 0),
		simple("expensive draft", with(gpu, func(t *times) { t.root, t.level = 1.0, 0.9 }), steady(0.6), 0, 0),
		simple("expensive good draft", with(gpu, func(t *times) { t.root, t.level = 0.6, 0.5 }), steady(0.9), 0, 0),
		simple("cheap draft", with(gpu, func(t *times) { t.root, t.level, t.sync = 0.03, 0.02, 0.01 }), steady(0.7), 0.3, 0),
		simple("steep verify", steep, steady(0.75), 0, 0),
		simple("steep verify, middling draft", steep, steady(0.4), 0.2, 0),
		simple("very steep verify", with(gpu, func(t *times) { t.verify = line(0.9) }), steady(0.6), 0, 0),
		simple("text repeats", gpu, steady(0.5), 0, 12),
		simple("text repeats, steep verify", steep, steady(0.3), 0, 9),
		simple("text repeats, hopeless draft", gpu, steady(0.02), 0.5, 12),
		simple("slow readback", with(gpu, func(t *times) { t.sync, t.root = 0.6, 0.7 }), steady(0.8), 0, 0),
		simple("passes slow down", with(gpu, func(t *times) { t.drifting = 2 }), steady(0.6), 0, 0),
		simple("draft turns good", gpu, func(n int) float64 {
			if n < 260 {
				return 0.02
			}
			return 0.8
		}, 0, 0),
		simple("draft turns bad", gpu, func(n int) float64 {
			if n < 260 {
				return 0.8
			}
			return 0.02
		}, 0.3, 0),
		simple("draft comes and goes", steep, func(n int) float64 {
			if n/100%2 == 0 {
				return 0.85
			}
			return 0.05
		}, 0.2, 0),
	}
}

// fixed are the settings that a controller is compared with.
func fixed() []Config {
	all := []Config{{Drafter: DrafterNone}}
	for _, d := range []int{1, 2, 3, 5} {
		all = append(all, Config{Drafter: DrafterChain, Depth: d})
	}
	for _, n := range [][3]int{{1, 2, 4}, {2, 2, 6}, {3, 4, 8}, {5, 4, 16}, {5, 4, 12}, {2, 4, 8}} {
		all = append(all, Config{Drafter: DrafterEAGLE2, Depth: n[0], TopK: n[1], Nodes: n[2]})
	}
	for _, d := range []int{2, 3, 7, 10} {
		all = append(all, Config{Drafter: DrafterNgram, Depth: d, NgramMax: 2, NgramMin: 1})
	}
	return append(all, Config{Drafter: DrafterNgramSimple, Depth: 7, NgramMax: 3})
}

func fixedParts(c Config) func(*worldDraft) Parts {
	return func(d *worldDraft) Parts {
		p, err := c.Parts(&worldTarget{world: d.world}, d)
		if err != nil {
			panic(err)
		}
		return p
	}
}

func autoParts(w *world) func(*worldDraft) Parts {
	costs := NewCosts()
	w.measure(costs)
	return func(d *worldDraft) Parts {
		g := &Goodput{Model: d, Costs: costs, Levels: 6, Width: 4, Nodes: 16, Clock: d.clock}
		return Parts{Drafter: g, Policy: g}
	}
}

// compare gives the controller's speed, plain decoding's and the best fixed setting's in
// tokens a second, each over several worlds of the same properties.
func (r regime) compare(seeds []uint64, requests, tokens int) (auto, plain, best float64, name string) {
	mean := func(parts func(*world) func(*worldDraft) Parts) float64 {
		time := 0.0
		for _, seed := range seeds {
			w := r.make(seed)
			time += 1 / w.run(parts(w), requests, tokens)
		}
		return float64(len(seeds)) / time
	}
	auto = mean(autoParts)
	for _, c := range fixed() {
		speed := mean(func(*world) func(*worldDraft) Parts { return fixedParts(c) })
		if c.Drafter == DrafterNone {
			plain = speed
		}
		if speed > best {
			best, name = speed, fmt.Sprintf("%s d%d k%d N%d", c.Drafter, c.Depth, c.TopK, c.Nodes)
		}
	}
	return auto, plain, best, name
}

func TestNeverSlowerThanPlainAndCloseToTheBest(t *testing.T) {
	long(t)
	seeds := []uint64{7, 8, 9}
	for _, load := range []struct{ requests, tokens int }{{1, 500}, {8, 64}} {
		mean, n := 0.0, 0
		for _, r := range regimes() {
			auto, plain, best, name := r.compare(seeds, load.requests, load.tokens)
			t.Logf("%d×%d %-30s %.3f of plain, %.3f of the best (%s, %.2f of plain)", load.requests, load.tokens, r.name, auto/plain, auto/best, name, best/plain)
			if auto < 0.98*plain {
				t.Errorf("%s: %.3f of plain decoding's speed over %d×%d tokens", r.name, auto/plain, load.requests, load.tokens)
			}
			mean += math.Log(auto / best)
			n++
		}
		if mean = math.Exp(mean / float64(n)); mean < 0.97 {
			t.Errorf("%d×%d: %.3f of the best fixed settings' speed in the mean", load.requests, load.tokens, mean)
		} else {
			t.Logf("%d×%d: %.3f of the best fixed settings' speed in the mean", load.requests, load.tokens, mean)
		}
	}
}

// behind is a target whose device is still at the prompt when Prefill returns.
type behind struct {
	*worldTarget
	owed float64
}

func (b *behind) Prefill(ctx context.Context, tokens []int32, progress func(int)) error {
	b.owed += 0.5 * float64(len(tokens))
	return b.worldTarget.Prefill(ctx, tokens, progress)
}

func (b *behind) Settle() error {
	b.spend(b.owed, 0)
	b.owed = 0
	return nil
}

func (b *behind) Verify(ctx context.Context, tree *Tree, s Sampling) ([]NodeOutput, error) {
	if err := b.Settle(); err != nil {
		return nil, err
	}
	return b.worldTarget.Verify(ctx, tree, s)
}

// TestPrefillIsNoRound: a prompt that the device is still at when Prefill returns is no time of the first round, neither in what
// is told nor in what is learnt.
func TestPrefillIsNoRound(t *testing.T) {
	w := &world{seed: 5, vocab: 100, skill: steady(0.5), times: times{row: 4, verify: line(0.2)}}
	costs := NewCosts()
	w.measure(costs)
	auto := &Goodput{Costs: costs, Levels: 6, Width: 4, Nodes: 16, Clock: w.clock}
	g, err := Assemble(&behind{worldTarget: &worldTarget{world: w}}, Parts{Drafter: auto, Policy: auto, Verifier: Match{}, Clock: w.clock})
	if err != nil {
		t.Fatal(err)
	}
	stats, err := g.Generate(context.Background(), make([]int32, 61), Options{MaxTokens: 1}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if stats.Prefill != 120*time.Millisecond || stats.Verify != 4*time.Millisecond || stats.Decode != 4*time.Millisecond {
		t.Errorf("prefill %v, verify %v, decode %v", stats.Prefill, stats.Verify, stats.Decode)
	}
	if took := costs.Verify.At(1); math.Abs(took-0.004) > 1e-6 {
		t.Errorf("a pass is learnt to take %v s", took)
	}
}
