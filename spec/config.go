package spec

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
)

// The drafters a Config names: where drafted tokens come from, and in which shape.
const (
	DrafterNone        = "none"         // plain decoding
	DrafterChain       = "chain"        // the draft's best token, Depth times over
	DrafterEAGLE2      = "eagle2"       // a tree of Depth+1 levels, reranked to Nodes
	DrafterStatic      = "static"       // a tree of a fixed Shape: so many of the best at each rank
	DrafterSampled     = "sampled"      // a tree of a fixed Shape whose children are drawn without replacement
	DrafterNgram       = "ngram"        // prompt lookup as in Hugging Face's transformers
	DrafterNgramSimple = "ngram-simple" // lookup as in llama.cpp's ngram-simple
	DrafterNgramMap    = "ngram-map"    // lookup as in llama.cpp's ngram-map-k
	DrafterAuto        = "auto"         // the goodput tree: whatever pays, from measured costs
)

// The sources of draft tokens a Config names.
const (
	SourceModel  = "model"  // the draft model
	SourceEAGLE3 = "eagle3" // an EAGLE-3 head on the target's features
)

// The policies a Config names: what adapts the draft from round to round.
const (
	AdaptFixed      = "fixed"      // nothing does
	AdaptHetero     = "hetero"     // HeteroSpec's entropy bins, on eagle2
	AdaptC2T        = "c2t"        // C2T's classifier, on eagle2 (in place of its ranking) and chain
	AdaptAcceptance = "acceptance" // an acceptance head stops drafting, on eagle2 and chain
	AdaptAdaEDL     = "adaedl"     // an entropy bound stops the chain
	AdaptAssisted   = "assisted"   // Hugging Face's assisted generation: confidence and schedule, on chain
	AdaptAdaSD      = "adasd"      // AdaSD's generation threshold, on chain
)

// The verifiers a Config names.
const (
	VerifierMatch              = "match"               // sample-and-match: exactly the tokens of plain decoding
	VerifierRejection          = "rejection"           // chain rejection sampling: exact in distribution
	VerifierWithoutReplacement = "without-replacement" // Sequoia's rule for sampled trees: exact in distribution
	VerifierMARS               = "mars"                // margin-aware: lossy
	VerifierAdaSD              = "adasd"               // divergence below an adaptive threshold: lossy
)

// Modes of MARS and variants of AdaSD, schedules of assisted generation.
const (
	MARSAlg1          = "alg1"
	MARSSampled       = "sampled"
	AdaSDMidpoint     = "midpoint"  // T_v midway between the mean distances of accepted and rejected tokens
	AdaSDA            = "A"         // that of accepted tokens
	AdaSDB            = "B"         // both, weighted by tokens
	AdaSDC            = "C"         // both, weighted by rounds
	ScheduleHeuristic = "heuristic" // +2 after full acceptance, else -1
	ScheduleConstant  = "constant"
)

// Everything a Config names, in the order of the constants.
var (
	drafters  = []string{DrafterNone, DrafterChain, DrafterEAGLE2, DrafterStatic, DrafterSampled, DrafterNgram, DrafterNgramSimple, DrafterNgramMap, DrafterAuto}
	policies  = []string{AdaptFixed, AdaptHetero, AdaptC2T, AdaptAcceptance, AdaptAdaEDL, AdaptAssisted, AdaptAdaSD}
	verifiers = []string{VerifierMatch, VerifierRejection, VerifierWithoutReplacement, VerifierMARS, VerifierAdaSD}
)

// Lossless tells whether a verifier keeps the target's distribution.
func Lossless(verifier string) bool { return verifier != VerifierMARS && verifier != VerifierAdaSD }

// The largest settings a Config accepts; a model's Limits are mostly narrower.
const (
	MaxDepth = 64
	MaxTopK  = 64
	MaxNodes = 4096
)

