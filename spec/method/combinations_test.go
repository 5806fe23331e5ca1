package method

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"foretoken/spec"
	"foretoken/spec/adapt"
	"foretoken/spec/spectest"
)

// legal holds every combination that may be built: verifiers by drafter and policy.
var legal = map[string][]string{
	"none fixed":         {VerifierMatch, VerifierRejection, VerifierWithoutReplacement, VerifierMARS, VerifierAdaSD},
	"chain fixed":        {VerifierMatch, VerifierRejection, VerifierMARS, VerifierAdaSD},
	"chain c2t":          {VerifierMatch, VerifierMARS},
	"chain acceptance":   {VerifierMatch, VerifierRejection, VerifierMARS, VerifierAdaSD},
	"chain adaedl":       {VerifierMatch, VerifierRejection, VerifierMARS, VerifierAdaSD},
	"chain assisted":     {VerifierMatch, VerifierRejection, VerifierMARS, VerifierAdaSD},
	"chain adasd":        {VerifierMatch, VerifierRejection, VerifierMARS, VerifierAdaSD},
	"eagle2 fixed":       {VerifierMatch, VerifierMARS},
	"eagle2 hetero":      {VerifierMatch, VerifierMARS},
	"eagle2 c2t":         {VerifierMatch, VerifierMARS},
	"eagle2 acceptance":  {VerifierMatch, VerifierMARS},
	"eagle2 adaedl":      {VerifierMatch, VerifierMARS},
	"static fixed":       {VerifierMatch, VerifierMARS},
	"sampled fixed":      {VerifierMatch, VerifierWithoutReplacement, VerifierMARS},
	"ngram fixed":        {VerifierMatch, VerifierMARS},
	"ngram-simple fixed": {VerifierMatch, VerifierMARS},
	"ngram-map fixed":    {VerifierMatch, VerifierMARS},
	"auto fixed":         {VerifierMatch, VerifierMARS},
}

// combination is a small config of a drafter, a policy and a verifier, with all that the
// policies need to have been fitted.
func combination(drafter, policy, verifier string) Config {
	c := Config{Drafter: drafter, Adapt: policy, Verifier: verifier, Depth: 3, NgramMax: 2, NgramMin: 1}
	switch drafter {
	case DrafterEAGLE2, DrafterAuto:
		c.Depth, c.TopK, c.Nodes = 2, 3, 9
	case DrafterStatic, DrafterSampled:
		c.Shape = [][]int{{3}, {2, 0, 1}, {1, 2}}
	case DrafterNgramSimple, DrafterNgramMap:
		c.NgramMax = 1
	}
	edges := []float64{1.5, 2, 2.5, 3}
	print := spec.Fingerprint{TopK: c.TopK, Depth: c.Depth, Nodes: c.Nodes}
	c.Fitted = Fitted{
		Hetero: &adapt.HeteroCalibration{CalibrationHeader: spec.CalibrationHeader{Fingerprint: print},
			Fits: fits(edges, edges)},
		C2T: &adapt.C2TClassifier{
			Features: []string{adapt.FeatureProbability}, Mean: []float64{0}, Scale: []float64{1},
			Hidden: [][]float64{{1}}, HiddenBias: []float64{0}, Output: []float64{16}, OutputBias: -2,
		},
		Head: &adapt.AcceptanceHead{},
	}
	switch policy {
	case AdaptAcceptance:
		c.Threshold = 0.6
	case AdaptAdaEDL:
		c.Threshold = 0.55
	}
	return c
}

// combinations are all legal ones that a test asks for.
func combinations(want func(Config) bool) []Config {
	var all []Config
	for _, drafter := range Drafters() {
		for _, policy := range AdapterNames() {
			for _, verifier := range VerifierNames() {
				c := combination(drafter, policy, verifier)
				if slices.Contains(legal[drafter+" "+policy], verifier) && (want == nil || want(c)) {
					all = append(all, c)
				}
			}
		}
	}
	return all
}

