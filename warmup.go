package foretoken

import (
	"context"

	"foretoken/internal/costmodel"
	"foretoken/internal/pair"
	"foretoken/internal/warmup"
	"foretoken/spec/goodput"
	"foretoken/spec/method"
	"foretoken/webgpu"
)

// firstNodes is the largest tree, in nodes, that a session with a fast start verifies as soon as it is open: larger
// ones need the kernels that take the longest to compile. Until those are compiled auto drafts small trees; other
// methods with a draft wait.
const firstNodes = 8

// loaded begins the warmup of models that were loaded: it prepares the rest, and then times the passes that auto
// decides by, while the session serves no request. stored holds costs of earlier sessions.
func (s *Session) loaded(p *pair.Pair, stored map[string]string) {
	if s.costs == nil {
		s.costs = costmodel.New(p.Key(), stored, func() *goodput.Costs {
			target, drafts := p.Work()
			return goodput.Predict(costmodel.Rates(p.Device.Info()), target, drafts)
		})
	}
	work := warmup.Work{Device: p.Device, Record: p.Steps()}
	work.List, work.Sources = p.DryRun()
	w := warmup.New(work)
	if s.warmup = w; !s.fastStart {
		return
	}
	go w.Background(&s.turn, func() error {
		if w != s.warmup {
			return webgpu.ErrDeviceLost // another warmup prepares the models that were loaded again
		}
		return p.Usable()
	}, func(idle context.Context) error {
		if s.costs.Timed() {
			return nil
		}
		_, _, err := s.costsOf(idle, s.defaultConfig(), false)
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
	if !c.UsesDraftModel() && !c.WeighsCosts() || s.startsFast(c) {
		return nil
	}
	return s.warmUp(ctx)
}

// Warm waits until all kernels of a session with a fast start are compiled. Call it before measuring.
func (s *Session) Warm(ctx context.Context) error {
	return s.Exclusive(ctx, func(Models) error { return nil })
}

// startsFast reports whether a request begins before warmup has ended and before passes are timed. Only methods whose
// text does not depend on the trees may.
func (s *Session) startsFast(c method.Config) bool {
	return s.fastStart && c.WeighsCosts() && c.Exactness() == method.ExactTokens
}

// tuningCosts is the key under which Session.Tuning stores the costs of passes.
const tuningCosts = "costs"

// TimePasses times the passes that auto decides by, or checks stored times, so that the first request does not.
func (s *Session) TimePasses(ctx context.Context) error {
	return s.Exclusive(ctx, func(Models) error {
		_, _, err := s.costsOf(ctx, s.defaultConfig(), false)
		return err
	})
}

// costsOf returns the costs that a config decides by, and whether they were guessed: with guess a request does not wait
// until its passes are timed. A session with a fast start keeps the target's text meanwhile: the next request may go on
// from it.
func (s *Session) costsOf(ctx context.Context, c method.Config, guess bool) (*goodput.Costs, bool, error) {
	drafts, err := s.pair.Drafts(c)
	if err != nil {
		return nil, false, err
	}
	p := costmodel.Passes{Target: s.pair.Target, Drafts: drafts, Config: c,
		After: s.fastStart && s.pair.Target.Len() > 0}
	if guess {
		costs, guessed := s.costs.Guess(p)
		return costs, guessed, nil
	}
	costs, err := s.costs.Ensure(ctx, p)
	return costs, false, err
}
