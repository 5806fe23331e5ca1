//go:build !js

package foretoken

import (
	"context"
	"slices"
	"testing"

	"foretoken/spec/method"
)

// TestSuppressedTokens: the tokens that a file rules out are never chosen, and every draft gives the tokens of plain
// decoding, although it proposes them.
func TestSuppressedTokens(t *testing.T) {
	const prompt, tokens = "Once upon a time", 24
	generate := func(s *Session, r Request) []int32 {
		t.Helper()
		r.MaxTokens = tokens
		got, err := s.Generate(context.Background(), prompt, r, nil)
		if err != nil {
			t.Fatal(err)
		}
		return got.TokenIDs
	}
	plain, draft := Request{Policy: method.DrafterNone}, edited(t, "noisy-f32", nil)
	free := generate(opened(t, "cpu", edited(t, "tiny-f32", nil), draft, Options{Context: 256}), plain)
	never := free[:6]
	s := opened(t, "cpu", edited(t, "tiny-f32", func(m *modelEditor) {
		m.set("tokenizer.ggml.suppress_tokens", never)
	}), draft, Options{Context: 256})
	for _, sampling := range []Request{{}, {Temperature: 0.8, Seed: 7}} {
		plain.Temperature, plain.Seed = sampling.Temperature, sampling.Seed
		want := generate(s, plain)
		if i := slices.IndexFunc(want, func(id int32) bool { return slices.Contains(never, id) }); i >= 0 {
			t.Errorf("at T=%g token %d is chosen", sampling.Temperature, want[i])
		}
		for _, r := range []Request{{Policy: method.DrafterChain, Depth: 4},
			{Policy: method.DrafterEAGLE2, Depth: 3, TopK: 3, Nodes: 12}} {
			r.Temperature, r.Seed = sampling.Temperature, sampling.Seed
			if got := generate(s, r); !slices.Equal(got, want) {
				t.Errorf("%s at T=%g gives %v, plain decoding %v", r.Policy, r.Temperature, got, want)
			}
		}
	}
	r := Request{Policy: method.DrafterChain, Depth: 4, Verifier: method.VerifierRejection, Temperature: 0.8, Seed: 3}
	if got := generate(s, r); slices.ContainsFunc(got, func(id int32) bool { return slices.Contains(never, id) }) {
		t.Errorf("rejection sampling chooses a token of %v: %v", never, got)
	}
	withBias := plain
	withBias.LogitBias = map[int32]float32{never[0]: 100}
	if got := generate(s, withBias); slices.Contains(got, never[0]) {
		t.Error("a bias brings a suppressed token back")
	}
}
