package spec

import (
	"context"
	"math"
	"slices"
	"strings"
	"testing"
)

// hand is a draft and a target that say what a test writes down, round by round, for chains
// of 4 tokens.
type hand struct {
	DraftModel
	rounds []handRound
	round  int // under way
	drawn  int
	held   int
	asked  []int // tokens drawn a round, those beyond the stop included
}

// handRound is what the models say in a round. Token i is drafted with entropy bits[i] and
// lies distance[i] from the target, whose own token it is where match has a 1.
type handRound struct {
	bits, distance []float64
	match          string
	impossible     int // the token, from 1, that the target gives no chance; 0: none
}

func (h *hand) Limits() Limits { return Limits{Context: 100, MaxRows: 64, Vocab: 10, TopK: 16} }
func (h *hand) Reset()         { h.held = 0 }
func (h *hand) Len() int       { return h.held }
func (h *hand) Prefill(_ context.Context, t []int32, _ func(int)) error {
	h.held += len(t)
	return nil
}
func (h *hand) DraftSampled(_ context.Context, r SampleRequest) ([]Drawn, error) {
	h.held += len(r.Pending)
	h.drawn = 0
	return h.DrawMore(context.Background(), r.Count)
}
func (h *hand) DrawMore(_ context.Context, count int) ([]Drawn, error) {
	h.drawn += count
	var all []Drawn
	for i, b := range h.rounds[h.round].bits[:h.drawn] {
		all = append(all, Drawn{Token: int32(i + 1), Prob: 0.5, Entropy: float32(b * math.Ln2)})
	}
	return all, nil
}
func (h *hand) Commit(beams []int32) error {
	h.held += len(beams)
	h.asked = append(h.asked, h.drawn)
	h.round++
	return nil
}

type handTarget struct {
	hand *hand
	held int
}

func (h *handTarget) Limits() Limits { return Limits{Context: 100, MaxRows: 64, Vocab: 10, TopK: 2} }
func (h *handTarget) Reset()         { h.held = 0 }
func (h *handTarget) Len() int       { return h.held }
func (h *handTarget) Prefill(_ context.Context, t []int32, _ func(int)) error {
	h.held += len(t)
	return nil
}
func (h *handTarget) Commit(path []int32) error { h.held += len(path); return nil }
func (h *handTarget) Verify(_ context.Context, tree *Tree, _ Sampling) ([]NodeOutput, error) {
	out := make([]NodeOutput, tree.Len())
	for i := range out {
		out[i].Token = 9
		if i < tree.Len()-1 && h.hand.rounds[h.hand.round].match[i] == '1' {
			out[i].Token = tree.Tokens[i+1]
		}
	}
	return out, nil
}
func (h *handTarget) VerifyDivergence(ctx context.Context, chain *Tree, _ SamplingDraft, s Sampling) ([]NodeOutput, []Divergence, error) {
	out, err := h.Verify(ctx, chain, s)
	r := h.hand.rounds[h.hand.round]
	var gaps []Divergence
	for i := range chain.Len() - 1 {
		gaps = append(gaps, Divergence{Distance: float32(r.distance[i]), Possible: r.impossible != i+1})
	}
	return out, gaps, err
}

// adaSDRounds are five rounds: two tokens accepted and one not; one close and one far one,
// the second beyond T_g; all accepted; a close one that the target rules out; and a run
// that is cut after its first token.
func adaSDRounds() []handRound {
	return []handRound{
		{bits: []float64{1, 2, 3, 4}, distance: []float64{0.1, 0.2, 0.5, 0.9}, match: "1100"},
		{bits: []float64{1, 3.5, 1, 1}, distance: []float64{0.2, 0.4, 0.1, 0.1}, match: "0011"},
		{bits: []float64{1, 1, 1, 1}, distance: []float64{0.1, 0.1, 0.1, 0.1}, match: "1111"},
		{bits: []float64{1, 1, 1, 1}, distance: []float64{0, 0, 0, 0}, match: "1011", impossible: 2},
		{bits: []float64{1, 1, 1, 1}, distance: []float64{0.3, 0.95, 0.1, 0.1}, match: "1011"},
	}
}

// seen is what a test expects after a round.
type seen struct {
	drafted, accepted, relaxed int
	tg, tv                     float64
}

