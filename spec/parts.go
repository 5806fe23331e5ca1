package spec

import (
	"errors"
	"fmt"
)

// Parts builds what the config names for a pair of models and refuses settings
// beyond their limits. draft is the model or head that Source names; it may be nil
// where UsesDraftModel is false. A chain to be judged by what it was drawn from
// is sampled, and ranked otherwise.
func (c Config) Parts(target Target, draft DraftModel) (Parts, error) {
	if err := c.Validate(); err != nil {
		return Parts{}, err
	}
	b := c.Budget()
	if rows := target.Limits().MaxRows; b.Nodes > rows {
		return Parts{}, fmt.Errorf("spec: %d nodes a round, but the target verifies at most %d in one pass", b.Nodes, rows)
	}
	if c.UsesDraftModel() {
		if draft == nil {
			return Parts{}, fmt.Errorf("spec: the %s drafter needs a draft model", c.Drafter)
		}
		if lim := draft.Limits(); b.Width > lim.TopK || b.Width > lim.MaxRows {
			return Parts{}, fmt.Errorf("spec: top-k is %d, but the draft model keeps at most %d", b.Width, min(lim.TopK, lim.MaxRows))
		}
	}
	p := Parts{Drafter: None{}, Policy: Fixed(b)}
	if err := c.verifier(&p, target); err != nil {
		return Parts{}, err
	}
	if err := c.drafter(&p, target, draft); err != nil {
		return Parts{}, err
	}
	return p, nil
}

// verifier sets p.Verifier.
func (c Config) verifier(p *Parts, target Target) error {
	// Plain decoding gives no verifier anything to compare.
	drafts := c.Drafter != DrafterNone
	switch c.Verifier {
	case VerifierRejection:
		if _, ok := target.(RejectionTarget); !ok && drafts {
			return errors.New("spec: this target cannot verify by rejection sampling")
		}
		p.Verifier = Rejection{}
	case VerifierWithoutReplacement:
		if _, ok := target.(SampledTreeTarget); !ok && drafts {
			return errors.New("spec: this target cannot verify trees drawn without replacement")
		}
		p.Verifier = WithoutReplacement{}
	case VerifierMARS:
		p.Verifier = c.mars()
	case VerifierAdaSD:
		if _, ok := target.(DivergenceTarget); !ok && drafts {
			return errors.New("spec: this target cannot measure how far the draft's distributions are from its own, which the adasd verifier needs")
		}
		p.Verifier = c.adasd()
	default:
		p.Verifier = Match{}
	}
	return nil
}

// drafter sets p.Drafter and, where something adapts it, p.Policy.
func (c Config) drafter(p *Parts, target Target, draft DraftModel) error {
	switch c.Drafter {
	case DrafterNgram:
		p.Drafter = PromptLookup{Max: c.NgramMax, Min: c.NgramMin}
	case DrafterNgramSimple:
		p.Drafter = RecentLookup{Size: c.NgramMax}
	case DrafterNgramMap:
		p.Drafter = MapLookup{Size: c.NgramMax}
	case DrafterStatic:
		return c.static(p, draft)
	case DrafterSampled:
		return c.sampledTree(p, draft)
	case DrafterChain:
		return c.chain(p, draft)
	case DrafterAuto:
		return c.auto(p, target, draft)
	case DrafterEAGLE2:
		switch c.Adapt {
		case AdaptHetero:
			return c.hetero(p, target, draft)
		case AdaptC2T:
			return c.c2t(p, target, draft)
		case AdaptAcceptance:
			return c.acceptance(p, target, draft)
		}
		p.Drafter = &TreeDrafter{Model: draft, Uncoupled: c.uncoupled()}
	}
	return nil
}

// uncoupled tells whether candidates are ranked without the target's noise. A target that
// emits its most likely token whatever the temperature draws with none.
func (c Config) uncoupled() bool {
	return c.Uncoupled || c.Verifier == VerifierMARS && c.Mode != MARSSampled
}

// chain sets the drafter of a chain and the rule that ends it.
func (c Config) chain(p *Parts, draft DraftModel) error {
	rule, err := c.chainRule(p)
	if err != nil {
		return err
	}
	if rule != nil {
		p.Policy = rule
	}
	if c.Samples() {
		model, ok := draft.(SamplingDraft)
		if !ok {
			return fmt.Errorf("spec: the %s verifier needs a draft model that samples, and this one does not", c.Verifier)
		}
		if _, cuts := rule.(ChainCutter); cuts {
			return fmt.Errorf("spec: the %s policy drops drafted tokens for what they are, which the %s verifier does not allow", c.Adapt, c.Verifier)
		}
		// Rejection sampling needs draws that the target's do not depend on.
		p.Drafter = &SampledChain{Model: model, Rule: rule, Coupled: c.Verifier != VerifierRejection && !c.Uncoupled, Matched: c.Verifier == VerifierRejection}
		return nil
	}
	if rule == nil {
		p.Drafter = &TreeDrafter{Model: draft, Uncoupled: c.uncoupled()}
		return nil
	}
	grower, err := c.grower(draft)
	if err != nil {
		return err
	}
	p.Drafter = &RankedChain{Model: grower, Rule: rule, Uncoupled: c.uncoupled()}
	return nil
}

// chainRule is what ends a chain early; nil for a fixed chain.
func (c Config) chainRule(p *Parts) (ChainRule, error) {
	switch c.Adapt {
	case AdaptAssisted:
		return c.assisted(), nil
	case AdaptAdaEDL:
		return c.adaEDL(), nil
	case AdaptAdaSD:
		if both, ok := p.Verifier.(*AdaSD); ok {
			return both, nil // one state for both thresholds
		}
		return c.adasd(), nil
	case AdaptC2T:
		return c.c2tRule()
	case AdaptAcceptance:
		return c.acceptanceRule()
	}
	return nil, nil
}

// grower is the draft model as one whose tree can be grown level by level.
func (c Config) grower(draft DraftModel) (Grower, error) {
	if g, ok := draft.(Grower); ok {
		return g, nil
	}
	what := c.Drafter + " drafter"
	if c.Adapt != "" && c.Adapt != AdaptFixed {
		what = c.Adapt + " policy"
	}
	return nil, fmt.Errorf("spec: the %s needs a draft model whose tree can be grown level by level, and this one's cannot", what)
}
