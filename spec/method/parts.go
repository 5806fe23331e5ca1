package method

import (
	"cmp"
	"fmt"

	"foretoken/spec"
	"foretoken/spec/adapt"
	"foretoken/spec/draft"
	"foretoken/spec/goodput"
)

// New builds a generator as the config says. model is the draft model and may be nil where the drafter needs none.
func New(target spec.Target, model spec.DraftModel, c Config) (*spec.Generator, error) {
	p, err := c.Parts(target, model)
	if err != nil {
		return nil, err
	}
	return spec.New(target, p)
}

// Parts builds what the config names for a pair of models and refuses settings beyond their limits. model is the
// draft model or head that Source names; it may be nil where UsesDraftModel is false. A chain to be verified by what
// it was drawn from is sampled, and ranked otherwise.
func (c Config) Parts(target spec.Target, model spec.DraftModel) (spec.Parts, error) {
	if err := c.Validate(); err != nil {
		return spec.Parts{}, err
	}
	b := c.Budget()
	if rows := target.Limits().MaxRows; b.Nodes > rows {
		return spec.Parts{}, fmt.Errorf("spec: %d nodes a round, but the target verifies at most %d in one pass",
			b.Nodes, rows)
	}
	if c.UsesDraftModel() {
		if model == nil {
			return spec.Parts{}, fmt.Errorf("spec: the %s drafter needs a draft model", c.Drafter)
		}
		if lim := model.Limits(); b.Width > lim.TopK || b.Width > lim.MaxRows {
			return spec.Parts{}, fmt.Errorf("spec: top-k is %d, but the draft model keeps at most %d", b.Width,
				min(lim.TopK, lim.MaxRows))
		}
	}
	p := spec.Parts{Policy: spec.Fixed(b), Model: model, Verifier: c.verifier()}
	if err := drafterNamed(c.Drafter).parts(c, &p, target, model); err != nil {
		return spec.Parts{}, err
	}
	return p, nil
}

// verifier returns the verifier that the config names.
func (c Config) verifier() spec.Verifier {
	switch c.Verifier {
	case VerifierRejection:
		return spec.Rejection{}
	case VerifierWithoutReplacement:
		return spec.WithoutReplacement{}
	case VerifierMARS:
		return adapt.MARS{Theta: cmp.Or(c.Theta, adapt.MARSTheta), Gap: c.Gap, Sampled: c.Mode == MARSSampled}
	case VerifierAdaSD:
		return c.adasd()
	}
	return spec.Match{}
}

// noModel builds the parts of a drafter that needs no model.
func noModel(drafter func(c Config) spec.Drafter) partsFunc {
	return func(c Config, p *spec.Parts, _ spec.Target, _ spec.DraftModel) error {
		p.Drafter = drafter(c)
		return nil
	}
}

func shapeParts(c Config, p *spec.Parts, _ spec.Target, model spec.DraftModel) error {
	grower, err := c.grower(model)
	if err != nil {
		return err
	}
	d := &draft.ShapedTree{Model: grower, Shape: c.Shape, Uncoupled: c.uncoupled()}
	if c.Drafter == DrafterSampled {
		d.Sampler = grower
	}
	p.Drafter = d
	return nil
}

func autoParts(c Config, p *spec.Parts, target spec.Target, model spec.DraftModel) error {
	g := &goodput.Goodput{
		Model:     model,
		Costs:     c.Fitted.Costs,
		C2T:       c.Fitted.C2T,
		Levels:    c.Depth + 1,
		Width:     c.TopK,
		Nodes:     min(c.Budget().Nodes, target.Limits().MaxRows),
		Uncoupled: c.uncoupled(),
		Mode:      cmp.Or(c.Verifier, VerifierMatch),
	}
	p.Drafter, p.Policy = g, g
	return nil
}

// treeParts sets the drafter of EAGLE-2's tree and what adapts it.
func treeParts(c Config, p *spec.Parts, _ spec.Target, model spec.DraftModel) error {
	if cmp.Or(c.Adapt, AdaptFixed) == AdaptFixed {
		p.Drafter = &draft.TreeDrafter{Model: model, Uncoupled: c.uncoupled()}
		return nil
	}
	grower, err := c.grower(model)
	if err != nil {
		return err
	}
	switch c.Adapt {
	case AdaptHetero:
		if err := c.Fitted.Hetero.FitsTree(c.heteroSettings()); err != nil {
			return err
		}
		p.Drafter = &adapt.HeteroDrafter{
			Model:          grower,
			HeteroSettings: c.heteroSettings(),
			Bins:           c.Fitted.Hetero,
			Uncoupled:      c.uncoupled(),
		}
	case AdaptC2T:
		beta, err := c.beta()
		if err != nil {
			return err
		}
		p.Drafter = &adapt.C2TDrafter{
			Model: grower, Classifier: c.Fitted.C2T, TopK: c.TopK, Depth: c.Depth + 1,
			Beta: beta, OnePruning: c.OnePruning, Uncoupled: c.uncoupled(),
		}
	case AdaptAcceptance:
		p.Drafter = &adapt.AcceptanceDrafter{
			Model:     grower,
			Stop:      &adapt.AcceptanceStop{H: c.Threshold, Any: c.Any},
			Uncoupled: c.uncoupled(),
		}
	}
	return nil
}

