package draft

import (
	"context"
	"errors"
	"math"
	"slices"
	"sync/atomic"
	"time"

	"foretoken/spec"
)

// Ahead has a draft model on a device of its own draft on while the target verifies (Liu et al., "PEARL: Parallel
// Speculative Decoding with Adaptive Draft Length", 2024). It guesses the likeliest outcome of the round, commits it to
// the draft's sequence and drafts the next tree after it. If the target decides so, that tree is there when the next
// round asks for it; otherwise the sequence is cut back. The levels are those of the model in both cases. It serves the
// drafters of trees that grow by DraftTree and Grow; no other draft may be asked of it.
type Ahead struct {
	spec.DraftModel
	Turn func() // lets the target's answer in, where the host has one thread

	tokens  []int32           // committed, as the caller counts them
	request spec.DraftRequest // of the last tree
	levels  []spec.Level      // of the last tree in the model's memory, at least those that the caller has
	shown   []spec.Level      // the caller's copy: the model overwrites its own while it runs ahead
	open    bool              // the last tree is not committed
	run     *aheadRun         // nil: the model's sequence is the caller's

	hits, misses   int
	waited, hidden time.Duration // ReadbackTime when run began, and the model's readbacks that it does not count
}

var _ spec.AheadDraft = (*Ahead)(nil)

// aheadRun is a guess and the tree after it, drafted in a goroutine.
type aheadRun struct {
	model   spec.DraftModel
	turn    func()
	request spec.DraftRequest
	base    int          // committed tokens before the guess
	path    []int32      // drafted tokens that the target is expected to accept
	beams   []int32      // of those of them that the draft has consumed
	next    atomic.Int32 // the token that came after path; NoToken while it is unknown
	cancel  context.CancelFunc
	done    chan struct{} // closed at the end of the goroutine, which sets the fields below
	guess   int32         // the token expected after path
	levels  []spec.Level
	err     error
}

// errGuess ends a run whose guess proved wrong.
var errGuess = errors.New("spec: the guess was wrong")

func (w *aheadRun) draft(ctx context.Context) ([]spec.Level, error) {
	if err := w.model.Commit(w.beams); err != nil {
		return nil, err
	}
	r := w.request
	if w.guess == spec.NoToken { // the draft has not consumed the last token of the path
		r.Depth = 0
		levels, err := draftAfter(ctx, w.model, w.path[len(w.beams):], r)
		if err != nil {
			return nil, err
		}
		if !possible(&levels[0].Candidates[0]) {
			return nil, errGuess
		}
		w.guess = levels[0].Candidates[0].Token
		if err := w.model.Commit(nil); err != nil {
			return nil, err
		}
		w.turn()
		if next := w.next.Load(); next != spec.NoToken && next != w.guess {
			return nil, errGuess
		}
	}
	r.Pending, r.Depth = []int32{w.guess}, w.request.Depth
	return w.model.DraftTree(ctx, r)
}

// draftAfter drafts a tree after tokens that the model lacks, however many.
func draftAfter(ctx context.Context, model spec.DraftModel, tokens []int32, r spec.DraftRequest) ([]spec.Level, error) {
	if n := len(tokens) - MostPending(model); n > 0 {
		if err := model.Prefill(ctx, tokens[:n]); err != nil {
			return nil, err
		}
		tokens = tokens[n:]
	}
	r.Pending = tokens
	return model.DraftTree(ctx, r)
}

// RunAhead implements spec.AheadDraft.
func (a *Ahead) RunAhead(ctx context.Context, tree *spec.Tree) {
	if a.run != nil || !a.open {
		return
	}
	w := &aheadRun{model: a.DraftModel, turn: a.Turn, request: a.request, base: len(a.tokens),
		done: make(chan struct{})}
	if !w.foresee(tree, a.levels) {
		return
	}
	room := a.Limits().Context - (w.base + len(w.path) + 1)
	if room < 0 {
		return
	}
	w.request.Depth = min(len(a.shown)-1, room/w.request.K)
	w.next.Store(spec.NoToken)
	a.waited = a.ReadbackTime()
	a.run = w
	ctx, w.cancel = context.WithCancel(ctx)
	go func() {
		defer close(w.done)
		w.levels, w.err = w.draft(ctx)
	}()
}

