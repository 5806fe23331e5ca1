package runner

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"foretoken/models/gguf"
	"foretoken/models/graph"
	"foretoken/models/modeltest"
	"foretoken/models/tune"
	"foretoken/spec"
	"foretoken/webgpu"
	"foretoken/webgpu/kernels"
	"foretoken/webgpu/kernels/kerneltest"
	"foretoken/webgpu/kernels/matmul"
)

// testModel opens a test model, or skips where third-party data that it is made of is missing.
func testModel(t *testing.T, name string) *gguf.File {
	t.Helper()
	return modeltest.File(t, name)
}

var (
	full        = kerneltest.Full
	onDevices   = kerneltest.ModelOnDevices
	accelerator = kerneltest.Accelerator
)

// oracles lists the models with a reference run: random weights in every architecture, run by llama.cpp, and in every
// storage type, run by numpy, and models made of stories260K's weights where those are available.
var oracles = append(modeltest.Oracles(), "s260k-q8_0", "x3m-f16", "x3m-q6_k", "x3m-q4_k")

// cached lists the models that run with every format of the KV cache: one for each size of heads.
var cached = map[string]bool{"tiny-q8_0": true, "mistral3-f16": true, "qwen3-q8_0": true, "s260k-q8_0": true,
	"x3m-q6_k": true}

// parity bounds the error of a log-probability for each KV format, in nats. With f32 only the order of additions
// differs. q8 errs by up to 1/254 of a block's largest element, f16 by up to 1/4096 of each element, so q8 may be
// off sixteen times as far, and further in blocks with outliers. The sharp attention of stories260K makes single
// tokens err most; overall bounds the mean.
var parity = map[kernels.KVFormat]float64{kernels.KVF32: 5e-3, kernels.KVF16: 5e-2, kernels.KVQ8: 2}

// rounded bounds the root mean square of these errors with f32 caches on the cpu device and of packed products, which
// round activations to 16 bits.
const rounded = 1e-3

// overall bounds it elsewhere.
var overall = map[kernels.KVFormat]float64{kernels.KVF32: 1e-4, kernels.KVF16: 1e-2, kernels.KVQ8: 0.3}

// unrounded bounds the error where weights, keys, values and activations are floats of 32 bits.
const unrounded = 1e-4

// roundedKeys lists models with one step beyond parity for an f16 cache. The reference with its own keys and values
// rounded to f16 differs from itself by 0.052 nats there.
var roundedKeys = map[string]float64{"x3m-q6_k": 5.5e-2}

// inBrowser lists the models of short runs: the most common storage types, and what a graph has in one architecture and
// not in others. The tests of the kernels compile those of all types in a browser, and native runs record all graphs.
var inBrowser = map[string]bool{"tiny-q8_0": true, "qwen3-q4_k": true, "granite-f32": true, "s260k-q8_0": true}

// TestOracle compares models with log-probabilities of independent implementations. The weights of the x3m
// models come from a QR decomposition whose last bits depend on the machine, and quantisation amplifies some of them to
// steps. Those models are compared with the reference run again on the generated file, with the distance between the
// two references as additional tolerance.
func TestOracle(t *testing.T) {
	onDevices(t, func(t *testing.T, dev webgpu.Device) {
		for _, name := range oracles {
			if testing.Short() && !inBrowser[name] && !full() {
				continue
			}
			t.Run(name, func(t *testing.T) {
				for _, kv := range []kernels.KVFormat{kernels.KVF32, kernels.KVF16, kernels.KVQ8} {
					if kv != kernels.KVF32 && !cached[name] && !full() {
						continue
					}
					worst, mean, steps := testOracle(t, dev, name, kv)
					t.Attr(kv.String(), fmt.Sprintf("%.2g", worst))
					t.Logf("%s: worst %.1e, mean %.0e nats over %d steps", kv, worst, mean, steps)
				}
			})
		}
	})
}

// TestPackedOracle compares models of each format that has packed products, where the device has them.
func TestPackedOracle(t *testing.T) {
	dev := accelerator(t)
	if !dev.Info().Has(matmul.DotProduct) {
		t.Skip("the device has no packed products")
	}
	for _, name := range []string{"s260k-q8_0", "llama-q4_0", "qwen3-q4_k", "qwen2-q6_k"} {
		if testing.Short() && name != "llama-q4_0" && !full() {
			continue
		}
		t.Run(name, func(t *testing.T) {
			choices := untimed(t, testModel(t, name), dev.Info().Features...)
			if !strings.Contains(fmt.Sprint(choices), "packed") {
				t.Fatal("no packed product is tested: ", choices)
			}
			worst, mean, steps := testOracle(t, dev, name, kernels.KVF32, dev.Info().Features...)
			t.Logf("worst %.1e, mean %.0e nats over %d steps", worst, mean, steps)
		})
	}
}

// rowsAtOnce returns how many rows of an oracle's tokens run through a model at once. Native devices compile
// kernels of many rows slowly, and the bits do not depend on the count: see TestLargeTrees.
func rowsAtOnce(dev webgpu.Device) int {
	switch {
	case testing.Short():
		return 16
	case full() || dev.Info().Host():
		return 48
	}
	return 8
}

