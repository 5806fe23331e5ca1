package runner

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"foretoken/models/convert"
	"foretoken/models/gguf"
	"foretoken/models/graph"
	"foretoken/models/safetensors"
	"foretoken/spec"
	"foretoken/spec/method"
	"foretoken/webgpu"
	"foretoken/webgpu/kernels"
	"foretoken/webgpu/kernels/attention"
	"foretoken/webgpu/kernels/kerneltest"
)

// TestPlanIsExact compares the plan with what loading allocates, to the byte.
func TestPlanIsExact(t *testing.T) {
	dev := kerneltest.Reference(t)
	files := map[string]*gguf.File{"windowed": newToy(func(t *toy) { t.window = 7 }).file(t),
		"biased": newToy(func(t *toy) { t.arch, t.bias, t.halfSplit, t.untied = "qwen2", true, true, true }).file(t)}
	for _, name := range []string{"tiny-q8_0", "qwen3-q8_0", "llama-q4_k", "llama-q6_k", "phi3-f32",
		"granite-q8_0", "olmo2-f16"} {
		files[name] = testModel(t, name)
	}
	for name, f := range files {
		for _, o := range []graph.Options{{}, {Context: 40, KV: kernels.KVF16, MaxRows: 1},
			{Context: 64, KV: kernels.KVQ8, MaxRows: 48, TopK: 10}, {Context: 33, MaxRows: 300, Vocab: 90}} {
			want, err := Plan(f, o, dev.Info().Limits)
			if err != nil {
				t.Fatal(err)
			}
			if want.Weights <= 0 || want.KV <= 0 || want.Workspace <= 0 ||
				want.Total() != want.Weights+want.KV+want.Workspace {
				t.Errorf("%s: %+v", name, want)
			}
			m, err := LoadTarget(background, dev, f, o)
			if err != nil {
				t.Fatal(err)
			}
			if got := m.Graph.Info(); got.GPUBytes != want.Total() || got.Context != want.Context {
				t.Errorf("%s %+v: loading a target took %d bytes, planned %d", name, o, got.GPUBytes, want.Total())
			}
			a := m.Graph.Arch.Layers[0].Mix
			h := kernels.Heads{KV: a.KV, Dim: a.Dim, Format: o.KV}
			if kv := int64(2 * 4 * len(m.Graph.Arch.Layers) * h.CacheWords(
				m.Graph.Options.Context+m.Graph.Options.Spare()+1)); kv != want.KV || want.Format != o.KV.String() {
				t.Errorf("%s %+v: KV %d in %s, want %d", name, o, want.KV, want.Format, kv)
			}
			m.Close()
			if o.MaxRows > graph.OnePassRows {
				continue
			}
			if want, err = PlanDraft(f, o, dev.Info().Limits); err != nil {
				t.Fatal(err)
			}
			d, err := LoadDraft(background, dev, f, o)
			if err != nil {
				t.Fatal(err)
			}
			if got := d.Graph.Info().GPUBytes; got != want.Total() {
				t.Errorf("%s %+v: loading a draft took %d bytes, planned %d", name, o, got, want.Total())
			}
			d.Close()
		}
	}
}

// TestPlanOnAccelerator does so on the build's own device, which has other limits and chunk sizes.
func TestPlanOnAccelerator(t *testing.T) {
	if testing.Short() {
		t.Skip("short: TestPlanIsExact covers the cpu device")
	}
	dev, f := accelerator(t), testModel(t, "tiny-q8_0")
	o := graph.Options{Context: 64, MaxRows: 4}
	want, err := Plan(f, o, dev.Info().Limits)
	if err != nil {
		t.Fatal(err)
	}
	if got := loadTarget(t, dev, "tiny-q8_0", o).Graph.Info().GPUBytes; got != want.Total() {
		t.Errorf("loading took %d bytes, planned %d", got, want.Total())
	}
}

// narrow is a device with small bindings.
type narrow struct {
	webgpu.Device
	most   int
	sizes  map[webgpu.Buffer]int
	labels map[string][]int // the sizes of the buffers of a label
}

