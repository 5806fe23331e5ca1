//go:build !js

package foretoken

import (
	"context"
	"slices"
	"testing"

	"foretoken/models/demo"
	"foretoken/spec/method"
	"foretoken/webgpu/kernels/kerneltest"
	"foretoken/webgpu/open"
)

// matched returns requests for every legal combination of drafter, source and policy under the match verifier, in
// addition to those of TestSpeculationEqualsPlain.
func matched(t testing.TB, s *Session) map[string]Request {
	t.Helper()
	all := map[string]Request{}
	for _, drafter := range method.Drafters() {
		if drafter == method.DrafterNone {
			continue
		}
		for _, source := range method.Sources() {
			for _, adapt := range method.AdapterNames() {
				r := Request{Policy: drafter, Source: source, Adapt: adapt, Verifier: method.VerifierMatch}
				if drafter == method.DrafterEAGLE2 { // the page's tree, which has calibrations
					r.Depth, r.TopK, r.Nodes = 4, 4, 16
				}
				uses := r.Config().UsesDraftModel()
				if r.Validate() != nil || source == method.SourceEAGLE3 && (s.pair.Head == nil || !uses) {
					continue
				}
				if adapt == method.AdaptC2T {
					r.Fitted.C2T = s.fitted.C2T // the head's nodes too are told by its features
				}
				all[drafter+"/"+source+"/"+adapt] = r
			}
		}
	}
	return all
}

// TestEveryPolicyEqualsPlain checks that every legal combination of drafter and policy gives the tokens of plain
// decoding: at both temperatures after repeated text, at one after each of the other prompts. The accelerator, and the
// EAGLE-3 head, have the repeated text alone.
func TestEveryPolicyEqualsPlain(t *testing.T) {
	var o Options
	o.EAGLE3, o.EAGLE3Config = demo.Head()
	for kind, every := range map[string]int{open.Accelerator: 0, "cpu": 41} {
		t.Run(kind, func(t *testing.T) { everyPolicyEqualsPlain(t, demoSessionWith(t, kind, o), every) })
	}
}

func everyPolicyEqualsPlain(t *testing.T, s *Session, every int) {
	t.Helper()
	const tokens = 16
	// repeated text, which the n-gram drafters need
	const block = "\tf, err := os.Open(name)\n\tif err != nil {\n\t\treturn nil, fmt.Errorf(\"open %s: %w\", name, " +
		"err)\n\t}\n"
	prompts := []testPrompt{{ID: "repeated", Prompt: block + block + block[:len(block)-10]}}
	for i, p := range goPrompts(t) {
		if every > 0 && i%every == 1 {
			prompts = append(prompts, p)
		}
	}
	ways := matched(t, s)
	if len(ways) < 30 {
		t.Fatalf("%d combinations", len(ways))
	}
	drafted := map[string]int{}
	for i, p := range prompts {
		for j, sampling := range []Request{{}, {Temperature: 0.8, Seed: 7}} {
			if i > 0 && i%2 != j && !kerneltest.Full() {
				continue
			}
			plain := sampling
			plain.Policy, plain.MaxTokens = method.DrafterNone, tokens
			want, err := s.Generate(context.Background(), p.Prompt, plain, nil)
			if err != nil {
				t.Fatal(err)
			}
			for name, r := range ways {
				if r.Source == method.SourceEAGLE3 && i > 0 && !kerneltest.Full() {
					continue
				}
				r.Temperature, r.Seed, r.MaxTokens = sampling.Temperature, sampling.Seed, tokens
				got, err := s.Generate(context.Background(), p.Prompt, r, nil)
				if err != nil {
					t.Fatalf("%s at T=%v: %s: %v", p.ID, r.Temperature, name, err)
				}
				if !slices.Equal(got.TokenIDs, want.TokenIDs) || got.Text != want.Text || got.Finish != want.Finish {
					t.Errorf("%s at T=%v: %s gives\n%v %s\nplain decoding gives\n%v %s", p.ID, r.Temperature, name,
						got.TokenIDs, got.Finish, want.TokenIDs, want.Finish)
				}
				drafted[name] += got.Stats.Drafted
			}
		}
	}
	for name := range ways {
		if drafted[name] == 0 && ways[name].Policy != method.DrafterAuto { // auto may find that no draft pays
			t.Errorf("%s never drafted", name)
		}
	}
	t.Logf("%d combinations", len(ways))
}

// TestLossyMethodsSaySo checks that methods whose tokens can differ from plain decoding's are marked as lossy.
func TestLossyMethodsSaySo(t *testing.T) {
	s := demoSession(t, "cpu")
	prompt := goPrompts(t)[0].Prompt
	for _, m := range method.All() {
		r := Request{Policy: m.Name, MaxTokens: 8}
		if m.Name == "eagle3" && s.pair.Head == nil || m.Config.Adapt == method.AdaptHetero {
			continue
		}
		got, err := s.Generate(context.Background(), prompt, r, nil)
		if err != nil {
			t.Errorf("%s: %v", m.Name, err)
			continue
		}
		if got.Stats.Lossy != m.Lossy || m.Lossy != (m.Name == method.VerifierMARS || m.Name == method.AdaptAdaSD) {
			t.Errorf("%s: lossy is %v in the statistics and %v in the list", m.Name, got.Stats.Lossy, m.Lossy)
		}
	}
}
