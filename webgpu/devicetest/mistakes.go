package devicetest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"foretoken/webgpu"
)

func testKernelCache(t *testing.T, dev webgpu.Device) {
	h := h{t, dev}
	first := h.kernel(affine())
	if again := h.kernel(affine()); again != first {
		t.Errorf("the same key gave handles %d and %d", first, again)
	}
	if other := h.kernel(accumulate()); other == first {
		t.Error("two kernels have the same handle")
	}
	if c := dev.Counters(); c.Kernels != 2 {
		t.Errorf("%d kernels were compiled, want 2", c.Kernels)
	}
	other := accumulate()
	other.Key = affine().Key
	_, err := NewKernel(dev, other)
	fails(t, "a key used for two shaders", err, "accumulate", "affine")
}

func testNewKernels(t *testing.T, dev webgpu.Device) {
	h := h{t, dev}
	one := h.kernel(sum())
	sources := []*webgpu.KernelSource{affine(), sum(), accumulate(), sum(), swapHalves(), saxpy(), affine(), places()}
	kernels, err := dev.NewKernels(sources)
	if err != nil {
		t.Fatal(err)
	}
	if len(kernels) != len(sources) {
		t.Fatalf("%d kernels for %d sources", len(kernels), len(sources))
	}
	if kernels[1] != one || kernels[3] != one || kernels[0] != kernels[6] {
		t.Errorf("the same keys gave other handles: %v", kernels)
	}
	distinct := slices.Compact(slices.Sorted(slices.Values(kernels)))
	if len(distinct) != 6 || dev.Counters().Kernels != 6 {
		t.Errorf("6 sources gave %d kernels, %d compiled", len(distinct), dev.Counters().Kernels)
	}
	// Each handle must be the kernel of its source.
	y := h.words("y", 7)
	x := h.words("x", 4)
	prog := h.program("accumulate", dispatch(kernels[2], 1, x, y))
	equal(t, "accumulate", h.read(y, 0, 1, prog), []uint32{25})

	if dev.Info().Host() {
		return // such devices compile nothing
	}
	bad := affine()
	bad.Name, bad.Key, bad.WGSL = "bad", "devicetest/bad", Text(bad.WGSL()+"fn oops( {\n")
	good := wide(2)
	_, err = dev.NewKernels([]*webgpu.KernelSource{good, bad})
	fails(t, "one of several kernels is wrong", err, "bad", "fn oops")
	h.kernel(good)
}

func testShaderErrors(t *testing.T, dev webgpu.Device) {
	needCompiler(t, dev)
	for _, c := range []struct {
		name, wgsl string
		line       int
		source     string
	}{
		{"syntax", "@compute @workgroup_size(1)\nfn main() {\n  let x = 1u\n  let y = ;\n}\n", 4, "let y = ;"},
		{"type", "@compute @workgroup_size(1)\nfn main() {\n\n  let x: u32 = 1.5;\n}\n", 4, "let x: u32 = 1.5;"},
		{"name", "@compute @workgroup_size(1)\nfn main() {\n  missing(1u);\n}\n", 3, "missing(1u);"},
		{"store to read-only", "@group(0) @binding(0) var<storage, read> x: array<u32>;\n" +
			"@compute @workgroup_size(1)\nfn main() {\n  x[0] = 1u;\n}\n", 4, "x[0] = 1u;"},
	} {
		src := &webgpu.KernelSource{Name: "wrong " + c.name, Key: "devicetest/wrong/" + c.name, WGSL: Text(c.wgsl),
			Bindings: []webgpu.Access{webgpu.ReadOnly}}
		_, err := NewKernel(dev, src)
		fails(t, c.name, err, src.Name, c.source)
		var shader *webgpu.ShaderError
		if !errors.As(err, &shader) {
			t.Errorf("%s: %T is no ShaderError", c.name, err)
			continue
		}
		// A compiler may notice a missing semicolon where the next line begins.
		if d := c.line - shader.Line; d != 0 && !(c.name == "syntax" && d == 1) {
			t.Errorf("%s: line %d, want %d", c.name, shader.Line, c.line)
		}
	}
	entry := affine()
	entry.Name, entry.Key = "no entry point", "devicetest/noentry"
	entry.WGSL = Text(strings.Replace(entry.WGSL(), "fn main", "fn other", 1))
	_, err := NewKernel(dev, entry)
	fails(t, "no function main", err, entry.Name)

	layout := affine()
	layout.Name, layout.Key = "other layout", "devicetest/layout"
	layout.Bindings = []webgpu.Access{webgpu.Constants, webgpu.ReadOnly}
	_, err = NewKernel(dev, layout)
	fails(t, "bindings declared otherwise than in the WGSL", err, layout.Name)

	large := places()
	large.Name, large.Key = "large workgroup", "devicetest/largegroup"
	large.WGSL = Text(strings.Replace(large.WGSL(), "workgroup_size(1)",
		fmt.Sprintf("workgroup_size(%d)", 2*dev.Info().Limits.MaxWorkgroupInvocations), 1))
	_, err = NewKernel(dev, large)
	fails(t, "more invocations than the limit", err, large.Name)

	if dev.Info().Backend == "native" {
		t.Log("not tested: this wgpu-native does not hold a kernel to the limit of workgroup memory")
		return
	}
	memory := places()
	memory.Name, memory.Key = "workgroup memory", "devicetest/groupmemory"
	memory.WGSL = Text(fmt.Sprintf("var<workgroup> w: array<u32, %d>;\n", dev.Info().Limits.MaxWorkgroupStorage/4+4) +
		strings.Replace(memory.WGSL(), "  y[", "  w[g.x] = 1u;\n  y[w[g.y] + ", 1))
	_, err = NewKernel(dev, memory)
	fails(t, "more workgroup memory than the limit", err, memory.Name)
}

