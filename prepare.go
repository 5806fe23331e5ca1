package foretoken

import (
	"context"

	"foretoken/models/llama"
	"foretoken/spec"
)

// drafter is a model on the device that can draft in every way and makes its programs
// before the first round.
type drafter interface {
	spec.TreeSampler
	spec.SamplingDraft
	// Prepare is for fixed trees, PrepareGrowth for trees grown level by level (expand: by
	// beams that the host chose), PreparePruned for those that C2T's classifier prunes, PrepareChain for sampled chains and PrepareSampled
	// for trees drawn without replacement.
	Prepare(depth, k int) error
	PrepareGrowth(depth, k int, expand bool) error
	PreparePruned(depth, k int, c *spec.C2TClassifier) error
	PrepareChain(count int) error
	PrepareSampled(depth, k int) error
	// UseHead turns an acceptance head on or off; see llama.Draft.
	UseHead(on bool) bool
}

var (
	_ drafter = (*llama.Draft)(nil)
	_ drafter = (*llama.EAGLE3)(nil)
)

// generator builds the round loop of a request.
func (s *Session) generator(r *Request) (*spec.Generator, error) {
	c := r.config()
	c.Aids = r.Aids
	if err := s.fit(&c); err != nil {
		return nil, err
	}
	if err := c.Validate(); err != nil {
		return nil, err
	}
	d, err := s.source(c)
	if err != nil {
		return nil, err
	}
	if s.draft != nil && (c.UsesDraftModel() || c.Drafter == spec.DrafterAuto) {
		if err := s.draft.Warm(); err != nil {
			return nil, err
		}
	}
	if c.Budget().Nodes <= s.target.Limits().MaxRows { // spec says what is wrong with more
		if err := s.prepareTarget(d, c, r.Temperature); err != nil {
			return nil, err
		}
		if masks, biases := r.Constraints.shapes(); masks || biases {
			if err := s.target.PrepareShapes(max(c.Budget().Nodes, 1), masks, biases); err != nil {
				return nil, err
			}
		}
	}
	if d == nil {
		return spec.New(s.target, nil, c)
	}
	d.UseHead(c.Adapt == spec.AdaptAcceptance)
	if c.UsesDraftModel() || c.Drafter == spec.DrafterAuto {
		if err := prepare(d, c, r.Temperature); err != nil {
			return nil, err
		}
	}
	return spec.New(s.target, d, c)
}

// assemble is the generator of a request and what it waits for before it drafts; nil: nothing.
func (s *Session) assemble(ctx context.Context, r *Request) (*spec.Generator, *wait, error) {
	c := r.config()
	if !s.defers(c) || c.Validate() != nil { // the generator says what is wrong with it
		if c.UsesDraftModel() && s.lean {
			if err := s.warmUp(ctx); err != nil {
				return nil, nil, err
			}
		}
		if err := s.weigh(ctx, r); err != nil {
			return nil, nil, err
		}
		g, err := s.generator(r)
		return g, nil, err
	}
	w := &wait{s: s, r: r, c: c, costs: r.Aids.Costs}
	if w.costs == nil {
		w.costs, w.kept = s.knownCosts()
		w.weigh = w.kept || !w.costs.Measured(s.weighedRows(c), s.draft != nil)
	}
	r.Aids.Costs = w.costs
	if !w.weigh && s.warming.state == warm {
		s.measured = w.costs
		w.done = true
		g, err := s.generator(r)
		return g, w, err
	}
	c.Aids = r.Aids
	var model spec.DraftModel
	if s.draft != nil {
		model = s.draft
	}
	g, err := spec.New(s.target, model, c)
	return g, w, err
}

// wait is what a request of auto in a lean session waits for before it drafts: what is missing is made after the first
// token. The last of it are this request's own programs, and what passes cost.
type wait struct {
	s           *Session
	r           *Request
	c           spec.Config
	costs       *spec.Costs
	kept, weigh bool // the costs are of an earlier session, and to be measured
	made, done  bool
}

// asked is spec.Options.Ready.
func (w *wait) asked() func(context.Context) (bool, error) {
	if w == nil || w.done {
		return nil
	}
	return w.ready
}

