package foretoken

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"foretoken/internal/files"
	"foretoken/models/demo"
	"foretoken/spec/method"
	"foretoken/webgpu"
	"foretoken/webgpu/kernels/kerneltest"
)

// openPair opens the built-in pair with its calibrations on a device.
func openPair(t testing.TB, dev webgpu.Device, target, draft files.Source, o Options) *Session {
	t.Helper()
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
func pairSession(t testing.TB, dev webgpu.Device) *Session {
	t.Helper()
	return openPair(t, dev, demoFile(t, demo.TargetName), demoFile(t, demo.DraftName),
		Options{EAGLE3: demoFile(t, demo.HeadName), EAGLE3Config: demoFile(t, demo.ConfigName)})
}

// demoFile opens one of the built-in pair's files in the repository.
func demoFile(t testing.TB, name string) files.Source {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("models", name))
	if err != nil {
		t.Fatal(err)
	}
	return files.FromBytes(name, data)
}

// roundMethods are the methods whose rounds are counted and timed. runs is the maximum number of submits, and of
// readbacks, per round: one if the round does not depend on the drafted tokens; one more if a policy inspects the
// draft; one more again for a chain longer than the last ones, or a tree that HeteroSpec deepens. Auto takes one
// per level it asks for, and its draft may have to catch up.
var roundMethods = []struct {
	name string
	runs int
	r    Request
}{
	{"plain", 1, Request{Policy: method.DrafterNone}},
	{"ngram", 1, Request{Policy: method.DrafterNgram}},
	{"chain", 1, Request{Policy: method.DrafterChain, Depth: 3}},
	{"chain-coupled", 1, Request{Policy: method.DrafterChain, Depth: 3, Temperature: 0.8, Seed: 3}},
	{"chain-rejection", 1, Request{Policy: method.DrafterChain, Depth: 3, Verifier: method.VerifierRejection,
		Temperature: 0.8, Seed: 3}},
	{"chain-rejection-greedy", 1, Request{Policy: method.DrafterChain, Depth: 3, Verifier: method.VerifierRejection}},
	{"chain-adasd", 1, Request{Policy: method.DrafterChain, Depth: 3, Verifier: method.VerifierAdaSD}},
	{"eagle2", 1, Request{Policy: method.DrafterEAGLE2, Depth: 3, TopK: 4, Nodes: 12}},
	{"static", 1, Request{Policy: method.DrafterStatic, Shape: [][]int{{3}, {2, 1}, {1, 1}}}},
	{"sampled", 1, Request{Policy: method.DrafterSampled, Verifier: method.VerifierWithoutReplacement,
		Shape: [][]int{{3}, {2, 1}, {1, 1}}, Temperature: 0.8, Seed: 3}},
	{"sampled-greedy", 1, Request{Policy: method.DrafterSampled, Verifier: method.VerifierWithoutReplacement,
		Shape: [][]int{{3}, {2, 1}, {1, 1}}}},
	{"sampled-match", 1, Request{Policy: method.DrafterSampled, Verifier: method.VerifierMatch,
		Shape: [][]int{{3}, {2, 1}, {1, 1}}, Temperature: 0.8, Seed: 3}},
	{"eagle3", 1, Request{Policy: "eagle3", Depth: 3, TopK: 4, Nodes: 12}},
	{"mars", 1, Request{Policy: method.VerifierMARS, Depth: 3, TopK: 4, Nodes: 12}},
	{"hetero", 3, Request{Policy: "hetero", Depth: 4, TopK: 4, Nodes: 16}},
	{"c2t", 2, Request{Policy: "c2t", Depth: 4, TopK: 4}},
	{"c2t-deep", 3, Request{Policy: "c2t", Depth: 9, TopK: 15}},
	{"c2t-chain", 2, Request{Policy: "c2t-chain", Depth: 4}},
	{"acceptance-chain", 2, Request{Policy: "acceptance-chain", Depth: 4}},
	{"adaedl", 2, Request{Policy: method.AdaptAdaEDL, Depth: 4}},
	{"adaedl-tree", 3, Request{Policy: method.DrafterEAGLE2, Adapt: method.AdaptAdaEDL, Depth: 5, TopK: 4, Nodes: 16}},
	{"adaedl-long", 3, Request{Policy: method.AdaptAdaEDL, Depth: 10}},
	{"assisted-long", 3, Request{Policy: method.AdaptAssisted}},
	{"adasd-long", 3, Request{Policy: method.AdaptAdaSD, Depth: 10}},
	{"c2t-chain-long", 3, Request{Policy: "c2t-chain", Depth: 10}},
	{"acceptance-chain-long", 3, Request{Policy: "acceptance-chain", Depth: 10}},
	{"assisted", 2, Request{Policy: method.AdaptAssisted, Depth: 4,
		Settings: method.Settings{Schedule: method.ScheduleConstant}}},
	{"adasd", 2, Request{Policy: method.AdaptAdaSD, Depth: 4}},
	{"auto", 10, Request{Policy: method.DrafterAuto}},
}

const roundPrompt = "// Read reads a file and returns its lines.\nfunc Read(name string) ([]string, error) {\n"

// BenchmarkRound decodes with the built-in pair and reports the costs of a round besides the device's time:
// submits, readbacks, created objects, bytes, and the host's milliseconds, which exclude waiting for the device. It
// leaves out the first rounds.
func BenchmarkRound(b *testing.B) {
	s := pairSession(b, kerneltest.OwnAccelerator(b))
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
						from, begin = s.pair.Device.Counters(), time.Now()
					}
					to, end = s.pair.Device.Counters(), time.Now()
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