// variants are a config and what its methods can be told.
func variants(c Config) []Config {
	all := []Config{c}
	with := func(change func(*Config)) {
		v := c
		change(&v)
		all = append(all, v)
	}
	if c.UsesDraftModel() && !c.Samples() {
		with(func(v *Config) { v.Uncoupled = true })
	}
	switch c.Adapt {
	case AdaptHetero:
		with(func(v *Config) { v.NoExtension = true })
		with(func(v *Config) { v.NoPruning = true })
		with(func(v *Config) { v.Alpha = 1 })
	case AdaptC2T:
		with(func(v *Config) { v.Threshold = 0.8 })
		with(func(v *Config) { v.OnePruning = true })
	case AdaptAcceptance:
		with(func(v *Config) { v.Threshold = 0 }) // by measured costs
		with(func(v *Config) { v.Any = true })
		with(func(v *Config) { v.PerBranch = true })
	case AdaptAssisted:
		with(func(v *Config) { v.Schedule = ScheduleConstant })
		with(func(v *Config) { v.Threshold = 0.1 })
	case AdaptAdaEDL:
		with(func(v *Config) { v.Lambda, v.Threshold = 1, 0.1 })
	}
	switch c.Verifier {
	case VerifierMARS:
		with(func(v *Config) { v.Mode = MARSSampled })
		with(func(v *Config) { v.Theta, v.Gap = 0.5, 0.3 })
	case VerifierAdaSD:
		for _, variant := range []string{adapt.AdaSDA, adapt.AdaSDB, adapt.AdaSDC} {
			with(func(v *Config) { v.Variant = variant })
		}
		with(func(v *Config) { v.Carry = true })
	}
	return all
}

// matched are the combinations that matching verifies.
func matched() []spectest.Setting {
	var all []spectest.Setting
	for _, c := range combinations(func(c Config) bool { return c.Verifier == VerifierMatch }) {
		all = append(all, named(c))
	}
	return all
}

// TestEveryCombinationIsLegalOrRefused goes through the whole table: what is in legal is built,
// everything else is refused with a reason that names what does not go together.
func TestEveryCombinationIsLegalOrRefused(t *testing.T) {
	target := spectest.NewTarget(&spectest.Script{Vocab: 6, Steps: 1e6}, 96, 64)
	draft := spectest.NewDraft(target, 128, 0.2)
	seen := 0
	for _, drafter := range Drafters() {
		for _, policy := range AdapterNames() {
			for _, verifier := range VerifierNames() {
				name := drafter + " " + policy + " " + verifier
				want := slices.Contains(legal[drafter+" "+policy], verifier)
				_, err := New(target, combination(drafter, policy, verifier), draft)
				if (err == nil) != want {
					t.Errorf("%s: %v, want legal: %v", name, err, want)
				}
				if want {
					seen++
				}
				if err == nil {
					continue
				}
				text := err.Error()
				if !strings.HasPrefix(text, "spec: ") || strings.Contains(text, "\n") ||
					!strings.Contains(text, drafter) && !strings.Contains(text, "tree") &&
						!strings.Contains(text, policy) ||
					!strings.Contains(text, policy) && !strings.Contains(text, verifier) {
					t.Errorf("%s is refused with %q, which does not say what does not go together", name, text)
				}
			}
		}
	}
	if seen != 50 {
		t.Errorf("%d combinations are legal, want 50", seen)
	}
}

func TestMissingFitsAreRefused(t *testing.T) {
	for _, c := range []struct{ drafter, policy, want string }{
		{DrafterEAGLE2, AdaptHetero, "make them with foretoken calibrate hetero"},
		{DrafterEAGLE2, AdaptC2T, "make one with foretoken train c2t"},
		{DrafterChain, AdaptC2T, "make one with foretoken train c2t"},
		{DrafterEAGLE2, AdaptAcceptance, "make one with foretoken train acceptance-head"},
		{DrafterChain, AdaptAcceptance, "make one with foretoken train acceptance-head"},
	} {
		config := combination(c.drafter, c.policy, VerifierMatch)
		config.Fitted = Fitted{}
		if err := config.Validate(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %s without fits: %v, want %q", c.drafter, c.policy, err, c.want)
		}
	}
}

// TestCombinationsNeedDraftModels has no draft model for combinations that rely on one.
func TestCombinationsNeedDraftModels(t *testing.T) {
	target := spectest.NewTarget(&spectest.Script{Vocab: 6, Steps: 1e6}, 96, 64)
	for _, c := range combinations(nil) {
		if _, err := New(target, c); (err != nil) != c.UsesDraftModel() {
			t.Errorf("%s %s %s without a draft: %v", c.Drafter, c.Adapt, c.Verifier, err)
		}
	}
}

