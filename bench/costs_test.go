//go:build !js

package bench

import (
	"context"
	"math"
	"testing"

	"foretoken"
	"foretoken/models/demo"
	"foretoken/spec/method"
	"foretoken/webgpu/kernels/kerneltest"
)

// TestChainRounds compares with rounds counted by hand, and chains of no tokens with plain decoding.
func TestChainRounds(t *testing.T) {
	hits := []bool{true, true, false, false, true, true, true, true, false}
	for k, want := range []int{9, 6, 4, 4, 3} {
		// k = 2: [1 1 0] [0] [1 1 1] [1 0].
		if got := chainRounds(hits, k); got != want {
			t.Errorf("chains of %d: %d rounds, want %d", k, got, want)
		}
	}
}

func TestChainCeilings(t *testing.T) {
	r := &CostReport{Verify: []PassCost{{1, 10, 1}, {2, 12, 1.2}, {4, 20, 2}},
		Chain: []PassCost{{1, 3, 0.3}, {2, 4, 0.4}, {3, 5, 0.5}, {4, 6, 0.6}}}
	all, best := r.chainCeilings(60, []int{60, 36, 30, 24, 20})
	for i, want := range []float64{60.0 / 36 * 10 / 15, 2 * 10 / 24.0, 2.5 * 10 / 25, 0} { // 5 rows were not timed
		if math.Abs(all[i].Speedup-want) > 1e-12 {
			t.Errorf("a chain of %d: %g times plain decoding, want %g", all[i].K, all[i].Speedup, want)
		}
	}
	if best.K != 1 {
		t.Errorf("the best chain has %d tokens, want 1", best.K)
	}
}

// TestMeasureCosts compares the agreed tokens with the tokens that chains of each length commit.
func TestMeasureCosts(t *testing.T) {
	dev := kerneltest.Reference(t)
	ctx := context.Background()
	s, err := foretoken.Open(ctx, dev, demo.Target(), demo.Draft(), foretoken.Options{Context: 128})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	const tokens = 24
	prompt := Prompt{ID: "a", Prompt: "func main() {\n"}
	o := CostOptions{Rows: []int{1, 2, 4}, Tokens: 3, Repeat: 1, Length: 8, Shorter: []int{3},
		Prompts: []Prompt{prompt}, MaxTokens: tokens}
	r, err := MeasureCosts(ctx, s, o)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Verify) != 3 || len(r.Chain) != 3 || len(r.Chains) != 3 || r.Verify[0].Ratio != 1 || r.Verify[2].N != 4 ||
		r.Texts != 1 ||
		len(r.After) != 1 || r.After[0].Length != 3 || len(r.After[0].Verify) != 3 || r.After[0].Verify[0].Ratio != 1 {
		t.Fatalf("%+v", r)
	}
	for _, c := range r.Chains {
		got, err := s.Generate(ctx, prompt.Prompt,
			foretoken.Request{Policy: method.DrafterChain, Depth: c.K, MaxTokens: tokens, NoReuse: true}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if want := tokens / float64(got.Stats.Rounds); math.Abs(c.Tokens-want) > 1e-9 {
			t.Errorf("chains of %d: %g tokens a round, decoding has %g", c.K, c.Tokens, want)
		}
	}
	for _, bad := range []CostOptions{{Rows: []int{0}}, {Rows: []int{4, 2}}, {Rows: []int{999}}, {Tokens: 99},
		{Length: 127}, {Length: 8, Shorter: []int{8}}, {Repeat: -1}} {
		if _, err := MeasureCosts(ctx, s, bad); err == nil {
			t.Errorf("%+v was measured", bad)
		}
	}
}
