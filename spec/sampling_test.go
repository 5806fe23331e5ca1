package spec

import (
	"context"
	"math"
	"slices"
	"testing"
)

// gammaQ is the regularised upper incomplete gamma function Q(a, x), by series
// below a+1 and by continued fraction above (Numerical Recipes, §6.2).
func gammaQ(a, x float64) float64 {
	lg, _ := math.Lgamma(a)
	front := math.Exp(-x + a*math.Log(x) - lg)
	if x < a+1 {
		sum, term := 1/a, 1/a
		for n := a + 1; term > sum*1e-15; n++ {
			term *= x / n
			sum += term
		}
		return 1 - front*sum
	}
	b := x + 1 - a
	c, d := 1e300, 1/b
	h := d
	for i := 1.0; i < 1000; i++ {
		an := -i * (i - a)
		b += 2
		d = 1 / (an*d + b)
		c = b + an/c
		h *= d * c
	}
	return front * h
}

func TestGammaQ(t *testing.T) {
	// Chi-square tables: the 5 % points of 1, 10 and 100 degrees of freedom.
	for _, c := range []struct{ dof, x float64 }{{1, 3.841459}, {10, 18.307038}, {100, 124.342113}} {
		if p := gammaQ(c.dof/2, c.x/2); math.Abs(p-0.05) > 1e-6 {
			t.Errorf("%v degrees of freedom: %v, want 0.05", c.dof, p)
		}
	}
}

// fits tests counts against a distribution by chi-square. The tests are seeded: what
// passes once passes always.
func fits(t *testing.T, name string, counts []int, p []float64) {
	t.Helper()
	if value := fit(counts, p); value < 1e-4 {
		t.Errorf("%s: chi-square has p = %.2g\ngot  %v\nwant %v", name, value, counts, p)
	}
}

// fit is the chance of counts at least as far from a distribution, by chi-square, cells
// expected less than five times pooled. 0 if what has probability 0 was counted.
func fit(counts []int, p []float64) float64 {
	total := 0
	for _, n := range counts {
		total += n
	}
	chi, cells, rest, restWant := 0.0, 0, 0.0, 0.0
	for i, n := range counts {
		want := p[i] * float64(total)
		if p[i] == 0 && n > 0 {
			return 0
		}
		if want < 5 {
			rest += float64(n)
			restWant += want
			continue
		}
		chi += (float64(n) - want) * (float64(n) - want) / want
		cells++
	}
	if restWant > 0 {
		chi += (rest - restWant) * (rest - restWant) / restWant
		cells++
	}
	if cells < 2 {
		return 1
	}
	return gammaQ(float64(cells-1)/2, chi/2)
}

func TestFitsCanFail(t *testing.T) {
	if p := gammaQ(3.0/2, 40.0/2); p > 1e-4 {
		t.Errorf("a chi-square of 40 with 3 degrees of freedom has p = %v", p)
	}
}