// TestCombinationsEqualPlainDecoding is the exactness of matching under every drafter and
// policy, and at temperature 0 of every lossless verifier.
func TestCombinationsEqualPlainDecoding(t *testing.T) {
	prompt := []int32{1, 0, 1}
	for _, c := range combinations(func(c Config) bool { return c.Exactness() != Lossy }) {
		for i, v := range variants(c) {
			set := named(v)
			sums := map[bool]spec.Stats{}
			for _, vocab := range []int{2, 5, 40} {
				for _, steps := range []float64{1, 1e6} { // with and without ties
					target := spectest.NewTarget(&spectest.Script{Vocab: vocab, Steps: steps}, 96, 64)
					for _, differ := range []float64{0.1, 1} {
						draft := spectest.NewDraft(target, 128, differ)
						for j, sampling := range spectest.Samplings() {
							if c.Verifier != VerifierMatch && sampling.Temperature > 0 {
								continue
							}
							sampling.Seed = uint64(j)<<40 + 7
							o := spec.Options{Sampling: sampling, MaxTokens: 24}
							want, finish := spectest.Plain(target.Script, prompt, 96, o)
							got, stats := spectest.Generate(t, set, target, draft, prompt, o)
							spectest.Expect(t, fmt.Sprintf("%s, variant %d, sampling %d, differ %v", set.Name, i, j,
								differ), got, stats, want, finish)
							if stats.Lossy {
								t.Fatalf("%s is marked lossy", set.Name)
							}
							sum := sums[sampling.Temperature > 0]
							sum.Add(&stats)
							sums[sampling.Temperature > 0] = sum
						}
					}
				}
			}
			// A combination that drafts nothing, or never accepts or corrects, tests nothing.
			for _, sum := range sums {
				if c.Drafter != DrafterNone && (sum.Accepted == 0 || sum.Corrected == 0) {
					t.Errorf("%s, variant %d: the test did not reach every case: %+v", set.Name, i, sum)
				}
			}
		}
	}
}

// TestCombinationsKeepTheirBooks runs every combination, lossy ones included, to each kind of
// end, with a draft that has less room than the target. What an event must be is checked by
// generate, what a model must be told by the scripted models.
func TestCombinationsKeepTheirBooks(t *testing.T) {
	spectest.Long(t)
	prompt := []int32{3, 1}
	s := &spectest.Script{Vocab: 6, Steps: 1e6, EOS: 5}
	for _, c := range combinations(nil) {
		for _, v := range variants(c) {
			set := named(v)
			for _, sampling := range []spec.Sampling{{}, {Temperature: 1, TopP: 0.9, Seed: 11}} {
				for _, differ := range []float64{0, 0.3} {
					run := func(context, draftContext int, o spec.Options) []int32 {
						t.Helper()
						o.Sampling = sampling
						target := spectest.NewTarget(s, context, 32)
						out, stats := spectest.Generate(t, set, target, spectest.NewDraft(target, draftContext, differ),
							prompt, o)
						if stats.Lossy != (c.Exactness() == Lossy) {
							t.Fatalf("%s: lossy is %v", set.Name, stats.Lossy)
						}
						return out
					}
					for n := 1; n <= 9; n++ {
						run(len(prompt)+n, 96, spec.Options{})
						run(len(prompt)+12, len(prompt)+n-2, spec.Options{})
						run(96, 96, spec.Options{MaxTokens: n})
					}
					if c.Adapt == AdaptAcceptance && v.Threshold == 0 || c.Drafter == DrafterAuto {
						continue // what these draft depends on the clock, and what a lossy verifier makes of it too
					}
					whole := run(96, 96, spec.Options{MaxTokens: 40})
					for n := 1; n <= 9; n++ {
						cut := run(96, 96, spec.Options{MaxTokens: 40, Cut: spectest.CutAfter(n)})
						if !slices.Equal(cut, whole[:n]) {
							t.Fatalf("%s: cut at %d gives %v of %v", set.Name, n, cut, whole)
						}
					}
				}
			}
		}
	}
}

// TestJointDistributionOfEveryDrawnDraft runs the verifiers that are exact in distribution,
// under every policy, over many seeds: the tokens that follow the prompt have the joint
// distribution that the target's own steps multiply to.
func TestJointDistributionOfEveryDrawnDraft(t *testing.T) {
	spectest.Long(t)
	for i, sampling := range []spec.Sampling{{Temperature: 1}, {Temperature: 0.8, TopK: 2}} {
		target, draft := drawnPair()
		want := joint(target.Script, sampling)
		for _, c := range combinations(func(c Config) bool {
			return c.Drafter != DrafterNone && c.Exactness() != Lossy && c.Verifier != VerifierMatch
		}) {
			name := fmt.Sprintf("%s %s %s, sampling %d", c.Drafter, c.Adapt, c.Verifier, i)
			p, err := c.Parts(target, draft)
			if err != nil {
				t.Fatal(err)
			}
			counts, sum := outcomes(t, target, p, sampling)
			spectest.ChiSquare(t, name, counts, want)
			if sum.Accepted == 0 || sum.Corrected == 0 || sum.Bonus == 0 {
				t.Errorf("%s: the test did not reach every case: %+v", name, sum)
			}
			// A policy that ends all chains alike shows nothing.
			if d := sum.DepthDrafted; c.Adapt != AdaptFixed && (d[len(d)-1] == 0 || d[len(d)-1] > d[0]*9/10) {
				t.Errorf("%s: chains that reached each depth: %v", name, d)
			}
		}
	}
}
