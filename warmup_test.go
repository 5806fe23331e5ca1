package foretoken

import (
	"context"
	"testing"
	"time"

	"foretoken/models/demo"
	"foretoken/spec/method"
	"foretoken/webgpu/kernels/kerneltest"
)

// leanSession opens the built-in pair from the repository's files, in the browser too.
func leanSession(t testing.TB) *Session {
	t.Helper()
	target, draft := demoFile(t, demo.TargetName), demoFile(t, demo.DraftName)
	return openPair(t, kerneltest.OwnAccelerator(t), target, draft, Options{Lean: true})
}

// TestLeanDecodesTheSameText opens the built-in pair lean: the first request begins before drafting is ready, later
// requests draft, and every text is plain decoding's.
func TestLeanDecodesTheSameText(t *testing.T) {
	ctx := context.Background()
	s := leanSession(t)
	const prompt = "package main\n\nimport \"fmt\"\n\nfunc main() {\n\tfor i := 0; i < 10; i++ {\n"
	plain := DefaultRequest()
	plain.Policy, plain.MaxTokens = method.DrafterNone, 96
	for _, temperature := range []float64{0, 0.8} {
		plain.Temperature = temperature
		r := plain
		r.Policy = method.DrafterAuto
		warming := 0 // rounds marked as warming
		first, err := s.Generate(ctx, prompt, r, func(e *Event) error {
			if e.Round.Warming {
				warming++
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if warming != first.Stats.Warming {
			t.Errorf("temperature %g: %d rounds said that drafting was not ready, the statistics count %d", temperature,
				warming, first.Stats.Warming)
		}
		if err := s.Warm(ctx); err != nil {
			t.Fatal(err)
		}
		second, err := s.Generate(ctx, prompt, r, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Policy = method.DrafterEAGLE2
		drafted, err := s.Generate(ctx, prompt, r, nil)
		if err != nil {
			t.Fatal(err)
		}
		want, err := s.Generate(ctx, prompt, plain, nil)
		if err != nil {
			t.Fatal(err)
		}
		if first.Text != want.Text || second.Text != want.Text || drafted.Text != want.Text {
			t.Errorf("temperature %g: texts differ from plain decoding's", temperature)
		}
		if temperature == 0 && first.Stats.Warming == 0 {
			t.Error("the first request of a lean session waited for drafting")
		}
		if temperature == 0 && first.Stats.Guessed == s.dev.Info().Host() || drafted.Stats.Guessed {
			t.Errorf("by guessed costs: auto's first request %t, eagle2 %t", first.Stats.Guessed, drafted.Stats.Guessed)
		}
		if drafted.Stats.Drafted == 0 || drafted.Stats.Warming != 0 {
			t.Errorf("eagle2 drafted %d tokens, %d rounds warming", drafted.Stats.Drafted, drafted.Stats.Warming)
		}
	}
	before := s.dev.Counters()
	if _, err := s.Generate(ctx, prompt, DefaultRequest(), nil); err != nil {
		t.Fatal(err)
	}
	if after := s.dev.Counters(); after.Kernels != before.Kernels || after.Programs != before.Programs ||
		after.Buffers != before.Buffers {
		t.Errorf("a warm session made kernels, programs or buffers: %+v, then %+v", before, after)
	}
}

// TestLeanDryRunListsEveryKernel compiles the kernels that the dry run listed and expects recording the programs to
// need no others.
func TestLeanDryRunListsEveryKernel(t *testing.T) {
	ctx := context.Background()
	s := leanSession(t)
	s.mu.Lock()
	defer s.mu.Unlock()
	dry := s.warmup.dryRun
	for s.warmup.phase == listing {
		if _, err := s.advance(); err != nil {
			t.Fatal(err)
		}
	}
	sources := dry.Sources()
	if len(sources) < 10 {
		t.Fatalf("%d kernels were listed", len(sources))
	}
	if _, err := s.dev.NewKernels(sources); err != nil {
		t.Fatal(err)
	}
	compiled := s.dev.Counters().Kernels
	if err := s.warmUp(ctx); err != nil {
		t.Fatal(err)
	}
	if n := s.dev.Counters().Kernels - compiled; n != 0 {
		t.Errorf("%d kernels were compiled that were not listed", n)
	}
}

// TestLeanSessionClosedDuringWarmup closes a session while kernels are compiled.
func TestLeanSessionClosedDuringWarmup(t *testing.T) {
	s := leanSession(t)
	go func() { time.Sleep(time.Millisecond); s.Close() }()
	if err := s.Warm(context.Background()); err != nil && err != errClosed {
		t.Fatal(err)
	}
}
