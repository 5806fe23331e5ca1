package method

import (
	"context"
	"math"
	"slices"
	"strings"
	"testing"

	"foretoken/spec"
	"foretoken/spec/adapt"
	"foretoken/spec/spectest"
)

// TestSampleIsWhatVerifyingGives drafts against a known continuation and compares with the
// rounds of a generation, where the target verified the same trees.
func TestSampleIsWhatVerifyingGives(t *testing.T) {
	target := spectest.NewTarget(&spectest.Script{Vocab: 12, Steps: 1e6}, 400, 64)
	draft := spectest.NewDraft(target, 400, 0.1)
	prompt := []int32{1, 2}
	for _, sampling := range []spec.Sampling{{}, {Temperature: 1, Seed: 3}} {
		o := spec.Options{Sampling: sampling, MaxTokens: 200}
		continuation, _ := spectest.Plain(target.Script, prompt, 400, o)
		alone := spectest.NewDraft(target, 400, 0.1)
		alone.Target = nil
		rounds, full, at := 0, 0, 0
		g, err := New(target, Config{Drafter: DrafterEAGLE2, Verifier: VerifierMatch, Depth: 2, TopK: 3,
			Nodes: 12}, draft)
		if err != nil {
			t.Fatal(err)
		}
		_, err = g.Generate(context.Background(), prompt, o, func(e *spec.Event) error {
			defer func() { at += len(e.Tokens) }()
			if e.Tree == nil || len(e.Levels) < 3 || at+3 > len(continuation) {
				return nil // cut short by the end
			}
			seq := append(slices.Clone(prompt), continuation[:at]...)
			alone.Reset()
			if len(seq) > 1 {
				if err := alone.Prefill(context.Background(), seq[:len(seq)-1]); err != nil {
					return err
				}
			}
			levels, err := alone.Draft(context.Background(), spec.DraftRequest{
				Pending: seq[len(seq)-1:], Depth: 2, K: 3, Coupled: sampling.Temperature > 0, Sampling: sampling,
			})
			if err != nil {
				return err
			}
			got, err := adapt.HeteroSample(levels, 12, continuation[at:])
			if err != nil {
				return err
			}
			last := e.Path[len(e.Path)-1]
			phi, _ := adapt.MetaPath(e.Levels)
			if want := (adapt.HeteroPoint{Phi: phi, TCR: e.Tree.Rank(last),
				Full: e.Tree.Depths[last] == 3}); got != want {
				t.Errorf("T=%v, round %d: %+v, the target's verdict gives %+v", sampling.Temperature, e.Round, got,
					want)
			}
			rounds++
			if got.Full {
				full++
			}
			return nil
		})
		if err != nil || rounds < 20 || full == 0 || full == rounds {
			t.Errorf("T=%v: %d rounds, %d full (%v)", sampling.Temperature, rounds, full, err)
		}
	}
}

