package foretoken

import (
	"context"
	"fmt"

	"foretoken/internal/kind"
	"foretoken/models/constrain"
	"foretoken/spec"
	"foretoken/spec/adapt"
	"foretoken/spec/goodput"
	"foretoken/spec/method"
)

// job is a request as the session runs it. It is resolved once and does not change.
type job struct {
	request    *Request
	config     method.Config // with the session's calibrations and costs, and trees that it need not wait for
	generator  *spec.Generator
	constraint *constrain.Constraint // nil without constraints
	guessed    bool                  // it decides by costs that were not timed
}

// newJob resolves a request, or refuses it. If the device is lost meanwhile, it reopens the device and resolves the
// request again.
func (s *Session) newJob(ctx context.Context, r *Request) (*job, error) {
	if err := r.validateNumbers(); err != nil {
		return nil, kind.Of(ErrRequest, err)
	}
	if err := s.pair.Ensure(ctx); err != nil {
		return nil, err
	}
	var j *job
	resolve := func() (err error) {
		if j, err = s.resolve(ctx, r); err != nil && !s.pair.LostBy(err) {
			err = kind.Of(ErrRequest, err)
		}
		return err
	}
	err := s.pair.Retry(ctx, resolve(), resolve)
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
		if c.Fitted.Costs, j.guessed, err = s.costsOf(ctx, c, s.startsFast(c)); err != nil {
			return nil, err
		}
	}
	if s.startsFast(c) && !s.warmup.Done() && c.Nodes <= s.MaxNodes() {
		c = c.Limit(firstNodes)
	}
	j.config = c
	if j.generator, err = s.pair.Compile(c, r.Sampling().Temperature, s.vocab.Needs(&r.Constraints)); err != nil {
		return nil, err
	}
	if err := r.check(s.limits); err != nil {
		return nil, err
	}
	j.constraint, err = constrain.New(ctx, r.Constraints, s.vocab)
	return j, err
}

// configOf returns a request's method with the session's calibrations, unless the request brings its own. Trees of auto
// that the request does not limit fit the target.
func (s *Session) configOf(r *Request) (c method.Config, err error) {
	c = r.Config()
	c.Fitted = r.Fitted
	if r.Nodes == 0 {
		c = c.Limit(s.MaxNodes())
	}
	if c.Carry && c.Fitted.AdaSD == nil {
		c.Fitted.AdaSD = &s.adasd
	}
	ids, times := s.pair.IDs, &s.times[goodput.SmallDraft]
	if c.Source == method.SourceEAGLE3 {
		ids, times = s.pair.HeadIDs, &s.times[goodput.EAGLE3]
	}
	switch c.Adapt {
	case method.AdaptAcceptance:
		c.Fitted.Times = times
		if c.Fitted.Head == nil {
			c.Fitted.Head, err = adapt.AcceptanceFor(s.fitted.Heads, ids, c.AcceptanceUse(r.Sampling().Temperature))
		}
	case method.AdaptHetero:
		if c.Fitted.Hetero == nil {
			c.Fitted.Hetero, err = adapt.HeteroFor(s.fitted.Hetero, ids.WithTree(c.TopK, c.Depth, c.Nodes))
		}
	case method.AdaptC2T:
		if c.Fitted.C2T == nil && s.fitted.C2T != nil {
			c.Fitted.C2T, err = s.fitted.C2T, s.fitted.C2T.Matches(ids)
		}
	}
	return c, err
}

// check refuses settings beyond the target's limits.
func (r *Request) check(limits spec.Limits) error {
	for _, id := range r.StopTokenIDs {
		if id < 0 || int(id) >= limits.Vocab {
			return spec.Refuse("stop_token_ids", "names token %d, want 0 to %d", id, limits.Vocab-1)
		}
	}
	if r.LogProbs && !r.TellsLogProbs() {
		return fmt.Errorf("foretoken: the verifier of policy %s leaves its distributions on the device; for "+
			"log-probabilities use a method that verifies by match, or temperature 0", r.Policy)
	}
	if r.TopLogProbs > limits.TopK {
		return spec.Refuse("top_logprobs", "is %d, and the session was opened with %d candidates a position",
			r.TopLogProbs, limits.TopK)
	}
	return nil
}

// recover replaces a device that was lost while a job ran, and records the job's programs again.
func (s *Session) recover(ctx context.Context, cause error, j *job) error {
	return s.pair.Retry(ctx, cause, func() error {
		if err := s.warmUpFor(ctx, j.config); err != nil {
			return err
		}
		return s.pair.Record(j.config, j.request.Sampling().Temperature, s.vocab.Needs(&j.request.Constraints))
	})
}
