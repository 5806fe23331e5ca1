package devicetest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"foretoken/webgpu"
)

// long returns a kernel that takes some time to compile, a different one for each n: it combines y[0] with many
// constants.
func long(n int) *webgpu.KernelSource {
	step := func(i int) uint32 { return uint32(n+1)*2654435761 + uint32(i)*40503 | 1 }
	const steps = 150
	src := &webgpu.KernelSource{Name: "long", Key: fmt.Sprintf("devicetest/long/%d", n),
		Bindings: []webgpu.Access{webgpu.ReadWrite}}
	var text strings.Builder
	text.WriteString("@group(0) @binding(0) var<storage, read_write> y: array<u32>;\n" +
		"@compute @workgroup_size(1)\nfn main() {\n  var s = y[0];\n")
	for i := range steps {
		fmt.Fprintf(&text, "  s = (s ^ (s >> 7u)) * %du;\n", step(i))
	}
	text.WriteString("  y[0] = s;\n}\n")
	src.WGSL = text.String
	src.Reference = func(_ [3]int, b []webgpu.Memory) {
		s := b[0][0]
		for i := range steps {
			s = (s ^ (s >> 7)) * step(i)
		}
		b[0][0] = s
	}
	return src
}

// within fails the test if done is not closed in time.
func within(t *testing.T, what string, done <-chan struct{}) {
	t.Helper()
	select {
	case <-done:
	case <-time.After(30 * time.Second):
		t.Fatalf("%s: still waiting after half a minute", what)
	}
}

// testCompileInBackground runs a program while other kernels compile, requests some of them before they are
// compiled, and runs all.
func testCompileInBackground(t *testing.T, dev webgpu.Device) {
	h := h{t, dev}
	const n = 4
	params, y := h.buffer("params", 16, webgpu.Uniform), h.words("y", 1)
	h.write(params, 0, 1, 3, 5)
	k := h.kernel(affine())
	a := h.program("affine", dispatch(k, 1, params, y))
	sources := []*webgpu.KernelSource{affine()} // already compiled
	for i := range n {
		sources = append(sources, long(i))
	}
	sources = append(sources, long(0)) // twice
	start := time.Now()
	done := webgpu.Compile(dev, sources)
	again := webgpu.Compile(dev, sources[3:5]) // already compiling
	t.Logf("Compile returned after %v", time.Since(start))
	want := uint32(1)
	for range 5 {
		want = want*3 + 5
		equal(t, "a run meanwhile", h.read(y, 0, 1, a), []uint32{want})
	}
	first := h.kernel(long(n - 1)) // may have to wait
	within(t, "Compile", done)
	within(t, "Compile of the same", again)
	within(t, "Compile of nothing", webgpu.Compile(dev, nil))
	within(t, "Compile of what there is", webgpu.Compile(dev, []*webgpu.KernelSource{affine(), long(n - 1)}))
	t.Logf("%d kernels after %v", n, time.Since(start))
	kernels, err := dev.NewKernels(sources)
	if err != nil {
		t.Fatal(err)
	}
	if kernels[0] != k || kernels[n] != first || kernels[1] != kernels[n+1] {
		t.Errorf("the same keys gave other handles: %v", kernels)
	}
	if made := dev.Counters().Kernels; made != n+1 {
		t.Errorf("%d kernels were made, want %d", made, n+1)
	}
	for i := range n { // each handle must be the kernel of its source
		z := h.words("z", 7)
		expect := webgpu.Memory{7}
		long(i).Reference([3]int{1, 1, 1}, []webgpu.Memory{expect})
		p := h.program("long", dispatch(kernels[i+1], 1, z))
		equal(t, fmt.Sprintf("kernel %d", i), h.read(z, 0, 1, p), expect)
	}
}

// testCompileRefused checks that every call that requests an invalid kernel returns the error of its shader.
func testCompileRefused(t *testing.T, dev webgpu.Device) {
	needCompiler(t, dev)
	h := h{t, dev}
	bad := long(100)
	bad.Name, bad.WGSL = "bad", Text(bad.WGSL()+"fn oops( {\n")
	within(t, "Compile", webgpu.Compile(dev, []*webgpu.KernelSource{bad, affine()}))
	for range 2 {
		_, err := NewKernel(dev, bad)
		fails(t, "a shader that was compiled in the background is wrong", err, "bad", "fn oops")
	}
	h.kernel(affine())
	params, y := h.buffer("params", 16, webgpu.Uniform), h.words("y", 1)
	h.write(params, 0, 1, 3, 5)
	p := h.program("affine", dispatch(h.kernel(affine()), 1, params, y))
	equal(t, "after it", h.read(y, 0, 1, p), []uint32{8})
}

// testDestroyedInMidCompile destroys the device while kernels compile.
func testDestroyedInMidCompile(t *testing.T, dev webgpu.Device) {
	var sources []*webgpu.KernelSource
	for i := range 6 {
		sources = append(sources, long(200+i))
	}
	done := webgpu.Compile(dev, sources)
	ended := make(chan error, 1)
	go func() {
		_, err := dev.NewKernels(sources)
		for err == nil { // until Destroy wins
			time.Sleep(time.Millisecond) // Destroy needs a turn on a single thread
			_, err = dev.NewBuffer("late", 4, webgpu.Storage)
		}
		ended <- err
	}()
	time.Sleep(10 * time.Millisecond)
	dev.Destroy()
	within(t, "Compile on a destroyed device", done)
	select {
	case err := <-ended:
		lost(t, "NewKernels in which the device was destroyed", err)
	case <-time.After(30 * time.Second):
		t.Fatal("NewKernels hangs on a destroyed device")
	}
	within(t, "Compile after it", webgpu.Compile(dev, sources))
	_, err := dev.NewKernels(sources)
	lost(t, "NewKernels after it", err)
}
