package spectest

import (
	"math"
	"slices"
	"testing"

	"foretoken/spec"
)

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
		s      spec.Sampling
		logits []float32
		want   []float64
	}{
		{"softmax", spec.Sampling{Temperature: 1}, ln(.5, .3, .2), []float64{.5, .3, .2}},
		{"temperature", spec.Sampling{Temperature: 0.5}, ln(.5, .25, .25), []float64{4. / 6, 1. / 6, 1. / 6}},
		{"greedy takes the lowest id", spec.Sampling{TopP: 0.1}, ln(.2, .4, .4), []float64{0, 1, 0}},
		{"top-k", spec.Sampling{Temperature: 1, TopK: 2}, ln(.2, .5, .3), []float64{0, .625, .375}},
		{"top-k keeps ties", spec.Sampling{Temperature: 1, TopK: 2}, ln(.25, .5, .25), []float64{.25, .5, .25}},
		{"top-k beyond the vocabulary", spec.Sampling{Temperature: 1, TopK: 9}, ln(.25, .5, .25),
			[]float64{.25, .5, .25}},
		{"top-p reaches the sum", spec.Sampling{Temperature: 1, TopP: 0.79}, ln(.1, .5, .1, .3),
			[]float64{0, .625, 0, .375}},
		{"top-p keeps ties", spec.Sampling{Temperature: 1, TopP: 0.85}, ln(.1, .5, .1, .3), []float64{.1, .5, .1, .3}},
		{"top-p keeps one", spec.Sampling{Temperature: 1, TopP: 1e-9}, ln(.1, .5, .1, .3), []float64{0, 1, 0, 0}},
		{"top-p is of what top-k kept", spec.Sampling{Temperature: 1, TopK: 2, TopP: 0.6}, ln(.1, .5, .1, .3),
			[]float64{0, 1, 0, 0}},
		{"top-p alone needs both", spec.Sampling{Temperature: 1, TopP: 0.6}, ln(.1, .5, .1, .3),
			[]float64{0, .625, 0, .375}},
		{"min-p", spec.Sampling{Temperature: 1, MinP: 0.5}, ln(.1, .5, .1, .3), []float64{0, .625, 0, .375}},
		{"min-p of 1", spec.Sampling{Temperature: 1, MinP: 1}, ln(.1, .4, .1, .4), []float64{0, .5, 0, .5}},
		{"temperature comes before the filters", spec.Sampling{Temperature: 2, MinP: 0.4}, ln(.16, .64, .16, .04),
			[]float64{.25, .5, .25, 0}},
		{"masked and undefined", spec.Sampling{Temperature: 1}, []float32{inf, 0, nan, 0}, []float64{0, .5, 0, .5}},
		{"nothing", spec.Sampling{Temperature: 1, TopK: 1}, []float32{inf, nan}, []float64{0, 0}},
		{"outlier", spec.Sampling{Temperature: 0.001}, []float32{3e38, -3e38, 0}, []float64{1, 0, 0}},
	} {
		got := Distribution(c.s, c.logits)
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
		{[]float32{1, 3, 3, 2}, 1}, {[]float32{nan, -5, nan}, 1}, {[]float32{inf, nan}, -1}, {nil, -1},
		{[]float32{0}, 0},
		{[]float32{inf, float32(math.Inf(1)), 5}, 1},
	} {
		if got := argmax(c.logits); got != c.want {
			t.Errorf("Argmax(%v) = %d, want %d", c.logits, got, c.want)
		}
	}
	if got := Draw((spec.Sampling{Temperature: 1}), []float32{inf, nan}, spec.StreamTarget, 0); got != -1 {
		t.Errorf("a draw from nothing gives %d", got)
	}
	if got := drawFrom([]float64{0, 0}, 1, spec.StreamTarget, 0); got != -1 {
		t.Errorf("a draw from nothing gives %d", got)
	}
}

func TestDrawsFollowTheProcessedDistribution(t *testing.T) {
	logits := []float32{0.5, -1, 2, 0.5, 1.5, -3, 0, 1.9}
	const n = 20000
	for i, s := range Samplings() {
		p := Distribution(s, logits)
		positions, seeds := make([]int, len(p)), make([]int, len(p))
		for j := range n {
			s.Seed = 42
			positions[Draw(s, logits, spec.StreamTarget, uint32(j))]++
			s.Seed = uint64(j) * 0x100000001 // both halves of the seed count
			seeds[Draw(s, logits, spec.StreamTarget, 17)]++
		}
		name := []string{"greedy", "temperature", "top-k", "top-p", "min-p", "all"}[i]
		ChiSquare(t, name+" over positions", positions, p)
		ChiSquare(t, name+" over seeds", seeds, p)
	}
}

