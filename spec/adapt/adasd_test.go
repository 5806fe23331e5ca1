package adapt

import (
	"context"
	"math"
	"slices"
	"strings"
	"testing"

	"foretoken/spec"
	drafting "foretoken/spec/draft"
	"foretoken/spec/spectest"
)

// scriptedDraft is a draft model that follows a script, round by round, for chains of 4 tokens. The target of
// scriptedTarget reads the same script.
type scriptedDraft struct {
	spectest.PartialDraft
	rounds        []scriptedRound
	round         int // current round
	drawn         int
	length        int
	drawnPerRound []int // tokens drawn per round, those after the stop included
}

// scriptedRound scripts a round. Token i has draft entropy bits[i] and distance[i] from the target, and is the
// target's own token where match has a 1.
type scriptedRound struct {
	bits, distance []float64
	match          string
	impossible     int // 1-based index of the token that the target gives probability 0; 0: none
}

func (h *scriptedDraft) Limits() spec.Limits {
	return spec.Limits{Context: 100, MaxRows: 64, Vocab: 10, TopK: 16}
}

func (h *scriptedDraft) Reset() { h.length = 0 }

func (h *scriptedDraft) ReusePrefix([]int32) int { h.length = 0; return 0 }

func (h *scriptedDraft) Len() int { return h.length }

func (h *scriptedDraft) Prefill(_ context.Context, t []int32) error {
	h.length += len(t)
	return nil
}

func (h *scriptedDraft) Sample(_ context.Context, r spec.SampleRequest) ([]spec.Drawn, error) {
	if h.length += len(r.Pending); len(r.Pending) > 0 {
		h.drawn = 0
	}
	h.drawn += r.Count
	var all []spec.Drawn
	for i, b := range h.rounds[h.round].bits[:h.drawn] {
		all = append(all, spec.Drawn{Token: int32(i + 1), Prob: 0.5, Entropy: float32(b * math.Ln2)})
	}
	return all, nil
}

func (h *scriptedDraft) Commit(beams []int32) error {
	h.length += len(beams)
	h.drawnPerRound = append(h.drawnPerRound, h.drawn)
	h.round++
	return nil
}

type scriptedTarget struct {
	spectest.PartialTarget
	draft  *scriptedDraft
	length int
}

func (h *scriptedTarget) Limits() spec.Limits {
	return spec.Limits{Context: 100, MaxRows: 64, Vocab: 10, TopK: 2}
}

func (h *scriptedTarget) Reset() { h.length = 0 }

func (h *scriptedTarget) ReusePrefix([]int32) int { h.length = 0; return 0 }

func (h *scriptedTarget) Len() int { return h.length }

func (h *scriptedTarget) Prefill(_ context.Context, t []int32) error {
	h.length += len(t)
	return nil
}

func (h *scriptedTarget) Commit(path []int32) error { h.length += len(path); return nil }

func (h *scriptedTarget) Verify(_ context.Context, r spec.PassRequest) (*spec.Pass, error) {
	tree := r.Tree
	out := make([]spec.NodeOutput, tree.Len())
	for i := range out {
		out[i].Token = 9
		if i < tree.Len()-1 && h.draft.rounds[h.draft.round].match[i] == '1' {
			out[i].Token = tree.Tokens[i+1]
		}
	}
	pass := &spec.Pass{Outputs: out}
	if r.Kind == spec.PassDivergence {
		script := h.draft.rounds[h.draft.round]
		for i := range tree.Len() - 1 {
			pass.Divergences = append(pass.Divergences,
				spec.Divergence{Distance: float32(script.distance[i]), Possible: script.impossible != i+1})
		}
	}
	return pass, nil
}

// adaSDRounds returns five rounds: two tokens accepted and one rejected; one close and one far token, the second
// beyond T_g; all accepted; a close token of target probability 0; and a run that is cut after its first token.
func adaSDRounds() []scriptedRound {
	return []scriptedRound{
		{bits: []float64{1, 2, 3, 4}, distance: []float64{0.1, 0.2, 0.5, 0.9}, match: "1100"},
		{bits: []float64{1, 3.5, 1, 1}, distance: []float64{0.2, 0.4, 0.1, 0.1}, match: "0011"},
		{bits: []float64{1, 1, 1, 1}, distance: []float64{0.1, 0.1, 0.1, 0.1}, match: "1111"},
		{bits: []float64{1, 1, 1, 1}, distance: []float64{0, 0, 0, 0}, match: "1011", impossible: 2},
		{bits: []float64{1, 1, 1, 1}, distance: []float64{0.3, 0.95, 0.1, 0.1}, match: "1011"},
	}
}

