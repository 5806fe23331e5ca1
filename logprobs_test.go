//go:build !js

package foretoken

import (
	"context"
	"math"
	"slices"
	"testing"

	"foretoken/spec/method"
	"foretoken/webgpu/open"
)

// TestLogProbs compares the log-probabilities of drafted tokens with those of plain decoding, bit for bit, and the
// latter with the target's scores of the complete text.
func TestLogProbs(t *testing.T) {
	s := demoSessionWith(t, open.Accelerator, Options{Candidates: 5})
	generate := func(r Request) (*Result, []Token) {
		t.Helper()
		var all []Token
		r.MaxTokens, r.LogProbs, r.TopLogProbs = 40, true, 5
		out, err := s.Generate(context.Background(), "func (s *Scanner) next() {", r, func(e *Event) error {
			all = append(all, e.Tokens...)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return out, all
	}
	for _, temperature := range []float64{0, 0.9} {
		plain, want := generate(Request{Policy: method.DrafterNone, Temperature: temperature, Seed: 5})
		scores, err := s.pair.Target.Score(context.Background(), slices.Concat(plain.PromptIDs, plain.TokenIDs))
		if err != nil {
			t.Fatal(err)
		}
		scores = scores[len(plain.PromptIDs)-1:]
		for i, token := range want {
			if d := math.Abs(float64(*token.LogProb - scores[i])); d > 1e-4 || len(token.Top) != 5 {
				t.Fatalf("token %d: ln p %g, scored %g, %d alternatives", i, *token.LogProb, scores[i], len(token.Top))
			}
			for k, other := range token.Top {
				if k > 0 && other.LogProb > token.Top[k-1].LogProb || k == 0 && other.LogProb < *token.LogProb ||
					other.ID == token.ID && other.LogProb != *token.LogProb {
					t.Fatalf("token %d (%d, %g): %+v", i, token.ID, *token.LogProb, token.Top)
				}
			}
			if temperature == 0 && token.Top[0].ID != token.ID {
				t.Fatalf("token %d is %d, the likeliest %d", i, token.ID, token.Top[0].ID)
			}
		}
		for _, r := range []Request{{Policy: method.DrafterChain, Depth: 3},
			{Policy: method.DrafterEAGLE2, Depth: 3, TopK: 3, Nodes: 12}, {Policy: method.DrafterNgram}} {
			r.Temperature, r.Seed = temperature, 5
			_, got := generate(r)
			if len(got) != len(want) {
				t.Fatalf("%s: %d tokens, want %d", r.Policy, len(got), len(want))
			}
			for i := range got {
				if got[i].ID != want[i].ID || *got[i].LogProb != *want[i].LogProb ||
					!slices.Equal(got[i].Top, want[i].Top) {
					t.Fatalf("%s: token %d is %d, %g, %v; decoded plainly %d, %g, %v", r.Policy, i, got[i].ID,
						*got[i].LogProb, got[i].Top, want[i].ID, *want[i].LogProb, want[i].Top)
				}
			}
		}
	}
	r := DefaultRequest()
	r.LogProbs, r.TopLogProbs = true, 65
	if _, err := s.Generate(context.Background(), "x", r, nil); err == nil {
		t.Error("65 top log-probabilities were accepted")
	}
	r.LogProbs, r.TopLogProbs = false, 1
	if r.Validate() == nil {
		t.Error("top_logprobs without logprobs")
	}
}
