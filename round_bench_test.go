package foretoken

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"foretoken/models/demo"
	"foretoken/models/gguf"
	"foretoken/spec"
	"foretoken/webgpu"
	"foretoken/webgpu/open"
)

// openPair opens the built-in pair, with its calibrations, on a kind of device, or skips.
func openPair(t testing.TB, kind string, target, draft gguf.Source, o Options) *Session {
	t.Helper()
	dev, _, err := open.Device(context.Background(), kind)
	if err != nil {
		if os.Getenv("FORETOKEN_REQUIRE_GPU") != "" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	t.Cleanup(dev.Destroy)
	var fitted Calibrations
	for _, f := range demo.Calibrations() {
		if err := fitted.Parse(f.Name, f.Data); err != nil {
			t.Fatal(err)
		}
	}
	o.Calibrations = &fitted
	s, err := Open(context.Background(), dev, target, draft, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// pairSession opens the built-in pair and its head from the repository's files, in the browser too.
func pairSession(t testing.TB) *Session {
	t.Helper()
	return openPair(t, open.Accelerator, demoFile(t, demo.TargetName), demoFile(t, demo.DraftName),
		Options{EAGLE3: demoFile(t, demo.HeadName), EAGLE3Config: demoFile(t, demo.ConfigName)})
}

// demoFile is one of the built-in pair's files in the repository.
func demoFile(t testing.TB, name string) gguf.Source {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("models", name))
	if err != nil {
		t.Fatal(err)
	}
	return gguf.FromBytes(name, data)
}

// roundMethods are ways to decode of which rounds are counted and timed. runs is how many submits, and how many readbacks, a round takes
// at most: one where the draft does not depend on what was drafted; one more where a policy looks at it, and
// one more again for a chain that came further than the last ones, or a tree that HeteroSpec makes deeper; one a level where auto
// asks for each, whose draft may have to catch up besides.
var roundMethods = []struct {
	name string
	runs int
	r    Request
}{
	{"plain", 1, Request{Policy: spec.DrafterNone}},
	{"ngram", 1, Request{Policy: spec.DrafterNgram}},
	{"chain", 1, Request{Policy: spec.DrafterChain, Depth: 3}},
	{"chain-coupled", 1, Request{Policy: spec.DrafterChain, Depth: 3, Temperature: 0.8, Seed: 3}},
	{"chain-rejection", 1, Request{Policy: spec.DrafterChain, Depth: 3, Verifier: spec.VerifierRejection, Temperature: 0.8, Seed: 3}},
	{"chain-rejection-greedy", 1, Request{Policy: spec.DrafterChain, Depth: 3, Verifier: spec.VerifierRejection}},
	{"chain-adasd", 1, Request{Policy: spec.DrafterChain, Depth: 3, Verifier: spec.VerifierAdaSD}},
	{"eagle2", 1, Request{Policy: spec.DrafterEAGLE2, Depth: 3, TopK: 4, Nodes: 12}},
	{"static", 1, Request{Policy: spec.DrafterStatic, Shape: [][]int{{3}, {2, 1}, {1, 1}}}},
	{"sampled", 1, Request{Policy: spec.DrafterSampled, Verifier: spec.VerifierWithoutReplacement, Shape: [][]int{{3}, {2, 1}, {1, 1}}, Temperature: 0.8, Seed: 3}},
	{"sampled-greedy", 1, Request{Policy: spec.DrafterSampled, Verifier: spec.VerifierWithoutReplacement, Shape: [][]int{{3}, {2, 1}, {1, 1}}}},
	{"sampled-match", 1, Request{Policy: spec.DrafterSampled, Verifier: spec.VerifierMatch, Shape: [][]int{{3}, {2, 1}, {1, 1}}, Temperature: 0.8, Seed: 3}},
	{"eagle3", 1, Request{Policy: "eagle3", Depth: 3, TopK: 4, Nodes: 12}},
	{"mars", 1, Request{Policy: spec.VerifierMARS, Depth: 3, TopK: 4, Nodes: 12}},
	{"hetero", 3, Request{Policy: "hetero", Depth: 4, TopK: 4, Nodes: 16}},
	{"c2t", 2, Request{Policy: "c2t", Depth: 4, TopK: 4}},
	{"c2t-deep", 3, Request{Policy: "c2t", Depth: 9, TopK: 15}},
	{"c2t-chain", 2, Request{Policy: "c2t-chain", Depth: 4}},
	{"acceptance-chain", 2, Request{Policy: "acceptance-chain", Depth: 4}},
	{"adaedl", 2, Request{Policy: spec.AdaptAdaEDL, Depth: 4}},
	{"adaedl-long", 3, Request{Policy: spec.AdaptAdaEDL, Depth: 10}},
	{"assisted-long", 3, Request{Policy: spec.AdaptAssisted}},
	{"adasd-long", 3, Request{Policy: spec.AdaptAdaSD, Depth: 10}},
	{"c2t-chain-long", 3, Request{Policy: "c2t-chain", Depth: 10}},
	{"acceptance-chain-long", 3, Request{Policy: "acceptance-chain", Depth: 10}},
	{"assisted", 2, Request{Policy: spec.AdaptAssisted, Depth: 4, Knobs: spec.Knobs{Schedule: spec.ScheduleConstant}}},
	{"adasd", 2, Request{Policy: spec.AdaptAdaSD, Depth: 4}},
	{"auto", 10, Request{Policy: spec.DrafterAuto}},
}

const roundPrompt = "// Read reads a file and returns its lines.\nfunc Read(name string) ([]string, error) {\n"

// combinations are requests for every combination of drafter, source, policy, verifier and temperature that is legal, with the most
// submits, and readbacks, that a round of each may take. Chains that a rule ends, and trees that an acceptance head does, are of four levels, which are
// drafted whole.
func combinations(s *Session) map[string]roundLimit {
	all := map[string]roundLimit{}
	for _, drafter := range []string{spec.DrafterNone, spec.DrafterChain, spec.DrafterEAGLE2, spec.DrafterStatic, spec.DrafterSampled,
		spec.DrafterNgram, spec.DrafterNgramSimple, spec.DrafterNgramMap, spec.DrafterAuto} {
		for _, source := range []string{spec.SourceModel, spec.SourceEAGLE3} {
			for _, adapt := range []string{spec.AdaptFixed, spec.AdaptHetero, spec.AdaptC2T, spec.AdaptAcceptance, spec.AdaptAdaEDL, spec.AdaptAssisted, spec.AdaptAdaSD} {
				for _, verifier := range []string{spec.VerifierMatch, spec.VerifierRejection, spec.VerifierWithoutReplacement, spec.VerifierMARS, spec.VerifierAdaSD} {
					for _, temperature := range []float64{0, 0.8} {
						r := Request{Policy: drafter, Source: source, Adapt: adapt, Verifier: verifier, Temperature: temperature, Seed: 3}
						switch {
						case drafter == spec.DrafterEAGLE2 && adapt == spec.AdaptAcceptance:
							r.Depth, r.TopK, r.Nodes = 3, 4, 16
						case drafter == spec.DrafterEAGLE2: // for which there are calibrations
							r.Depth, r.TopK, r.Nodes = 4, 4, 16
						case drafter == spec.DrafterChain:
							r.Depth, r.Knobs = 4, spec.Knobs{Schedule: spec.ScheduleConstant}
						case drafter == spec.DrafterStatic || drafter == spec.DrafterSampled:
							r.Shape = [][]int{{3}, {2, 1}, {1, 1}}
						}
						uses := spec.Config{Drafter: drafter}.UsesDraftModel()
						if r.Validate() != nil || source == spec.SourceEAGLE3 && !uses {
							continue
						}
						if source == spec.SourceEAGLE3 {
							if adapt == spec.AdaptHetero || adapt == spec.AdaptAcceptance {
								continue // fitted to a draft, and there are none for the head; what they ask for is what they ask of a draft
							}
							r.Aids.C2T = s.fitted.C2T // it was trained for the draft, and says something of the head's candidates too
						}
						limit := roundLimit{r: r, runs: 1}
						switch {
						case drafter == spec.DrafterAuto:
							// It asks for a level more wherever that is expected to bring more than the trip that was measured, and its draft may have to catch up.
							limit.runs = 10
						case adapt == spec.AdaptHetero:
							limit.runs = 3 // the base tree, what makes it deeper where its entropy says so, the target
						case adapt != spec.AdaptFixed && uses:
							limit.runs = 2 // the policy looks at the draft before the target does
						}
						all[fmt.Sprintf("%s/%s/%s/%s at %g", drafter, source, adapt, verifier, temperature)] = limit
					}
				}
			}
		}
	}
	return all
}

// roundLimit is a request and how many submits, and readbacks, a round of it takes at most.
type roundLimit struct {
	r    Request
	runs int
}

// TestRoundTrips: what a round asks of the device. From the second round on nothing is made, and there are
// no more submits and readbacks than the method needs.
func TestRoundTrips(t *testing.T) {
	s := pairSession(t)
	all := combinations(s)
	if len(all) < 80 {
		t.Fatalf("%d combinations", len(all))
	}
	for _, m := range roundMethods {
		all[m.name] = roundLimit{m.r, m.runs}
	}
	guided := all["static"]
	guided.runs, guided.r.Constraints = 2, Constraints{FrequencyPenalty: 0.1} // its draft is needed to say what the penalties are
	all["static tree under penalties"] = guided
	for name, m := range all {
		m.r.MaxTokens = 8
		var last webgpu.Counters
		n := 0
		_, err := s.Generate(context.Background(), roundPrompt, m.r, func(e *Event) error {
			if len(e.Tokens) == 0 {
				return nil
			}
			one := since(s.dev, last)
			last = s.dev.Counters()
			made := one.Buffers + one.Kernels + one.Programs
			if n++; n > 1 && (one.Submits > m.runs || one.Reads > m.runs || made > 0) {
				t.Errorf("%s, round %d: %+v, want %d submits and readbacks at most, and nothing made", name, n, one, m.runs)
			}
			return nil
		})
		if err != nil || n < 2 {
			t.Errorf("%s: %d rounds, %v", name, n, err)
		}
	}
	t.Logf("%d combinations", len(all))
}

// BenchmarkRound decodes with the built-in pair and tells what a round costs beside the
// device's own time: submits, readbacks, creations, bytes, and the host's milliseconds, which are
// the round's less those spent waiting for the device. The first rounds are left out.
func BenchmarkRound(b *testing.B) {
	s := pairSession(b)
	const skipped = 2
	for _, m := range roundMethods {
		b.Run(m.name, func(b *testing.B) {
			b.ReportAllocs()
			m.r.MaxTokens = 48
			var counted webgpu.Counters
			var took time.Duration
			rounds := 0
			for b.Loop() {
				var from, to webgpu.Counters
				var begin, end time.Time
				n := 0
				_, err := s.Generate(context.Background(), roundPrompt, m.r, func(e *Event) error {
					if n++; n == skipped {
						from, begin = s.dev.Counters(), time.Now()
					}
					to, end = s.dev.Counters(), time.Now()
					return nil
				})
				if err != nil {
					b.Fatal(err)
				}
				rounds += n - skipped
				took += end.Sub(begin)
				counted.Submits += to.Submits - from.Submits
				counted.Reads += to.Reads - from.Reads
				counted.Buffers += to.Buffers - from.Buffers + to.Kernels - from.Kernels + to.Programs - from.Programs
				counted.BytesWritten += to.BytesWritten - from.BytesWritten
				counted.BytesRead += to.BytesRead - from.BytesRead
				counted.ReadWait += to.ReadWait - from.ReadWait
			}
			per := func(v float64, unit string) { b.ReportMetric(v/float64(rounds), unit+"/round") }
			per(float64(counted.Submits), "submits")
			per(float64(counted.Reads), "reads")
			per(float64(counted.Buffers), "made")
			per(float64(counted.BytesWritten), "B-in")
			per(float64(counted.BytesRead), "B-out")
			per(float64(took)/1e6, "ms")
			per(float64(took-counted.ReadWait)/1e6, "host-ms")
		})
	}
}
