//go:build !js

package fit

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"reflect"
	"testing"

	"foretoken/spec/adapt"
)

// separable returns points of a plane, accepted above a line.
func separable(n int, seed uint64) *Examples {
	rng := rand.New(rand.NewPCG(seed, 9))
	e := &Examples{width: 2}
	for range n {
		x, y := rng.NormFloat64(), rng.NormFloat64()
		yes := float32(0)
		if x+y > 0.2 {
			yes = 1
		}
		e.add([]float32{float32(x), float32(y)}, yes, 1-yes)
	}
	return e
}

func small(seed uint64) *training {
	rng := rand.New(rand.NewPCG(seed, 0))
	return &training{params: []matrix{gaussian(rng, 2, 2, 2, 8), zeros(8), gaussian(rng, 1, 8, 8, 1), zeros(1)},
		logits: perceptron, rate: 0.02, epochs: 12, batch: 64, seed: seed}
}

func TestTrainingSeparates(t *testing.T) {
	e := separable(700, 1) // the last batch is partial
	var losses []float64
	var last []matrix
	if err := small(1).run(context.Background(), e, func(_ int, loss float64, p []matrix) error {
		losses, last = append(losses, loss), p
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if len(losses) != 12 || losses[11] > 0.15 || losses[11] > losses[0]/3 {
		t.Errorf("losses %v", losses)
	}
	c := withParams(&adapt.C2TClassifier{Features: []string{adapt.FeatureProbability, adapt.FeatureEntropy},
		Mean: []float64{0, 0}, Scale: []float64{1, 1}}, last)
	var all []Scored
	fresh := separable(300, 2)
	for i := range fresh.Len() {
		p := c.Confidence(
			adapt.C2TFeatures{Probability: float64(fresh.inputs[2*i]), Entropy: float64(fresh.inputs[2*i+1])})
		all = append(all, Scored{p, float64(fresh.yes[i]), 1})
	}
	if a := AUC(all); a < 0.98 {
		t.Errorf("the classifier, read back from its weights, has AUC %v on new points", a)
	}
}

func TestTrainingIsDeterministic(t *testing.T) {
	e := separable(500, 1)
	final := func(seed uint64) (last []matrix) {
		tr := small(3)
		tr.epochs, tr.seed, tr.cosine = 3, seed, true
		if err := tr.run(context.Background(), e,
			func(_ int, _ float64, p []matrix) error { last = p; return nil }); err != nil {
			t.Fatal(err)
		}
		return last
	}
	a := final(1)
	if !reflect.DeepEqual(a, final(1)) {
		t.Error("the same seed gives other weights")
	}
	if reflect.DeepEqual(a, final(2)) {
		t.Error("another seed gives the same weights: the examples are not shuffled")
	}
}

// TestWeightsMoveTheEstimate gives one input both outcomes: the weighted loss is minimal at the accepted share of
// the weights.
func TestWeightsMoveTheEstimate(t *testing.T) {
	e := &Examples{width: 1}
	for range 40 {
		e.add([]float32{1}, 1*0.75, 6*0.25)
	}
	tr := &training{params: []matrix{zeros(1, 1), zeros(1)}, logits: residual, rate: 0.05, epochs: 200,
		batch: 40, seed: 1}
	var last []matrix
	if err := tr.run(context.Background(), e,
		func(_ int, _ float64, p []matrix) error { last = p; return nil }); err != nil {
		t.Fatal(err)
	}
	if p := asHead(last, 1).Apply([]float32{1}); math.Abs(p-0.75/(0.75+1.5)) > 0.01 {
		t.Errorf("estimate %v, want %v", p, 0.75/2.25)
	}
}

// TestTheHeadUndoesTheWeights trains a head where a quarter of the tokens is accepted, by a loss that weighs the
// others six times: the head estimates a quarter.
func TestTheHeadUndoesTheWeights(t *testing.T) {
	const accepted, rejected = 0.25, 6
	e := &Examples{width: 1}
	for range 64 {
		e.add([]float32{1}, accepted, rejected*(1-accepted))
	}
	o := HeadTraining{Layers: 1, Rejected: rejected, Epochs: 400, Rate: 0.05, Seed: 1}
	head, scored, err := o.Run(context.Background(), e, e, func(int, float64, float64, float64) {})
	if err != nil {
		t.Fatal(err)
	}
	if p := head.Apply([]float32{1}); math.Abs(p-accepted) > 0.01 || scored[0].P != p {
		t.Errorf("estimate %v, scored %v, want %v", p, scored[0].P, accepted)
	}
}

func TestCosineEndsAtRest(t *testing.T) {
	moved := func(cosine bool) float64 {
		tr := small(1)
		tr.cosine, tr.epochs = cosine, 6
		var before, last []matrix
		if err := tr.run(context.Background(), separable(256, 1),
			func(_ int, _ float64, p []matrix) error { before, last = last, p; return nil }); err != nil {
			t.Fatal(err)
		}
		sum := 0.0
		for i := range last {
			for j := range last[i].values {
				sum += math.Abs(float64(last[i].values[j] - before[i].values[j]))
			}
		}
		return sum
	}
	if with, without := moved(true), moved(false); with > without/3 {
		t.Errorf("the last epoch moves the weights by %v with the schedule, by %v without", with, without)
	}
}

// TestResidualHeadMeetsItsReference trains two layers briefly and compares the graph's loss with that of the
// estimates in Go.
func TestResidualHeadMeetsItsReference(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	e := separable(128, 4)
	tr := &training{params: []matrix{gaussian(rng, 1, 2, 2, 2), gaussian(rng, 1, 1, 2), gaussian(rng, 1, 2, 2, 2),
		zeros(2), gaussian(rng, 1, 2, 2, 1), zeros(1)},
		logits: residual, rate: 1e-12, epochs: 1, batch: 128, seed: 1}
	var loss float64
	if err := tr.run(context.Background(), e,
		func(_ int, l float64, _ []matrix) error { loss = l; return nil }); err != nil {
		t.Fatal(err)
	}
	want := 0.0
	for i := range e.Len() {
		p := asHead(tr.params, 2).Apply(e.inputs[2*i : 2*i+2])
		want -= float64(e.yes[i])*math.Log(p) + float64(e.no[i])*math.Log(1-p)
	}
	if want /= float64(e.Len()); math.Abs(loss-want) > 1e-5 {
		t.Errorf("the graph's loss is %v, that of the estimates %v", loss, want)
	}
}

func TestTrainingStops(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	err := small(1).run(ctx, separable(100, 1), func(int, float64, []matrix) error { cancel(); return nil })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	if err := small(1).run(context.Background(), &Examples{width: 2}, nil); err == nil {
		t.Error("nothing is trained on")
	}
	tr := small(1)
	tr.params = tr.params[:2]
	if err := tr.run(context.Background(), separable(10, 1), nil); err == nil {
		t.Error("weights that do not fit are taken")
	}
}

func TestAUC(t *testing.T) {
	for _, c := range []struct {
		all  []Scored
		want float64
	}{
		{[]Scored{{0.1, 0, 1}, {0.9, 1, 1}}, 1},
		{[]Scored{{0.9, 0, 1}, {0.1, 1, 1}}, 0},
		{[]Scored{{0.5, 0, 1}, {0.5, 1, 1}}, 0.5},
		{[]Scored{{0.1, 0, 3}, {0.5, 1, 1}, {0.9, 0, 1}}, 0.75},
		{[]Scored{{0.2, 0.5, 1}, {0.8, 0.5, 1}}, 0.5},
	} {
		if got := AUC(c.all); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("%v: %v, want %v", c.all, got, c.want)
		}
	}
	if !math.IsNaN(AUC([]Scored{{0.5, 1, 1}})) {
		t.Error("one outcome has an AUC")
	}
}

func TestVerdictsPreferRecallThenThrift(t *testing.T) {
	for _, c := range []struct {
		a, b C2TQuality
		want bool
	}{
		{C2TQuality{Recall: 0.9, Kept: 0.5}, C2TQuality{Recall: 0.8, Kept: 0.1}, true},
		{C2TQuality{Recall: 0.9001, Kept: 0.1}, C2TQuality{Recall: 0.9003, Kept: 0.5}, true},
		{C2TQuality{Recall: 0.8, Kept: 0.1}, C2TQuality{Recall: 0.9, Kept: 0.5}, false},
	} {
		if got := c.a.better(c.b); got != c.want {
			t.Errorf("%v before %v: %v", c.a, c.b, got)
		}
	}
}

func TestWeightsKeepFiveDigits(t *testing.T) {
	for x, want := range map[float32]float64{0: 0, 1.23456789: 1.2346, -0.000123456: -0.00012346, 98765.4: 98765} {
		if got := roundTo5Digits(x); got != want {
			t.Errorf("%v becomes %v, want %v", x, got, want)
		}
	}
}
