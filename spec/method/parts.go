package method

import (
	"cmp"
	"fmt"

	"foretoken/spec"
	"foretoken/spec/adapt"
	"foretoken/spec/draft"
	"foretoken/spec/goodput"
)

// New builds a generator as the config says; see Config.Parts.
func New(target spec.Target, c Config, drafts ...spec.DraftModel) (*spec.Generator, error) {
	p, err := c.Parts(target, drafts...)
	if err != nil {
		return nil, err
	}
	return spec.New(target, p)
}

// modelOf is the model that a config's drafter uses, where it uses one; nil: there is none.
func modelOf(c *Config, m goodput.Models) spec.DraftModel {
	if c.Source == SourceEAGLE3 {
		return m[goodput.EAGLE3]
	}
	return m[goodput.SmallDraft]
}

// Parts builds what the config names for a target and its drafts and refuses settings beyond their limits. drafts are
// the draft model and the EAGLE-3 head; either may be nil or missing. Auto weighs both unless Source names one; other
// drafters use what Source names. A chain to be verified by what it was drawn from is sampled, and ranked otherwise.
func (c Config) Parts(target spec.Target, drafts ...spec.DraftModel) (spec.Parts, error) {
	if err := c.Validate(); err != nil {
		return spec.Parts{}, err
	}
	var m goodput.Models
	copy(m[:], drafts)
	b := c.Budget()
	if rows := target.Limits().MaxRows; b.Nodes > rows {
		return spec.Parts{}, fmt.Errorf("spec: %d nodes a round, but the target verifies at most %d in one pass",
			b.Nodes, rows)
	}
	if c.UsesDraftModel() {
		model := modelOf(&c, m)
		if model == nil {
			return spec.Parts{}, fmt.Errorf("spec: the %s drafter needs a draft model", c.Drafter)
		}
		if lim := model.Limits(); b.Width > lim.TopK || b.Width > lim.MaxRows {
			return spec.Parts{}, spec.Refuse("top_k", "is %d, but the draft model keeps at most %d", b.Width,
				min(lim.TopK, lim.MaxRows))
		}
	}
	p := spec.Parts{Policy: spec.Fixed(b), Verifier: verifierNamed(c.Verifier).build(c), Lossy: c.Exactness() == Lossy}
	for _, model := range m {
		if model != nil {
			p.Models = append(p.Models, model)
		}
	}
	if err := drafterNamed(c.Drafter).parts(c, &p, target, m); err != nil {
		return spec.Parts{}, err
	}
	return p, nil
}

// noModel builds the parts of a drafter that needs no model.
func noModel(drafter func(c Config) spec.Drafter) partsFunc {
	return func(c Config, p *spec.Parts, _ spec.Target, _ goodput.Models) error {
		p.Drafter = drafter(c)
		return nil
	}
}

func shapeParts(c Config, p *spec.Parts, _ spec.Target, m goodput.Models) error {
	p.Drafter = &draft.StaticTree{Model: modelOf(&c, m), Shape: c.Shape, Drawn: c.Samples(),
		Uncoupled: c.uncoupled()}
	return nil
}

func autoParts(c Config, p *spec.Parts, target spec.Target, m goodput.Models) error {
	for i := range m {
		if c.Source != "" && Sources()[i] != c.Source {
			m[i] = nil
		}
	}
	g := &goodput.Goodput{
		Models:    m,
		Costs:     c.Fitted.Costs,
		Levels:    c.Depth + 1,
		Width:     c.TopK,
		Nodes:     min(c.Budget().Nodes, target.Limits().MaxRows),
		Uncoupled: c.uncoupled(),
		Mode:      cmp.Or(c.Verifier, VerifierMatch),
	}
	p.Drafter, p.Policy = g, g
	return nil
}

// treeParts sets the drafter of EAGLE-2's tree, the adapter's where it has one.
func treeParts(c Config, p *spec.Parts, _ spec.Target, m goodput.Models) error {
	tree, model := adapterNamed(c.Adapt).tree, modelOf(&c, m)
	if tree == nil {
		p.Drafter = &draft.TreeDrafter{Model: model, Uncoupled: c.uncoupled()}
		return nil
	}
	return tree(c, model, p)
}

