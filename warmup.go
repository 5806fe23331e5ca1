package foretoken

import (
	"context"
	"errors"

	"foretoken/internal/costmodel"
	"foretoken/internal/pair"
	"foretoken/internal/warmup"
	"foretoken/spec"
	"foretoken/spec/goodput"
	"foretoken/spec/method"
	"foretoken/webgpu"
)

// firstNodes is the largest tree, in nodes, that a lean session verifies as soon as it is open: larger ones need the
// kernels that take the longest to compile. Until those are compiled auto drafts small trees; other methods with a
// draft wait.
const firstNodes = 8

var errReplaced = errors.New("foretoken: the models were loaded again")

// loaded begins the warmup of models that were loaded: it prepares the rest, and then times the passes that auto
// decides by, while the session serves no request. stored holds costs of earlier sessions.
func (s *Session) loaded(p *pair.Pair, stored map[string]string) {
	s.pair = p
	if s.costs == nil {
		s.costs = costmodel.New(p.Key(), stored, func() *goodput.Costs {
			target, drafts := p.Work()
			return goodput.Predict(costmodel.Rates(p.Device().Info()), target, drafts)
		})
	}
	plan := warmup.Plan{Record: p.Steps(), Compile: func(sources []*webgpu.KernelSource) <-chan struct{} {
		return webgpu.Compile(p.Device(), sources)
	}}
	plan.List, plan.Sources = p.DryRun()
	w := warmup.New(plan)
	if s.warmup = w; !s.lean {
		return
	}
	go w.Background(&s.turn, func() error {
		if w != s.warmup {
			return errReplaced
		}
		return p.Usable()
	}, func(idle context.Context) error {
		if s.costs.Timed() {
			return nil
		}
		_, err := s.ensureCosts(idle, s.defaultConfig())
		return err
	})
}

// defaultConfig is the method of a default request with trees that the session can verify.
func (s *Session) defaultConfig() method.Config {
	return method.ByName(DefaultRequest().Policy).Limit(s.MaxNodes())
}

// warmUp completes warmup. The caller has the session's turn.
func (s *Session) warmUp(ctx context.Context) error {
	if err := s.pair.Usable(); err != nil {
		return err
	}
	return s.warmup.Finish(ctx)
}

// warmUpFor completes warmup for a request that waits for it.
func (s *Session) warmUpFor(ctx context.Context, c method.Config) error {
	if !c.UsesDraftModel() && !c.WeighsCosts() || s.startsLean(c) {
		return nil
	}
	return s.warmUp(ctx)
}

// Warm waits until all kernels of a lean session are compiled. Call it before measuring.
func (s *Session) Warm(ctx context.Context) error {
	return s.Exclusive(ctx, func(Models) error { return nil })
}

// startsLean reports whether a request begins before warmup has ended and before passes are timed. Only methods whose
// text does not depend on the trees may.
func (s *Session) startsLean(c method.Config) bool {
	return s.lean && c.WeighsCosts() && c.Exactness() == method.ExactTokens
}

// tuningCosts is the key under which Session.Tuning stores the costs of passes.
const tuningCosts = "costs"

// TimePasses times the passes that auto decides by, or checks stored times, so that the first request does not.
func (s *Session) TimePasses(ctx context.Context) error {
	return s.Exclusive(ctx, func(Models) error {
		_, err := s.ensureCosts(ctx, s.defaultConfig())
		return err
	})
}

// ensureCosts returns costs of the passes that a config decides by, timed here. A lean session keeps the target's
// text: the next request may go on from it.
func (s *Session) ensureCosts(ctx context.Context, c method.Config) (*goodput.Costs, error) {
	p, err := s.passes(c)
	if err != nil {
		return nil, err
	}
	return s.costs.Ensure(ctx, p, s.lean && s.pair.Target.Len() > 0)
}

// passes returns the passes that a config decides by.
func (s *Session) passes(c method.Config) (costmodel.Passes, error) {
	drafts, err := s.pair.Drafts(c)
	return costmodel.Passes{Target: s.pair.Target, Drafts: drafts, Rows: min(c.Budget().Nodes, s.MaxNodes()),
		Width: c.TopK, Programs: func(lim spec.Limits) spec.Programs { return c.Programs(0, lim) }}, err
}

// costsFor returns the costs that a request decides by, and whether they were not timed: a lean session does not keep
// requests waiting for that, unless they come without pauses.
func (s *Session) costsFor(ctx context.Context, c method.Config) (costs *goodput.Costs, guessed bool, err error) {
	if !s.startsLean(c) || s.warmup.Done() && s.costs.Overdue() {
		costs, err = s.ensureCosts(ctx, c)
		return costs, false, err
	}
	p, err := s.passes(c)
	if err == nil {
		costs, guessed = s.costs.Guess(p)
	}
	return costs, guessed, err
}