// foresee sets path, beams and guess to the likeliest outcome of verifying a tree: the target accepts the path to a
// node and draws a token that is no child of it. The draft's levels give the probability of such a token, or, after a
// leaf that the draft has not consumed, that of the leaf stands in for it. It reports whether there is an outcome.
func (w *aheadRun) foresee(tree *spec.Tree, levels []spec.Level) bool {
	beams := make([]int32, tree.Len()) // of each node at its level; -1: the draft has not consumed it
	best, value := int32(-1), math.Inf(-1)
	for i := range beams {
		node, depth, score := int32(i), int(tree.Depths[i]), float64(tree.Scores[i])
		beams[i] = 0
		if i > 0 {
			beams[i] = beamOf(levels, depth-1, beams[tree.Parents[i]], tree.Tokens[i])
		}
		if beams[i] >= 0 && depth < len(levels) {
			for _, c := range levels[depth].Candidates {
				if c.Beam == beams[i] && possible(&c) && tree.Child(node, c.Token) < 0 {
					if v := score + float64(c.LogQ); v > value {
						best, value, w.guess = node, v, c.Token
					}
					break // candidates of a beam come best first
				}
			}
		} else if i > 0 && tree.IsLeaf(node) {
			if v := 2*score - float64(tree.Scores[tree.Parents[i]]); v > value {
				best, value, w.guess = node, v, spec.NoToken
			}
		}
	}
	for i := best; i > 0; i = tree.Parents[i] {
		w.path = append(w.path, tree.Tokens[i])
		if beams[i] >= 0 {
			w.beams = append(w.beams, beams[i])
		}
	}
	slices.Reverse(w.path)
	slices.Reverse(w.beams)
	return best >= 0
}

// beamOf returns the place of a token, proposed by a beam of the level above, among the beams of a level; -1 if it is
// none.
func beamOf(levels []spec.Level, level int, above, token int32) int32 {
	if above < 0 || level >= len(levels) {
		return -1
	}
	l := &levels[level]
	for i, c := range l.Candidates {
		if c.Beam == above && c.Token == token {
			return int32(slices.Index(l.Beams, int32(i)))
		}
	}
	return -1
}

// possible reports whether a candidate has a probability above 0.
func possible(c *spec.Candidate) bool { return c.LogQ > float32(math.Inf(-1)) }

// Rest implements spec.AheadDraft.
func (a *Ahead) Rest() {
	if a.run != nil {
		a.run.cancel()
		a.join()
	}
}

// join waits for the end of the run.
func (a *Ahead) join() {
	<-a.run.done
	a.run.cancel() // frees the context
	a.hidden = a.DraftModel.ReadbackTime() - a.waited
}

// Guesses implements spec.AheadDraft.
func (a *Ahead) Guesses() (hits, misses int) { return a.hits, a.misses }

// DraftTree returns the tree that was drafted ahead, if it is the one that r asks for, or drafts it.
func (a *Ahead) DraftTree(ctx context.Context, r spec.DraftRequest) ([]spec.Level, error) {
	before := len(a.tokens)
	a.tokens = append(a.tokens, r.Pending...)
	levels, err := a.draftTree(ctx, r)
	if err != nil {
		a.tokens = a.tokens[:before]
		return nil, err
	}
	r.Pending = nil
	a.request, a.levels, a.open, a.run = r, levels, true, nil
	return a.show(r.Depth + 1), nil
}

func (a *Ahead) draftTree(ctx context.Context, r spec.DraftRequest) ([]spec.Level, error) {
	if a.run == nil {
		return a.DraftModel.DraftTree(ctx, r)
	}
	if w := a.run; a.guessed(&r) {
		a.hits++
		if more := r.Depth + 1 - len(w.levels); more > 0 {
			return a.DraftModel.Grow(ctx, more)
		}
		return w.levels, nil
	}
	a.misses++
	a.Rest()
	held := a.DraftModel.ReusePrefix(a.tokens[:len(a.tokens)-1])
	return draftAfter(ctx, a.DraftModel, a.tokens[held:], r)
}