func narrowed(dev webgpu.Device, most int) *narrow {
	return &narrow{dev, most, map[webgpu.Buffer]int{}, map[string][]int{}}
}

func (d *narrow) Info() webgpu.Info {
	i := d.Device.Info()
	i.Limits.MaxBindingSize, i.Limits.MaxBufferSize = d.most, 2*d.most
	return i
}

func (d *narrow) NewBuffer(label string, size int, usage webgpu.Usage) (webgpu.Buffer, error) {
	if usage == webgpu.Storage && size > 2*d.most {
		return 0, fmt.Errorf("narrow: %s has %d bytes of %d", label, size, 2*d.most)
	}
	b, err := d.Device.NewBuffer(label, size, usage)
	if usage == webgpu.Storage {
		d.sizes[b], d.labels[label] = size, append(d.labels[label], size)
	}
	return b, err
}

func (d *narrow) NewProgram(label string, dispatches []webgpu.Dispatch) (webgpu.Program, error) {
	for _, s := range dispatches {
		for i, b := range s.Bindings {
			size := b.Size
			if size == 0 {
				size = d.sizes[b.Buffer] - b.Offset
			}
			if d.sizes[b.Buffer] > 0 && size > d.most {
				return 0, fmt.Errorf("narrow: %s: binding %d has %d bytes of %d", label, i, size, d.most)
			}
		}
	}
	return d.Device.NewProgram(label, dispatches)
}

// TestNarrowBindings runs a model whose matrices, embedding and output included, are split into parts, and another
// whose scores are computed for some rows at a time: every logit has the same bits.
func TestNarrowBindings(t *testing.T) {
	if testing.Short() {
		t.Skip("short: bindings are split by the same code on every device")
	}
	onDevices(t, func(t *testing.T, dev webgpu.Device) {
		narrowBindings(t, dev, testModel(t, "qwen2-q8_0"), 200<<10,
			graph.Options{Context: 96, MaxRows: 16, TopK: 4},
			"token_embd.weight", "output.weight", "blk.0.ffn_gate.weight")
		toy := newToy(func(t *toy) { t.heads, t.kv, t.head, t.most, t.vocab = 16, 1, 32, 1024, 1000 })
		thin := narrowBindings(t, dev, toy.file(t), 180<<10, graph.Options{MaxRows: 16, TopK: 4}, "token_embd.weight")
		row := 4 * attention.Scratch(kernels.Heads{Query: 16, KV: 1, Dim: 32}, 1024, 1024)
		if rows := thin.Graph.Dev.(*narrow).labels["parts of attention"][0] / row; rows >= 16 {
			t.Errorf("the scores of %d rows are computed at a time", rows)
		}
	})
}

func narrowBindings(t *testing.T, dev webgpu.Device, f *gguf.File, most int, o graph.Options,
	parted ...string) *Target {
	t.Helper()
	o.Tuning = untimed(t, f)
	load := func(dev webgpu.Device) *Target {
		m, err := LoadTarget(background, dev, f, o)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(m.Close)
		return m
	}
	narrow := narrowed(dev, most)
	wide, thin := load(dev), load(narrow)
	for _, tensor := range parted {
		if parts := len(narrow.labels[tensor]); parts < 2 {
			t.Errorf("%s: matrix %s is in %d part", f.Name(), tensor, parts)
		}
	}
	prompt := make([]int32, 70)
	for i := range prompt {
		prompt[i] = int32(i * 37 % thin.Graph.Options.Vocab)
	}
	tree := node(500)
	for i := range int32(15) {
		tree.Tokens, tree.Parents = append(tree.Tokens, 30*i+7), append(tree.Parents, i/2)
		tree.Depths, tree.Scores = append(tree.Depths, tree.Depths[i/2]+1), append(tree.Scores, 0)
	}
	for _, m := range []*Target{wide, thin} {
		restart(t, m, prompt)
		if _, err := verify(m, tree, spec.Sampling{}); err != nil {
			t.Fatal(err)
		}
	}
	for row := range tree.Tokens {
		if a, b := wide.logitsOf(t, row), thin.logitsOf(t, row); !slices.Equal(a, b) {
			t.Fatalf("%s: row %d has other bits in parts", f.Name(), row)
		}
	}
	return thin
}

