package foretoken

import (
	"context"
	"fmt"

	"foretoken/spec"
)

// job is a request that is ready to run.
type job struct {
	session   *Session
	request   *Request
	generator *spec.Generator
	guide     *guide // nil without constraints
	guesses   bool   // it decides by costs that were not measured
}

// newJob prepares a request, or refuses it. If the device is lost meanwhile, it reopens the device and prepares again.
func (s *Session) newJob(ctx context.Context, r *Request) (*job, error) {
	if err := r.validateNumbers(); err != nil {
		return nil, ofKind(ErrRequest, err)
	}
	if err := s.ensureDevice(ctx); err != nil {
		return nil, err
	}
	asked := *r
	j := &job{session: s, request: r}
	prepare := func() error {
		*r = asked
		err := j.prepare(ctx)
		if err != nil && !s.lostBy(err) {
			err = ofKind(ErrRequest, err)
		}
		return err
	}
	if err := s.retry(ctx, prepare(), prepare); err != nil {
		return nil, err
	}
	return j, nil
}

// prepare sets the job's generator and guide.
func (j *job) prepare(ctx context.Context) error {
	s, r := j.session, j.request
	j.guesses = false
	if r.Nodes == 0 {
		s.fit(r, s.target.Limits().MaxRows)
	}
	c := r.Config()
	if s.startsLean(c) && !s.overdue() {
		if s.state == first && c.Nodes <= s.target.Limits().MaxRows {
			s.fit(r, firstNodes)
		}
		if r.Fitted.Costs == nil {
			r.Fitted.Costs = s.knownCosts()
			if j.guesses = !s.measuredFor(s.costs, c); j.guesses {
				s.guessed++
			}
		}
	} else {
		if err := s.warmUpFor(ctx, c); err != nil {
			return err
		}
		if err := s.ensureCosts(ctx, r); err != nil {
			return err
		}
	}
	var err error
	if j.generator, err = s.compileRequest(r); err != nil {
		return err
	}
	if err := s.check(r); err != nil {
		return err
	}
	j.guide, err = s.newGuide(ctx, r.Constraints)
	return err
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

// recover is the callback for spec.Options.Recover: it replaces a lost device and records the request's programs again.
func (j *job) recover(ctx context.Context, cause error) error {
	s, c := j.session, j.request.Config()
	return s.retry(ctx, cause, func() error {
		if err := s.warmUpFor(ctx, c); err != nil {
			return err
		}
		_, err := s.compileRequest(j.request)
		return err
	})
}
