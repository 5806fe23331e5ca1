//go:build !js

package bench

import (
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"testing"

	"foretoken/spec"
)

// TestIntervalsCoverTheTrueRatio draws data sets of 20 prompts whose passes vary by length and whose ratios vary by
// prompt, and counts the intervals that hold the true ratio.
func TestIntervalsCoverTheTrueRatio(t *testing.T) {
	const sets, truth = 300, 0.9
	rng := rand.New(rand.NewPCG(3, 4))
	held := 0
	for range sets {
		pairs := make([][2]float64, 20)
		for i := range pairs {
			base := 20 * math.Exp(0.4*rng.NormFloat64())
			pairs[i] = [2]float64{base * truth * (1 + 0.1*rng.NormFloat64()), base}
		}
		got := RatioInterval(pairs)
		if got.N != 20 || got.Low > got.Ratio || got.High < got.Ratio {
			t.Fatalf("%+v", got)
		}
		if got.Low <= truth && truth <= got.High {
			held++
		}
	}
	if share := float64(held) / sets; share < 0.9 || share > 0.98 {
		t.Errorf("%.3f of the intervals hold the true ratio, want 0.95", share)
	}
}

func TestIntervalsByHand(t *testing.T) {
	same := [][2]float64{{3, 4}, {6, 8}, {9, 12}, {30, 40}, {3, 4}}
	if got, want := RatioInterval(same), (Interval{0.75, 0.75, 0.75, 5}); got != want {
		t.Errorf("one ratio for all prompts: %+v, want %+v", got, want)
	}
	if got := RatioInterval(same[:4]); got != (Interval{}) {
		t.Errorf("four prompts: %+v", got)
	}
	mixed := [][2]float64{{8, 10}, {12, 10}, {8, 10}, {12, 10}, {9, 10}, {11, 10}}
	got := RatioInterval(mixed)
	if got.Ratio != 1 || got.Low >= 1 || got.High <= 1 {
		t.Errorf("no difference: %+v", got)
	}
	if again := RatioInterval(mixed); again != got {
		t.Errorf("%+v, and again %+v", got, again)
	}
	for i := range mixed { // the interval moves with the ratio
		mixed[i][0] *= 2
	}
	if twice := RatioInterval(mixed); math.Abs(twice.Low-2*got.Low) > 1e-12 || twice.Low <= 1 {
		t.Errorf("twice %+v is %+v", got, twice)
	}
}

func TestRowsAreComparedPromptByPrompt(t *testing.T) {
	var cells []Cell
	for i := range 6 {
		for rep := range 2 {
			for m, method := range []string{"plain", "tree", "pruned"} {
				cells = append(cells, Cell{Index: m, Method: method, Plain: m == 0, Base: "plain",
					Prompt: fmt.Sprint("p", i), Category: "c", Rep: rep, TokS: float64(10 * (m + 1)), PlainTokS: 10,
					Stats: spec.Stats{Calls: []int{60, 20, 15}[m], Nodes: []int{60, 400, 300}[m], OutputTokens: 60}})
			}
		}
	}
	cells = append(cells, Cell{Index: 2, Method: "pruned", Base: "plain", Prompt: "alone",
		Stats: spec.Stats{Calls: 1, Nodes: 9999}})
	r := Summarise(cells)
	r.Compare(cells, map[string][]string{"pruned": {"tree"}})
	at := func(ratio float64) Interval { return Interval{ratio, ratio, ratio, 6} }
	want := []Ratios{{"plain", 2, at(0.25), at(5), at(4), at(3)}, {"tree", 2, at(0.75), at(0.75), at(4.0 / 3), at(1.5)}}
	for _, category := range []string{"", "c"} {
		if got := r.Row("pruned", category).Ratios; !reflect.DeepEqual(got, want) {
			t.Errorf("category %q: %+v, want %+v", category, got, want)
		}
	}
	if got := r.Row("plain", "").Ratios; got != nil {
		t.Errorf("plain decoding is compared: %+v", got)
	}
}