// TestTooLongContext plans a context longer than the model was trained for.
func TestTooLongContext(t *testing.T) {
	_, err := Plan(testModel(t, "tiny-q8_0"), graph.Options{Context: 4096}, webgpu.DefaultLimits())
	if err == nil || !strings.Contains(err.Error(), "trained for 2 to 512") {
		t.Fatalf("a context of 4096: %v", err)
	}
}

// TestTooLargeBuffers checks that a buffer beyond the device's limits fails with the numbers before anything is
// allocated, and that the context named in the error fits.
func TestTooLargeBuffers(t *testing.T) {
	inner := kerneltest.Reference(t)
	f := testModel(t, "qwen2-q8_0")
	load := func(most int, o graph.Options) error {
		dev := narrowed(inner, most)
		before := inner.Counters().Buffers
		m, err := LoadTarget(background, dev, f, o)
		if err == nil {
			m.Close()
		} else if inner.Counters().Buffers != before {
			t.Errorf("%d buffers were made before %v", inner.Counters().Buffers-before, err)
		}
		return err
	}
	const most = 256 << 10
	err := load(most, graph.Options{Context: 512, MaxRows: 1})
	found := regexp.MustCompile(`the keys of a layer for 512 positions in f32 would be a buffer of ` +
		`392\.5 KiB \(401920 bytes\); this device binds 256\.0 KiB \(262144 bytes\)`).FindString(fmt.Sprint(err))
	advice := regexp.MustCompile(`at most: at most (\d+) positions fit, or (\d+) in q8$`)
	numbers := advice.FindStringSubmatch(fmt.Sprint(err))
	if found == "" || numbers == nil {
		t.Fatal(err)
	}
	for i, kv := range []kernels.KVFormat{kernels.KVF32, kernels.KVQ8} {
		n, _ := strconv.Atoi(numbers[i+1])
		for n, want := range map[int]bool{n: true, n + 1: false} {
			if n > 512 {
				continue
			}
			if err := load(most, graph.Options{Context: n, MaxRows: 1, KV: kv}); (err == nil) != want {
				t.Errorf("%d positions in %s: %v", n, kv, err)
			}
		}
	}
	// The logits of 64 rows of 512 do not fit; those of 48 do.
	f = testModel(t, "tiny-q8_0")
	if err := load(128<<10-1, graph.Options{Context: 64, MaxRows: 64}); err == nil || !strings.Contains(err.Error(),
		"logits would be a buffer of 128.0 KiB (131072 bytes); this device takes 128.0 KiB (131071 bytes) at most") ||
		!strings.Contains(err.Error(), "trees of fewer than 64 nodes") {
		t.Error(err)
	}
	if err := load(128<<10-1, graph.Options{Context: 64, MaxRows: 48}); err != nil {
		t.Error(err)
	}
	// A row of a matrix cannot be split.
	if err := load(60, graph.Options{Context: 2, MaxRows: 1}); err == nil ||
		!strings.Contains(err.Error(), "a row of tensor token_embd.weight takes 64 bytes") {
		t.Error(err)
	}
}