// Config names a drafter, what adapts it, a verifier, and their settings.
type Config struct {
	Drafter  string `json:"drafter"`
	Source   string `json:"source"`   // "" is SourceModel
	Adapt    string `json:"adapt"`    // "" is AdaptFixed
	Verifier string `json:"verifier"` // "" is VerifierMatch
	// Depth is EAGLE-2's d: passes after the root's, giving d+1 levels of tokens.
	// For a chain and for n-grams it is the number of tokens drafted a round.
	Depth int `json:"depth"`
	TopK  int `json:"top_k"` // EAGLE-2's k: candidates per beam and beams per level; C2T's K
	Nodes int `json:"nodes"` // EAGLE-2's N: nodes verified, the root included
	// Shape of a static or sampled tree: Shape[d][r] is how many children the node of
	// rank r at depth d has, ranks counting a level's nodes from 0 in order.
	Shape [][]int `json:"shape,omitempty"`
	// NgramMax and NgramMin bound the sizes of n-gram looked up by DrafterNgram, longest
	// first; DrafterNgramSimple and DrafterNgramMap look up NgramMax only.
	NgramMax int `json:"ngram_max"`
	NgramMin int `json:"ngram_min"`
	// Uncoupled ranks candidates by ln q alone above temperature 0, where by default
	// the noise that the target will draw with is added; see TreeDrafter.
	Uncoupled bool `json:"uncoupled"`

	Knobs

	Aids Aids `json:"-"`
}

// Knobs are the settings that single methods have. The zero value is every method's
// default.
type Knobs struct {
	// Threshold is the policy's own: assisted's confidence, AdaEDL's λ-bound, C2T's β,
	// the acceptance head's h. 0 is the method's default; for the head that is to
	// work h out of measured costs.
	Threshold float64 `json:"threshold,omitempty"`
	Lambda    float64 `json:"lambda,omitempty"`   // AdaEDL's λ; 0: its default
	Schedule  string  `json:"schedule,omitempty"` // of assisted generation; "" is ScheduleHeuristic
	// Any has the acceptance head stop as soon as one branch is hopeless, in the paper's
	// words, and not when the best one is.
	Any bool `json:"any,omitempty"`
	// NoExtension, NoPruning and NoAdaptation switch off parts of HeteroSpec for its ablation;
	// Alpha, when not 0, is added to its α.
	NoExtension  bool `json:"no_extension,omitempty"`
	NoPruning    bool `json:"no_pruning,omitempty"`
	NoAdaptation bool `json:"no_adaptation,omitempty"`
	Alpha        int  `json:"alpha,omitempty"`
	// OnePruning leaves out C2T's second pruning, the top-K by confidence.
	OnePruning bool    `json:"one_pruning,omitempty"`
	Theta      float64 `json:"theta,omitempty"`   // MARS's θ; 0: 0.9
	Gap        float64 `json:"gap,omitempty"`     // MARS's cap on z1-z2 in nats; 0: none
	Mode       string  `json:"mode,omitempty"`    // of MARS; "" is MARSAlg1
	Variant    string  `json:"variant,omitempty"` // of AdaSD's T_v; "" is AdaSDMidpoint
	Carry      bool    `json:"carry,omitempty"`   // AdaSD keeps its thresholds from request to request
}

// Aids are what was fitted to a pair of models: calibrations and trained
// classifiers, nil where there are none.
type Aids struct {
	Hetero *HeteroCalibration
	C2T    *C2TClassifier
	// Head tells that the draft was loaded with an acceptance head, so that levels carry
	// Accepts.
	Head bool
	// Costs are what passes cost on this device, kept from request to request.
	Costs *Costs
	// AdaSD are the records that AdaSD's thresholds are made of, for Carry to keep from
	// request to request.
	AdaSD *AdaSDRecords
}

