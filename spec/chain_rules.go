package spec

import "math"

// The defaults of the rules that end chains.
const (
	assistedConfidence = 0.4 // transformers' assistant_confidence_threshold
	assistedMost       = 20  // how far the heuristic schedule may grow (ours: transformers has no end)
	adaEDLLambda       = 0.2 // the factor of the entropy, the paper's γ
	adaEDLThreshold    = 0.5 // where the threshold starts; the paper tries 0.3 to 0.9
)

// Assisted is the assisted generation of Hugging Face's transformers: the chain ends after a
// token that the draft gives less than Confidence, or after so many tokens as the
// schedule allows. The heuristic schedule allows two more after a round that was
// accepted whole and one less, but at least one, after any other.
type Assisted struct {
	Confidence float64
	First      int  // tokens of the first round
	Most       int  // greatest number of tokens
	Constant   bool // always First

	tokens int
}

var (
	_ ChainRule = (*Assisted)(nil)
	_ Starter   = (*Assisted)(nil)
)

func (c Config) assisted() *Assisted {
	return &Assisted{
		Confidence: orDefault(c.Threshold, assistedConfidence), First: c.Depth, Most: c.assistedMost(),
		Constant: c.Schedule == ScheduleConstant, tokens: c.Depth,
	}
}

// assistedMost is how many tokens a round of assisted generation can come to.
func (c Config) assistedMost() int {
	if c.Schedule == ScheduleConstant {
		return c.Depth
	}
	return max(c.Depth, assistedMost)
}

func orDefault(v, zero float64) float64 {
	if v == 0 {
		return zero
	}
	return v
}

// Start begins the schedule anew.
func (a *Assisted) Start() { a.tokens = a.First }

// Plan allows what the schedule has come to.
func (a *Assisted) Plan(Budget) Budget {
	return Budget{Levels: a.tokens, Width: 1, Nodes: a.tokens + 1}
}

// Stop ends the chain after a token of little confidence.
func (a *Assisted) Stop(drawn []Drawn) bool {
	return float64(drawn[len(drawn)-1].Prob) < a.Confidence
}

// Observe moves the schedule.
func (a *Assisted) Observe(e *Event) {
	switch {
	case a.Constant || e.Tree.Len() == 1:
	case len(e.Path) == e.Tree.Len():
		a.tokens = min(a.tokens+2, a.Most)
	default:
		a.tokens = max(a.tokens-1, 1)
	}
}

// AdaEDL ends a chain by a lower bound of the chance that a token is accepted,
// 1-√(Lambda·H) with H the entropy in nats of the distribution it came from: after the
// first token whose bound is below a threshold. The threshold follows the rate of
// acceptance, so that about 0.9 of the drafted tokens are accepted (Agrawal, Jeon,
// Lee, "AdaEDL: Early Draft Stopping for Speculative Decoding of Large Language
// Models via an Entropy-based Lower Bound on Token Acceptance Probability",
// algorithm 1, where Lambda is called γ and the threshold λ).
type AdaEDL struct {
	Lambda    float64
	Threshold float64 // of the first round
	Most      int     // tokens to draft a round, the paper's L

	threshold float64
	rate      float64 // a moving average of accepted over drafted tokens
}

var (
	_ ChainRule = (*AdaEDL)(nil)
	_ Starter   = (*AdaEDL)(nil)
)

// The paper's constants: the rate aimed at, the step of the threshold, and how much of
// rate and threshold a round keeps.
const (
	adaEDLRate          = 0.9
	adaEDLStep          = 0.01
	adaEDLRateKept      = 0.5
	adaEDLThresholdKept = 0.9
)

func (c Config) adaEDL() *AdaEDL {
	a := &AdaEDL{Lambda: orDefault(c.Lambda, adaEDLLambda), Threshold: orDefault(c.Threshold, adaEDLThreshold), Most: c.Depth}
	a.Start()
	return a
}

// Start forgets the last request. The rate starts at the one aimed at (ours).
func (a *AdaEDL) Start() { a.threshold, a.rate = a.Threshold, adaEDLRate }

// Plan drafts up to Most tokens.
func (a *AdaEDL) Plan(Budget) Budget { return Budget{Levels: a.Most, Width: 1, Nodes: a.Most + 1} }

// Stop ends the chain after a token that is likely to be rejected.
func (a *AdaEDL) Stop(drawn []Drawn) bool {
	return 1-math.Sqrt(a.Lambda*float64(drawn[len(drawn)-1].Entropy)) < a.threshold
}

// Observe moves the threshold.
func (a *AdaEDL) Observe(e *Event) {
	drafted, accepted := e.Tree.Len()-1, len(e.Path)-1
	if drafted == 0 {
		return
	}
	a.rate = adaEDLRateKept*a.rate + (1-adaEDLRateKept)*float64(accepted)/float64(drafted)
	next := a.threshold
	if a.rate < adaEDLRate {
		next += adaEDLStep
	} else if accepted != a.Most {
		next -= adaEDLStep
	}
	a.threshold = adaEDLThresholdKept*a.threshold + (1-adaEDLThresholdKept)*next
}