func TestScoresFilterInOrder(t *testing.T) {
	ln := func(p ...float64) []float32 {
		z := make([]float32, len(p))
		for i := range p {
			z[i] = float32(math.Log(p[i])) + 3
		}
		return z
	}
	nan, inf := float32(math.NaN()), float32(math.Inf(-1))
	for _, c := range []struct {
		name   string
		s      Sampling
		logits []float32
		want   []float64
	}{
		{"softmax", Sampling{Temperature: 1}, ln(.5, .3, .2), []float64{.5, .3, .2}},
		{"temperature", Sampling{Temperature: 0.5}, ln(.5, .25, .25), []float64{4. / 6, 1. / 6, 1. / 6}},
		{"greedy takes the lowest id", Sampling{TopP: 0.1}, ln(.2, .4, .4), []float64{0, 1, 0}},
		{"top-k", Sampling{Temperature: 1, TopK: 2}, ln(.2, .5, .3), []float64{0, .625, .375}},
		{"top-k keeps ties", Sampling{Temperature: 1, TopK: 2}, ln(.25, .5, .25), []float64{.25, .5, .25}},
		{"top-k beyond the vocabulary", Sampling{Temperature: 1, TopK: 9}, ln(.25, .5, .25), []float64{.25, .5, .25}},
		{"top-p reaches the sum", Sampling{Temperature: 1, TopP: 0.79}, ln(.1, .5, .1, .3), []float64{0, .625, 0, .375}},
		{"top-p keeps ties", Sampling{Temperature: 1, TopP: 0.85}, ln(.1, .5, .1, .3), []float64{.1, .5, .1, .3}},
		{"top-p keeps one", Sampling{Temperature: 1, TopP: 1e-9}, ln(.1, .5, .1, .3), []float64{0, 1, 0, 0}},
		{"top-p is of what top-k kept", Sampling{Temperature: 1, TopK: 2, TopP: 0.6}, ln(.1, .5, .1, .3), []float64{0, 1, 0, 0}},
		{"top-p alone needs both", Sampling{Temperature: 1, TopP: 0.6}, ln(.1, .5, .1, .3), []float64{0, .625, 0, .375}},
		{"min-p", Sampling{Temperature: 1, MinP: 0.5}, ln(.1, .5, .1, .3), []float64{0, .625, 0, .375}},
		{"min-p of 1", Sampling{Temperature: 1, MinP: 1}, ln(.1, .4, .1, .4), []float64{0, .5, 0, .5}},
		{"temperature comes before the filters", Sampling{Temperature: 2, MinP: 0.4}, ln(.16, .64, .16, .04), []float64{.25, .5, .25, 0}},
		{"masked and undefined", Sampling{Temperature: 1}, []float32{inf, 0, nan, 0}, []float64{0, .5, 0, .5}},
		{"nothing", Sampling{Temperature: 1, TopK: 1}, []float32{inf, nan}, []float64{0, 0}},
		{"outlier", Sampling{Temperature: 0.001}, []float32{3e38, -3e38, 0}, []float64{1, 0, 0}},
	} {
		got := c.s.Distribution(nil, c.logits)
		for i := range c.want {
			if math.Abs(got[i]-c.want[i]) > 1e-6 {
				t.Errorf("%s: %v, want %v", c.name, got, c.want)
				break
			}
		}
	}
}

func TestArgmax(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(-1))
	for _, c := range []struct {
		logits []float32
		want   int32
	}{
		{[]float32{1, 3, 3, 2}, 1}, {[]float32{nan, -5, nan}, 1}, {[]float32{inf, nan}, -1}, {nil, -1}, {[]float32{0}, 0},
		{[]float32{inf, float32(math.Inf(1)), 5}, 1},
	} {
		if got := Argmax(c.logits); got != c.want {
			t.Errorf("Argmax(%v) = %d, want %d", c.logits, got, c.want)
		}
	}
	if got := (Sampling{Temperature: 1}).Draw([]float32{inf, nan}, StreamTarget, 0); got != -1 {
		t.Errorf("a draw from nothing gives %d", got)
	}
	if got := DrawFrom([]float64{0, 0}, 1, StreamTarget, 0); got != -1 {
		t.Errorf("a draw from nothing gives %d", got)
	}
}

func TestDrawsFollowTheProcessedDistribution(t *testing.T) {
	logits := []float32{0.5, -1, 2, 0.5, 1.5, -3, 0, 1.9}
	const n = 20000
	for i, s := range samplings() {
		p := s.Distribution(nil, logits)
		positions, seeds := make([]int, len(p)), make([]int, len(p))
		for j := range n {
			s.Seed = 42
			positions[s.Draw(logits, StreamTarget, uint32(j))]++
			s.Seed = uint64(j) * 0x100000001 // both halves of the seed count
			seeds[s.Draw(logits, StreamTarget, 17)]++
		}
		name := []string{"greedy", "temperature", "top-k", "top-p", "min-p", "all"}[i]
		fits(t, name+" over positions", positions, p)
		fits(t, name+" over seeds", seeds, p)
	}
}

