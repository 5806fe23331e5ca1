package foretoken

import (
	"cmp"

	"foretoken/spec"
	"foretoken/spec/adapt"
	"foretoken/spec/goodput"
	"foretoken/spec/method"
)

// compile records the programs of a request, whose config configOf returned, and returns its round loop.
func (s *Session) compile(r *Request, c method.Config) (*spec.Generator, error) {
	drafts, err := s.drafts(c)
	if err != nil {
		return nil, err
	}
	g, err := method.New(s.target, c, drafts[:]...)
	if err != nil {
		return nil, err
	}
	return g, s.record(c, r.Sampling().Temperature, r.Constraints.Needs())
}

// record records the programs of a config, so that no kernel compiles between tokens.
func (s *Session) record(c method.Config, temperature float64, adjust spec.AdjustmentKinds) error {
	drafts, err := s.drafts(c)
	if err != nil {
		return err
	}
	if drafts.one() == nil {
		p := c.Programs(temperature, spec.Limits{})
		p.Adjust = adjust
		return s.target.Prepare(p)
	}
	for _, d := range drafts {
		if d == nil {
			continue
		}
		p := c.Programs(temperature, d.Limits())
		p.Model, p.Adjust = d, adjust
		if err := s.target.Prepare(p); err != nil {
			return err
		}
		if err := d.Prepare(p); err != nil {
			return err
		}
	}
	return nil
}

// drafts are the models that a config drafts with: the draft model and the EAGLE-3 head, in this order, with nil for
// one that is not there or not used. Auto uses both unless its source names one.
type drafts [goodput.MostModels]spec.DraftModel

// one returns the draft that is used, where one is.
func (d *drafts) one() spec.DraftModel { return cmp.Or(d[goodput.SmallDraft], d[goodput.EAGLE3]) }

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
