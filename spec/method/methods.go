// Package method names the ways to decode: which drafter, what adapts it, which verifier, with which settings. It
// validates a Config and builds the parts of a generator from it, so that the packages below know nothing of names.
package method

import (
	"cmp"
	"fmt"
	"slices"

	"foretoken/spec"
	"foretoken/spec/adapt"
	"foretoken/spec/draft"
	"foretoken/spec/goodput"
)

// Method is a way to decode by name: a drafter with what adapts and verifies it, in the settings of its source.
type Method struct {
	Name      string   `json:"name"`
	Title     string   `json:"title"` // a few words for people
	Lossy     bool     `json:"lossy"` // commits tokens that the target would not have chosen
	Config    Config   `json:"config"`
	UsesDraft bool     `json:"uses_draft"` // drafts with a model, or with a head
	Settings  []string `json:"settings"`   // fields of its drafter; an Adapter and a Verifier have their own
}

// methodRow is a row of the table of methods.
type methodRow struct {
	name, title string
	config      Config // fields that it leaves out take the drafter's defaults
}

// The table of methods: what each drafts, adapts and verifies with.
var rows = []methodRow{
	{DrafterNone, "plain decoding", Config{Drafter: DrafterNone}},
	{DrafterAuto, "automatic: as many guesses as pay off", Config{Drafter: DrafterAuto}},
	{DrafterChain, "chain of fixed length", Config{Drafter: DrafterChain}},
	{DrafterEAGLE2, "EAGLE-2 tree", Config{Drafter: DrafterEAGLE2}},
	{DrafterStatic, "tree of a fixed shape", Config{Drafter: DrafterStatic}},
	{DrafterSampled, "tree sampled without replacement",
		Config{Drafter: DrafterSampled, Verifier: VerifierWithoutReplacement}},
	{DrafterNgram, "prompt lookup", Config{Drafter: DrafterNgram}},
	{DrafterNgramSimple, "n-gram lookup, simple", Config{Drafter: DrafterNgramSimple}},
	{DrafterNgramMap, "n-gram lookup, map-k", Config{Drafter: DrafterNgramMap}},
	{"hetero", "HeteroSpec on the EAGLE-2 tree", Config{Drafter: DrafterEAGLE2, Adapt: AdaptHetero}},
	{"c2t", "C2T: a tree built by a classifier", Config{Drafter: DrafterEAGLE2, Adapt: AdaptC2T, Depth: 9, TopK: 15}},
	{"c2t-chain", "C2T on a chain", Config{Drafter: DrafterChain, Adapt: AdaptC2T, Depth: 10}},
	{"acceptance", "EAGLE-2 tree stopped by an acceptance head",
		Config{Drafter: DrafterEAGLE2, Adapt: AdaptAcceptance}},
	{"acceptance-chain", "chain stopped by an acceptance head",
		Config{Drafter: DrafterChain, Adapt: AdaptAcceptance, Depth: 7}},
	{AdaptAdaEDL, "AdaEDL: chain stopped by an entropy bound",
		Config{Drafter: DrafterChain, Adapt: AdaptAdaEDL, Depth: 10}},
	{AdaptAssisted, "assisted generation of transformers", Config{Drafter: DrafterChain, Adapt: AdaptAssisted}},
	{AdaptAdaSD, "AdaSD", Config{Drafter: DrafterChain, Adapt: AdaptAdaSD, Verifier: VerifierAdaSD, Depth: 20}},
	{VerifierMARS, "MARS on the EAGLE-2 tree", Config{Drafter: DrafterEAGLE2, Verifier: VerifierMARS}},
	{"eagle3", "EAGLE-2 tree by an EAGLE-3 head", Config{Drafter: DrafterEAGLE2, Source: SourceEAGLE3}},
}

// full returns the config with what the row leaves out.
func (r *methodRow) full() Config {
	c := DefaultConfig(r.config.Drafter)
	c.Source, c.Adapt, c.Verifier = r.config.Source, r.config.Adapt, cmp.Or(r.config.Verifier, c.Verifier)
	c.Depth, c.TopK = cmp.Or(r.config.Depth, c.Depth), cmp.Or(r.config.TopK, c.TopK)
	return c
}