// TestDrawsAreIndependent looks at pairs of draws that use neighbouring noise.
func TestDrawsAreIndependent(t *testing.T) {
	logits := []float32{0.3, -0.5, 1, 0}
	s := Sampling{Temperature: 1, Seed: 9}
	p := s.Distribution(nil, logits)
	joint := make([]float64, 0, 16)
	for _, a := range p {
		for _, b := range p {
			joint = append(joint, a*b)
		}
	}
	other := s
	pairs := map[string]func(i uint32) (int32, int32){
		"next positions": func(i uint32) (int32, int32) {
			return s.Draw(logits, StreamTarget, 2*i), s.Draw(logits, StreamTarget, 2*i+1)
		},
		"streams": func(i uint32) (int32, int32) {
			return s.Draw(logits, StreamTarget, i), s.Draw(logits, StreamDraft, i)
		},
		"residual and draft": func(i uint32) (int32, int32) {
			return s.Draw(logits, StreamResidual, i), s.Draw(logits, StreamDraft, i)
		},
		"next seeds": func(i uint32) (int32, int32) {
			s.Seed, other.Seed = 2*uint64(i), 2*uint64(i)+1
			return s.Draw(logits, StreamTarget, 5), other.Draw(logits, StreamTarget, 5)
		},
		"halves of the seed": func(i uint32) (int32, int32) {
			s.Seed, other.Seed = uint64(i), uint64(i)<<32
			return s.Draw(logits, StreamTarget, 5), other.Draw(logits, StreamTarget, 6)
		},
	}
	for name, pair := range pairs {
		counts := make([]int, 16)
		for i := range uint32(20000) {
			a, b := pair(i + 1)
			counts[a*4+b]++
		}
		fits(t, name, counts, joint)
	}
	// The accept test's uniform, in 16 bins against the draft's token.
	counts, want := make([]int, 64), make([]float64, 64)
	for i := range uint32(20000) {
		counts[s.Draw(logits, StreamDraft, i)*16+int32(16*Uniform(s.Seed, StreamAccept, i))]++
	}
	for i := range want {
		want[i] = p[i/16] / 16
	}
	fits(t, "uniform and draft", counts, want)
}

func TestJudgeKeepsTheTargetsDistribution(t *testing.T) {
	for _, c := range []struct{ p, q []float64 }{
		{[]float64{.1, .2, .3, .4}, []float64{.4, .3, .2, .1}},
		{[]float64{.5, .5, 0, 0}, []float64{.25, .25, .25, .25}},
		{[]float64{0, 0, 1, 0}, []float64{.5, 0, .2, .3}},
		{[]float64{.1, .2, .3, .4}, []float64{0, 1, 0, 0}},
		{[]float64{.1, .2, .3, .4}, []float64{.1, .2, .3, .4}},
	} {
		counts, accepted := make([]int, 4), make([]int, 2)
		for seed := range uint64(20000) {
			x := DrawFrom(c.q, seed, StreamDraft, 3)
			v := Judge(c.p, c.q, x, seed, 3)
			if v.Accepted {
				accepted[0]++
				v.Token = x
			} else {
				accepted[1]++
			}
			counts[v.Token]++
		}
		fits(t, "output", counts, c.p)
		overlap := 0.0
		for i := range c.p {
			overlap += min(c.p[i], c.q[i])
		}
		fits(t, "acceptance is the overlap of p and q", accepted, []float64{overlap, max(1-overlap, 0)})
	}
}

func TestJudgeWithoutResidual(t *testing.T) {
	// q(x) exceeds p(x) by rounding alone and the uniform falls between them.
	p := []float64{Uniform(5, StreamAccept, 1), 0}
	if v := Judge(p, []float64{1, 0}, 0, 5, 1); v.Accepted || v.Token != 0 {
		t.Errorf("%+v, want the only token there is", v)
	}
	if v := Judge([]float64{0, 0}, []float64{0, 0}, 1, 1, 1); v.Accepted || v.Token != -1 {
		t.Errorf("of nothing: %+v", v)
	}
}

