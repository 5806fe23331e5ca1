//go:build !js

package foretoken

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"testing"

	"foretoken/models/constrain"
	"foretoken/spec/adapt"
	"foretoken/spec/method"
	"foretoken/webgpu"
	"foretoken/webgpu/kernels/kerneltest"
)

// combinations returns requests for every legal combination of drafter, source, policy, verifier and temperature,
// with the maximum number of submits, and of readbacks, per round. Chains that a rule ends, and trees that an
// acceptance head or AdaEDL ends, have four levels, which one run drafts.
func combinations(s *Session) map[string]roundLimit {
	all := map[string]roundLimit{}
	for _, drafter := range []string{method.DrafterNone, method.DrafterChain, method.DrafterEAGLE2,
		method.DrafterStatic, method.DrafterSampled,
		method.DrafterNgram, method.DrafterNgramSimple, method.DrafterNgramMap, method.DrafterAuto} {
		for _, source := range []string{method.SourceModel, method.SourceEAGLE3} {
			for _, adapt := range []string{method.AdaptFixed, method.AdaptHetero, method.AdaptC2T,
				method.AdaptAcceptance, method.AdaptAdaEDL, method.AdaptAssisted, method.AdaptAdaSD} {
				for _, verifier := range []string{method.VerifierMatch, method.VerifierRejection,
					method.VerifierWithoutReplacement, method.VerifierMARS, method.VerifierAdaSD} {
					for _, temperature := range []float64{0, 0.8} {
						r := Request{Policy: drafter, Source: source, Adapt: adapt, Verifier: verifier,
							Temperature: temperature, Seed: 3}
						switch {
						case drafter == method.DrafterEAGLE2 &&
							(adapt == method.AdaptAcceptance || adapt == method.AdaptAdaEDL):
							r.Depth, r.TopK, r.Nodes = 3, 4, 16
						case drafter == method.DrafterEAGLE2: // the tree that has calibrations
							r.Depth, r.TopK, r.Nodes = 4, 4, 16
						case drafter == method.DrafterChain:
							r.Depth, r.Settings = 4, method.Settings{Schedule: method.ScheduleConstant}
						case drafter == method.DrafterStatic || drafter == method.DrafterSampled:
							r.Shape = [][]int{{3}, {2, 1}, {1, 1}}
						}
						uses := method.Config{Drafter: drafter}.UsesDraftModel()
						if r.Validate() != nil || source == method.SourceEAGLE3 && !uses {
							continue
						}
						if source == method.SourceEAGLE3 {
							if adapt == method.AdaptHetero {
								continue // the head has too few bins, and submits as a draft model does
							}
							// The classifier was trained for the draft model and applies to the head's candidates
							// too.
							r.Fitted.C2T = s.fitted.C2T
						}
						if adapt == method.AdaptAcceptance {
							r.Fitted.Head = headFor(s, &r)
						}
						limit := roundLimit{r: r, runs: 1}
						switch {
						case drafter == method.DrafterAuto:
							// Auto requests another level if its expected gain exceeds the measured round trip, and
							// its draft may have to catch up.
							limit.runs = 10
						case adapt == method.AdaptHetero:
							limit.runs = 3 // the base tree, its extension at low entropy, the target
						case adapt != method.AdaptFixed && uses:
							limit.runs = 2 // the policy inspects the draft before the target runs
						}
						all[fmt.Sprintf("%s/%s/%s/%s at %g", drafter, source, adapt, verifier, temperature)] = limit
					}
				}
			}
		}
	}
	return all
}

// headFor returns the session's acceptance head for what a request drafts with, labelled for how it verifies.
func headFor(s *Session, r *Request) *adapt.AcceptanceHead {
	use := r.Config().AcceptanceUse(r.Temperature)
	for _, h := range s.fitted.Heads {
		if head := *h; cmp.Or(head.Source, method.SourceModel) == cmp.Or(use.Source, method.SourceModel) {
			head.Label, head.Made.Temperature = use.Label, use.Temperature
			return &head
		}
	}
	return nil
}

// roundLimit is a request with the maximum number of submits, and of readbacks, per round.
type roundLimit struct {
	r    Request
	runs int
}

