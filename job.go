package foretoken

import (
	"context"
	"fmt"

	"foretoken/spec"
	"foretoken/spec/method"
)

// job is a request that is ready to run.
type job struct {
	session   *Session
	request   *Request
	generator *spec.Generator
	guide     *guide    // nil without constraints
	deferral  *deferral // nil: the request drafts from its first round on
	guesses   bool      // it decides by costs that were not measured
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

// prepare sets the job's generator, deferral and guide.
func (j *job) prepare(ctx context.Context) error {
	s, r, c := j.session, j.request, j.request.Config()
	j.deferral, j.guesses = nil, false
	var err error
	if s.defers(c) && c.Validate() == nil { // compileRequest reports an invalid config
		err = j.deferDrafting(c)
	} else {
		if c.UsesDraftModel() && s.lean {
			if err := s.warmUp(ctx); err != nil {
				return err
			}
		}
		if err := s.ensureCosts(ctx, r); err != nil {
			return err
		}
		j.generator, err = s.compileRequest(r)
	}
	if err != nil {
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

// deferral postpones drafting in a request of auto to a lean session, so that the first token does not wait for
// kernels. Between the request's rounds it advances the warmup, then records the request's own programs. Passes of the
// cpu device, which are short, are timed then; others while the session is idle, because that takes as long as a short
// reply, and until then auto goes by guesses, which rounds correct.
type deferral struct{ measure, recorded, done bool }

// deferDrafting sets a generator that decodes plainly until drafting is ready.
func (j *job) deferDrafting(c method.Config) error {
	s, r := j.session, j.request
	d := &deferral{}
	j.deferral = d
	if r.Fitted.Costs == nil {
		r.Fitted.Costs = s.knownCosts()
		d.measure = !s.timed && s.dev.Info().Host()
		j.guesses = !d.measure && !s.measuredFor(s.costs, c)
	}
	var err error
	if s.state == ready && !d.measure {
		d.done = true // until a device is lost
		j.generator, err = s.compileRequest(r)
		return err
	}
	c.Fitted = r.Fitted
	drafts, err := s.drafts(c)
	if err != nil {
		return err
	}
	j.generator, err = s.generator(drafts, c, r.Temperature)
	return err
}

// readyFunc returns the callback for spec.Options.Ready, or nil where drafting is ready.
func (j *job) readyFunc() func(context.Context) (bool, error) {
	if j.deferral == nil || j.deferral.done {
		return nil
	}
	return j.ready
}

// ready does one step of what drafting still needs and reports whether nothing is left.
func (j *job) ready(ctx context.Context) (bool, error) {
	s, d := j.session, j.deferral
	if done, err := s.advance(); err != nil || !done {
		return false, err
	}
	if !d.recorded {
		d.recorded = true
		_, err := s.compileRequest(j.request)
		return false, err
	}
	if d.measure {
		if err := s.measureCosts(ctx, j.request.Config(), true); err != nil {
			return false, err
		}
		d.measure = false
	}
	d.done = true
	return true, nil
}

// recover is the callback for spec.Options.Recover: it replaces a lost device and records the request's programs again.
func (j *job) recover(ctx context.Context, cause error) (func(context.Context) (bool, error), error) {
	s := j.session
	err := s.retry(ctx, cause, func() error {
		if d := j.deferral; d != nil { // the request decodes plainly until its programs are recorded again
			d.recorded, d.done = false, false
			return nil
		}
		if c := j.request.Config(); c.UsesDraftModel() && s.lean {
			if err := s.warmUp(ctx); err != nil {
				return err
			}
		}
		_, err := s.compileRequest(j.request)
		return err
	})
	return j.readyFunc(), err
}