func (w *wait) ready(ctx context.Context) (bool, error) {
	s := w.s
	if done, err := s.advance(); err != nil || !done {
		return false, err
	}
	if !w.made {
		w.made = true
		return false, s.makeReady(w.r)
	}
	if w.weigh {
		if err := s.measure(ctx, w.costs, w.c, s.weighedRows(w.c), w.kept, true); err != nil {
			return false, err
		}
		s.measured, w.weigh = w.costs, false
	}
	w.done = true
	return true, nil
}

// prepareTarget makes the target's programs for a config's largest tree and its verifier.
func (s *Session) prepareTarget(d drafter, c spec.Config, temperature float64) error {
	c = c.At(temperature)
	b := c.Budget()
	switch {
	case c.Drafter == spec.DrafterSampled && c.Verifier == spec.VerifierWithoutReplacement:
		return s.target.PrepareJointSampled(d, b.Width, b.Levels, b.Nodes)
	case c.Drafter == spec.DrafterChain && (c.Verifier == spec.VerifierRejection || c.Verifier == spec.VerifierAdaSD):
		return s.target.PrepareJointChain(d, b.Levels)
	}
	if err := s.target.Prepare(max(b.Nodes, 1)); err != nil {
		return err
	}
	if d != nil && c.Joins() {
		return s.target.PrepareJoint(d, b.Width)
	}
	return nil
}

// source is what a config drafts with; nil where there is nothing and nothing is needed.
func (s *Session) source(c spec.Config) (drafter, error) {
	switch {
	case c.Source == spec.SourceEAGLE3 && s.head != nil:
		return s.head, nil
	case c.Source == spec.SourceEAGLE3:
		return nil, errNoHead
	case s.draft != nil:
		return s.draft, nil
	case c.UsesDraftModel():
		return nil, errNoDraft
	}
	return nil, nil
}

// fit gives a config what was fitted to the pair and is needed by it, unless the request
// brought its own.
func (s *Session) fit(c *spec.Config) error {
	if c.Carry && c.Aids.AdaSD == nil {
		c.Aids.AdaSD = &s.adasd
	}
	pair := s.pair
	if c.Source == spec.SourceEAGLE3 {
		pair = s.headPair
	}
	// An acceptance head reads the hidden states of the draft model.
	c.Aids.Head = c.Aids.Head || c.Source != spec.SourceEAGLE3 && s.fitted.Head != nil && s.draft != nil
	var err error
	switch c.Adapt {
	case spec.AdaptHetero:
		if c.Aids.Hetero == nil {
			c.Aids.Hetero, err = s.fitted.HeteroFor(pair.Shaped(*c))
		}
	case spec.AdaptC2T:
		if c.Aids.C2T == nil && s.fitted.C2T != nil {
			c.Aids.C2T, err = s.fitted.C2T, s.fitted.C2T.Matches(pair)
		}
	}
	return err
}

// prepare makes the programs of a way to draft, so that nothing is compiled between tokens.
func prepare(d drafter, c spec.Config, temperature float64) error {
	c = c.At(temperature)
	b := c.Budget()
	if b.Levels < 1 {
		return nil
	}
	grown := func(expand bool) error { return d.PrepareGrowth(b.Levels-1, b.Width, expand) }
	switch {
	case c.Drafter == spec.DrafterAuto:
		for _, k := range spec.DraftWidths(b.Width, d.Limits()) {
			if err := d.PrepareGrowth(b.Levels-1, k, false); err != nil {
				return err
			}
		}
		return nil
	case c.Drafter == spec.DrafterSampled:
		return d.PrepareSampled(b.Levels-1, b.Width)
	case c.Drafter == spec.DrafterStatic:
		return grown(true)
	case c.Samples():
		return d.PrepareChain(b.Levels)
	case c.Adapt == spec.AdaptC2T && c.Drafter != spec.DrafterChain && c.OnePruning:
		return grown(true)
	case c.Adapt == spec.AdaptC2T && c.Drafter != spec.DrafterChain:
		return d.PreparePruned(b.Levels-1, b.Width, c.Aids.C2T)
	case c.Adapt == spec.AdaptHetero && c.NoAdaptation:
		return d.Prepare(c.Depth, b.Width)
	}
	return grown(false)
}