// roundResult is the expected outcome of a round.
type roundResult struct {
	drafted, accepted, relaxed int
	tg, tv                     float64
}

// play generates the rounds and compares each with want.
func (h *scriptedDraft) play(t *testing.T, name string, a *AdaSD, p spec.Parts, cut int,
	want []roundResult) spec.Stats {
	t.Helper()
	h.round, h.drawnPerRound = 0, nil
	g, err := spec.New(&scriptedTarget{draft: h}, p)
	if err != nil {
		t.Fatal(err)
	}
	var before spec.Stats
	tokens := 0
	stats, err := g.Generate(context.Background(), []int32{5, 6}, spec.Options{Cut: func(run []int32) (int, bool) {
		if tokens += len(run); tokens >= cut {
			return len(run) - (tokens - cut), true
		}
		return len(run), false
	}}, func(e *spec.Event) error {
		w := want[e.Round-1]
		got := roundResult{e.Tree.Len() - 1, len(e.Path) - 1, e.Stats.Relaxed - before.Relaxed, a.Generation(),
			a.Verification()}
		near := func(x, y float64) bool { return x == y || math.Abs(x-y) < 1e-6 }
		if got.drafted != w.drafted || got.accepted != w.accepted || got.relaxed != w.relaxed || !near(got.tg, w.tg) ||
			!near(got.tv, w.tv) {
			t.Errorf("%s, round %d: %+v, want %+v", name, e.Round, got, w)
		}
		before = *e.Stats
		return nil
	})
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	if len(h.drawnPerRound) != len(want) {
		t.Errorf("%s: %d rounds, want %d", name, len(h.drawnPerRound), len(want))
	}
	return stats
}