// countedSince returns the device's counts since last.
func countedSince(dev webgpu.Device, before webgpu.Counters) webgpu.Counters {
	c := dev.Counters()
	return webgpu.Counters{Buffers: c.Buffers - before.Buffers, Kernels: c.Kernels - before.Kernels,
		Programs: c.Programs - before.Programs,
		Submits:  c.Submits - before.Submits, Reads: c.Reads - before.Reads,
		BytesWritten: c.BytesWritten - before.BytesWritten, BytesRead: c.BytesRead - before.BytesRead,
		ReadWait: c.ReadWait - before.ReadWait}
}

// TestRoundTrips checks a round's use of the device: from the second round on it creates nothing and submits and
// reads back no more often than the method needs.
func TestRoundTrips(t *testing.T) {
	onCPU(t, func(t *testing.T, kind string) { roundTrips(t, pairSession(t, deviceOf(t, kind))) })
}

func roundTrips(t *testing.T, s *Session) {
	t.Helper()
	all := combinations(s)
	if len(all) < 80 {
		t.Fatalf("%d combinations", len(all))
	}
	for _, m := range roundMethods {
		all[m.name] = roundLimit{m.r, m.runs}
	}
	constrained := all["static"]
	// The penalties depend on the drafted tokens.
	constrained.runs, constrained.r.Constraints = 2, constrain.Constraints{FrequencyPenalty: 0.1}
	all["static tree under penalties"] = constrained
	for name, m := range all {
		m.r.MaxTokens = 8
		var last webgpu.Counters
		n := 0
		_, err := s.Generate(context.Background(), roundPrompt, m.r, func(e *Event) error {
			if len(e.Tokens) == 0 {
				return nil
			}
			one := countedSince(s.pair.Device, last)
			last = s.pair.Device.Counters()
			made := one.Buffers + one.Kernels + one.Programs
			if n++; n > 1 && (one.Submits > m.runs || one.Reads > m.runs || made > 0) {
				t.Errorf("%s, round %d: %+v, want %d submits and readbacks at most, and nothing made", name, n, one,
					m.runs)
			}
			return nil
		})
		if err != nil || n < 2 {
			t.Errorf("%s: %d rounds, %v", name, n, err)
		}
	}
	t.Logf("%d combinations", len(all))
}

// TestHeteroJoinsWhereFewRoundsAreLow counts the rounds that draft and verify in one submit. At temperature 1 few
// rounds of the fit are in low bins, so the base tree is verified with its draft, and again after an extension. At
// temperature 0 many are, and only trees that the end of the text cuts short are fixed beforehand.
func TestHeteroJoinsWhereFewRoundsAreLow(t *testing.T) {
	s := pairSession(t, kerneltest.CPU(t))
	for _, temperature := range []float64{0, 1} {
		bins, err := s.fitted.Hetero[1].Fit(temperature, temperature > 0)
		if err != nil {
			t.Fatal(err)
		}
		r := Request{Policy: "hetero", Depth: 4, TopK: 4, Nodes: 16, MaxTokens: 64, Temperature: temperature, Seed: 3}
		joint, low := 0, 0
		decoded, err := s.Generate(context.Background(), roundPrompt, r, func(e *Event) error {
			d := e.Round.Proposal
			if d == nil || d.Tree.Len() == 1 {
				return nil
			}
			inLow := d.Bin > 0 && d.Bin <= bins.Low()
			if want := !inLow && (temperature > 0 || d.Bin == 0); e.Round.Joint != want {
				t.Errorf("temperature %v, round %d, bin %d: joint is %v", temperature, e.Round.Round, d.Bin,
					e.Round.Joint)
			}
			if e.Round.Joint {
				joint++
			}
			if inLow {
				low++
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		r.Policy = method.DrafterNone
		plain, err := s.Generate(context.Background(), roundPrompt, r, nil)
		if err != nil || !slices.Equal(plain.TokenIDs, decoded.TokenIDs) || joint == 0 || low == 0 {
			t.Errorf("temperature %v: %d joint rounds, %d low ones, %v; plain decoding differs: %v", temperature, joint,
				low, err, !slices.Equal(plain.TokenIDs, decoded.TokenIDs))
		}
	}
}