// All are the methods that Request.Policy may name, drafters among them.
func All() []Method {
	var all []Method
	for _, r := range rows {
		c := r.full()
		all = append(all, Method{r.name, r.title, c.Exactness() == Lossy, c, c.UsesDraftModel(), settingsOf(c.Drafter)})
	}
	return all
}

// ByName is the configuration of a method, or of the drafter of that name, known or
// not: Validate says what is wrong with a name.
func ByName(name string) Config {
	r := row(rows, func(r methodRow) bool { return r.name == name }, methodRow{config: Config{Drafter: name}})
	return r.full()
}

// row returns the first row of a table that is meant, or none.
func row[T any](table []T, meant func(T) bool, none T) T {
	if i := slices.IndexFunc(table, meant); i >= 0 {
		return table[i]
	}
	return none
}

// Exactness says how a verifier's text relates to plain decoding's.
type Exactness string

const (
	ExactTokens       Exactness = "exact"        // its tokens
	ExactDistribution Exactness = "distribution" // the distribution of its tokens
	Lossy             Exactness = "lossy"        // neither
)

// Verifier is a row of the table of verifiers.
type Verifier struct {
	Name      string    `json:"name"`
	Exactness Exactness `json:"exactness"`

	build func(c Config) spec.Verifier

	// the one drafter it verifies, from whose own distribution tokens are sampled; "": any
	sampled string
	greedy  string               // the drafter for which it is Match at temperature 0, if nothing adapts the draft
	refuses func(drafter) string // why it does not verify another drafter
	uncut   string               // why it does not verify drafts that %s, an adapter, cuts; "": it does
}

// The table of verifiers.
var verifierRows = []Verifier{
	{Name: VerifierMatch, Exactness: ExactTokens, build: func(Config) spec.Verifier { return spec.Match{} }},
	{Name: VerifierRejection, Exactness: ExactDistribution,
		build:   func(Config) spec.Verifier { return spec.Rejection{} },
		sampled: DrafterChain, greedy: DrafterChain, refuses: refusedByRejection,
		uncut: "%s drops a sampled token for its identity, which rejection sampling does not allow: the output's " +
			"distribution would change; use the match verifier, or a policy that only stops after a token"},
	{Name: VerifierWithoutReplacement, Exactness: ExactDistribution,
		build:   func(Config) spec.Verifier { return spec.WithoutReplacement{} },
		sampled: DrafterSampled, greedy: DrafterStatic,
		refuses: func(d drafter) string {
			return "the without-replacement verifier needs children drawn from the draft without replacement, which " +
				"the " + d.name + " drafter does not do; use the sampled drafter, or the match verifier"
		}},
	{Name: VerifierMARS, Exactness: Lossy,
		build: func(c Config) spec.Verifier {
			return adapt.MARS{Theta: cmp.Or(c.Theta, adapt.MARSTheta), Gap: c.Gap, Sampled: c.Mode == MARSSampled}
		}},
	{Name: VerifierAdaSD, Exactness: Lossy, build: func(c Config) spec.Verifier { return c.adasd() },
		sampled: DrafterChain,
		refuses: func(d drafter) string {
			return "the adasd verifier compares the draft's distribution with the target's along a chain, and " +
				d.name + " has none; use the chain drafter"
		},
		uncut: "the adasd verifier takes sampled chains and %s cuts ranked ones; use another policy, or the match " +
			"or mars verifier"},
}

func refusedByRejection(d drafter) string {
	switch {
	case d.name == DrafterSampled:
		return "the rejection verifier takes chains; a tree drawn without replacement takes the " +
			"without-replacement verifier"
	case d.programs == spec.DraftNothing:
		return "the rejection verifier needs tokens sampled from a draft's distribution, and the " + d.name +
			" drafter has none; use the match verifier, which is exact for any draft"
	}
	return "the rejection verifier needs tokens sampled from the draft, but an " + d.name + " tree holds its top-k: " +
		"accepting those with min(1, p/q) would change the output's distribution; use the match verifier, or the " +
		"chain drafter"
}

// Verifiers are all of them.
func Verifiers() []Verifier { return verifierRows }

// verifierNamed is the row of a verifier; "" is VerifierMatch.
func verifierNamed(name string) Verifier {
	name = cmp.Or(name, VerifierMatch)
	return row(verifierRows, func(v Verifier) bool { return v.Name == name }, Verifier{Name: name})
}

// Exactness says how the text relates to plain decoding's.
func (c Config) Exactness() Exactness { return verifierNamed(c.Verifier).Exactness }

