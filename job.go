package foretoken

import (
	"context"
	"fmt"

	"foretoken/models/constrain"
	"foretoken/spec"
	"foretoken/spec/goodput"
	"foretoken/spec/method"
)

// job is a request as the session runs it. It is resolved once and does not change.
type job struct {
	request   *Request
	config    method.Config // with the session's calibrations and costs, and trees that it need not wait for
	generator *spec.Generator
	guide     *constrain.Guide // nil without constraints
	guessed   bool             // it decides by costs that were not timed
}

// newJob resolves a request, or refuses it. If the device is lost meanwhile, it reopens the device and resolves the
// request again.
func (s *Session) newJob(ctx context.Context, r *Request) (*job, error) {
	if err := r.validateNumbers(); err != nil {
		return nil, ofKind(ErrRequest, err)
	}
	if err := s.ensureDevice(ctx); err != nil {
		return nil, err
	}
	var j *job
	resolve := func() (err error) {
		if j, err = s.resolve(ctx, r); err != nil && !s.lostBy(err) {
			err = ofKind(ErrRequest, err)
		}
		return err
	}
	err := s.retry(ctx, resolve(), resolve)
	return j, err
}

// resolve completes warmup and the costs as far as the request waits for them, and records its programs.
func (s *Session) resolve(ctx context.Context, r *Request) (*job, error) {
	c, err := s.configOf(r)
	if err != nil {
		return nil, err
	}
	j := &job{request: r}
	if err := s.warmUpFor(ctx, c); err != nil {
		return nil, err
	}
	if c.WeighsCosts() && c.Fitted.Costs == nil {
		if c.Fitted.Costs, j.guessed, err = s.costsFor(ctx, c); err != nil {
			return nil, err
		}
	}
	if s.startsLean(c) && !s.warmup.Done() && c.Nodes <= s.MaxNodes() {
		limitTrees(&c, firstNodes)
	}
	j.config = c
	if j.generator, err = s.compile(r, c); err != nil {
		return nil, err
	}
	if err := s.check(r); err != nil {
		return nil, err
	}
	j.guide, err = constrain.NewGuide(ctx, r.Constraints, s.vocab)
	return j, err
}

// configOf returns a request's method with the session's calibrations. Trees of auto that the request does not limit
// fit the target.
func (s *Session) configOf(r *Request) (method.Config, error) {
	c := r.Config()
	c.Fitted = r.Fitted
	if r.Nodes == 0 {
		limitTrees(&c, s.MaxNodes())
	}
	return c, s.addCalibrations(&c)
}

// costsFor returns the costs that a request decides by, and whether they were not timed: a lean session does not keep
// requests waiting for that, unless they come without pauses.
func (s *Session) costsFor(ctx context.Context, c method.Config) (costs *goodput.Costs, guessed bool, err error) {
	if !s.startsLean(c) || s.warmup.Done() && s.costs.Overdue() {
		costs, err = s.ensureCosts(ctx, c, s.options.Lean && s.target.Len() > 0)
		return costs, false, err
	}
	p, err := s.passes(c)
	if err == nil {
		costs, guessed = s.costs.Guess(p)
	}
	return costs, guessed, err
}

// check refuses settings beyond the session's models.
func (s *Session) check(r *Request) error {
	for _, id := range r.StopTokenIDs {
		if vocab := s.target.Limits().Vocab; id < 0 || int(id) >= vocab {
			return spec.Refuse("stop_token_ids", "names token %d, want 0 to %d", id, vocab-1)
		}
	}
	if r.LogProbs && !r.TellsLogProbs() {
		return fmt.Errorf("foretoken: the verifier of policy %s leaves its distributions on the device; for "+
			"log-probabilities use a method that verifies by match, or temperature 0", r.Policy)
	}
	if most := s.target.Limits().TopK; r.TopLogProbs > most {
		return spec.Refuse("top_logprobs", "is %d, and the session was opened with %d candidates a position",
			r.TopLogProbs, most)
	}
	return nil
}

// recover replaces a device that was lost while a job ran, and records the job's programs again.
func (s *Session) recover(ctx context.Context, cause error, j *job) error {
	return s.retry(ctx, cause, func() error {
		if err := s.warmUpFor(ctx, j.config); err != nil {
			return err
		}
		return s.record(j.config, j.request.Sampling().Temperature, j.request.Constraints.Needs())
	})
}
