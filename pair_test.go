//go:build !js

package foretoken

import (
	"context"
	"slices"
	"strings"
	"testing"

	"foretoken/internal/files"
	"foretoken/models/gguf"
	"foretoken/models/graph"
	"foretoken/models/runner"
	"foretoken/spec"
	"foretoken/spec/method"
	"foretoken/webgpu/kernels/kerneltest"
)

// TestPaddedVocabulary checks that rows without a token are never drafted or sampled: rows without a name and rows
// named as padding, in the target, the draft or both, whatever their logits. The text is that of the models without
// such rows.
func TestPaddedVocabulary(t *testing.T) {
	background := context.Background()
	files := map[string]files.Source{}
	for name, change := range map[string]func(*modelEditor){"none": nil, "40": padded(40, false),
		"24 named": padded(24, true)} {
		files[name] = edited(t, "tiny-f32", change)
	}
	// The test needs padding that would be sampled.
	dev := kerneltest.CPU(t)
	f, err := gguf.Open(files["40"])
	if err != nil {
		t.Fatal(err)
	}
	bare, err := runner.LoadTarget(background, dev, f, graph.Options{Context: 128})
	if err != nil {
		t.Fatal(err)
	}
	defer bare.Close()
	g, err := method.New(bare, method.Config{Drafter: method.DrafterNone})
	if err != nil {
		t.Fatal(err)
	}
	loud := 0
	if _, err := g.Generate(background, []int32{1, 403, 407}, spec.Options{MaxTokens: 8}, func(e *spec.Event) error {
		for _, id := range e.Tokens {
			if id >= 512 {
				loud++
			}
		}
		return nil
	}); err != nil || loud == 0 {
		t.Fatalf("%d padding tokens drawn without a mask, %v", loud, err)
	}

	const prompt = "Once upon a time"
	for _, kind := range deviceKinds {
		t.Run(kind, func(t *testing.T) {
			plain := opened(t, kind, files["none"], nil, Options{Context: 128})
			pairs := map[string][][2]string{"cpu": {{"40", "24 named"}}}[kind]
			if pairs == nil {
				pairs = [][2]string{{"24 named", "40"}}
			}
			for _, pair := range pairs {
				s := opened(t, kind, files[pair[0]], files[pair[1]], Options{Context: 128})
				if v := s.Info().Target.Vocab; v != 512 || s.Info().Draft.Vocab != 512 {
					t.Errorf("%v: %d and %d ids take part", pair, v, s.Info().Draft.Vocab)
				}
				for _, way := range []Request{
					{Policy: method.DrafterEAGLE2, Depth: 3, TopK: 4, Nodes: 12},
					{Policy: method.DrafterEAGLE2, Depth: 3, TopK: 4, Nodes: 12, Temperature: 1.5, Seed: 4},
					{Policy: method.DrafterChain, Depth: 4, Verifier: method.VerifierRejection, Temperature: 1.5,
						Seed: 4},
					{Policy: method.DrafterSampled, Verifier: method.VerifierWithoutReplacement, Temperature: 1.5,
						Seed: 4},
				} {
					way.MaxTokens = 12
					ids := func(tokens []int32) {
						for _, id := range tokens {
							if id >= 512 {
								t.Fatalf("%v, %s: token %d", pair, way.Policy, id)
							}
						}
					}
					got, err := s.Generate(background, prompt, way, func(e *Event) error {
						if e.Round.Tree != nil {
							ids(e.Round.Tree.Tokens)
						}
						for _, l := range e.Round.Levels {
							for _, c := range l.Candidates {
								ids([]int32{c.Token})
							}
						}
						return nil
					})
					if err != nil {
						t.Fatal(err)
					}
					ids(got.TokenIDs)
					if way.Verifier != "" { // equal in distribution only
						continue
					}
					want, err := plain.Generate(background, prompt,
						Request{Policy: method.DrafterNone, MaxTokens: 12, Temperature: way.Temperature,
							Seed: way.Seed}, nil)
					if err != nil || !slices.Equal(got.TokenIDs, want.TokenIDs) {
						t.Errorf("%v, %s at T=%g: %q, without padding %q, %v", pair, way.Policy, way.Temperature,
							got.Text, want.Text, err)
					}
				}
			}
		})
	}
}

// TestPairsRefused checks that a target and a draft with different vocabularies are refused with the names of both
// files.
func TestPairsRefused(t *testing.T) {
	dev := kerneltest.CPU(t)
	target := edited(t, "tiny-f32", nil)
	vocabulary := func(change func(texts *[]string, kinds *[]int32, scores *[]float32)) func(*modelEditor) {
		return func(m *modelEditor) { m.tokens(change) }
	}
	for what, c := range map[string]struct {
		target, draft files.Source
		says          string
	}{
		"a token": {target, edited(t, "tiny-q8_0",
			vocabulary(func(texts *[]string, _ *[]int32, _ *[]float32) { (*texts)[300] = "zebra" })), "zebra"},
		"EOS": {target, edited(t, "tiny-q8_0", func(m *modelEditor) {
			m.set("tokenizer.ggml.eos_token_id",
				uint32(1))
		}),
			"EOS"},
		"a control token of the target's": {edited(t, "tiny-f32", func(m *modelEditor) {
			padded(8, false)(m)
			m.tokens(func(texts *[]string, kinds *[]int32, scores *[]float32) {
				*texts, *kinds, *scores = append(*texts, "<|call|>"), append(*kinds, controlToken), append(*scores, 0)
			})
		}), edited(t, "tiny-q8_0", nil), "<|call|>"},
	} {
		_, err := Open(context.Background(), dev, c.target, c.draft, Options{Context: 128})
		if err == nil || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), "tiny-f32.gguf") ||
			!strings.Contains(err.Error(), "tiny-q8_0.gguf") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", what, err)
		}
	}
}