// DefaultConfig gives a drafter with the settings its source uses, verified by
// matching: EAGLE-2's d=5, k=10, N=60; chains of 5; prompt lookup of 10 tokens
// after n-grams of 2 to 1; llama.cpp's n-gram size of 12 and 48 tokens.
func DefaultConfig(drafter string) Config {
	c := Config{Drafter: drafter, Verifier: VerifierMatch}
	switch drafter {
	case DrafterChain:
		c.Depth = 5
	case DrafterEAGLE2:
		c.Depth, c.TopK, c.Nodes = 5, 10, 60
	case DrafterStatic, DrafterSampled:
		c.Shape = DefaultShape()
	case DrafterNgram:
		c.Depth, c.NgramMax, c.NgramMin = 10, 2, 1
	case DrafterNgramSimple, DrafterNgramMap:
		c.Depth, c.NgramMax = 48, 12
	case DrafterAuto:
		c.Depth, c.TopK, c.Nodes, c.NgramMax, c.NgramMin = 5, 4, 16, 2, 1
	}
	return c
}

// DefaultShape is a tree of 4 levels: four children of the root, and fewer the lower the rank.
func DefaultShape() [][]int { return [][]int{{4}, {3, 2, 1, 1}, {2, 1, 1}, {1, 1}} }

// UsesDraftModel tells whether the drafter needs a draft model or a head.
func (c Config) UsesDraftModel() bool {
	switch c.Drafter {
	case DrafterChain, DrafterEAGLE2, DrafterStatic, DrafterSampled:
		return true
	}
	return false
}

// Joins tells whether the target may verify in the run that drafts, where it can: the draft does not depend on
// anything that is known only once it is there.
func (c Config) Joins() bool {
	return (c.Drafter == DrafterChain || c.Drafter == DrafterEAGLE2 || c.Drafter == DrafterStatic || c.Drafter == DrafterSampled) && orElse(c.Adapt, AdaptFixed) == AdaptFixed &&
		(orElse(c.Verifier, VerifierMatch) == VerifierMatch || c.Verifier == VerifierMARS)
}

// At is the config as it works at a temperature: at 0 there is nothing to sample, so that drawn trees and chains that nothing ends
// are the draft's best, and the verifiers of what is sampled are Match.
func (c Config) At(temperature float64) Config {
	if temperature > 0 {
		return c
	}
	if c.Drafter == DrafterSampled {
		c.Drafter = DrafterStatic
	}
	if c.Drafter == DrafterStatic && c.Verifier == VerifierWithoutReplacement || c.Drafter == DrafterChain && c.Verifier == VerifierRejection && orElse(c.Adapt, AdaptFixed) == AdaptFixed {
		c.Verifier = VerifierMatch
	}
	return c
}

// Samples tells whether draft tokens are drawn from the draft's own distribution.
func (c Config) Samples() bool {
	return c.Drafter == DrafterSampled ||
		c.Drafter == DrafterChain && (c.Verifier == VerifierRejection || c.Verifier == VerifierAdaSD)
}