// TestJointDistributionOfThreeTokens runs the whole engine over many seeds: the three
// tokens that follow the prompt have the joint distribution that the target's
// own steps multiply to, by rejection as by matching.
func TestJointDistributionOfThreeTokens(t *testing.T) {
	const vocab, seeds = 3, 5000
	prompt := []int32{1, 2}
	for i, sampling := range []Sampling{{Temperature: 1}, {Temperature: 0.8, TopK: 2}, {Temperature: 1.5, TopP: 0.85}} {
		target := newTarget(&script{vocab: vocab, steps: 1e6}, 32, 16)
		draft := newDraft(target, 32, 0.7)
		want := make([]float64, 0, 27)
		at := of(prompt)
		p0 := sampling.Distribution(nil, target.script.logits(at, 0))
		for a := range int32(vocab) {
			p1 := sampling.Distribution(nil, target.script.logits(at.then(a), 0))
			for b := range int32(vocab) {
				for _, p2 := range sampling.Distribution(nil, target.script.logits(at.then(a).then(b), 0)) {
					want = append(want, p0[a]*p1[b]*p2)
				}
			}
		}
		for _, c := range []Config{
			{Drafter: DrafterNone},
			{Drafter: DrafterChain, Verifier: VerifierRejection, Depth: 1},
			{Drafter: DrafterChain, Verifier: VerifierRejection, Depth: 2},
			{Drafter: DrafterChain, Verifier: VerifierRejection, Depth: 4},
			{Drafter: DrafterEAGLE2, Depth: 1, TopK: 2, Nodes: 5},
		} {
			g, err := New(target, draft, c)
			if err != nil {
				t.Fatal(err)
			}
			counts := make([]int, 27)
			var sum Stats
			for seed := range uint64(seeds) {
				sampling.Seed = seed
				cell := int32(0)
				stats, err := g.Generate(context.Background(), prompt, Options{Sampling: sampling, MaxTokens: 4}, func(e *Event) error {
					for _, token := range e.Tokens {
						if cell < 27 { // three digits under a leading one
							cell = max(cell, 1)*3 + token
						}
					}
					return nil
				})
				if err != nil {
					t.Fatal(err)
				}
				for cell >= 81 {
					cell /= 3
				}
				counts[cell-27]++
				sum.Add(&stats)
			}
			fits(t, c.Drafter+" "+c.Verifier, counts, want)
			if c.Verifier == VerifierRejection && (sum.Accepted == 0 || sum.Corrected == 0 || sum.Bonus == 0 && c.Depth < 4) {
				t.Errorf("sampling %d: the test did not reach every case: %+v", i, sum)
			}
		}
	}
}

func TestRejectionAtTemperatureZeroIsGreedy(t *testing.T) {
	target := newTarget(&script{vocab: 6, steps: 2}, 64, 16)
	for _, differ := range []float64{0, 0.3, 1} {
		draft := newDraft(target, 64, differ)
		o := Options{MaxTokens: 30, Sampling: Sampling{Seed: 3}}
		want, finish := plain(target.script, []int32{4}, 64, o)
		set := named(Config{Drafter: DrafterChain, Verifier: VerifierRejection, Depth: 3})
		got, stats := generate(t, set, target, draft, []int32{4}, o)
		expect(t, "rejection", got, stats, want, finish)
		if target.chain != 0 {
			t.Error("one-hot distributions were sent through the rejection test")
		}
	}
}

func TestRejectionRefusesOtherDrafts(t *testing.T) {
	target := newTarget(&script{vocab: 6, steps: 2}, 64, 16)
	draft := newDraft(target, 64, 0)
	g, err := Assemble(target, Parts{Drafter: &TreeDrafter{Model: draft}, Verifier: Rejection{}, Policy: Fixed{2, 1, 3}})
	if err != nil {
		t.Fatal(err)
	}
	_, err = g.Generate(context.Background(), []int32{1}, Options{Sampling: Sampling{Temperature: 1}}, nil)
	if err == nil {
		t.Error("a top-1 chain was verified by rejection")
	}
}

func TestCoupledIsAProbability(t *testing.T) {
	s := Sampling{Temperature: 0.7, TopK: 3, Seed: 4}
	logits := []float32{1, 2, 0, 1.5, -1}
	for position := range uint32(100) {
		q := s.Coupled(nil, logits, position)
		sum := 0.0
		for _, x := range q {
			sum += math.Exp(x)
		}
		if best := int32(slices.Index(q, slices.Max(q))); best != s.Draw(logits, StreamTarget, position) || math.Abs(sum-1) > 1e-12 {
			t.Fatalf("position %d: %v sums to %v", position, q, sum)
		}
	}
	if q := s.Coupled(nil, []float32{float32(math.Inf(-1))}, 1); !math.IsInf(q[0], -1) {
		t.Errorf("of nothing: %v", q)
	}
}