func TestAdaSDByHand(t *testing.T) {
	both := func(variant string) (*scriptedDraft, *AdaSD, spec.Parts) {
		h := &scriptedDraft{rounds: adaSDRounds()}
		a := &AdaSD{Variant: variant, Most: 4, Records: &AdaSDRecords{}}
		return h, a, spec.Parts{Drafter: &drafting.SampledChain{Model: h, Rule: a, Ahead: 1}, Verifier: a, Policy: a}
	}
	// Tokens committed: 3, 2, 5, 2 and, of the last round, 1.
	h, a, p := both("")
	midpoint := []roundResult{
		{4, 2, 0, 3, (0.15 + 0.5) / 2},
		{2, 1, 1, 3.25, (0.5/3 + 0.45) / 2},
		{4, 4, 0, 3.25, (0.9/7 + 0.45) / 2},
		{4, 1, 0, 7.5 / 3, (0.9/8 + 0.3) / 2},
		{4, 1, 0, 7.5 / 3, (1.2/9 + 0.3) / 2},
	}
	stats := h.play(t, "midpoint", a, p, 13, midpoint)
	if want := (AdaSDRecords{
		DistanceStats: stats.Distances, Entropy: a.Records.Entropy, Rejections: 3, WithAccept: 5, WithFail: 3,
	}); *a.Records != want {
		t.Errorf("records %+v, want %+v", *a.Records, want)
	}
	// The round that ends with a token of probability 0 rejects it at distance 0.
	if d := stats.Distances; d.Accepted.Tokens != 9 || math.Abs(d.Accepted.Sum-1.2) > 1e-6 || d.Rejected.Tokens != 3 ||
		math.Abs(d.Rejected.Mean()-0.3) > 1e-6 {
		t.Errorf("distances %+v", d)
	}
	if !slices.Equal(h.drawnPerRound, []int{4, 2, 4, 4, 4}) {
		t.Errorf("drew %v tokens", h.drawnPerRound)
	}
	a.Variant = AdaSDMidpoint
	h.play(t, "midpoint by name, a new request", a, p, 13, midpoint)

	// The mean of accepted tokens is below 0.2, so the second round rejects its first token, and T_g falls to the
	// mean of 3 and 1 bits.
	h, a, p = both(AdaSDA)
	h.play(t, "A", a, p, 12, []roundResult{
		{4, 2, 0, 3, 0.15},
		{2, 0, 0, 2, 0.15},
		{4, 4, 0, 2, 0.7 / 6},
		{4, 1, 0, 5.0 / 3, 0.7 / 7},
		{4, 1, 0, 5.0 / 3, 1.0 / 8},
	})
	h, a, p = both(AdaSDB)
	h.play(t, "B", a, p, 13, []roundResult{
		{4, 2, 0, 3, 0.8 / 3},
		{2, 1, 1, 3.25, 1.4 / 5},
		{4, 4, 0, 3.25, 1.8 / 9},
		{4, 1, 0, 7.5 / 3, 1.8 / 11},
		{4, 1, 0, 7.5 / 3, 2.1 / 12},
	})
	// C weights by rounds: after the third round, three rounds had an accepted token and two a rejected one.
	h, a, p = both(AdaSDC)
	h.play(t, "C", a, p, 13, []roundResult{
		{4, 2, 0, 3, (0.15 + 0.5) / 2},
		{2, 1, 1, 3.25, (2*0.5/3 + 2*0.45) / 4},
		{4, 4, 0, 3.25, (3*0.9/7 + 2*0.45) / 5},
		{4, 1, 0, 7.5 / 3, (4*0.9/8 + 3*0.3) / 7},
		{4, 1, 0, 7.5 / 3, (5*1.2/9 + 3*0.3) / 8},
	})

	// Generation alone: the second round rejects its first token, which differs from the target's.
	h = &scriptedDraft{rounds: adaSDRounds()}
	a = &AdaSD{Most: 4, Records: &AdaSDRecords{}}
	stats = h.play(t, "generation only", a, spec.Parts{Drafter: &drafting.SampledChain{Model: h, Rule: a},
		Verifier: spec.Match{}, Policy: a}, 12, []roundResult{
		{4, 2, 0, 3, 0},
		{2, 0, 0, 2, 0},
		{4, 4, 0, 2, 0},
		{4, 1, 0, 5.0 / 3, 0},
		{4, 1, 0, 5.0 / 3, 0},
	})
	if stats.Distances != (spec.DistanceStats{}) {
		t.Errorf("matching compared distributions: %+v", stats.Distances)
	}

	// Verification alone: all four tokens are drafted whatever their entropy.
	h = &scriptedDraft{rounds: adaSDRounds()}
	a = &AdaSD{Most: 4, Records: &AdaSDRecords{}}
	h.play(t, "verification only", a, spec.Parts{Drafter: &drafting.SampledChain{Model: h}, Verifier: a,
		Policy: spec.Fixed{Levels: 4, Width: 1, Nodes: 5}}, 13, []roundResult{
		{4, 2, 0, 3, (0.15 + 0.5) / 2},
		{4, 1, 1, 3.25, (0.5/3 + 0.45) / 2},
		{4, 4, 0, 3.25, (0.9/7 + 0.45) / 2},
		{4, 1, 0, 7.5 / 3, (0.9/8 + 0.3) / 2},
		{4, 1, 0, 7.5 / 3, (1.2/9 + 0.3) / 2},
	})
}

// TestAdaSDThresholdsBeforeTheirMeans checks that a threshold relaxes and stops nothing before its means exist.
func TestAdaSDThresholdsBeforeTheirMeans(t *testing.T) {
	some := spec.DistanceSum{Sum: 0.3, Tokens: 2}
	accepted, rejected := spec.DistanceStats{Accepted: some}, spec.DistanceStats{Rejected: some}
	for _, c := range []struct {
		r    AdaSDRecords
		want map[string]float64
	}{
		{AdaSDRecords{}, map[string]float64{}},
		{AdaSDRecords{DistanceStats: accepted, WithAccept: 1}, map[string]float64{AdaSDA: 0.15}},
		{AdaSDRecords{DistanceStats: rejected, WithFail: 2, Rejections: 2, Entropy: 5}, map[string]float64{}},
		{AdaSDRecords{DistanceStats: spec.DistanceStats{Accepted: some, Rejected: some}, WithAccept: 1, WithFail: 2},
			map[string]float64{"": 0.15, AdaSDMidpoint: 0.15, AdaSDA: 0.15, AdaSDB: 0.15, AdaSDC: 0.15}},
	} {
		for _, variant := range []string{"", AdaSDMidpoint, AdaSDA, AdaSDB, AdaSDC} {
			a := AdaSD{Variant: variant, Records: &c.r}
			if got := a.Verification(); math.Abs(got-c.want[variant]) > 1e-12 {
				t.Errorf("%q of %+v: T_v is %v, want %v", variant, c.r, got, c.want[variant])
			}
		}
	}
	if a := (AdaSD{Records: &AdaSDRecords{}}); !math.IsInf(a.Generation(), 1) {
		t.Errorf("T_g of nothing is %v", a.Generation())
	}
}