// testOracle runs the reference's tokens on kernels of some features, with each prompt's continuation as chains, and
// returns the largest difference of a log-probability. Chains have the bits of plain decoding: see TestLargeTrees.
func testOracle(t *testing.T, dev webgpu.Device, name string, kv kernels.KVFormat, features ...string,
) (worst, mean float64, steps int) {
	ref, local := modeltest.Oracle(t, name)
	const gapThatDecides = 0.02 // nats between the reference's best two tokens
	tolerance, squares, compared := parity[kv], 0.0, 0
	switch {
	case kv == kernels.KVF32 && strings.HasSuffix(name, "-f32"):
		tolerance = unrounded
	case kv == kernels.KVF16:
		tolerance = max(tolerance, roundedKeys[name])
	}
	f, most, rows := testModel(t, name), 48, rowsAtOnce(dev)
	if testing.Short() {
		most = 16
	}
	m, err := LoadTarget(context.Background(), dev, f, graph.Options{KV: kv, TopK: 10, MaxRows: rows,
		Tuning: untimed(t, f, features...)})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	sparse, wrong := promptStride(dev, name, kv), ""
	blame := func(format string, args ...any) {
		if wrong == "" {
			wrong = fmt.Sprintf(format, args...)
		}
	}
	for i, r := range ref.Results {
		if len(r.IDs) == 0 || i%sparse != 0 {
			continue
		}
		restartBy(t, m, r.IDs[:len(r.IDs)-1], rows)
		r.Top = r.Top[:min(len(r.Top), most)]
		inputs := slices.Concat(r.IDs[len(r.IDs)-1:], r.Cont[:len(r.Top)-1])
		var outputs []spec.NodeOutput
		for step, want := range r.Top {
			if step%rows == 0 {
				outputs = verifyChain(t, m, inputs[step:min(step+rows, len(inputs))])
			}
			out, got := outputs[step%rows], map[int32]float64{}
			for k, id := range out.TopIDs {
				got[id] = float64(out.TopLogits[k] - out.LogSumExp)
			}
			gap := want[0][1] - want[1][1]
			decides := gapThatDecides
			if kv != kernels.KVF32 {
				decides = 2 * tolerance
			}
			if id := int32(want[0][0]); gap > decides && out.Token != id {
				blame("KV %s, %q step %d: token %d, reference says %d by %g nats", kv, r.Prompt, step, out.Token, id,
					gap)
			}
			again := map[int32]float64{}
			for _, w := range local.Results[i].Top[step] {
				again[int32(w[0])] = w[1]
			}
			for k, w := range want[:8] { // the ninth and tenth may swap places with the eleventh
				here, same := again[int32(w[0])]
				lp, ok := got[int32(w[0])]
				if !ok || !same {
					if w[1]-want[9][1] > 2*tolerance+math.Abs(here-w[1]) {
						blame("KV %s, %q step %d: token %g of rank %d is not among the ten best", kv, r.Prompt, step,
							w[0], k)
					}
					continue
				}
				worst = math.Max(worst, math.Abs(lp-here))
				squares, compared = squares+(lp-here)*(lp-here), compared+1
				if math.Abs(lp-here) > tolerance || math.Abs(lp-w[1]) > tolerance+math.Abs(here-w[1]) {
					blame("KV %s, %q step %d: log-probability of %g is %g, the reference says %g, "+
						"run on this machine %g", kv, r.Prompt, step, w[0], lp, w[1], here)
				}
			}
			steps++
		}
	}
	if wrong != "" {
		t.Error(wrong)
	}
	mean = math.Sqrt(squares / float64(compared))
	allowed, rounds := overall[kv], dev.Info().Backend == "cpu"
	for _, family := range m.Graph.Kernels.Choices() {
		rounds = rounds || strings.Contains(family, "packed")
	}
	if rounds {
		allowed = max(allowed, rounded)
	}
	if mean > allowed {
		t.Errorf("KV %s: %.2g nats off, root mean square", kv, mean)
	}
	return worst, mean, steps
}

// verifyChain runs tokens as one chain and commits them.
func verifyChain(t *testing.T, m *Target, tokens []int32) []spec.NodeOutput {
	t.Helper()
	chain, path := node(tokens[0]), []int32{0}
	for i, token := range tokens[1:] {
		chain.Tokens, chain.Parents = append(chain.Tokens, token), append(chain.Parents, int32(i))
		chain.Depths, chain.Scores = append(chain.Depths, int32(i+1)), append(chain.Scores, 0)
		path = append(path, int32(i+1))
	}
	outputs, err := verify(m, chain, spec.Sampling{})
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Commit(path); err != nil {
		t.Fatal(err)
	}
	return outputs
}

// untimed returns a choice of kernels for each of a model's matrices that needs no timing. Other tests cover
// timing, which is slow on devices that compile slowly. It takes packed products if the features allow it.
func untimed(t *testing.T, f *gguf.File, features ...string) map[string]string {
	t.Helper()
	m, _, err := graph.Load(context.Background(), graph.NewLedger(webgpu.DefaultLimits()), f, graph.Options{})
	if err != nil {
		t.Fatal(err)
	}
	info := m.Dev.Info()
	info.Features = features
	tuning := map[string]string{"rows": fmt.Sprint(int(kernels.Serial))}
	for _, matrix := range m.Matrices() {
		for _, w := range matrix.Weights {
			all := matmul.Families(info, w.Format)
			family := all[0]
			if last := all[len(all)-1]; last.Packed() {
				family = last
			}
			tuning[tune.Class(w)] = family.String()
		}
	}
	return tuning
}

// promptStride returns n to run every n-th prompt; FORETOKEN_FULL=1 runs all. On the cpu device, and in a browser,
// which tests its kernels separately, a few prompts are enough to find an error in a graph.
func promptStride(dev webgpu.Device, name string, kv kernels.KVFormat) int {
	switch {
	case full():
		return 1
	case kv != kernels.KVF32 && !strings.Contains(name, "-q8_0") && name != "x3m-q6_k":
		return 10
	case kv != kernels.KVF32 || testing.Short() || dev.Info().Host():
		return 5
	}
	return 4
}
