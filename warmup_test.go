package foretoken

import (
	"context"
	"testing"
	"time"

	"foretoken/internal/files"
	"foretoken/internal/pair"
	"foretoken/models/demo"
	"foretoken/spec/method"
	"foretoken/webgpu/kernels/kerneltest"
)

// leanSession opens the built-in pair from the repository's files, in the browser too.
func fastStartSession(t testing.TB) *Session {
	t.Helper()
	target, draft := demoFile(t, demo.TargetName), demoFile(t, demo.DraftName)
	return openPair(t, kerneltest.OwnAccelerator(t), target, draft, Options{FastStart: true})
}

// TestFastStartDecodesTheSameText opens the built-in pair with a fast start: the first request drafts small trees,
// later ones draft as they like, and every text is plain decoding's.
func TestFastStartDecodesTheSameText(t *testing.T) {
	ctx := context.Background()
	const prompt = "package main\n\nimport \"fmt\"\n\nfunc main() {\n\tfor i := 0; i < 10; i++ {\n"
	plain := DefaultRequest()
	plain.Policy, plain.MaxTokens = method.DrafterNone, 48
	var s *Session
	for _, temperature := range []float64{0, 0.8} {
		s = fastStartSession(t)
		plain.Temperature = temperature
		r := plain
		r.Policy = method.DrafterAuto
		largest, compiled, before, joint := 0, 0, s.pair.Device.Counters().Kernels, false
		first, err := s.Generate(ctx, prompt, r, func(e *Event) error {
			largest, compiled = max(largest, e.Round.Tree.Len()), s.pair.Device.Counters().Kernels-before
			joint = joint || e.Round.Joint
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if compiled != 0 || joint {
			t.Errorf("temperature %g: %d kernels were compiled in the first request; one run drafted and verified: %t",
				temperature, compiled, joint)
		}
		if !first.Stats.Guessed || first.Stats.Drafted == 0 || largest < 2 || largest > firstNodes {
			t.Errorf("temperature %g: the first request drafted %d tokens, at most %d nodes, by guesses: %t",
				temperature, first.Stats.Drafted, largest, first.Stats.Guessed)
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
		if drafted.Stats.Drafted == 0 || drafted.Stats.Guessed {
			t.Errorf("eagle2 drafted %d tokens, by guesses: %t", drafted.Stats.Drafted, drafted.Stats.Guessed)
		}
	}
	before := s.pair.Device.Counters()
	if _, err := s.Generate(ctx, prompt, DefaultRequest(), nil); err != nil {
		t.Fatal(err)
	}
	if after := s.pair.Device.Counters(); after.Kernels != before.Kernels || after.Programs != before.Programs ||
		after.Buffers != before.Buffers {
		t.Errorf("a warm session made kernels, programs or buffers: %+v, then %+v", before, after)
	}
}

// TestFastStartListsEveryKernel compiles the kernels that the dry run listed and expects recording the programs to need
// no others.
func TestFastStartListsEveryKernel(t *testing.T) {
	ctx := context.Background()
	s := fastStartSession(t)
	s.turn.Lock()
	defer s.turn.Unlock()
	steps, list := s.pair.DryRun()
	for _, step := range steps {
		if err := step(); err != nil {
			t.Fatal(err)
		}
	}
	sources := list()
	if len(sources) < 10 {
		t.Fatalf("%d kernels were listed", len(sources))
	}
	if _, err := s.pair.Device.NewKernels(sources); err != nil {
		t.Fatal(err)
	}
	compiled := s.pair.Device.Counters().Kernels
	if err := s.warmUp(ctx); err != nil {
		t.Fatal(err)
	}
	if n := s.pair.Device.Counters().Kernels - compiled; n != 0 {
		t.Errorf("%d kernels were compiled that were not listed", n)
	}
}

// TestFastStartClosedDuringWarmup closes a session while kernels are compiled.
func TestFastStartClosedDuringWarmup(t *testing.T) {
	s := fastStartSession(t)
	go func() { time.Sleep(time.Millisecond); s.Close() }()
	if err := s.Warm(context.Background()); err != nil && err != pair.ErrClosed {
		t.Fatal(err)
	}
}

// TestSmallTrees opens sessions that verify smaller trees than a default request's, which then takes theirs.
func TestSmallTrees(t *testing.T) {
	for _, nodes := range []int{2, 4, 12} {
		for _, fastStart := range []bool{false, true} {
			for _, draft := range []files.Source{nil, demoFile(t, demo.DraftName)} {
				s := openPair(t, kerneltest.CPU(t), demoFile(t, demo.TargetName), draft,
					Options{FastStart: fastStart, Nodes: nodes})
				r := DefaultRequest()
				r.MaxTokens = 16
				if _, err := s.Generate(context.Background(), "func main() {", r, nil); err != nil {
					t.Errorf("%d nodes, fast start %t, a draft %t: %v", nodes, fastStart, draft != nil, err)
				}
				if err := s.Warm(context.Background()); err != nil {
					t.Errorf("%d nodes, fast start %t, a draft %t: %v", nodes, fastStart, draft != nil, err)
				}
				r.Nodes = nodes + 1
				if _, err := s.Generate(context.Background(), "func main() {", r, nil); err == nil {
					t.Errorf("%d nodes, fast start %t: a request of %d nodes was not refused", nodes, fastStart,
						r.Nodes)
				}
			}
		}
	}
}
