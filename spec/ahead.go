package spec

import "context"

// AheadDraft is a DraftModel on a device of its own that drafts the next round while the target verifies this one; see
// draft.Ahead.
type AheadDraft interface {
	DraftModel
	// RunAhead has the model draft on after the likeliest outcome of verifying tree, the last proposal, and returns at
	// once. It does nothing if the model did not draft for the proposal. Calls that need the model wait for what runs.
	RunAhead(ctx context.Context, tree *Tree)
	// Rest ends what runs ahead and returns when nothing runs.
	Rest()
	// Guesses returns how many drafts made ahead were used, and how many were discarded.
	Guesses() (hits, misses int)
}

// eachAhead calls do with the drafts that run ahead.
func (r *request) eachAhead(do func(AheadDraft)) {
	for _, m := range r.parts.Models {
		if a, ok := m.(AheadDraft); ok {
			do(a)
		}
	}
}

// rest ends what runs ahead.
func (r *request) rest() { r.eachAhead(AheadDraft.Rest) }

// guesses adds up the outcomes of the drafts made ahead.
func (r *request) guesses() (hits, misses int) {
	r.eachAhead(func(a AheadDraft) {
		h, m := a.Guesses()
		hits, misses = hits+h, misses+m
	})
	return hits, misses
}
