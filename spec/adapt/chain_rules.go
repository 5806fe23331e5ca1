package adapt

import (
	"math"

	"foretoken/spec"
	"foretoken/spec/draft"
)

// Default settings of the rules that end chains.
const (
	AssistedConfidence = 0.4 // transformers' assistant_confidence_threshold
	AssistedMost       = 20  // limit of the heuristic schedule; transformers has none
	AdaEDLLambda       = 0.2 // the factor of the entropy, the paper's γ
	AdaEDLThreshold    = 0.5 // initial threshold; the paper tries 0.3 to 0.9
)

// Assisted is the assisted generation of Hugging Face's transformers: the chain ends after a token of draft
// probability below Confidence, or at the length that the schedule allows. The heuristic schedule allows two more
// tokens after a round that accepted its complete chain, and one less, but at least one, after any other round.
type Assisted struct {
	Confidence float64
	First      int  // tokens of the first round
	Most       int  // maximum number of tokens
	Constant   bool // always First

	tokens int
}

var (
	_ draft.ChainRule = (*Assisted)(nil)
	_ spec.Learner    = (*Assisted)(nil)
)

// Start resets the schedule.
func (a *Assisted) Start() { a.tokens = a.First }

// NextBudget allows the schedule's current length.
func (a *Assisted) NextBudget(spec.Budget) spec.Budget { return spec.ChainBudget(a.tokens) }

// Stop ends the chain after a token of low confidence.
func (a *Assisted) Stop(drawn []spec.Drawn) bool {
	return float64(drawn[len(drawn)-1].Prob) < a.Confidence
}

// Observe updates the schedule.
func (a *Assisted) Observe(e *spec.Event) {
	switch {
	case a.Constant || e.Tree.Len() == 1:
	case len(e.Path) == e.Tree.Len():
		a.tokens = min(a.tokens+2, a.Most)
	default:
		a.tokens = max(a.tokens-1, 1)
	}
}

// AdaEDL ends a draft by a lower bound on the acceptance probability of a token, 1-√(Lambda·H), where H is the
// entropy in nats of the draft's distribution: a chain ends after the first token whose bound is below a
// threshold; see AdaEDLDrafter for trees. The threshold follows the acceptance rate so that about 0.9 of the drafted
// tokens are accepted (Agrawal, Jeon, Lee, "AdaEDL: Early Draft Stopping for Speculative Decoding of Large Language
// Models via an Entropy-based Lower Bound on Token Acceptance Probability", algorithm 1, which calls Lambda γ and the
// threshold λ).
type AdaEDL struct {
	Lambda    float64
	Threshold float64 // of the first round
	// Budget limits a round's draft. Its Levels are the paper's L.
	Budget spec.Budget

	threshold float64
	rate      float64 // moving average of accepted over drafted tokens
}

var (
	_ draft.ChainRule = (*AdaEDL)(nil)
	_ spec.Learner    = (*AdaEDL)(nil)
)

// The paper's constants: the target acceptance rate, the step of the threshold, and the weights of the old rate and
// the old threshold in their moving averages.
const (
	adaEDLRate          = 0.9
	adaEDLStep          = 0.01
	adaEDLRateKept      = 0.5
	adaEDLThresholdKept = 0.9
)

// Start resets the threshold and the rate. The rate starts at its target; the paper does not say.
func (a *AdaEDL) Start() { a.threshold, a.rate = a.Threshold, adaEDLRate }

// NextBudget allows the complete budget.
func (a *AdaEDL) NextBudget(spec.Budget) spec.Budget { return a.Budget }

// Stop ends the chain after a token that is likely to be rejected.
func (a *AdaEDL) Stop(drawn []spec.Drawn) bool { return a.stops(drawn[len(drawn)-1].Entropy) }

// stops reports whether the bound of a token from a distribution of that entropy is below the threshold.
func (a *AdaEDL) stops(entropy float32) bool {
	return 1-math.Sqrt(a.Lambda*float64(entropy)) < a.threshold
}

// Observe updates the rate, accepted tokens over the depth of the tree, and the threshold.
func (a *AdaEDL) Observe(e *spec.Event) {
	drafted, accepted := e.Tree.Depth(), len(e.Path)-1
	if drafted == 0 {
		return
	}
	a.rate = adaEDLRateKept*a.rate + (1-adaEDLRateKept)*float64(accepted)/float64(drafted)
	next := a.threshold
	if a.rate < adaEDLRate {
		next += adaEDLStep
	} else if accepted != a.Budget.Levels {
		next -= adaEDLStep
	}
	a.threshold = adaEDLThresholdKept*a.threshold + (1-adaEDLThresholdKept)*next
}