// Programs returns what to prepare a draft of some limits, and its target, for: a config of valid settings at one
// temperature. The caller adds the models and the kinds of adjustment.
func (c Config) Programs(temperature float64, lim spec.Limits) spec.Programs {
	c = c.At(temperature)
	p := spec.Programs{Budget: c.Budget(), Joint: c.Joins()}
	if c.Adapt == AdaptAcceptance {
		p.Estimator = &c.Fitted.Head.Estimator
	}
	p.Depth, p.Widths = p.Budget.Levels-1, []int{p.Budget.Width}
	d, v := drafterNamed(c.Drafter), verifierNamed(c.Verifier)
	if v.sampled == c.Drafter {
		p.Pass, p.Joint = v.build(c).Pass(spec.Sampling{Temperature: 1}), true // its pass of sampled tokens
	}
	if d.costs {
		p.Widths = goodput.DraftWidths(p.Budget.Width, lim)
	}
	if p.Draft = d.programs; p.Depth < 0 {
		p.Draft = spec.DraftNothing
	} else if c.Samples() {
		p.Draft = d.sampled
	} else if a := adapterNamed(c.Adapt); a.programs != nil {
		a.programs(&c, &p)
	}
	return p
}

// settingsOf lists the settings of a drafter, by their fields in JSON: those that it has defaults of.
func settingsOf(drafter string) []string {
	c, all := drafterNamed(drafter).settings, []string{}
	for _, s := range Table() {
		if v := s.In(&c); s.Group == spec.GroupMethod && v.IsValid() && !v.IsZero() {
			all = append(all, s.Name)
		}
	}
	return all
}

// drafter is a row of the table of drafters.
type drafter struct {
	name     string
	model    bool   // needs a draft model or a head
	settings Config // the defaults, from its source
	bounds   []spec.Setting
	check    func(c *Config) error       // refuses settings beyond their bounds
	budget   func(c *Config) spec.Budget // the most of a round
	costs    bool                        // it decides by measured costs of passes
	programs spec.DraftKind              // that the draft model runs, if it runs
	sampled  spec.DraftKind              // the same where tokens are sampled
	parts    partsFunc
}

// partsFunc sets the Drafter of parts that have a Verifier and, if something adapts the draft, the Policy.
type partsFunc func(c Config, p *spec.Parts, target spec.Target, m goodput.Models) error

// The table of drafters. EAGLE-2's defaults are d=5, k=10, N=60; prompt lookup drafts 10 tokens after n-grams of 2
// to 1; llama.cpp's n-grams have 12 tokens and draft 48.
var drafterRows []drafter

func init() { // not in the declaration: parts reads the table
	drafterRows = []drafter{
		{name: DrafterNone, budget: func(*Config) spec.Budget { return spec.Budget{} },
			parts: noModel(func(Config) spec.Drafter { return spec.None{} })},
		{name: DrafterChain, model: true, settings: Config{Depth: 5}, bounds: tokens[:1], budget: chainBudget,
			programs: spec.DraftTree, sampled: spec.DraftChain, parts: chainParts},
		{name: DrafterEAGLE2, model: true, settings: Config{Depth: 5, TopK: 10, Nodes: 60}, bounds: tree,
			budget: treeBudget, programs: spec.DraftTree, parts: treeParts},
		{name: DrafterStatic, model: true, settings: Config{Shape: DefaultShape()}, check: checkShape,
			budget: shapeBudget, programs: spec.DraftExpanded, parts: shapeParts},
		{name: DrafterSampled, model: true, settings: Config{Shape: DefaultShape()}, check: checkShape,
			budget: shapeBudget, programs: spec.DraftDrawn, sampled: spec.DraftDrawn, parts: shapeParts},
		{name: DrafterNgram, settings: Config{Depth: 10, NgramMax: 2, NgramMin: 1}, bounds: tokens, check: checkNgram,
			budget: chainBudget,
			parts: noModel(func(c Config) spec.Drafter {
				return draft.PromptLookup{Max: c.NgramMax, Min: c.NgramMin}
			})},
		{name: DrafterNgramSimple, settings: Config{Depth: 48, NgramMax: 12}, bounds: tokens, budget: chainBudget,
			parts: noModel(func(c Config) spec.Drafter {
				return draft.PromptLookup{Max: c.NgramMax, Min: c.NgramMax, Recent: true}
			})},
		{name: DrafterNgramMap, settings: Config{Depth: 48, NgramMax: 12}, bounds: tokens, budget: chainBudget,
			parts: noModel(func(c Config) spec.Drafter { return draft.MapLookup{Size: c.NgramMax} })},
		{name: DrafterAuto, settings: Config{Depth: 5, TopK: 4, Nodes: 16}, bounds: tree, budget: autoBudget,
			costs: true, programs: spec.DraftTree, parts: autoParts},
	}
}

