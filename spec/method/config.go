package method

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"foretoken/spec"
	"foretoken/spec/adapt"
	"foretoken/spec/goodput"
)

// The drafters a Config names: where drafted tokens come from.
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
	AdaptAdaEDL     = "adaedl"     // an entropy bound stops the draft, on eagle2 and chain
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

// Modes of MARS and schedules of assisted generation.
const (
	MARSAlg1          = "alg1"
	MARSSampled       = "sampled"
	ScheduleHeuristic = "heuristic" // +2 after full acceptance, else -1
	ScheduleConstant  = "constant"
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
	// the noise that the target will draw with is added; see draft.TreeDrafter.
	Uncoupled bool `json:"uncoupled"`

	Settings

	Fitted Fitted `json:"-"`
}

// Fitted holds what was fitted to a pair of models: calibrations and trained classifiers, nil where there are none.
type Fitted struct {
	Hetero *adapt.HeteroCalibration
	C2T    *adapt.C2TClassifier
	Head   *adapt.AcceptanceHead // levels carry its estimates
	// Times are those of passes with an acceptance head on this device, kept from request to request.
	Times *adapt.PassTimes
	// Costs are the costs of passes on this device, kept from request to request.
	Costs *goodput.Costs
	// AdaSD holds the records from which AdaSD makes its thresholds. With Carry they last from request to request.
	AdaSD *adapt.AdaSDRecords
}

// Files returns the calibrations that came from files. Benchmarks compare them to tell whether two requests work alike.
func (f *Fitted) Files() []any { return []any{f.Hetero, f.C2T, f.Head} }

// DefaultConfig gives a drafter with the settings that its source uses, verified by matching.
func DefaultConfig(drafter string) Config {
	c := drafterNamed(drafter).settings
	c.Drafter, c.Verifier = drafter, VerifierMatch
	if c.Shape != nil {
		c.Shape = DefaultShape() // the caller's own
	}
	return c
}

// DefaultShape is a tree of 4 levels: four children of the root, and fewer the lower the rank.
func DefaultShape() [][]int { return [][]int{{4}, {3, 2, 1, 1}, {2, 1, 1}, {1, 1}} }

// UsesDraftModel tells whether the drafter needs a draft model or a head.
func (c Config) UsesDraftModel() bool { return drafterNamed(c.Drafter).model }

// WeighsCosts tells whether the drafter decides by measured costs of passes.
func (c Config) WeighsCosts() bool { return drafterNamed(c.Drafter).costs }

// Limit returns the config with trees of at most so many nodes where the drafter weighs costs: others are not cut.
func (c Config) Limit(nodes int) Config {
	if c.WeighsCosts() && c.Nodes > nodes {
		c.Nodes, c.Depth = nodes, min(c.Depth, nodes-1)
	}
	return c
}

// Joins tells whether the target may verify in the run that drafts, where it can: the tree does not depend on anything
// that is known only once the draft is there, or need not in every round.
func (c Config) Joins() bool {
	return (c.UsesDraftModel() || c.WeighsCosts()) && adapterNamed(c.Adapt).joins &&
		verifierNamed(c.Verifier).sampled == ""
}

// At is the config as it works at a temperature. At 0 there is nothing to sample: sampled trees and chains that nothing
// ends are the draft's best, and the verifiers of sampled tokens are Match.
func (c Config) At(temperature float64) Config {
	if temperature > 0 {
		return c
	}
	if c.Drafter == DrafterSampled {
		c.Drafter = DrafterStatic
	}
	if v := verifierNamed(c.Verifier); v.greedy != "" && v.greedy == c.Drafter &&
		cmp.Or(c.Adapt, AdaptFixed) == AdaptFixed {
		c.Verifier = VerifierMatch
	}
	return c
}

// Samples tells whether draft tokens are sampled from the draft's own distribution.
func (c Config) Samples() bool {
	return c.Drafter == DrafterSampled || c.Drafter != "" && verifierNamed(c.Verifier).sampled == c.Drafter
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
	return cmp.Or(spec.CheckName("policy", c.Drafter, Drafters()), spec.CheckSettings(Table(), &c))
}

func (c Config) validateDrafter() error {
	row := drafterNamed(c.Drafter)
	if err := spec.CheckSettings(row.bounds, &c); err != nil || row.check == nil {
		return err
	}
	return row.check(&c)
}

// validateShape checks that every level has the nodes its ranks speak of.
func validateShape(shape [][]int) error {
	if n := len(shape); n < 1 || n > spec.MaxDepth {
		return spec.Refuse("shape", "has %d levels, want 1 to %d", n, spec.MaxDepth)
	}
	above, all := 1, 1
	for d, ranks := range shape {
		if len(ranks) > above || len(ranks) > spec.MaxTopK {
			return spec.Refuse("shape", "gives children to %d nodes for its level %d, but the level above has %d "+
				"(at most %d can have children)", len(ranks), d+1, above, spec.MaxTopK)
		}
		level := 0
		for _, n := range ranks {
			if n < 0 || n > spec.MaxTopK {
				return spec.Refuse("shape", "gives a node %d children, want 0 to %d", n, spec.MaxTopK)
			}
			level += n
		}
		if level == 0 {
			return spec.Refuse("shape", "has no nodes at level %d", d+1)
		}
		above, all = level, all+level
	}
	if all > spec.MaxNodes {
		return spec.Refuse("shape", "has %d nodes, want 2 to %d", all, spec.MaxNodes)
	}
	return nil
}

func (c Config) validateAdapt() error {
	a := adapterNamed(c.Adapt)
	switch drafters := a.drafters(); {
	case drafters != nil && !slices.Contains(drafters, c.Drafter):
		return fmt.Errorf("spec: the %s policy adapts %s, not %s", c.Adapt, oneOf(drafters...), c.Drafter)
	case a.lacks != nil && a.lacks(&c.Fitted):
		return fmt.Errorf("spec: the %s policy needs %s", a.Name, a.Need)
	case a.check != nil:
		return a.check(&c)
	}
	return nil
}

// CheckAt refuses a temperature that nothing was fitted for. The config is valid.
func (c Config) CheckAt(temperature float64) error {
	if a := adapterNamed(c.Adapt); a.covers != nil {
		return a.covers(&c, temperature)
	}
	return nil
}

func (c Config) validateVerifier() error {
	v, wrong := verifierNamed(c.Verifier), ""
	if v.sampled != "" && c.Drafter != v.sampled && c.Drafter != DrafterNone {
		wrong = v.refuses(drafterNamed(c.Drafter))
	} else if v.uncut != "" && adapterNamed(c.Adapt).cuts {
		wrong = fmt.Sprintf(v.uncut, c.Adapt)
	}
	if wrong != "" {
		return errors.New("spec: " + wrong)
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

// Budget is the most that the settings may use in a round; models are prepared for it.
func (c Config) Budget() spec.Budget {
	b := drafterNamed(c.Drafter).budget(&c)
	if a := adapterNamed(c.Adapt); a.budget != nil {
		return a.budget(&c, b)
	}
	return b
}