// play runs the rounds and compares.
func (h *hand) play(t *testing.T, name string, a *AdaSD, p Parts, cut int, want []seen) {
	t.Helper()
	h.round, h.asked = 0, nil
	g, err := Assemble(&handTarget{hand: h}, p)
	if err != nil {
		t.Fatal(err)
	}
	var before Stats
	tokens := 0
	_, err = g.Generate(context.Background(), []int32{5, 6}, Options{Cut: func(run []int32) (int, bool) {
		if tokens += len(run); tokens >= cut {
			return len(run) - (tokens - cut), true
		}
		return len(run), false
	}}, func(e *Event) error {
		w := want[e.Round-1]
		got := seen{e.Tree.Len() - 1, len(e.Path) - 1, e.Stats.Relaxed - before.Relaxed, a.Generation(), a.Verification()}
		near := func(x, y float64) bool { return x == y || math.Abs(x-y) < 1e-6 }
		if got.drafted != w.drafted || got.accepted != w.accepted || got.relaxed != w.relaxed || !near(got.tg, w.tg) || !near(got.tv, w.tv) {
			t.Errorf("%s, round %d: %+v, want %+v", name, e.Round, got, w)
		}
		before = e.Stats.Clone()
		return nil
	})
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	if len(h.asked) != len(want) {
		t.Errorf("%s: %d rounds, want %d", name, len(h.asked), len(want))
	}
}

func TestAdaSDByHand(t *testing.T) {
	both := func(variant string) (*hand, *AdaSD, Parts) {
		h := &hand{rounds: adaSDRounds()}
		a := &AdaSD{Variant: variant, Most: 4, Records: &AdaSDRecords{}}
		return h, a, Parts{Drafter: &SampledChain{Model: h, Rule: a, Ahead: 1}, Verifier: a, Policy: a}
	}
	// Tokens committed: 3, 2, 5, 2 and, of the last round, 1.
	h, a, p := both("")
	midpoint := []seen{
		{4, 2, 0, 3, (0.15 + 0.5) / 2},
		{2, 1, 1, 3.25, (0.5/3 + 0.45) / 2},
		{4, 4, 0, 3.25, (0.9/7 + 0.45) / 2},
		{4, 1, 0, 7.5 / 3, (0.9/8 + 0.3) / 2},
		{4, 1, 0, 7.5 / 3, (1.2/9 + 0.3) / 2},
	}
	h.play(t, "midpoint", a, p, 13, midpoint)
	if want := (AdaSDRecords{
		Accepted: AdaSDRecord{a.Records.Accepted.Distance, 9}, Rejected: AdaSDRecord{a.Records.Rejected.Distance, 3},
		Entropy: a.Records.Entropy, Rejections: 3, WithAccept: 5, WithFail: 3,
	}); *a.Records != want {
		t.Errorf("records %+v, want %+v", *a.Records, want)
	}
	if !slices.Equal(h.asked, []int{4, 2, 4, 4, 4}) {
		t.Errorf("drew %v tokens", h.asked)
	}
	a.Variant = AdaSDMidpoint
	h.play(t, "midpoint by name, a new request", a, p, 13, midpoint)

	// The mean of accepted tokens is below 0.2, so the second round's first token is rejected,
	// and T_g falls to the mean of 3 and 1 bits.
	h, a, p = both(AdaSDA)
	h.play(t, "A", a, p, 12, []seen{
		{4, 2, 0, 3, 0.15},
		{2, 0, 0, 2, 0.15},
		{4, 4, 0, 2, 0.7 / 6},
		{4, 1, 0, 5.0 / 3, 0.7 / 7},
		{4, 1, 0, 5.0 / 3, 1.0 / 8},
	})
	h, a, p = both(AdaSDB)
	h.play(t, "B", a, p, 13, []seen{
		{4, 2, 0, 3, 0.8 / 3},
		{2, 1, 1, 3.25, 1.4 / 5},
		{4, 4, 0, 3.25, 1.8 / 9},
		{4, 1, 0, 7.5 / 3, 1.8 / 11},
		{4, 1, 0, 7.5 / 3, 2.1 / 12},
	})
	// C weights by rounds: after the third, three had an accepted token and two a rejected one.
	h, a, p = both(AdaSDC)
	h.play(t, "C", a, p, 13, []seen{
		{4, 2, 0, 3, (0.15 + 0.5) / 2},
		{2, 1, 1, 3.25, (2*0.5/3 + 2*0.45) / 4},
		{4, 4, 0, 3.25, (3*0.9/7 + 2*0.45) / 5},
		{4, 1, 0, 7.5 / 3, (4*0.9/8 + 3*0.3) / 7},
		{4, 1, 0, 7.5 / 3, (5*1.2/9 + 3*0.3) / 8},
	})

	// Generation alone: the second round's first token is not the target's and is rejected.
	h = &hand{rounds: adaSDRounds()}
	a = &AdaSD{Most: 4, Records: &AdaSDRecords{}}
	h.play(t, "generation only", a, Parts{Drafter: &SampledChain{Model: h, Rule: a}, Verifier: Match{}, Policy: a}, 12, []seen{
		{4, 2, 0, 3, 0},
		{2, 0, 0, 2, 0},
		{4, 4, 0, 2, 0},
		{4, 1, 0, 5.0 / 3, 0},
		{4, 1, 0, 5.0 / 3, 0},
	})

	// Verification alone: all four tokens are drafted whatever their entropy.
	h = &hand{rounds: adaSDRounds()}
	a = &AdaSD{Most: 4, Records: &AdaSDRecords{}}
	h.play(t, "verification only", a, Parts{Drafter: &SampledChain{Model: h}, Verifier: a, Policy: Fixed{4, 1, 5}}, 13, []seen{
		{4, 2, 0, 3, (0.15 + 0.5) / 2},
		{4, 1, 1, 3.25, (0.5/3 + 0.45) / 2},
		{4, 4, 0, 3.25, (0.9/7 + 0.45) / 2},
		{4, 1, 0, 7.5 / 3, (0.9/8 + 0.3) / 2},
		{4, 1, 0, 7.5 / 3, (1.2/9 + 0.3) / 2},
	})
}