func testKernelErrors(t *testing.T, dev webgpu.Device) {
	_, err := NewKernel(dev, nil)
	fails(t, "no source", err)
	keyless := affine()
	keyless.Key = ""
	_, err = NewKernel(dev, keyless)
	fails(t, "no key", err, "affine")
	most := dev.Info().Limits.MaxStorageBuffers
	_, err = NewKernel(dev, wide(most+1))
	fails(t, "one storage binding too many", err, "wide", fmt.Sprint(most))

	// The limit itself must work, up to what a compiler can be asked for: some drivers allow a million.
	most = min(most, 64)
	h := h{t, dev}
	y := h.buffer("y", 4, webgpu.Storage)
	var bindings []webgpu.Binding
	want := uint32(0)
	for i := range most - 1 {
		bindings = append(bindings, webgpu.Binding{Buffer: h.words("x", uint32(i+1))})
		want += uint32(i + 1)
	}
	bindings = append(bindings, webgpu.Binding{Buffer: y})
	prog := h.program("wide", webgpu.Dispatch{Kernel: h.kernel(wide(most)), Bindings: bindings,
		Groups: [3]int{1, 1, 1}})
	equal(t, "the most storage bindings", h.read(y, 0, 1, prog), []uint32{want})
}

func testBufferErrors(t *testing.T, dev webgpu.Device) {
	limit := dev.Info().Limits.MaxBufferSize
	for _, size := range []int{0, -4, limit + 4, 1 << 40} {
		b, err := dev.NewBuffer("ill-sized", size, webgpu.Storage)
		fails(t, fmt.Sprintf("a buffer of %d bytes", size), err, "ill-sized")
		if b != 0 {
			t.Errorf("a failed NewBuffer gave handle %d", b)
		}
	}
	_, err := dev.NewBuffer("odd usage", 4, webgpu.Usage(7))
	fails(t, "an unknown usage", err, "odd usage")
	if c := dev.Counters(); c.Buffers != 0 {
		t.Errorf("%d buffers were counted, all failed", c.Buffers)
	}
}

