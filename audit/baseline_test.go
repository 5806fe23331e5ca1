//go:build cgo && !js

package audit

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"foretoken"
	"foretoken/models/demo"
	"foretoken/models/graph"
	"foretoken/models/modeltest"
	"foretoken/spec/method"
	"foretoken/webgpu"
)

// baselineFolder names the variable with the folder that TestBaseline writes.
const baselineFolder = "FORETOKEN_BASELINE"

// TestBaseline writes what scripts/baseline.mjs compares and no command prints, a file a row: the kernels that a GPU
// can be given, and the dispatches of a step.
func TestBaseline(t *testing.T) {
	folder := os.Getenv(baselineFolder)
	if folder == "" {
		t.Skip("node scripts/baseline.mjs runs it")
	}
	write := func(row string, lines []string) {
		text := strings.Join(lines, "\n") + "\n"
		if err := os.WriteFile(filepath.Join(folder, row+".txt"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for name, info := range map[string]webgpu.Info{"gpu": gpuInfo(), "gpu with features": gpuInfo(gpuFeatures...),
		"software": softwareInfo()} {
		list, err := kernelsOf(info, true)
		if err != nil {
			t.Fatal(err)
		}
		var lines []string
		for _, k := range list {
			lines = append(lines, sourceHash(k.KernelSource))
		}
		slices.Sort(lines)
		write("kernels, "+name, slices.Compact(lines))
	}
	for _, c := range []struct {
		model, kv string
		context   int // over 128 attention splits the positions
	}{{"", "f32", 256}, {"llama-q4_0", "f16", 128}, {"qwen2-q8_0", "f16", 256}, {"qwen3-q8_0", "q8", 256},
		{"mistral3-q8_0", "f32", 128}} {
		write("dispatches, "+cmp.Or(c.model, "built-in pair")+" "+c.kv,
			dispatchesOf(t, c.model, foretoken.Options{KV: c.kv, Context: c.context}))
	}
}

// softwareInfo describes a software adapter, which times nothing.
func softwareInfo() webgpu.Info {
	info := gpuInfo()
	info.Software = true
	return info
}

// sourceHash identifies a kernel by its text, whatever its name.
func sourceHash(s *webgpu.KernelSource) string {
	return fmt.Sprintf("%x", sha256.Sum256([]byte(s.Shader())))[:16]
}

// dispatchRecorder is a GPU without memory that lists the dispatches that run on it.
type dispatchRecorder struct {
	*graph.DryRun
	kernels  []string // by handle, from 1
	programs [][]string
	ran      []string // a line a dispatch: kernel, workgroups, bytes of the bindings; and one a submit
}

func (d *dispatchRecorder) Lost() error { return nil }

func (d *dispatchRecorder) NewKernels(sources []*webgpu.KernelSource) ([]webgpu.Kernel, error) {
	handles := make([]webgpu.Kernel, len(sources))
	for i, s := range sources {
		d.kernels = append(d.kernels, sourceHash(s))
		handles[i] = webgpu.Kernel(len(d.kernels))
	}
	return handles, nil
}

func (d *dispatchRecorder) NewProgram(_ string, dispatches []webgpu.Dispatch) (webgpu.Program, error) {
	var lines []string
	for _, one := range dispatches {
		line := fmt.Sprint(d.kernels[one.Kernel-1], " ", one.Groups)
		for _, b := range one.Bindings {
			line += fmt.Sprint(" ", b.Size)
		}
		lines = append(lines, line)
	}
	d.programs = append(d.programs, lines)
	return webgpu.Program(len(d.programs)), nil
}

// Run brings back words that count from 0 in every 256 bytes, in which results begin, so that candidates differ.
func (d *dispatchRecorder) Run(programs []webgpu.Program, reads ...webgpu.Region) error {
	for _, p := range programs {
		d.ran = append(d.ran, d.programs[p-1]...)
	}
	line := "submit"
	for _, r := range reads {
		line += fmt.Sprint(" ", len(r.Dst))
		for i := range len(r.Dst) / 4 {
			binary.LittleEndian.PutUint32(r.Dst[4*i:], uint32(i%64))
		}
	}
	d.ran = append(d.ran, line)
	return nil
}

// dispatchesOf returns the dispatches of a request, greedy and drawn, plain and with trees, of a pair whose draft is
// the target's file; without a name, of the built-in pair with its head.
func dispatchesOf(t *testing.T, model string, o foretoken.Options) []string {
	t.Helper()
	dev := &dispatchRecorder{DryRun: graph.NewDryRun(softwareInfo())}
	target, draft := demo.Target(), demo.Draft()
	policies := []string{method.DrafterNone, method.DrafterChain, method.DrafterEAGLE2, method.DrafterSampled}
	if model == "" {
		o.EAGLE3, o.EAGLE3Config = demo.Head()
		policies = append(policies, "eagle3", "hetero")
		o.Calibrations = &foretoken.Calibrations{}
		for _, f := range demo.Calibrations() {
			if err := o.Calibrations.Parse(f.Name, f.Data); err != nil {
				t.Fatal(err)
			}
		}
	} else {
		var ok bool
		if target, ok = modeltest.Source(model); !ok {
			t.Fatal(model, " is no model")
		}
		draft = target
	}
	s, err := foretoken.Open(context.Background(), dev, target, draft, o)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var lines []string
	for _, policy := range policies {
		for _, temperature := range []float64{0, 0.8} {
			if policy == method.DrafterSampled && temperature > 0 {
				continue // verdicts name nodes of the tree, which counting words cannot
			}
			r := foretoken.DefaultRequest()
			r.Policy, r.Temperature, r.MaxTokens = policy, temperature, 6
			dev.ran = nil
			if _, err := s.Generate(context.Background(), "func", r, nil); err != nil {
				t.Fatalf("%s, %s: %v", model, policy, err)
			}
			lines = append(append(lines, fmt.Sprintf("== %s at %v", policy, temperature)), dev.ran...)
		}
	}
	return lines
}
