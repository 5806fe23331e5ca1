//go:build !js

package foretoken

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"foretoken/models/demo"
	"foretoken/spec/goodput"
	"foretoken/spec/method"
	"foretoken/webgpu"
	"foretoken/webgpu/faults"
	"foretoken/webgpu/kernels/kerneltest"
	"foretoken/webgpu/open"
	"foretoken/webgpu/simd"
)

// TestDraftDevice decodes with the built-in pair, target and draft on devices of different kinds: the tokens are those
// of plain decoding, and some drafts of the methods that run ahead are hidden behind the target's passes.
func TestDraftDevice(t *testing.T) {
	ctx, dev, cpu := context.Background(), deviceOf(t, open.Accelerator), kerneltest.CPU(t)
	o := Options{Context: 256, DraftDevice: cpu}
	plan, err := Plan(demo.Target(), demo.Draft(), o, dev.Info().Limits)
	if err != nil {
		t.Fatal(err)
	}
	s := openPair(t, dev, demo.Target(), demo.Draft(), o)
	info := s.Info()
	if info.DraftDevice == nil || info.DraftDevice.Backend != "cpu" || info.Device.Backend != open.Accelerator {
		t.Fatalf("draft on %+v, target on %+v", info.DraftDevice, info.Device)
	}
	if info.GPUByte != plan.Total || plan.Total != plan.Target.Total() || !plan.Apart ||
		info.Draft.GPUBytes != plan.Draft.Total() || !strings.Contains(plan.String(), "on its own device") {
		t.Errorf("%d and %d bytes, planned %+v", info.GPUByte, info.Draft.GPUBytes, plan)
	}
	const prompt = "package main\n\nimport \"fmt\"\n\nfunc main() {\n\tfor i := 0; i < 10; i++ {\n"
	used := 0
	for _, sampling := range []Request{{}, {Temperature: 0.8, Seed: 7}} {
		sampling.MaxTokens = 32
		plain := sampling
		plain.Policy = method.DrafterNone
		want, err := s.Generate(ctx, prompt, plain, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, way := range []struct {
			Request
			ahead bool
		}{
			{Request{Policy: method.DrafterChain, Depth: 3}, true},
			{Request{Policy: method.DrafterEAGLE2, Depth: 4, TopK: 4, Nodes: 16}, true},
			{Request{Policy: "assisted"}, true},
			{Request{Policy: method.DrafterAuto}, false}, // it may find that no draft pays
			{Request{Policy: method.DrafterStatic}, false},
			{Request{Policy: "c2t"}, false},
		} {
			r := way.Request
			r.MaxTokens, r.Temperature, r.Seed = sampling.MaxTokens, sampling.Temperature, sampling.Seed
			got, err := s.Generate(ctx, prompt, r, func(e *Event) error {
				if e.Round.Joint {
					t.Errorf("%s: draft and verification were one run", r.Policy)
				}
				return nil
			})
			if err != nil {
				t.Fatalf("%s: %v", r.Policy, err)
			}
			if !slices.Equal(got.TokenIDs, want.TokenIDs) {
				t.Errorf("%s at T=%v: %q, plain decoding gives %q", r.Policy, r.Temperature, got.Text, want.Text)
			}
			hits, misses := got.Stats.AheadHits, got.Stats.AheadMisses
			used += hits
			if n := hits + misses; way.ahead && n == 0 || n >= got.Stats.Rounds {
				t.Errorf("%s: %d hits and %d misses in %d rounds", r.Policy, hits, misses, got.Stats.Rounds)
			}
			text, err := json.Marshal(got.Stats)
			if err != nil || strings.Contains(string(text), `"ahead_hits":`) != (hits > 0) {
				t.Errorf("%s, %v", text, err)
			}
			t.Logf("%s at T=%v: %d hits, %d misses in %d rounds", r.Policy, r.Temperature, hits, misses,
				got.Stats.Rounds)
		}
	}
	if used == 0 {
		t.Error("no draft was ready when it was asked for")
	}
	for _, r := range []Request{
		{Policy: method.DrafterChain, Verifier: method.VerifierRejection, Temperature: 1},
		{Policy: method.DrafterSampled, Verifier: method.VerifierWithoutReplacement, Temperature: 1},
		{Policy: "adasd"},
	} {
		r.MaxTokens = 4
		_, err := s.Generate(ctx, prompt, r, nil)
		if !errors.Is(err, ErrRequest) || !strings.Contains(err.Error(), "needs the draft on the target's device") {
			t.Errorf("%s: %v", r.Policy, err)
		}
	}
}

// TestLostDraftDevice loses either device at some of its calls while it drafts and verifies. Both are opened again, and
// the text goes on. A twin's device is no other.
func TestLostDraftDevice(t *testing.T) {
	ctx := context.Background()
	for _, use := range []string{"chain", "tree, sampled", "auto", "auto with a twin"} {
		use, twin := strings.CutSuffix(use, " with a twin")
		var want string
		var calls, loading [2]int
		run := func(which, at int) (losses int) {
			var plans [2]*faults.Plan
			for i := range plans {
				plans[i] = &faults.Plan{At: func(n int, _ faults.Call, _ string) faults.Fault {
					if i == which && n == at {
						return faults.Lost
					}
					return faults.None
				}}
			}
			open := func(i int) func(context.Context) (webgpu.Device, error) {
				return func(context.Context) (webgpu.Device, error) {
					dev, err := simd.Open(simd.Options{})
					if err != nil {
						return nil, err
					}
					return faults.New(dev, plans[i]), nil
				}
			}
			o := Options{Context: 96, Reopen: open(0), Lost: func(l Loss) { losses++ }}
			var devices [2]webgpu.Device
			for i := range devices {
				if twin && i == 1 {
					o.Twin = open(1)
					break
				}
				dev, err := open(i)(ctx)
				if err != nil {
					t.Fatal(err)
				}
				defer dev.Destroy()
				devices[i] = dev
			}
			if !twin {
				o.DraftDevice, o.ReopenDraft = devices[1], open(1)
			}
			s, err := Open(ctx, devices[0], edited(t, "tiny-q8_0", nil), edited(t, "tiny-q4_0", nil), o)
			if err != nil {
				t.Fatal(err)
			}
			if twin {
				s.sooner, s.timed, s.costs = twinSooner, true, goodput.NewCosts()
			}
			for i := range plans {
				loading[i] = plans[i].Calls()
			}
			got, err := uses[use](s)
			if err != nil || want != "" && got != want {
				t.Fatalf("%s, device %d lost at call %d: %q, %v, without a loss %q", use, which, at, got, err, want)
			}
			if s.Close(); plans[0].Live()+plans[1].Live() != 0 {
				t.Fatalf("%s: buffers and programs are left", use)
			}
			if at < 0 {
				want = got
				for i := range plans {
					calls[i] = plans[i].Calls()
				}
			}
			return losses
		}
		run(-1, -1)
		begun, lost := loading, 0
		for which := range calls {
			for _, at := range chosen(begun[which], calls[which], 4) {
				switch run(which, at) {
				case 0: // times decide how much auto drafts
				case 2:
					lost++
				default:
					t.Errorf("%s, device %d at call %d: not one loss and one recovery", use, which, at)
				}
			}
		}
		if lost < 3 {
			t.Errorf("%s: %d losses", use, lost)
		}
	}
}

// TestLeanDraftDevice decodes with auto from the first token of a lean session on, whose draft has its own device.
func TestLeanDraftDevice(t *testing.T) {
	s := openPair(t, deviceOf(t, open.Accelerator), demo.Target(), demo.Draft(),
		Options{Context: 256, Lean: true, DraftDevice: kerneltest.CPU(t)})
	r := DefaultRequest()
	plain := r
	plain.Policy = method.DrafterNone
	const prompt = "func main() {\n"
	got, err := s.Generate(context.Background(), prompt, r, nil)
	if err != nil {
		t.Fatal(err)
	}
	want, err := s.Generate(context.Background(), prompt, plain, nil)
	if err != nil || got.Text != want.Text {
		t.Errorf("%q, plain decoding gives %q, %v", got.Text, want.Text, err)
	}
	if err := s.Warm(context.Background()); err != nil {
		t.Error(err)
	}
}