var (
	tokens = []spec.Setting{{Name: "depth", Least: 1, Most: spec.MaxDepth},
		{Name: "ngram_max", Least: 1, Most: spec.MaxDepth}}
	tree = []spec.Setting{{Name: "depth", Most: spec.MaxDepth - 1}, {Name: "top_k", Least: 1, Most: spec.MaxTopK},
		{Name: "nodes", Least: 2, Most: spec.MaxNodes}}
)

func checkShape(c *Config) error { return validateShape(c.Shape) }

func checkNgram(c *Config) error {
	return (&spec.Setting{Name: "ngram_min", Least: 1, Most: float64(c.NgramMax)}).Check(float64(c.NgramMin))
}

func chainBudget(c *Config) spec.Budget { return spec.ChainBudget(c.Depth) }

func treeBudget(c *Config) spec.Budget {
	return spec.Budget{Levels: c.Depth + 1, Width: c.TopK, Nodes: c.Nodes}
}

func autoBudget(c *Config) spec.Budget {
	return spec.Budget{Levels: c.Depth + 1, Width: c.TopK, Nodes: max(c.Nodes, c.Depth+1)}
}

func shapeBudget(c *Config) spec.Budget { return draft.StaticBudget(c.Shape) }

// drafterNamed is the row of a drafter, empty if there is none of that name.
func drafterNamed(name string) drafter {
	none := drafter{name: name, budget: drafterRows[0].budget}
	return row(drafterRows, func(d drafter) bool { return d.name == name }, none)
}

// Adapter is a row of the table of what adapts a draft.
type Adapter struct {
	Name string `json:"name"`
	Need string `json:"need,omitempty"` // what was fitted for it, and the command that makes it

	// tree sets the drafter of EAGLE-2's tree, and the policy where that learns. chain ends chains. nil: it does not
	// work with that drafter. It works with all where both are nil.
	tree  func(c Config, model spec.DraftModel, p *spec.Parts) error
	chain func(c Config, verifier spec.Verifier) draft.ChainRule
	cuts  bool                  // it drops drafted tokens for what they are
	joins bool                  // the trees of some rounds are fixed beforehand
	check func(c *Config) error // refuses its settings
	lacks func(f *Fitted) bool  // what it needs is missing; nil: it needs nothing
	// covers refuses a temperature that it was not fitted for; nil: it works at all.
	covers func(c *Config, temperature float64) error
	// budget and programs change the drafter's; nil: they stay.
	budget   func(c *Config, of spec.Budget) spec.Budget
	programs func(c *Config, p *spec.Programs)
}