func testBindingErrors(t *testing.T, dev webgpu.Device) {
	h := h{t, dev}
	k := h.kernel(affine())
	params := h.buffer("params", 512, webgpu.Uniform)
	y := h.buffer("y", 1024, webgpu.Storage)
	good := []webgpu.Binding{{Buffer: params, Size: 16}, {Buffer: y}}
	try := func(what string, groups [3]int, bindings []webgpu.Binding, names ...string) {
		t.Helper()
		p, err := dev.NewProgram("prog", []webgpu.Dispatch{
			{Kernel: k, Bindings: good, Groups: [3]int{1, 1, 1}},
			{Kernel: k, Bindings: bindings, Groups: groups}})
		fails(t, what, err, append(names, "prog", "dispatch 1", "affine")...)
		if p != 0 {
			t.Errorf("%s: a failed NewProgram gave handle %d", what, p)
		}
	}
	one := [3]int{1, 1, 1}
	try("too few bindings", one, good[:1], "1 bindings", "2")
	try("too many bindings", one, append(slices.Clone(good), good[1]), "3 bindings", "2")
	try("an offset that is not aligned", one, []webgpu.Binding{{Buffer: params, Size: 16}, {Buffer: y, Offset: 128}},
		"y", "128", "256")
	try("a negative offset", one, []webgpu.Binding{{Buffer: params, Size: 16}, {Buffer: y, Offset: -256}}, "y", "-256")
	try("an offset at the end", one, []webgpu.Binding{{Buffer: params, Size: 16}, {Buffer: y, Offset: 1024}}, "y",
		"1024")
	try("a range past the end", one, []webgpu.Binding{{Buffer: params, Size: 16}, {Buffer: y, Offset: 512, Size: 516}},
		"y", "516")
	try("a size that is not words", one, []webgpu.Binding{{Buffer: params, Size: 16}, {Buffer: y, Size: 6}}, "y", "6")
	try("no such buffer", one, []webgpu.Binding{{Buffer: params, Size: 16}, {Buffer: 9999}}, "9999")
	try("storage bound as constants", one, []webgpu.Binding{{Buffer: y, Size: 16}, {Buffer: y}}, "y", "uniform")
	try("constants bound as storage", one, []webgpu.Binding{{Buffer: params, Size: 16}, {Buffer: params}}, "params",
		"storage")
	limit := dev.Info().Limits.MaxWorkgroupsPerDim
	try("too many workgroups", [3]int{1, limit + 1, 1}, good, fmt.Sprint(limit))
	try("negative workgroups", [3]int{-1, 1, 1}, good, "-1")
	if !dev.Info().Host() { // such a device has no layout to check against
		try("fewer bytes than the uniform's struct", one, []webgpu.Binding{{Buffer: params, Size: 8}, {Buffer: y}})
	}

	_, err := dev.NewProgram("prog", []webgpu.Dispatch{{Kernel: 9999, Groups: one}})
	fails(t, "no such kernel", err, "prog", "9999")

	large := h.buffer("large uniform", webgpu.MaxUniformSize+256, webgpu.Uniform)
	try("a uniform binding over the limit", one, []webgpu.Binding{{Buffer: large}, {Buffer: y}}, "large uniform")
	if l := dev.Info().Limits; l.MaxBindingSize <= 256<<20 && l.MaxBufferSize > l.MaxBindingSize {
		big := h.buffer("large storage", l.MaxBindingSize+256, webgpu.Storage)
		try("a storage binding over the limit", one, []webgpu.Binding{{Buffer: params, Size: 16}, {Buffer: big}},
			"large storage")
		h.program("at the limit", webgpu.Dispatch{Kernel: k, Groups: one,
			Bindings: []webgpu.Binding{{Buffer: params, Size: 16}, {Buffer: big, Offset: 256}}})
	}
}

func testAliasing(t *testing.T, dev webgpu.Device) {
	h := h{t, dev}
	b := h.buffer("shared", 1024, webgpu.Storage)
	y := h.buffer("y", 512, webgpu.Storage)
	swap, acc, add := h.kernel(swapHalves()), h.kernel(accumulate()), h.kernel(sum())
	try := func(what string, k webgpu.Kernel, bindings ...webgpu.Binding) {
		t.Helper()
		_, err := dev.NewProgram("prog", []webgpu.Dispatch{{Kernel: k, Bindings: bindings, Groups: [3]int{1, 1, 1}}})
		fails(t, what, err, "prog", "shared")
	}
	lo, hi := webgpu.Binding{Buffer: b, Size: 512}, webgpu.Binding{Buffer: b, Offset: 512}
	all := webgpu.Binding{Buffer: b}
	try("one range writable twice", swap, all, all)
	try("writable ranges that overlap", swap, all, hi)
	try("one range read-only and writable", acc, all, all)
	try("one buffer read-only and writable in two ranges", acc, lo, hi)

	// What WebGPU allows must work: two writable ranges apart, a range read twice.
	in := make([]uint32, 256)
	for i := range in {
		in[i] = uint32(i)
	}
	h.write(b, 0, in...)
	swapped := h.program("swap", webgpu.Dispatch{Kernel: swap, Bindings: []webgpu.Binding{lo, hi},
		Groups: [3]int{2, 1, 1}})
	got := h.read(b, 0, 256, swapped)
	equal(t, "halves swapped", got, append(slices.Clone(in[128:]), in[:128]...))
	twice := h.program("twice", webgpu.Dispatch{Kernel: add, Bindings: []webgpu.Binding{lo, lo, {Buffer: y}},
		Groups: [3]int{2, 1, 1}})
	want := make([]uint32, 128)
	for i := range want {
		want[i] = 2 * in[128+i]
	}
	equal(t, "one range read twice", h.read(y, 0, 128, twice), want)
}

