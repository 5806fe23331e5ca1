//go:build !js

package foretoken

import (
	"context"
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	"foretoken/models/demo"
	"foretoken/spec/goodput"
	"foretoken/spec/method"
	"foretoken/webgpu"
	"foretoken/webgpu/simd"
)

// slow is a device on which every run takes longer.
type slow struct {
	webgpu.Device
	by time.Duration
}

func (d slow) Run(programs []webgpu.Program, regions ...webgpu.Region) error {
	time.Sleep(d.by)
	return d.Device.Run(programs, regions...)
}

// TestTwin has auto choose between the draft beside the target and its twin: whichever drafts sooner, with the text of
// plain decoding, and with the same choice in a later session. Methods that need the draft beside the target have it.
func TestTwin(t *testing.T) {
	ctx := context.Background()
	cpu := func(by time.Duration) func(context.Context) (webgpu.Device, error) {
		return func(context.Context) (webgpu.Device, error) {
			dev, err := simd.Open(simd.Options{})
			if err != nil {
				return nil, err
			}
			return slow{dev, by}, nil
		}
	}
	open := func(by time.Duration, o Options) *Session {
		dev, err := cpu(by)(ctx)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(dev.Destroy)
		o.Context = 256
		s, err := Open(ctx, dev, demo.Target(), demo.Draft(), o)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.Close)
		return s
	}
	const late = 12 * time.Millisecond
	s := open(late, Options{Twin: cpu(0), Lean: true})
	s.lock()
	twin, with := s.twin, s.predictedCosts().Drafts[goodput.SmallDraft].Root.Seconds
	s.twin = nil
	without := s.predictedCosts().Drafts[goodput.SmallDraft].Root.Seconds
	s.twin = twin
	s.mu.Unlock()
	if 2*with > without {
		t.Errorf("a draft of the twin is predicted to take %.2g of a pass, one beside the target %.2g", with, without)
	}
	got, err := s.Generate(ctx, "func main() {", Request{Policy: method.DrafterAuto, MaxTokens: 8}, nil)
	if err != nil || !got.Stats.Guessed || s.twin.draft.Len() == 0 || s.draft.Len() > 0 {
		t.Errorf("%v; before passes are timed auto drafts with the draft beside the target: %t", err, s.draft.Len() > 0)
	}
	if err := s.TimePasses(ctx); err != nil || s.sooner != twinSooner {
		t.Fatalf("the twin's passes take milliseconds less and it is not used, %v", err)
	}
	const prompt = "package main\n\nimport \"fmt\"\n\nfunc main() {\n\tfor i := 0; i < 10; i++ {\n"
	hits := 0
	for _, r := range []Request{{}, {Temperature: 0.8, Seed: 7}} {
		r.MaxTokens = 32
		plain := r
		plain.Policy, r.Policy = method.DrafterNone, method.DrafterAuto
		want, err := s.Generate(ctx, prompt, plain, nil)
		if err != nil {
			t.Fatal(err)
		}
		got, err := s.Generate(ctx, prompt, r, nil)
		if err != nil || !slices.Equal(got.TokenIDs, want.TokenIDs) {
			t.Errorf("T=%v: %v, with the twin %q, plain decoding gives %q", r.Temperature, err, got.Text, want.Text)
		}
		hits += got.Stats.AheadHits
	}
	if hits == 0 {
		t.Error("no draft of the twin was ready when it was asked for")
	}
	for _, policy := range []string{"adasd", method.DrafterChain} {
		got, err := s.Generate(ctx, prompt, Request{Policy: policy, MaxTokens: 8}, nil)
		if err != nil || got.Stats.AheadHits+got.Stats.AheadMisses > 0 {
			t.Errorf("%s: %v; want it beside the target", policy, err)
		}
	}
	later := open(late, Options{Twin: cpu(0), Lean: true, Tuning: s.Tuning()})
	if r := DefaultRequest(); later.sooner != twinSooner || !later.measuredFor(later.knownCosts(), r.Config()) {
		t.Error("a later session forgot that the twin drafts sooner")
	}
	if err := later.TimePasses(ctx); err != nil || later.sooner != twinSooner {
		t.Errorf("checking its costs, a later session forgot that the twin drafts sooner, %v", err)
	}

	s = open(0, Options{Twin: cpu(late)})
	if s.twin == nil {
		t.Error("the draft has no twin")
	}
	if err := s.TimePasses(ctx); err != nil || s.twin != nil {
		t.Errorf("a twin %+v whose passes take milliseconds more stays, %v", s.twin, err)
	}
	stored := later.Tuning()
	maps.Copy(stored[tuningCosts], s.Tuning()[tuningCosts])
	if later = open(late, Options{Twin: cpu(0), Tuning: stored}); later.twin != nil {
		t.Error("a later session forgot that the twin no longer drafts sooner")
	}
	if err := later.TimePasses(ctx); err != nil { // its costs no longer hold
		t.Fatal(err)
	}
	if later = open(late, Options{Twin: cpu(0), Tuning: later.Tuning()}); later.twin == nil {
		t.Error("where the stored costs did not hold, the next session does not compare again")
	}
	if r := DefaultRequest(); later.measuredFor(later.knownCosts(), r.Config()) {
		t.Error("the costs of the draft beside the target are taken for those of its twin")
	}
	s = open(0, Options{Twin: func(context.Context) (webgpu.Device, error) { return nil, errors.New("no device") }})
	if err := s.TimePasses(ctx); err != nil || s.twin != nil {
		t.Errorf("without a device for it there is a twin %+v, %v", s.twin, err)
	}
	s = open(0, Options{Twin: cpu(0), DraftDevice: slow{s.dev, 0}})
	if err := s.TimePasses(ctx); err != nil || s.twin != nil {
		t.Errorf("a draft with a device of its own has a twin %+v, %v", s.twin, err)
	}
	large, err := Open(ctx, s.dev, demo.Target(), demo.Target(), Options{Context: 256, Twin: cpu(0)})
	if err != nil {
		t.Fatal(err)
	}
	defer large.Close()
	if err := large.TimePasses(ctx); err != nil || large.twin != nil {
		t.Errorf("a draft as large as the target has a twin %+v, %v", large.twin, err)
	}
}