// TestDrawsAreIndependent looks at pairs of draws that use neighbouring noise.
func TestDrawsAreIndependent(t *testing.T) {
	logits := []float32{0.3, -0.5, 1, 0}
	s := spec.Sampling{Temperature: 1, Seed: 9}
	p := Distribution(s, logits)
	joint := make([]float64, 0, 16)
	for _, a := range p {
		for _, b := range p {
			joint = append(joint, a*b)
		}
	}
	other := s
	pairs := map[string]func(i uint32) (int32, int32){
		"next positions": func(i uint32) (int32, int32) {
			return Draw(s, logits, spec.StreamTarget, 2*i), Draw(s, logits, spec.StreamTarget, 2*i+1)
		},
		"streams": func(i uint32) (int32, int32) {
			return Draw(s, logits, spec.StreamTarget, i), Draw(s, logits, spec.StreamDraft, i)
		},
		"residual and draft": func(i uint32) (int32, int32) {
			return Draw(s, logits, spec.StreamResidual, i), Draw(s, logits, spec.StreamDraft, i)
		},
		"next seeds": func(i uint32) (int32, int32) {
			s.Seed, other.Seed = 2*uint64(i), 2*uint64(i)+1
			return Draw(s, logits, spec.StreamTarget, 5), Draw(other, logits, spec.StreamTarget, 5)
		},
		"halves of the seed": func(i uint32) (int32, int32) {
			s.Seed, other.Seed = uint64(i), uint64(i)<<32
			return Draw(s, logits, spec.StreamTarget, 5), Draw(other, logits, spec.StreamTarget, 6)
		},
	}
	for name, pair := range pairs {
		counts := make([]int, 16)
		for i := range uint32(20000) {
			a, b := pair(i + 1)
			counts[a*4+b]++
		}
		ChiSquare(t, name, counts, joint)
	}
	// The accept test's uniform, in 16 bins against the draft's token.
	counts, want := make([]int, 64), make([]float64, 64)
	for i := range uint32(20000) {
		counts[Draw(s, logits, spec.StreamDraft, i)*16+int32(16*Uniform(s.Seed, spec.StreamAccept, i, 0))]++
	}
	for i := range want {
		want[i] = p[i/16] / 16
	}
	ChiSquare(t, "uniform and draft", counts, want)
}

func TestVerifierKeepsTheTargetsDistribution(t *testing.T) {
	for _, c := range []struct{ p, q []float64 }{
		{[]float64{.1, .2, .3, .4}, []float64{.4, .3, .2, .1}},
		{[]float64{.5, .5, 0, 0}, []float64{.25, .25, .25, .25}},
		{[]float64{0, 0, 1, 0}, []float64{.5, 0, .2, .3}},
		{[]float64{.1, .2, .3, .4}, []float64{0, 1, 0, 0}},
		{[]float64{.1, .2, .3, .4}, []float64{.1, .2, .3, .4}},
	} {
		counts, accepted := make([]int, 4), make([]int, 2)
		for seed := range uint64(20000) {
			x := drawFrom(c.q, seed, spec.StreamDraft, 3)
			v := VerifyToken(c.p, c.q, x, seed, 3)
			if v.Accepted {
				accepted[0]++
				v.Token = x
			} else {
				accepted[1]++
			}
			counts[v.Token]++
		}
		ChiSquare(t, "output", counts, c.p)
		overlap := 0.0
		for i := range c.p {
			overlap += min(c.p[i], c.q[i])
		}
		ChiSquare(t, "acceptance is the overlap of p and q", accepted, []float64{overlap, max(1-overlap, 0)})
	}
}

func TestVerifierWithoutResidual(t *testing.T) {
	// q(x) exceeds p(x) by rounding alone and the uniform falls between them.
	p := []float64{Uniform(5, spec.StreamAccept, 1, 0), 0}
	if v := VerifyToken(p, []float64{1, 0}, 0, 5, 1); v.Accepted || v.Token != 0 {
		t.Errorf("%+v, want the only token there is", v)
	}
	if v := VerifyToken([]float64{0, 0}, []float64{0, 0}, 1, 1, 1); v.Accepted || v.Token != -1 {
		t.Errorf("of nothing: %+v", v)
	}
}

func TestCoupledIsAProbability(t *testing.T) {
	s := spec.Sampling{Temperature: 0.7, TopK: 3, Seed: 4}
	logits := []float32{1, 2, 0, 1.5, -1}
	for position := range uint32(100) {
		q := coupled(s, logits, position)
		sum := 0.0
		for _, x := range q {
			sum += math.Exp(x)
		}
		if best := int32(slices.Index(q, slices.Max(q))); best != Draw(s, logits, spec.StreamTarget, position) ||
			math.Abs(sum-1) > 1e-12 {
			t.Fatalf("position %d: %v sums to %v", position, q, sum)
		}
	}
	if q := coupled(s, []float32{float32(math.Inf(-1))}, 1); !math.IsInf(q[0], -1) {
		t.Errorf("of nothing: %v", q)
	}
}
