//go:build !js

package foretoken

import (
	"context"
	"fmt"
	"slices"
	"sort"
	"testing"

	"foretoken/models/demo"
	"foretoken/models/modeltest"
	"foretoken/spec"
	"foretoken/spec/method"
	"foretoken/webgpu/kernels/kerneltest"
)

type testPrompt = modeltest.Prompt

func goPrompts(t testing.TB) []testPrompt { return modeltest.Prompts(t) }

// demoSession opens the built-in pair on a kind of device, or skips the test.
func demoSession(t testing.TB, kind string) *Session {
	t.Helper()
	return demoSessionWith(t, kind, Options{})
}

func demoSessionWith(t testing.TB, kind string, o Options) *Session {
	t.Helper()
	if o.Context == 0 {
		o.Context = 256 // what tests read and write fits
	}
	return openPair(t, deviceOf(t, kind), demo.Target(), demo.Draft(), o)
}

// onCPU tests what Go decides, which is the same on every device, on the cpu device: a software GPU takes ten times as
// long. With FORETOKEN_FULL=1 the accelerator follows.
func onCPU(t *testing.T, test func(t *testing.T, kind string)) {
	t.Helper()
	for _, kind := range deviceKinds {
		if kind == "cpu" || kerneltest.Full() {
			t.Run(kind, func(t *testing.T) { test(t, kind) })
		}
	}
}

// TestSpeculationEqualsPlain checks that every policy gives the tokens of plain decoding. Each sampling runs two
// prompts, or all prompts with FORETOKEN_FULL=1.
func TestSpeculationEqualsPlain(t *testing.T) {
	for _, kind := range deviceKinds {
		t.Run(kind, func(t *testing.T) { speculationEqualsPlain(t, demoSession(t, kind)) })
	}
}

func speculationEqualsPlain(t *testing.T, s *Session) {
	t.Helper()
	prompts, all := goPrompts(t), kerneltest.Full()
	const tokens = 32
	policies := map[string]Request{
		"chain":  {Policy: method.DrafterChain, Depth: 4},
		"eagle2": {Policy: method.DrafterEAGLE2, Depth: 4, TopK: 4, Nodes: 16},
		"ngram":  {Policy: method.DrafterNgram},
	}
	samplings := map[string]Request{"greedy": {}, "T=0.8": {Temperature: 0.8, Seed: 7},
		"T=0.8 filtered": {Temperature: 0.8, Seed: 7, SampleTopK: 40, TopP: new(0.95), MinP: 0.02}}
	first := map[string]int{"greedy": 1, "T=0.8": 3, "T=0.8 filtered": 5}
	for how, sampling := range samplings {
		stats := map[string]map[string]*spec.Stats{}
		for i, p := range prompts {
			if !all && i%41 != first[how] {
				continue
			}
			plain := sampling
			plain.Policy, plain.MaxTokens = method.DrafterNone, tokens
			want, err := s.Generate(context.Background(), p.Prompt, plain, nil)
			if err != nil {
				t.Fatal(err)
			}
			for name, r := range policies {
				r.Temperature, r.Seed, r.SampleTopK, r.TopP, r.MinP = sampling.Temperature, sampling.Seed,
					sampling.SampleTopK, sampling.TopP, sampling.MinP
				r.MaxTokens = tokens
				got, err := s.Generate(context.Background(), p.Prompt, r, nil)
				if err != nil {
					t.Fatalf("%s %s %s: %v", p.ID, how, name, err)
				}
				if !slices.Equal(got.TokenIDs, want.TokenIDs) || got.Text != want.Text || got.Finish != want.Finish {
					t.Fatalf("%s %s: %s gives\n%v %s\nplain decoding gives\n%v %s", p.ID, how, name, got.TokenIDs,
						got.Finish, want.TokenIDs, want.Finish)
				}
				if stats[name] == nil {
					stats[name] = map[string]*spec.Stats{"all": {}}
				}
				if stats[name][p.Category] == nil {
					stats[name][p.Category] = &spec.Stats{}
				}
				stats[name][p.Category].Add(&got.Stats)
				stats[name]["all"].Add(&got.Stats)
			}
		}
		for name, categories := range stats {
			line := fmt.Sprintf("%s, %s: committed tokens per target pass (bonus included):", how, name)
			var keys []string
			for c := range categories {
				keys = append(keys, c)
			}
			sort.Strings(keys)
			for _, c := range keys {
				line += fmt.Sprintf(" %s %.2f", c, categories[c].AcceptedLength())
			}
			t.Log(line)
		}
	}
}

// TestRejectionSampling checks that rejection sampling is greedy at temperature 0 and where top_p is 0, as plain
// decoding is there, and repeats its text for a seed elsewhere.
func TestRejectionSampling(t *testing.T) {
	onCPU(t, func(t *testing.T, kind string) { rejectionSampling(t, demoSession(t, kind)) })
}

func rejectionSampling(t *testing.T, s *Session) {
	t.Helper()
	for i, p := range goPrompts(t) {
		if i%40 != 0 {
			continue
		}
		r := Request{Policy: method.DrafterChain, Depth: 4, Verifier: method.VerifierRejection, MaxTokens: 48}
		plain := Request{Policy: method.DrafterNone, MaxTokens: 48}
		want, err := s.Generate(context.Background(), p.Prompt, plain, nil)
		if err != nil {
			t.Fatal(err)
		}
		likeliest, alone := r, plain
		likeliest.Temperature, likeliest.Seed, likeliest.TopP = 1, 5, new(0.0)
		alone.Temperature, alone.Seed, alone.TopP = 2, 6, new(0.0)
		for _, r := range []Request{r, likeliest, alone} {
			got, err := s.Generate(context.Background(), p.Prompt, r, nil)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(got.TokenIDs, want.TokenIDs) {
				t.Fatalf("%s: %s at temperature %v gives\n%v\ngreedy decoding gives\n%v", p.ID, r.Policy, r.Temperature,
					got.TokenIDs, want.TokenIDs)
			}
		}
		r.Temperature, r.Seed, r.TopP = 0.8, 3, new(0.95)
		first, err := s.Generate(context.Background(), p.Prompt, r, nil)
		if err != nil {
			t.Fatal(err)
		}
		again, err := s.Generate(context.Background(), p.Prompt, r, nil)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(first.TokenIDs, again.TokenIDs) || first.Stats.Accepted == 0 {
			t.Fatalf("%s: the same seed gives %v and %v (%d accepted)", p.ID, first.TokenIDs, again.TokenIDs,
				first.Stats.Accepted)
		}
	}
}
