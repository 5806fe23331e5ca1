package spec

import (
	"context"
	"slices"
)

// PromptLookup drafts what followed the last tokens when they occurred before:
// n-grams of Max tokens down to Min are looked for from the start, and the
// first one found is continued. This is prompt lookup decoding as in Hugging Face's
// transformers (Saxena, "Prompt Lookup Decoding", 2023).
type PromptLookup struct {
	Max, Min int
}

var _ Drafter = PromptLookup{}

// Begin implements Drafter.
func (p PromptLookup) Begin(context.Context, []int32, Sampling, func(int)) (DraftSession, error) {
	return &lookupSession{find: p.find}, nil
}

// find gives up to n tokens that may follow seq.
func (p PromptLookup) find(seq []int32, n int) []int32 {
	for size := min(p.Max, len(seq)-1); size >= max(p.Min, 1); size-- {
		last := seq[len(seq)-size:]
		for i := 0; i+size < len(seq); i++ {
			if slices.Equal(seq[i:i+size], last) {
				return seq[i+size : min(i+size+n, len(seq))]
			}
		}
	}
	return nil
}

// RecentLookup drafts what followed the most recent earlier occurrence of the last
// Size tokens, as llama.cpp's ngram-simple does. Unlike there, a short
// history or a short continuation is drafted too: verification is what decides.
type RecentLookup struct {
	Size int
}

var _ Drafter = RecentLookup{}

// Begin implements Drafter.
func (r RecentLookup) Begin(context.Context, []int32, Sampling, func(int)) (DraftSession, error) {
	return &lookupSession{find: r.find}, nil
}

func (r RecentLookup) find(seq []int32, n int) []int32 {
	if r.Size < 1 || len(seq) <= r.Size {
		return nil
	}
	last := seq[len(seq)-r.Size:]
	for i := len(seq) - r.Size - 1; i >= 0; i-- {
		if slices.Equal(seq[i:i+r.Size], last) {
			return seq[i+r.Size : min(i+r.Size+n, len(seq))]
		}
	}
	return nil
}

// lookupSession needs no state: all it drafts is in the sequence.
type lookupSession struct {
	find  func(seq []int32, n int) []int32
	tree  Tree
	draft Draft
}

func (l *lookupSession) Propose(_ context.Context, seq []int32, b Budget) (*Draft, error) {
	l.tree.Reset(seq[len(seq)-1])
	if n := min(b.Levels, b.Nodes-1); n > 0 {
		for i, token := range l.find(seq, n) {
			l.tree.Add(int32(i), token, 0)
		}
	}
	l.draft = Draft{Tree: &l.tree}
	return &l.draft, nil
}

func (l *lookupSession) Commit([]int32) error { return nil }
