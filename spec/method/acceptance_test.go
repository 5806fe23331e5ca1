package method

import (
	"context"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"foretoken/spec"
	"foretoken/spec/adapt"
	"foretoken/spec/spectest"
)

// stopDepth is how many levels a tree has by definition: drafted whole, then looked at from the root down.
func stopDepth(d *spectest.DraftModel, seq []int32, r spec.DraftRequest, h float64, anyBranch bool) int {
	whole := *d
	whole.Target = nil
	whole.Reset()
	whole.Cells = slices.Clone(seq[:len(seq)-1])
	r.Pending = seq[len(seq)-1:]
	levels, err := whole.Draft(context.Background(), r)
	if err != nil {
		panic(err)
	}
	type branch struct {
		at    spectest.Prefix
		reach float64
	}
	live := []branch{{spectest.PrefixOf(seq), 1}}
	for n := 1; n < len(levels); n++ {
		var next []branch
		for _, b := range levels[n-1].Beams {
			c := levels[n-1].Candidates[b]
			at := live[c.Beam].at.Then(c.Token)
			next = append(next, branch{at, live[c.Beam].reach * float64(whole.Chance(at))})
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
	target := spectest.NewTarget(&spectest.Script{Vocab: 12, Steps: 1e6}, 600, 64)
	prompt := []int32{1, 2}
	for _, anyBranch := range []bool{false, true} {
		for _, h := range []float64{0.3, 0.6, 0.9, 0.99} {
			for _, drafter := range []string{DrafterEAGLE2, DrafterChain} {
				for _, sampling := range []spec.Sampling{{}, {Temperature: 1, Seed: 5}} {
					name := fmt.Sprintf("%s, h %v, any %v, T=%v", drafter, h, anyBranch, sampling.Temperature)
					c := Config{Drafter: drafter, Verifier: VerifierMatch, Adapt: AdaptAcceptance, Depth: 5, TopK: 3,
						Nodes: 16, Fitted: Fitted{Head: &adapt.AcceptanceHead{}}}
					c.Threshold, c.Any = h, anyBranch
					draft := spectest.NewDraft(target, 600, 0.1)
					draft.Accept = true
					g, err := New(target, c, draft)
					if err != nil {
						t.Fatal(err)
					}
					seq, depths := slices.Clone(prompt), map[int]int{}
					_, err = g.Generate(context.Background(), prompt, spec.Options{Sampling: sampling, MaxTokens: 200},
						func(e *spec.Event) error {
							defer func() { seq = append(seq, e.Tokens...) }()
							if e.Tree == nil || len(seq) > 190 {
								return nil
							}
							b := c.Budget()
							request := spec.DraftRequest{Depth: b.Levels - 1, K: b.Width,
								Coupled: sampling.Temperature > 0, Sampling: sampling}
							want := stopDepth(draft, seq, request, h, anyBranch)
							depths[want]++
							got := len(e.Levels)
							if drafter == DrafterChain { // drafted in one go, and ended where the rule says
								got = len(e.Proposal.Drawn)
							}
							if got != want {
								t.Fatalf("%s, round %d: %d levels, want %d", name, e.Round, got, want)
							}
							nodes := want + 1
							if drafter == DrafterEAGLE2 {
								nodes = min(c.Nodes, 4+9*(want-1))
							}
							if e.Tree.Len() != nodes {
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

// TestAcceptanceChainUnderEveryVerifier ends sampled chains that are verified by more than
// matching: the tokens are those of the sampled draft, as far as the rule lets them.
func TestAcceptanceChainUnderEveryVerifier(t *testing.T) {
	for _, verifier := range []string{VerifierMatch, VerifierRejection, VerifierMARS, VerifierAdaSD} {
		target := spectest.NewTarget(&spectest.Script{Vocab: 12, Steps: 1e6}, 600, 64)
		draft := spectest.NewDraft(target, 600, 0.1)
		draft.Accept = true
		c := Config{Drafter: DrafterChain, Verifier: verifier, Adapt: AdaptAcceptance, Depth: 6,
			Fitted: Fitted{Head: &adapt.AcceptanceHead{}}}
		c.Threshold = 0.9
		g, err := New(target, c, draft)
		if err != nil {
			t.Fatal(err)
		}
		seq, sizes := []int32{1, 2}, map[int]int{}
		stats, err := g.Generate(context.Background(), seq,
			spec.Options{Sampling: spec.Sampling{Temperature: 1, Seed: 4}, MaxTokens: 200}, func(e *spec.Event) error {
				defer func() { seq = append(seq, e.Tokens...) }()
				if e.Tree == nil || len(seq) > 190 {
					return nil
				}
				// The chain ends after the first token that hangs on something hopeless.
				want, at, reach := 0, spectest.PrefixOf(seq), 1.0
				for _, token := range e.Tree.Tokens[1:] {
					if want++; 1-reach > 0.9 {
						break
					}
					at = at.Then(token)
					reach *= float64(draft.ChanceAfter(at))
				}
				if e.Tree.Len() != want+1 || want < 6 && 1-reach <= 0.9 {
					t.Errorf("%s, round %d: %d tokens, want %d (P_rej %v)", verifier, e.Round, e.Tree.Len()-1, want,
						1-reach)
				}
				sizes[want]++
				return nil
			})
		if err != nil || stats.OutputTokens != 200 || len(sizes) < 3 {
			t.Errorf("%s: %d tokens, chains by size %v (%v)", verifier, stats.OutputTokens, sizes, err)
		}
	}
}

// costly is a draft model whose levels take time, by a clock that only models move.
type costly struct {
	*spectest.DraftModel
	now   *time.Duration
	level time.Duration
	first *int // passes after the root's that Draft was last asked for
}

func (c costly) Draft(ctx context.Context, r spec.DraftRequest) ([]spec.Level, error) {
	*c.first = r.Depth
	*c.now += c.level * time.Duration(r.Depth+1)
	return c.DraftModel.Draft(ctx, r)
}

func (c costly) Extend(ctx context.Context, e spec.Extension) ([]spec.Level, error) {
	*c.now += c.level * time.Duration(e.Passes)
	return c.DraftModel.Extend(ctx, e)
}

// costlyTarget is a target whose passes take time on the same clock.
type costlyTarget struct {
	*spectest.Target
	now  *time.Duration
	pass time.Duration
}

func (c costlyTarget) Verify(ctx context.Context, r spec.PassRequest) (*spec.Pass, error) {
	*c.now += c.pass
	return c.Target.Verify(ctx, r)
}

// TestMeasuredThreshold scripts what passes cost: drafting goes deeper the cheaper it
// is beside the target, and not at all beyond the first level where it costs as much.
func TestMeasuredThreshold(t *testing.T) {
	const ms = time.Millisecond
	for _, drafter := range []string{DrafterEAGLE2, DrafterChain} {
		deeper := 0.0
		for _, level := range []time.Duration{30 * ms, 20 * ms, 10 * ms, ms, 0} {
			target := spectest.NewTarget(&spectest.Script{Vocab: 12, Steps: 1e6}, 600, 64)
			draft := spectest.NewDraft(target, 600, 0.1)
			draft.Accept = true
			var now time.Duration
			slow := costlyTarget{target, &now, 20 * ms}
			c := Config{Drafter: drafter, Verifier: VerifierMatch, Adapt: AdaptAcceptance, Depth: 5, TopK: 3, Nodes: 16,
				Fitted: Fitted{Head: &adapt.AcceptanceHead{}}}
			first := 0
			p, err := c.Parts(slow, costly{draft, &now, level, &first})
			if err != nil {
				t.Fatal(err)
			}
			p.Clock = func() time.Time { return time.Unix(0, int64(now)) }
			g, err := spec.New(slow, p)
			if err != nil {
				t.Fatal(err)
			}
			stop := acceptanceStopOf(p)
			most := c.Budget().Levels
			rounds, levels := 0, 0
			o := spec.Options{MaxTokens: 300}
			var got []int32
			_, err = g.Generate(context.Background(), []int32{1, 2}, o, func(e *spec.Event) error {
				got = append(got, e.Tokens...)
				h := stop.Threshold()
				// T_r is T_v at least, and at most all levels more.
				lone, wasteful := float64(20*ms-level)/float64(20*ms),
					float64(20*ms-level)/float64(20*ms+level*time.Duration(most))
				if h < min(lone, wasteful)-1e-9 || h > max(lone, wasteful)+1e-9 {
					t.Fatalf("%s, levels of %v: h is %v, want %v to %v", drafter, level, h, lone, wasteful)
				}
				switch {
				case e.Tree == nil || len(got) > 290:
				case e.Round == 1 && len(e.Levels) != most:
					t.Errorf("%s: before anything was measured %d levels were drafted, want %d", drafter, len(e.Levels),
						most)
				case e.Round > 1:
					// The root is never rejected, so its children's pass starts unchecked. One run drafts cheap levels.
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
						t.Errorf("%s, levels of %v: round %d drafted %d levels, want 1", drafter, level, e.Round,
							len(e.Levels))
					}
					if level == 0 && len(e.Levels) != most {
						t.Errorf("%s: levels cost nothing and round %d drafted %d of %d", drafter, e.Round,
							len(e.Levels), most)
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
			if want, _ := spectest.Plain(target.Script, []int32{1, 2}, 600, o); !slices.Equal(got, want) {
				t.Errorf("%s, levels of %v: the output is not plain decoding's", drafter, level)
			}
		}
		if deeper < 4 {
			t.Errorf("%s: free levels give %v levels a round", drafter, deeper)
		}
	}
}

// TestAcceptanceEndsEachBranch checks that nothing hangs on a branch whose P_rej exceeds h, that others grow on, and
// that trees are EAGLE-2's where h is 1.
func TestAcceptanceEndsEachBranch(t *testing.T) {
	for _, h := range []float64{0.8, 0.95, 1} {
		for _, sampling := range []spec.Sampling{{}, {Temperature: 1, Seed: 5}} {
			target := spectest.NewTarget(&spectest.Script{Vocab: 12, Steps: 1e6}, 600, 64)
			draft := spectest.NewDraft(target, 600, 0.1)
			draft.Accept = true
			c := Config{Drafter: DrafterEAGLE2, Verifier: VerifierMatch, Depth: 4, TopK: 3, Nodes: 40}
			o := spec.Options{Sampling: sampling, MaxTokens: 120}
			trees := func(c Config) (all [][]spec.Level) {
				g, err := New(target, c, draft)
				if err != nil {
					t.Fatal(err)
				}
				_, err = g.Generate(context.Background(), []int32{1, 2}, o, func(e *spec.Event) error {
					var levels []spec.Level
					for _, l := range e.Levels {
						levels = append(levels, spec.Level{Candidates: slices.Clone(l.Candidates),
							Beams: slices.Clone(l.Beams), Accepts: slices.Clone(l.Accepts)})
					}
					all = append(all, levels)
					return nil
				})
				if err != nil {
					t.Fatal(err)
				}
				return all
			}
			whole := trees(c)
			c.Adapt, c.PerBranch, c.Threshold, c.Fitted.Head = AdaptAcceptance, true, h, &adapt.AcceptanceHead{}
			pruned := trees(c)
			if h == 1 {
				if !reflect.DeepEqual(whole, pruned) {
					t.Errorf("T=%v: no branch ends, and the trees are not EAGLE-2's", sampling.Temperature)
				}
				continue
			}
			for round, levels := range pruned {
				chances := []float64{1}
				for d := 1; d < len(levels); d++ {
					above, next := levels[d-1], []float64(nil)
					for i, b := range above.Beams {
						beam := above.Candidates[b].Beam
						if 1-chances[beam] > h {
							t.Fatalf("h %v, round %d: level %d grows on a lost branch", h, round, d)
						}
						next = append(next, chances[beam]*float64(levels[d].Accepts[i]))
					}
					chances = next
					if d+1 == len(levels) && d < c.Depth && 1-slices.Max(next) <= h && round+9 < len(pruned) {
						t.Fatalf("h %v, round %d: the tree ends at level %d with a branch to grow", h, round, d)
					}
				}
			}
			if !slices.ContainsFunc(pruned, func(l []spec.Level) bool { return len(l) > 2 }) || len(pruned) == 0 {
				t.Errorf("h %v, T=%v: no tree of three levels", h, sampling.Temperature)
			}
		}
	}
}

// TestTimesOutliveARequest has a second request begin with the threshold that the first one measured.
func TestTimesOutliveARequest(t *testing.T) {
	for _, drafter := range []string{DrafterEAGLE2, DrafterChain} {
		target := spectest.NewTarget(&spectest.Script{Vocab: 12, Steps: 1e6}, 600, 64)
		draft := spectest.NewDraft(target, 600, 0.1)
		draft.Accept = true
		c := Config{Drafter: drafter, Verifier: VerifierMatch, Adapt: AdaptAcceptance, Depth: 5, TopK: 3, Nodes: 16,
			Fitted: Fitted{Head: &adapt.AcceptanceHead{}, Times: &adapt.PassTimes{}}}
		var measured float64
		for request, known := range []bool{false, true} {
			p, err := c.Parts(target, draft)
			if err != nil {
				t.Fatal(err)
			}
			h := acceptanceStopOf(p).Threshold()
			if known != !math.IsInf(h, 1) || known && h != measured {
				t.Errorf("%s, request %d begins with h %v, the one before ended with %v", drafter, request, h, measured)
			}
			now := time.Duration(0)
			p.Clock = func() time.Time { now += time.Millisecond; return time.Unix(0, int64(now)) }
			g, err := spec.New(target, p)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := g.Generate(context.Background(), []int32{1, 2}, spec.Options{MaxTokens: 50}, nil); err != nil {
				t.Fatal(err)
			}
			measured = acceptanceStopOf(p).Threshold()
		}
	}
}

func acceptanceStopOf(p spec.Parts) *adapt.AcceptanceStop {
	if r, ok := p.Policy.(*adapt.AcceptanceRule); ok {
		return &r.AcceptanceStop
	}
	return p.Drafter.(*adapt.AcceptanceDrafter).Stop
}

func TestAcceptanceWithoutAHeadIsAnError(t *testing.T) {
	target := spectest.NewTarget(&spectest.Script{Vocab: 12, Steps: 1e6}, 100, 64)
	c := Config{Drafter: DrafterEAGLE2, Verifier: VerifierMatch, Adapt: AdaptAcceptance, Depth: 2, TopK: 2, Nodes: 8,
		Fitted: Fitted{Head: &adapt.AcceptanceHead{}}}
	g, err := New(target, c, spectest.NewDraft(target, 100, 0))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := g.Generate(context.Background(), []int32{1}, spec.Options{MaxTokens: 5}, nil); err == nil ||
		!strings.Contains(err.Error(), "prepare the draft with an acceptance head") {
		t.Errorf("levels without estimates: %v", err)
	}
}

// TestAcceptanceUse labels acceptance by how each verifier accepts.
func TestAcceptanceUse(t *testing.T) {
	for _, c := range []struct {
		Config
		temperature float64
		want        string
	}{
		{Config{}, 0, adapt.LabelArgmax},
		{Config{Verifier: VerifierRejection}, 0, adapt.LabelArgmax},
		{Config{}, 1, adapt.LabelDraw},
		{Config{Uncoupled: true}, 1, adapt.LabelProbability},
		{Config{Verifier: VerifierRejection, Uncoupled: true}, 1, adapt.LabelRatio},
		{Config{Verifier: VerifierMARS}, 1, adapt.LabelArgmax},
		{Config{Verifier: VerifierMARS, Settings: Settings{Mode: MARSSampled}}, 1, adapt.LabelDraw},
		{Config{Verifier: VerifierAdaSD}, 1, adapt.LabelDraw},
	} {
		c.Source = SourceEAGLE3
		want := adapt.AcceptanceUse{Source: SourceEAGLE3, Label: c.want, Temperature: c.temperature}
		if got := c.AcceptanceUse(c.temperature); got != want {
			t.Errorf("%s, uncoupled %v: %+v, want %+v", c.Verifier, c.Uncoupled, got, want)
		}
		head := &adapt.AcceptanceHead{Source: SourceEAGLE3, Label: c.want}
		head.Made.Temperature = c.temperature
		c.Adapt, c.Fitted.Head = AdaptAcceptance, head
		if err := c.CheckAt(c.temperature); err != nil {
			t.Error(err)
		}
		head.Source = ""
		if err := c.CheckAt(c.temperature); err == nil {
			t.Errorf("%s: a head of the draft model was not refused", c.Verifier)
		}
	}
}
