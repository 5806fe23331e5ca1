package foretoken

import (
	"context"

	"foretoken/internal/kind"
	"foretoken/internal/pair"
	"foretoken/models/runner"
	"foretoken/webgpu"
)

// Models are a session's models and their device, for work outside Generate: benchmarks, profiles, training data.
// They are valid until the function returns that Exclusive passed them to.
type Models struct {
	Device webgpu.Device
	Target *runner.Target
	Draft  *runner.Draft // nil without a draft
	Head   *runner.Draft // nil without an EAGLE-3 head

	pair *pair.Pair
}

// Reset empties the KV caches of all models.
func (m Models) Reset() {
	if m.Target != nil {
		m.Target.Reset()
	}
	if m.Draft != nil {
		m.Draft.Reset()
	}
	if m.Head != nil {
		m.Head.Reset()
	}
}

// Progressed reports that the work advanced. A session gives a device up after several losses in a row; losses
// before the call no longer count as of the same row.
func (m Models) Progressed() {
	if m.pair != nil {
		m.pair.Progressed()
	}
}

// Exclusive runs work on the models while no request runs, after the compilation in the background has ended. Where
// the device is lost and Options.Reopen is set, it reopens the device, reloads the models and calls work again: work
// has to refill the caches, and may go on where it stopped. Models keep their addresses through that, the device
// does not. Work must not call methods of the session.
func (s *Session) Exclusive(ctx context.Context, work func(Models) error) error {
	s.turn.Lock()
	defer s.turn.Unlock()
	if err := s.pair.Ensure(ctx); err != nil {
		return err
	}
	warmed := func() error {
		if err := s.warmUp(ctx); err != nil {
			return err
		}
		p := s.pair
		return work(Models{Device: p.Device, Target: p.Target, Draft: p.Draft, Head: p.Head, pair: p})
	}
	return s.pair.Retry(ctx, warmed(), warmed)
}

// Check refuses a request that the session cannot run, with the reason, and records the programs of one that it
// can.
func (s *Session) Check(r Request) error {
	if err := r.validateNumbers(); err != nil {
		return kind.Of(ErrRequest, err)
	}
	return s.Exclusive(context.Background(), func(Models) error {
		c, err := s.configOf(&r)
		if err == nil {
			_, err = s.pair.Compile(c, r.Sampling().Temperature, s.vocab.Needs(&r.Constraints))
		}
		return err
	})
}

// Score returns the target's ln p of tokens[i+1] after tokens[:i+1], of the raw softmax in nats, for each i:
// len(tokens)-1 values.
func (s *Session) Score(ctx context.Context, tokens []int32) ([]float32, error) {
	var logs []float32
	err := s.Exclusive(ctx, func(Models) (err error) {
		logs, err = s.pair.Target.Score(ctx, tokens)
		return err
	})
	return logs, err
}
