package spec

import (
	"context"
	"fmt"
	"math"
	"reflect"
	"slices"
	"testing"
	"time"
)

// chains runs a chain config with so many tokens drafted ahead of the rule, and gives what was
// proposed round by round, how many tokens were drafted for it and, of sampled chains, in how
// many calls.
func chains(t *testing.T, c Config, ahead int, differ float64, s Sampling) (trees [][]int32, drafted, trips int) {
	t.Helper()
	target := newTarget(&script{vocab: 4, steps: 1e6}, 200, 64)
	draft := newDraft(target, 200, differ)
	set := named(c)
	whole := set.parts
	set.parts = func(t *scriptedTarget, d *scriptedDraft) Parts {
		p := whole(t, d)
		switch x := p.Drafter.(type) {
		case *RankedChain:
			x.Ahead = ahead
		case *SampledChain:
			x.Ahead = ahead
		default:
			panic(fmt.Sprintf("%T is no chain that a rule ends", x))
		}
		return p
	}
	p := set.parts(target, draft)
	g, err := Assemble(target, p)
	if err != nil {
		t.Fatal(err)
	}
	_, err = g.Generate(context.Background(), []int32{1, 2, 3}, Options{Sampling: s, MaxTokens: 60}, func(e *Event) error {
		trees = append(trees, slices.Clone(e.Tree.Tokens))
		if !e.Tree.IsChain() || len(e.Proposal.Drawn) != e.Tree.Len()-1 {
			t.Fatalf("round %d: %d tokens are known of the chain %v", e.Round, len(e.Proposal.Drawn), e.Tree)
		}
		for i, d := range e.Proposal.Drawn {
			if d.Token != e.Tree.Tokens[i+1] {
				t.Fatalf("round %d: token %d is %d, known as %d", e.Round, i, e.Tree.Tokens[i+1], d.Token)
			}
		}
		if e.Proposal.Sampler != nil {
			drafted += len(draft.drawn)
			trips += draft.passes
		} else if e.Proposal.Levels != nil {
			drafted += len(draft.levels)
		}
		return nil
	})
	if err != nil {
		t.Fatalf("%s: %v", set.name, err)
	}
	return trees, drafted, trips
}

// TestChainsDoNotDependOnWhatIsDraftedAhead has every rule on ranked and on sampled chains.
func TestChainsDoNotDependOnWhatIsDraftedAhead(t *testing.T) {
	for _, c := range combinations(func(c Config) bool {
		return c.Drafter == DrafterChain && c.Adapt != AdaptFixed && c.Verifier != VerifierMARS
	}) {
		c.Depth = 7
		for _, s := range []Sampling{{}, {Temperature: 1, Seed: 3}} {
			name := fmt.Sprintf("%s %s T=%v", c.Adapt, c.Verifier, s.Temperature)
			want, drafted, trips := chains(t, c, 1, 0.2, s)
			kept, shorter, longest := 0, 0, 0
			for _, tokens := range want {
				kept += len(tokens) - 1
				longest = max(longest, len(tokens)-1)
				if len(tokens) < 8 {
					shorter++
				}
			}
			// Asked after every token, a rule that only stops wastes none, and one that
			// cuts wastes the one it refuses.
			if waste := drafted - kept; waste != 0 && c.Adapt != AdaptC2T || waste > len(want) || c.Samples() && trips != drafted {
				t.Errorf("%s: %d tokens of %d drafted were proposed, in %d calls", name, kept, drafted, trips)
			}
			if shorter < len(want)/4 || longest < 3 {
				t.Errorf("%s: %d of %d chains were ended, the longest had %d tokens", name, shorter, len(want), longest)
			}
			for _, ahead := range []int{2, 3, 20} {
				got, more, fewer := chains(t, c, ahead, 0.2, s)
				if !reflect.DeepEqual(got, want) {
					t.Errorf("%s: with %d ahead %v, one by one %v", name, ahead, got, want)
				}
				if ahead > 2 && (more <= drafted || c.Samples() && fewer >= trips) || more >= drafted+ahead*len(want) {
					t.Errorf("%s: %d ahead takes %d tokens and %d calls, one by one %d and %d", name, ahead, more, fewer, drafted, trips)
				}
			}
		}
	}
}

