package bench

import (
	"context"

	"foretoken"
	"foretoken/spec"
)

// Passes are timed over filler: the time of a pass does not depend on its tokens.

// maxRows returns the number of rows that one pass of the target verifies.
func maxRows(m *foretoken.Models) int { return m.Target.Limits().MaxRows }

// contextOfBoth returns the number of positions that fit in the cache of every model.
func contextOfBoth(m *foretoken.Models) int {
	if m.Draft == nil {
		return m.Target.Limits().Context
	}
	return min(m.Target.Limits().Context, m.Draft.Limits().Context)
}

// fillerTokens returns n tokens to time passes with.
func fillerTokens(m *foretoken.Models, n int) []int32 {
	text := make([]int32, n)
	for i := range text {
		text[i] = int32(i % m.Target.Limits().Vocab)
	}
	return text
}

// fillCaches resets both models and prefills n tokens.
func fillCaches(ctx context.Context, m *foretoken.Models, n int) error {
	m.Reset()
	text := fillerTokens(m, n)
	if err := m.Target.Prefill(ctx, text, nil); err != nil || m.Draft == nil {
		return err
	}
	return m.Draft.Prefill(ctx, text, nil)
}

// fillerTree returns a binary tree of n nodes to time a verification with.
func fillerTree(m *foretoken.Models, n int) *spec.Tree {
	text, t := fillerTokens(m, n), &spec.Tree{}
	t.Reset(text[0])
	for i := 1; i < n; i++ {
		t.Add(int32(i-1)/2, text[i], 0)
	}
	return t
}

// Describe names device, target and draft for people; draft is "" without one.
func Describe(s *foretoken.Session) (device, target, draft string) {
	i := s.Info()
	if i.Draft != nil {
		draft = i.Draft.File + " " + i.Draft.Quant
	}
	return i.Device.Backend + ", " + i.Device.Adapter, i.Target.File + " " + i.Target.Quant, draft
}
