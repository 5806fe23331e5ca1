package runner

import (
	"math"
	"testing"

	"foretoken/models/graph"
	"foretoken/models/safetensors"
	"foretoken/spec"
	"foretoken/webgpu"
	"foretoken/webgpu/kernels"
	"foretoken/webgpu/kernels/matmul"
)

// counting is a GPU without memory that counts submits and dispatches.
type counting struct {
	*graph.DryRun
	programs            []int // dispatches of each
	submits, dispatches int
}

func (c *counting) NewProgram(_ string, dispatches []webgpu.Dispatch) (webgpu.Program, error) {
	c.programs = append(c.programs, len(dispatches))
	return webgpu.Program(len(c.programs)), nil
}

func (c *counting) Run(programs []webgpu.Program, _ ...webgpu.Region) error {
	c.submits++
	for _, p := range programs {
		c.dispatches += c.programs[p-1]
	}
	return nil
}

// TestDispatchesOfAStep counts what a step of plain decoding asks of a GPU: one submit, five dispatches a layer, one
// more where attention splits the positions, and at most six besides. Biases, norms of heads and a cache of bytes keep
// the rotary embedding from being the end of a product, which takes a dispatch more, and the norms take another.
func TestDispatchesOfAStep(t *testing.T) {
	besides := 0
	for _, c := range []struct {
		model string
		kv    kernels.KVFormat
		layer int // dispatches
	}{
		{"tiny-q8_0", kernels.KVF32, 5}, {"llama-q8_0", kernels.KVF32, 5}, {"llama-q8_0", kernels.KVF16, 5},
		{"llama-q4_0", kernels.KVF16, 5}, {"mistral3-q8_0", kernels.KVF32, 5}, {"llama-q8_0", kernels.KVQ8, 6},
		{"qwen2-q8_0", kernels.KVF16, 6}, {"qwen3-q8_0", kernels.KVF16, 7}, {"qwen3-q8_0", kernels.KVQ8, 7},
	} {
		for _, context := range []int{128, 256} {
			info := webgpu.Info{Backend: "native", Limits: webgpu.DefaultLimits()}
			info.Limits.MaxBindingSize, info.Limits.MaxBufferSize = math.MaxInt32, math.MaxInt32
			dev := &counting{DryRun: graph.NewDryRun(info)}
			m := loadTarget(t, dev, c.model, graph.Options{Context: context, KV: c.kv, MaxRows: 8, TopK: 4})
			if err := m.Prefill(background, []int32{1, 2, 3}); err != nil {
				t.Fatal(err)
			}
			tree := &spec.Tree{}
			tree.Reset(4)
			step := func() {
				dev.submits, dev.dispatches = 0, 0
				if _, err := verify(m, tree, spec.Sampling{}); err != nil {
					t.Fatal(err)
				}
			}
			step() // records the program
			step()
			layer := c.layer
			if context > 128 {
				layer++
			}
			layers := len(m.Graph.Arch.Layers)
			rest := dev.dispatches - layer*layers
			if besides == 0 {
				besides = rest
			}
			guess, read := m.Graph.Work()
			if guess != dev.dispatches || read <= 0 || read >= m.Graph.Bytes() {
				t.Errorf("%s: Work returns %d dispatches and %d bytes; it has %d of %d", c.model, guess, read,
					dev.dispatches, m.Graph.Bytes())
			}
			if dev.submits != 1 || rest != besides || rest < 1 || rest > 6 {
				t.Errorf("%s, cache %v, context %d: %d submits, %d dispatches for %d layers; want 1 and %d·%d + %d",
					c.model, c.kv, context, dev.submits, dev.dispatches, layers, layer, layers, besides)
			}
		}
	}
	t.Log("besides the layers:", besides)
}

// TestDispatchesOfPackedProducts expects a packed product to take a dispatch more, and Work to know it.
func TestDispatchesOfPackedProducts(t *testing.T) {
	info := webgpu.Info{Backend: "browser", Limits: webgpu.DefaultLimits(), Features: []string{matmul.DotProduct}}
	counts, guesses := map[bool]int{}, map[bool]int{}
	weights := 0
	for _, packed := range []bool{false, true} {
		dev := &counting{DryRun: graph.NewDryRun(info)}
		var features []string
		if packed {
			features = info.Features
		}
		o := graph.Options{MaxRows: 8, TopK: 4, Tuning: untimed(t, testModel(t, "llama-q8_0"), features...)}
		m := loadTarget(t, dev, "llama-q8_0", o)
		tree := &spec.Tree{}
		tree.Reset(4)
		for range 2 { // the first records the program
			dev.dispatches = 0
			if _, err := verify(m, tree, spec.Sampling{}); err != nil {
				t.Fatal(err)
			}
		}
		counts[packed], weights = dev.dispatches, 0
		guesses[packed], _ = m.Graph.Work()
		for _, of := range m.Graph.Matrices() {
			weights += len(of.Weights)
		}
	}
	if counts[true]-counts[false] != weights || guesses[true]-guesses[false] != weights {
		t.Errorf("%d products: %v dispatches, Work returns %v", weights, counts, guesses)
	}
}

// TestWorkOfAHead counts the dispatches of a level of a head.
func TestWorkOfAHead(t *testing.T) {
	info := webgpu.Info{Backend: "native", Limits: webgpu.DefaultLimits()}
	dev := &counting{DryRun: graph.NewDryRun(info)}
	target, head, _ := headed(t, dev, safetensors.F16, false, graph.Options{MaxRows: 8, TopK: 4})
	if err := target.Prefill(background, []int32{1, 2, 3}); err != nil {
		t.Fatal(err)
	}
	counts := map[int]int{} // of a tree by its levels
	for _, levels := range []int{2, 3} {
		for range 2 { // the first records the program
			head.Reset()
			dev.dispatches = 0
			if err := head.Prefill(background, []int32{1, 2, 3}); err != nil {
				t.Fatal(err)
			}
			before := dev.dispatches
			r := spec.DraftRequest{Pending: []int32{4}, Depth: levels - 1, K: 1}
			if _, err := head.Draft(background, r); err != nil {
				t.Fatal(err)
			}
			counts[levels] = dev.dispatches - before
		}
	}
	dispatches, _ := head.Graph.Work()
	if level := counts[3] - counts[2]; level != dispatches+1 { // beams are chosen too
		t.Errorf("a level has %d dispatches of %v; Work says %d", level, counts, dispatches)
	}
}
