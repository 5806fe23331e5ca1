//go:build !js

package foretoken

import (
	"context"
	"flag"
	"fmt"
	"math"
	"testing"
	"time"

	"foretoken/models/demo"
	"foretoken/models/runner"
	"foretoken/spec"
	"foretoken/spec/goodput"
	methods "foretoken/spec/method"
	"foretoken/webgpu/open"
)

// machine simulates the time that passes of the built-in pair take on some device, in milliseconds. Only the
// simulated passes move its clock, so speeds depend on what was drafted and accepted and on no other load.
type machine struct {
	name    string
	verify  func(rows int) float64
	root    float64
	level   func(beams int) float64
	sync    float64
	prefill func(tokens int) float64
	now     time.Duration
}

func (m *machine) clock() time.Time { return time.Unix(0, 0).Add(m.now) }
func (m *machine) spend(ms float64) { m.now += time.Duration(ms * float64(time.Millisecond)) }

type timedTarget struct {
	*runner.Target
	m *machine
}

func (t timedTarget) Limits() spec.Limits {
	lim := t.Target.Limits()
	lim.Joint = false
	return lim
}

func (t timedTarget) Verify(ctx context.Context, r spec.PassRequest) (*spec.Pass, error) {
	t.m.spend(t.m.verify(r.Tree.Len()))
	return t.Target.Verify(ctx, r)
}

type timedDraft struct {
	spec.DraftModel
	m *machine
	k int
}

func (d *timedDraft) Prefill(ctx context.Context, tokens []int32) error {
	d.m.spend(d.m.prefill(len(tokens)))
	return d.DraftModel.Prefill(ctx, tokens)
}

func (d *timedDraft) Draft(ctx context.Context, r spec.DraftRequest) ([]spec.Level, error) {
	d.k = r.K
	d.m.spend(d.m.root + float64(r.Depth)*d.m.level(r.K))
	if len(r.Pending) > 2 {
		d.m.spend(d.m.prefill(len(r.Pending) - 2))
	}
	return d.DraftModel.Draft(ctx, r)
}

func (d *timedDraft) Extend(ctx context.Context, e spec.Extension) ([]spec.Level, error) {
	d.m.spend(d.m.sync + float64(e.Passes)*d.m.level(d.k))
	return d.DraftModel.Extend(ctx, e)
}

func machines() []*machine {
	stair := func(one, row float64) func(int) float64 {
		return func(rows int) float64 {
			for _, end := range goodput.RowBuckets() {
				if rows <= end {
					return one + row*float64(end-1)
				}
			}
			return one + row*float64(rows)
		}
	}
	beams := func(one, beam float64) func(int) float64 {
		return func(n int) float64 { return one + beam*float64(n-1) }
	}
	chunks := func(call, token float64) func(int) float64 {
		return func(n int) float64 { return call*math.Ceil(float64(n)/64) + token*float64(n) }
	}
	return []*machine{
		{name: "software adapter", verify: stair(5, 0.65), root: 1.6, level: beams(1.3, 0.15), sync: 0.2,
			prefill: chunks(1, 0.1)},
		{name: "integrated GPU", verify: stair(8, 0.25), root: 2.2, level: beams(1.2, 0.05), sync: 1,
			prefill: chunks(1.5, 0.02)},
		{name: "fast GPU, large target", verify: stair(20, 0.1), root: 2.5, level: beams(1.5, 0.02), sync: 0.8,
			prefill: chunks(2, 0.02)},
	}
}

var sampledCounts = flag.Bool("sampled", false, "BenchmarkAutoByCounts: draw at temperature 0.8")