// TestSpeculationOnArchitectures drafts with a model of an architecture for another of the same architecture: the
// tokens equal those of plain decoding.
func TestSpeculationOnArchitectures(t *testing.T) {
	if testing.Short() {
		t.Skip("short: other tests cover speculation, the oracles the architectures")
	}
	onDevices(t, func(t *testing.T, dev webgpu.Device) {
		tokens := 16
		for i, pair := range [][2]string{{"qwen2-f32", "qwen2-q8_0"}, {"qwen3-q8_0", "qwen3-q4_0"},
			{"phi3-q8_0", "phi3-q4_0"}, {"smollm3-f32", "smollm3-q8_0"}, {"granite-f32", "granite-q8_0"},
			{"olmo2-f16", "olmo2-q4_0"}} {
			target := loadTarget(t, dev, pair[0], graph.Options{MaxRows: 16, Tuning: untimed(t, testModel(t, pair[0]))})
			f := testModel(t, pair[1])
			draft, err := LoadDraft(background, dev, f, graph.Options{Context: 128, TopK: 4, MaxRows: 16,
				Tuning: untimed(t, f)})
			if err != nil {
				t.Fatal(err)
			}
			generate := func(s spec.Sampling, c method.Config) (out []int32, stats spec.Stats) {
				t.Helper()
				target.Reset()
				draft.Reset()
				g, err := method.New(target, c, draft, draft) // as either source
				if err != nil {
					t.Fatal(err)
				}
				stats, err = g.Generate(background, []int32{79, 397, 101, 369, 112, 259, 307, 305, 410},
					spec.Options{Sampling: s, MaxTokens: tokens}, func(e *spec.Event) error {
						out = append(out, e.Tokens...)
						return nil
					})
				if err != nil {
					t.Fatalf("%s: %+v: %v", pair[0], c, err)
				}
				return out, stats
			}
			samplings := []spec.Sampling{{}, {Temperature: 0.8, Seed: 5}}
			if dev.Info().Host() { // slow
				tokens, samplings = 10, samplings[:1]
			}
			if !full() { // the pairs share out the samplings
				samplings = samplings[i%len(samplings):][:1]
			}
			for _, s := range samplings {
				want, _ := generate(s, method.Config{Drafter: method.DrafterNone})
				for _, c := range []method.Config{{Drafter: method.DrafterChain, Depth: 4},
					{Drafter: method.DrafterEAGLE2, Depth: 3, TopK: 4, Nodes: 12}} {
					got, stats := generate(s, c)
					if !slices.Equal(got, want) || len(got) != tokens {
						t.Errorf("%s, temperature %g, %s: %v, plain decoding gives %v", pair[0], s.Temperature,
							c.Drafter, got, want)
					}
					if stats.Drafted == 0 || stats.AcceptedLength() < 1.2 {
						t.Errorf("%s, %s: %d drafted, %.2f tokens a pass", pair[0], c.Drafter, stats.Drafted,
							stats.AcceptedLength())
					}
				}
			}
			draft.Close()
			target.Close()
		}
	})
}

// TestPlanOfAHeadIsExact compares the plan of an EAGLE-3 head with what loading allocates for head and target.
func TestPlanOfAHeadIsExact(t *testing.T) {
	dev := kerneltest.Reference(t)
	f := testModel(t, "tiny-f32")
	for _, own := range []bool{false, true} {
		of := graph.Options{Context: 96, TopK: 4, MaxRows: 32}
		target, err := LoadTarget(background, dev, f, of)
		if err != nil {
			t.Fatal(err)
		}
		w, err := convert.Head(randomHead(t, target.Graph.Arch, safetensors.BF16, own, nil))
		if err != nil {
			t.Fatal(err)
		}
		want, features, err := PlanEAGLE3(f, of, w, graph.Options{KV: kernels.KVQ8}, dev.Info().Limits)
		if err != nil {
			t.Fatal(err)
		}
		before := target.Graph.Info().GPUBytes
		head, err := LoadEAGLE3(background, dev, target, w, graph.Options{KV: kernels.KVQ8})
		if err != nil {
			t.Fatal(err)
		}
		if got := head.Graph.Info().GPUBytes; got != want.Total() || want.Weights <= 0 || want.KV <= 0 {
			t.Errorf("loading a head took %d bytes, planned %+v", got, want)
		}
		if got := target.Graph.Info().GPUBytes - before; got != features || features == 0 {
			t.Errorf("the target keeps %d bytes for it, planned %d", got, features)
		}
		head.Close()
		target.Close()
	}
}
