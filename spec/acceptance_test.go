package spec

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestStopThresholdByHand(t *testing.T) {
	const ms = time.Millisecond
	for _, c := range []struct {
		tv, td, tr time.Duration
		want       float64
	}{
		{20 * ms, 1 * ms, 20 * ms, 0.95},
		{20 * ms, 5 * ms, 60 * ms, 0.25},
		{20 * ms, 20 * ms, 5 * ms, 0},
		{20 * ms, 30 * ms, 5 * ms, -2},
		{20 * ms, 1 * ms, 10 * ms, 1.9},
		{20 * ms, 1 * ms, 0, math.Inf(1)},
		{20 * ms, 30 * ms, -ms, math.Inf(1)},
	} {
		if got := StopThreshold(c.tv, c.td, c.tr); math.Abs(got-c.want) > 1e-12 && got != c.want {
			t.Errorf("T_v %v, T_d %v, T_r %v: h is %v, want %v", c.tv, c.td, c.tr, got, c.want)
		}
	}
}

func TestHopelessByHand(t *testing.T) {
	for _, c := range []struct {
		h     float64
		any   bool
		reach []float64 // P_rej is 1 minus these
		want  bool
	}{
		{0.5, false, []float64{0.6, 0.1}, false},
		{0.5, true, []float64{0.6, 0.1}, true},
		{0.5, false, []float64{0.4, 0.1}, true},
		{0.5, false, []float64{0.5, 0.1}, false}, // not more than h
		{0.95, false, []float64{0.04, 0.01}, true},
		{1, false, []float64{0}, false},
		{1, true, []float64{0}, false},
		{math.Inf(1), true, []float64{0}, false},
		{0, false, []float64{1}, true},
		{-2, false, []float64{1}, true},
	} {
		if got := (&AcceptanceStop{Any: c.any}).hopeless(c.h, c.reach); got != c.want {
			t.Errorf("h %v, any %v, %v: %v", c.h, c.any, c.reach, got)
		}
	}
}

// TestGatherByHand follows two levels of beams down: a beam's chance is its parent's times
// its own estimate.
func TestGatherByHand(t *testing.T) {
	levels := []Level{
		{Candidates: []Candidate{{10, 0, 0}, {11, 0, 0}, {12, 0, 0}}, Beams: []int32{2, 0}, Accepts: []float32{1}},
		{Candidates: []Candidate{{20, 0, 0}, {21, 0, 1}, {22, 0, 1}}, Beams: []int32{1, 0, 2}, Accepts: []float32{0.5, 0.25}},
		{Accepts: []float32{0.5, float32(math.NaN()), 7}},
	}
	a := acceptanceSession{reach: []float64{1}}
	for d, want := range [][]float64{{0.5, 0.25}, {0.25 * 0.5, 0.5, 0.25}} {
		if err := a.gather(levels, d+1); err != nil || !slices.Equal(a.reach, want) {
			t.Errorf("level %d: %v, want %v (%v)", d+1, a.reach, want, err)
		}
	}
	levels[1].Accepts = nil
	a.reach = []float64{1}
	if err := a.gather(levels, 1); err == nil || !strings.Contains(err.Error(), "acceptance head") {
		t.Errorf("a level without estimates: %v", err)
	}
	levels[1].Accepts, levels[0].Beams = []float32{1}, []int32{5}
	if err := a.gather(levels, 1); err == nil {
		t.Error("a beam that is no candidate was taken")
	}
}

func TestPassTimesByHand(t *testing.T) {
	const ms = time.Millisecond
	var p passTimes
	if h := p.threshold(); !math.IsInf(h, 1) {
		t.Errorf("before anything was measured h is %v", h)
	}
	round := func(levels, depth, accepted, judged int, draft, verify time.Duration) *Event {
		e := &Event{Tree: &Tree{}, Proposal: &Draft{}, Levels: make([]Level, levels), Judged: judged, Draft: draft, Verify: verify}
		e.Tree.Reset(0)
		for i := range int32(depth) {
			e.Tree.Add(i, 1, 0)
		}
		e.Path = make([]int32, accepted+1)
		return e
	}
	near := func(what string, want float64) {
		t.Helper()
		if h := p.threshold(); math.Abs(h-want) > 1e-9 {
			t.Errorf("%s: h is %v, want %v", what, h, want)
		}
	}
	p.observe(round(0, 0, 0, 0, 0, 99*ms)) // plain decoding tells nothing of drafts
	// 5 levels in 5 ms, all accepted: T_v 20, T_d 1, nothing wasted.
	p.observe(round(5, 5, 5, 5, 5*ms, 20*ms))
	near("all accepted", (20.0-1)/20)
	// Cut after 2: the rest was not judged, so nothing is known to be wasted.
	p.observe(round(5, 5, 2, 2, 5*ms, 20*ms))
	near("cut", (20.0-1)/20)
	// One accepted, the second rejected, three levels thrown away: 3 ms.
	p.observe(round(5, 5, 1, 5, 5*ms, 20*ms))
	near("rejected", (20.0-1)/(20+3))
	// Averages move by an eighth of the way.
	p.observe(round(5, 5, 0, 5, 45*ms, 28*ms))
	near("moved", (21.0-2)/(21+(3+(36.0-3)/8)))
	// Levels beyond the tree's depth were drafted too, and are wasted with the rest.
	p = passTimes{}
	p.observe(round(6, 2, 1, 2, 6*ms, 10*ms))
	near("deeper levels", (10.0-1)/(10+4))
}

