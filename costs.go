package foretoken

import (
	"context"
	"fmt"

	"foretoken/internal/costmodel"
	"foretoken/spec"
	"foretoken/spec/goodput"
	"foretoken/spec/method"
)

// tuningCosts is the key under which Session.Tuning stores the costs of passes.
const tuningCosts = "costs"

// TimePasses times the passes that auto decides by, or checks stored times, so that the first request does not.
func (s *Session) TimePasses(ctx context.Context) error {
	return s.Exclusive(ctx, func(Models) error {
		_, err := s.ensureCosts(ctx, s.defaultConfig(s.MaxNodes()), s.options.Lean && s.target.Len() > 0)
		return err
	})
}

// ensureCosts returns costs of the passes that a config decides by, timed here; after is Model.Ensure's.
func (s *Session) ensureCosts(ctx context.Context, c method.Config, after bool) (*goodput.Costs, error) {
	p, err := s.passes(c)
	if err != nil {
		return nil, err
	}
	return s.costs.Ensure(ctx, p, after)
}

// passes returns the passes that a config decides by.
func (s *Session) passes(c method.Config) (costmodel.Passes, error) {
	drafts, err := s.drafts(c)
	if err != nil {
		return costmodel.Passes{}, err
	}
	return costmodel.Passes{Target: s.target, Drafts: drafts, Rows: min(c.Budget().Nodes, s.MaxNodes()), Width: c.TopK,
		Programs: func(lim spec.Limits) spec.Programs { return c.Programs(0, lim) }}, nil
}

// predictedCosts returns what passes may cost before one was timed.
func (s *Session) predictedCosts() *goodput.Costs {
	var drafts [goodput.MostModels]goodput.Work
	if s.draft != nil {
		drafts[goodput.SmallDraft] = work(s.draft.Work())
	}
	if s.head != nil {
		drafts[goodput.EAGLE3] = work(s.head.Work())
	}
	return goodput.Predict(costmodel.Rates(s.dev.Info()), work(s.target.Work()), drafts)
}

func work(dispatches int, bytes int64) goodput.Work {
	return goodput.Work{Dispatches: dispatches, Bytes: bytes}
}

// costsKey identifies the models among others on the same adapter.
func (s *Session) costsKey() string {
	key := fmt.Sprintf("%s %d %s", s.pair.Target.Name, s.pair.Target.Bytes, s.pair.Target.Hash)
	if s.draft != nil {
		key += fmt.Sprintf(" + %s %d %s", s.pair.Draft.Name, s.pair.Draft.Bytes, s.pair.Draft.Hash)
	}
	if s.head != nil {
		key += fmt.Sprintf(" + %s %d %s", s.headPair.Draft.Name, s.headPair.Draft.Bytes, s.headPair.Draft.Hash)
	}
	return key
}