// TestAdaSDCarries runs a request of one round twice. In the second run T_g is the entropy of the third token,
// which does not exceed it, so the fourth token is drafted too.
func TestAdaSDCarries(t *testing.T) {
	for carry, rejections := range map[bool]int{false: 1, true: 2} {
		h := &scriptedDraft{rounds: adaSDRounds()}
		a := &AdaSD{Most: 4, Carry: carry, Records: &AdaSDRecords{}}
		p := spec.Parts{Drafter: &drafting.SampledChain{Model: h, Rule: a, Ahead: 1}, Verifier: a, Policy: a}
		for range 2 {
			h.play(t, "a request", a, p, 3, []roundResult{{4, 2, 0, 3, 0.325}})
		}
		if a.Records.Rejections != rejections || a.Records.WithAccept != rejections ||
			a.Records.Accepted.Tokens != 2*rejections {
			t.Errorf("carry %v: records %+v", carry, *a.Records)
		}
	}
}

// TestAdaSDCutAtTheRejection cuts runs around the first rejected token. Tokens after a cut are not verified.
func TestAdaSDCutAtTheRejection(t *testing.T) {
	for cut, want := range map[int][5]int{1: {1, 0, 0, 1, 0}, 2: {2, 0, 0, 1, 0}, 3: {2, 1, 1, 1, 1}} {
		h := &scriptedDraft{rounds: adaSDRounds()}
		a := &AdaSD{Most: 4, Records: &AdaSDRecords{}}
		g, err := spec.New(&scriptedTarget{draft: h},
			spec.Parts{Drafter: &drafting.SampledChain{Model: h, Rule: a, Ahead: 1}, Verifier: a, Policy: a})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := g.Generate(context.Background(), []int32{5}, spec.Options{Cut: spectest.CutAfter(cut)},
			nil); err != nil {
			t.Fatal(err)
		}
		r := a.Records
		got := [5]int{r.Accepted.Tokens, r.Rejected.Tokens, r.Rejections, r.WithAccept, r.WithFail}
		if got != want {
			t.Errorf("cut after %d: %+v, want %+v", cut, got, want)
		}
	}
}

// shortTarget is a target that compares one distribution too few.
type shortTarget struct{ *spectest.Target }

func (d shortTarget) Verify(ctx context.Context, r spec.PassRequest) (*spec.Pass, error) {
	pass, err := d.Target.Verify(ctx, r)
	if len(pass.Divergences) > 0 {
		pass.Divergences = pass.Divergences[1:]
	}
	return pass, err
}

func TestAdaSDRefusesOtherDrafts(t *testing.T) {
	target := spectest.NewTarget(&spectest.Script{Vocab: 6, Steps: 2}, 64, 16)
	draft := spectest.NewDraft(target, 64, 0)
	a := &AdaSD{Most: 3, Records: &AdaSDRecords{}}
	for want, c := range map[string]struct {
		target  spec.Target
		drafter spec.Drafter
	}{
		"a verifier that compares distributions needs a chain that was sampled": {
			target, &drafting.TreeDrafter{Model: draft},
		},
		"the target compared 2 of 3 distributions": {shortTarget{target}, &drafting.SampledChain{Model: draft}},
	} {
		g, err := spec.New(c.target, spec.Parts{Drafter: c.drafter, Verifier: a,
			Policy: spec.Fixed{Levels: 3, Width: 1, Nodes: 4}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err = g.Generate(context.Background(), []int32{1}, spec.Options{}, nil); err == nil ||
			!strings.HasPrefix(err.Error(), "spec: "+want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