func TestRuleByHand(t *testing.T) {
	unknown := float32(math.NaN())
	for _, c := range []struct {
		h       float64
		accepts []float32
		want    bool
	}{
		{0.5, []float32{unknown}, false},
		{0.5, []float32{0.6, unknown}, false},
		{0.5, []float32{0.6, 0.6, unknown}, true}, // 1-0.36
		{0.65, []float32{0.6, 0.6, unknown}, false},
		{0.65, []float32{0.6, 0.6, 0.9, unknown}, true}, // 1-0.324
		{0, []float32{unknown}, false},                  // nothing measured yet
	} {
		rule := AcceptanceRule{AcceptanceStop: AcceptanceStop{H: c.h}}
		var drawn []Drawn
		for _, a := range c.accepts {
			drawn = append(drawn, Drawn{Accept: a})
		}
		if got := rule.Stop(drawn); got != c.want {
			t.Errorf("h %v, estimates %v: %v", c.h, c.accepts, got)
		}
	}
}

// stopDepth is how many levels a tree has by definition: drafted whole, then looked at from
// the root down.
func stopDepth(d *scriptedDraft, seq []int32, r DraftRequest, h float64, anyBranch bool) int {
	whole := *d
	whole.target = nil
	whole.Reset()
	whole.cells = slices.Clone(seq[:len(seq)-1])
	r.Pending = seq[len(seq)-1:]
	levels, err := whole.DraftTree(context.Background(), r)
	if err != nil {
		panic(err)
	}
	type branch struct {
		at    prefix
		reach float64
	}
	live := []branch{{of(seq), 1}}
	for n := 1; n < len(levels); n++ {
		var next []branch
		for _, b := range levels[n-1].Beams {
			c := levels[n-1].Candidates[b]
			at := live[c.Beam].at.then(c.Token)
			next = append(next, branch{at, live[c.Beam].reach * float64(whole.chance(at))})
		}
		live = next
		over := 0
		for _, b := range live {
			if 1-b.reach > h {
				over++
			}
		}
		if over == len(live) || anyBranch && over > 0 {
			return n + 1
		}
	}
	return len(levels)
}

func TestAcceptanceTreeStopsWhereDefined(t *testing.T) {
	target := newTarget(&script{vocab: 12, steps: 1e6}, 600, 64)
	prompt := []int32{1, 2}
	for _, anyBranch := range []bool{false, true} {
		for _, h := range []float64{0.3, 0.6, 0.9, 0.99} {
			for _, drafter := range []string{DrafterEAGLE2, DrafterChain} {
				for _, sampling := range []Sampling{{}, {Temperature: 1, Seed: 5}} {
					name := fmt.Sprintf("%s, h %v, any %v, T=%v", drafter, h, anyBranch, sampling.Temperature)
					c := Config{Drafter: drafter, Verifier: VerifierMatch, Adapt: AdaptAcceptance, Depth: 5, TopK: 3, Nodes: 16, Aids: Aids{Head: true}}
					c.Threshold, c.Any = h, anyBranch
					draft := newDraft(target, 600, 0.1)
					draft.accept = true
					g, err := New(target, draft, c)
					if err != nil {
						t.Fatal(err)
					}
					seq, depths := slices.Clone(prompt), map[int]int{}
					_, err = g.Generate(context.Background(), prompt, Options{Sampling: sampling, MaxTokens: 200}, func(e *Event) error {
						defer func() { seq = append(seq, e.Tokens...) }()
						if e.Tree == nil || len(seq) > 190 {
							return nil
						}
						b := c.Budget()
						request := DraftRequest{Depth: b.Levels - 1, K: b.Width, Coupled: sampling.Temperature > 0, Sampling: sampling}
						want := stopDepth(draft, seq, request, h, anyBranch)
						depths[want]++
						got := len(e.Levels)
						if drafter == DrafterChain { // drafted in one go, and ended where the rule says
							got = len(e.Proposal.Drawn)
						}
						if got != want {
							t.Fatalf("%s, round %d: %d levels, want %d", name, e.Round, got, want)
						}
						if drafter == DrafterChain && e.Tree.Len() != want+1 || drafter == DrafterEAGLE2 && e.Tree.Len() != min(c.Nodes, 4+9*(want-1)) {
							t.Fatalf("%s, round %d: %d nodes of %d levels", name, e.Round, e.Tree.Len(), want)
						}
						return nil
					})
					if err != nil || len(depths) < 2 {
						t.Errorf("%s: depths %v (%v)", name, depths, err)
					}
				}
			}
		}
	}
}