func (c Config) heteroSettings() adapt.HeteroSettings {
	return adapt.HeteroSettings{
		Depth: c.Depth, TopK: c.TopK, Nodes: c.Nodes,
		NoExtension: c.NoExtension, NoPruning: c.NoPruning, Alpha: c.Alpha,
	}
}

// beta is C2T's β.
func (c Config) beta() (float64, error) {
	switch {
	case c.Threshold == 0 && c.Drafter == DrafterChain:
		return adapt.DefaultChainBeta, nil
	case c.Threshold == 0:
		return adapt.DefaultBeta, nil
	case c.Threshold >= 1:
		return 0, fmt.Errorf("spec: c2t's threshold is %v, want less than 1: no confidence exceeds it", c.Threshold)
	}
	return c.Threshold, nil
}

// adasd is AdaSD as a verifier, as a rule, or as both.
func (c Config) adasd() *adapt.AdaSD {
	a := &adapt.AdaSD{Variant: c.Variant, Most: min(c.Depth, adapt.AdaSDMost), Carry: c.Carry, Records: c.Fitted.AdaSD}
	if a.Records == nil {
		a.Records = &adapt.AdaSDRecords{}
	}
	return a
}

// assisted is the rule of assisted generation.
func (c Config) assisted() *adapt.Assisted {
	a := &adapt.Assisted{
		Confidence: cmp.Or(c.Threshold, adapt.AssistedConfidence),
		First:      c.Depth,
		Most:       max(c.Depth, adapt.AssistedMost),
		Constant:   c.Schedule == ScheduleConstant,
	}
	if a.Constant {
		a.Most = c.Depth
	}
	a.Start()
	return a
}

// adaEDL is AdaEDL's rule.
func (c Config) adaEDL() *adapt.AdaEDL {
	a := &adapt.AdaEDL{
		Lambda:    cmp.Or(c.Lambda, adapt.AdaEDLLambda),
		Threshold: cmp.Or(c.Threshold, adapt.AdaEDLThreshold),
		Most:      c.Depth,
	}
	a.Start()
	return a
}

// uncoupled tells whether candidates are ranked without the target's noise. A target that
// emits its most likely token whatever the temperature draws with none.
func (c Config) uncoupled() bool {
	return c.Uncoupled || c.Verifier == VerifierMARS && c.Mode != MARSSampled
}

// chainParts sets the drafter of a chain and the rule that ends it.
func chainParts(c Config, p *spec.Parts, _ spec.Target, model spec.DraftModel) error {
	rule, err := c.chainRule(p)
	if err != nil {
		return err
	}
	if rule != nil {
		p.Policy = rule
	}
	if c.Samples() {
		if _, cuts := rule.(draft.ChainCutter); cuts {
			return fmt.Errorf(
				"spec: the %s policy drops drafted tokens for what they are, which the %s verifier does not allow",
				c.Adapt, c.Verifier)
		}
		// Rejection sampling needs draws that the target's do not depend on.
		p.Drafter = &draft.SampledChain{
			Model:   model,
			Rule:    rule,
			Coupled: c.Verifier != VerifierRejection && !c.Uncoupled,
			Matched: c.Verifier == VerifierRejection,
		}
		return nil
	}
	if rule == nil {
		p.Drafter = &draft.TreeDrafter{Model: model, Uncoupled: c.uncoupled()}
		return nil
	}
	grower, err := c.grower(model)
	if err != nil {
		return err
	}
	p.Drafter = &draft.RankedChain{Model: grower, Rule: rule, Uncoupled: c.uncoupled()}
	return nil
}

// chainRule returns the rule that ends a chain early, or nil for a fixed chain.
func (c Config) chainRule(p *spec.Parts) (draft.ChainRule, error) {
	switch c.Adapt {
	case AdaptAssisted:
		return c.assisted(), nil
	case AdaptAdaEDL:
		return c.adaEDL(), nil
	case AdaptAdaSD:
		if both, ok := p.Verifier.(*adapt.AdaSD); ok {
			return both, nil // one state for both thresholds
		}
		return c.adasd(), nil
	case AdaptC2T:
		beta, err := c.beta()
		if err != nil {
			return nil, err
		}
		return &adapt.C2TRule{Fixed: spec.Fixed(c.Budget()), Classifier: c.Fitted.C2T, Beta: beta}, nil
	case AdaptAcceptance:
		return &adapt.AcceptanceRule{
			AcceptanceStop: adapt.AcceptanceStop{H: c.Threshold, Any: c.Any},
			Budget:         c.Budget(),
		}, nil
	}
	return nil, nil
}

// grower is the draft model as one whose tree can be grown level by level.
func (c Config) grower(model spec.DraftModel) (spec.Grower, error) {
	if g, ok := model.(spec.Grower); ok {
		return g, nil
	}
	what := c.Drafter + " drafter"
	if c.Adapt != "" && c.Adapt != AdaptFixed {
		what = c.Adapt + " policy"
	}
	return nil, fmt.Errorf(
		"spec: the %s needs a draft model whose tree can be grown level by level, and this one's cannot", what)
}
