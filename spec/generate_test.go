package spec

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"
)

// flaky is a target that does something before a pass and never looks at ctx itself.
type flaky struct {
	*scriptedTarget
	before func(pass int) error
	pass   int
	waited time.Duration
}

func (f *flaky) Verify(ctx context.Context, t *Tree, s Sampling) ([]NodeOutput, error) {
	f.pass++
	if err := f.before(f.pass); err != nil {
		return nil, err
	}
	f.waited += 2 * time.Millisecond
	return f.scriptedTarget.Verify(context.WithoutCancel(ctx), t, s)
}

func (f *flaky) ReadbackTime() time.Duration { return f.waited }

func TestAbortTakesEffectWithinOneRound(t *testing.T) {
	errGone := errors.New("gone")
	for _, c := range []struct {
		name   string
		cancel func(context.CancelCauseFunc)
	}{{"cancel", func(f context.CancelCauseFunc) { f(nil) }}, {"cancel with a cause", func(f context.CancelCauseFunc) { f(errGone) }}} {
		for _, in := range []string{"prefill", "emit", "pass", "pass, with the cause"} {
			ctx, cancel := context.WithCancelCause(context.Background())
			target := newTarget(&script{vocab: 6, steps: 1e6}, 96, 16)
			f := &flaky{scriptedTarget: target, before: func(pass int) error {
				if pass == 3 && strings.HasPrefix(in, "pass") {
					c.cancel(cancel)
					if in != "pass" {
						return fmt.Errorf("verify: %w", context.Cause(ctx))
					}
				}
				return nil
			}}
			config := Config{Drafter: DrafterEAGLE2, Depth: 2, TopK: 2, Nodes: 6}
			if in == "emit" {
				config = Config{Drafter: DrafterNone} // no model but the flaky one
			}
			g, err := New(f, newDraft(target, 96, 0.2), config)
			if err != nil {
				t.Fatal(err)
			}
			o := Options{Progress: func(done, _ int) {
				if in == "prefill" && done > 0 {
					c.cancel(cancel)
				}
			}}
			var out []int32
			var last Event
			stats, err := g.Generate(ctx, []int32{1, 2, 3}, o, func(e *Event) error {
				out, last = append(out, e.Tokens...), *e
				if in == "emit" && e.Round == 2 {
					c.cancel(cancel)
				}
				return nil
			})
			if err != nil || stats.Finish != FinishAborted || last.Finish != FinishAborted || last.Tree != nil || len(last.Tokens) != 0 {
				t.Errorf("%s in %s: %v, %q, last event %+v", c.name, in, err, stats.Finish, last)
			}
			want := 2
			if in == "pass" {
				want = 3 // the round is finished, not torn
			}
			if in != "prefill" && (stats.Rounds != want || last.Round != want) || len(out) != stats.OutputTokens {
				t.Errorf("%s in %s: %d rounds, %d tokens of %v", c.name, in, stats.Rounds, stats.OutputTokens, out)
			}
			// The models are usable again.
			set := named(Config{Drafter: DrafterEAGLE2, Depth: 2, TopK: 2, Nodes: 6})
			again := Options{MaxTokens: 9}
			tokens, finish := plain(target.script, []int32{1, 2, 3}, 96, again)
			got, after := generate(t, set, target, newDraft(target, 96, 0.2), []int32{1, 2, 3}, again)
			expect(t, "after an abort", got, after, tokens, finish)
		}
	}
}

func TestErrorsComeBackAsTheyAre(t *testing.T) {
	lost := errors.New("webgpu: device lost")
	target := newTarget(&script{vocab: 6, steps: 1e6}, 96, 16)
	f := &flaky{scriptedTarget: target, before: func(pass int) error {
		if pass == 2 {
			return lost
		}
		return nil
	}}
	g, err := New(f, nil, Config{Drafter: DrafterNone})
	if err != nil {
		t.Fatal(err)
	}
	stats, err := g.Generate(context.Background(), []int32{1}, Options{}, nil)
	if !errors.Is(err, lost) || stats.OutputTokens != 1 || stats.Readback != 2*time.Millisecond {
		t.Errorf("a lost device gives %v and %+v", err, stats)
	}
	ctx, cancel := context.WithCancel(context.Background())
	f.pass, f.before = 0, func(int) error { cancel(); return lost }
	if _, err := g.Generate(ctx, []int32{1}, Options{}, nil); !errors.Is(err, lost) {
		t.Errorf("a device lost while the request was aborted gives %v", err)
	}
	full := errors.New("pipe is closed")
	f.before = func(int) error { return nil }
	stats, err = g.Generate(context.Background(), []int32{1}, Options{}, func(*Event) error { return full })
	if err != full || stats.OutputTokens != 1 {
		t.Errorf("an error of emit gives %v and %+v", err, stats)
	}
}