// BenchmarkAutoByCounts decodes prompts by the goodput tree and by fixed methods on simulated machines.
func BenchmarkAutoByCounts(b *testing.B) {
	s := demoSession(b, open.Accelerator)
	every := goPrompts(b)
	var fitted Calibrations
	for _, f := range demo.Calibrations() {
		if err := fitted.Parse(f.Name, f.Data); err != nil {
			b.Fatal(err)
		}
	}
	type method struct {
		name string
		c    methods.Config
	}
	fixed := func(drafter string, change func(*methods.Config)) methods.Config {
		c := methods.DefaultConfig(drafter)
		change(&c)
		return c
	}
	methods := []method{
		{"plain", methods.DefaultConfig(methods.DrafterNone)},
		{"auto", methods.DefaultConfig(methods.DrafterAuto)},
		{"auto with c2t", fixed(methods.DrafterAuto, func(c *methods.Config) { c.Fitted.C2T = fitted.C2T })},
		{"chain 2", fixed(methods.DrafterChain, func(c *methods.Config) { c.Depth = 2 })},
		{"chain 4", fixed(methods.DrafterChain, func(c *methods.Config) { c.Depth = 4 })},
		{"eagle2 d1 k3 N6", fixed(methods.DrafterEAGLE2,
			func(c *methods.Config) { c.Depth, c.TopK, c.Nodes = 1, 3, 6 })},
		{"eagle2 d2 k3 N8", fixed(methods.DrafterEAGLE2,
			func(c *methods.Config) { c.Depth, c.TopK, c.Nodes = 2, 3, 8 })},
		{"eagle2 d5 k4 N16", fixed(methods.DrafterEAGLE2,
			func(c *methods.Config) { c.Depth, c.TopK, c.Nodes = 5, 4, 16 })},
		{"ngram 3", fixed(methods.DrafterNgram, func(c *methods.Config) { c.Depth = 3 })},
		{"ngram 7", fixed(methods.DrafterNgram, func(c *methods.Config) { c.Depth = 7 })},
	}
	temperature := 0.0
	if *sampledCounts {
		temperature = 0.8
	}
	for b.Loop() {
		for _, m := range machines() {
			learnt := make([]*goodput.Costs, len(methods))
			speeds := make([][]float64, len(methods))
			for i := 3; i < len(every); i += 7 {
				ids := s.tok.Encode(every[i].Prompt, true)
				for j, method := range methods {
					c := method.c
					if learnt[j] == nil {
						learnt[j] = goodput.NewCosts()
					}
					costs := learnt[j]
					c.Fitted.Costs = costs
					target, draft := timedTarget{s.pair.Target, m}, &timedDraft{DraftModel: s.pair.Draft, m: m}
					p, err := c.Parts(target, draft)
					if err != nil {
						b.Fatal(err)
					}
					p.Clock = m.clock
					if g, ok := p.Drafter.(*goodput.Goodput); ok {
						g.Clock = m.clock
						if !costs.Measured(16, goodput.SmallDraft) {
							err := costs.Measure(goodput.Probe{Clock: func() float64 { return m.now.Seconds() },
								Verify: func(rows int) error { m.spend(m.verify(rows)); return nil },
								Drafts: []goodput.DraftProbe{{
									Widths: []int{1, 2, 4},
									Draft: func(n, k int) error {
										m.spend(m.root + float64(n-1)*m.level(k))
										return nil
									},
									Grow:    func() error { m.spend(m.sync + m.level(1)); return nil },
									Prefill: func(n int) error { m.spend(m.prefill(n)); return nil },
								}},
							}, 16, 10)
							if err != nil {
								b.Fatal(err)
							}
						}
					}
					gen, err := spec.New(target, p)
					if err != nil {
						b.Fatal(err)
					}
					begin := m.now
					stats, err := gen.Generate(context.Background(), ids,
						spec.Options{MaxTokens: 64, Sampling: spec.Sampling{Temperature: temperature, Seed: 1}}, nil)
					if err != nil {
						b.Fatal(err)
					}
					speeds[j] = append(speeds[j], float64(stats.OutputTokens)/(m.now-begin).Seconds())
				}
			}
			for j, method := range methods {
				sum, worst := 0.0, math.Inf(1)
				for i, x := range speeds[j] {
					r := x / speeds[0][i]
					sum += r
					worst = min(worst, r)
				}
				fmt.Printf("%-24s %-18s mean %.3f, worst %.3f of plain\n", m.name, method.name,
					sum/float64(len(speeds[j])), worst)
			}
		}
	}
}
