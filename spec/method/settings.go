package method

import (
	"fmt"
	"math"
	"strings"

	"foretoken/spec"
	"foretoken/spec/adapt"
)

// Settings are those that single methods have. The zero value is every method's default.
type Settings struct {
	// Threshold is the policy's own: assisted's confidence, AdaEDL's λ-bound, C2T's β, the acceptance head's h. 0
	// is the method's default; for the head that is to work h out of measured costs.
	Threshold float64 `json:"threshold,omitempty"`
	Lambda    float64 `json:"lambda,omitempty"`   // AdaEDL's λ; 0: its default
	Schedule  string  `json:"schedule,omitempty"` // of assisted generation; "" is ScheduleHeuristic
	// Any has the acceptance head stop as soon as one branch exceeds the threshold, not when all do.
	Any bool `json:"any,omitempty"`
	// PerBranch has the acceptance head end each branch that exceeds the threshold, while others grow on.
	PerBranch bool `json:"per_branch,omitempty"`
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

// Sources are the names that Config.Source takes.
func Sources() []string { return []string{SourceModel, SourceEAGLE3} }

// What a missing value stands for.
const (
	Own       = "the method's own"
	byDefault = "the method's default"
)

// Table has the settings of methods: the names of a Config, the numbers of drafters, whose bounds stand in the rows of
// drafters, and Settings.
func Table() []spec.Setting {
	adasd, mars := []string{AdaptAdaSD}, []string{VerifierMARS}
	hetero, c2t := []string{AdaptHetero}, []string{AdaptC2T}
	return []spec.Setting{
		{Name: "policy", Group: spec.GroupMethod, Choices: Names(),
			Help: "drafting method; foretoken methods lists the names"},
		{Name: "adapt", Group: spec.GroupParts, Choices: AdapterNames(), Unset: Own, Label: "Adapted by",
			Help: "how the draft adapts from round to round"},
		{Name: "source", Group: spec.GroupParts, Choices: Sources(), Unset: Own, Label: "Drafted by",
			Help: "where drafted tokens come from"},
		{Name: "verifier", Group: spec.GroupParts, Choices: VerifierNames(), Unset: Own, Label: "Verified by",
			Help: verifierHelp()},
		{Name: "coupled", Group: spec.GroupParts, Unset: "on", Label: "Coupled", Flag: "-",
			Help: "above temperature 0, draft with the noise that the target samples with"},

		{Name: "depth", Group: spec.GroupMethod, Unset: Own, Label: "Depth", Unit: "levels",
			Help: "tokens drafted a round, or for trees levels after the first"},
		{Name: "top_k", Group: spec.GroupMethod, Unset: Own, Label: "Top-k", Unit: "beams",
			Help: "trees: candidates of a node and nodes of a level"},
		{Name: "nodes", Group: spec.GroupMethod, Except: c2t, Unset: Own, Label: "Nodes",
			Help: "trees: nodes verified a round, the root included"},
		{Name: "shape", Group: spec.GroupMethod, Unset: Own, Label: "Shape",
			Help: "static and sampled trees: the number of children of the node of each rank, level by level, as JSON"},
		{Name: "ngram_max", Group: spec.GroupMethod, Unset: Own, Label: "N-gram", Unit: "tokens",
			Help: "n-grams: the longest that is looked up"},
		{Name: "ngram_min", Group: spec.GroupMethod, Unset: Own, Label: "N-gram, minimum", Unit: "tokens",
			Help: "n-grams: the shortest that is looked up"},

		{Name: "threshold", Group: spec.GroupMethod, Label: "Threshold",
			For:  []string{AdaptAssisted, AdaptAdaEDL, AdaptC2T, AdaptAcceptance},
			Most: math.MaxFloat64, Zero: byDefault, Unset: byDefault,
			Help: "assisted: confidence; adaedl: bound; c2t: β; acceptance: h, by default derived from measured costs"},
		{Name: "lambda", Group: spec.GroupMethod, For: []string{AdaptAdaEDL}, Label: "λ",
			Most: math.MaxFloat64, Zero: byDefault, Unset: byDefault,
			Help: "λ, the weight of the entropy"},
		{Name: "schedule", Group: spec.GroupMethod, For: []string{AdaptAssisted}, Label: "Schedule",
			Choices: []string{ScheduleHeuristic, ScheduleConstant}, Unset: ScheduleHeuristic,
			Help: "heuristic drafts two tokens more after full acceptance, else one less; constant keeps the number"},
		{Name: "any", Group: spec.GroupMethod, For: []string{AdaptAcceptance}, Label: "Stop at any branch",
			Help: "stop as soon as one branch is likely lost, not when all are"},
		{Name: "per_branch", Group: spec.GroupMethod, For: []string{AdaptAcceptance}, Label: "Stop each branch",
			Help: "end each branch that is likely lost, and let others grow; on a chain it changes nothing"},
		{Name: "one_pruning", Group: spec.GroupMethod, For: c2t, Label: "One pruning",
			Help: "leave out the second pruning"},
		{Name: "alpha", Group: spec.GroupMethod, For: hetero, Label: "α ±",
			Least: -spec.MaxDepth, Most: spec.MaxDepth, Unset: "0",
			Help: "add this to α, the levels that the surest rounds draft deeper"},
		{Name: "no_extension", Group: spec.GroupMethod, For: hetero, Label: "No extension",
			Help: "leave out dynamic extended drafting"},
		{Name: "no_pruning", Group: spec.GroupMethod, For: hetero, Label: "No pruning",
			Help: "leave out top-N pruning"},
		{Name: "no_adaptation", Group: spec.GroupMethod, For: hetero, Label: "No adaptation",
			Help: "leave out the programs prepared per bin"},
		{Name: "theta", Group: spec.GroupMethod, For: mars, Label: "θ",
			Most: 1, Zero: fmt.Sprint("the default, ", adapt.MARSTheta), Unset: fmt.Sprint(adapt.MARSTheta),
			Help: "accept the second token when its logit is over this part of the first's"},
		{Name: "gap", Group: spec.GroupMethod, For: mars, Label: "Gap", Unit: "nats", Step: 0.1,
			Most: math.MaxFloat64, Zero: "no cap", Unset: "no cap",
			Help: "and at most this many nats below it"},
		{Name: "mode", Group: spec.GroupMethod, For: mars, Label: "Mode",
			Choices: []string{MARSAlg1, MARSSampled}, Unset: MARSAlg1,
			Help: "alg1 emits the best token, sampled draws one"},
		{Name: "variant", Group: spec.GroupMethod, For: adasd, Label: "Variant",
			Choices: []string{adapt.AdaSDMidpoint, adapt.AdaSDA, adapt.AdaSDB, adapt.AdaSDC},
			Unset:   adapt.AdaSDMidpoint,
			Help:    "how the threshold weighs its means"},
		{Name: "carry", Group: spec.GroupMethod, For: adasd, Label: "Carry on",
			Help: "keep the thresholds from prompt to prompt"},
	}
}

// verifierHelp says what each verifier promises.
func verifierHelp() string {
	of := map[Exactness]string{}
	for _, v := range verifierRows {
		of[v.Exactness] = strings.TrimPrefix(of[v.Exactness]+" or "+v.Name, " or ")
	}
	return of[ExactTokens] + " (exactly the tokens of plain decoding), " + of[ExactDistribution] +
		" (the same distribution), " + of[Lossy] + " (LOSSY)"
}