func TestOptionsAreChecked(t *testing.T) {
	target := newTarget(&script{vocab: 6, steps: 1e6}, 8, 16)
	g, err := New(target, nil, Config{Drafter: DrafterNone})
	if err != nil {
		t.Fatal(err)
	}
	nan := math.NaN()
	for _, c := range []struct {
		prompt []int32
		o      Options
		want   string
	}{
		{nil, Options{}, "the prompt is empty"},
		{make([]int32, 9), Options{}, "the prompt has 9 tokens, but the context holds 8"},
		{[]int32{0, 6}, Options{}, "prompt token 1 is 6"},
		{[]int32{-1}, Options{}, "prompt token 0 is -1"},
		{[]int32{0}, Options{MaxTokens: -1}, "max tokens is -1"},
		{[]int32{0}, Options{Sampling: Sampling{Temperature: nan}}, "temperature is NaN"},
		{[]int32{0}, Options{Sampling: Sampling{Temperature: -1}}, "temperature is -1"},
		{[]int32{0}, Options{Sampling: Sampling{Temperature: 1e-9}}, "temperature is 1e-09"},
		{[]int32{0}, Options{Sampling: Sampling{Temperature: math.Inf(1)}}, "temperature is +Inf"},
		{[]int32{0}, Options{Sampling: Sampling{TopK: -1}}, "top-k sampling is -1"},
		{[]int32{0}, Options{Sampling: Sampling{TopP: nan}}, "top-p is NaN"},
		{[]int32{0}, Options{Sampling: Sampling{TopP: 1.1}}, "top-p is 1.1"},
		{[]int32{0}, Options{Sampling: Sampling{MinP: -0.1}}, "min-p is -0.1"},
		{[]int32{0}, Options{Sampling: Sampling{MinP: nan}}, "min-p is NaN"},
		{[]int32{0}, Options{Cut: func([]int32) (int, bool) { return 0, true }}, "Options.Cut kept 0 of 1"},
		{[]int32{0}, Options{Cut: func([]int32) (int, bool) { return 2, false }}, "Options.Cut kept 2 of 1"},
	} {
		_, err := g.Generate(context.Background(), c.prompt, c.o, nil)
		if err == nil || !strings.HasPrefix(err.Error(), "spec: "+c.want) {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
}

func TestConfigsAreChecked(t *testing.T) {
	for _, c := range []struct {
		c    Config
		want string
	}{
		{Config{}, `unknown drafter ""`},
		{Config{Drafter: "eagle4"}, `unknown drafter "eagle4", want none, chain, eagle2, static, sampled, ngram, ngram-simple, ngram-map or auto`},
		{Config{Drafter: DrafterNone, Verifier: "venus"}, `unknown verifier "venus", want match, rejection, without-replacement, mars or adasd`},
		{Config{Drafter: DrafterChain}, "depth is 0, want 1 to 64"},
		{Config{Drafter: DrafterChain, Depth: 1 << 40}, "depth is 1099511627776"},
		{Config{Drafter: DrafterEAGLE2, Depth: -1, TopK: 1, Nodes: 2}, "depth is -1"},
		{Config{Drafter: DrafterEAGLE2, Depth: 3, TopK: 0, Nodes: 2}, "top-k is 0"},
		{Config{Drafter: DrafterEAGLE2, Depth: 3, TopK: 65, Nodes: 2}, "top-k is 65"},
		{Config{Drafter: DrafterEAGLE2, Depth: 3, TopK: 4, Nodes: 1}, "nodes is 1"},
		{Config{Drafter: DrafterEAGLE2, Depth: 3, TopK: 4, Nodes: 5000}, "nodes is 5000"},
		{Config{Drafter: DrafterNgram, Depth: 0, NgramMax: 2, NgramMin: 1}, "depth is 0"},
		{Config{Drafter: DrafterNgram, Depth: 3, NgramMax: 2, NgramMin: 3}, "ngram-min is 3, want 1 to 2"},
		{Config{Drafter: DrafterNgram, Depth: 3, NgramMax: 2}, "ngram-min is 0"},
		{Config{Drafter: DrafterNgramSimple, Depth: 3}, "ngram-max is 0"},
		{Config{Drafter: DrafterEAGLE2, Verifier: VerifierRejection, Depth: 3, TopK: 4, Nodes: 9}, "the rejection verifier needs tokens sampled from the draft"},
		{Config{Drafter: DrafterNgram, Verifier: VerifierRejection, Depth: 3, NgramMax: 2, NgramMin: 1}, "the rejection verifier needs tokens sampled from a draft's"},
		{Config{Drafter: DrafterNgramSimple, Verifier: VerifierRejection, Depth: 3, NgramMax: 2}, "the rejection verifier needs tokens sampled from a draft's"},
	} {
		if err := c.c.Validate(); err == nil || !strings.HasPrefix(err.Error(), "spec: "+c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%+v: %v, want %q", c.c, err, c.want)
		}
	}
	for _, drafter := range []string{DrafterNone, DrafterChain, DrafterEAGLE2, DrafterNgram, DrafterNgramSimple} {
		if err := DefaultConfig(drafter).Validate(); err != nil {
			t.Errorf("the default of %s: %v", drafter, err)
		}
	}
}

// plainTarget and plainDraft are models without rejection sampling.
type plainTarget struct{ Target }
type plainDraft struct{ DraftModel }

func TestPartsAreCheckedAgainstTheModels(t *testing.T) {
	target := newTarget(&script{vocab: 6, steps: 1e6}, 96, 16)
	draft := newDraft(target, 96, 0)
	rejection := Config{Drafter: DrafterChain, Verifier: VerifierRejection, Depth: 2}
	for _, c := range []struct {
		target Target
		draft  DraftModel
		c      Config
		want   string
	}{
		{target, draft, Config{Drafter: DrafterEAGLE2, Depth: 2, TopK: 4, Nodes: 17}, "17 nodes a round, but the target verifies at most 16"},
		{target, draft, Config{Drafter: DrafterChain, Depth: 16}, "17 nodes a round"},
		{target, draft, Config{Drafter: DrafterEAGLE2, Depth: 2, TopK: 17, Nodes: 9}, "top-k is 17, but the draft model keeps at most 16"},
		{target, nil, Config{Drafter: DrafterChain, Depth: 2}, "the chain drafter needs a draft model"},
		{plainTarget{target}, draft, rejection, "this target cannot verify by rejection"},
		{target, plainDraft{draft}, rejection, "the rejection verifier needs a draft model that samples"},
		{target, nil, Config{Drafter: "x"}, "unknown drafter"},
	} {
		if _, err := New(c.target, c.draft, c.c); err == nil || !strings.HasPrefix(err.Error(), "spec: "+c.want) {
			t.Errorf("%+v: %v, want %q", c.c, err, c.want)
		}
	}
	if _, err := New(plainTarget{target}, nil, Config{Drafter: DrafterNone, Verifier: VerifierRejection}); err != nil {
		t.Errorf("plain decoding needs no rejection sampling: %v", err)
	}
	if _, err := Assemble(target, Parts{}); err == nil {
		t.Error("a generator of nothing")
	}
}

// liar is a draft model that breaks its contract in one way.
type liar struct {
	*scriptedDraft
	levels func([]Level) []Level
	extra  int
}

func (l liar) Len() int { return l.scriptedDraft.Len() + l.extra }

func (l liar) DraftSampled(ctx context.Context, r SampleRequest) ([]Drawn, error) {
	tokens, err := l.scriptedDraft.DraftSampled(ctx, r)
	return tokens[1:], err
}

func (l liar) DraftTree(ctx context.Context, r DraftRequest) ([]Level, error) {
	levels, err := l.scriptedDraft.DraftTree(ctx, r)
	if err == nil && l.levels != nil {
		levels = l.levels(levels)
	}
	return levels, err
}

func TestBrokenModelsAreErrors(t *testing.T) {
	c := Config{Drafter: DrafterEAGLE2, Depth: 1, TopK: 2, Nodes: 5}
	for want, l := range map[string]liar{
		"the draft model holds":              {extra: 1},
		"node 1 holds token 6":               {levels: func(l []Level) []Level { l[0].Candidates[0].Token = 6; return l }},
		"candidate 0 of the draft's first":   {levels: func(l []Level) []Level { l[0].Candidates[0].Beam = 1; return l }},
		"the draft has 5 nodes and depth 4,": {levels: func(l []Level) []Level { l[0].Candidates[0].LogQ = 0; return deepen(l) }},
	} {
		target := newTarget(&script{vocab: 6, steps: 1e6}, 96, 16)
		l.scriptedDraft = newDraft(target, 96, 0)
		g, err := New(target, l, c)
		if err != nil {
			t.Fatal(err)
		}
		_, err = g.Generate(context.Background(), []int32{1, 2}, Options{MaxTokens: 20}, nil)
		if err == nil || !strings.HasPrefix(err.Error(), "spec: "+want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

func TestBrokenSampledDraftIsAnError(t *testing.T) {
	target := newTarget(&script{vocab: 6, steps: 1e6}, 96, 16)
	for want, l := range map[string]liar{"the draft model drew 2 of 3": {}, "the draft model holds": {extra: 1}} {
		l.scriptedDraft = newDraft(target, 96, 0)
		g, err := New(target, l, Config{Drafter: DrafterChain, Verifier: VerifierRejection, Depth: 3})
		if err != nil {
			t.Fatal(err)
		}
		_, err = g.Generate(context.Background(), []int32{1, 2}, Options{Sampling: Sampling{Temperature: 1}}, nil)
		if err == nil || !strings.HasPrefix(err.Error(), "spec: "+want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

func TestBrokenVerdictsAreErrors(t *testing.T) {
	for want, a := range map[string]act{
		"a verdict with path [] and":      {next: 1},
		"a verdict with path [0] and 2":   {path: []int32{0}, relaxed: []bool{true, false}, next: 1},
		"a verdict with path [1]":         {path: []int32{1}, next: 1},
		"the accepted path [0 2] is not":  {path: []int32{0, 2}, next: 1},
		"the accepted path [0 9] is not":  {path: []int32{0, 9}, next: 1},
		"the accepted path [0 -1] is not": {path: []int32{0, -1}, next: 1},
		"the target drew token -1":        {path: []int32{0}, next: -1},
		"the target drew token 10":        {path: []int32{0}, next: 10},
	} {
		a.tokens, a.parents = []int32{1, 2}, []int32{0, 1}
		p := &play{acts: []act{a}}
		g, err := Assemble(p, Parts{Drafter: p, Verifier: playVerifier{p}, Policy: p, Clock: p.clock})
		if err != nil {
			t.Fatal(err)
		}
		_, err = g.Generate(context.Background(), []int32{3}, Options{}, nil)
		if err == nil || !strings.HasPrefix(err.Error(), "spec: "+want) || len(p.target) != 0 {
			t.Errorf("%v, want %q; committed %v", err, want, p.target)
		}
	}
}

// short is a target that answers for too few nodes.
type short struct{ *scriptedTarget }

func (s short) Verify(ctx context.Context, t *Tree, sampling Sampling) ([]NodeOutput, error) {
	out, err := s.scriptedTarget.Verify(ctx, t, sampling)
	return out[:len(out)-1], err
}

func (s short) VerifyChain(ctx context.Context, t *Tree, d SamplingDraft, sampling Sampling) ([]ChainVerdict, error) {
	out, err := s.scriptedTarget.VerifyChain(ctx, t, d, sampling)
	return out[:len(out)-1], err
}

// hoarder is a target whose cache holds a token too many.
type hoarder struct{ *scriptedTarget }

func (h hoarder) Len() int { return h.scriptedTarget.Len() + 1 }

func TestBrokenTargetsAreErrors(t *testing.T) {
	target := newTarget(&script{vocab: 6, steps: 1e6}, 96, 16)
	for _, c := range []struct {
		target Target
		c      Config
		want   string
	}{
		{short{target}, Config{Drafter: DrafterNone}, "the target answered for 0 of 1"},
		{short{target}, Config{Drafter: DrafterChain, Verifier: VerifierRejection, Depth: 2}, "the target answered for 2 of 3"},
		{hoarder{target}, Config{Drafter: DrafterNone}, "the target holds 2 tokens, want 1"},
	} {
		g, err := New(c.target, newDraft(target, 96, 0), c.c)
		if err != nil {
			t.Fatal(err)
		}
		_, err = g.Generate(context.Background(), []int32{1, 2}, Options{Sampling: Sampling{Temperature: 1}}, nil)
		if err == nil || !strings.HasPrefix(err.Error(), "spec: "+c.want) {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
}

// deepen gives more levels than were asked for.
func deepen([]Level) []Level {
	sure := Level{Candidates: []Candidate{{}}, Beams: []int32{0}}
	return []Level{sure, sure, sure, {Candidates: sure.Candidates}}
}

func TestProgressCountsBothModels(t *testing.T) {
	target := newTarget(&script{vocab: 6, steps: 1e6}, 96, 16)
	var seen []int
	g, err := New(target, newDraft(target, 96, 0), Config{Drafter: DrafterChain, Depth: 2})
	if err != nil {
		t.Fatal(err)
	}
	_, err = g.Generate(context.Background(), []int32{1, 2, 3, 4}, Options{MaxTokens: 1, Progress: func(done, total int) {
		seen = append(seen, done, total)
	}}, nil)
	if want := []int{3, 6, 6, 6, 6, 6}; err != nil || !slices.Equal(seen, want) {
		t.Errorf("%v (%v), want %v", seen, err, want)
	}
}

func TestSteadyBuilderDoesNotAllocate(t *testing.T) {
	target := newTarget(&script{vocab: 40, steps: 1e6}, 96, 64)
	draft := newDraft(target, 96, 0)
	draft.target = nil
	levels, err := draft.DraftTree(context.Background(), DraftRequest{Pending: []int32{1}, Depth: 4, K: 4})
	if err != nil {
		t.Fatal(err)
	}
	var b Builder
	if n := testing.AllocsPerRun(20, func() { _, _ = b.Build(1, levels, 16) }); n > 0 {
		t.Errorf("building a tree allocates %v times", n)
	}
}
