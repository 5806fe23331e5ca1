package method

import (
	"context"
	"slices"
	"testing"

	"foretoken/spec"
	"foretoken/spec/spectest"
)

// turn is a request of a run of them on one pair of models.
type turn struct {
	prompt func(before []int32) []int32 // given the sequence that the request before ended with
	tokens int
	abort  int // rounds after which it is cancelled; 0: not at all
	cut    int // tokens after which Options.Cut ends it, mostly inside an accepted run; 0: nowhere
}

// turns are what a conversation does: go on, go on after an abort, edit, ask again.
func turns() []turn {
	first := []int32{1, 2, 3, 4, 5, 1, 2}
	on := func(more ...int32) func([]int32) []int32 {
		return func(before []int32) []int32 { return append(slices.Clone(before), more...) }
	}
	same := func(before []int32) []int32 { return before }
	return []turn{
		{prompt: func([]int32) []int32 { return first }, tokens: 9},
		{prompt: on(3, 1, 2), tokens: 8, cut: 2},
		{prompt: on(0, 4, 4), tokens: 30, abort: 2},
		{prompt: same, tokens: 4},
		{prompt: on(5), tokens: 30, abort: 1},
		{prompt: func(b []int32) []int32 { return append(slices.Clone(b[:9]), 5, 5, 1) }, tokens: 9, cut: 3}, // edited
		// all of it held already
		{prompt: func(b []int32) []int32 { return b[:5] }, tokens: 6},
		{prompt: func([]int32) []int32 { return []int32{2, 1} }, tokens: 5}, // nothing in common
		{prompt: func([]int32) []int32 { return []int32{2} }, tokens: 3},
	}
}

// converse runs the turns on a pair of models, new ones each time unless keeps is set.
func converse(t *testing.T, s spectest.Setting, sampling spec.Sampling, keeps bool) (outputs [][]int32, reused int) {
	t.Helper()
	target := spectest.NewTarget(&spectest.Script{Vocab: 6, Steps: 1e6}, 160, 64)
	draft := spectest.NewDraft(target, 200, 0.2)
	target.Keeps, draft.Keeps = keeps, keeps
	var seq []int32
	for i, turn := range turns() {
		prompt := turn.prompt(seq)
		held := 0
		for keeps && held < min(len(target.Cells), len(prompt)-1) && target.Cells[held] == prompt[held] {
			held++
		}
		g, err := spec.New(target, s.Parts(target, draft))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		o := spec.Options{Sampling: sampling, MaxTokens: turn.tokens}
		count := 0
		if turn.cut > 0 {
			o.Cut = func(tokens []int32) (int, bool) {
				count += len(tokens)
				if over := count - turn.cut; over >= 0 {
					return len(tokens) - over, true
				}
				return len(tokens), false
			}
		}
		out := slices.Clone(prompt)
		stats, err := g.Generate(ctx, prompt, o, func(e *spec.Event) error {
			out = append(out, e.Tokens...)
			if e.Round == turn.abort {
				cancel()
			}
			return nil
		})
		cancel()
		if err != nil {
			t.Fatalf("%s, turn %d: %v", s.Name, i, err)
		}
		if stats.Reused != held || stats.Reused+stats.Prefilled != len(prompt)-1 || stats.PromptTokens != len(prompt) {
			t.Fatalf("%s, turn %d: %d of %d prompt tokens reused and %d prefilled; the target held %d of them", s.Name,
				i, stats.Reused, len(prompt), stats.Prefilled, held)
		}
		if turn.abort > 0 && stats.Finish != spec.FinishAborted {
			t.Fatalf("%s, turn %d: %s", s.Name, i, stats.Finish)
		}
		if turn.abort > 0 { // how far it came depends on the drafts, and with auto on the clock
			out = out[:len(prompt)+1]
		}
		outputs, seq = append(outputs, out), out
		reused += stats.Reused
	}
	return outputs, reused
}

// TestKeptPrefixChangesNothing compares conversations on models that keep what they hold from
// request to request with the same on new models.
func TestKeptPrefixChangesNothing(t *testing.T) {
	all := settings()
	for _, c := range combinations(nil) {
		if c.Drafter == DrafterAuto && c.Verifier == VerifierMARS {
			continue // what it accepts depends on what is drafted, and that on the clock
		}
		all = append(all, named(c))
	}
	for _, sampling := range []spec.Sampling{{}, {Temperature: 0.8, Seed: 3},
		{Temperature: 0.9, TopK: 4, TopP: 0.9, MinP: 0.05, Seed: 5}} {
		for _, s := range all {
			want, none := converse(t, s, sampling, false)
			got, some := converse(t, s, sampling, true)
			if none != 0 || some == 0 {
				t.Fatalf("%s: %d and %d tokens reused", s.Name, none, some)
			}
			for i := range want {
				if !slices.Equal(got[i], want[i]) {
					t.Fatalf("%s at %+v, turn %d: with a kept prefix\n%v\nwithout\n%v", s.Name, sampling, i, got[i],
						want[i])
				}
			}
		}
	}
}

// TestKeptPrefixOfEachModel: a draft that took no part in the last requests keeps what it holds
// itself, whatever the target does.
func TestKeptPrefixOfEachModel(t *testing.T) {
	target := spectest.NewTarget(&spectest.Script{Vocab: 6, Steps: 1e6}, 96, 64)
	draft := spectest.NewDraft(target, 96, 0.2)
	target.Keeps, draft.Keeps = true, true
	prompt := []int32{1, 2, 3, 4, 5, 0, 1, 2}
	run := func(c Config, prompt []int32) spec.Stats {
		g, err := New(target, c, draft)
		if err != nil {
			t.Fatal(err)
		}
		stats, err := g.Generate(context.Background(), prompt, spec.Options{MaxTokens: 6}, nil)
		if err != nil {
			t.Fatal(err)
		}
		return stats
	}
	chain := Config{Drafter: DrafterChain, Depth: 3}
	run(chain, prompt)
	run(Config{Drafter: DrafterNone}, []int32{5, 5, 5, 5})
	before := len(draft.Cells)
	if before < len(prompt)-1 {
		t.Fatalf("the draft holds %d tokens", before)
	}
	if s := run(chain, prompt); s.Reused != 0 || s.Prefilled != len(prompt)-1 {
		t.Errorf("the target reused %d and prefilled %d", s.Reused, s.Prefilled)
	}
	// A prompt longer than the draft's context empties it.
	short := spectest.NewDraft(target, 6, 0.2)
	short.Keeps = true
	g, err := New(target, chain, short)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := g.Generate(context.Background(), prompt, spec.Options{MaxTokens: 4}, nil); err != nil ||
		len(short.Cells) != 0 {
		t.Errorf("%v; a draft of 6 positions holds %d", err, len(short.Cells))
	}
}
