package goodput

import (
	"context"
	"time"

	"foretoken/spec"
)

// leastSubmit is the time of a submit from which on it is saved, in passes over one row: less is lost in the noise of
// the times. Held by TestDraftsJoinTheirPass.
const leastSubmit = 0.05

// joinable reports whether the target can verify in the run that drafts, and saves more than noise by that.
func (g *Goodput) joinable(model int) bool {
	return g.target != nil && !g.drafts[model].alone &&
		g.Costs.Drafts[model].submit() >= leastSubmit*g.Costs.plainTime()
}

// saves returns the seconds by which one run of draft and pass is expected to beat two, between which the tree is
// chosen and grown by what the draft proposed. It needs a measured time of a submit.
func (g *Goodput) saves(model int) float64 {
	costs := &g.Costs.Drafts[model]
	if costs.Sync.Count < 1 || !g.joinable(model) {
		return 0
	}
	return costs.submit() - g.learnt.Models[model].Choosing.Gain/g.price()
}

// joins reports whether this round asks for one run of draft and pass. Only rounds of two show what choosing the tree
// between them brings, so within a share of the time some are.
func (g *Goodput) joins(model int) bool {
	loss := g.saves(model)
	if loss > 0 && !g.exploring && g.Costs.checked+loss <= explorationShare*g.Costs.spent {
		g.Costs.checked += loss
		return false
	}
	return loss > 0
}

// joined reports whether this round's draft and pass were one run.
func (g *Goodput) joined() bool { return g.draft.Pass != nil }

// join drafts and verifies in one run, if the target can.
func (g *Goodput) join(ctx context.Context, r spec.DraftRequest, fed int, begin time.Time) error {
	d, s := &g.drafts[g.used.model], g.used
	g.request, g.request.Nodes = r, s.rows
	pass, err := g.target.Verify(ctx,
		spec.PassRequest{Sampling: g.sampling, Model: d.Model, Draft: &g.request, Builder: &g.builder})
	if err != nil || pass == nil {
		d.alone = err == nil
		return err
	}
	g.Costs.observeJoint(s.model, fed, s.levels, s.width, pass.Tree.Len(), g.Clock().Sub(begin).Seconds())
	g.draft = spec.Draft{Tree: pass.Tree, Levels: pass.Levels, Pass: pass}
	return nil
}

// judge updates what choosing the tree after the draft brought, by the tokens of this round and those that the tree of
// a joint run would have made of the same draft.
func (g *Goodput) judge(e *spec.Event) {
	s := g.used
	tokens, rows := g.candidates.drafted(s.levels, s.rows, e.Tokens)
	more := g.Costs.verifyTime(e.Tree.Len()) - g.Costs.verifyTime(rows) +
		float64(g.grows)*g.Costs.Drafts[s.model].GrowTime(s.width)
	g.learnt.Models[s.model].Choosing.learn(float64(len(e.Tokens)) - tokens - g.price()*more)
}
