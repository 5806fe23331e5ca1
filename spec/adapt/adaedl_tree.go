package adapt

import (
	"context"

	"foretoken/spec"
	"foretoken/spec/draft"
)

// AdaEDLDrafter grows EAGLE-2's tree until AdaEDL ends it, and reranks the drafted nodes. The tree ends after the first
// level at which the bound of the best beam's candidates is below the threshold; the root is the best beam of the first
// level. With a width of 1 that is AdaEDL on a chain.
type AdaEDLDrafter struct {
	Model     spec.DraftModel
	Rule      *AdaEDL // also the round's policy, which learns from it
	Uncoupled bool    // see draft.TreeDrafter
}

var _ spec.Drafter = (*AdaEDLDrafter)(nil)

// Begin implements Drafter.
func (a *AdaEDLDrafter) Begin(ctx context.Context, o spec.SessionOptions) (spec.DraftSession, error) {
	session := &adaEDLSession{LevelSession: draft.NewLevelSession(a.Model, o, a.Uncoupled), rule: a.Rule}
	return session, session.Prefill(ctx, o)
}

type adaEDLSession struct {
	draft.LevelSession
	rule *AdaEDL
	run  draft.RunLength
}

func (a *adaEDLSession) Propose(ctx context.Context, seq []int32, b spec.Budget) (*spec.Draft, error) {
	width, most := a.Room(seq, b)
	if most < 0 {
		return a.ProposeRoot(seq), nil
	}
	levels, drafted, err := a.DraftUntil(ctx, seq, width, most, &a.run, func(levels []spec.Level) bool {
		entropies := levels[len(levels)-1].Entropies // of the beams that propose the level, the best first
		return len(entropies) > 0 && a.rule.stops(entropies[0])
	})
	if err != nil {
		return nil, err
	}
	return a.ProposeTree(seq, b.Nodes, spec.Draft{Levels: levels, Drafted: drafted})
}

func (a *adaEDLSession) Observe(e *spec.Event) { a.run.Observe(e) }