func TestHeteroBudgetsByHand(t *testing.T) {
	base := Config{Drafter: DrafterEAGLE2, Adapt: AdaptHetero, Depth: 5, TopK: 10, Nodes: 60,
		Fitted: Fitted{Hetero: &adapt.HeteroCalibration{Fits: fits([]float64{1.5, 2.25, 4}, nil)}}}
	with := func(edit func(*Config)) Config {
		c := base
		edit(&c)
		return c
	}
	for _, c := range []struct {
		name    string
		config  Config
		budgets []spec.Budget
		all     spec.Budget
	}{
		{"the paper's", base, []spec.Budget{{Levels: 6, Width: 10, Nodes: 60}, {Levels: 9, Width: 10, Nodes: 21},
			{Levels: 8, Width: 10, Nodes: 38}, {Levels: 7, Width: 10, Nodes: 61}},
			spec.Budget{Levels: 9, Width: 10, Nodes: 61}},
		{"extension only", with(func(c *Config) { c.NoPruning = true }),
			[]spec.Budget{{Levels: 6, Width: 10, Nodes: 60}, {Levels: 9, Width: 10, Nodes: 63},
				{Levels: 8, Width: 10, Nodes: 62}, {Levels: 7, Width: 10, Nodes: 61}},
			spec.Budget{Levels: 9, Width: 10, Nodes: 63}},
		{"pruning only", with(func(c *Config) { c.NoExtension = true }),
			[]spec.Budget{{Levels: 6, Width: 10, Nodes: 60}, {Levels: 6, Width: 10, Nodes: 18},
				{Levels: 6, Width: 10, Nodes: 36}, {Levels: 6, Width: 10, Nodes: 60}},
			spec.Budget{Levels: 6, Width: 10, Nodes: 60}},
		{"no adaptation", with(func(c *Config) { c.NoAdaptation = true }),
			[]spec.Budget{{Levels: 6, Width: 10, Nodes: 60}, {Levels: 9, Width: 10, Nodes: 21},
				{Levels: 8, Width: 10, Nodes: 38}, {Levels: 7, Width: 10, Nodes: 61}},
			spec.Budget{Levels: 9, Width: 10, Nodes: 61}},
		{"alpha+1", with(func(c *Config) { c.Alpha = 1 }),
			[]spec.Budget{{Levels: 6, Width: 10, Nodes: 60}, {Levels: 10, Width: 10, Nodes: 22},
				{Levels: 9, Width: 10, Nodes: 39}, {Levels: 8, Width: 10, Nodes: 62}},
			spec.Budget{Levels: 10, Width: 10, Nodes: 62}},
		{"alpha-1", with(func(c *Config) { c.Alpha = -1 }),
			[]spec.Budget{{Levels: 6, Width: 10, Nodes: 60}, {Levels: 8, Width: 10, Nodes: 20},
				{Levels: 7, Width: 10, Nodes: 37}, {Levels: 6, Width: 10, Nodes: 60}},
			spec.Budget{Levels: 8, Width: 10, Nodes: 60}},
		{"alpha far out", with(func(c *Config) { c.Alpha = 1000 }),
			[]spec.Budget{{Levels: 6, Width: 10, Nodes: 60}, {Levels: 64, Width: 10, Nodes: 76},
				{Levels: 64, Width: 10, Nodes: 94}, {Levels: 64, Width: 10, Nodes: 118}},
			spec.Budget{Levels: 64, Width: 10, Nodes: 118}},
		{"rounded up", with(func(c *Config) { c.Depth, c.Nodes = 3, 11 }),
			[]spec.Budget{{Levels: 4, Width: 10, Nodes: 11}, {Levels: 6, Width: 10, Nodes: 6},
				{Levels: 5, Width: 10, Nodes: 8}, {Levels: 4, Width: 10, Nodes: 11}},
			spec.Budget{Levels: 6, Width: 10, Nodes: 11}},
		{"no bins", with(func(c *Config) { c.Fitted.Hetero = nil }), []spec.Budget{{Levels: 6, Width: 10, Nodes: 60}},
			spec.Budget{Levels: 6, Width: 10, Nodes: 60}},
	} {
		got := []spec.Budget{{Levels: c.config.Depth + 1, Width: c.config.TopK, Nodes: c.config.Nodes}}
		for i := range len(c.budgets) - 1 {
			got = append(got, c.config.heteroSettings().Bin(i))
		}
		if !slices.Equal(got, c.budgets) {
			t.Errorf("%s: budgets %v, want %v", c.name, got, c.budgets)
		}
		if got := c.config.Budget(); got != c.all {
			t.Errorf("%s: budget %v, want %v", c.name, got, c.all)
		}
	}
}

// bins are entropy bins of temperature 0 with edges as given.
func bins(edges []float64) *adapt.HeteroFit {
	fit := &adapt.HeteroFit{HeteroFitting: adapt.DefaultHeteroFitting(), Edges: edges}
	for range len(edges) + 1 {
		fit.Means, fit.Counts, fit.Rounds = append(fit.Means, 2), append(fit.Counts, 200), append(fit.Rounds, 200)
	}
	return fit
}

// fits are bins of temperature 0, and others for every band above it.
func fits(greedy, coupled []float64) []*adapt.HeteroFit {
	all := []*adapt.HeteroFit{bins(greedy)}
	for _, temperature := range []float64{0.5, 1, 2} {
		all = append(all, bins(coupled))
		all[len(all)-1].Temperature = temperature
	}
	return all
}

func heteroConfig(greedy, coupled []float64) Config {
	c := Config{Drafter: DrafterEAGLE2, Verifier: VerifierMatch, Adapt: AdaptHetero, Depth: 2, TopK: 3, Nodes: 12}
	c.Fitted.Hetero = &adapt.HeteroCalibration{
		CalibrationHeader: spec.CalibrationHeader{Fingerprint: spec.Fingerprint{}.WithTree(c.TopK, c.Depth, c.Nodes)},
		Fits:              fits(greedy, coupled),
	}
	return c
}

// These edges put rounds of the scripted draft in every bin.
var (
	spread        = []float64{3.1, 3.16, 3.2}
	spreadCoupled = []float64{2, 2.4, 2.75}
)

