package llama

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"foretoken/models/gguf"
	"foretoken/models/llama/tune"
	"foretoken/webgpu"
	"foretoken/webgpu/kernels"
	"foretoken/webgpu/kernels/matmul"
)

// formatTypes are the storage types of tensors on a device.
var formatTypes = []gguf.Type{gguf.F32, gguf.F16, gguf.BF16, gguf.Q4_0, gguf.Q4_1, gguf.Q5_0, gguf.Q5_1, gguf.Q8_0,
	gguf.Q2_K, gguf.Q3_K, gguf.Q4_K, gguf.Q5_K, gguf.Q6_K, gguf.IQ4NL}

// TestChoicesInOrder loads a model whose choices are known, shipped and timed, in this order of precedence. Only
// its output is large enough for wide tiles.
func TestChoicesInOrder(t *testing.T) {
	dev := accelerator(t)
	shipped := tune.Shipped(dev.Info())
	if shipped.Families == nil {
		t.Skipf("nothing was measured on %s %s", dev.Info().Backend, dev.Info().Adapter)
	}
	f := testModel(t, "tiny-q8_0")
	load := func(o Options) map[string]string {
		o.MaxRows = 4
		m, err := LoadTarget(background, dev, f, o)
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		return m.Tuning()
	}
	all := func(tuning map[string]string, rows string, family matmul.Family) {
		t.Helper()
		for class, got := range tuning {
			want := family.Narrow()
			if class == "q8_0 512x64" {
				want = family
			}
			if class == "rows" && got != rows || class != "rows" && got != want.String() {
				t.Errorf("%s is %s, want %s or %s", class, got, rows, want)
			}
		}
	}
	family := shipped.Candidates(dev.Info(), kernels.Q8_0)[0]
	known := load(Options{})
	all(known, shipped.Rows, family)
	if family.Wide == 0 || known["q8_0 512x64"] == "" {
		t.Errorf("%s, %v: no wide tiles", family, known)
	}
	other := matmul.Families(dev.Info())[1]
	before := maps.Clone(known)
	for class := range before {
		before[class] = other.String()
	}
	before["rows"] = "64"
	all(load(Options{Tuning: before}), "64", other)
	steps := 0
	timed := load(Options{timed: true, Preparing: func(step string) {
		if strings.HasPrefix(step, "timing") {
			steps++
		}
	}})
	want := 2 // a timing of families and one of reductions
	if dev.Info().Software {
		want = 1 // software adapters do not time reductions
	}
	if steps < want || len(timed) != len(known) {
		t.Errorf("%d steps of timing chose %v", steps, timed)
	}
}

// TestWidthTimed loads a model in a format whose best tile width depends on the processor. The width is timed once,
// for tiles of that size only, and does not stop a dry run.
func TestWidthTimed(t *testing.T) {
	dev := accelerator(t)
	if len(tune.Shipped(dev.Info()).Candidates(dev.Info(), kernels.Q4_0)) < 2 {
		t.Skipf("on %s %s nothing depends on the processor", dev.Info().Backend, dev.Info().Adapter)
	}
	model := newToy(func(t *toy) { t.dim, t.vocab = 64, 1024 })
	model.store(t, func(name string) gguf.Type {
		if strings.Contains(name, "norm") {
			return gguf.F32
		}
		return gguf.Q4_0
	})
	f := model.file(t)
	load := func(dev webgpu.Device, rows int, known map[string]string) (steps []string, tuning map[string]string) {
		t.Helper()
		m, err := LoadTarget(background, dev, f, Options{MaxRows: rows, Tuning: known, Preparing: func(step string) {
			if strings.HasPrefix(step, "timing") {
				steps = append(steps, step)
			}
		}})
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		return steps, m.Tuning()
	}
	const largest = "q4_0 1024x64"
	steps, tuning := load(dev, 16, nil)
	if !slices.Equal(steps, []string{"timing " + largest}) || tuning[largest] != "quad8x8" &&
		tuning[largest] != "quad8-16x8" || tuning["q4_0 64x96"] != "quad8x8" {
		t.Errorf("%q chose %v", steps, tuning)
	}
	other := maps.Clone(tuning)
	other[largest] = map[string]string{"quad8x8": "quad8-16x8", "quad8-16x8": "quad8x8"}[tuning[largest]]
	for _, known := range []map[string]string{tuning, other} {
		if steps, again := load(dev, 16, known); steps != nil || !maps.Equal(again, known) {
			t.Errorf("with %v known: %q chose %v", known, steps, again)
		}
	}
	if steps, tuning := load(dev, 4, nil); steps != nil || tuning[largest] != "quad8x8" {
		t.Errorf("for four rows: %q chose %v", steps, tuning)
	}
	if steps, tuning := load(NewDryRun(dev.Info()), 16, nil); steps != nil || tuning[largest] != "quad8x8" {
		t.Errorf("dry run: %q chose %v", steps, tuning)
	}
}

var measure = flag.Bool("measure", false, "time every format and print an entry of choices.json")

// TestMeasureChoices times every format on one matrix and prints an entry of choices.json. scripts/choices.sh runs
// it.
func TestMeasureChoices(t *testing.T) {
	if !*measure {
		t.Skip("without -measure")
	}
	dev := accelerator(t)
	i := dev.Info()
	name := strings.ToLower(strings.Join([]string{i.Vendor, i.Architecture, i.Adapter}, " "))
	c := tune.Choices{Backend: i.Backend, Adapter: name, Families: map[string]string{}}
	for _, short := range []string{"swiftshader", "llvmpipe"} {
		if strings.Contains(name, short) {
			c.Adapter = short
		}
	}
	for _, typ := range formatTypes {
		model := newToy(func(t *toy) {
			t.dim, t.ffn, t.heads, t.kv, t.head, t.layers, t.vocab = 256, 768, 4, 2, 64, 1, 2048
		})
		model.store(t, func(name string) gguf.Type {
			if strings.Contains(name, "norm") {
				return gguf.F32
			}
			return typ
		})
		m, err := LoadTarget(background, dev, model.file(t), Options{MaxRows: 16, timed: true})
		if err != nil {
			t.Fatal(err)
		}
		tuning, format := m.Tuning(), blockLayouts[typ].format.String()
		m.Close()
		c.Rows = tuning["rows"]
		family := tuning[format+" 2048x256"]
		chosen, ok := matmul.ParseFamily(i, family)
		if !ok {
			t.Fatalf("%s has family %q", format, family)
		}
		// If an earlier processor chose another width, list both: each processor then times the width.
		for _, f := range tune.Shipped(i).Candidates(i, blockLayouts[typ].format) {
			if f != chosen && f.Narrow() == chosen.Narrow() {
				chosen.Wide = max(f.Wide, chosen.Wide)
				family = chosen.Narrow().String() + " " + chosen.String()
			}
		}
		c.Families[format] = family
	}
	line, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Printf("choices %s\n", line)
}