// asked is a rule that writes down what it is shown and stops at a length.
type asked struct {
	Fixed
	at    int
	shown [][]Drawn
}

func (a *asked) Stop(drawn []Drawn) bool {
	a.shown = append(a.shown, slices.Clone(drawn))
	return len(drawn) == a.at
}

// TestRulesSeeWhatIsKnown checks what a rule sees against the script: of ranked chains the
// levels say it, and the acceptance of a token is known after it was consumed, so never of
// the last.
func TestRulesSeeWhatIsKnown(t *testing.T) {
	target := newTarget(&script{vocab: 12, steps: 1e6}, 96, 64)
	for _, ahead := range []int{1, 4} {
		for _, sampled := range []bool{false, true} {
			draft := newDraft(target, 96, 0.2)
			draft.accept = true
			rule := &asked{Fixed: Fixed{5, 1, 6}, at: 4}
			p := Parts{Drafter: &RankedChain{Model: draft, Rule: rule, Ahead: ahead}, Verifier: Match{}, Policy: rule}
			if sampled {
				p.Drafter = &SampledChain{Model: draft, Rule: rule, Ahead: ahead}
			}
			g, err := Assemble(target, p)
			if err != nil {
				t.Fatal(err)
			}
			prompt := []int32{1, 2, 3}
			var known []Drawn
			_, err = g.Generate(context.Background(), prompt, Options{MaxTokens: 20}, func(e *Event) error {
				if e.Round == 1 {
					known = slices.Clone(e.Proposal.Drawn)
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			if len(known) != 4 {
				t.Fatalf("%d tokens, want 4", len(known))
			}
			at := of(prompt)
			for i := range 4 {
				shown := rule.shown[i]
				last := shown[len(shown)-1]
				q := Sampling{Temperature: 1}.Distribution(nil, target.script.logits(at, 0.2))
				best := bestOf(q, 1)[0]
				if len(shown) != i+1 || last.Token != best || math.Abs(float64(last.Prob)-q[best]) > 1e-6 || math.Abs(float64(last.Entropy)-entropy(q)) > 1e-6 || last.Accept == last.Accept {
					t.Errorf("sampled %v, ahead %d, token %d: %+v, want token %d of %v", sampled, ahead, i, shown, best, q)
				}
				at = at.then(best)
				if i == 3 {
					break
				}
				next := rule.shown[i+1][i]
				if want := draft.chanceAfter(at); next.Accept != want || next.Token != best || known[i].Accept != want {
					t.Errorf("sampled %v, ahead %d: token %d is accepted with %v and %v, want %v", sampled, ahead, i, next.Accept, known[i].Accept, want)
				}
			}
		}
	}
}

// refuser keeps tokens but for those of one value.
type refuser struct {
	Fixed
	token int32
}

func (r refuser) Stop([]Drawn) bool       { return false }
func (r refuser) Keep(drawn []Drawn) bool { return drawn[len(drawn)-1].Token != r.token }

// TestCutChainsEndBeforeTheToken compares chains with and without a cut, which never holds the
// token refused; the output stays that of plain decoding.
func TestCutChainsEndBeforeTheToken(t *testing.T) {
	target := newTarget(&script{vocab: 4, steps: 1e6}, 96, 64)
	draft := newDraft(target, 128, 0.2)
	for _, ahead := range []int{1, 3} {
		for _, s := range []Sampling{{}, {Temperature: 1, Seed: 4}} {
			rule := refuser{Fixed{5, 1, 6}, 2}
			set := setting{"cut", func(*scriptedTarget, *scriptedDraft) Parts {
				return Parts{Drafter: &RankedChain{Model: draft, Rule: rule, Ahead: ahead}, Verifier: Match{}, Policy: rule}
			}}
			o := Options{Sampling: s, MaxTokens: 60}
			want, finish := plain(target.script, []int32{1}, 96, o)
			got, stats := generate(t, set, target, draft, []int32{1}, o)
			expect(t, "cut", got, stats, want, finish)
			if stats.Plain == 0 || stats.Accepted == 0 {
				t.Errorf("ahead %d: %+v", ahead, stats)
			}
			g, err := Assemble(target, set.parts(nil, nil))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := g.Generate(context.Background(), []int32{1}, o, func(e *Event) error {
				if slices.Contains(e.Tree.Tokens[1:], 2) {
					t.Errorf("the chain %v holds a token that was refused", e.Tree.Tokens)
				}
				return nil
			}); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// outcome is an event of a chain of which so many tokens were accepted.
func outcome(drafted, accepted int) *Event {
	var tree Tree
	tree.Reset(0)
	path := []int32{0}
	for i := range drafted {
		tree.Add(int32(i), 1, 0)
		if i < accepted {
			path = append(path, int32(i+1))
		}
	}
	return &Event{Tree: &tree, Path: path, Judged: drafted}
}

func TestAssistedSchedule(t *testing.T) {
	c := combination(DrafterChain, AdaptAssisted, VerifierMatch)
	c.Depth = 3
	a := c.assisted()
	a.Start()
	for i, step := range []struct{ drafted, accepted, want int }{
		{3, 3, 5}, {5, 5, 7}, {7, 6, 6}, {6, 0, 5}, {0, 0, 5}, {2, 2, 7}, {4, 1, 6},
		{6, 5, 5}, {5, 0, 4}, {4, 0, 3}, {3, 0, 2}, {2, 0, 1}, {1, 0, 1}, {1, 1, 3},
	} {
		a.Observe(outcome(step.drafted, step.accepted))
		if got := a.Plan(Budget{}); got != (Budget{step.want, 1, step.want + 1}) {
			t.Errorf("step %d: %+v, want %d tokens", i, got, step.want)
		}
	}
	for range 20 {
		a.Observe(outcome(1, 1))
	}
	if most := a.Plan(Budget{}); most.Levels != 20 || most != c.Budget() {
		t.Errorf("the schedule grew to %+v, the models were prepared for %+v", most, c.Budget())
	}
	a.Start()
	if a.Plan(Budget{}).Levels != 3 {
		t.Error("a new request goes on with the old one's schedule")
	}
	c.Schedule = ScheduleConstant
	a = c.assisted()
	a.Observe(outcome(3, 3))
	a.Observe(outcome(3, 0))
	if got := a.Plan(Budget{}); got.Levels != 3 || got != c.Budget() {
		t.Errorf("a constant schedule gives %+v of %+v", got, c.Budget())
	}
	c.Depth, c.Schedule = 40, ""
	if c.Budget().Levels != 40 || c.assisted().Most != 40 {
		t.Errorf("a first round of 40 is planned as %+v", c.Budget())
	}
}

func TestAssistedStopsAfterDoubt(t *testing.T) {
	a := combination(DrafterChain, AdaptAssisted, VerifierMatch).assisted()
	sure := Drawn{Prob: 0.9}
	if a.Confidence != 0.4 || a.Stop([]Drawn{{Prob: 0.1}, sure}) || !a.Stop([]Drawn{sure, {Prob: 0.39}}) || a.Stop([]Drawn{{Prob: 0.41}}) {
		t.Errorf("%+v", a)
	}
}

func TestAdaEDLByHand(t *testing.T) {
	c := Config{Drafter: DrafterChain, Adapt: AdaptAdaEDL, Depth: 4}
	a := c.adaEDL()
	// 1-√(0.2·H) is 0.5 at H = 1.25 nats. The last token counts, not those before it.
	if a.Stop([]Drawn{{Entropy: 9}, {Entropy: 1.24}}) || !a.Stop([]Drawn{{}, {Entropy: 1.26}}) || a.Stop([]Drawn{{}}) {
		t.Error("the bound is not at 1.25 nats")
	}
	for i, step := range []struct {
		drafted, accepted int
		rate, threshold   float64
	}{
		{4, 4, 0.95, 0.5},    // as many as could be
		{4, 3, 0.85, 0.501},  // too few: a step of 0.01, of which a tenth counts
		{0, 0, 0.85, 0.501},  // nothing to learn from
		{4, 4, 0.925, 0.501}, //
		{3, 3, 0.9625, 0.5},  // enough, but the chain could have been longer
		{2, 0, 0.48125, 0.501},
	} {
		a.Observe(outcome(step.drafted, step.accepted))
		if math.Abs(a.rate-step.rate) > 1e-12 || math.Abs(a.threshold-step.threshold) > 1e-12 {
			t.Errorf("step %d: rate %v and threshold %v, want %v and %v", i, a.rate, a.threshold, step.rate, step.threshold)
		}
	}
	// 0.501 is met at H = (1-0.501)²/0.2 = 1.245 nats.
	if !a.Stop([]Drawn{{Entropy: 1.2452}}) || a.Stop([]Drawn{{Entropy: 1.2448}}) {
		t.Error("the threshold is not the one learnt")
	}
	a.Start()
	if a.rate != 0.9 || a.threshold != 0.5 {
		t.Errorf("a new request goes on with rate %v and threshold %v", a.rate, a.threshold)
	}
	c.Lambda, c.Threshold = 1, 0.25
	a = c.adaEDL()
	if a.Stop([]Drawn{{Entropy: 0.56}}) || !a.Stop([]Drawn{{Entropy: 0.57}}) { // 0.75² is 0.5625
		t.Errorf("%+v", a)
	}
	if c.Budget() != a.Plan(Budget{}) {
		t.Errorf("planned %+v, prepared for %+v", a.Plan(Budget{}), c.Budget())
	}
}

// stuck is a draft model that grows nothing.
type stuck struct{ *scriptedDraft }

func (s stuck) Grow(context.Context, int) ([]Level, error) { return s.levels, nil }

func (s stuck) DrawMore(context.Context, int) ([]Drawn, error) { return s.drawn, nil }

func TestStuckDraftsAreErrors(t *testing.T) {
	target := newTarget(&script{vocab: 6, steps: 1e6}, 96, 16)
	rule := &asked{Fixed: Fixed{3, 1, 4}}
	for want, drafter := range map[string]Drafter{
		"spec: the draft model grew a chain of 1 tokens to 1": &RankedChain{Model: stuck{newDraft(target, 96, 0)}, Rule: rule, Ahead: 1},
		"spec: the draft model drew 1 of 2 tokens":            &SampledChain{Model: stuck{newDraft(target, 96, 0)}, Rule: rule, Ahead: 1},
	} {
		g, err := Assemble(target, Parts{Drafter: drafter, Verifier: Match{}, Policy: rule})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := g.Generate(context.Background(), []int32{1}, Options{}, nil); err == nil || err.Error() != want {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// TestPace: how much of a chain is drafted before its rule is asked follows from what the last rounds cost and kept.
func TestPace(t *testing.T) {
	const ms = time.Millisecond
	kept := func(n, drafted int, draft, verify time.Duration) *Event {
		tree := &Tree{}
		tree.Reset(0)
		for i := range n {
			tree.Add(int32(i), 0, 0)
		}
		return &Event{Proposal: &Draft{Tree: tree, Drafted: drafted}, Draft: draft, Verify: verify}
	}
	for _, c := range []struct {
		name     string
		rounds   []*Event
		most     int
		first, n int // tokens of the first run, and of the next
	}{
		{"nothing is known", nil, 20, 20, 0},
		{"short", []*Event{kept(1, 4, 80*ms, ms)}, 4, 4, 0},
		{"cheap", []*Event{kept(2, 10, 10*ms, 9*ms)}, 10, 10, 0},
		{"as far as the last ones", []*Event{kept(2, 10, 10*ms, 7*ms), kept(4, 10, 10*ms, 7*ms)}, 10, 4, 6},
		{"those without a draft say nothing", []*Event{kept(2, 10, 10*ms, 7*ms), kept(0, 0, 0, ms)}, 10, 3, 7},
		{"dear", []*Event{kept(5, 10, 10*ms, 2*ms)}, 10, 1, 1},
		{"nothing is kept", []*Event{kept(0, 10, 10*ms, 7*ms)}, 10, 1, 9},
	} {
		var p pace
		for _, e := range c.rounds {
			p.observe(e)
		}
		first := p.next(c.most, 0)
		n := 0
		if first < c.most {
			n = p.next(c.most, first)
		}
		if first != c.first || n != c.n {
			t.Errorf("%s: %d tokens and then %d, want %d and %d", c.name, first, n, c.first, c.n)
		}
	}
	if p := (pace{fixed: 3}); p.next(7, 0) != 3 || p.next(7, 6) != 1 {
		t.Errorf("a fixed pace of 3 is %d and then %d", p.next(7, 0), p.next(7, 6))
	}
}
