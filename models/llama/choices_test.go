package llama

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"strings"
	"testing"

	"foretoken/models/gguf"
	"foretoken/webgpu"
	"foretoken/webgpu/kernels"
)

// formatTypes are the types that tensors are stored in on a device.
var formatTypes = []gguf.Type{gguf.F32, gguf.F16, gguf.BF16, gguf.Q4_0, gguf.Q4_1, gguf.Q5_0, gguf.Q5_1, gguf.Q8_0, gguf.Q2_K, gguf.Q3_K, gguf.Q4_K, gguf.Q5_K, gguf.Q6_K, gguf.IQ4NL}

// TestChoicesShipped holds choices.json to the families there are, and to what timing would have to find out.
func TestChoicesShipped(t *testing.T) {
	formats := map[string]bool{}
	for _, typ := range formatTypes {
		formats[strings.ToLower(typ.String())] = true
	}
	for _, c := range measuredChoices() {
		if c.Backend == "" || c.Adapter == "" || c.Adapter != strings.ToLower(c.Adapter) || c.Rows != "1" && c.Rows != "64" {
			t.Errorf("choices.json: %+v", c)
		}
		for format := range formats {
			if _, ok := kernels.ParseFamily(webgpu.Info{Features: []string{"subgroups"}}, c.Families[format]); !ok {
				t.Errorf("choices.json: %s %s: %s has family %q, which there is not; run make choices", c.Backend, c.Adapter, format, c.Families[format])
			}
		}
		for format := range c.Families {
			if !formats[format] {
				t.Errorf("choices.json: %s %s: there is no format %s", c.Backend, c.Adapter, format)
			}
		}
	}
	for _, i := range []webgpu.Info{{Backend: "native", Adapter: "NVIDIA llvmpipe"}, {Backend: "native", Adapter: "softpipe", Software: true}, {}} {
		if c := choicesFor(i); c.Families != nil {
			t.Errorf("%+v has choices %+v", i, c)
		}
	}
}

// TestChoicesInOrder loads a model whose choice is known from before, from the program and from timing.
func TestChoicesInOrder(t *testing.T) {
	dev := accelerator(t)
	shipped := choicesFor(dev.Info())
	if shipped.Families == nil {
		t.Skipf("nothing was measured on %s %s", dev.Info().Backend, dev.Info().Adapter)
	}
	f := testModel(t, "s260k-q8_0")
	load := func(o Options) map[string]string {
		o.MaxRows = 4
		m, err := LoadTarget(background, dev, f, o)
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		return m.Tuning()
	}
	all := func(tuning map[string]string, rows, family string) {
		t.Helper()
		for class, got := range tuning {
			if want := map[bool]string{true: rows, false: family}[class == "rows"]; got != want {
				t.Errorf("%s is %s, want %s", class, got, want)
			}
		}
	}
	known := load(Options{})
	all(known, shipped.Rows, shipped.Families["q8_0"])
	other := kernels.Families(dev.Info())[0].String()
	if other == shipped.Families["q8_0"] {
		other = kernels.Families(dev.Info())[1].String()
	}
	before := maps.Clone(known)
	for class := range before {
		before[class] = other
	}
	before["rows"] = "64"
	all(load(Options{Tuning: before}), "64", other)
	steps := 0
	timed := load(Options{timed: true, Preparing: func(step string) {
		if strings.HasPrefix(step, "timing") {
			steps++
		}
	}})
	want := 2 // families and reductions
	if dev.Info().Software {
		want = 1 // reductions are not timed there
	}
	if steps < want || len(timed) != len(known) {
		t.Errorf("%d steps of timing chose %v", steps, timed)
	}
}

// TestMeasureChoices times every format on a matrix of some size and prints an entry of
// choices.json: scripts/choices.sh runs it.
func TestMeasureChoices(t *testing.T) {
	if os.Getenv("FORETOKEN_CHOICES") == "" {
		t.Skip("only where FORETOKEN_CHOICES is set")
	}
	dev := accelerator(t)
	i := dev.Info()
	name := strings.ToLower(strings.Join([]string{i.Vendor, i.Architecture, i.Adapter}, " "))
	c := choices{Backend: i.Backend, Adapter: name, Families: map[string]string{}}
	for _, short := range []string{"swiftshader", "llvmpipe"} {
		if strings.Contains(name, short) {
			c.Adapter = short
		}
	}
	for _, typ := range formatTypes {
		model := newToy(func(t *toy) { t.dim, t.ffn, t.heads, t.kv, t.head, t.layers, t.vocab = 256, 768, 4, 2, 64, 1, 2048 })
		model.store(t, func(name string) gguf.Type {
			if strings.Contains(name, "norm") {
				return gguf.F32
			}
			return typ
		})
		m, err := LoadTarget(background, dev, model.file(t), Options{MaxRows: 4, timed: true})
		if err != nil {
			t.Fatal(err)
		}
		for class, family := range m.Tuning() {
			if class == "rows" {
				c.Rows = family
			} else if format, _, _ := strings.Cut(class, " "); format == strings.ToLower(typ.String()) {
				c.Families[format] = family
			}
		}
		m.Close()
	}
	line, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Printf("choices %s\n", line)
}