// guessed waits for a run that can still be right and reports whether it drafted after a.tokens, in the way of r.
func (a *Ahead) guessed(r *spec.DraftRequest) bool {
	w, last := a.run, len(a.tokens)-1
	if r.K != w.request.K || r.Coupled != w.request.Coupled || r.Sampling != w.request.Sampling ||
		!slices.Equal(w.path, a.tokens[min(w.base, last):last]) {
		return false
	}
	w.next.Store(a.tokens[last])
	a.join()
	return w.err == nil && w.guess == a.tokens[last]
}

// show copies the first n levels of the last tree for the caller.
func (a *Ahead) show(n int) []spec.Level {
	n = min(n, len(a.levels))
	a.shown = slices.Grow(a.shown[:0], n)[:n]
	for i := range a.shown {
		from, to := &a.levels[i], &a.shown[i]
		to.Candidates = append(to.Candidates[:0], from.Candidates...)
		to.Entropies, to.Accepts = append(to.Entropies[:0], from.Entropies...), append(to.Accepts[:0], from.Accepts...)
		if to.Beams = to.Beams[:0]; i+1 < n {
			to.Beams = append(to.Beams, from.Beams...)
		}
	}
	return a.shown
}

// Grow implements spec.DraftModel. It asks the model only for levels that were not drafted ahead.
func (a *Ahead) Grow(ctx context.Context, passes int) ([]spec.Level, error) {
	if a.run != nil || !a.open {
		return nil, errors.New("spec: Grow without a tree, or of one that the draft has gone on from")
	}
	n := len(a.shown) + passes
	if more := n - len(a.levels); more > 0 {
		levels, err := a.DraftModel.Grow(ctx, more)
		if err != nil {
			return nil, err
		}
		a.levels = levels
	}
	return a.show(n), nil
}

// Commit implements spec.DraftModel. While the model runs ahead, only the tokens are noted.
func (a *Ahead) Commit(beams []int32) error {
	if a.run == nil {
		if err := a.DraftModel.Commit(beams); err != nil {
			return err
		}
	}
	for i, b := range beams {
		if i >= len(a.shown) || b < 0 || int(b) >= len(a.shown[i].Beams) {
			return errors.New("spec: a commit of beams that the last tree does not have")
		}
		l := &a.shown[i]
		a.tokens = append(a.tokens, l.Candidates[l.Beams[b]].Token)
	}
	a.open = false
	return nil
}

// Len returns the number of tokens that were committed, without those of a guess.
func (a *Ahead) Len() int { return len(a.tokens) }

// Reset implements spec.Model.
func (a *Ahead) Reset() {
	a.Rest()
	a.DraftModel.Reset()
	a.tokens, a.open, a.run = a.tokens[:0], false, nil
}

// ReusePrefix implements spec.Model.
func (a *Ahead) ReusePrefix(tokens []int32) int {
	a.Rest()
	n := a.DraftModel.ReusePrefix(tokens)
	a.tokens, a.open, a.run = append(a.tokens[:0], tokens[:n]...), false, nil
	return n
}

// Prefill implements spec.Model. While the model runs ahead, the next draft prefills what the guess lacks.
func (a *Ahead) Prefill(ctx context.Context, tokens []int32) error {
	if a.run == nil {
		if err := a.DraftModel.Prefill(ctx, tokens); err != nil {
			return err
		}
	}
	a.tokens, a.open = append(a.tokens, tokens...), false
	return nil
}

// Sync implements spec.Model.
func (a *Ahead) Sync() error {
	if a.run != nil {
		a.join()
	}
	return a.DraftModel.Sync()
}

// ReadbackTime implements spec.Model, without the time that the target's passes hide.
func (a *Ahead) ReadbackTime() time.Duration {
	if a.run != nil {
		return a.waited
	}
	return a.DraftModel.ReadbackTime() - a.hidden
}