func heteroTree(c Config, model spec.DraftModel, p *spec.Parts) error {
	p.Drafter = &adapt.HeteroDrafter{
		Model:          model,
		HeteroSettings: c.heteroSettings(),
		Bins:           c.Fitted.Hetero,
		Uncoupled:      c.uncoupled(),
	}
	return c.Fitted.Hetero.MatchesTree(c.heteroSettings())
}

func c2tTree(c Config, model spec.DraftModel, p *spec.Parts) error {
	p.Drafter = &adapt.C2TDrafter{
		Model: model, Classifier: c.Fitted.C2T, TopK: c.TopK, Depth: c.Depth + 1,
		Beta: cmp.Or(c.Threshold, adapt.DefaultBeta), OnePruning: c.OnePruning, Uncoupled: c.uncoupled(),
	}
	return nil
}

func acceptanceTree(c Config, model spec.DraftModel, p *spec.Parts) error {
	stop := c.acceptanceStop()
	p.Drafter = &adapt.AcceptanceDrafter{Model: model, Stop: &stop, Uncoupled: c.uncoupled()}
	return nil
}

func adaEDLTree(c Config, model spec.DraftModel, p *spec.Parts) error {
	rule := c.adaEDL()
	p.Drafter, p.Policy = &adapt.AdaEDLDrafter{Model: model, Rule: rule, Uncoupled: c.uncoupled()}, rule
	return nil
}

func c2tRule(c Config, _ spec.Verifier) draft.ChainRule {
	return &adapt.C2TRule{Fixed: spec.Fixed(chainBudget(&c)), Classifier: c.Fitted.C2T,
		Beta: cmp.Or(c.Threshold, adapt.DefaultChainBeta)}
}

func acceptanceRule(c Config, _ spec.Verifier) draft.ChainRule {
	return &adapt.AcceptanceRule{AcceptanceStop: c.acceptanceStop(), Budget: chainBudget(&c)}
}

// acceptanceStop returns the stop of an acceptance head, which goes on from the session's times.
func (c Config) acceptanceStop() adapt.AcceptanceStop {
	return adapt.AcceptanceStop{H: c.Threshold, Any: c.Any, PerBranch: c.PerBranch,
		Times: cmp.Or(c.Fitted.Times, &adapt.PassTimes{})}
}

func adasdRule(c Config, verifier spec.Verifier) draft.ChainRule {
	if both, ok := verifier.(*adapt.AdaSD); ok {
		return both // one state for both thresholds
	}
	return c.adasd()
}

func (c Config) heteroSettings() adapt.HeteroSettings {
	return adapt.HeteroSettings{
		Depth: c.Depth, TopK: c.TopK, Nodes: c.Nodes,
		NoExtension: c.NoExtension, NoPruning: c.NoPruning, Alpha: c.Alpha,
	}
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
		Budget:    drafterNamed(c.Drafter).budget(&c),
	}
	a.Start()
	return a
}

// uncoupled tells whether candidates are ranked without the target's noise. A target that
// emits its most likely token whatever the temperature draws with none.
func (c Config) uncoupled() bool { return c.Uncoupled || c.emitsArgmax() }

// emitsArgmax tells whether the target emits its most likely token at any temperature.
func (c Config) emitsArgmax() bool { return c.Verifier == VerifierMARS && c.Mode != MARSSampled }

// chainParts sets the drafter of a chain and the rule that ends it.
func chainParts(c Config, p *spec.Parts, _ spec.Target, m goodput.Models) error {
	model := modelOf(&c, m)
	var rule draft.ChainRule
	if a := adapterNamed(c.Adapt); a.chain != nil {
		rule = a.chain(c, p.Verifier)
		p.Policy = rule
	}
	if c.Samples() {
		// Rejection sampling needs draws that the target's do not depend on.
		rejection := c.Exactness() == ExactDistribution
		p.Drafter = &draft.SampledChain{
			Model: model, Rule: rule, Coupled: !rejection && !c.Uncoupled, Matched: rejection,
		}
		return nil
	}
	if rule == nil {
		p.Drafter = &draft.TreeDrafter{Model: model, Uncoupled: c.uncoupled()}
		return nil
	}
	p.Drafter = &draft.RankedChain{Model: model, Rule: rule, Cut: adapterNamed(c.Adapt).cuts, Uncoupled: c.uncoupled()}
	return nil
}