// TestAcceptanceChainUnderEveryVerifier ends sampled chains that are judged by more than
// matching: the tokens are those of the sampled draft, as far as the rule lets them.
func TestAcceptanceChainUnderEveryVerifier(t *testing.T) {
	for _, verifier := range []string{VerifierMatch, VerifierRejection, VerifierMARS, VerifierAdaSD} {
		target := newTarget(&script{vocab: 12, steps: 1e6}, 600, 64)
		draft := newDraft(target, 600, 0.1)
		draft.accept = true
		c := Config{Drafter: DrafterChain, Verifier: verifier, Adapt: AdaptAcceptance, Depth: 6, Aids: Aids{Head: true}}
		c.Threshold = 0.9
		g, err := New(target, draft, c)
		if err != nil {
			t.Fatal(err)
		}
		seq, sizes := []int32{1, 2}, map[int]int{}
		stats, err := g.Generate(context.Background(), seq, Options{Sampling: Sampling{Temperature: 1, Seed: 4}, MaxTokens: 200}, func(e *Event) error {
			defer func() { seq = append(seq, e.Tokens...) }()
			if e.Tree == nil || len(seq) > 190 {
				return nil
			}
			// The chain ends after the first token that hangs on something hopeless.
			want, at, reach := 0, of(seq), 1.0
			for _, token := range e.Tree.Tokens[1:] {
				if want++; 1-reach > 0.9 {
					break
				}
				at = at.then(token)
				reach *= float64(draft.chanceAfter(at))
			}
			if e.Tree.Len() != want+1 || want < 6 && 1-reach <= 0.9 {
				t.Errorf("%s, round %d: %d tokens, want %d (P_rej %v)", verifier, e.Round, e.Tree.Len()-1, want, 1-reach)
			}
			sizes[want]++
			return nil
		})
		if err != nil || stats.OutputTokens != 200 || len(sizes) < 3 {
			t.Errorf("%s: %d tokens, chains by size %v (%v)", verifier, stats.OutputTokens, sizes, err)
		}
	}
}

// chanceAfter is the head's estimate of a token that is not the root.
func (d *scriptedDraft) chanceAfter(at prefix) float32 {
	return float32(unit(mix(at.hash ^ 0xACCE97)))
}

// costly is a draft model whose levels take time, by a clock that only models move.
type costly struct {
	*scriptedDraft
	now   *time.Duration
	level time.Duration
	first *int // passes after the root's that DraftTree was last asked for
}

func (c costly) DraftTree(ctx context.Context, r DraftRequest) ([]Level, error) {
	*c.first = r.Depth
	*c.now += c.level * time.Duration(r.Depth+1)
	return c.scriptedDraft.DraftTree(ctx, r)
}

func (c costly) Grow(ctx context.Context, passes int) ([]Level, error) {
	*c.now += c.level * time.Duration(passes)
	return c.scriptedDraft.Grow(ctx, passes)
}

// costlyTarget likewise.
type costlyTarget struct {
	*scriptedTarget
	now  *time.Duration
	pass time.Duration
}

func (c costlyTarget) Verify(ctx context.Context, tree *Tree, s Sampling) ([]NodeOutput, error) {
	*c.now += c.pass
	return c.scriptedTarget.Verify(ctx, tree, s)
}

