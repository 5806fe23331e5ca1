//go:build !js

package foretoken

import (
	"context"
	"slices"
	"testing"

	"foretoken/spec"
	"foretoken/webgpu/open"
)

// matched are requests for every legal combination of drafter, source and policy under
// the match verifier, beside those of TestSpeculationEqualsPlain.
func matched(t testing.TB, s *Session) map[string]Request {
	t.Helper()
	all := map[string]Request{}
	for _, drafter := range []string{spec.DrafterChain, spec.DrafterEAGLE2, spec.DrafterStatic, spec.DrafterSampled,
		spec.DrafterNgram, spec.DrafterNgramSimple, spec.DrafterNgramMap, spec.DrafterAuto} {
		for _, source := range []string{spec.SourceModel, spec.SourceEAGLE3} {
			for _, adapt := range []string{spec.AdaptFixed, spec.AdaptHetero, spec.AdaptC2T, spec.AdaptAcceptance, spec.AdaptAdaEDL, spec.AdaptAssisted, spec.AdaptAdaSD} {
				r := Request{Policy: drafter, Source: source, Adapt: adapt, Verifier: spec.VerifierMatch}
				if drafter == spec.DrafterEAGLE2 { // the shape of the page, for which there are calibrations too
					r.Depth, r.TopK, r.Nodes = 4, 4, 16
				}
				uses := spec.Config{Drafter: drafter}.UsesDraftModel()
				if r.Validate() != nil || source == spec.SourceEAGLE3 && (!uses || s.head == nil) {
					continue
				}
				all[drafter+"/"+source+"/"+adapt] = r
			}
		}
	}
	return all
}

// TestEveryPolicyEqualsPlain holds every legal combination of drafter and policy to the
// tokens of plain decoding.
func TestEveryPolicyEqualsPlain(t *testing.T) {
	s := demoSession(t, open.Accelerator)
	const tokens = 24
	every := 27
	if testing.Short() {
		every = 40
	}
	// text that repeats itself, which the drafters from n-grams wait for
	const block = "\tf, err := os.Open(name)\n\tif err != nil {\n\t\treturn nil, fmt.Errorf(\"open %s: %w\", name, err)\n\t}\n"
	prompts := []testPrompt{{ID: "repeated", Prompt: block + block + block[:len(block)-10]}}
	for i, p := range goPrompts(t) {
		if i%every == 0 {
			prompts = append(prompts, p)
		}
	}
	ways := matched(t, s)
	if len(ways) < 15 {
		t.Fatalf("%d combinations", len(ways))
	}
	drafted := map[string]int{}
	for _, p := range prompts {
		for _, sampling := range []Request{{}, {Temperature: 0.8, Seed: 7}} {
			plain := sampling
			plain.Policy, plain.MaxTokens = spec.DrafterNone, tokens
			want, err := s.Generate(context.Background(), p.Prompt, plain, nil)
			if err != nil {
				t.Fatal(err)
			}
			for name, r := range ways {
				r.Temperature, r.Seed, r.MaxTokens = sampling.Temperature, sampling.Seed, tokens
				got, err := s.Generate(context.Background(), p.Prompt, r, nil)
				if err != nil {
					t.Fatalf("%s at T=%v: %s: %v", p.ID, r.Temperature, name, err)
				}
				if !slices.Equal(got.TokenIDs, want.TokenIDs) || got.Text != want.Text || got.Finish != want.Finish {
					t.Errorf("%s at T=%v: %s gives\n%v %s\nplain decoding gives\n%v %s", p.ID, r.Temperature, name, got.TokenIDs, got.Finish, want.TokenIDs, want.Finish)
				}
				drafted[name] += got.Stats.Drafted
			}
		}
	}
	for name := range ways {
		if drafted[name] == 0 && ways[name].Policy != spec.DrafterAuto { // which may find that nothing pays
			t.Errorf("%s never drafted", name)
		}
	}
	t.Logf("%d combinations", len(ways))
}

// TestLossyMethodsSaySo: what commits tokens that plain decoding would not have is marked.
func TestLossyMethodsSaySo(t *testing.T) {
	s := demoSession(t, open.Accelerator)
	prompt := goPrompts(t)[0].Prompt
	for _, m := range Methods() {
		r := Request{Policy: m.Name, MaxTokens: 8}
		if m.Name == "eagle3" && s.head == nil || m.Config.Adapt == spec.AdaptHetero {
			continue
		}
		got, err := s.Generate(context.Background(), prompt, r, nil)
		if err != nil {
			t.Errorf("%s: %v", m.Name, err)
			continue
		}
		if got.Stats.Lossy != m.Lossy || m.Lossy != (m.Name == spec.VerifierMARS || m.Name == spec.AdaptAdaSD) {
			t.Errorf("%s: lossy is %v in the statistics and %v in the list", m.Name, got.Stats.Lossy, m.Lossy)
		}
	}
}
