package spectest

import (
	"context"
	"testing"

	"foretoken/spec"
)

const drawnVocab, drawnTokens = 3, 4

func DrawnPair() (*Target, *Draft) {
	target := NewTarget(&Script{Vocab: drawnVocab, Steps: 1e6}, 32, 32)
	draft := NewDraft(target, 32, 0.6)
	draft.Accept = true
	return target, draft
}

// Joint returns the exact distribution of the first drawnTokens tokens after a prompt. The last token is the least
// significant digit of the index.
func Joint(s *Script, sampling spec.Sampling) []float64 {
	all := []float64{1}
	at := []Prefix{PrefixOf([]int32{1, 2})}
	for range drawnTokens {
		var next []float64
		var prefixes []Prefix
		for i, p := range all {
			for token, x := range Distribution(sampling, s.Logits(at[i], 0)) {
				next, prefixes = append(next, p*x), append(prefixes, at[i].Then(int32(token)))
			}
		}
		all, at = next, prefixes
	}
	return all
}

// Outcomes counts the first drawnTokens tokens after a prompt over seeds, with the index of Joint.
func Outcomes(t *testing.T, target *Target, p spec.Parts, sampling spec.Sampling) ([]int, spec.Stats) {
	t.Helper()
	g, err := spec.New(target, p)
	if err != nil {
		t.Fatal(err)
	}
	counts := make([]int, 81)
	var sum spec.Stats
	for seed := range uint64(5000) {
		sampling.Seed = seed
		var out []int32
		stats, err := g.Generate(context.Background(), []int32{1, 2},
			spec.Options{Sampling: sampling, MaxTokens: drawnTokens + 3}, func(e *spec.Event) error {
				out = append(out, e.Tokens...)
				return nil
			})
		if err != nil {
			t.Fatal(err)
		}
		cell := 0
		for _, token := range out[:drawnTokens] {
			cell = cell*drawnVocab + int(token)
		}
		counts[cell]++
		sum.Add(&stats)
	}
	return counts, sum
}