// TestMeasuredThreshold scripts what passes cost: drafting goes deeper the cheaper it
// is beside the target, and not at all beyond the first level where it costs as much.
func TestMeasuredThreshold(t *testing.T) {
	const ms = time.Millisecond
	for _, drafter := range []string{DrafterEAGLE2, DrafterChain} {
		deeper := 0.0
		for _, level := range []time.Duration{30 * ms, 20 * ms, 10 * ms, ms, 0} {
			target := newTarget(&script{vocab: 12, steps: 1e6}, 600, 64)
			draft := newDraft(target, 600, 0.1)
			draft.accept = true
			var now time.Duration
			slow := costlyTarget{target, &now, 20 * ms}
			c := Config{Drafter: drafter, Verifier: VerifierMatch, Adapt: AdaptAcceptance, Depth: 5, TopK: 3, Nodes: 16, Aids: Aids{Head: true}}
			first := 0
			p, err := c.Parts(slow, costly{draft, &now, level, &first})
			if err != nil {
				t.Fatal(err)
			}
			p.Clock = func() time.Time { return time.Unix(0, int64(now)) }
			g, err := Assemble(slow, p)
			if err != nil {
				t.Fatal(err)
			}
			stop := acceptanceStopOf(p)
			most := c.Budget().Levels
			rounds, levels := 0, 0
			o := Options{MaxTokens: 300}
			var got []int32
			_, err = g.Generate(context.Background(), []int32{1, 2}, o, func(e *Event) error {
				got = append(got, e.Tokens...)
				h := stop.Threshold()
				// T_r is T_v at least, and at most all levels more.
				lone, wasteful := float64(20*ms-level)/float64(20*ms), float64(20*ms-level)/float64(20*ms+level*time.Duration(most))
				if h < min(lone, wasteful)-1e-9 || h > max(lone, wasteful)+1e-9 {
					t.Fatalf("%s, levels of %v: h is %v, want %v to %v", drafter, level, h, lone, wasteful)
				}
				switch {
				case e.Tree == nil || len(got) > 290:
				case e.Round == 1 && len(e.Levels) != most:
					t.Errorf("%s: before anything was measured %d levels were drafted, want %d", drafter, len(e.Levels), most)
				case e.Round > 1:
					// The root is never rejected: its children's pass needs no look before it. Cheap levels are drafted in one go.
					want := min(len(e.Levels)-1, 1)
					if level < 10*ms {
						want = most - 1
					}
					if drafter == DrafterEAGLE2 && first != want {
						t.Errorf("levels of %v: round %d began with %d passes, want %d", level, e.Round, first, want)
					}
					rounds, levels = rounds+1, levels+len(e.Levels)
					if drafter == DrafterChain {
						levels += len(e.Proposal.Drawn) - len(e.Levels)
					}
					if level >= 20*ms && len(e.Levels) != 1 {
						t.Errorf("%s, levels of %v: round %d drafted %d levels, want 1", drafter, level, e.Round, len(e.Levels))
					}
					if level == 0 && len(e.Levels) != most {
						t.Errorf("%s: levels cost nothing and round %d drafted %d of %d", drafter, e.Round, len(e.Levels), most)
					}
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			mean := float64(levels) / float64(rounds)
			if mean < deeper {
				t.Errorf("%s, levels of %v: %v levels a round, %v when they cost more", drafter, level, mean, deeper)
			}
			deeper = mean
			if want, _ := plain(target.script, []int32{1, 2}, 600, o); !slices.Equal(got, want) {
				t.Errorf("%s, levels of %v: the output is not plain decoding's", drafter, level)
			}
		}
		if deeper < 4 {
			t.Errorf("%s: free levels give %v levels a round", drafter, deeper)
		}
	}
}

func acceptanceStopOf(p Parts) *AcceptanceStop {
	if r, ok := p.Policy.(*AcceptanceRule); ok {
		return &r.AcceptanceStop
	}
	return p.Drafter.(*AcceptanceDrafter).Stop
}

func TestAcceptanceWithoutAHeadIsAnError(t *testing.T) {
	target := newTarget(&script{vocab: 12, steps: 1e6}, 100, 64)
	c := Config{Drafter: DrafterEAGLE2, Verifier: VerifierMatch, Adapt: AdaptAcceptance, Depth: 2, TopK: 2, Nodes: 8, Aids: Aids{Head: true}}
	g, err := New(target, newDraft(target, 100, 0), c)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := g.Generate(context.Background(), []int32{1}, Options{MaxTokens: 5}, nil); err == nil || !strings.Contains(err.Error(), "load the draft with its acceptance head") {
		t.Errorf("levels without estimates: %v", err)
	}
}