// TestHeteroRounds holds every round to the definition, ablations included.
func TestHeteroRounds(t *testing.T) {
	target := spectest.NewTarget(&spectest.Script{Vocab: 12, Steps: 1e6}, 1000, 64)
	cut := 0 // rounds whose tree the end of the generation made shallower than the base
	for _, edit := range []func(*Config){
		func(*Config) {},
		func(c *Config) { c.NoExtension = true },
		func(c *Config) { c.NoPruning = true },
		func(c *Config) { c.NoAdaptation = true },
		func(c *Config) { c.Alpha = 2 },
		func(c *Config) { c.Nodes, c.Fitted.Hetero.Fingerprint.Nodes = 4, 4 }, // ⌈.3·4⌉+1 < |P*|
	} {
		c := heteroConfig(spread, spreadCoupled)
		edit(&c)
		draft := spectest.NewDraft(target, 1000, 0.1)
		g, err := New(target, c, draft)
		if err != nil {
			t.Fatal(err)
		}
		seen := map[int]int{}
		stats, err := g.Generate(context.Background(), []int32{1, 2}, spec.Options{MaxTokens: 400},
			func(e *spec.Event) error {
				if e.Levels != nil && len(e.Levels) <= c.Depth {
					if cut++; e.Proposal.Bin != 0 {
						t.Errorf("round %d has %d levels, of which the bins know nothing, and bin %d", e.Round,
							len(e.Levels), e.Proposal.Bin)
					}
				}
				if e.Tree == nil || e.Stats.OutputTokens > 380 {
					return nil
				}
				phi, path := adapt.MetaPath(e.Levels[:c.Depth+1])
				bin := c.Fitted.Hetero.Fits[0].Bin(phi)
				seen[bin]++
				want := spec.Budget{Levels: c.Depth + 1, Width: c.TopK, Nodes: c.Nodes}
				if bin < 3 {
					want = c.heteroSettings().Bin(bin)
					want.Nodes = max(want.Nodes, path)
				}
				if e.Proposal.Bin != bin+1 || e.Proposal.Phi != phi || len(e.Levels) != want.Levels ||
					e.Tree.Len() != want.Nodes {
					t.Errorf("round %d, Φ %v: bin %d, %d levels, %d nodes, want bin %d and %+v", e.Round, phi,
						e.Proposal.Bin, len(e.Levels), e.Tree.Len(), bin+1, want)
				}
				return nil
			})
		if err != nil || len(seen) != 4 {
			t.Errorf("%+v: bins seen %v (%v)", c.Settings, seen, err)
		}
		rounds, nodes, accepted, ranks, phis := 0, 0, 0, 0, 0
		for i, b := range stats.Bins {
			rounds, nodes, accepted = rounds+b.Rounds, nodes+b.Nodes, accepted+b.Accepted
			for _, n := range b.TCR {
				ranks += n
			}
			for j, n := range b.Phi {
				phis += n
				low, high := math.Inf(-1), math.Inf(1)
				if i > 0 {
					low = spread[i-1]
				}
				if i < 3 {
					high = spread[i]
				}
				if n > 0 && (float64(j+1)*spec.PhiStep < low || float64(j)*spec.PhiStep > high) {
					t.Errorf("bin %d counts Φ of %v", i+1, float64(j)*spec.PhiStep)
				}
			}
		}
		// The last rounds have no bin where the tokens left cut the tree short.
		if accepted > stats.Accepted || rounds != phis || rounds < ranks || ranks < rounds-1 ||
			rounds < stats.Rounds-5 || nodes > stats.Nodes {
			t.Errorf("the bins %+v do not add up to %+v", stats.Bins, stats)
		}
	}
	if cut == 0 {
		t.Error("no tree was cut short")
	}
}

func TestHeteroIsRefused(t *testing.T) {
	target := spectest.NewTarget(&spectest.Script{Vocab: 12, Steps: 1e6}, 100, 64)
	draft := spectest.NewDraft(target, 100, 0.1)
	c := heteroConfig(spread, spread)
	c.TopK = 4
	if _, err := c.Parts(target, draft); err == nil ||
		!strings.HasSuffix(err.Error(), "foretoken calibrate hetero --top-k 4 --depth 2 --nodes 12") {
		t.Errorf("bins for another tree: %v", err)
	}
	c = heteroConfig(spread, spread)
	c.Fitted.Hetero.Fits = c.Fitted.Hetero.Fits[:1]
	generate := func(s spec.Sampling) error {
		g, err := New(target, c, draft)
		if err != nil {
			t.Fatal(err)
		}
		_, err = g.Generate(context.Background(), []int32{1}, spec.Options{Sampling: s, MaxTokens: 3}, nil)
		return err
	}
	if err := generate(spec.Sampling{}); err != nil {
		t.Errorf("greedy bins at temperature 0: %v", err)
	}
	if err := generate(spec.Sampling{Temperature: 1}); err == nil ||
		err.Error() != c.CheckAt(1).Error() || !strings.Contains(err.Error(), "fitted to temperatures 0 and not to "+
		"temperature 1; fit them with foretoken calibrate hetero --top-k 3 --depth 2 --nodes 12 --temperature 1 "+
		"--add") {
		t.Errorf("greedy bins for a coupled draft: %v", err)
	}
	c.Uncoupled = true
	if err := generate(spec.Sampling{Temperature: 1}); err != nil {
		t.Errorf("greedy bins for an uncoupled draft: %v", err)
	}
	c.Uncoupled = false
	c.Fitted.Hetero.Fits[0].Temperature = 1
	if err := generate(spec.Sampling{}); err == nil || err.Error() != c.CheckAt(0).Error() {
		t.Errorf("coupled bins at temperature 0: %v", err)
	}
	for temperature, fitted := range map[float64]bool{0.5: false, 0.6: true, 1: true, 1.1: false} {
		err := generate(spec.Sampling{Temperature: temperature})
		if (err == nil) != fitted || (c.CheckAt(temperature) == nil) != fitted {
			t.Errorf("bins of temperature 1 at %v: %v", temperature, err)
		}
	}
}