// Validate refuses unknown names, settings out of range and combinations that
// would not do what they say, with the reason.
func (c Config) Validate() error {
	for _, check := range []func() error{c.validateNames, c.validateDrafter, c.validateAdapt, c.validateVerifier} {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

func (c Config) validateNames() error {
	for _, n := range []struct {
		what, name string
		known      []string
	}{
		{"drafter", c.Drafter, drafters},
		{"source", orElse(c.Source, SourceModel), []string{SourceModel, SourceEAGLE3}},
		{"policy", orElse(c.Adapt, AdaptFixed), policies},
		{"verifier", orElse(c.Verifier, VerifierMatch), verifiers},
		{"schedule", orElse(c.Schedule, ScheduleHeuristic), []string{ScheduleHeuristic, ScheduleConstant}},
		{"mode", orElse(c.Mode, MARSAlg1), []string{MARSAlg1, MARSSampled}},
		{"variant", orElse(c.Variant, AdaSDMidpoint), []string{AdaSDMidpoint, AdaSDA, AdaSDB, AdaSDC}},
	} {
		if !slices.Contains(n.known, n.name) {
			return fmt.Errorf("spec: unknown %s %.80q, want %s", n.what, n.name, oneOf(n.known...))
		}
	}
	return nil
}

func orElse(s, empty string) string {
	if s == "" {
		return empty
	}
	return s
}

func (c Config) validateDrafter() error {
	switch c.Drafter {
	case DrafterChain:
		return inRange("depth", c.Depth, 1, MaxDepth)
	case DrafterEAGLE2, DrafterAuto:
		if c.Drafter == DrafterAuto && c.Source == SourceEAGLE3 {
			return errors.New("spec: the auto drafter weighs the draft model's costs, not an EAGLE-3 head's; use source model, or another drafter")
		}
		if err := inRange("depth", c.Depth, 0, MaxDepth-1); err != nil {
			return err
		}
		if err := inRange("top-k", c.TopK, 1, MaxTopK); err != nil {
			return err
		}
		return inRange("nodes", c.Nodes, 2, MaxNodes)
	case DrafterStatic, DrafterSampled:
		return validateShape(c.Shape)
	case DrafterNgram, DrafterNgramSimple, DrafterNgramMap:
		if err := inRange("depth", c.Depth, 1, MaxDepth); err != nil {
			return err
		}
		if err := inRange("ngram-max", c.NgramMax, 1, MaxDepth); err != nil {
			return err
		}
		if c.Drafter == DrafterNgram {
			return inRange("ngram-min", c.NgramMin, 1, c.NgramMax)
		}
	}
	return nil
}

// validateShape checks that every level has the nodes its ranks speak of.
func validateShape(shape [][]int) error {
	if err := inRange("levels of the shape", len(shape), 1, MaxDepth); err != nil {
		return err
	}
	above, all := 1, 1
	for d, ranks := range shape {
		if len(ranks) > above || len(ranks) > MaxTopK {
			return fmt.Errorf("spec: the shape's level %d gives children to %d nodes, but the level above has %d (at most %d can have children)", d+1, len(ranks), above, MaxTopK)
		}
		level := 0
		for _, n := range ranks {
			if err := inRange("children of a node of the shape", n, 0, MaxTopK); err != nil {
				return err
			}
			level += n
		}
		if level == 0 {
			return fmt.Errorf("spec: the shape's level %d has no nodes", d+1)
		}
		above, all = level, all+level
	}
	return inRange("nodes of the shape", all, 2, MaxNodes)
}

func (c Config) validateAdapt() error {
	only := func(drafters ...string) error {
		if slices.Contains(drafters, c.Drafter) {
			return nil
		}
		return fmt.Errorf("spec: the %s policy adapts %s, not %s", c.Adapt, oneOf(drafters...), c.Drafter)
	}
	if !(c.Threshold >= 0) || math.IsInf(c.Threshold, 1) {
		return fmt.Errorf("spec: threshold is %v, want 0 (the method's default) or more", c.Threshold)
	}
	switch c.Adapt {
	case AdaptHetero:
		if err := only(DrafterEAGLE2); err != nil {
			return err
		}
		if c.Aids.Hetero == nil {
			return errors.New("spec: the hetero policy needs entropy bins fitted to this pair; make them with foretoken calibrate hetero")
		}
	case AdaptC2T:
		if err := only(DrafterEAGLE2, DrafterChain); err != nil {
			return err
		}
		if c.Verifier == VerifierRejection {
			return errors.New("spec: c2t drops a sampled token for its identity, which rejection sampling does not allow: " +
				"the output's distribution would change; use the match verifier, or a policy that only stops after a token")
		}
		if c.Aids.C2T == nil {
			return errors.New("spec: the c2t policy needs a classifier trained for this pair; make one with foretoken train c2t")
		}
	case AdaptAcceptance:
		if err := only(DrafterEAGLE2, DrafterChain); err != nil {
			return err
		}
		if !c.Aids.Head {
			return errors.New("spec: the acceptance policy needs an acceptance head for this draft; make one with foretoken train acceptance-head")
		}
	case AdaptAdaEDL, AdaptAssisted, AdaptAdaSD:
		return only(DrafterChain)
	}
	return nil
}

func (c Config) validateVerifier() error {
	switch c.Verifier {
	case VerifierRejection:
		switch c.Drafter {
		case DrafterNone, DrafterChain:
		case DrafterSampled:
			return errors.New("spec: the rejection verifier judges chains; a tree drawn without replacement takes the without-replacement verifier")
		case DrafterEAGLE2, DrafterStatic, DrafterAuto:
			return fmt.Errorf("spec: the rejection verifier needs tokens sampled from the draft, but an %s tree holds its top-k: "+
				"accepting those with min(1, p/q) would change the output's distribution; use the match verifier, or the chain drafter", c.Drafter)
		default:
			return fmt.Errorf("spec: the rejection verifier needs tokens sampled from a draft's distribution, and the %s drafter has none; "+
				"use the match verifier, which is exact for any draft", c.Drafter)
		}
	case VerifierWithoutReplacement:
		if c.Drafter != DrafterSampled && c.Drafter != DrafterNone {
			return fmt.Errorf("spec: the without-replacement verifier needs children drawn from the draft without replacement, which the %s drafter does not do; "+
				"use the sampled drafter, or the match verifier", c.Drafter)
		}
	case VerifierMARS:
		if c.Theta < 0 || c.Theta > 1 || c.Theta != c.Theta || c.Gap < 0 || c.Gap != c.Gap {
			return fmt.Errorf("spec: mars with theta %v and gap %v, want theta in 0 (the default, 0.9) to 1 and a gap of 0 (none) or more nats", c.Theta, c.Gap)
		}
	case VerifierAdaSD:
		if c.Drafter != DrafterChain && c.Drafter != DrafterNone {
			return fmt.Errorf("spec: the adasd verifier compares the draft's distribution with the target's along a chain, and %s has none; use the chain drafter", c.Drafter)
		}
		if c.Adapt == AdaptC2T {
			return errors.New("spec: the adasd verifier judges sampled chains and c2t cuts ranked ones; use another policy, or the match or mars verifier")
		}
	}
	return nil
}

func inRange(name string, v, lo, hi int) error {
	if v < lo || v > hi {
		return fmt.Errorf("spec: %s is %d, want %d to %d", name, v, lo, hi)
	}
	return nil
}

func oneOf(names ...string) string {
	last := len(names) - 1
	if last == 0 {
		return names[0]
	}
	return strings.Join(names[:last], ", ") + " or " + names[last]
}

// Budget is the most that the settings may use in a round; models are prepared
// for it.
func (c Config) Budget() Budget {
	switch c.Drafter {
	case DrafterChain, DrafterNgram, DrafterNgramSimple, DrafterNgramMap:
		tokens := c.Depth
		switch c.Adapt {
		case AdaptAssisted:
			tokens = c.assistedMost()
		case AdaptAdaSD:
			tokens = min(tokens, adaSDMost)
		}
		return Budget{Levels: tokens, Width: 1, Nodes: tokens + 1}
	case DrafterEAGLE2:
		b := Budget{Levels: c.Depth + 1, Width: c.TopK, Nodes: c.Nodes}
		if c.Adapt == AdaptHetero && c.Aids.Hetero != nil {
			b = c.heteroBudget(b)
		}
		return b
	case DrafterAuto:
		return Budget{Levels: c.Depth + 1, Width: c.TopK, Nodes: max(c.Nodes, c.Depth+1)}
	case DrafterStatic, DrafterSampled:
		b := Budget{Levels: len(c.Shape), Nodes: 1}
		for _, ranks := range c.Shape {
			b.Width = max(b.Width, len(ranks))
			for _, n := range ranks {
				b.Nodes += n
				b.Width = max(b.Width, n)
			}
		}
		return b
	}
	return Budget{}
}