// The table of what adapts a draft.
var adapterRows = []Adapter{
	{Name: AdaptFixed, joins: true},
	{Name: AdaptHetero, tree: heteroTree, joins: true, lacks: func(f *Fitted) bool { return f.Hetero == nil },
		Need: "entropy bins fitted to this pair; make them with foretoken calibrate hetero",
		covers: func(c *Config, temperature float64) error {
			_, err := c.Fitted.Hetero.Fit(temperature, temperature > 0 && !c.uncoupled())
			return err
		},
		budget: func(c *Config, b spec.Budget) spec.Budget {
			if c.Fitted.Hetero == nil {
				return b
			}
			return c.heteroSettings().Budget(c.Fitted.Hetero)
		},
		programs: func(c *Config, p *spec.Programs) {
			if c.NoAdaptation {
				p.Depth = c.Depth
			}
		}},
	{Name: AdaptC2T, tree: c2tTree, chain: c2tRule, cuts: true, check: checkC2T,
		lacks: func(f *Fitted) bool { return f.C2T == nil },
		Need:  "a classifier trained for this pair; make one with foretoken train c2t",
		programs: func(c *Config, p *spec.Programs) {
			switch {
			case c.Drafter == DrafterChain:
			case c.OnePruning, c.Fitted.C2T.EntropyTop > 0: // the host chooses the beams of every level
				p.Draft, p.Depth, p.EntropyTop = spec.DraftExpanded, 0, c.Fitted.C2T.EntropyTop
			default:
				p.Draft, p.Classifier = spec.DraftPruned, c.Fitted.C2T.Network()
			}
		}},
	{Name: AdaptAcceptance, tree: acceptanceTree, chain: acceptanceRule, check: checkAcceptance,
		lacks: func(f *Fitted) bool { return f.Head == nil },
		Need:  "an acceptance head for this draft; make one with foretoken train acceptance-head",
		covers: func(c *Config, temperature float64) error {
			return c.Fitted.Head.Covers(c.AcceptanceUse(temperature))
		},
		programs: func(c *Config, p *spec.Programs) {
			if c.PerBranch && c.Drafter == DrafterEAGLE2 {
				p.Draft = spec.DraftExpanded
			}
		}},
	{Name: AdaptAdaEDL, tree: adaEDLTree, chain: func(c Config, _ spec.Verifier) draft.ChainRule { return c.adaEDL() }},
	{Name: AdaptAssisted, chain: func(c Config, _ spec.Verifier) draft.ChainRule { return c.assisted() },
		budget: func(c *Config, _ spec.Budget) spec.Budget { return spec.ChainBudget(c.assisted().Most) }},
	{Name: AdaptAdaSD, chain: adasdRule,
		budget: func(c *Config, _ spec.Budget) spec.Budget { return spec.ChainBudget(c.adasd().Most) }},
}

func checkAcceptance(c *Config) error {
	if c.Any && c.PerBranch {
		return spec.Refuse("per_branch", "excludes any: one lost branch ends itself, or the tree")
	}
	return nil
}

// AcceptanceUse returns what an acceptance head has to estimate: by which rule the verifier accepts drafted tokens.
func (c Config) AcceptanceUse(temperature float64) adapt.AcceptanceUse {
	use := adapt.AcceptanceUse{Source: c.Source, Label: adapt.LabelDraw, Temperature: temperature}
	switch {
	case temperature == 0 || c.emitsArgmax():
		use.Label = adapt.LabelArgmax
	case verifierNamed(c.Verifier).Exactness == ExactDistribution:
		use.Label = adapt.LabelRatio
	case c.Uncoupled:
		use.Label = adapt.LabelProbability
	}
	return use
}

func checkC2T(c *Config) error {
	if top := c.Fitted.C2T.EntropyTop; top > 0 && c.Drafter == DrafterChain {
		return fmt.Errorf("spec: the classifier reads the entropy of the %d likeliest tokens, which trees have and "+
			"chains don't; use the eagle2 drafter, or a classifier trained without --entropy-top", top)
	}
	if c.Threshold >= 1 {
		return spec.Refuse("threshold", "is %v, want less than 1 for c2t: no confidence exceeds it", c.Threshold)
	}
	return nil
}

// drafters are the names of the drafters that it works with; nil: all.
func (a Adapter) drafters() (names []string) {
	if a.tree != nil {
		names = append(names, DrafterEAGLE2)
	}
	if a.chain != nil {
		names = append(names, DrafterChain)
	}
	return names
}

// adapterNamed is the row of what adapts a draft, empty if there is none of that name; "" is AdaptFixed.
func adapterNamed(name string) Adapter {
	name = cmp.Or(name, AdaptFixed)
	return row(adapterRows, func(a Adapter) bool { return a.Name == name }, Adapter{Name: name})
}

// Names returns the names of all methods.
func Names() []string {
	return names(rows, func(r methodRow) string { return r.name })
}

// Drafters are the names that Config.Drafter takes.
func Drafters() []string {
	return names(drafterRows, func(d drafter) string { return d.name })
}

// Adapters are all of them.
func Adapters() []Adapter { return adapterRows }

// AdapterNames are the names that Config.Adapt takes.
func AdapterNames() []string {
	return names(adapterRows, func(a Adapter) string { return a.Name })
}

// VerifierNames are the names that Config.Verifier takes.
func VerifierNames() []string {
	return names(Verifiers(), func(v Verifier) string { return v.Name })
}

func names[T any](rows []T, name func(T) string) []string {
	var all []string
	for _, r := range rows {
		all = append(all, name(r))
	}
	return all
}