func testFreedHandles(t *testing.T, dev webgpu.Device) {
	h := h{t, dev}
	k := h.kernel(accumulate())
	x, y := h.words("x", 1), h.words("y", 2)
	d := dispatch(k, 1, x, y)
	prog, other := h.program("prog", d), h.program("other", d)
	equal(t, "before", h.read(y, 0, 1, prog), []uint32{7})

	dev.FreeProgram(other)
	dev.FreeProgram(other) // twice does no harm
	dev.FreeProgram(0)
	fails(t, "running a freed program", dev.Run([]webgpu.Program{other}))
	fails(t, "running no program", dev.Run([]webgpu.Program{0}))
	equal(t, "its twin still runs", h.read(y, 0, 1, prog), []uint32{22})

	dev.FreeBuffer(x)
	dev.FreeBuffer(x)
	dev.FreeBuffer(0)
	fails(t, "writing to a freed buffer", dev.Write(x, 0, make([]byte, 4)))
	fails(t, "reading a freed buffer", dev.Run(nil, webgpu.Region{Buffer: x, Dst: make([]byte, 4)}))
	_, err := dev.NewProgram("late", []webgpu.Dispatch{d})
	fails(t, "recording a freed buffer", err, "late", "accumulate")
	fails(t, "running a program of a freed buffer", dev.Run([]webgpu.Program{prog}), "prog", "x")
	if z := h.words("z", 5); z == x {
		t.Error("a handle was given twice")
	}
	fails(t, "running it after another buffer was made", dev.Run([]webgpu.Program{prog}), "prog", "x")
	equal(t, "the others still live", h.read(y, 0, 1), []uint32{22})
	dev.FreeProgram(prog)
}

func testRangeErrors(t *testing.T, dev webgpu.Device) {
	h := h{t, dev}
	b := h.words("words", 1, 2, 3, 4)
	for _, c := range []struct{ offset, n int }{{-4, 4}, {2, 4}, {0, 3}, {16, 4}, {8, 12}, {0, 20}, {1 << 40, 4}} {
		what := fmt.Sprintf("%d bytes at %d of 16", c.n, c.offset)
		fails(t, "writing "+what, dev.Write(b, c.offset, make([]byte, c.n)), "words")
		fails(t, "reading "+what, dev.Run(nil, webgpu.Region{Buffer: b, Offset: c.offset, Dst: make([]byte, c.n)}),
			"words")
	}
	u := h.buffer("constants", 16, webgpu.Uniform)
	fails(t, "reading a uniform buffer", dev.Run(nil, webgpu.Region{Buffer: u, Dst: make([]byte, 4)}), "constants")
	equal(t, "after the errors", h.read(b, 0, 4), []uint32{1, 2, 3, 4})
}

// testWorksAfterErrors makes mistakes of all kinds and then checks that the device still works.
func testWorksAfterErrors(t *testing.T, dev webgpu.Device) {
	h := h{t, dev}
	y := h.words("y", 1)
	x := h.words("x", 1)
	for range 3 {
		_, _ = dev.NewBuffer("bad", -1, webgpu.Storage)
		bad := accumulate()
		bad.Key, bad.WGSL, bad.Reference = "devicetest/unfit", Text("fn ("), nil
		if _, err := NewKernel(dev, bad); err == nil {
			t.Error("nonsense compiled")
		}
		_, _ = dev.NewProgram("bad", []webgpu.Dispatch{{Kernel: 77}})
		_ = dev.Write(99, 0, make([]byte, 4))
		_ = dev.Run([]webgpu.Program{99})
	}
	if err := dev.Lost(); err != nil {
		t.Fatal(err)
	}
	prog := h.program("good", dispatch(h.kernel(accumulate()), 1, x, y))
	equal(t, "after mistakes", h.read(y, 0, 1, prog), []uint32{4})
}