// TestAdaSDThresholdsBeforeThereIsAnything has no threshold until what it is a mean of exists.
func TestAdaSDThresholdsBeforeThereIsAnything(t *testing.T) {
	some := AdaSDRecord{0.3, 2}
	for _, c := range []struct {
		r    AdaSDRecords
		want map[string]float64
	}{
		{AdaSDRecords{}, map[string]float64{}},
		{AdaSDRecords{Accepted: some, WithAccept: 1}, map[string]float64{AdaSDA: 0.15}},
		{AdaSDRecords{Rejected: some, WithFail: 2, Rejections: 2, Entropy: 5}, map[string]float64{}},
		{AdaSDRecords{Accepted: some, Rejected: some, WithAccept: 1, WithFail: 2}, map[string]float64{"": 0.15, AdaSDMidpoint: 0.15, AdaSDA: 0.15, AdaSDB: 0.15, AdaSDC: 0.15}},
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

// TestAdaSDCarries runs a request of one round twice. The second time T_g is the entropy of
// the third token, which does not exceed it, so that the fourth is drafted as well.
func TestAdaSDCarries(t *testing.T) {
	for carry, rejections := range map[bool]int{false: 1, true: 2} {
		h := &hand{rounds: adaSDRounds()}
		a := &AdaSD{Most: 4, Carry: carry, Records: &AdaSDRecords{}}
		p := Parts{Drafter: &SampledChain{Model: h, Rule: a, Ahead: 1}, Verifier: a, Policy: a}
		for range 2 {
			h.play(t, "a request", a, p, 3, []seen{{4, 2, 0, 3, 0.325}})
		}
		if a.Records.Rejections != rejections || a.Records.WithAccept != rejections || a.Records.Accepted.Tokens != 2*rejections {
			t.Errorf("carry %v: records %+v", carry, *a.Records)
		}
	}
}

// TestAdaSDCutAtTheRejection has runs that are cut around the first rejected token: what comes
// after a cut is not judged.
func TestAdaSDCutAtTheRejection(t *testing.T) {
	for cut, want := range map[int]AdaSDRecords{
		1: {Accepted: AdaSDRecord{Tokens: 1}, WithAccept: 1},
		2: {Accepted: AdaSDRecord{Tokens: 2}, WithAccept: 1},
		3: {Accepted: AdaSDRecord{Tokens: 2}, Rejected: AdaSDRecord{Tokens: 1}, Rejections: 1, WithAccept: 1, WithFail: 1},
	} {
		h := &hand{rounds: adaSDRounds()}
		a := &AdaSD{Most: 4, Records: &AdaSDRecords{}}
		g, err := Assemble(&handTarget{hand: h}, Parts{Drafter: &SampledChain{Model: h, Rule: a, Ahead: 1}, Verifier: a, Policy: a})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := g.Generate(context.Background(), []int32{5}, Options{Cut: cutAfter(cut)}, nil); err != nil {
			t.Fatal(err)
		}
		got := *a.Records
		got.Accepted.Distance, got.Rejected.Distance, got.Entropy = 0, 0, 0
		if got != want {
			t.Errorf("cut after %d: %+v, want %+v", cut, got, want)
		}
	}
}

func TestAdaSDIsWiredAsNamed(t *testing.T) {
	target := newTarget(&script{vocab: 6, steps: 1e6}, 96, 64)
	draft := newDraft(target, 96, 0.2)
	records := &AdaSDRecords{Rejections: 1, Entropy: 2}
	build := func(policy, verifier string, depth int) Parts {
		c := combination(DrafterChain, policy, verifier)
		c.Depth, c.Aids.AdaSD, c.Carry = depth, records, true
		p, err := c.Parts(target, draft)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	p := build(AdaptAdaSD, VerifierAdaSD, 30)
	a := p.Verifier.(*AdaSD)
	if p.Policy != Policy(a) || p.Drafter.(*SampledChain).Rule != ChainRule(a) || a.Records != records || a.Most != 20 || !p.Drafter.(*SampledChain).Coupled {
		t.Errorf("both: %+v", p)
	}
	a.Start()
	if records.Rejections != 1 {
		t.Error("carried records were dropped")
	}
	p = build(AdaptAdaSD, VerifierMatch, 4)
	if a := p.Policy.(*AdaSD); p.Verifier != (Match{}) || p.Drafter.(*RankedChain).Rule != ChainRule(a) || a.Most != 4 {
		t.Errorf("generation only: %+v", p)
	}
	p = build(AdaptFixed, VerifierAdaSD, 5)
	if p.Policy != Fixed(Budget{5, 1, 6}) || p.Drafter.(*SampledChain).Rule != nil {
		t.Errorf("verification only: %+v", p)
	}
	if p := build(AdaptAdaEDL, VerifierRejection, 5); p.Drafter.(*SampledChain).Coupled {
		t.Error("rejection sampling of coupled draws")
	}
}

// TestAdaSDWithoutDistanceIsStrict has a draft that is the target: nothing is ever less far
// than 0, so a draw that is not the target's own is rejected.
func TestAdaSDWithoutDistanceIsStrict(t *testing.T) {
	target := newTarget(&script{vocab: 6, steps: 1e6}, 96, 64)
	draft := newDraft(target, 128, 0)
	for _, c := range combinations(func(c Config) bool { return c.Verifier == VerifierAdaSD && c.Drafter == DrafterChain }) {
		for _, variant := range []string{"", AdaSDA, AdaSDB, AdaSDC} {
			c.Variant, c.Uncoupled = variant, true
			for i, sampling := range samplings() {
				o := Options{Sampling: sampling, MaxTokens: 24}
				want, finish := plain(target.script, []int32{1, 0}, 96, o)
				got, stats := generate(t, named(c), target, draft, []int32{1, 0}, o)
				expect(t, c.Adapt+" "+variant, got, stats, want, finish)
				if stats.Relaxed != 0 || sampling.Temperature > 0 && stats.Corrected == 0 {
					t.Errorf("%s %s, sampling %d: %+v", c.Adapt, variant, i, stats)
				}
			}
		}
	}
}

// TestAdaSDAcceptsMore is what the rule is for.
func TestAdaSDAcceptsMore(t *testing.T) {
	target := newTarget(&script{vocab: 12, steps: 1e6}, 2000, 64)
	draft := newDraft(target, 2000, 0.2)
	run := func(verifier string, temperature float64) Stats {
		c := combination(DrafterChain, AdaptFixed, verifier)
		c.Depth = 5
		_, stats := generate(t, named(c), target, draft, []int32{1}, Options{Sampling: Sampling{Temperature: temperature, Seed: 1}, MaxTokens: 500})
		return stats
	}
	for _, temperature := range []float64{0, 1} {
		strict, relaxed := run(VerifierMatch, temperature), run(VerifierAdaSD, temperature)
		if relaxed.Relaxed == 0 || relaxed.AcceptedLength() <= strict.AcceptedLength() || !relaxed.Lossy || strict.Lossy {
			t.Errorf("T=%v: accepted length %.2f with %d relaxed, %.2f strictly", temperature, relaxed.AcceptedLength(), relaxed.Relaxed, strict.AcceptedLength())
		}
	}
}

// deaf is a target that compares too little.
type deaf struct{ *scriptedTarget }

func (d deaf) VerifyDivergence(ctx context.Context, chain *Tree, draft SamplingDraft, s Sampling) ([]NodeOutput, []Divergence, error) {
	out, gaps, err := d.scriptedTarget.VerifyDivergence(ctx, chain, draft, s)
	return out, gaps[1:], err
}

func TestAdaSDRefusesOtherDrafts(t *testing.T) {
	target := newTarget(&script{vocab: 6, steps: 2}, 64, 16)
	draft := newDraft(target, 64, 0)
	a := &AdaSD{Most: 3, Records: &AdaSDRecords{}}
	for want, c := range map[string]struct {
		target  Target
		drafter Drafter
	}{
		"the adasd verifier needs a chain that was sampled": {target, &TreeDrafter{Model: draft}},
		"this target cannot measure":                        {plainTarget{target}, &SampledChain{Model: draft}},
		"the target answered for 4 nodes and compared 2":    {deaf{target}, &SampledChain{Model: draft}},
	} {
		g, err := Assemble(c.target, Parts{Drafter: c.drafter, Verifier: a, Policy: Fixed{3, 1, 4}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err = g.Generate(context.Background(), []int32{1}, Options{}, nil); err == nil || !strings.HasPrefix(err.Error(), "spec: "+want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
