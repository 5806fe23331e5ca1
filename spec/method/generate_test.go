package method

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"foretoken/spec"
	"foretoken/spec/spectest"
)

// flaky is a target that calls before with the number of a pass before it, and with 0 after a prefill. Its passes never
// look at ctx.
type flaky struct {
	*spectest.Target
	before func(pass int) error
	pass   int
	waited time.Duration
}

func (f *flaky) Verify(ctx context.Context, r spec.PassRequest) (*spec.Pass, error) {
	f.pass++
	if err := f.before(f.pass); err != nil {
		return nil, err
	}
	f.waited += 2 * time.Millisecond
	return f.Target.Verify(context.WithoutCancel(ctx), r)
}

func (f *flaky) Prefill(ctx context.Context, tokens []int32) error {
	if err := f.Target.Prefill(ctx, tokens); err != nil {
		return err
	}
	return f.before(0)
}

func (f *flaky) ReadbackTime() time.Duration { return f.waited }

func TestAbortTakesEffectWithinOneRound(t *testing.T) {
	errGone := errors.New("gone")
	for _, c := range []struct {
		name   string
		cancel func(context.CancelCauseFunc)
	}{{"cancel", func(f context.CancelCauseFunc) { f(nil) }},
		{"cancel with a cause", func(f context.CancelCauseFunc) { f(errGone) }}} {
		for _, in := range []string{"prefill", "emit", "pass", "pass, with the cause"} {
			ctx, cancel := context.WithCancelCause(context.Background())
			target := spectest.NewTarget(&spectest.Script{Vocab: 6, Steps: 1e6}, 96, 16)
			f := &flaky{Target: target, before: func(pass int) error {
				if pass == 3 && strings.HasPrefix(in, "pass") || pass == 0 && in == "prefill" {
					c.cancel(cancel)
					if in == "pass, with the cause" {
						return fmt.Errorf("verify: %w", context.Cause(ctx))
					}
				}
				return nil
			}}
			config := Config{Drafter: DrafterEAGLE2, Depth: 2, TopK: 2, Nodes: 6}
			if in == "emit" {
				config = Config{Drafter: DrafterNone} // no model but the flaky one
			}
			g, err := New(f, config, spectest.NewDraft(target, 96, 0.2))
			if err != nil {
				t.Fatal(err)
			}
			var out []int32
			var last spec.Event
			stats, err := g.Generate(ctx, []int32{1, 2, 3}, spec.Options{}, func(e *spec.Event) error {
				out, last = append(out, e.Tokens...), *e
				if in == "emit" && e.Round == 2 {
					c.cancel(cancel)
				}
				return nil
			})
			if err != nil || stats.Finish != spec.FinishAborted || last.Finish != spec.FinishAborted ||
				last.Tree != nil || len(last.Tokens) != 0 {
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
			again := spec.Options{MaxTokens: 9}
			tokens, finish := spectest.Plain(target.Script, []int32{1, 2, 3}, 96, again)
			got, after := spectest.Generate(t, set, target, spectest.NewDraft(target, 96, 0.2), []int32{1, 2, 3}, again)
			spectest.Expect(t, "after an abort", got, after, tokens, finish)
		}
	}
}

func TestErrorsComeBackAsTheyAre(t *testing.T) {
	lost := errors.New("webgpu: device lost")
	target := spectest.NewTarget(&spectest.Script{Vocab: 6, Steps: 1e6}, 96, 16)
	f := &flaky{Target: target, before: func(pass int) error {
		if pass == 2 {
			return lost
		}
		return nil
	}}
	g, err := New(f, Config{Drafter: DrafterNone})
	if err != nil {
		t.Fatal(err)
	}
	stats, err := g.Generate(context.Background(), []int32{1}, spec.Options{}, nil)
	if !errors.Is(err, lost) || stats.OutputTokens != 1 || stats.Readback != 2*time.Millisecond {
		t.Errorf("a lost device gives %v and %+v", err, stats)
	}
	ctx, cancel := context.WithCancel(context.Background())
	f.pass, f.before = 0, func(int) error { cancel(); return lost }
	if _, err := g.Generate(ctx, []int32{1}, spec.Options{}, nil); !errors.Is(err, lost) {
		t.Errorf("a device lost while the request was aborted gives %v", err)
	}
	full := errors.New("pipe is closed")
	f.before = func(int) error { return nil }
	stats, err = g.Generate(context.Background(), []int32{1}, spec.Options{}, func(*spec.Event) error { return full })
	if err != full || stats.OutputTokens != 1 {
		t.Errorf("an error of emit gives %v and %+v", err, stats)
	}
}

func TestOptionsAreChecked(t *testing.T) {
	target := spectest.NewTarget(&spectest.Script{Vocab: 6, Steps: 1e6}, 8, 16)
	g, err := New(target, Config{Drafter: DrafterNone})
	if err != nil {
		t.Fatal(err)
	}
	nan := math.NaN()
	for _, c := range []struct {
		prompt []int32
		o      spec.Options
		want   string
	}{
		{nil, spec.Options{}, "the prompt is empty"},
		{make([]int32, 9), spec.Options{}, "the prompt has 9 tokens, but the context holds 8"},
		{[]int32{0, 6}, spec.Options{}, "prompt token 1 is 6"},
		{[]int32{-1}, spec.Options{}, "prompt token 0 is -1"},
		{[]int32{0}, spec.Options{MaxTokens: -1}, "max tokens is -1"},
		{[]int32{0}, spec.Options{Sampling: spec.Sampling{Temperature: nan}}, "temperature is NaN"},
		{[]int32{0}, spec.Options{Sampling: spec.Sampling{Temperature: -1}}, "temperature is -1"},
		{[]int32{0}, spec.Options{Sampling: spec.Sampling{Temperature: 1e-9}}, "temperature is 1e-09"},
		{[]int32{0}, spec.Options{Sampling: spec.Sampling{Temperature: math.Inf(1)}}, "temperature is +Inf"},
		{[]int32{0}, spec.Options{Sampling: spec.Sampling{TopK: -1}}, "top_k_sampling is -1"},
		{[]int32{0}, spec.Options{Sampling: spec.Sampling{TopP: nan}}, "top_p is NaN"},
		{[]int32{0}, spec.Options{Sampling: spec.Sampling{TopP: 1.1}}, "top_p is 1.1"},
		{[]int32{0}, spec.Options{Sampling: spec.Sampling{MinP: -0.1}}, "min_p is -0.1"},
		{[]int32{0}, spec.Options{Sampling: spec.Sampling{MinP: nan}}, "min_p is NaN"},
		{[]int32{0}, spec.Options{Cut: func([]int32) (int, bool) { return 0, true }}, "Options.Cut kept 0 of 1"},
		{[]int32{0}, spec.Options{Cut: func([]int32) (int, bool) { return 2, false }}, "Options.Cut kept 2 of 1"},
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
		{Config{}, `policy is ""`},
		{Config{Drafter: "eagle4"},
			`policy is "eagle4", want none, chain, eagle2, static, sampled, ngram, ngram-simple, ` +
				`ngram-map or auto`},
		{Config{Drafter: DrafterNone, Verifier: "venus"},
			`verifier is "venus", want match, rejection, without-replacement, mars or adasd`},
		{Config{Drafter: DrafterChain}, "depth is 0, want 1 to 64"},
		{Config{Drafter: DrafterChain, Depth: 1 << 40}, "depth is 1099511627776"},
		{Config{Drafter: DrafterEAGLE2, Depth: -1, TopK: 1, Nodes: 2}, "depth is -1"},
		{Config{Drafter: DrafterEAGLE2, Depth: 3, TopK: 0, Nodes: 2}, "top_k is 0"},
		{Config{Drafter: DrafterEAGLE2, Depth: 3, TopK: 65, Nodes: 2}, "top_k is 65"},
		{Config{Drafter: DrafterEAGLE2, Depth: 3, TopK: 4, Nodes: 1}, "nodes is 1"},
		{Config{Drafter: DrafterEAGLE2, Depth: 3, TopK: 4, Nodes: 5000}, "nodes is 5000"},
		{Config{Drafter: DrafterNgram, Depth: 0, NgramMax: 2, NgramMin: 1}, "depth is 0"},
		{Config{Drafter: DrafterNgram, Depth: 3, NgramMax: 2, NgramMin: 3}, "ngram_min is 3, want 1 to 2"},
		{Config{Drafter: DrafterNgram, Depth: 3, NgramMax: 2}, "ngram_min is 0"},
		{Config{Drafter: DrafterNgramSimple, Depth: 3}, "ngram_max is 0"},
		{Config{Drafter: DrafterEAGLE2, Verifier: VerifierRejection, Depth: 3, TopK: 4, Nodes: 9},
			"the rejection verifier needs tokens sampled from the draft"},
		{Config{Drafter: DrafterNgram, Verifier: VerifierRejection, Depth: 3, NgramMax: 2, NgramMin: 1},
			"the rejection verifier needs tokens sampled from a draft's"},
		{Config{Drafter: DrafterNgramSimple, Verifier: VerifierRejection, Depth: 3, NgramMax: 2},
			"the rejection verifier needs tokens sampled from a draft's"},
	} {
		if err := c.c.Validate(); err == nil || !strings.HasPrefix(err.Error(), "spec: "+c.want) ||
			strings.Contains(err.Error(), "\n") {
			t.Errorf("%+v: %v, want %q", c.c, err, c.want)
		}
	}
	for _, drafter := range []string{DrafterNone, DrafterChain, DrafterEAGLE2, DrafterNgram, DrafterNgramSimple} {
		if err := DefaultConfig(drafter).Validate(); err != nil {
			t.Errorf("the default of %s: %v", drafter, err)
		}
	}
}

func TestPartsAreCheckedAgainstTheModels(t *testing.T) {
	target := spectest.NewTarget(&spectest.Script{Vocab: 6, Steps: 1e6}, 96, 16)
	draft := spectest.NewDraft(target, 96, 0)
	for _, c := range []struct {
		target spec.Target
		draft  spec.DraftModel
		c      Config
		want   string
	}{
		{target, draft, Config{Drafter: DrafterEAGLE2, Depth: 2, TopK: 4, Nodes: 17},
			"17 nodes a round, but the target verifies at most 16"},
		{target, draft, Config{Drafter: DrafterChain, Depth: 16}, "17 nodes a round"},
		{target, draft, Config{Drafter: DrafterEAGLE2, Depth: 2, TopK: 17, Nodes: 9},
			"top_k is 17, but the draft model keeps at most 16"},
		{target, nil, Config{Drafter: DrafterChain, Depth: 2}, "the chain drafter needs a draft model"},
		{target, nil, Config{Drafter: "x"}, "policy is"},
	} {
		if _, err := New(c.target, c.c, c.draft); err == nil || !strings.HasPrefix(err.Error(), "spec: "+c.want) {
			t.Errorf("%+v: %v, want %q", c.c, err, c.want)
		}
	}
	if _, err := spec.New(target, spec.Parts{}); err == nil {
		t.Error("a generator of nothing")
	}
}

// liar is a draft model that breaks its contract in one way.
type liar struct {
	*spectest.DraftModel
	levels func([]spec.Level) []spec.Level
	extra  int
}

func (l liar) Len() int { return l.DraftModel.Len() + l.extra }

func (l liar) Sample(ctx context.Context, r spec.SampleRequest) ([]spec.Drawn, error) {
	tokens, err := l.DraftModel.Sample(ctx, r)
	return tokens[1:], err
}

func (l liar) Draft(ctx context.Context, r spec.DraftRequest) ([]spec.Level, error) {
	levels, err := l.DraftModel.Draft(ctx, r)
	if err == nil && l.levels != nil {
		levels = l.levels(levels)
	}
	return levels, err
}

func TestBrokenModelsAreErrors(t *testing.T) {
	c := Config{Drafter: DrafterEAGLE2, Depth: 1, TopK: 2, Nodes: 5}
	for want, l := range map[string]liar{
		"the draft model holds": {extra: 1},
		"node 1 holds token 6": {levels: func(l []spec.Level) []spec.Level {
			l[0].Candidates[0].Token = 6
			return l
		}},
		"candidate 0 of the draft's first": {levels: func(l []spec.Level) []spec.Level {
			l[0].Candidates[0].Beam = 1
			return l
		}},
		"the draft has 5 nodes and depth 4,": {levels: func(l []spec.Level) []spec.Level {
			l[0].Candidates[0].LogQ = 0
			return deepen(l)
		}},
	} {
		target := spectest.NewTarget(&spectest.Script{Vocab: 6, Steps: 1e6}, 96, 16)
		l.DraftModel = spectest.NewDraft(target, 96, 0)
		g, err := New(target, c, l)
		if err != nil {
			t.Fatal(err)
		}
		_, err = g.Generate(context.Background(), []int32{1, 2}, spec.Options{MaxTokens: 20}, nil)
		if err == nil || !strings.HasPrefix(err.Error(), "spec: "+want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

func TestBrokenSampledDraftIsAnError(t *testing.T) {
	target := spectest.NewTarget(&spectest.Script{Vocab: 6, Steps: 1e6}, 96, 16)
	for want, l := range map[string]liar{"the draft model drew 2 of 3": {}, "the draft model holds": {extra: 1}} {
		l.DraftModel = spectest.NewDraft(target, 96, 0)
		g, err := New(target, Config{Drafter: DrafterChain, Verifier: VerifierRejection, Depth: 3}, l)
		if err != nil {
			t.Fatal(err)
		}
		_, err = g.Generate(context.Background(), []int32{1, 2}, spec.Options{Sampling: spec.Sampling{Temperature: 1}},
			nil)
		if err == nil || !strings.HasPrefix(err.Error(), "spec: "+want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// short is a target that answers for too few nodes.
type short struct{ *spectest.Target }

func (s short) Verify(ctx context.Context, r spec.PassRequest) (*spec.Pass, error) {
	pass, err := s.Target.Verify(ctx, r)
	if pass != nil {
		pass.Outputs, pass.Chain = pass.Outputs[:max(len(pass.Outputs)-1, 0)], pass.Chain[:max(len(pass.Chain)-1, 0)]
	}
	return pass, err
}

// hoarder is a target whose cache holds a token too many.
type hoarder struct{ *spectest.Target }

func (h hoarder) Len() int { return h.Target.Len() + 1 }

func TestBrokenTargetsAreErrors(t *testing.T) {
	target := spectest.NewTarget(&spectest.Script{Vocab: 6, Steps: 1e6}, 96, 16)
	for _, c := range []struct {
		target spec.Target
		c      Config
		want   string
	}{
		{short{target}, Config{Drafter: DrafterNone}, "the target answered for 0 of 1"},
		{short{target}, Config{Drafter: DrafterChain, Verifier: VerifierRejection, Depth: 2},
			"the target answered for 2 of 3"},
		{hoarder{target}, Config{Drafter: DrafterNone}, "the target holds 2 tokens, want 1"},
	} {
		g, err := New(c.target, c.c, spectest.NewDraft(target, 96, 0))
		if err != nil {
			t.Fatal(err)
		}
		_, err = g.Generate(context.Background(), []int32{1, 2}, spec.Options{Sampling: spec.Sampling{Temperature: 1}},
			nil)
		if err == nil || !strings.HasPrefix(err.Error(), "spec: "+c.want) {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
}

// deepen gives more levels than were asked for.
func deepen([]spec.Level) []spec.Level {
	sure := spec.Level{Candidates: []spec.Candidate{{}}, Beams: []int32{0}}
	return []spec.Level{sure, sure, sure, {Candidates: sure.Candidates}}
}

func TestSteadyBuilderDoesNotAllocate(t *testing.T) {
	target := spectest.NewTarget(&spectest.Script{Vocab: 40, Steps: 1e6}, 96, 64)
	draft := spectest.NewDraft(target, 96, 0)
	draft.Target = nil
	levels, err := draft.Draft(context.Background(), spec.DraftRequest{Pending: []int32{1}, Depth: 4, K: 4})
	if err != nil {
		t.Fatal(err)
	}
	var b spec.Builder
	if n := testing.AllocsPerRun(20, func() { _, _ = b.Build(1, levels, 16) }); n > 0 {
		t.Errorf("building a tree allocates %v times", n)
	}
}

func TestShapesAreChecked(t *testing.T) {
	for want, shape := range map[string][][]int{
		"shape has 0 levels":                              nil,
		"shape gives children to 2 nodes for its level 1": {{1, 1}},
		"shape gives children to 3 nodes for its level 2": {{2}, {1, 1, 1}},
		"shape gives a node -1 children":                  {{-1}},
		"shape gives a node 65 children":                  {{65}},
		"shape has no nodes at level 2":                   {{2}, {0, 0}, {1}},
		"shape has 4161 nodes, want 2 to 4096":            {{64}, slices.Repeat([]int{64}, 64)},
		"shape gives children to 65 nodes for its level 3": {{64}, slices.Repeat([]int{2}, 64),
			slices.Repeat([]int{1}, 65)},
	} {
		for _, drafter := range []string{DrafterStatic, DrafterSampled} {
			if err := (Config{Drafter: drafter, Shape: shape}).Validate(); err == nil ||
				!strings.HasPrefix(err.Error(), "spec: "+want) {
				t.Errorf("%v: %v, want %q", shape, err, want)
			}
		}
	}
	if b := DefaultConfig(DrafterStatic).Budget(); b != (spec.Budget{Levels: 4, Width: 4, Nodes: 18}) {
		t.Errorf("the default shape has %+v", b)
	}
}
