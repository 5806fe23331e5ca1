package draft

import (
	"context"
	"math"
	"slices"
	"testing"
	"time"

	"foretoken/spec"
	"foretoken/spec/spectest"
)

// asked is a rule that writes down what it is shown and stops at a length.
type asked struct {
	spec.Fixed
	at    int
	shown [][]spec.Drawn
}

func (a *asked) Stop(drawn []spec.Drawn) bool {
	a.shown = append(a.shown, slices.Clone(drawn))
	return len(drawn) == a.at
}

// TestRulesSeeWhatIsKnown checks what a rule sees against the script: of ranked chains the levels say it, and the
// acceptance of a token is known after it was consumed, so never of the last.
func TestRulesSeeWhatIsKnown(t *testing.T) {
	target := spectest.NewTarget(&spectest.Script{Vocab: 12, Steps: 1e6}, 96, 64)
	for _, ahead := range []int{1, 4} {
		for _, sampled := range []bool{false, true} {
			draft := spectest.NewDraft(target, 96, 0.2)
			draft.Accept = true
			rule := &asked{Fixed: spec.Fixed{Levels: 5, Width: 1, Nodes: 6}, at: 4}
			p := spec.Parts{Drafter: &RankedChain{Model: draft, Rule: rule, Ahead: ahead}, Verifier: spec.Match{},
				Policy: rule}
			if sampled {
				p.Drafter = &SampledChain{Model: draft, Rule: rule, Ahead: ahead}
			}
			g, err := spec.New(target, p)
			if err != nil {
				t.Fatal(err)
			}
			prompt := []int32{1, 2, 3}
			var known []spec.Drawn
			_, err = g.Generate(context.Background(), prompt, spec.Options{MaxTokens: 20}, func(e *spec.Event) error {
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
			at := spectest.PrefixOf(prompt)
			for i := range 4 {
				shown := rule.shown[i]
				last := shown[len(shown)-1]
				q := spectest.Distribution(spec.Sampling{Temperature: 1}, target.Script.Logits(at, 0.2))
				best := spectest.BestOf(q, 1)[0]
				if len(shown) != i+1 || last.Token != best || math.Abs(float64(last.Prob)-q[best]) > 1e-6 ||
					math.Abs(float64(last.Entropy)-spectest.Entropy(q)) > 1e-6 || last.Accept == last.Accept {
					t.Errorf("sampled %v, ahead %d, token %d: %+v, want token %d of %v", sampled, ahead, i, shown, best,
						q)
				}
				at = at.Then(best)
				if i == 3 {
					break
				}
				next := rule.shown[i+1][i]
				if want := draft.ChanceAfter(at); next.Accept != want || next.Token != best || known[i].Accept != want {
					t.Errorf("sampled %v, ahead %d: token %d is accepted with %v and %v, want %v", sampled, ahead, i,
						next.Accept, known[i].Accept, want)
				}
			}
		}
	}
}

// refuser keeps tokens but for those of one value.
type refuser struct {
	spec.Fixed
	token int32
}

func (r refuser) Stop(drawn []spec.Drawn) bool { return drawn[len(drawn)-1].Token == r.token }

// TestCutChainsEndBeforeTheToken compares chains with and without a cut, which never holds the
// token refused; the output stays that of plain decoding.
func TestCutChainsEndBeforeTheToken(t *testing.T) {
	target := spectest.NewTarget(&spectest.Script{Vocab: 4, Steps: 1e6}, 96, 64)
	draft := spectest.NewDraft(target, 128, 0.2)
	for _, ahead := range []int{1, 3} {
		for _, s := range []spec.Sampling{{}, {Temperature: 1, Seed: 4}} {
			rule := refuser{spec.Fixed{Levels: 5, Width: 1, Nodes: 6}, 2}
			set := spectest.Setting{Name: "cut", Parts: func(*spectest.Target, *spectest.DraftModel) spec.Parts {
				return spec.Parts{Drafter: &RankedChain{Model: draft, Rule: rule, Cut: true, Ahead: ahead},
					Verifier: spec.Match{}, Policy: rule}
			}}
			o := spec.Options{Sampling: s, MaxTokens: 60}
			want, finish := spectest.Plain(target.Script, []int32{1}, 96, o)
			got, stats := spectest.Generate(t, set, target, draft, []int32{1}, o)
			spectest.Expect(t, "cut", got, stats, want, finish)
			if stats.Plain == 0 || stats.Accepted == 0 {
				t.Errorf("ahead %d: %+v", ahead, stats)
			}
			g, err := spec.New(target, set.Parts(nil, nil))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := g.Generate(context.Background(), []int32{1}, o, func(e *spec.Event) error {
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

// stuck is a draft model that grows nothing.
type stuck struct{ *spectest.DraftModel }

func (s stuck) Extend(context.Context, spec.Extension) ([]spec.Level, error) { return s.Levels, nil }

func (s stuck) Sample(ctx context.Context, r spec.SampleRequest) ([]spec.Drawn, error) {
	if len(r.Pending) == 0 {
		return s.Drawn, nil
	}
	return s.DraftModel.Sample(ctx, r)
}

func TestStuckDraftsAreErrors(t *testing.T) {
	target := spectest.NewTarget(&spectest.Script{Vocab: 6, Steps: 1e6}, 96, 16)
	rule := &asked{Fixed: spec.Fixed{Levels: 3, Width: 1, Nodes: 4}}
	for want, drafter := range map[string]spec.Drafter{
		"spec: the draft model grew a chain of 1 tokens to 1": &RankedChain{Model: stuck{spectest.NewDraft(target, 96,
			0)}, Rule: rule, Ahead: 1},
		"spec: the draft model drew 1 of 2 tokens": &SampledChain{Model: stuck{spectest.NewDraft(target, 96, 0)},
			Rule: rule, Ahead: 1},
	} {
		g, err := spec.New(target, spec.Parts{Drafter: drafter, Verifier: spec.Match{}, Policy: rule})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := g.Generate(context.Background(), []int32{1}, spec.Options{}, nil); err == nil ||
			err.Error() != want {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// TestRunLength: costs and accepted tokens of the last rounds decide how many tokens are drafted before the rule of a
// chain is asked.
func TestRunLength(t *testing.T) {
	const ms = time.Millisecond
	kept := func(n, drafted int, draft, verify time.Duration) *spec.Event {
		tree := &spec.Tree{}
		tree.Reset(0)
		for i := range n {
			tree.Add(int32(i), 0, 0)
		}
		return &spec.Event{Proposal: &spec.Draft{Tree: tree, Drafted: drafted}, Draft: draft, Verify: verify}
	}
	for _, c := range []struct {
		name     string
		rounds   []*spec.Event
		most     int
		first, n int // tokens of the first run, and of the next
	}{
		{"nothing is known", nil, 20, 20, 0},
		{"short", []*spec.Event{kept(1, 4, 80*ms, ms)}, 4, 4, 0},
		{"cheap", []*spec.Event{kept(2, 10, 10*ms, 9*ms)}, 10, 10, 0},
		{"as far as the last ones", []*spec.Event{kept(2, 10, 10*ms, 7*ms), kept(4, 10, 10*ms, 7*ms)}, 10, 4, 6},
		{"those without a draft say nothing", []*spec.Event{kept(2, 10, 10*ms, 7*ms), kept(0, 0, 0, ms)}, 10, 3, 7},
		{"dear", []*spec.Event{kept(5, 10, 10*ms, 2*ms)}, 10, 1, 1},
		{"nothing is kept", []*spec.Event{kept(0, 10, 10*ms, 7*ms)}, 10, 1, 9},
	} {
		var p RunLength
		for _, e := range c.rounds {
			p.Observe(e)
		}
		first := p.Next(c.most, 0)
		n := 0
		if first < c.most {
			n = p.Next(c.most, first)
		}
		if first != c.first || n != c.n {
			t.Errorf("%s: %d tokens and then %d, want %d and %d", c.name, first, n, c.first, c.n)
		}
	}
	if p := (RunLength{Fixed: 3}); p.Next(7, 0) != 3 || p.Next(7, 6) != 1 {
		t.Errorf("a fixed length of 3 is %d and then %d", p.Next(7, 0), p.Next(7, 6))
	}
}
