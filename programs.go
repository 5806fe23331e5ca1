package foretoken

import (
	"cmp"

	"foretoken/models/llama"
	"foretoken/spec"
	"foretoken/spec/adapt"
	"foretoken/spec/goodput"
	"foretoken/spec/method"
)

// drafter is a draft model on a device: it drafts in every way and records its programs before the first round.
type drafter interface {
	spec.DraftModel
	// Prepare records programs for trees of fixed size, PrepareGrowth for trees grown level by level (expand: from
	// beams that the host chose), PreparePruned for trees pruned by C2T's classifier, PrepareChain for sampled chains
	// and PrepareSampled for trees drawn without replacement.
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

// compile records the programs of a request, whose config configOf returned, and returns its round loop.
func (s *Session) compile(r *Request, c method.Config) (*spec.Generator, error) {
	drafts, err := s.drafts(c)
	if err != nil {
		return nil, err
	}
	var models [len(drafts)]spec.DraftModel
	for i, d := range drafts {
		models[i] = d
	}
	g, err := method.New(s.target, c, models[:]...)
	if err != nil {
		return nil, err
	}
	return g, s.record(c, r.Sampling().Temperature, r.Constraints.Needs())
}

// record records the programs of a config, so that no kernel compiles between tokens.
func (s *Session) record(c method.Config, temperature float64, shapes spec.AdjustmentKinds) error {
	drafts, err := s.drafts(c)
	if err != nil {
		return err
	}
	programs := c.Programs(temperature)
	if err := s.recordTarget(drafts, programs); err != nil {
		return err
	}
	if err := s.target.PrepareAdjustments(max(c.Budget().Nodes, 1), shapes); err != nil {
		return err
	}
	for _, d := range drafts {
		if d != nil {
			d.UseHead(c.Adapt == method.AdaptAcceptance)
		}
	}
	return drafts.record(c, programs)
}

// drafts are the models that a config drafts with: the draft model and the EAGLE-3 head, in this order, with nil for
// one that is not there or not used. Auto uses both unless its source names one.
type drafts [goodput.MostModels]drafter

// one returns the draft that is used, where one is.
func (d *drafts) one() drafter { return cmp.Or(d[goodput.SmallDraft], d[goodput.EAGLE3]) }

// recordTarget records the target's programs for a config's largest tree and its verifier.
func (s *Session) recordTarget(all drafts, p method.Programs) error {
	b := p.Budget
	switch p.Pass {
	case spec.PassSampled:
		return s.target.PrepareJointSampled(all.one(), b.Width, b.Levels, b.Nodes)
	case spec.PassChain, spec.PassDivergence:
		return s.target.PrepareJointChain(all.one(), b.Levels)
	}
	if err := s.target.Prepare(max(b.Nodes, 1)); err != nil || !p.Joint {
		return err
	}
	for _, d := range all {
		if d == nil {
			continue
		}
		widths := []int{b.Width}
		if p.Draft == method.DraftWidths {
			widths = goodput.DraftWidths(b.Width, d.Limits())
		}
		for _, k := range widths {
			if err := s.target.PrepareJoint(d, k); err != nil {
				return err
			}
		}
	}
	return nil
}

// drafts returns the models that a config drafts with: none if the session has none and the config needs none.
func (s *Session) drafts(c method.Config) (d drafts, err error) {
	both := c.WeighsCosts() && c.Source == ""
	if s.draft != nil && c.Source != method.SourceEAGLE3 {
		d[goodput.SmallDraft] = s.draft
	}
	if s.head != nil && (both || c.Source == method.SourceEAGLE3) {
		d[goodput.EAGLE3] = s.head
	}
	switch {
	case c.Source == method.SourceEAGLE3 && s.head == nil:
		err = errNoHead
	case c.UsesDraftModel() && d.one() == nil:
		err = errNoDraft
	}
	return d, err
}

// addCalibrations adds the session's calibrations to a config that needs them, unless the request brings its own.
func (s *Session) addCalibrations(c *method.Config) error {
	if c.Carry && c.Fitted.AdaSD == nil {
		c.Fitted.AdaSD = &s.adasd
	}
	pair := s.pair
	if c.Source == method.SourceEAGLE3 {
		pair = s.headPair
	}
	// An acceptance head reads the hidden states of the draft model.
	c.Fitted.Head = c.Fitted.Head || c.Source != method.SourceEAGLE3 && s.fitted.Head != nil && s.draft != nil
	var err error
	switch c.Adapt {
	case method.AdaptHetero:
		if c.Fitted.Hetero == nil {
			c.Fitted.Hetero, err = adapt.HeteroFor(s.fitted.Hetero, pair.Shaped(c.TopK, c.Depth, c.Nodes))
		}
	case method.AdaptC2T:
		if c.Fitted.C2T == nil && s.fitted.C2T != nil {
			c.Fitted.C2T, err = s.fitted.C2T, s.fitted.C2T.Matches(pair)
		}
	}
	return err
}

// record records the programs of the drafts for a config.
func (d *drafts) record(c method.Config, p method.Programs) error {
	for _, one := range d {
		if one == nil {
			continue
		}
		if err := recordDraft(one, c, p); err != nil {
			return err
		}
	}
	return nil
}

func recordDraft(d drafter, c method.Config, p method.Programs) error {
	width := p.Budget.Width
	switch p.Draft {
	case method.DraftTree:
		return d.Prepare(p.Depth, width)
	case method.DraftGrown, method.DraftExpanded:
		return d.PrepareGrowth(p.Depth, width, p.Draft == method.DraftExpanded)
	case method.DraftPruned:
		return d.PreparePruned(p.Depth, width, c.Fitted.C2T)
	case method.DraftChain:
		return d.PrepareChain(p.Budget.Levels)
	case method.DraftSampled:
		return d.PrepareSampled(p.Depth, width)
	case method.DraftWidths:
		for _, k := range goodput.DraftWidths(width, d.Limits()) {
			if err := d.PrepareGrowth(p.Depth, k, false); err != nil {
				return err
			}
		}
	}
	return nil
}