// TestLostTwin loses the twin's device, which cannot be opened again: between requests auto goes on with the draft
// beside the target, and a request that meets the loss fails, but not the next one.
func TestLostTwin(t *testing.T) {
	ctx := context.Background()
	reopen := func(context.Context) (webgpu.Device, error) { return simd.Open(simd.Options{}) }
	for name, o := range map[string]Options{"lost for good": {}, "reopened": {Reopen: reopen},
		"plain decoding": {Reopen: reopen}} {
		for _, during := range []bool{false, true} {
			opened := 0
			o.Context, o.Twin = 256, func(ctx context.Context) (webgpu.Device, error) {
				if opened++; opened > 1 {
					return nil, webgpu.ErrUnavailable
				}
				return reopen(ctx)
			}
			dev, err := reopen(ctx)
			if err != nil {
				t.Fatal(err)
			}
			defer dev.Destroy()
			s, err := Open(ctx, dev, demo.Target(), demo.Draft(), o)
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			s.sooner, s.timed, s.costs, s.guessed = twinSooner, true, goodput.NewCosts(), patience
			lose := func(*Event) error {
				if s.twin != nil {
					s.twin.dev.Destroy()
				}
				return nil
			}
			auto := Request{Policy: method.DrafterAuto, MaxTokens: 32}
			lost := 0
			if o.Reopen != nil {
				lost = 1
			}
			switch {
			case !during:
				_ = lose(nil)
			case name == "plain decoding":
				if _, err := s.Generate(ctx, "func main() {", Request{Policy: method.DrafterNone, MaxTokens: 32},
					lose); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			default:
				if _, err := s.Generate(ctx, "func main() {", auto, lose); !errors.Is(err, webgpu.ErrDeviceLost) ||
					s.Losses() != lost {
					t.Errorf("%s, during a request: %v after %d losses", name, err, s.Losses())
				}
			}
			want, err := s.Generate(ctx, "func main() {", Request{Policy: method.DrafterNone, MaxTokens: 32}, nil)
			if err != nil {
				t.Fatal(err)
			}
			got, err := s.Generate(ctx, "func main() {", auto, nil)
			if err != nil || !slices.Equal(got.TokenIDs, want.TokenIDs) || got.Stats.Accepted == 0 {
				t.Errorf("%s, during a request: %t: the next one: %v", name, during, err)
			}
			if s.twin != nil || s.Info().Twin != nil {
				t.Errorf("%s, during a request: %t: the twin is still there", name, during)
			}
		}
	}
}
