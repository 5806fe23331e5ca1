package method

import (
	"context"
	"slices"
	"testing"

	"foretoken/spec"
	"foretoken/spec/spectest"
)

// The worked example of docs/extending.md, which quotes it: a drafter that needs no model, and its rows. A real one
// is in spec/draft, beside its test.

// Repeat drafts the last token again, as often as the budget allows: for runs of spaces, dashes and zeros.
type Repeat struct{}

// Begin implements spec.Drafter.
func (Repeat) Begin(context.Context, spec.SessionOptions) (spec.DraftSession, error) {
	return &repeatSession{}, nil
}

// repeatSession holds what a round returns, so that rounds allocate nothing.
type repeatSession struct {
	tree  spec.Tree
	draft spec.Draft
}

func (s *repeatSession) Propose(_ context.Context, seq []int32, b spec.Budget) (*spec.Draft, error) {
	last := seq[len(seq)-1]
	s.tree.Reset(last)
	for node := range min(b.Levels, b.Nodes-1) {
		s.tree.Add(int32(node), last, 0) // a child of the node before
	}
	s.draft = spec.Draft{Tree: &s.tree}
	return &s.draft, nil
}

func (*repeatSession) Commit([]int32) error { return nil } // all it drafts from is in seq

func (*repeatSession) Observe(*spec.Event) {}

// Its rows in the tables of drafters and of methods.
var (
	repeatDrafter = drafter{
		name: "repeat", settings: Config{Depth: 3}, bounds: tokens[:1], budget: chainBudget,
		parts: noModel(func(Config) spec.Drafter { return Repeat{} }),
	}
	repeatMethod = methodRow{"repeat", "the last token again", Config{Drafter: "repeat"}}
)

func TestRepeatEqualsPlain(t *testing.T) {
	drafters, methods := drafterRows, rows
	t.Cleanup(func() { drafterRows, rows = drafters, methods })
	drafterRows, rows = append(slices.Clip(drafters), repeatDrafter), append(slices.Clip(methods), repeatMethod)

	c := ByName("repeat")
	prompt := []int32{1, 2, 3}
	for _, s := range spectest.Samplings() {
		target := spectest.NewTarget(&spectest.Script{Vocab: 6, Steps: 1e6}, 160, 16)
		o := spec.Options{Sampling: s, MaxTokens: 120}
		want, finish := spectest.Plain(target.Script, prompt, 160, o)
		got, stats := spectest.Generate(t, named(c), target, spectest.NewDraft(target, 160, 0), prompt, o)
		spectest.Expect(t, "repeat", got, stats, want, finish)
		if stats.Accepted == 0 || stats.Drafted > 3*stats.Calls || stats.Calls >= len(want) {
			t.Errorf("%+v: %d of %d tokens accepted, %d passes for %d tokens",
				s, stats.Accepted, stats.Drafted, stats.Calls, len(want))
		}
	}
	if c.Depth = 0; c.Validate() == nil {
		t.Error("a depth of 0 is accepted")
	}
}
